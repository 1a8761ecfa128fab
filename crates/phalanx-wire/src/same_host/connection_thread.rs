//! The server's end of a connection with shared memory: a thread that serves one same-host peer.
//!
//! With one thread per connection, a request wakes one thread and its reply another. In a pool, a peer would wait while
//! another is served, or every request would wake a second thread that watches the sockets (decision 022).

use super::shared::{MEMORY, Notice};
use super::shared_slot::{self, SharedSlot, Unfit};
use super::{FAULT, FRAME, invalid};
use crate::bulk::Handler;
use crate::connections::Activity;
use crate::frame::{InFrame, OutFrame};
use crate::{fault, limits, memory};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub(super) struct ConnectionThread {
    stream: Arc<UnixStream>,
    slots: Vec<SharedSlot>,
    handler: Arc<dyn Handler>,
    activity: Activity,
    runtime: Handle,
}

impl ConnectionThread {
    /// Receives the memory that the peer offers.
    pub(super) async fn accept(
        stream: tokio::net::UnixStream,
        handler: Arc<dyn Handler>,
        activity: Activity,
    ) -> io::Result<Self> {
        let (byte, file) = stream.async_io(Interest::READABLE, || memory::receive(stream.as_fd())).await?;
        let slots = match file {
            Some(file) if byte == MEMORY => shared_slot::slots(&file)?,
            _ => return Err(invalid("no memory arrived".into())),
        };
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(limits::BODY))?;
        Ok(Self { stream: Arc::new(stream), slots, handler, activity, runtime: Handle::current() })
    }

    /// Serves until the peer closes the connection or this future is dropped.
    pub(super) async fn run(self) -> io::Result<()> {
        let shutdown = ShutdownOnDrop(Arc::clone(&self.stream));
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let serve = move || {
            let _ = end.send(self.serve(stopped));
        };
        std::thread::Builder::new().name("phalanx-serve".into()).spawn(serve)?;
        let result = ended.await.unwrap_or_else(|_| Err(invalid("a request could not be served".into())));
        drop((stop, shutdown));
        result
    }

    fn serve(self, mut stopped: oneshot::Receiver<()>) -> io::Result<()> {
        while let Some(notice) = self.read()? {
            self.activity.heard();
            let Some(answer) = self.answer(notice, &mut stopped)? else { return Ok(()) };
            (&*self.stream).write_all(&answer.to_bytes())?;
            self.activity.heard();
        }
        Ok(())
    }

    /// Waits for the next request; `None` at the end. Once its first byte has arrived, the rest must follow in time.
    fn read(&self) -> io::Result<Option<Notice>> {
        let (mut bytes, mut stream) = ([0; 16], &*self.stream);
        let read = stream.read(&mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        if read < bytes.len() {
            stream.set_read_timeout(Some(limits::BODY))?;
            stream.read_exact(&mut bytes[read..])?;
            stream.set_read_timeout(None)?;
        }
        Ok(Some(Notice::from_bytes(bytes)))
    }

    /// Answers a request; `None` if serving has stopped.
    fn answer(&self, notice: Notice, stopped: &mut oneshot::Receiver<()>) -> io::Result<Option<Notice>> {
        let number = usize::from(notice.slot);
        let Some(slot) = self.slots.get(number) else {
            return Err(invalid(format!("there is no slot {number}")));
        };
        let answer = match slot.take_request(notice.lengths) {
            Ok(frame) => match self.call(frame, stopped) {
                Some(answer) => answer,
                None => return Ok(None),
            },
            Err(error) => Err(error),
        };
        let kept = || invalid("a frame was kept beyond its reply".into());
        let too_large = || Error::new(Code::BadMessage, "a reply is too large for one frame");
        let (kind, lengths) = match answer.map(|frame| slot.put_answer(frame)) {
            Ok(Ok(lengths)) => (FRAME, Ok(lengths)),
            Ok(Err(Unfit::InUse)) => return Err(kept()),
            Ok(Err(Unfit::TooLarge)) => (FAULT, slot.put_answer(error_frame(&too_large()))),
            Err(error) => (FAULT, slot.put_answer(error_frame(&error))),
        };
        if !slot.is_free() {
            // The peer may write here from now on, so nothing here may hold it.
            return Err(kept());
        }
        let lengths = lengths.map_err(|_| invalid("an error does not fit into a frame".into()))?;
        Ok(Some(Notice { kind, slot: notice.slot, lengths }))
    }

    fn call(&self, frame: InFrame, stopped: &mut oneshot::Receiver<()>) -> Option<Result<OutFrame>> {
        let call = Arc::clone(&self.handler).call(frame);
        self.runtime.block_on(async {
            tokio::select! {
                // First: once the runtime has stopped, the call must not be polled.
                biased;
                _ = stopped => None,
                answer = call => Some(answer),
            }
        })
    }
}

/// Ends the thread's wait for a request when [`ConnectionThread::run`] is dropped, as it is when serving stops.
struct ShutdownOnDrop(Arc<UnixStream>);

impl Drop for ShutdownOnDrop {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Returns a frame whose body is an error.
fn error_frame(error: &Error) -> OutFrame {
    let mut frame = OutFrame::default();
    frame.push(Bytes::from(fault::error_to_bytes(error)));
    frame
}

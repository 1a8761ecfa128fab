//! The server's end of a connection with shared memory: a thread that serves one neighbour.
//!
//! With one thread to a connection a request wakes one thread and its answer another. From a pool, a neighbour would wait
//! while another one is served, or every request wake a second thread that watches the sockets meanwhile (decision 022).

use super::room::{self, Room, Unfit};
use super::shared::{MEMORY, Notice};
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

pub(super) struct Attendant {
    stream: Arc<UnixStream>,
    rooms: Vec<Room>,
    handler: Arc<dyn Handler>,
    activity: Activity,
    runtime: Handle,
}

impl Attendant {
    /// Takes the memory that the neighbour offers.
    pub(super) async fn accept(
        stream: tokio::net::UnixStream,
        handler: Arc<dyn Handler>,
        activity: Activity,
    ) -> io::Result<Self> {
        let (byte, file) = stream.async_io(Interest::READABLE, || memory::receive(stream.as_fd())).await?;
        let rooms = match file {
            Some(file) if byte == MEMORY => room::rooms(&file)?,
            _ => return Err(invalid("no memory came".into())),
        };
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(limits::BODY))?;
        Ok(Self { stream: Arc::new(stream), rooms, handler, activity, runtime: Handle::current() })
    }

    /// Serves until the neighbour goes, or nobody waits for the end of it any more.
    pub(super) async fn attend(self) -> io::Result<()> {
        let line = Line(Arc::clone(&self.stream));
        let (stop, stopped) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let serve = move || {
            let _ = end.send(self.serve(stopped));
        };
        std::thread::Builder::new().name("phalanx-serve".into()).spawn(serve)?;
        let result = ended.await.unwrap_or_else(|_| Err(invalid("a request could not be served".into())));
        drop((stop, line));
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

    /// The next request, however long it takes to begin; one that has begun must come. `None` at the end.
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

    /// `None` when nobody is to be served any more.
    fn answer(&self, notice: Notice, stopped: &mut oneshot::Receiver<()>) -> io::Result<Option<Notice>> {
        let number = usize::from(notice.room);
        let Some(room) = self.rooms.get(number) else {
            return Err(invalid(format!("there is no room {number}")));
        };
        let answer = match room.take_request(notice.lengths) {
            Ok(frame) => match self.call(frame, stopped) {
                Some(answer) => answer,
                None => return Ok(None),
            },
            Err(error) => Err(error),
        };
        let kept = || invalid("a frame was kept beyond its answer".into());
        let too_large = || Error::new(Code::BadMessage, "an answer is too large for one frame");
        let (kind, lengths) = match answer.map(|frame| room.put_answer(frame)) {
            Ok(Ok(lengths)) => (FRAME, Ok(lengths)),
            Ok(Err(Unfit::Lent)) => return Err(kept()),
            Ok(Err(Unfit::TooLarge)) => (FAULT, room.put_answer(said(&too_large()))),
            Err(error) => (FAULT, room.put_answer(said(&error))),
        };
        if !room.is_free() {
            // The neighbour may write here from now on; nobody may have kept any of it.
            return Err(kept());
        }
        let lengths = lengths.map_err(|_| invalid("an error that does not fit".into()))?;
        Ok(Some(Notice { kind, room: notice.room, lengths }))
    }

    fn call(&self, frame: InFrame, stopped: &mut oneshot::Receiver<()>) -> Option<Result<OutFrame>> {
        let call = Arc::clone(&self.handler).call(frame);
        self.runtime.block_on(async {
            tokio::select! {
                // First: where the runtime is gone, nothing that waits for it may be asked.
                biased;
                _ = stopped => None,
                answer = call => Some(answer),
            }
        })
    }
}

/// Ends the thread's wait for a request when the task that waits for the thread is dropped, as it is when serving stops.
struct Line(Arc<UnixStream>);

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// An error as a frame's body.
fn said(error: &Error) -> OutFrame {
    let mut frame = OutFrame::default();
    frame.push(Bytes::from(prost::Message::encode_to_vec(&fault::to_wire(error))));
    frame
}

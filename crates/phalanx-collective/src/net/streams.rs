//! Pipes between processes: a socket to each member, driven by the thread that calls.

use super::bridge::Bridge;
use super::notices::Notices;
use super::watch::watch;
use crate::board::Board;
use crate::pipes::Pipes;
use phalanx_base::{Code, Context, Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) struct Streams {
    data: Vec<Option<UnixStream>>,
    bell: UnixStream,
    notices: Arc<Notices>,
    watcher: Option<JoinHandle<()>>,
    bridge: Bridge,
}

impl Streams {
    /// Starts with a socket to each other member for numbers, and one for notices.
    pub(super) fn start(
        rank: usize,
        lanes: [Vec<Option<UnixStream>>; 2],
        board: Arc<Board>,
        bridge: Bridge,
        silence: Duration,
    ) -> Result<Self> {
        let wrong = "the group's sockets cannot be used";
        for stream in lanes.iter().flatten().flatten() {
            stream.set_nonblocking(true).context(Code::Internal, wrong)?;
        }
        let (bell, rope) = UnixStream::pair().context(Code::Internal, wrong)?;
        rope.set_nonblocking(true).context(Code::Internal, wrong)?;
        let [data, lanes] = lanes;
        let notices = Arc::new(Notices::new(rank, lanes, board, rope));
        let watched = Arc::clone(&notices);
        let watcher = std::thread::Builder::new().name("phalanx-watch".into()).spawn(move || watch(&watched, silence));
        let watcher = Some(watcher.context(Code::Internal, "the thread that watches the group cannot be started")?);
        Ok(Self { data, bell, notices, watcher, bridge })
    }

    fn stream(&self, peer: usize) -> io::Result<&UnixStream> {
        self.data.get(peer).and_then(Option::as_ref).ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

/// Not now is no error: nothing was moved.
fn moved(result: io::Result<usize>, closed: ErrorKind) -> io::Result<usize> {
    match result {
        Ok(0) => Err(closed.into()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        other => other,
    }
}

impl Pipes for Streams {
    fn send(&mut self, to: usize, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        moved(self.stream(to)?.write_vectored(&parts), ErrorKind::BrokenPipe)
    }

    fn receive(&mut self, from: usize, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        moved(self.stream(from)?.read(into), ErrorKind::UnexpectedEof)
    }

    fn wait(&mut self, to: Option<usize>, from: Option<usize>, timeout: Duration) {
        let fd = |peer: Option<usize>, flags| {
            let stream = peer.and_then(|peer| self.data[peer].as_ref());
            PollFd::new(stream.unwrap_or(&self.bell), if stream.is_some() { flags } else { PollFlags::IN })
        };
        let mut polled = [fd(None, PollFlags::IN), fd(to, PollFlags::OUT), fd(from, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).unwrap_or_default();
        // Whatever happened, or did not: the caller looks for itself.
        let _ = poll(&mut polled, Some(&timeout));
    }

    fn spread(&mut self, error: &Error) {
        self.notices.spread(error);
    }

    fn close(&mut self) {
        self.notices.close();
        for stream in self.data.iter().flatten() {
            // What was sent is still read by the other side.
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(watcher) = self.watcher.take() {
            // A panic there has been reported by the panic hook.
            let _ = watcher.join();
        }
        self.bridge.finish();
    }
}

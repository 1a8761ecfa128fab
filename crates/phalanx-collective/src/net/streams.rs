//! Pipes between processes: a link to each member, driven by the thread that calls.

use super::link::Link;
use super::notices::Notices;
use super::watch::watch;
use crate::group_failure::GroupFailure;
use crate::pipes::Pipes;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_wire::PeerStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a member yields and looks again before it sleeps: waking up takes longer than a short wait.
const SPINS: usize = 30;

/// How long leaving may take.
const PARTING: Duration = Duration::from_secs(1);

pub(super) struct Streams {
    links: Vec<Option<Link>>,
    wakeups: UnixStream,
    notices: Arc<Notices>,
    watcher: Option<JoinHandle<()>>,
}

impl Streams {
    /// Starts the watch thread. Each other member has a link for numbers and a lane for notices.
    pub(super) fn start(
        rank: usize,
        links: Vec<Option<Link>>,
        lanes: Vec<Option<PeerStream>>,
        failure_state: Arc<GroupFailure>,
        silence: Duration,
    ) -> Result<Self> {
        let wrong = "the group's sockets cannot be used";
        let data = links.iter().flatten().map(|link| &link.stream);
        for stream in data.chain(lanes.iter().flatten()) {
            stream.set_nonblocking(true).context(Code::Internal, wrong)?;
        }
        let (wakeups, waker) = UnixStream::pair().context(Code::Internal, wrong)?;
        waker.set_nonblocking(true).context(Code::Internal, wrong)?;
        let notices = Arc::new(Notices::new(rank, lanes, failure_state, waker));
        let watched = Arc::clone(&notices);
        let watcher = std::thread::Builder::new().name("phalanx-watch".into()).spawn(move || watch(&watched, silence));
        let watcher = Some(watcher.context(Code::Internal, "the thread that watches the group cannot be started")?);
        Ok(Self { links, wakeups, notices, watcher })
    }

    fn link(&mut self, peer: usize) -> io::Result<&mut Link> {
        self.links.get_mut(peer).and_then(Option::as_mut).ok_or_else(|| ErrorKind::NotConnected.into())
    }

    /// Whether bytes can be moved now, as far as can be told without a system call.
    fn is_ready(&self, to: Option<usize>, from: Option<usize>) -> bool {
        let link = |peer: Option<usize>| peer.and_then(|peer| self.links[peer].as_ref());
        link(to).is_some_and(|link| link.is_ready(true, false))
            || link(from).is_some_and(|link| link.is_ready(false, true))
    }
}

impl Pipes for Streams {
    fn send(&mut self, to: usize, first: &[u8], second: &[u8]) -> io::Result<usize> {
        self.link(to)?.send(first, second)
    }

    fn receive(&mut self, from: usize, into: &mut [u8]) -> io::Result<usize> {
        self.link(from)?.receive(into)
    }

    fn wait(&mut self, to: Option<usize>, from: Option<usize>, timeout: Duration) {
        let sides = [(to, true), (from, false)];
        let each = sides.map(|(peer, send)| (peer.and_then(|peer| self.links[peer].as_ref()), send));
        if each.iter().any(|(link, _)| link.is_some_and(Link::has_memory)) {
            for _ in 0..SPINS {
                if self.is_ready(to, from) {
                    return;
                }
                std::thread::yield_now();
            }
        }
        each.iter().for_each(|(link, send)| link.iter().for_each(|link| link.will_wait(*send, !*send)));
        if !self.is_ready(to, from) {
            let wakeups = || PollFd::new(&self.wakeups, PollFlags::IN);
            let fd = |side: usize| match each[side] {
                (Some(link), send) => PollFd::new(&link.stream, link.events(send)),
                _ => wakeups(),
            };
            let mut polled = [wakeups(), fd(0), fd(1)];
            let timeout = Timespec::try_from(timeout).unwrap_or_default();
            // The caller checks by itself what happened.
            let _ = poll(&mut polled, Some(&timeout));
        }
        for (peer, send) in sides {
            if let Some(link) = peer.and_then(|peer| self.links[peer].as_mut()) {
                link.has_waited(send, !send);
            }
        }
    }

    fn broadcast_failure(&mut self, error: &Error) {
        self.notices.broadcast_failure(error);
    }

    fn close(&mut self) {
        self.notices.close();
        for link in self.links.iter().flatten() {
            // What was sent is still read by the other side.
            let _ = link.stream.shutdown(Shutdown::Both);
        }
        if let Some(watcher) = self.watcher.take() {
            // A panic there has been reported by the panic hook.
            let _ = watcher.join();
            self.notices.await_ends(PARTING);
        }
    }
}

//! The listening end of a member: it accepts the connections of the other members.

use super::Lane;
use crate::proto::{Carried, Carry, Hello, carry::Action};
use phalanx_base::{Code, Context, Error, Result, TaskId, fnv1a};
use phalanx_wire::bulk::{Handler, Pending, StreamHandler};
use phalanx_wire::{InFrame, OutFrame};
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

/// The most members a group may have.
const MEMBERS: u32 = 4096;
/// The most frames of a lane that may be in flight.
pub(super) const IN_FLIGHT: u64 = 4;
/// How long one attempt to dial may take.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Accepts the connections of the other members, for one formation of the group after another. A task serves it as the
/// bulk handler of its endpoint, and forms groups with [`crate::Group::connect`].
pub struct GroupListener {
    task: TaskId,
    job: u64,
    build: u64,
    state: Mutex<State>,
    arrived: Condvar,
    /// For what outlives a call.
    own: Weak<Self>,
}

/// A lane from a member, in one formation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) epoch: u64,
    pub(super) from: usize,
    pub(super) lane: Lane,
}

#[derive(Default)]
struct State {
    /// The latest formation here, and what its hellos must contain. Others are refused.
    epoch: u64,
    expected: Option<Expected>,
    waiting: HashMap<Key, PendingConnection>,
    taken: HashSet<Key>,
    buffers: HashMap<Key, Arc<ReassemblyBuffer>>,
}

/// What the hellos of a formation must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) rank: u32,
    pub(super) world: u32,
    pub(super) members: u64,
}

impl Expected {
    fn fits(self, hello: &Hello) -> bool {
        self == Self { rank: hello.to, world: hello.world, members: hello.members }
    }
}

/// A connection that has arrived and that no formation has taken yet.
pub(super) struct PendingConnection {
    pub(super) stream: UnixStream,
    /// Set if the member is on another machine: the bytes written into `stream`, to be carried there.
    pub(super) outgoing: Option<OwnedReadHalf>,
}

/// Puts the frames of a member on another machine back into order.
struct ReassemblyBuffer {
    /// The number of the next frame; `None` once the lane is closed.
    next: watch::Sender<Option<u64>>,
    into: tokio::sync::Mutex<OwnedWriteHalf>,
}

impl ReassemblyBuffer {
    /// Writes a frame when its turn comes. Returns once its bytes are written, so a member that sends faster than this one
    /// reads waits.
    async fn put(&self, number: u64, bytes: &[u8]) -> Result<()> {
        let ended = |why: String| Error::new(Code::PeerUnreachable, "the lane between two members ended").because(why);
        let closed = || ended("it was closed".into());
        let next = (*self.next.borrow()).ok_or_else(closed)?;
        if number < next || number - next >= IN_FLIGHT {
            return Err(Error::new(Code::BadMessage, "a frame between members is out of order")
                .because(format!("it is number {number}, {next} is next")));
        }
        let mut changes = self.next.subscribe();
        let turn = changes.wait_for(|next| next.is_none_or(|next| next >= number)).await.map(|next| *next);
        if turn.map_err(|error| ended(error.to_string()))? != Some(number) {
            return Err(closed());
        }
        self.into.lock().await.write_all(bytes).await.map_err(|error| ended(error.to_string()))?;
        self.next.send_modify(|next| *next = next.map(|next| next + 1));
        Ok(())
    }
}

impl GroupListener {
    /// Creates the listener of `task` in the job with this digest. Members of another build are refused.
    #[must_use]
    pub fn new(task: TaskId, job: u64, build: &str) -> Arc<Self> {
        let build = fnv1a(build.bytes());
        Arc::new_cyclic(|own| Self {
            task,
            job,
            build,
            state: Mutex::default(),
            arrived: Condvar::new(),
            own: Weak::clone(own),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Maps are changed by single calls, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hello(&self, epoch: u64, own: Expected, to: usize, lane: Lane) -> Hello {
        Hello {
            job: self.job,
            build: self.build,
            epoch,
            from: own.rank,
            to: to as u32,
            world: own.world,
            members: own.members,
            lane: lane.number(),
        }
    }

    /// Begins a formation, and closes what is left of earlier ones.
    pub(super) fn expect(&self, epoch: u64, expected: Expected) -> Result<()> {
        let mut state = self.state();
        if state.epoch >= epoch {
            return Err(Error::new(Code::BadSetting, format!("{} cannot form the group again", self.task))
                .because(format!("this formation has the epoch {epoch}, and epoch {} was formed before", state.epoch))
                .help("give each formation a higher epoch than the last"));
        }
        state.epoch = epoch;
        state.expected = Some(expected);
        state.waiting.clear();
        state.buffers.retain(|key, _| key.epoch >= epoch);
        state.taken.clear();
        Ok(())
    }

    /// Waits for the connection of a member.
    pub(super) fn take(&self, key: Key, until: Instant) -> Option<PendingConnection> {
        let mut state = self.state();
        loop {
            if let Some(pending) = state.waiting.remove(&key) {
                state.taken.insert(key);
                return Some(pending);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Checks whether a hello is acceptable, and returns its key.
    fn check(&self, hello: &Hello) -> Result<Key> {
        let task = self.task;
        if hello.job != self.job {
            return Err(Error::new(Code::WrongJob, format!("{task} belongs to another job"))
                .help("see whether two jobs use the same address"));
        }
        if hello.build != self.build {
            return Err(Error::new(Code::WrongBuild, format!("{task} runs another build of the program"))
                .help("start every task of the job from the same binary"));
        }
        let lane = Lane::ALL.into_iter().find(|lane| lane.number() == hello.lane);
        let Some(lane) = lane.filter(|_| hello.world <= MEMBERS && hello.from < hello.world) else {
            return Err(Error::new(Code::BadMessage, "a member's hello is malformed").because(format!("{hello:?}")));
        };
        let state = self.state();
        if hello.epoch < state.epoch {
            return Err(Error::new(Code::Fenced, format!("{task} has formed a newer group without this member"))
                .because(format!("its group has the epoch {}, this hello has {}", state.epoch, hello.epoch))
                .help("start the task again, so that it takes part in the next formation"));
        }
        // A connection that is accepted before the list of members is known could only be dropped later, without a word.
        let Some(expected) = state.expected.filter(|_| hello.epoch == state.epoch) else {
            return Err(Error::new(Code::NotInitialized, format!("{task} has not begun to form the group")));
        };
        if !expected.fits(hello) {
            return Err(Error::new(Code::BadSetting, format!("{task} has another list of members"))
                .because(format!("it lists {} members, this task {}, or the lists differ", expected.world, hello.world))
                .help("give every task of the job the same cluster"));
        }
        Ok(Key { epoch: hello.epoch, from: hello.from as usize, lane })
    }

    /// Checks whether a connection may be added under this key.
    fn check_free(&self, key: Key) -> Result<()> {
        let state = self.state();
        if state.taken.contains(&key) {
            return Err(Error::new(Code::Fenced, format!("the group of {} is formed already", self.task))
                .because("another process with the same rank is a member of it")
                .help("start the whole job again; a member cannot be replaced in a running group"));
        }
        if state.waiting.len() >= 2 * MEMBERS as usize {
            return Err(Error::new(Code::BadMessage, "too many connections wait to become members"));
        }
        Ok(())
    }

    fn admit(&self, key: Key, pending: PendingConnection) {
        self.state().waiting.insert(key, pending);
        self.arrived.notify_all();
    }

    /// Creates the reassembly buffer for a member on another machine. Call inside of a tokio runtime.
    pub(super) fn open_buffer(&self, key: Key) -> Result<PendingConnection> {
        let make = || -> io::Result<_> {
            let (stream, other) = UnixStream::pair()?;
            stream.set_nonblocking(true)?;
            other.set_nonblocking(true)?;
            Ok((stream, tokio::net::UnixStream::from_std(other)?.into_split()))
        };
        let (stream, (outgoing, into)) = make().context(Code::Internal, "a socket pair cannot be created")?;
        let buffer = ReassemblyBuffer { next: watch::Sender::new(Some(1)), into: tokio::sync::Mutex::new(into) };
        self.state().buffers.insert(key, Arc::new(buffer));
        Ok(PendingConnection { stream, outgoing: Some(outgoing) })
    }

    /// Waits until the other side has closed its lane.
    pub(super) async fn closed(&self, key: Key) {
        let Some(buffer) = self.state().buffers.get(&key).cloned() else { return };
        // It fails only if the buffer is gone, which is also the end.
        let _ = buffer.next.subscribe().wait_for(Option::is_none).await;
    }

    /// Closes what [`Self::open_buffer`] created: its reader sees the end.
    pub(super) fn close(&self, key: Key) {
        if let Some(buffer) = self.state().buffers.remove(&key) {
            // Frames that wait for their turn are dropped.
            buffer.next.send_replace(None);
        }
    }

    async fn carry(&self, frame: InFrame) -> Result<OutFrame> {
        let carry: Carry = frame.header()?;
        let malformed = || Error::new(Code::BadMessage, "a frame between members is malformed");
        let hello = carry.hello.ok_or_else(malformed)?;
        let key = self.check(&hello)?;
        match carry.action.ok_or_else(malformed)? {
            Action::Open(_) => {
                self.check_free(key)?;
                let pending = self.open_buffer(key)?;
                self.admit(key, pending);
            }
            Action::Close(_) => self.close(key),
            Action::Data(number) => {
                let buffer = self.state().buffers.get(&key).cloned();
                let closed =
                    || Error::new(Code::PeerUnreachable, format!("{} has closed its end of the group", self.task));
                buffer.ok_or_else(closed)?.put(number, &frame.body()).await?;
            }
        }
        Ok(OutFrame::new(&Carried {}))
    }
}

impl Handler for GroupListener {
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move { self.carry(frame).await })
    }

    fn accept_stream(&self, hello: &[u8]) -> Result<StreamHandler> {
        let hello = Hello::decode(hello).context(Code::BadMessage, "a member's hello is malformed")?;
        let key = self.check(&hello)?;
        self.check_free(key)?;
        let own = Weak::clone(&self.own);
        Ok(Box::new(move |stream| {
            if let Some(listener) = own.upgrade() {
                listener.admit(key, PendingConnection { stream, outgoing: None });
            }
        }))
    }
}

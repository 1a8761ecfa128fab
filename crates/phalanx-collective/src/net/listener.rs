//! The listening end of a member: it accepts the connections of the other members.

use super::Lane;
use crate::proto::Hello;
use phalanx_base::{Code, Context, Error, Result, TaskId, fnv1a};
use phalanx_wire::bulk::{Handler, Pending, StreamHandler};
use phalanx_wire::{InFrame, OutFrame, PeerStream};
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The most members a group may have.
const MEMBERS: u32 = 4096;
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
    /// The connections that have arrived and that no formation has taken yet.
    waiting: HashMap<Key, PeerStream>,
    taken: HashSet<Key>,
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
        state.taken.clear();
        Ok(())
    }

    /// Waits for the connection of a member.
    pub(super) fn take(&self, key: Key, until: Instant) -> Option<PeerStream> {
        let mut state = self.state();
        loop {
            if let Some(stream) = state.waiting.remove(&key) {
                state.taken.insert(key);
                return Some(stream);
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

    fn admit(&self, key: Key, stream: PeerStream) {
        self.state().waiting.insert(key, stream);
        self.arrived.notify_all();
    }
}

impl Handler for GroupListener {
    fn call(self: Arc<Self>, _: InFrame) -> Pending<'static, Result<OutFrame>> {
        let error = Error::new(Code::BadMessage, format!("{} is a member of a group and answers no frames", self.task));
        Box::pin(async { Err(error.help("check the address")) })
    }

    fn accept_stream(&self, hello: &[u8]) -> Result<StreamHandler> {
        let hello = Hello::decode(hello).context(Code::BadMessage, "a member's hello is malformed")?;
        let key = self.check(&hello)?;
        self.check_free(key)?;
        let own = Weak::clone(&self.own);
        Ok(Box::new(move |stream| {
            if let Some(listener) = own.upgrade() {
                listener.admit(key, stream);
            }
        }))
    }
}

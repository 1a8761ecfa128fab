//! Where other members knock.

use super::Lane;
use phalanx_base::{Code, Context, Error, Result, TaskId};
use phalanx_wire::bulk::{Handler, Pending, Taker};
use phalanx_wire::proto::collective::{Carried, Carry, Hello};
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
/// The number of the frame that closes a lane.
pub(super) const CLOSE: u64 = u64::MAX;
/// How many frames of a lane may be under way at once.
pub(super) const IN_FLIGHT: u64 = 4;

/// Takes the connections of the other members, for one forming of the group after another. A task serves it as the bulk
/// handler of its endpoint, and forms groups with [`crate::Group::connect`].
pub struct Door {
    task: TaskId,
    job: u64,
    build: u64,
    state: Mutex<State>,
    knocked: Condvar,
    /// For what outlives a call.
    own: Weak<Self>,
}

/// A lane from a member, in one forming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) epoch: u64,
    pub(super) from: usize,
    pub(super) lane: Lane,
}

#[derive(Default)]
struct State {
    /// The latest forming here; hellos of earlier ones are refused.
    epoch: u64,
    expected: Option<Expected>,
    waiting: HashMap<Key, (Hello, Guest)>,
    taken: HashSet<Key>,
    landings: HashMap<Key, Arc<Landing>>,
}

/// What hellos of the latest forming must say.
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

/// A connection that came.
pub(super) struct Guest {
    pub(super) stream: UnixStream,
    /// Set where the member is on another machine: what is written into `stream` comes out here, to be carried there.
    pub(super) outgoing: Option<OwnedReadHalf>,
}

/// Where the frames of a member on another machine go.
struct Landing {
    /// The number of the frame whose turn it is.
    next: watch::Sender<u64>,
    into: tokio::sync::Mutex<OwnedWriteHalf>,
}

impl Landing {
    /// Puts a frame in when its turn comes. Answered when its bytes have found room: a member that sends faster than
    /// this one reads waits.
    async fn put(&self, number: u64, bytes: &[u8]) -> Result<()> {
        let next = *self.next.borrow();
        if number < next || number - next >= IN_FLIGHT {
            return Err(Error::new(Code::BadMessage, "a frame between members is out of turn")
                .because(format!("it is number {number}, {next} is next")));
        }
        let ended = |why: String| Error::new(Code::PeerUnreachable, "the lane between two members ended").because(why);
        let turn = self.next.subscribe().wait_for(|next| *next >= number).await.map(|next| *next);
        if turn.map_err(|error| ended(error.to_string()))? != number {
            return Err(ended("it was closed".into()));
        }
        self.into.lock().await.write_all(bytes).await.map_err(|error| ended(error.to_string()))?;
        self.next.send_modify(|next| *next = next.saturating_add(1));
        Ok(())
    }
}

impl Door {
    /// The door of `task` in the job with this digest; members of another build are refused.
    #[must_use]
    pub fn new(task: TaskId, job: u64, build: &str) -> Arc<Self> {
        let build = crate::call::digest(build.bytes().map(u64::from));
        Arc::new_cyclic(|own| Self {
            task,
            job,
            build,
            state: Mutex::default(),
            knocked: Condvar::new(),
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

    /// Begins a forming; what is left of earlier ones is closed.
    pub(super) fn expect(&self, epoch: u64, expected: Expected) -> Result<()> {
        let mut state = self.state();
        if state.epoch >= epoch {
            return Err(Error::new(Code::BadSetting, format!("{} cannot form the group again", self.task))
                .because(format!("its forming has the number {epoch}, and {} was there already", state.epoch))
                .help("number each forming higher than the last"));
        }
        state.epoch = epoch;
        state.expected = Some(expected);
        state.waiting.retain(|key, (hello, _)| key.epoch > epoch || key.epoch == epoch && expected.fits(hello));
        state.landings.retain(|key, _| key.epoch >= epoch);
        state.taken.clear();
        Ok(())
    }

    /// The connection of a member, as soon as it is there.
    pub(super) fn take(&self, key: Key, until: Instant) -> Option<Guest> {
        let mut state = self.state();
        loop {
            if let Some((_, guest)) = state.waiting.remove(&key) {
                state.taken.insert(key);
                return Some(guest);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.knocked.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether this hello may come in, and under which key.
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
            return Err(Error::new(Code::Fenced, format!("{task} has gone on without this member"))
                .because(format!(
                    "its group was formed {} times, this hello is for forming {}",
                    state.epoch, hello.epoch
                ))
                .help("start the task again, so that it takes part in the next forming"));
        }
        let expected = state.expected.filter(|_| hello.epoch == state.epoch);
        if expected.is_some_and(|expected| !expected.fits(hello)) {
            return Err(Error::new(Code::BadSetting, format!("{task} has another list of members"))
                .because(format!(
                    "there are {} here and {} there, or they are not the same",
                    state.world(),
                    hello.world
                ))
                .help("give every task of the job the same cluster"));
        }
        Ok(Key { epoch: hello.epoch, from: hello.from as usize, lane })
    }

    /// Whether there is a place under this key.
    fn check_free(&self, key: Key) -> Result<()> {
        let state = self.state();
        if state.taken.contains(&key) {
            return Err(Error::new(Code::Fenced, format!("the group of {} is formed already", self.task))
                .because("somebody with the same rank is a member of it")
                .help("start the whole job again; a member cannot be replaced in a group that runs"));
        }
        if state.waiting.len() >= 2 * MEMBERS as usize {
            return Err(Error::new(Code::BadMessage, "too many connections wait to become members"));
        }
        Ok(())
    }

    fn admit(&self, key: Key, hello: Hello, guest: Guest) {
        self.state().waiting.insert(key, (hello, guest));
        self.knocked.notify_all();
    }

    /// Makes a place for the frames of a member on another machine. Call inside of a tokio runtime.
    pub(super) fn land(&self, key: Key) -> Result<Guest> {
        let make = || -> io::Result<_> {
            let (stream, other) = UnixStream::pair()?;
            stream.set_nonblocking(true)?;
            other.set_nonblocking(true)?;
            Ok((stream, tokio::net::UnixStream::from_std(other)?.into_split()))
        };
        let (stream, (outgoing, into)) = make().context(Code::Internal, "a pair of sockets cannot be had")?;
        let landing = Landing { next: watch::Sender::new(1), into: tokio::sync::Mutex::new(into) };
        self.state().landings.insert(key, Arc::new(landing));
        Ok(Guest { stream, outgoing: Some(outgoing) })
    }

    /// Closes what [`Self::land`] made: its reader sees the end.
    pub(super) fn close(&self, key: Key) {
        if let Some(landing) = self.state().landings.remove(&key) {
            // Frames that wait for their turn are given up.
            landing.next.send_replace(CLOSE);
        }
    }

    async fn carry(&self, frame: InFrame) -> Result<OutFrame> {
        let carry: Carry = frame.header()?;
        let hello = carry.hello.ok_or_else(|| Error::new(Code::BadMessage, "a frame of no member"))?;
        let key = self.check(&hello)?;
        match carry.frame {
            0 => {
                self.check_free(key)?;
                let guest = self.land(key)?;
                self.admit(key, hello, guest);
            }
            CLOSE => self.close(key),
            number => {
                let landing = self.state().landings.get(&key).cloned();
                landing.ok_or_else(|| closed(self.task))?.put(number, &frame.body()).await?;
            }
        }
        Ok(OutFrame::new(&Carried {}))
    }
}

impl State {
    fn world(&self) -> u32 {
        self.expected.map_or(0, |expected| expected.world)
    }
}

fn closed(task: TaskId) -> Error {
    Error::new(Code::PeerUnreachable, format!("{task} has closed its end of the group"))
}

impl Handler for Door {
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move { self.carry(frame).await })
    }

    fn welcome(&self, hello: &[u8]) -> Result<Taker> {
        let hello = Hello::decode(hello).context(Code::BadMessage, "a member's hello is malformed")?;
        let key = self.check(&hello)?;
        self.check_free(key)?;
        let own = Weak::clone(&self.own);
        Ok(Box::new(move |stream| {
            if let Some(door) = own.upgrade() {
                door.admit(key, hello, Guest { stream, outgoing: None });
            }
        }))
    }
}

/// How long one knock may take.
pub(super) const KNOCK: Duration = Duration::from_secs(2);

//! A transport that repeats, delays and loses messages, by a seed.

use phalanx_base::{Code, Error, SplitMix};
use phalanx_ps::proto::{Request, request};
use phalanx_wire::bulk::{Pending, Transport};
use phalanx_wire::{InFrame, OutFrame, Outcome};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Returns true in `percent` of a hundred cases.
pub fn chance(random: &mut SplitMix, percent: usize) -> bool {
    random.below(100) < percent
}

/// What was done to messages, over all seeds.
#[derive(Debug, Default)]
pub struct Counts {
    /// Frames sent twice at the same time, over two connections.
    pub twice: AtomicU64,
    /// Old frames that were delivered once more.
    pub old: AtomicU64,
    /// Answers that were thrown away, so that the caller tries again.
    pub lost: AtomicU64,
    /// Trainers killed.
    pub killed: AtomicU64,
    /// Frames of a killed trainer that arrived after its death.
    pub late: AtomicU64,
    /// Of these, frames that were refused because the trainer had been shut out.
    pub refused: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What one trainer's connections share.
pub struct Fate {
    random: Mutex<SplitMix>,
    counts: Arc<Counts>,
    /// The step in which the trainer dies, and on which of the servers that step still arrives.
    death: Option<(u64, Vec<bool>)>,
    dead: AtomicBool,
    /// What dead trainers would have sent; delivered later.
    grave: Arc<Mutex<Vec<(usize, OutFrame)>>>,
    /// Whether this trainer delivers what is in the grave.
    ghost: bool,
}

impl Fate {
    /// A trainer that `death` kills, if given.
    #[must_use]
    pub fn new(
        seed: u64,
        counts: &Arc<Counts>,
        grave: &Arc<Mutex<Vec<(usize, OutFrame)>>>,
        death: Option<(u64, Vec<bool>)>,
        ghost: bool,
    ) -> Arc<Self> {
        let random = Mutex::new(SplitMix::new(seed));
        let (counts, grave, dead) = (Arc::clone(counts), Arc::clone(grave), AtomicBool::new(false));
        Arc::new(Self { random, counts, death, dead, grave, ghost })
    }

    /// Whether the trainer has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    fn chance(&self, percent: usize) -> bool {
        chance(&mut lock(&self.random), percent)
    }

    /// Something that was to go to `server` and did not.
    fn take_late(&self, server: usize) -> Option<OutFrame> {
        let mut grave = lock(&self.grave);
        let at = grave.iter().position(|(to, _)| *to == server)?;
        Some(grave.swap_remove(at).1)
    }
}

/// Takes a lock, even if a thread panicked while holding it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A faulty transport to one server.
pub struct Faulty {
    server: usize,
    fate: Arc<Fate>,
    connections: [Box<dyn Transport>; 2],
    old: Mutex<VecDeque<OutFrame>>,
}

impl Faulty {
    /// Disturbs two connections to server number `server`.
    #[must_use]
    pub fn new(server: usize, fate: &Arc<Fate>, connections: [Box<dyn Transport>; 2]) -> Self {
        Self { server, fate: Arc::clone(fate), connections, old: Mutex::default() }
    }

    async fn send(&self, frame: OutFrame, deadline: Duration) -> Outcome<InFrame> {
        let fate = &*self.fate;
        let request: Request = frame.to_in_frame().and_then(|frame| frame.header()).expect("our own frame");
        if fate.is_dead() {
            return killed();
        }
        if let (Some((step, arrives)), Some(request::Op::Exchange(ask))) = (&fate.death, &request.op)
            && ask.update.is_some_and(|update| update.step == *step)
        {
            return self.die(frame, arrives[self.server], deadline).await;
        }
        if fate.ghost
            && fate.chance(40)
            && let Some(late) = fate.take_late(self.server)
        {
            count(&fate.counts.late);
            refused(&fate.counts, self.connections[1].call(late, deadline).await);
        }
        if fate.chance(10) {
            let old = lock(&self.old).front().cloned();
            if let Some(old) = old {
                count(&fate.counts.old);
                drop(self.connections[1].call(old, deadline).await);
            }
        }
        if repeatable(&request) {
            let mut old = lock(&self.old);
            old.push_back(frame.clone());
            if old.len() > 4 {
                old.pop_front();
            }
        }
        let answer = if fate.chance(10) {
            count(&fate.counts.twice);
            let (one, two) = tokio::join!(
                self.connections[0].call(frame.clone(), deadline),
                self.connections[1].call(frame, deadline)
            );
            if fate.chance(50) { one } else { two }
        } else {
            self.connections[0].call(frame, deadline).await
        };
        if matches!(answer, Outcome::Done(_)) && fate.chance(5) {
            count(&fate.counts.lost);
            return Outcome::Unknown(Error::new(Code::OutcomeUnknown, "a test lost the answer"));
        }
        answer
    }

    async fn die(&self, frame: OutFrame, arrives: bool, deadline: Duration) -> Outcome<InFrame> {
        if arrives {
            drop(self.connections[0].call(frame, deadline).await);
        } else {
            lock(&self.fate.grave).push((self.server, frame));
            // Let the others through: this failure ends the whole exchange.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if !self.fate.dead.swap(true, Ordering::AcqRel) {
            count(&self.fate.counts.killed);
        }
        killed()
    }
}

/// Counts how a dead trainer's frame was received.
pub fn refused(counts: &Counts, answer: Outcome<InFrame>) {
    match answer {
        Outcome::Failed(error) if error.code() == Code::Fenced => count(&counts.refused),
        Outcome::Failed(error) => panic!("a late frame was refused for another reason: {error}"),
        _ => {}
    }
}

/// Whether a network may deliver this again long after: joining and leaving the barrier are told apart by nothing.
fn repeatable(request: &Request) -> bool {
    !matches!(request.op, Some(request::Op::Join(_) | request::Op::Leave(_)))
}

fn killed() -> Outcome<InFrame> {
    // A code for which nobody tries again.
    Outcome::Failed(Error::new(Code::JobFailed, "a test killed this trainer"))
}

impl Transport for Faulty {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        Box::pin(self.send(frame, deadline))
    }

    fn peer(&self) -> &str {
        self.connections[0].peer()
    }
}

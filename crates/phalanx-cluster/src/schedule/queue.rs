//! The queue itself: schedule and take.

use super::rounds::Rounds;
use super::step::{State, Step};
use super::worker::{Worker, own_name};
use super::{Assignment, Consistency, Effect, Life, Options, Refused, Remark, StepId, Ticket, Why};
use phalanx_base::{Error, UpdateName};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The coordinator's queue. `W` is what a worker is told to do, `R` what it answers.
///
/// ```
/// use phalanx_base::{Incarnation, Role, TaskId};
/// use phalanx_cluster::schedule::{Effect, Life, Options, Outcome, Receipt, Scheduler};
/// use std::time::Duration;
/// let now = Duration::ZERO;
/// let worker = Life::new(TaskId::new(Role::Worker, 0), Incarnation(1));
/// let mut scheduler = Scheduler::new(Options::default());
/// scheduler.joined(now, worker, 0);
/// let step = scheduler.schedule("train", 5, Effect::Update).unwrap();
/// let given = scheduler.take(now, worker, 0, 2).unwrap();
/// assert_eq!((given.len(), given[0].work), (1, "train"));
/// // The worker runs it, pushes it as its first update, and reports.
/// assert_eq!(scheduler.committed(now, worker, given[0].ticket, Some(1), "loss 0.5"), Receipt::Taken);
/// assert!(matches!(scheduler.take_outcome(step), Some(Outcome::Ok("loss 0.5"))));
/// assert!(scheduler.is_done());
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler<W, R> {
    pub(super) options: Options,
    pub(super) steps: HashMap<StepId, Step<W, R>>,
    /// What waits. Older steps go first, so what comes back goes before what never ran.
    pub(super) queue: BTreeSet<StepId>,
    pub(super) workers: BTreeMap<Life, Worker>,
    /// Lives that are over: a few bytes each, so that late messages can be told from wrong ones.
    pub(super) over: BTreeSet<Life>,
    pub(super) unfinished: usize,
    pub(super) bytes: usize,
    pub(super) error: Option<Error>,
    pub(super) ended: bool,
    /// Names that some servers have and no step will complete, and whether the server that counts steps has them.
    pub(super) owed: Vec<(UpdateName, bool)>,
    pub(super) rounds: Rounds,
    pub(super) next: u64,
    /// The highest number given out, as a bound on drift sees it.
    highest: u64,
}

impl<W: Clone, R> Scheduler<W, R> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            steps: HashMap::new(),
            queue: BTreeSet::new(),
            workers: BTreeMap::new(),
            over: BTreeSet::new(),
            unfinished: 0,
            bytes: 0,
            error: None,
            ended: false,
            owed: Vec::new(),
            rounds: Rounds::of(options.consistency),
            next: 0,
            highest: 0,
        }
    }

    /// Goes on where another scheduler was: `number` is the highest that it gave out, `round` the one that is open.
    pub fn start_at(&mut self, number: u64, round: u64) {
        self.highest = number;
        if !self.rounds.none() {
            self.rounds.open = round;
        }
    }

    /// Puts a step at the end of the queue. `bytes` is the size of its work, for the queue's bound.
    ///
    /// # Errors
    /// When it cannot be taken now; the work comes back.
    pub fn schedule(&mut self, work: W, bytes: usize, effect: Effect) -> Result<StepId, Refused<W>> {
        let why = if self.ended {
            Some(Why::Ended)
        } else if self.error.is_some() {
            Some(Why::Failing)
        } else if bytes > self.options.bytes {
            Some(Why::TooLarge)
        } else if self.unfinished >= self.options.steps || bytes > self.options.bytes - self.bytes {
            Some(Why::Full)
        } else {
            None
        };
        if let Some(why) = why {
            return Err(Refused { work, why });
        }
        let id = StepId(self.next);
        self.next += 1;
        self.steps.insert(id, Step::new(work, bytes, effect));
        self.queue.insert(id);
        self.unfinished += 1;
        self.bytes += bytes;
        Ok(id)
    }

    /// A worker is there. Saying it again changes nothing; a life that is over stays over. `sent` is how many updates the
    /// life has pushed, all of them whole on every server, before it joined: 0 unless another coordinator had it.
    pub fn joined(&mut self, now: Duration, life: Life, sent: u64) {
        if !self.over.contains(&life) {
            self.workers.entry(life).or_insert_with(|| Worker::new(now, sent));
        }
    }

    /// Whether a life has joined and is not over.
    #[must_use]
    pub fn has(&self, life: Life) -> bool {
        self.workers.contains_key(&life)
    }

    /// Whether a life was lost and shut out, or has left.
    #[must_use]
    pub fn is_over(&self, life: Life) -> bool {
        self.over.contains(&life)
    }

    /// Hands steps to a worker until it has `want` that it has not reported. `heard` is the newest turn that the worker
    /// has received: later ones that it has not reported are given again, so an answer that was lost costs
    /// nothing, and asking twice is harmless.
    ///
    /// # Errors
    /// When the life is not one that gets steps.
    pub fn take(&mut self, now: Duration, life: Life, heard: u64, want: usize) -> Result<Vec<Assignment<W>>, Remark> {
        let Some(worker) = self.workers.get(&life) else { return Err(self.stranger(life)) };
        if worker.lost {
            return Err(Remark::Lost(life));
        }
        let missed: Vec<(u64, StepId, u64)> =
            worker.held.range(heard.saturating_add(1)..).map(|(&turn, held)| (turn, held.step, held.number)).collect();
        let room = self.rounds.room(want).saturating_sub(worker.held.len());
        let missed = missed.into_iter().map(|(turn, step, number)| (Ticket { step, turn }, number));
        let mut given: Vec<Assignment<W>> = missed.filter_map(|(t, number)| self.assignment(t, number)).collect();
        for _ in 0..room {
            let Some(assignment) = self.hand_out(now, life) else { break };
            given.push(assignment);
        }
        Ok(given)
    }

    fn hand_out(&mut self, now: Duration, life: Life) -> Option<Assignment<W>> {
        let number = self.number_for(life)?;
        let alone = !self.workers.iter().any(|(&other, worker)| other != life && !worker.lost);
        let fits = |id: &&StepId| {
            self.steps.get(id).is_some_and(|step| (alone || step.avoid != Some(life)) && self.rounds.takes(step))
        };
        let id = *self.queue.iter().find(fits)?;
        self.queue.remove(&id);
        let step = self.steps.get_mut(&id)?;
        self.rounds.hand_out(step);
        (step.state, step.runs) = (State::Out, step.runs + 1);
        let own = own_name(step.effect, step.pushed.is_some());
        let ticket = self.workers.get_mut(&life)?.hold(now, id, own, number);
        self.highest = self.highest.max(number);
        self.assignment(ticket, number)
    }

    fn assignment(&self, ticket: Ticket, number: u64) -> Option<Assignment<W>> {
        let step = self.steps.get(&ticket.step)?;
        let on_behalf_of = step.pushed.map(|(name, _)| name);
        let work = step.work.clone()?;
        let Step { effect, runs: attempt, round, .. } = *step;
        Some(Assignment { ticket, work, effect, on_behalf_of, attempt, number, round, closed: self.rounds.open })
    }

    /// The number of this life's next step; `None` if the bound on drift holds it back.
    fn number_for(&self, life: Life) -> Option<u64> {
        let worker = self.workers.get(&life)?;
        let Consistency::Bounded(bound) = self.options.consistency else { return Some(worker.number + 1) };
        let live = || self.workers.values().filter(|worker| !worker.lost);
        let newest = live().filter_map(|worker| worker.held.last_key_value()).map(|(_, held)| held.number).max();
        let lowest = live().filter_map(Worker::oldest_number).min();
        let next = worker.number + 1;
        let lifted = newest.unwrap_or(self.highest).saturating_sub(bound);
        let number = if worker.held.is_empty() { next.max(lifted) } else { next };
        (lowest.is_none_or(|lowest| number <= lowest.saturating_add(bound))).then_some(number)
    }

    /// Whom a worker waits for under a bound on drift, if that is what it waits for.
    #[must_use]
    pub fn held_back_by(&self, life: Life) -> Option<Life> {
        if !self.workers.contains_key(&life) || self.number_for(life).is_some() {
            return None;
        }
        let live = self.workers.iter().filter(|(_, worker)| !worker.lost);
        let oldest = live.filter_map(|(&life, worker)| Some((worker.oldest_number()?, life))).min();
        oldest.map(|(_, life)| life)
    }

    /// Why a life that has no record gets nothing.
    pub(super) fn stranger(&self, life: Life) -> Remark {
        if self.over.contains(&life) { Remark::Ended(life) } else { Remark::NeverJoined(life) }
    }
}

//! The queue: scheduling steps and handing them out.

use super::rounds::Rounds;
use super::step::{Step, StepState};
use super::worker::{Worker, own_id};
use super::{
    Assignment, AttemptId, Consistency, RefusalReason, RefusedStep, Rejection, SchedulerOptions, StepEffect, StepId,
    TaskIncarnation,
};
use phalanx_base::{Error, UpdateId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The coordinator's scheduler. `W` is the work of a step, `R` its result.
///
/// ```
/// use phalanx_base::{Incarnation, Role, TaskId};
/// use phalanx_cluster::schedule::{StepEffect, TaskIncarnation, SchedulerOptions, StepOutcome, Receipt, Scheduler};
/// use std::time::Duration;
/// let now = Duration::ZERO;
/// let worker = TaskIncarnation::new(TaskId::new(Role::Worker, 0), Incarnation(1));
/// let mut scheduler = Scheduler::new(SchedulerOptions::default());
/// scheduler.joined(now, worker, 0);
/// let step = scheduler.schedule("train", 5, StepEffect::Update).unwrap();
/// let given = scheduler.take(now, worker, 0, 2).unwrap();
/// assert_eq!((given.len(), given[0].work), (1, "train"));
/// // The worker runs it, pushes it as its first update, and reports.
/// assert_eq!(scheduler.committed(now, worker, given[0].attempt_id, Some(1), "loss 0.5"), Receipt::Taken);
/// assert!(matches!(scheduler.outcome(step), Some(StepOutcome::Ok("loss 0.5"))));
/// assert!(scheduler.is_done());
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler<W, R> {
    pub(super) options: SchedulerOptions,
    pub(super) steps: HashMap<StepId, Step<W, R>>,
    /// The waiting steps. Older steps go first, so a step that comes back precedes those that never ran.
    pub(super) queue: BTreeSet<StepId>,
    pub(super) workers: BTreeMap<TaskIncarnation, Worker>,
    /// Incarnations that are over, a few bytes each, to tell late messages from invalid ones.
    pub(super) over: BTreeSet<TaskIncarnation>,
    pub(super) unfinished: usize,
    pub(super) bytes: usize,
    pub(super) error: Option<Error>,
    pub(super) ended: bool,
    /// Updates that some servers have and no step will complete, and whether the server that counts steps has them.
    pub(super) unfinished_updates: Vec<(UpdateId, bool)>,
    pub(super) rounds: Rounds,
    pub(super) next: u64,
    /// The highest step number handed out, for the staleness bound.
    highest: u64,
}

impl<W: Clone, R> Scheduler<W, R> {
    /// Creates an empty scheduler.
    #[must_use]
    pub fn new(options: SchedulerOptions) -> Self {
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
            unfinished_updates: Vec::new(),
            rounds: Rounds::of(options.consistency),
            next: 0,
            highest: 0,
        }
    }

    /// Continues from another scheduler: `number` is the highest step number it handed out, `round` the open round.
    pub fn start_at(&mut self, number: u64, round: u64) {
        self.highest = number;
        if !self.rounds.none() {
            self.rounds.open = round;
        }
    }

    /// Appends a step to the queue. `bytes` is the size of its work, which counts against the queue's limit.
    ///
    /// # Errors
    /// When the step is refused; the error contains its work.
    pub fn schedule(&mut self, work: W, bytes: usize, effect: StepEffect) -> Result<StepId, RefusedStep<W>> {
        let why = if self.ended {
            Some(RefusalReason::Ended)
        } else if self.error.is_some() {
            Some(RefusalReason::Failing)
        } else if bytes > self.options.bytes {
            Some(RefusalReason::TooLarge)
        } else if self.unfinished >= self.options.steps || bytes > self.options.bytes - self.bytes {
            Some(RefusalReason::Full)
        } else {
            None
        };
        if let Some(why) = why {
            return Err(RefusedStep { work, why });
        }
        let id = StepId(self.next);
        self.next += 1;
        self.steps.insert(id, Step::new(work, bytes, effect));
        self.queue.insert(id);
        self.rounds.ends = false;
        self.unfinished += 1;
        self.bytes += bytes;
        Ok(id)
    }

    /// Records that a worker has joined. Repeating it changes nothing, and an incarnation that is over stays over.
    /// `sent` is the number of updates the incarnation had pushed before, all complete on every server: 0 unless it
    /// worked for another coordinator.
    pub fn joined(&mut self, now: Duration, worker_id: TaskIncarnation, sent: u64) {
        if !self.over.contains(&worker_id) {
            self.workers.entry(worker_id).or_insert_with(|| Worker::new(now, sent));
        }
    }

    /// Returns whether an incarnation has joined and is not over.
    #[must_use]
    pub fn has(&self, worker_id: TaskIncarnation) -> bool {
        self.workers.contains_key(&worker_id)
    }

    /// Returns whether an incarnation was lost and fenced, or has left.
    #[must_use]
    pub fn is_over(&self, worker_id: TaskIncarnation) -> bool {
        self.over.contains(&worker_id)
    }

    /// Hands out steps until the worker has `want` unreported ones. `heard` is the newest turn that the worker has
    /// received: later, unreported ones are returned again, so a lost reply costs nothing and repeating the call is
    /// harmless.
    ///
    /// # Errors
    /// When the incarnation gets no steps.
    pub fn take(
        &mut self,
        now: Duration,
        worker_id: TaskIncarnation,
        heard: u64,
        want: usize,
    ) -> Result<Vec<Assignment<W>>, Rejection> {
        let Some(worker) = self.workers.get(&worker_id) else { return Err(self.stranger(worker_id)) };
        if worker.lost {
            return Err(Rejection::Lost(worker_id));
        }
        let missed: Vec<(u64, StepId, u64)> =
            worker.held.range(heard.saturating_add(1)..).map(|(&turn, held)| (turn, held.step, held.number)).collect();
        let capacity = self.rounds.capacity(want).saturating_sub(worker.held.len());
        let missed = missed.into_iter().map(|(turn, step, number)| (AttemptId { step, turn }, number));
        let mut given: Vec<Assignment<W>> = missed.filter_map(|(t, number)| self.assignment(t, number)).collect();
        for _ in 0..capacity {
            let Some(assignment) = self.hand_out(now, worker_id) else { break };
            given.push(assignment);
        }
        Ok(given)
    }

    fn hand_out(&mut self, now: Duration, worker_id: TaskIncarnation) -> Option<Assignment<W>> {
        let number = self.number_for(worker_id)?;
        let alone = !self.workers.iter().any(|(&other, worker)| other != worker_id && !worker.lost);
        let own_round = self.workers.get(&worker_id)?.round;
        let is_out = |other: &TaskIncarnation, worker: &Worker| {
            *other != worker_id && !worker.lost && worker.round != Some(self.rounds.open)
        };
        let out = self.workers.iter().filter(|(other, worker)| is_out(other, worker)).count() as u64;
        let fits = |id: &&StepId| {
            self.steps
                .get(id)
                .is_some_and(|step| (alone || step.avoid != Some(worker_id)) && self.rounds.takes(step, own_round, out))
        };
        let id = *self.queue.iter().find(fits)?;
        self.queue.remove(&id);
        let step = self.steps.get_mut(&id)?;
        self.rounds.hand_out(step);
        (step.state, step.runs) = (StepState::Out, step.runs + 1);
        let own = own_id(step.effect, step.pushed.is_some());
        let worker = self.workers.get_mut(&worker_id)?;
        worker.round = step.round.or(worker.round);
        let attempt_id = worker.hold(now, id, own, number);
        self.highest = self.highest.max(number);
        self.assignment(attempt_id, number)
    }

    fn assignment(&self, attempt_id: AttemptId, number: u64) -> Option<Assignment<W>> {
        let step = self.steps.get(&attempt_id.step)?;
        let on_behalf_of = step.pushed.map(|(name, _)| name);
        let work = step.work.clone()?;
        let Step { effect, runs: attempt, round, .. } = *step;
        Some(Assignment { attempt_id, work, effect, on_behalf_of, attempt, number, round, closed: self.rounds.open })
    }

    /// Returns the number of this incarnation's next step; `None` if the staleness bound holds it back.
    fn number_for(&self, worker_id: TaskIncarnation) -> Option<u64> {
        let worker = self.workers.get(&worker_id)?;
        let Consistency::Bounded(bound) = self.options.consistency else { return Some(worker.number + 1) };
        let live = || self.workers.values().filter(|worker| !worker.lost);
        let newest = live().filter_map(|worker| worker.held.last_key_value()).map(|(_, held)| held.number).max();
        let lowest = live().filter_map(Worker::oldest_number).min();
        let next = worker.number + 1;
        let lifted = newest.unwrap_or(self.highest).saturating_sub(bound);
        let number = if worker.held.is_empty() { next.max(lifted) } else { next };
        (lowest.is_none_or(|lowest| number <= lowest.saturating_add(bound))).then_some(number)
    }

    /// Returns why an incarnation without a record gets nothing.
    pub(super) fn stranger(&self, worker_id: TaskIncarnation) -> Rejection {
        if self.over.contains(&worker_id) { Rejection::Ended(worker_id) } else { Rejection::NeverJoined(worker_id) }
    }
}

//! The outcomes of a program's calls, such as a `fit`, which every task of the job returns.
//!
//! Every task runs the same program, so their calls correspond by number. The chief carries a call out, with the workers'
//! help, and keeps its outcome; the other tasks ask for it. A chief that was started again takes the outcomes of completed
//! calls from tasks that have them, and does not repeat those calls.

use super::messages::{encode_task, proto};
use crate::{Server, identity};
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Fault, Incarnation, Result, TaskId};
use phalanx_wire::{OutFrame, Outcome, bulk};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long the chief may hold the call of a task that waits for an outcome.
const HOLD: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(5);

/// The chief's record of calls.
#[derive(Default)]
pub(super) struct Outcomes {
    /// The outcomes of the completed calls, in order.
    completed: Vec<Bytes>,
    /// The incarnations that have the newest outcome and its values.
    have_newest: BTreeSet<(TaskId, Incarnation)>,
    /// The call that each incarnation asked about last.
    calls: BTreeMap<(TaskId, Incarnation), u64>,
}

impl Outcomes {
    /// Returns the outcome of a call, counted from 1.
    pub(super) fn of(&self, call: u64) -> Option<&Bytes> {
        self.completed.get(usize::try_from(call.checked_sub(1)?).ok()?)
    }

    pub(super) fn complete(&mut self, call: u64, outcome: Bytes) {
        if self.completed.len() as u64 + 1 == call {
            self.completed.push(outcome);
        }
        self.have_newest.clear();
    }

    /// Takes what a task that is in `call` knows and the chief does not.
    pub(super) fn learn(&mut self, task: (TaskId, Incarnation), call: u64, known: Vec<Vec<u8>>) {
        let missing = known.into_iter().skip(self.completed.len());
        self.completed.extend(missing.map(Bytes::from));
        self.calls.insert(task, call);
    }

    /// Returns whether an incarnation is in a later call than this one.
    pub(super) fn is_after(&self, call: u64, task: (TaskId, Incarnation)) -> bool {
        self.calls.get(&task).is_some_and(|&own| own > call)
    }

    /// Returns whether a task has asked about this call or a later one: this incarnation of it, or any.
    pub(super) fn was_asked_by(&self, call: u64, task: TaskId, incarnation: Option<Incarnation>) -> bool {
        let is_meant = |known: &(TaskId, Incarnation)| known.0 == task && incarnation.is_none_or(|own| known.1 == own);
        self.calls.iter().any(|(known, own)| is_meant(known) && *own >= call)
    }

    pub(super) fn has_newest(&mut self, task: (TaskId, Incarnation), call: u64) {
        if call == self.completed.len() as u64 {
            self.have_newest.insert(task);
        }
    }

    pub(super) fn newest_is_known_by(&self, task: (TaskId, Incarnation)) -> bool {
        self.have_newest.contains(&task)
    }
}

/// Asks the chief for the outcome of a call, and waits for it. `None` if the job ends before that without failing: its
/// chief was asked to stop.
///
/// # Errors
/// When the job fails before that, or this process is asked to stop.
pub(crate) fn wait_for_outcome(server: &Server, call: u64) -> Result<Option<Bytes>> {
    let asking = ChiefCalls::new(server, call)?;
    loop {
        if let Some(outcome) = asking.ask(proto::Purpose::Outcome, HOLD)?.and_then(|reply| reply.outcome) {
            return Ok(Some(outcome.into()));
        }
        let job = server.job();
        if let Some(error) = job.interrupted().or_else(|| job.failure()) {
            return Err(error);
        }
        if server.should_stop() {
            return Ok(None);
        }
    }
}

/// Tells the chief that this task has the outcome of a call and needs nothing more of it.
pub(crate) fn confirm(server: &Server, call: u64) -> Result<()> {
    let asking = ChiefCalls::new(server, call)?;
    let until = Instant::now() + DEADLINE;
    while asking.ask(proto::Purpose::Done, Duration::ZERO)?.is_none() {
        if Instant::now() > until || server.should_stop() {
            break;
        }
    }
    Ok(())
}

/// Calls to the chief about one call of the program.
struct ChiefCalls<'a> {
    server: &'a Server,
    call: u64,
    runtime: tokio::runtime::Runtime,
    lane: Box<dyn bulk::Transport>,
}

impl<'a> ChiefCalls<'a> {
    fn new(server: &'a Server, call: u64) -> Result<Self> {
        let (chief, address) =
            server.config().chief().ok_or_else(|| Error::new(Code::Internal, "there is no chief"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(Code::Internal, "the event loop of calls to the chief cannot be started")?;
        let lane = {
            let _inside = runtime.enter();
            bulk::reach(address, format!("{chief} ({address})"), server.options().token.clone())
        };
        Ok(Self { server, call, runtime, lane })
    }

    /// Returns the chief's answer, or `None` if it cannot be reached at the moment.
    fn ask(&self, purpose: proto::Purpose, hold: Duration) -> Result<Option<proto::PollReply>> {
        let poll = proto::Poll {
            job: identity::digest(&self.server.config().job_id()),
            worker: Some(encode_task(self.server.task(), self.server.incarnation())),
            call: self.call,
            purpose: purpose.into(),
            wait_millis: hold.as_millis() as u32,
            ..proto::Poll::default()
        };
        match self.runtime.block_on(self.lane.call(OutFrame::new(&poll), DEADLINE + hold)) {
            Outcome::Done(frame) => frame.header().map(Some),
            Outcome::Failed(error) | Outcome::Unknown(error) => {
                if error.code().fault() != Fault::Infrastructure || error.code() == Code::Fenced {
                    return Err(error);
                }
                // The chief may come back; membership decides when to give up.
                std::thread::sleep(Duration::from_millis(50));
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Role;

    #[test]
    fn a_chief_that_was_started_again_learns_the_outcomes_of_completed_calls() {
        let worker = (TaskId::new(Role::Worker, 0), Incarnation(7));
        let mut outcomes = Outcomes::default();
        outcomes.learn(worker, 1, vec![]);
        assert!(!outcomes.is_after(1, worker) && outcomes.of(1).is_none());
        outcomes.learn(worker, 3, vec![vec![1], vec![2]]);
        assert!(outcomes.is_after(1, worker) && !outcomes.is_after(3, worker));
        assert_eq!((outcomes.of(1), outcomes.of(2)), (Some(&Bytes::from(vec![1])), Some(&Bytes::from(vec![2]))));
        assert!(outcomes.of(0).is_none() && outcomes.of(3).is_none() && outcomes.of(u64::MAX).is_none());
        outcomes.complete(3, Bytes::from(vec![3]));
        outcomes.has_newest(worker, 2);
        assert!(!outcomes.newest_is_known_by(worker), "that is an older one");
        outcomes.has_newest(worker, 3);
        assert!(outcomes.newest_is_known_by(worker));
    }

    #[test]
    fn a_task_that_was_started_again_is_not_where_its_former_incarnation_was() {
        let task = TaskId::new(Role::Worker, 0);
        let (former, present) = (Incarnation(7), Incarnation(8));
        let mut outcomes = Outcomes::default();
        outcomes.learn((task, former), 1, vec![]);
        assert!(outcomes.was_asked_by(1, task, Some(former)) && outcomes.was_asked_by(1, task, None));
        assert!(!outcomes.was_asked_by(1, task, Some(present)), "it trains again");
        outcomes.complete(1, Bytes::new());
        outcomes.has_newest((task, former), 1);
        assert!(!outcomes.newest_is_known_by((task, present)));
        outcomes.learn((task, present), 2, vec![]);
        assert!(outcomes.was_asked_by(1, task, Some(present)), "a later call is after this one");
    }
}

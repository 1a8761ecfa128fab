//! Errors that are raised, attempts that are counted, jobs that end.

use super::super::{RefusalReason, StepOutcome, UpdateReach};
use super::*;
use phalanx_base::{Code, Error};

fn error(text: &str) -> Error {
    Error::new(Code::DataRow, text)
}

#[test]
fn the_first_error_cancels_the_queue_and_is_raised_once_when_nothing_runs() {
    let mut queue = queue(SchedulerOptions::default(), 2, 5);
    let (first, second) = (take(&mut queue, 0, 1), take(&mut queue, 1, 2));
    assert_eq!(queue.failed(NOW, worker_id(0, 1), first[0].attempt_id, error("row 1")), Receipt::Taken);
    assert!([3, 4].iter().all(|&id| matches!(queue.outcome(StepId(id)), Some(StepOutcome::Cancelled))));
    assert!(queue.raise().is_none() && queue.is_failing(), "two steps are in flight");
    assert_eq!(queue.schedule(0, 1, StepEffect::Update).unwrap_err().why, RefusalReason::Failing);
    assert_eq!(commit(&mut queue, 1, &second[0], 1), Receipt::Taken);
    assert_eq!(queue.failed(NOW, worker_id(1, 1), second[1].attempt_id, error("row 2")), Receipt::Taken);
    assert!(matches!(queue.outcome(StepId(1)), Some(StepOutcome::Ok(10))));
    assert!(matches!(queue.outcome(StepId(2)), Some(StepOutcome::Failed { update: UpdateReach::Nowhere, .. })));
    assert_eq!(queue.raise().unwrap().what(), "row 1");
    assert!(queue.raise().is_none() && queue.schedule(0, 1, StepEffect::Update).is_ok());
}

#[test]
fn a_step_that_a_worker_had_is_not_called_cancelled() {
    let mut queue = queue(SchedulerOptions::default(), 2, 3);
    take(&mut queue, 0, 1);
    let failing = take(&mut queue, 1, 1);
    assert_eq!(queue.failed(NOW, worker_id(1, 1), failing[0].attempt_id, error("x")), Receipt::Taken);
    assert!(queue.lost(worker_id(0, 1)));
    queue.fenced(worker_id(0, 1), &[(0, true)]).unwrap();
    assert!(queue.raise().is_none() && queue.outcome(StepId(0)).is_none());
    let again = take(&mut queue, 1, 1);
    assert_eq!(steps(&again), [0]);
    assert_eq!(commit(&mut queue, 1, &again[0], 1), Receipt::Taken);
    assert!(queue.raise().is_some());
}

#[test]
fn a_step_fails_with_all_causes_when_its_attempts_are_used_up() {
    let mut queue = queue(SchedulerOptions { attempts: 3, ..SchedulerOptions::default() }, 1, 1);
    for cause in ["no route", "disk full"] {
        let given = take(&mut queue, 0, 1);
        assert_eq!(queue.gave_back(NOW, worker_id(0, 1), given[0].attempt_id, cause), Receipt::Taken);
    }
    take(&mut queue, 0, 1);
    assert!(queue.lost(worker_id(0, 1)));
    queue.fenced(worker_id(0, 1), &[(0, true)]).unwrap();
    let raised = queue.raise().unwrap();
    assert_eq!(
        raised.to_string(),
        "step 0 could not be run: it was tried 3 times: worker/0: no route; worker/0: disk full; worker/0 was lost"
    );
    assert_eq!(raised.code().fault(), phalanx_base::Fault::Infrastructure);
}

#[test]
fn steps_behind_the_running_ones_are_not_blamed_for_a_loss() {
    let mut queue = queue(SchedulerOptions { attempts: 2, ..SchedulerOptions::default() }, 0, 3);
    for incarnation in 1..=2 {
        let worker = worker_id(0, incarnation);
        queue.joined(NOW, worker, 0);
        queue.take(NOW, worker, 0, 3).unwrap();
        assert!(queue.lost(worker));
        queue.fenced(worker, &[(0, true)]).unwrap();
    }
    assert!(matches!(queue.outcome(StepId(1)), Some(StepOutcome::Failed { .. })));
    assert!(queue.outcome(StepId(2)).is_none() && queue.queue.len() == 1);
}

#[test]
fn when_the_job_ends_nothing_is_claimed_that_nobody_knows() {
    let mut queue = queue(SchedulerOptions::default(), 1, 3);
    let given = take(&mut queue, 0, 2);
    assert_eq!(commit(&mut queue, 0, &given[0], 1), Receipt::Taken);
    queue.end();
    assert!(matches!(queue.outcome(StepId(0)), Some(StepOutcome::Ok(0))));
    assert!(matches!(queue.outcome(StepId(1)), Some(StepOutcome::Unknown)));
    assert!(matches!(queue.outcome(StepId(2)), Some(StepOutcome::Cancelled)));
    assert!(queue.is_done());
    assert_eq!(commit(&mut queue, 0, &given[1], 2), Receipt::Repeated);
    assert_eq!(queue.schedule(0, 1, StepEffect::Update).unwrap_err().why, RefusalReason::Ended);
}

//! Scheduling, taking, reporting, watching.

use super::super::{Consistency, RefusalReason, RefusedStep, Rejection, StepOutcome};
use super::*;

#[test]
fn a_full_queue_gives_the_work_back_until_a_step_finishes() {
    let mut queue = queue(SchedulerOptions { steps: 2, bytes: 10, ..SchedulerOptions::default() }, 1, 2);
    assert_eq!(queue.schedule(9, 1, StepEffect::Update), Err(RefusedStep { work: 9, why: RefusalReason::Full }));
    let given = take(&mut queue, 0, 1);
    assert_eq!(
        queue.schedule(9, 1, StepEffect::Update).unwrap_err().why,
        RefusalReason::Full,
        "in flight is not finished"
    );
    assert_eq!(commit(&mut queue, 0, &given[0], 1), Receipt::Taken);
    assert_eq!(queue.schedule(9, 10, StepEffect::Update).unwrap_err().why, RefusalReason::Full, "its bytes do not fit");
    assert_eq!(queue.schedule(9, 11, StepEffect::Update).unwrap_err().why, RefusalReason::TooLarge);
    assert_eq!(queue.schedule(9, 9, StepEffect::Update), Ok(StepId(2)));
}

#[test]
fn steps_come_in_order_and_an_answer_that_was_lost_comes_again() {
    let mut queue = queue(SchedulerOptions::default(), 2, 5);
    assert_eq!(steps(&take(&mut queue, 0, 2)), [0, 1]);
    assert_eq!(steps(&take(&mut queue, 1, 2)), [2, 3]);
    let again = queue.take(NOW, worker_id(0, 1), 1, 2).unwrap();
    assert_eq!(steps(&again), [1], "turn 1 was heard, turn 2 was not");
    assert_eq!(steps(&take(&mut queue, 0, 3)), [4], "one more than it has");
}

#[test]
fn a_report_counts_once_and_only_from_whom_the_step_was_given_to() {
    let mut queue = queue(SchedulerOptions::default(), 2, 2);
    let given = take(&mut queue, 0, 1);
    let attempt_id = given[0].attempt_id;
    assert_eq!(commit(&mut queue, 1, &given[0], 1), Receipt::Ignored(Rejection::NotYours(worker_id(1, 1), attempt_id)));
    let stranger =
        queue.failed(NOW, worker_id(7, 1), attempt_id, phalanx_base::Error::new(phalanx_base::Code::DataRow, "x"));
    assert_eq!(stranger, Receipt::Ignored(Rejection::NeverJoined(worker_id(7, 1))));
    assert!(matches!(commit(&mut queue, 0, &given[0], 2), Receipt::Ignored(Rejection::WrongSequence(..))));
    assert_eq!(commit(&mut queue, 0, &given[0], 1), Receipt::Taken);
    assert_eq!(commit(&mut queue, 0, &given[0], 1), Receipt::Repeated);
    assert!(matches!(queue.outcome(StepId(0)), Some(StepOutcome::Ok(0))));
}

#[test]
fn a_late_repeat_of_an_old_report_does_not_touch_the_next_run() {
    let mut queue = queue(SchedulerOptions::default(), 1, 1);
    let first = take(&mut queue, 0, 1);
    assert_eq!(queue.gave_back(NOW, worker_id(0, 1), first[0].attempt_id, "no route"), Receipt::Taken);
    let second = take(&mut queue, 0, 1);
    assert_eq!((second[0].attempt_id.step, second[0].attempt), (first[0].attempt_id.step, 2), "nobody else is there");
    assert_eq!(queue.gave_back(NOW, worker_id(0, 1), first[0].attempt_id, "no route"), Receipt::Repeated);
    assert_eq!(commit(&mut queue, 0, &second[0], 1), Receipt::Taken);
}

#[test]
fn a_step_that_was_given_back_goes_to_another_worker() {
    let mut queue = queue(SchedulerOptions::default(), 2, 2);
    let given = take(&mut queue, 0, 1);
    assert_eq!(queue.gave_back(NOW, worker_id(0, 1), given[0].attempt_id, "disk full"), Receipt::Taken);
    assert_eq!(steps(&take(&mut queue, 0, 1)), [1]);
    assert_eq!(steps(&take(&mut queue, 1, 1)), [0]);
}

#[test]
fn finished_steps_are_forgotten() {
    let mut queue = queue(SchedulerOptions::default(), 1, 3);
    queue.forget(StepId(0));
    let given = take(&mut queue, 0, 3);
    (0..3).for_each(|at| assert_eq!(commit(&mut queue, 0, &given[at], at as u64 + 1), Receipt::Taken));
    assert!(queue.outcome(StepId(0)).is_none());
    queue.forget(StepId(1));
    assert!(matches!(queue.outcome(StepId(2)), Some(StepOutcome::Ok(20))));
    queue.forget(StepId(2));
    assert!(queue.steps.is_empty() && queue.is_done());
}

#[test]
fn a_step_is_cancelled_only_if_nobody_has_had_it() {
    let mut queue = queue(SchedulerOptions::default(), 1, 2);
    take(&mut queue, 0, 1);
    assert!(!queue.cancel(StepId(0)) && queue.cancel(StepId(1)) && !queue.cancel(StepId(1)));
    assert!(matches!(queue.outcome(StepId(1)), Some(StepOutcome::Cancelled)));
}

#[test]
fn no_worker_runs_ahead_of_the_slowest_by_more_than_the_bound() {
    let options = SchedulerOptions { consistency: Consistency::Bounded(2), ..SchedulerOptions::default() };
    let mut queue = queue(options, 2, 100);
    let slow = take(&mut queue, 0, 1);
    for sequence in 1..=3 {
        let given = take(&mut queue, 1, 1);
        assert_eq!(commit(&mut queue, 1, &given[0], sequence), Receipt::Taken);
    }
    assert!(take(&mut queue, 1, 1).is_empty(), "its fourth is three ahead");
    assert_eq!(commit(&mut queue, 0, &slow[0], 1), Receipt::Taken);
    assert_eq!(take(&mut queue, 1, 9).len(), 3, "its own oldest bounds it too");
    assert_eq!(take(&mut queue, 0, 1)[0].number, 4, "it paused and is lifted");
    queue.joined(NOW, worker_id(2, 1), 0);
    assert_eq!(take(&mut queue, 2, 1)[0].number, 4, "one that joins holds nobody up");
}

#[test]
fn a_worker_that_stands_still_is_named_once_and_rates_are_seen() {
    let at = Duration::from_secs;
    let mut queue = queue(SchedulerOptions { watchdog: Some(at(10)), ..SchedulerOptions::default() }, 2, 40);
    take(&mut queue, 0, 2);
    for sequence in 1..=33 {
        let given = queue.take(at(sequence), worker_id(1, 1), u64::MAX, 1).unwrap();
        let receipt = queue.committed(at(sequence), worker_id(1, 1), given[0].attempt_id, Some(sequence), 0);
        assert_eq!(receipt, Receipt::Taken);
    }
    assert!(queue.stalled_workers(at(10)).is_empty());
    let stalled = queue.stalled_workers(at(33));
    assert_eq!(stalled[0].to_string(), "worker/0 has been stalled at step 0 for 33.0 s");
    assert!(stalled.len() == 1 && queue.stalled_workers(at(34)).is_empty(), "told once");
    let views: Vec<_> = queue.workers(at(33)).collect();
    assert_eq!((views[0].committed, views[0].in_flight, views[0].lag), (0, 2, Some(at(33))));
    assert_eq!((views[1].committed, views[1].in_flight, views[1].lag), (33, 0, None));
    assert!((views[1].rate - 1.0).abs() < 1e-9 && views[0].rate == 0.0);
}

//! Workers that are lost or leave.

use super::super::{Rejection, StepOutcome, UpdateReach};
use super::*;

/// Worker 0 has steps 0, 1 and 2, committed step 0, and is then fenced with this progress on two servers.
fn after_loss(progress: [(u64, bool); 2]) -> (Queue, Result<(), Rejection>) {
    let mut queue = queue(SchedulerOptions::default(), 2, 4);
    let given = take(&mut queue, 0, 3);
    assert_eq!(commit(&mut queue, 0, &given[0], 1), Receipt::Taken);
    assert!(queue.lost(worker_id(0, 1)) && !queue.lost(worker_id(0, 1)), "told once");
    assert_eq!(queue.to_fence().collect::<Vec<_>>(), [worker_id(0, 1)]);
    assert_eq!(queue.take(NOW, worker_id(0, 1), 0, 9), Err(Rejection::Lost(worker_id(0, 1))));
    let rejection = queue.fenced(worker_id(0, 1), &progress);
    (queue, rejection)
}

#[test]
fn a_step_that_reached_a_server_runs_again_under_the_lost_name() {
    for (progress, on_behalf) in [
        ([(1, true), (1, true)], [false, false]),
        ([(2, true), (1, true)], [true, false]),
        ([(2, false), (1, true)], [true, false]),
        ([(2, true), (2, true)], [true, false]),
        ([(3, false), (2, true)], [true, true]),
    ] {
        let (mut queue, rejection) = after_loss(progress);
        assert_eq!(rejection, Ok(()));
        let given = take(&mut queue, 1, 9);
        assert_eq!(steps(&given), [1, 2, 3], "in order, before what never ran");
        let lost = |at: u64| on_behalf[at as usize].then(|| worker_id(0, 1).update(at + 2));
        assert_eq!([given[0].on_behalf_of, given[1].on_behalf_of], [lost(0), lost(1)], "{progress:?}");
        assert_eq!(given[2].on_behalf_of, None);
        let mut own = 0;
        for assignment in &given {
            let sequence = assignment.on_behalf_of.map_or_else(
                || {
                    own += 1;
                    own
                },
                |name| name.sequence,
            );
            assert_eq!(commit(&mut queue, 1, assignment, sequence), Receipt::Taken);
        }
        assert!(queue.is_done() && matches!(queue.outcome(StepId(2)), Some(StepOutcome::Ok(20))));
        assert!(queue.take_unfinished_updates().is_empty());
    }
}

#[test]
fn a_fenced_life_is_not_heard_any_more() {
    let (mut queue, _) = after_loss([(2, true), (2, true)]);
    let late = super::super::AttemptId { step: StepId(1), turn: 2 };
    assert_eq!(queue.committed(NOW, worker_id(0, 1), late, Some(2), 10), Receipt::Repeated);
    assert_eq!(queue.take(NOW, worker_id(0, 1), 0, 1), Err(Rejection::Ended(worker_id(0, 1))));
    assert_eq!(queue.fenced(worker_id(0, 1), &[]), Err(Rejection::Ended(worker_id(0, 1))));
    queue.joined(NOW, worker_id(0, 1), 0);
    assert_eq!(queue.workers(NOW).count(), 1, "it stays over");
    assert!(queue.outcome(StepId(1)).is_none());
}

#[test]
fn a_report_between_loss_and_fence_still_counts() {
    let mut queue = queue(SchedulerOptions::default(), 1, 1);
    let given = take(&mut queue, 0, 1);
    assert!(queue.lost(worker_id(0, 1)));
    assert_eq!(commit(&mut queue, 0, &given[0], 1), Receipt::Taken);
    assert_eq!((queue.fenced(worker_id(0, 1), &[(1, true)]), queue.is_done()), (Ok(()), true));
}

#[test]
fn an_update_that_no_step_explains_is_remarked() {
    let (mut queue, rejection) = after_loss([(4, true), (3, true)]);
    assert_eq!(rejection, Err(Rejection::Unexplained(worker_id(0, 1), 4)));
    assert_eq!(steps(&take(&mut queue, 1, 9)), [1, 2, 3]);
}

#[test]
fn an_evaluation_is_simply_run_again_and_takes_no_number() {
    let mut queue = Queue::new(SchedulerOptions::default());
    [0, 1].iter().for_each(|&index| queue.joined(NOW, worker_id(index, 1), 0));
    for effect in [StepEffect::Nothing, StepEffect::Update] {
        queue.schedule(0, 1, effect).unwrap();
    }
    take(&mut queue, 0, 2);
    assert!(queue.lost(worker_id(0, 1)));
    queue.fenced(worker_id(0, 1), &[(1, true)]).unwrap();
    let given = take(&mut queue, 1, 2);
    let names: Vec<_> = given.iter().map(|assignment| assignment.on_behalf_of).collect();
    assert_eq!(names, [None, Some(worker_id(0, 1).update(1))]);
    assert_eq!(queue.committed(NOW, worker_id(1, 1), given[0].attempt_id, None, 0), Receipt::Taken);
}

#[test]
fn a_name_survives_the_loss_of_the_one_who_pushes_on_behalf() {
    let (mut queue, _) = after_loss([(2, true), (1, true)]);
    take(&mut queue, 1, 1);
    assert!(queue.lost(worker_id(1, 1)));
    queue.fenced(worker_id(1, 1), &[(0, true), (0, true)]).unwrap();
    queue.joined(NOW, worker_id(2, 1), 0);
    assert_eq!(take(&mut queue, 2, 1)[0].on_behalf_of, Some(worker_id(0, 1).update(2)));
}

#[test]
fn a_half_pushed_step_that_cannot_be_finished_is_owed_and_says_so() {
    let (mut queue, _) = after_loss([(2, true), (1, true)]);
    let given = take(&mut queue, 1, 1);
    let error = phalanx_base::Error::new(phalanx_base::Code::DataRow, "row 7");
    assert_eq!(queue.failed(NOW, worker_id(1, 1), given[0].attempt_id, error), Receipt::Taken);
    let outcome = queue.outcome(StepId(1));
    assert!(matches!(outcome, Some(StepOutcome::Failed { update: UpdateReach::Somewhere, .. })));
    assert_eq!(queue.take_unfinished_updates(), [worker_id(0, 1).update(2)]);
    assert!(queue.take_unfinished_updates().is_empty());
}

#[test]
fn what_a_leaving_worker_did_not_run_comes_back() {
    let mut queue = queue(SchedulerOptions::default(), 2, 3);
    let given = take(&mut queue, 0, 3);
    assert_eq!(commit(&mut queue, 0, &given[0], 1), Receipt::Taken);
    assert_eq!(queue.left(worker_id(0, 1)), Ok(()));
    let given = take(&mut queue, 1, 9);
    assert_eq!(steps(&given), [1, 2]);
    assert!(given.iter().all(|assignment| assignment.on_behalf_of.is_none()));
    assert_eq!(queue.left(worker_id(0, 1)), Err(Rejection::Ended(worker_id(0, 1))));
}

#[test]
fn reports_may_come_in_any_order_and_the_lost_step_keeps_its_number() {
    let mut queue = queue(SchedulerOptions::default(), 2, 3);
    let given = take(&mut queue, 0, 3);
    assert_eq!(commit(&mut queue, 0, &given[1], 2), Receipt::Taken);
    assert!(queue.lost(worker_id(0, 1)));
    queue.fenced(worker_id(0, 1), &[(3, true), (2, true)]).unwrap();
    let names: Vec<_> = take(&mut queue, 1, 9).iter().map(|again| again.on_behalf_of).collect();
    assert_eq!(names, [Some(worker_id(0, 1).update(1)), Some(worker_id(0, 1).update(3))]);
}

#[test]
fn a_life_that_is_fenced_before_it_joins_never_gets_a_step() {
    let mut queue = queue(SchedulerOptions::default(), 0, 1);
    assert!(!queue.lost(worker_id(0, 1)));
    assert_eq!(queue.fenced(worker_id(0, 1), &[(0, true)]), Err(Rejection::NeverJoined(worker_id(0, 1))));
    queue.joined(NOW, worker_id(0, 1), 0);
    assert_eq!(queue.take(NOW, worker_id(0, 1), 0, 1), Err(Rejection::Ended(worker_id(0, 1))));
}

//! Synchronous rounds.

use super::*;
use crate::schedule::Consistency;

fn rounds(workers: u32, size: u64, backups: u64) -> Queue {
    let mut queue = Queue::new(SchedulerOptions {
        consistency: Consistency::Rounds { size, backups },
        ..SchedulerOptions::default()
    });
    (0..workers).for_each(|index| queue.joined(NOW, worker_id(index, 1), 0));
    queue
}

fn schedule(queue: &mut Queue, count: u64) {
    for _ in 0..count {
        queue.schedule(0, 1, StepEffect::Update).unwrap();
    }
}

fn one(queue: &mut Queue, index: u32, heard: u64) -> Option<Assignment<u64>> {
    queue.take(NOW, worker_id(index, 1), heard, 8).unwrap().pop()
}

#[test]
fn nobody_gets_a_step_of_the_next_round_before_this_one_is_closed() {
    let mut queue = rounds(2, 2, 0);
    schedule(&mut queue, 4);
    let (first, second) = (one(&mut queue, 0, 0).unwrap(), one(&mut queue, 1, 0).unwrap());
    assert_eq!((first.round, second.round), (Some(0), Some(0)));
    assert_eq!(queue.committed(NOW, worker_id(0, 1), first.attempt_id, Some(1), 0), Receipt::Taken);
    assert!(one(&mut queue, 0, 1).is_none() && queue.complete_round().is_none());
    assert_eq!(queue.committed(NOW, worker_id(1, 1), second.attempt_id, Some(1), 0), Receipt::Taken);
    assert_eq!(queue.complete_round(), Some(0));
    assert!(one(&mut queue, 0, 1).is_none(), "complete, but not closed yet");
    queue.round_closed(0);
    assert_eq!(one(&mut queue, 0, 1).unwrap().round, Some(1));
}

#[test]
fn a_round_does_not_wait_for_backups_and_the_late_step_keeps_its_round() {
    let mut queue = rounds(3, 3, 1);
    schedule(&mut queue, 6);
    let given: Vec<_> = (0..3).map(|index| one(&mut queue, index, 0).unwrap()).collect();
    for index in 0..2 {
        let receipt = queue.committed(NOW, worker_id(index, 1), given[index as usize].attempt_id, Some(1), 0);
        assert_eq!(receipt, Receipt::Taken);
    }
    assert_eq!(queue.complete_round(), Some(0));
    queue.round_closed(0);
    // The late one is lost with nothing pushed: it runs for the round that is open.
    assert!(queue.lost(worker_id(2, 1)));
    queue.fenced(worker_id(2, 1), &[(0, true)]).unwrap();
    let again = one(&mut queue, 0, 1).unwrap();
    assert_eq!((again.attempt_id.step, again.round), (given[2].attempt_id.step, Some(1)));
}

#[test]
fn a_lost_workers_step_is_run_again_for_the_same_round() {
    let mut queue = rounds(2, 2, 0);
    schedule(&mut queue, 2);
    let (first, second) = (one(&mut queue, 0, 0).unwrap(), one(&mut queue, 1, 0).unwrap());
    assert!(queue.lost(worker_id(0, 1)));
    queue.fenced(worker_id(0, 1), &[(1, true), (0, true)]).unwrap();
    assert_eq!(queue.committed(NOW, worker_id(1, 1), second.attempt_id, Some(1), 0), Receipt::Taken);
    let again = one(&mut queue, 1, 1).unwrap();
    assert_eq!((again.attempt_id.step, again.round), (first.attempt_id.step, Some(0)));
    assert_eq!(again.on_behalf_of, Some(worker_id(0, 1).update(1)));
}

#[test]
fn where_nothing_is_left_a_round_with_fewer_gradients_is_complete() {
    let mut queue = rounds(1, 3, 0);
    queue.schedule(0, 1, StepEffect::Update).unwrap();
    let step = one(&mut queue, 0, 0).unwrap();
    assert!(queue.complete_round().is_none());
    assert_eq!(queue.committed(NOW, worker_id(0, 1), step.attempt_id, Some(1), 0), Receipt::Taken);
    assert!(queue.complete_round().is_none(), "another step may be scheduled for it");
    queue.end_round();
    assert_eq!(queue.complete_round(), Some(0));
    schedule(&mut queue, 1);
    assert!(queue.complete_round().is_none());
}

#[test]
fn a_worker_takes_a_second_step_of_a_round_only_if_it_leaves_the_others_theirs() {
    let mut queue = rounds(2, 3, 0);
    schedule(&mut queue, 6);
    let first = one(&mut queue, 0, 0).unwrap();
    assert_eq!(queue.committed(NOW, worker_id(0, 1), first.attempt_id, Some(1), 0), Receipt::Taken);
    // Of three steps one is left for the other worker.
    let second = one(&mut queue, 0, 1).unwrap();
    assert_eq!(queue.committed(NOW, worker_id(0, 1), second.attempt_id, Some(2), 0), Receipt::Taken);
    assert!(one(&mut queue, 0, 2).is_none());
    assert_eq!(one(&mut queue, 1, 0).unwrap().round, Some(0));
}

#[test]
fn after_the_end_of_a_pass_a_round_has_a_step_of_each_worker_again() {
    let mut queue = rounds(2, 2, 0);
    schedule(&mut queue, 2);
    for index in 0..2 {
        let step = one(&mut queue, index, 0).unwrap();
        assert_eq!(queue.committed(NOW, worker_id(index, 1), step.attempt_id, None, 0), Receipt::Taken);
    }
    queue.end_round();
    schedule(&mut queue, 2);
    let first = one(&mut queue, 0, 1).unwrap();
    assert_eq!(queue.committed(NOW, worker_id(0, 1), first.attempt_id, Some(1), 0), Receipt::Taken);
    assert!(one(&mut queue, 0, 2).is_none(), "the other step is the other worker's");
    assert_eq!(one(&mut queue, 1, 1).unwrap().round, Some(0));
}

#[test]
fn a_step_that_pushed_nothing_is_replaced_in_its_round() {
    let mut queue = rounds(2, 2, 0);
    schedule(&mut queue, 3);
    let (first, second) = (one(&mut queue, 0, 0).unwrap(), one(&mut queue, 1, 0).unwrap());
    assert_eq!(queue.committed(NOW, worker_id(0, 1), first.attempt_id, None, 0), Receipt::Taken);
    assert_eq!(queue.committed(NOW, worker_id(1, 1), second.attempt_id, Some(1), 0), Receipt::Taken);
    assert!(queue.complete_round().is_none());
    assert_eq!(one(&mut queue, 1, 1).unwrap().round, Some(0));
}

#[test]
fn a_life_that_a_former_coordinator_had_goes_on_with_its_numbers_or_is_completed() {
    let mut queue = queue(SchedulerOptions::default(), 0, 0);
    queue.joined(NOW, worker_id(0, 1), 7);
    // Lost before this coordinator came; only the second server has its step 4.
    assert!(queue.fenced(worker_id(1, 1), &[(3, true), (4, true)]).is_err());
    // Only the first, which counts, has this one's step 2.
    assert!(queue.fenced(worker_id(2, 1), &[(2, true), (1, true)]).is_err());
    queue.start_at(3, 40);
    let step = queue.schedule(0, 1, StepEffect::Update).unwrap();
    queue.adopt_unfinished_updates(step);
    let given = queue.take(NOW, worker_id(0, 1), 0, 8).unwrap();
    assert_eq!((given[0].round, given[0].closed), (None, 0), "there are no rounds");
    let names: Vec<_> = given.iter().map(|given| given.on_behalf_of).collect();
    assert_eq!(names, [Some(worker_id(1, 1).update(4)), Some(worker_id(2, 1).update(2))], "adopted, and copied");
    assert_eq!(queue.committed(NOW, worker_id(0, 1), given[0].attempt_id, Some(4), 0), Receipt::Taken);
    assert_eq!(queue.committed(NOW, worker_id(0, 1), given[1].attempt_id, Some(2), 0), Receipt::Taken);
    queue.schedule(0, 1, StepEffect::Update).unwrap();
    let own = queue.take(NOW, worker_id(0, 1), 2, 8).unwrap();
    assert_eq!(queue.committed(NOW, worker_id(0, 1), own[0].attempt_id, Some(8), 0), Receipt::Taken, "after its seven");
}

//! The scheduler's guarantees, case by case; `random` checks them over random histories.

mod failing;
mod losing;
mod queueing;
mod random;
mod rounds;

use super::{Assignment, Receipt, Scheduler, SchedulerOptions, StepEffect, StepId, TaskIncarnation};
use phalanx_base::{Incarnation, Role, TaskId};
use std::time::Duration;

type Queue = Scheduler<u64, u64>;

const NOW: Duration = Duration::ZERO;

fn worker_id(index: u32, incarnation: u64) -> TaskIncarnation {
    TaskIncarnation::new(TaskId::new(Role::Worker, index), Incarnation(incarnation))
}

/// A scheduler with `workers` that have joined and `steps` updates in the queue.
fn queue(options: SchedulerOptions, workers: u32, steps: u64) -> Queue {
    let mut queue = Queue::new(options);
    (0..workers).for_each(|index| queue.joined(NOW, worker_id(index, 1), 0));
    (0..steps).for_each(|step| assert_eq!(queue.schedule(step, 1, StepEffect::Update), Ok(StepId(step))));
    queue
}

fn take(queue: &mut Queue, index: u32, want: usize) -> Vec<Assignment<u64>> {
    queue.take(NOW, worker_id(index, 1), u64::MAX, want).unwrap()
}

fn commit(queue: &mut Queue, index: u32, given: &Assignment<u64>, sequence: u64) -> Receipt {
    queue.committed(NOW, worker_id(index, 1), given.attempt_id, Some(sequence), given.work * 10)
}

fn steps(given: &[Assignment<u64>]) -> Vec<u64> {
    given.iter().map(|assignment| assignment.attempt_id.step.0).collect()
}

//! Tests of [`super::dense`]. Separate, because `tests/loom` includes that file.

use super::dense::Dense;
use super::snapshot::SnapshotKind;
use crate::Executor;
use crate::plan::CHUNK;
use phalanx_base::{Code, F32Block, Shape, read_f32s, write_f32s};
use phalanx_optim::{Adagrad, Optimizer, Sgd};
use std::sync::Arc;

fn bytes(numbers: &[f32]) -> Vec<u8> {
    let mut out = Vec::new();
    write_f32s(numbers, &mut out);
    out
}

fn values(shard: &Dense) -> Vec<f32> {
    let mut out = vec![0; 4 * shard.len()];
    shard.pull(0..shard.len(), &mut out, Executor::Serial).unwrap();
    let mut numbers = vec![0.0; shard.len()];
    read_f32s(&out, &mut numbers);
    numbers
}

fn shard(len: usize, optimizer: impl Into<Optimizer>) -> Dense {
    Dense::new("w".into(), Shape::new([len]).unwrap(), 0..len, optimizer.into(), Arc::default())
}

#[test]
fn a_push_in_two_parts_equals_a_push_in_one() {
    let len = 2 * CHUNK + 100;
    let gradient: Vec<f32> = (0..len).map(|i| i as f32 / 1000.0).collect();
    let (whole, parts) = (shard(len, Adagrad::new(0.1)), shard(len, Adagrad::new(0.1)));
    for _ in 0..3 {
        whole.push(0..len, &bytes(&gradient), None, Executor::Serial).unwrap();
        parts.push(0..CHUNK + 7, &bytes(&gradient[..CHUNK + 7]), None, Executor::Serial).unwrap();
        parts.push(CHUNK + 7..len, &bytes(&gradient[CHUNK + 7..]), None, Executor::Serial).unwrap();
    }
    assert_eq!(values(&whole), values(&parts));
    assert!(whole.version() > 1 && parts.version() > 1);
}

#[test]
fn many_threads_make_of_a_push_what_one_makes() {
    let len = 21 * CHUNK + 100;
    let gradient: Vec<f32> = (0..len).map(|i| (i % 977) as f32 / 100.0).collect();
    let pushed = |executor| {
        let shard = shard(len, Adagrad::new(0.1));
        (0..2).for_each(|_| shard.push(5..len, &bytes(&gradient[5..]), None, executor).unwrap());
        let mut out = vec![0; 4 * (len - 3)];
        shard.pull(3..len, &mut out, executor).unwrap();
        out
    };
    assert_eq!(pushed(Executor::Serial), pushed(Executor::Parallel));
}

#[test]
fn a_round_applies_the_mean_once_it_is_closed() {
    let shard = shard(2, Sgd::new(1.0));
    let mut block = F32Block::default();
    assert!(shard.contribute(0, 0..2, &bytes(&[1.0, 2.0]), None, &mut block).unwrap());
    assert!(shard.contribute(0, 0..2, &bytes(&[3.0, 2.0]), None, &mut block).unwrap());
    assert_eq!(values(&shard), [0.0, 0.0], "not before it is closed");
    shard.close(1);
    assert_eq!(values(&shard), [-2.0, -2.0]);
    assert!(!shard.contribute(0, 0..2, &bytes(&[9.0, 9.0]), None, &mut block).unwrap(), "late");
    assert_eq!(values(&shard), [-2.0, -2.0]);
}

#[test]
fn an_update_may_set_a_learning_rate() {
    let shard = shard(1, Sgd::new(1.0));
    let mut block = F32Block::default();
    shard.push(0..1, &bytes(&[1.0]), Some(0.25), Executor::Serial).unwrap();
    assert_eq!(values(&shard), [-0.25]);
    shard.push(0..1, &bytes(&[1.0]), None, Executor::Serial).unwrap();
    assert_eq!(values(&shard), [-1.25]);
    assert!(shard.contribute(0, 0..1, &bytes(&[2.0]), Some(0.5), &mut block).unwrap());
    shard.close(1);
    assert_eq!(values(&shard), [-2.25]);
    assert!(shard.contribute(1, 0..1, &bytes(&[2.0]), None, &mut block).unwrap());
    shard.close(2);
    assert_eq!(values(&shard), [-4.25]);
}

#[test]
fn values_that_are_replaced_keep_their_slots_and_lose_closed_rounds() {
    let shard = shard(2, Adagrad::new(1.0).initial_accumulator_value(0.0));
    let mut block = F32Block::default();
    shard.push(0..2, &bytes(&[3.0, 3.0]), None, Executor::Serial).unwrap();
    assert!(shard.contribute(0, 0..2, &bytes(&[9.0, 9.0]), None, &mut block).unwrap());
    let before = shard.version();
    shard.replace(1, 0..2, &bytes(&[5.0, 6.0])).unwrap();
    assert_eq!(values(&shard), [5.0, 6.0], "the round was closed before");
    assert!(shard.version() != before);
    let mut accumulator = Vec::new();
    shard.begin_snapshot(SnapshotKind::Checkpoint, 1);
    shard
        .read_snapshot(SnapshotKind::Checkpoint, 1, |numbers| {
            accumulator.extend_from_slice(numbers);
            Ok(())
        })
        .unwrap();
    assert_eq!(accumulator, [90.0, 90.0], "the slots of the updates are kept");
}

#[test]
fn ranges_from_outside_are_checked() {
    let shard = shard(10, Sgd::new(1.0));
    assert!(shard.check(3, 7).is_ok());
    for (start, count) in [(4, 7), (u64::MAX, 2), (0, u64::MAX)] {
        assert_eq!(shard.check(start, count).unwrap_err().code(), Code::ShapeMismatch);
    }
}

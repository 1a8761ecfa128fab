//! Tests of [`super::applied`], in any order of messages. Separate, because `tests/loom` includes that file.

use super::{AppliedUpdates, TaskIncarnation, TaskProgress, UpdateOutcome, UpdatePart, lock};
use phalanx_base::{Code, Error, Incarnation, Role, TaskId};
use proptest::prelude::*;
use std::collections::HashMap;

fn worker(index: u32) -> TaskIncarnation {
    (TaskId::new(Role::Worker, index), Incarnation(1))
}

fn update(step: u64, part: u32, parts: u32) -> UpdatePart {
    UpdatePart { step, part, parts, by_another: false }
}

fn by_another(step: u64, part: u32, parts: u32) -> UpdatePart {
    UpdatePart { by_another: true, ..update(step, part, parts) }
}

fn refusal(progress: &TaskProgress, update: UpdatePart) -> Code {
    progress.deduplicate(update).unwrap_err().code()
}

#[test]
fn a_fenced_task_is_refused_and_another_may_finish_its_step() {
    let mut progress = TaskProgress { fenced: true, ..TaskProgress::default() };
    progress.advance(update(3, 0, 2));
    assert_eq!(refusal(&progress, update(3, 1, 2)), Code::Fenced);
    assert_eq!(progress.deduplicate(by_another(3, 0, 2)).unwrap(), UpdateOutcome::Repeat);
    assert_eq!(progress.deduplicate(by_another(3, 1, 2)).unwrap(), UpdateOutcome::Fresh);
}

#[test]
fn a_gap_is_an_error_and_not_an_update() {
    let progress = TaskProgress::default();
    assert_eq!(refusal(&progress, update(2, 0, 1)), Code::UpdateGap);
    assert_eq!(refusal(&progress, update(1, 1, 2)), Code::UpdateGap);
    assert_eq!(refusal(&progress, update(1, 2, 2)), Code::BadMessage);
}

#[test]
fn a_restored_server_takes_the_next_step_whatever_it_is_and_no_gap_after_it() {
    let applied = AppliedUpdates::default();
    let saved = TaskProgress { step: 3, parts_applied: 1, parts: 1, ..TaskProgress::default() };
    applied.restore([(worker(0), saved)]);
    let known = applied.of(worker(0));
    assert_eq!(lock(&known).deduplicate(update(3, 0, 1)).unwrap(), UpdateOutcome::Repeat, "the checkpoint has it");
    for index in 0..2 {
        let progress = applied.of(worker(index));
        let mut progress = lock(&progress);
        assert_eq!(progress.deduplicate(update(9, 0, 1)).unwrap(), UpdateOutcome::Fresh);
        progress.advance(update(9, 0, 1));
        assert_eq!(progress.deduplicate(update(9, 0, 1)).unwrap(), UpdateOutcome::Repeat);
        assert_eq!(refusal(&progress, update(11, 0, 1)), Code::UpdateGap);
        assert_eq!(progress.deduplicate(update(10, 0, 1)).unwrap(), UpdateOutcome::Fresh);
    }
}

proptest! {
    /// Whatever is repeated, late or out of order: each update is applied at most once, and all of them in the end
    /// if each arrives once in order.
    #[test]
    fn each_update_is_applied_once(noise in proptest::collection::vec((1_u64..6, 0_u32..3), 0..200)) {
        let parts = |step: u64| 1 + (step % 3) as u32;
        let mut progress = TaskProgress::default();
        let mut applied = HashMap::new();
        let mut send = |progress: &mut TaskProgress, step, part| {
            let update = update(step, part, parts(step));
            if progress.deduplicate(update).is_ok_and(|outcome| outcome == UpdateOutcome::Fresh) {
                progress.advance(update);
                *applied.entry((step, part)).or_insert(0) += 1;
            }
        };
        let in_order: Vec<_> = (1..6).flat_map(|step| (0..parts(step)).map(move |part| (step, part))).collect();
        let mut noise = noise.into_iter();
        for &(step, part) in &in_order {
            for (step, part) in noise.by_ref().take(10) {
                if part < parts(step) {
                    send(&mut progress, step, part);
                }
            }
            send(&mut progress, step, part);
        }
        prop_assert!(in_order.iter().all(|id| applied[id] == 1));
        prop_assert_eq!(applied.len(), in_order.len());
    }
}

#[test]
fn numbers_at_their_end_are_refused_and_do_not_overflow() {
    let mut progress = TaskProgress { behind: true, ..TaskProgress::default() };
    for (part, parts) in [(u32::MAX, 0), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
        assert_eq!(refusal(&progress, update(1, part, parts)), Code::BadMessage, "{part} of {parts}");
        assert!(!update(1, part, parts).is_last(), "{part} of {parts}");
    }
    let newest = update(u64::MAX, 0, 1);
    assert_eq!(progress.deduplicate(newest).unwrap(), UpdateOutcome::Fresh, "a restored server takes any later step");
    progress.advance(newest);
    assert_eq!(progress.deduplicate(newest).unwrap(), UpdateOutcome::Repeat);
    assert_eq!(progress.deduplicate(update(0, 0, 1)).unwrap(), UpdateOutcome::Repeat);
}

#[test]
fn an_update_that_cannot_be_applied_is_not_recorded() {
    let (applied, task) = (AppliedUpdates::default(), worker(0));
    let update = update(1, 0, 1);
    let broken = applied.once(task, update, |_, _| Err(Error::new(Code::ShapeMismatch, "it does not fit")));
    assert_eq!(broken.unwrap_err().code(), Code::ShapeMismatch);
    assert_eq!(applied.once(task, update, |_, _| Ok(())).unwrap(), UpdateOutcome::Fresh);
    assert_eq!(applied.once(task, update, |_, _| panic!("it was applied before")).unwrap(), UpdateOutcome::Repeat);
    assert!(applied.fence(task).fenced);
    assert_eq!(applied.once(task, update, |_, _| panic!("it is fenced")).unwrap_err().code(), Code::Fenced);
}

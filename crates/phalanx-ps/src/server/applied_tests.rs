//! What [`super::applied`] promises, in any order of messages. Apart, because models in `tests/loom` include that file.

use super::applied::Update;
use super::{Applied, Progress, Verdict, lock};
use phalanx_base::{Code, Error, Incarnation, TaskId};
use proptest::prelude::*;
use std::collections::HashMap;

#[test]
fn a_fenced_task_is_refused_and_another_may_finish_its_step() {
    let mut progress = Progress { fenced: true, ..Progress::default() };
    progress.advance(3, 0, 2);
    assert_eq!(progress.judge(3, 1, 2, false).unwrap_err().code(), Code::Fenced);
    assert_eq!(progress.judge(3, 0, 2, true).unwrap(), Verdict::Repeat);
    assert_eq!(progress.judge(3, 1, 2, true).unwrap(), Verdict::Fresh);
}

#[test]
fn a_gap_is_an_error_and_not_an_update() {
    let progress = Progress::default();
    assert_eq!(progress.judge(2, 0, 1, false).unwrap_err().code(), Code::UpdateGap);
    assert_eq!(progress.judge(1, 1, 2, false).unwrap_err().code(), Code::UpdateGap);
    assert_eq!(progress.judge(1, 2, 2, false).unwrap_err().code(), Code::BadMessage);
}

#[test]
fn a_restored_server_takes_the_next_step_whatever_it_is_and_no_gap_after_it() {
    let applied = Applied::default();
    let life = |index| (TaskId::new(phalanx_base::Role::Worker, index), Incarnation(1));
    let saved = Progress { step: 3, parts_applied: 1, parts: 1, ..Progress::default() };
    applied.restore([(life(0), saved)]);
    let known = applied.of(life(0).0, life(0).1);
    assert_eq!(lock(&known).judge(3, 0, 1, false).unwrap(), Verdict::Repeat, "the checkpoint has it");
    for index in 0..2 {
        let progress = applied.of(life(index).0, life(index).1);
        let mut progress = lock(&progress);
        assert_eq!(progress.judge(9, 0, 1, false).unwrap(), Verdict::Fresh);
        progress.advance(9, 0, 1);
        assert_eq!(progress.judge(9, 0, 1, false).unwrap(), Verdict::Repeat);
        assert_eq!(progress.judge(11, 0, 1, false).unwrap_err().code(), Code::UpdateGap);
        assert_eq!(progress.judge(10, 0, 1, false).unwrap(), Verdict::Fresh);
    }
}

proptest! {
    /// Whatever is repeated, late or out of order: each name is applied at most once, and all of them in the end
    /// if each arrives once in its turn.
    #[test]
    fn each_name_is_applied_once(noise in proptest::collection::vec((1_u64..6, 0_u32..3), 0..200)) {
        let parts = |step: u64| 1 + (step % 3) as u32;
        let mut progress = Progress::default();
        let mut applied = HashMap::new();
        let mut send = |progress: &mut Progress, step, part| {
            if progress.judge(step, part, parts(step), false).is_ok_and(|v| v == Verdict::Fresh) {
                progress.advance(step, part, parts(step));
                *applied.entry((step, part)).or_insert(0) += 1;
            }
        };
        let in_turn: Vec<_> = (1..6).flat_map(|step| (0..parts(step)).map(move |part| (step, part))).collect();
        let mut noise = noise.into_iter();
        for &(step, part) in &in_turn {
            for (step, part) in noise.by_ref().take(10) {
                if part < parts(step) {
                    send(&mut progress, step, part);
                }
            }
            send(&mut progress, step, part);
        }
        prop_assert!(in_turn.iter().all(|name| applied[name] == 1));
        prop_assert_eq!(applied.len(), in_turn.len());
    }
}

#[test]
fn numbers_at_their_end_are_refused_and_do_not_overflow() {
    let mut progress = Progress { behind: true, ..Progress::default() };
    for (part, parts) in [(u32::MAX, 0), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
        assert_eq!(progress.judge(1, part, parts, false).unwrap_err().code(), Code::BadMessage, "{part} of {parts}");
        assert!(!Update { step: 1, part, parts, by_another: false }.is_last(), "{part} of {parts}");
    }
    assert_eq!(
        progress.judge(u64::MAX, 0, 1, false).unwrap(),
        Verdict::Fresh,
        "a restored server takes any later step"
    );
    progress.advance(u64::MAX, 0, 1);
    assert_eq!(progress.judge(u64::MAX, 0, 1, false).unwrap(), Verdict::Repeat);
    assert_eq!(progress.judge(0, 0, 1, false).unwrap(), Verdict::Repeat);
}

#[test]
fn an_update_that_cannot_be_applied_is_not_recorded() {
    let (applied, life) = (Applied::default(), (TaskId::new(phalanx_base::Role::Worker, 0), Incarnation(1)));
    let update = Update { step: 1, part: 0, parts: 1, by_another: false };
    let broken = applied.once(life, update, |_, _| Err(Error::new(Code::ShapeMismatch, "it does not fit")));
    assert_eq!(broken.unwrap_err().code(), Code::ShapeMismatch);
    assert_eq!(applied.once(life, update, |_, _| Ok(())).unwrap(), Verdict::Fresh);
    assert_eq!(applied.once(life, update, |_, _| panic!("it was applied before")).unwrap(), Verdict::Repeat);
    assert!(applied.fence(life).fenced);
    assert_eq!(applied.once(life, update, |_, _| panic!("it is fenced")).unwrap_err().code(), Code::Fenced);
}

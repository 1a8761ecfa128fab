//! Positions: what they hold, what they refuse, what they cost.

use crate::common::{Op, Parts, all, apply, values};
use phalanx_base::Code;
use phalanx_data::{Batch, Dataset, HashSplit, InputContext, Position, RowFilter, SourceExt, SplitPart};

#[test]
fn a_position_is_small() {
    let data = Dataset::from_source(Parts::source([5000, 5000])).shuffle(1000).repeat().batch(64).prefetch(4);
    let mut iter = data.iter().unwrap();
    for _ in 0..300 {
        iter.next().unwrap().unwrap();
    }
    let bytes = iter.position().to_bytes();
    assert!(bytes.len() < 100, "{} bytes", bytes.len());
    assert_eq!(iter.position().elements(), 300);
}

#[test]
fn an_unseeded_shuffle_continues_in_another_process() {
    let make = || Dataset::range(0, 50, 1).shuffle(20).repeat_times(3).batch(8);
    let data = make();
    let mut iter = data.iter().unwrap();
    for _ in 0..4 {
        iter.next();
    }
    let position = Position::from_bytes(&iter.position().to_bytes()).unwrap();
    let rest: Vec<_> = iter.map(Result::unwrap).collect();
    let again: Vec<_> = make().iter_from(&position).unwrap().map(Result::unwrap).collect();
    assert_eq!(values(&rest), values(&again));
}

#[test]
fn a_long_shuffle_resumes_exactly() {
    let make = || Dataset::range(0, 60_000, 1).shuffle_seeded(3000, 9).batch(500);
    let data = make();
    let want = values(&all(&make()).unwrap());
    let mut iter = data.iter().unwrap();
    for taken in [1, 30, 60] {
        for _ in 0..taken {
            iter.next();
        }
        let rest: Vec<_> = make().iter_from(&iter.position()).unwrap().map(Result::unwrap).collect();
        assert_eq!(values(&rest), &want[iter.elements() as usize * 500..]);
    }
}

#[test]
fn passes_are_counted_across_a_restore() {
    let make = || Dataset::range(0, 30, 1).shuffle_seeded(30, 5);
    let data = make();
    let passes: Vec<_> = (0..3).map(|_| values(&all(&data).unwrap())).collect();
    assert_ne!(passes[0], passes[1]);
    assert_ne!(passes[1], passes[2]);
    let again = make();
    let mut first = again.iter().unwrap();
    first.next();
    let restored = make();
    let rest: Vec<_> = restored.iter_from(&first.position()).unwrap().map(Result::unwrap).collect();
    assert_eq!(values(&rest), passes[0][1..]);
    assert_eq!(values(&all(&restored).unwrap()), passes[1], "the pass after the restored one is the second");
    let same = make().shuffle_with(30, Some(5), false);
    assert_eq!(values(&restored.iter_pass(2).unwrap().map(Result::unwrap).collect::<Vec<_>>()), passes[2]);
    assert_ne!(values(&all(&same).unwrap()), passes[0]);
}

#[test]
fn without_reshuffling_every_pass_is_the_same() {
    let data = Dataset::range(0, 30, 1).shuffle_with(30, None, false).repeat_times(2);
    let both = values(&all(&data).unwrap());
    assert_eq!(both[..30], both[30..]);
    assert_eq!(values(&all(&data).unwrap()), both);
}

#[test]
fn a_position_of_another_pipeline_is_refused() {
    let position = Dataset::range(0, 9, 1).batch(2).iter().unwrap().position();
    let error = Dataset::range(0, 9, 1).batch(3).iter_from(&position).unwrap_err();
    assert_eq!(error.code(), Code::CheckpointMismatch);
    assert!(error.to_string().contains("range(0 by 1 × 9) → batch(3)"), "{error}");
}

#[test]
fn a_position_of_other_files_is_refused() {
    let mut iter = Dataset::from_source(Parts::source([4, 4])).iter().unwrap();
    iter.next();
    let error = Dataset::from_source(Parts::source([4, 4, 4])).iter_from(&iter.position()).unwrap_err();
    assert!(error.to_string().contains("there were 2 parts files, now there are 3"), "{error}");
    let mut iter = Dataset::from_source(Parts::source([8])).iter().unwrap();
    for _ in 0..8 {
        iter.next();
    }
    let shorter = Dataset::from_source(Parts::source([2])).iter_from(&iter.position());
    assert!(shorter.map(|rest| rest.count()).unwrap_or(0) == 0);
}

#[test]
fn buffers_and_threads_may_change() {
    let make = |buffer, calls| {
        let data = Dataset::range(0, 40, 1);
        apply(apply(data, &Op::MapParallel(calls, None)), &Op::Prefetch(buffer)).batch(3)
    };
    let data = make(1, 1);
    let mut iter = data.iter().unwrap();
    iter.nth(4);
    let rest: Vec<_> = make(9, 3).iter_from(&iter.position()).unwrap().map(Result::unwrap).collect();
    assert_eq!(values(&rest), (15..40).map(|value| value * 2).collect::<Vec<i64>>());
}

#[test]
fn the_end_stays_the_end() {
    let data = Dataset::range(0, 3, 1);
    let mut iter = data.iter().unwrap();
    while iter.next().is_some() {}
    assert_eq!(data.iter_from(&iter.position()).unwrap().count(), 0);
}

/// The rest after every third batch, restored, is the rest of the pass.
fn resumes(make: impl Fn() -> Dataset) {
    let data = make();
    let whole: Vec<_> = data.iter_pass(0).unwrap().map(Result::unwrap).collect();
    let mut iter = make().iter_pass(0).unwrap();
    assert!(whole.len() > 5);
    for done in 0..whole.len() {
        if done % 3 == 0 {
            let position = Position::from_bytes(&iter.position().to_bytes()).unwrap();
            let rest: Vec<_> = make().iter_from(&position).unwrap().map(Result::unwrap).collect();
            assert!(rest == whole[done..], "after {done} of {}", data.describe());
        }
        iter.next();
    }
}

#[test]
fn files_resume_in_the_middle_of_a_chunk() {
    let folder = tempfile::tempdir().unwrap();
    for (file, rows) in [("a", 2500), ("b", 7), ("c", 1800)] {
        let line = |row: usize| format!("{row},\"{file} {row}\"\n");
        let text = format!("number,word\n{}", (0..rows).map(line).collect::<String>());
        std::fs::write(folder.path().join(file).with_extension("csv"), text).unwrap();
    }
    let files = folder.path().join("*.csv");
    resumes(|| phalanx_data::csv(&files).batch(300));
    resumes(|| phalanx_data::csv(&files).shuffle_seeded(500, 4).batch(300));
    resumes(|| phalanx_data::csv(&files).interleave_files(2).batch(300).prefetch(2));
    resumes(|| phalanx_data::text_lines(&files).batch(300));
    resumes(|| phalanx_data::synthetic_clicks(3, 2000).dataset().shuffle_seeded(100, 4).batch(150));
}

#[test]
fn filters_and_splits_resume_after_every_batch_and_their_parts_are_the_whole() {
    let text = (0..3000).fold("user,age\n".to_owned(), |text, row| text + &format!("{},{}\n", row * 7 % 501, row % 90));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.csv");
    std::fs::write(&path, text).unwrap();
    let make = |worker: usize, part: SplitPart| {
        let cx = InputContext { num_input_pipelines: 2, input_pipeline_id: worker, num_replicas_in_sync: 2 };
        let rows = phalanx_data::csv(&path).dataset().shard(cx);
        let rows = rows.filter_where(RowFilter::parse("age >= 18").unwrap());
        rows.filter_split(HashSplit::new("user", 0.3).unwrap(), part).shuffle_seeded(50, 4).repeat_times(2).batch(40)
    };
    let pairs = |batches: &[Batch]| -> Vec<(i64, i64)> {
        let of = |batch: &Batch| -> Vec<(i64, i64)> {
            let (users, ages) = (batch.i64("user").unwrap(), batch.i64("age").unwrap());
            users.iter().copied().zip(ages.iter().copied()).collect()
        };
        batches.iter().flat_map(of).collect()
    };
    let mut seen = Vec::new();
    for (worker, part) in [(0, SplitPart::Train), (1, SplitPart::Train), (0, SplitPart::Eval), (1, SplitPart::Eval)] {
        let want = pairs(&all(&make(worker, part)).unwrap());
        let data = make(worker, part);
        let mut iter = data.iter().unwrap();
        loop {
            let rest: Vec<Batch> =
                make(worker, part).iter_from(&iter.position()).unwrap().map(Result::unwrap).collect();
            let taken = (iter.elements() as usize * 40).min(want.len());
            assert_eq!(pairs(&rest), want[taken..]);
            if iter.next().is_none() {
                break;
            }
        }
        seen.extend(want);
    }
    let rows = |row: i64| (row * 7 % 501, row % 90);
    let mut wanted: Vec<_> = (0..3000).map(rows).filter(|row| row.1 >= 18).flat_map(|row| [row, row]).collect();
    wanted.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, wanted);
}

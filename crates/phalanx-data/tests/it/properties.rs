//! What must hold for every pipeline, tried on random ones.

use crate::common::{Op, Parts, all, apply, cx, values};
use phalanx_data::{AutoShardPolicy, Batch, Dataset, Options, Position};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Start {
    Range(i64),
    Parts(Vec<usize>, usize),
    Slices(i64),
    Generator(i64),
}

fn build(start: &Start, ops: &[Op]) -> Dataset {
    let slices = |n: i64| {
        let column = phalanx_data::Column::i64((0..n).collect());
        Batch::new([("value", column)]).unwrap()
    };
    let data = match start.clone() {
        Start::Range(n) => Dataset::range(0, n, 1),
        Start::Parts(lens, cycle) => Dataset::from_source_interleaved(Parts::source(lens), cycle),
        Start::Slices(n) => Dataset::from_tensor_slices(slices(n)),
        Start::Generator(n) => Dataset::from_fn(move || {
            (0..n).step_by(4).map(move |i| Ok(slices(n).slice(i as usize..n.min(i + 4) as usize)))
        }),
    };
    ops.iter().fold(data, apply)
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        (0..40_i64).prop_map(Start::Range),
        (prop::collection::vec(0..9_usize, 0..7), 1..4_usize).prop_map(|(lens, cycle)| Start::Parts(lens, cycle)),
        (0..40_i64).prop_map(Start::Slices),
        (1..40_i64).prop_map(Start::Generator),
    ]
}

fn seed() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0..5_u64).prop_map(Some)]
}

/// Stages that keep every row, on un-batched data.
fn row_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Map),
        (1..4_usize).prop_map(|calls| Op::MapParallel(calls, None)),
        (0..3_usize).prop_map(Op::MapBatches),
        (1..30_usize, seed(), any::<bool>()).prop_map(|(buffer, seed, again)| Op::Shuffle(buffer, seed, again)),
        Just(Op::Cache),
        (1..9_usize).prop_map(Op::Prefetch),
        (1..3_usize, 1..3_usize, 0..3_usize).prop_map(|(c, b, p)| Op::Interleave(vec![1], c, b, p)),
        Just(Op::FlatMap(vec![1])),
    ]
}

/// Stages that drop, add or join rows.
fn other_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..30_u64).prop_map(Op::Take),
        (0..10_u64).prop_map(Op::Skip),
        (1..4_usize).prop_flat_map(|n| (Just(n), 0..n)).prop_map(|(n, i)| Op::Shard(n, i)),
        (1..4_u64).prop_map(Op::Repeat),
        (2..4_i64).prop_map(Op::Filter),
        (2..4_i64).prop_map(Op::FilterRows),
        (0..3_i64, 0..6_i64).prop_map(|(a, b)| Op::Concatenate(a, b)),
        (prop::collection::vec(0..4_usize, 1..4), 1..4_usize, 1..3_usize, 0..3_usize)
            .prop_map(|(lens, cycle, block, threads)| Op::Interleave(lens, cycle, block, threads)),
        prop::collection::vec(0..3_usize, 1..3).prop_map(Op::FlatMap),
    ]
}

/// A tail of stages over batches, and back to rows perhaps.
fn batch_ops() -> impl Strategy<Value = Vec<Op>> {
    let on_batches = prop_oneof![
        (1..9_usize, seed()).prop_map(|(buffer, seed)| Op::Shuffle(buffer, seed, true)),
        (1..3_usize).prop_map(|calls| Op::MapParallel(calls, None)),
        Just(Op::Cache),
        (1..4_usize).prop_map(Op::Prefetch),
        prop::collection::vec(1..5_usize, 1..4).prop_map(Op::Rebatch),
        (1..3_u64).prop_map(Op::Repeat),
    ];
    (1..6_usize, any::<bool>(), prop::collection::vec(on_batches, 0..3), any::<bool>()).prop_map(
        |(size, drop, mut ops, unbatch)| {
            ops.insert(0, Op::Batch(size, drop));
            if unbatch {
                ops.push(Op::Unbatch);
            }
            ops
        },
    )
}

fn pipeline() -> impl Strategy<Value = Vec<Op>> {
    let rows = prop::collection::vec(prop_oneof![row_op(), other_op()], 0..5);
    (rows, prop::option::of(batch_ops())).prop_map(|(mut rows, batches)| {
        rows.extend(batches.unwrap_or_default());
        rows
    })
}

/// The multiset of rows without regard to sharding, where the stages keep every row.
fn sorted(mut values: Vec<i64>) -> Vec<i64> {
    values.sort_unstable();
    values
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_position_gives_the_same_rest(start in start(), ops in pipeline(), chunk in 1..5_usize) {
        let data = build(&start, &ops);
        let mut iter = data.iter().unwrap();
        let (mut elements, mut positions) = (Vec::new(), vec![iter.position()]);
        while let Some(element) = iter.next_chunk(chunk).unwrap() {
            elements.push(element);
            positions.push(iter.position());
        }
        positions.push(iter.position());
        let want = values(&elements);
        for (index, position) in positions.iter().enumerate() {
            // As after a restart: nothing but the bytes survives.
            let position = Position::from_bytes(&position.to_bytes()).unwrap();
            let again = build(&start, &ops);
            let rest: Vec<Batch> = again.iter_from(&position).unwrap().collect::<Result<_, _>>().unwrap();
            let done = values(&elements[..index.min(elements.len())]).len();
            prop_assert_eq!(&values(&rest)[..], &want[done..], "from {} in {}", index, data.describe());
        }
    }

    #[test]
    fn every_row_goes_to_exactly_one_worker(
        start in start(),
        ops in prop::collection::vec(row_op(), 0..4),
        tail in prop::option::of((1..6_usize, 1..4_u64)),
        workers in 1..5_usize,
        policy in prop_oneof![Just(AutoShardPolicy::Auto), Just(AutoShardPolicy::Data)],
    ) {
        let mut ops = ops;
        if let Some((size, rounds)) = tail {
            ops.extend([Op::Repeat(rounds), Op::Batch(size, false)]);
        }
        let data = build(&start, &ops).with_options(Options { auto_shard_policy: Some(policy), ..Options::default() });
        let mut seen = Vec::new();
        for worker in 0..workers {
            // Each worker builds its own: only the plan is the same, not the random state.
            let own = build(&start, &ops).with_options(data.options());
            seen.extend(values(&all(&own.shard_for(&cx(worker, workers)).unwrap().0).unwrap()));
        }
        prop_assert_eq!(sorted(seen), sorted(values(&all(&data).unwrap())));
    }

    #[test]
    fn shares_after_stages_that_count_are_exact_too(
        start in start(),
        ops in prop::collection::vec(prop_oneof![
            (0..30_u64).prop_map(Op::Take), (0..10_u64).prop_map(Op::Skip), Just(Op::Map), Just(Op::Enumerate(0)),
            (1..20_usize).prop_map(|buffer| Op::Shuffle(buffer, Some(3), true)),
            (1..3_usize).prop_map(|calls| Op::MapParallel(calls, Some(false))),
        ], 0..4),
        workers in 1..5_usize,
    ) {
        let once = |ops: &[Op]| {
            let mut counted = false;
            ops.iter().filter(|op| !matches!(op, Op::Enumerate(_)) || !std::mem::replace(&mut counted, true)).cloned().collect::<Vec<_>>()
        };
        let ops = once(&ops);
        let mut seen = Vec::new();
        for worker in 0..workers {
            seen.extend(values(&all(&build(&start, &ops).shard_for(&cx(worker, workers)).unwrap().0).unwrap()));
        }
        // Alone, a parallel map may let elements overtake each other before a take: then only their number is fixed.
        let overtaking = ops.iter().any(|op| matches!(op, Op::MapParallel(..)));
        let whole = values(&all(&build(&start, &ops)).unwrap());
        if overtaking {
            prop_assert_eq!(seen.len(), whole.len());
            let distinct: std::collections::BTreeSet<i64> = seen.iter().copied().collect();
            prop_assert_eq!(distinct.len(), seen.len());
        } else {
            prop_assert_eq!(sorted(seen), sorted(whole));
        }
    }

    #[test]
    fn equal_seeds_give_equal_order(n in 0..60_i64, buffer in 1..80_usize, seed in any::<u64>(), rounds in 1..4_u64) {
        let make = || Dataset::range(0, n, 1).shuffle_seeded(buffer, seed).repeat_times(rounds).batch(7);
        let (first, second) = (make(), make());
        for _ in 0..2 {
            prop_assert_eq!(all(&first).unwrap(), all(&second).unwrap());
        }
        let rows = values(&all(&make()).unwrap());
        for round in rows.chunks(n.max(1) as usize) {
            prop_assert_eq!(sorted(round.to_vec()), (0..n).collect::<Vec<i64>>(), "rounds stay apart");
        }
    }

    #[test]
    fn elements_that_overtake_each_other_come_once(n in 0..200_i64, calls in 1..4_usize, cut in 0..50_usize) {
        let make = || apply(Dataset::range(0, n, 1), &Op::MapParallel(calls, Some(false)));
        let data = make();
        let mut iter = data.iter().unwrap();
        let mut seen = Vec::new();
        for _ in 0..cut {
            if let Some(chunk) = iter.next_chunk(3).unwrap() {
                seen.extend_from_slice(chunk.i64("value").unwrap());
            }
        }
        let position = iter.position();
        drop(iter);
        for element in make().iter_from(&position).unwrap() {
            seen.extend_from_slice(element.unwrap().i64("value").unwrap());
        }
        prop_assert_eq!(sorted(seen), (0..n).map(|value| value * 2).collect::<Vec<i64>>());
    }

    #[test]
    fn damaged_positions_are_errors_not_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Position::from_bytes(&bytes);
    }
}

//! Workers that share an input.

use crate::common::{Parts, all, cx, values};
use phalanx_base::Code;
use phalanx_data::{AutoShardPolicy, Dataset, InputContext, Options, ShardedBy, distribute_dataset};

fn policy(policy: AutoShardPolicy) -> Options {
    Options { auto_shard_policy: Some(policy), ..Options::default() }
}

/// What both workers see of the files, and the sentences they say.
fn two_workers(lens: &[usize]) -> (Vec<i64>, Vec<String>) {
    let mut seen = Vec::new();
    let mut said = Vec::new();
    for worker in 0..2 {
        let data = Dataset::from_source(Parts::source(lens)).shuffle(5).batch(4).prefetch(2).shard(cx(worker, 2));
        said.push(data.sharding().unwrap().to_string());
        seen.extend(values(&all(&data).unwrap()));
    }
    seen.sort_unstable();
    (seen, said)
}

fn rows(lens: &[usize]) -> Vec<i64> {
    lens.iter().enumerate().flat_map(|(part, &len)| (0..len).map(move |row| (part * 1000 + row) as i64)).collect()
}

#[test]
fn three_files_for_two_workers_go_by_file() {
    let (seen, said) = two_workers(&[5, 4, 3]);
    assert_eq!(seen, rows(&[5, 4, 3]));
    assert_eq!(said[1], "worker 1 of 2 reads 1 of 3 files, from number 1 every 2nd: 3 files for 2 workers, so by file");
    assert!(said[0].starts_with("worker 0 of 2 reads 2 of 3 files"));
}

#[test]
fn one_file_for_two_workers_goes_by_element() {
    let (seen, said) = two_workers(&[7]);
    assert_eq!(seen, rows(&[7]));
    assert_eq!(said[0], "worker 0 of 2 takes every 2nd element from number 0: 1 file for 2 workers, so by element");
}

#[test]
fn seven_uneven_files_are_read_once() {
    let lens = [0, 1, 40, 3, 0, 17, 2];
    assert_eq!(two_workers(&lens).0, rows(&lens));
}

#[test]
fn file_policy_wants_enough_files() {
    let data = Dataset::from_source(Parts::source([3])).batch(2).with_options(policy(AutoShardPolicy::File));
    let error = data.shard_for(&cx(0, 2)).unwrap_err();
    assert_eq!(error.code(), Code::BadSetting);
    assert!(error.to_string().contains("not enough files for 2 workers"), "{error}");
    assert!(error.next().unwrap().contains("AUTO, DATA or OFF"));
    let numbers = Dataset::range(0, 5, 1).with_options(policy(AutoShardPolicy::File));
    assert!(numbers.shard_for(&cx(0, 2)).unwrap_err().to_string().contains("not made of files"));
}

#[test]
fn off_gives_everything_to_everybody() {
    let data = Dataset::from_source(Parts::source([3, 2])).with_options(policy(AutoShardPolicy::Off)).shard(cx(1, 2));
    assert_eq!(values(&all(&data).unwrap()), rows(&[3, 2]));
    assert_eq!(data.sharding().unwrap().to_string(), "worker 1 of 2 reads the whole input: sharding is off");
}

#[test]
fn take_counts_elements_of_all_workers_together() {
    let make = || Dataset::from_source(Parts::source([5, 5, 5])).take(7).batch(2);
    let (first, sharding) = make().shard_for(&cx(0, 2)).unwrap();
    assert!(matches!(sharding.by, ShardedBy::Elements { files: Some(3), .. }), "{sharding}");
    assert!(sharding.to_string().contains("a stage depends on the order"), "{sharding}");
    let second = make().shard(cx(1, 2));
    let mut seen = values(&all(&first).unwrap());
    seen.extend(values(&all(&second).unwrap()));
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4, 1000, 1001]);
}

#[test]
fn an_order_that_workers_cannot_agree_on_is_refused() {
    let data = Dataset::range(0, 9, 1).shuffle(9).take(4);
    let error = data.shard(cx(0, 2)).iter().unwrap_err();
    assert!(error.to_string().contains("would not agree"), "{error}");
    let seeded = Dataset::range(0, 9, 1).shuffle_seeded(9, 1).take(4);
    assert_eq!(all(&seeded.shard(cx(0, 2))).unwrap().len(), 2);
}

#[test]
fn a_share_is_not_shared_again() {
    let data = Dataset::range(0, 10, 1).batch(4).shard(cx(1, 2));
    let again = data.clone().shard(cx(1, 2));
    assert_eq!(values(&all(&again).unwrap()), [1, 3, 5, 7, 9]);
    assert!(data.shard(cx(0, 2)).iter().unwrap_err().to_string().contains("shared among workers before"));
}

#[test]
fn a_cache_is_each_workers_own() {
    let data = Dataset::range(0, 6, 1).cache();
    let shares = [data.clone().shard(cx(0, 2)), data.shard(cx(1, 2))];
    for _ in 0..2 {
        assert_eq!(values(&all(&shares[0]).unwrap()), [0, 2, 4]);
        assert_eq!(values(&all(&shares[1]).unwrap()), [1, 3, 5]);
    }
}

#[test]
fn global_batches_are_divided_as_tensorflow_does() {
    let sizes = |batch: usize, workers: usize, replicas: usize, worker: usize| {
        let cx = InputContext {
            num_input_pipelines: workers,
            input_pipeline_id: worker,
            num_replicas_in_sync: workers * replicas,
        };
        phalanx_data::replica_batch_sizes(batch, &cx).unwrap()
    };
    assert_eq!(sizes(5, 2, 4, 0), [1, 1, 1, 1, 1, 0, 0, 0]);
    assert_eq!(sizes(5, 2, 4, 1), [1, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(sizes(7, 2, 2, 0), [2, 2, 2, 1]);
    assert_eq!(sizes(7, 2, 2, 1), [2, 1, 2, 2]);
    let odd = InputContext { num_input_pipelines: 2, input_pipeline_id: 0, num_replicas_in_sync: 3 };
    assert!(phalanx_data::replica_batch_sizes(4, &odd).is_err());
    let error = odd.get_per_replica_batch_size(16).unwrap_err();
    assert_eq!(error.what(), "the global_batch_size 16 is not divisible by num_replicas_in_sync 3");
}

#[test]
fn a_distributed_dataset_covers_the_input_and_resumes() {
    for (workers, replicas) in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2)] {
        let mut seen = Vec::new();
        for worker in 0..workers {
            let cx = InputContext {
                num_input_pipelines: workers,
                input_pipeline_id: worker,
                num_replicas_in_sync: workers * replicas,
            };
            let input = distribute_dataset(&Dataset::from_source(Parts::source([9, 6, 0, 4])).batch(5), &cx).unwrap();
            let mut iter = input.iter().unwrap();
            let mut steps = 0;
            while let Some(step) = iter.next() {
                let step = step.unwrap();
                assert_eq!(step.len(), replicas);
                seen.extend(values(&step));
                steps += 1;
                let rest: usize =
                    input.iter_from(&iter.position()).unwrap().map(|step| values(&step.unwrap()).len()).sum();
                let all: usize = input.iter().unwrap().map(|step| values(&step.unwrap()).len()).sum();
                let so_far: usize = input.iter().unwrap().take(steps).map(|step| values(&step.unwrap()).len()).sum();
                assert_eq!(rest + so_far, all);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, rows(&[9, 6, 0, 4]), "{workers} workers, {replicas} replicas");
    }
}

#[test]
fn rows_without_batches_are_not_distributed() {
    let error = distribute_dataset(&Dataset::range(0, 5, 1), &cx(0, 1)).unwrap_err();
    assert!(error.next().unwrap().contains("call batch"), "{error}");
}

/// What each round of two or three workers sees, and what is left of a pass that is resumed in the middle of a round.
#[test]
fn shares_rotate_with_every_round() {
    // By file, by element, and with more workers than elements.
    for lens in [&[5, 4, 3][..], &[7], &[1]] {
        for workers in [2, 3] {
            let make = |worker| {
                let rows = Dataset::from_source(Parts::source(lens)).shuffle_seeded(4, 1).repeat_times(4);
                rows.batch(3).shard(cx(worker, workers))
            };
            let mut seen = Vec::new();
            for worker in 0..workers {
                let data = make(worker);
                let own = values(&all(&data).unwrap());
                let mut firsts = own.clone();
                firsts.sort_unstable();
                firsts.dedup();
                // Four rounds are more than there are workers: each has seen everything.
                assert_eq!(firsts, rows(lens), "{lens:?}, worker {worker} of {workers}");
                let mut iter = data.iter().unwrap();
                iter.next().unwrap().unwrap();
                let resumed = data.iter_from(&iter.position()).unwrap();
                let [rest, resumed] = [iter, resumed].map(|iter| iter.collect::<Result<Vec<_>, _>>().unwrap());
                assert_eq!(values(&resumed), values(&rest), "{lens:?}, worker {worker} of {workers}");
                seen.extend(own);
            }
            seen.sort_unstable();
            let four_times: Vec<i64> = rows(lens).into_iter().flat_map(|row| [row; 4]).collect();
            assert_eq!(seen, four_times, "{lens:?}, {workers} workers");
        }
    }
}

#[test]
fn files_that_were_asked_for_stay_with_their_worker() {
    let data = Dataset::from_source(Parts::source([2, 2])).with_options(policy(AutoShardPolicy::File));
    let own = data.repeat_times(2).batch(2).shard(cx(1, 2));
    assert_eq!(values(&all(&own).unwrap()), [1000, 1001, 1000, 1001]);
}

#[test]
fn an_endless_repetition_of_nothing_ends_for_every_worker() {
    let nothing = Dataset::from_source(Parts::source([0])).repeat().batch(2).shard(cx(1, 3));
    assert!(all(&nothing).unwrap().is_empty());
    let one = Dataset::from_source(Parts::source([1])).repeat().take(5).batch(9);
    assert_eq!(values(&all(&one).unwrap()).len(), 5);
}

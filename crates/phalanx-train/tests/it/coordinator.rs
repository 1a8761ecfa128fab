//! A coordinator, its workers and servers in one process.

use crate::support::{quiet, until};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Dataset;
use phalanx_nn::burn;
use phalanx_nn::burn::module::{Module, Param};
use phalanx_nn::burn::tensor::Tensor;
use phalanx_optim::Sgd;
use phalanx_ps::Partitioner;
use phalanx_train::{Coordinator, MiniCluster, ParameterServerStrategy, StepFunctions, Supervisor};

/// Counters whose gradient is one, so that every update adds one.
#[derive(Module, Debug)]
struct Ledger {
    counter: Param<Tensor<1>>,
}

fn ledger() -> Ledger {
    Ledger { counter: Param::from_tensor(Tensor::zeros([8], &phalanx_nn::default_device())) }
}

fn steps() -> StepFunctions<Ledger> {
    StepFunctions::new()
        .step("count", |cx| Ok(vec![cx.minimize(|model: &Ledger| model.counter.val().sum().neg())?]))
        .step("stumble", |_| Err(Error::new(Code::DataRow, "a row made me stumble")))
        .step("panic", |cx| Ok(vec![cx.minimize(|_: &Ledger| panic!("boom"))?]))
        .step("twice", |cx| {
            cx.minimize(|model: &Ledger| model.counter.val().sum())?;
            Ok(vec![cx.minimize(|model: &Ledger| model.counter.val().sum())?])
        })
        .step("slow on the first", |cx| {
            let millis = if cx.task().index == 0 { 20 } else { 1 };
            std::thread::sleep(std::time::Duration::from_millis(millis));
            Ok(vec![cx.minimize(|model: &Ledger| model.counter.val().sum().neg())?])
        })
        .step("what is mine", |cx| {
            let mine: &mut u64 = cx.resource("mine")?;
            *mine += 1;
            let mine = *mine;
            cx.minimize(|model: &Ledger| model.counter.val().sum().neg())?;
            Ok(vec![mine as f64])
        })
        .resource("mine", |_| Ok(0_u64))
        .dataset("numbers", |cx| Ok(Dataset::range(0, 100, 1).shard((cx.num_input_pipelines, cx.input_pipeline_id))))
        .evaluation("add up", |cx| {
            let (part, of) = (cx.arguments()[0] as usize, cx.arguments()[1] as usize);
            let mut sums = vec![0.0; 2];
            for batch in cx.part("numbers", part, of)? {
                sums[0] += batch?.column("value")?.as_i64()?[0] as f64;
                sums[1] += 1.0;
            }
            Ok(sums)
        })
        .evaluation("look", |cx| {
            let values = cx.newest_model()?.counter.val().into_data();
            Ok(values.as_slice::<f32>().unwrap_or_default().iter().map(|&value| f64::from(value)).collect())
        })
}

/// Runs a job of two servers, a chief and these workers; the chief runs `coordinate`.
fn job<T: Send>(workers: u32, coordinate: impl FnOnce(&mut Coordinator<Ledger>) -> Result<T> + Send) -> Result<T> {
    job_with(workers, "async", steps, coordinate)
}

fn job_with<T: Send>(
    workers: u32,
    consistency: &str,
    steps: fn() -> StepFunctions<Ledger>,
    coordinate: impl FnOnce(&mut Coordinator<Ledger>) -> Result<T> + Send,
) -> Result<T> {
    let cluster = MiniCluster::start_with(2, workers + 1, quiet()).unwrap();
    let strategy = |server| {
        let supervisor = Supervisor::new(server, Sgd::new(1.0)).partitioner(Partitioner::FixedShards(2));
        ParameterServerStrategy::new(supervisor).consistency(consistency).unwrap()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = cluster.trainers()[1..]
            .iter()
            .map(|server| scope.spawn(move || strategy(server).run(ledger(), steps(), |_| Ok(()))))
            .collect();
        let done = strategy(&cluster.trainers()[0]).run(ledger(), steps(), coordinate);
        for thread in threads {
            let served = thread.join().unwrap();
            assert!(done.is_err() || served.is_ok(), "{served:?}");
        }
        done.map(|result| result.unwrap())
    })
}

#[test]
fn every_step_runs_once_on_one_of_the_workers() {
    let counts = job(3, |coordinator| {
        let values: Vec<_> = (0..500).map(|_| coordinator.schedule("count", &[])).collect::<Result<_>>()?;
        coordinator.join()?;
        assert!(values.iter().all(|value| value.is_done() && value.fetch().unwrap().len() == 1));
        let done: u64 = coordinator.workers().iter().map(|worker| worker.committed).sum();
        assert_eq!(done, 500);
        coordinator.schedule("look", &[])?.fetch()
    });
    assert_eq!(counts.unwrap(), [500.0; 8]);
}

#[test]
fn variables_lie_on_servers_as_tensorflow_prints_them() {
    job(1, |coordinator| {
        let counter = coordinator.variable("counter")?;
        let shards: Vec<_> = counter.shards.iter().map(|shard| (shard.shape.dims().to_vec(), shard.device())).collect();
        let device = |task| format!("/job:ps/replica:0/task:{task}/device:CPU:0");
        assert_eq!(shards, [(vec![4], device(0)), (vec![4], device(1))]);
        assert_eq!(counter.shards[1].name, "counter/part_1");
        assert_eq!(coordinator.variable("countr").unwrap_err().code(), Code::NoSuchVariable);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_step_that_fails_cancels_the_queue_and_is_raised_once() {
    let counts = job(2, |coordinator| {
        coordinator.schedule("count", &[])?;
        coordinator.join()?;
        let bad = coordinator.schedule("stumble", &[])?;
        let mut good = Vec::new();
        // The error may be raised by `schedule` already.
        let error = loop {
            match coordinator.schedule("count", &[]) {
                Ok(value) if good.len() < 1000 => good.push(value),
                Ok(_) => break coordinator.join().unwrap_err(),
                Err(error) => break error,
            }
        };
        assert_eq!((error.code(), error.what()), (Code::DataRow, "a row made me stumble"));
        assert!(error.place().unwrap().contains("worker/"), "{}", error.report());
        assert_eq!(bad.fetch().unwrap_err().code(), Code::DataRow);
        let ran = good.iter().filter(|value| value.fetch().is_ok()).count();
        let cancelled = good.iter().filter(|v| v.fetch().is_err_and(|error| error.code() == Code::Cancelled)).count();
        assert_eq!(ran + cancelled, good.len());
        // Raised once; then it goes on.
        coordinator.join()?;
        coordinator.schedule("count", &[])?;
        coordinator.join()?;
        let values = coordinator.newest_model()?.counter.val().into_data();
        Ok((ran as f32 + 2.0, values.as_slice::<f32>().unwrap().to_vec()))
    });
    let (expected, values) = counts.unwrap();
    assert_eq!(values, [expected; 8]);
}

#[test]
fn names_that_nobody_registered_are_refused() {
    let error = job(1, |coordinator| coordinator.schedule("cuont", &[]).map(|_| ())).unwrap_err();
    assert_eq!(error.next(), Some("did you mean \"count\"?"));
}

#[test]
fn a_step_that_panics_or_breaks_a_rule_fails_and_pushes_nothing() {
    let counts = job(1, |coordinator| {
        for (name, code) in [("panic", Code::StepPanicked), ("twice", Code::BadSetting)] {
            let value = coordinator.schedule(name, &[])?;
            let error = coordinator.join().unwrap_err();
            assert_eq!((error.code(), value.fetch().unwrap_err().code()), (code, code), "{}", error.report());
            assert!(code != Code::StepPanicked || error.why() == Some("boom"));
            coordinator.schedule("count", &[])?;
            coordinator.join()?;
        }
        coordinator.schedule("look", &[])?.fetch()
    });
    assert_eq!(counts.unwrap(), [2.0; 8]);
}

#[test]
fn every_example_of_an_evaluation_counts_once() {
    let sums = job(3, |coordinator| {
        (0..50).try_for_each(|_| coordinator.schedule("count", &[]).map(drop))?;
        coordinator.sum_over_parts("add up", 7)
    });
    assert_eq!(sums.unwrap(), [4950.0, 100.0]);
}

#[test]
fn a_worker_keeps_what_it_made_for_itself() {
    let mut mine = job(2, |coordinator| {
        let values: Vec<_> = (0..100).map(|_| coordinator.schedule("what is mine", &[])).collect::<Result<_>>()?;
        let mut mine: Vec<u64> = coordinator.fetch(&values)?.into_iter().map(|result| result[0] as u64).collect();
        mine.sort_unstable();
        Ok(mine)
    })
    .unwrap();
    // Two workers count separately: every number occurs at most twice, and none is missing.
    mine.dedup();
    assert_eq!(mine, (1..=mine.len() as u64).collect::<Vec<_>>());
    assert!(mine.len() >= 50, "{mine:?}");
}

#[test]
fn a_result_can_be_awaited_waited_for_in_vain_and_cancelled() {
    job(1, |coordinator| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let value = coordinator.schedule("count", &[])?;
        assert_eq!(runtime.block_on(async { value.await }).unwrap().len(), 1);
        let values: Vec<_> = (0..50).map(|_| coordinator.schedule("slow on the first", &[])).collect::<Result<_>>()?;
        let last = values.last().unwrap();
        let impatient = last.fetch_within(std::time::Duration::from_millis(1)).unwrap_err();
        assert_eq!(impatient.code(), Code::OutcomeUnknown);
        assert!(last.cancel() && !values[0].cancel());
        assert_eq!(last.fetch().unwrap_err().code(), Code::Cancelled);
        coordinator.join()?;
        assert_eq!(coordinator.global_step()?, 50);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_bound_on_staleness_holds_and_without_it_workers_drift_apart() {
    let lag = |consistency: &str| {
        let staleness = job_with(3, consistency, steps, |coordinator| {
            until("all workers have joined", || coordinator.workers().len() == 3);
            (0..150).try_for_each(|_| coordinator.schedule("slow on the first", &[]).map(drop))?;
            coordinator.join()?;
            assert_eq!(coordinator.global_step()?, 150);
            coordinator.staleness()
        });
        let staleness = staleness.unwrap();
        assert_eq!(staleness.counts.iter().sum::<u64>(), 150, "every push was measured");
        staleness.widest_lag
    };
    assert!(lag("ssp:2") <= 2);
    assert!(lag("ssp:0") == 0);
    assert!(lag("async") > 2, "the test would not see a bound that is not kept");
}

#[test]
fn rounds_apply_the_mean_of_their_gradients() {
    // 12 gradients in rounds of 3 are 4 updates by their mean, which is one; 2 more make a last one.
    let counts = job_with(3, "sync", steps, |coordinator| {
        (0..14).try_for_each(|_| coordinator.schedule("count", &[]).map(drop))?;
        coordinator.join()?;
        assert_eq!(coordinator.global_step()?, 5);
        coordinator.schedule("look", &[])?.fetch()
    });
    assert_eq!(counts.unwrap(), [5.0; 8]);
}

#[test]
fn a_variable_is_read_as_one_tensor_and_by_rows() {
    job(2, |coordinator| {
        (0..7).try_for_each(|_| coordinator.schedule("count", &[]).map(drop))?;
        coordinator.join()?;
        assert_eq!(coordinator.read("counter")?, [7.0; 8]);
        assert_eq!(coordinator.read_rows("counter", 3..6)?, [7.0; 3], "over both parts");
        assert_eq!(coordinator.read_rows("counter", 3..9).unwrap_err().code(), Code::ShapeMismatch);
        let numbers: Vec<f32> = (0..8_u8).map(f32::from).collect();
        coordinator.assign("counter", numbers.clone())?;
        (0..40).try_for_each(|_| coordinator.schedule("slow on the first", &[]).map(drop))?;
        assert_eq!(coordinator.assign("counter", vec![0.0; 8]).unwrap_err().code(), Code::BadSetting);
        coordinator.join()?;
        assert_eq!(coordinator.read("counter")?, numbers.iter().map(|number| number + 40.0).collect::<Vec<_>>());
        assert_eq!(coordinator.assign("counter", vec![0.0; 7]).unwrap_err().code(), Code::ShapeMismatch);
        Ok(())
    })
    .unwrap();
}

/// An assertion in the function that a chief runs, as the guide's example has it, ends the cluster with its panic.
#[test]
fn a_coordinator_that_panics_or_fails_ends_its_cluster() {
    let run = |fails: fn() -> Result<()>| {
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let cluster = MiniCluster::start_with(2, 3, quiet()).unwrap();
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                cluster.run(|server| {
                    let strategy = ParameterServerStrategy::new(Supervisor::new(server, Sgd::new(1.0)));
                    strategy.run(ledger(), steps(), |coordinator| {
                        for _ in 0..20 {
                            coordinator.schedule("count", &[])?;
                        }
                        coordinator.join()?;
                        coordinator.schedule("count", &[])?;
                        fails()
                    })
                })
            }));
            let _ = done.send(ended);
        });
        wait.recv_timeout(std::time::Duration::from_secs(60)).expect("the job ends")
    };
    let panic = run(|| panic!("the loss is too high")).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the loss is too high"));
    let error = run(|| Err(Error::new(Code::DataRow, "a row made me stumble"))).unwrap().unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::DataRow, "a row made me stumble"));
}

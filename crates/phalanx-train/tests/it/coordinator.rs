//! A coordinator, its workers and servers in one process.

use crate::support::{quiet, until};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Dataset;
use phalanx_nn::burn;
use phalanx_nn::burn::module::{Module, Param};
use phalanx_nn::burn::tensor::Tensor;
use phalanx_optim::Sgd;
use phalanx_ps::Partitioner;
use phalanx_train::{
    Coordinator, DatasetPart, HostTensor, MiniCluster, ParameterServerOptions, StepFunctions, StepHandle, Strategy,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Counters whose gradient is one, so that every update adds one.
#[derive(Module, Debug)]
struct Ledger {
    counter: Param<Tensor<1>>,
}

fn ledger() -> Ledger {
    Ledger { counter: Param::from_tensor(Tensor::zeros([8], &phalanx_nn::default_device())) }
}

/// The steps of these tests.
struct Steps {
    count: StepHandle<(), f32>,
    stumble: StepHandle<(), ()>,
    panic: StepHandle<(), f32>,
    twice: StepHandle<(), f32>,
    slow_on_the_first: StepHandle<(), f32>,
    what_is_mine: StepHandle<(), u64>,
    add_up: StepHandle<DatasetPart, [i64; 2]>,
    look: StepHandle<(), HostTensor>,
}

fn steps() -> (StepFunctions<Ledger>, Steps) {
    let count = |model: &Ledger| model.counter.val().sum().neg();
    let mut all = StepFunctions::<Ledger>::new();
    let mine = all.resource(|_| Ok(0_u64));
    let numbers = all.dataset(|cx| Ok(Dataset::range(0, 100, 1).shard((cx.num_input_pipelines, cx.input_pipeline_id))));
    let steps = Steps {
        count: all.register(move |cx, (): ()| cx.minimize(count)),
        stumble: all.register_as("stumble", |_, (): ()| Err(Error::new(Code::DataRow, "a row made me stumble"))),
        panic: all.register(|cx, (): ()| cx.minimize(|_| -> Tensor<1> { panic!("boom") })),
        twice: all.register(move |cx, (): ()| {
            cx.minimize(count)?;
            cx.minimize(count)
        }),
        slow_on_the_first: all.register(move |cx, (): ()| {
            let millis = if cx.task().index == 0 { 20 } else { 1 };
            std::thread::sleep(std::time::Duration::from_millis(millis));
            cx.minimize(count)
        }),
        what_is_mine: all.register(move |cx, (): ()| {
            *cx.resource(&mine)? += 1;
            let mine = *cx.resource(&mine)?;
            cx.minimize(count)?;
            Ok(mine)
        }),
        add_up: all.evaluation(move |cx, part| {
            let mut sums = [0, 0];
            for batch in cx.part(&numbers, part)? {
                sums[0] += batch?.i64("value")?[0];
                sums[1] += 1;
            }
            Ok(sums)
        }),
        look: all.evaluation(|cx, (): ()| Ok(cx.newest_model()?.counter.val().into())),
    };
    (all, steps)
}

/// Runs a job of two servers, a chief and these workers; the chief runs `coordinate`.
fn job<T: Send + Serialize + DeserializeOwned>(
    workers: u32,
    coordinate: impl FnOnce(&mut Coordinator<Ledger>, &Steps) -> Result<T> + Send,
) -> Result<T> {
    job_with(workers, "async", coordinate)
}

fn job_with<T: Send + Serialize + DeserializeOwned>(
    workers: u32,
    consistency: &str,
    coordinate: impl FnOnce(&mut Coordinator<Ledger>, &Steps) -> Result<T> + Send,
) -> Result<T> {
    let cluster = MiniCluster::start_with(2, workers, quiet()).unwrap();
    let strategy = |server| {
        let (consistency, partitioner) = (consistency.to_owned(), Partitioner::FixedShards(2));
        let options = ParameterServerOptions { consistency, partitioner, ..ParameterServerOptions::default() };
        Strategy::parameter_server_on(server, options).unwrap()
    };
    std::thread::scope(|scope| {
        let serve = |server| {
            let only_the_chief =
                |_: &mut Coordinator<Ledger>| -> Result<T> { unreachable!("workers coordinate nothing") };
            strategy(server).coordinate(ledger(), Sgd::new(1.0), steps().0, only_the_chief).map(drop)
        };
        let threads: Vec<_> = cluster.trainers()[1..].iter().map(|server| scope.spawn(move || serve(server))).collect();
        let (all, steps) = steps();
        let chief = strategy(&cluster.trainers()[0]);
        let done = chief.coordinate(ledger(), Sgd::new(1.0), all, |coordinator| coordinate(coordinator, &steps));
        for thread in threads {
            let served = thread.join().unwrap();
            assert!(done.is_err() || served.is_ok(), "{served:?}");
        }
        done.map(|result| result.unwrap())
    })
}

#[test]
fn every_step_runs_once_on_one_of_the_workers() {
    let counts = job(3, |coordinator, steps| {
        let values: Vec<_> = (0..500).map(|_| coordinator.schedule(&steps.count, ())).collect::<Result<_>>()?;
        coordinator.join()?;
        assert!(values.iter().all(|value| value.is_done() && value.fetch().is_ok()));
        let done: u64 = coordinator.workers().iter().map(|worker| worker.committed).sum();
        assert_eq!(done, 500);
        coordinator.schedule(&steps.look, ())?.fetch()
    });
    assert_eq!(counts.unwrap().as_f32().unwrap(), [500.0; 8]);
}

#[test]
fn variables_lie_on_servers_as_tensorflow_prints_them() {
    job(1, |coordinator, _| {
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
    let counts = job(2, |coordinator, steps| {
        coordinator.schedule(&steps.count, ())?;
        coordinator.join()?;
        let bad = coordinator.schedule(&steps.stumble, ())?;
        let mut good = Vec::new();
        // The error may be raised by `schedule` already.
        let error = loop {
            match coordinator.schedule(&steps.count, ()) {
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
        coordinator.schedule(&steps.count, ())?;
        coordinator.join()?;
        let values = coordinator.newest_model()?.counter.val().into_data();
        Ok((ran as f32 + 2.0, values.as_slice::<f32>().unwrap().to_vec()))
    });
    let (expected, values) = counts.unwrap();
    assert_eq!(values, [expected; 8]);
}

#[test]
fn a_step_that_panics_or_breaks_a_rule_fails_and_pushes_nothing() {
    let counts = job(1, |coordinator, steps| {
        for (step, code) in [(&steps.panic, Code::StepPanicked), (&steps.twice, Code::BadSetting)] {
            let value = coordinator.schedule(step, ())?;
            let error = coordinator.join().unwrap_err();
            assert_eq!((error.code(), value.fetch().unwrap_err().code()), (code, code), "{}", error.report());
            assert!(code != Code::StepPanicked || error.why() == Some("boom"));
            coordinator.schedule(&steps.count, ())?;
            coordinator.join()?;
        }
        coordinator.schedule(&steps.look, ())?.fetch()
    });
    assert_eq!(counts.unwrap().as_f32().unwrap(), [2.0; 8]);
}

#[test]
fn every_example_of_an_evaluation_counts_once() {
    let sums = job(3, |coordinator, steps| {
        (0..50).try_for_each(|_| coordinator.schedule(&steps.count, ()).map(drop))?;
        let part = |part| coordinator.schedule(&steps.add_up, part);
        let parts = DatasetPart::all(7).map(part).collect::<Result<Vec<_>>>()?;
        coordinator.fetch(&parts)
    });
    let sums = sums.unwrap().into_iter().reduce(|a, b| [a[0] + b[0], a[1] + b[1]]);
    assert_eq!(sums, Some([4950, 100]));
}

#[test]
fn a_worker_keeps_what_it_made_for_itself() {
    let mut mine = job(2, |coordinator, steps| {
        let values: Vec<_> = (0..100).map(|_| coordinator.schedule(&steps.what_is_mine, ())).collect::<Result<_>>()?;
        let mut mine = coordinator.fetch(&values)?;
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
    job(1, |coordinator, steps| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let value = coordinator.schedule(&steps.count, ())?;
        assert_eq!(runtime.block_on(async { value.await }).unwrap(), 0.0);
        let values: Vec<_> =
            (0..50).map(|_| coordinator.schedule(&steps.slow_on_the_first, ())).collect::<Result<_>>()?;
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
        let staleness = job_with(3, consistency, |coordinator, steps| {
            until("all workers have joined", || coordinator.workers().len() == 3);
            (0..150).try_for_each(|_| coordinator.schedule(&steps.slow_on_the_first, ()).map(drop))?;
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
    let counts = job_with(3, "sync", |coordinator, steps| {
        (0..14).try_for_each(|_| coordinator.schedule(&steps.count, ()).map(drop))?;
        coordinator.join()?;
        assert_eq!(coordinator.global_step()?, 5);
        coordinator.schedule(&steps.look, ())?.fetch()
    });
    assert_eq!(counts.unwrap().as_f32().unwrap(), [5.0; 8]);
}

#[test]
fn a_variable_is_read_as_one_tensor_and_by_rows() {
    job(2, |coordinator, steps| {
        (0..7).try_for_each(|_| coordinator.schedule(&steps.count, ()).map(drop))?;
        coordinator.join()?;
        assert_eq!(coordinator.read("counter")?, [7.0; 8]);
        assert_eq!(coordinator.read_rows("counter", 3..6)?, [7.0; 3], "over both parts");
        assert_eq!(coordinator.read_rows("counter", 3..9).unwrap_err().code(), Code::ShapeMismatch);
        let numbers: Vec<f32> = (0..8_u8).map(f32::from).collect();
        coordinator.assign("counter", numbers.clone())?;
        (0..40).try_for_each(|_| coordinator.schedule(&steps.slow_on_the_first, ()).map(drop))?;
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
            let cluster = MiniCluster::start_with(2, 2, quiet()).unwrap();
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                cluster.run(|server| {
                    let strategy = Strategy::parameter_server_on(server, ParameterServerOptions::default())?;
                    let (all, steps) = steps();
                    strategy.coordinate(ledger(), Sgd::new(1.0), all, |coordinator| {
                        for _ in 0..20 {
                            coordinator.schedule(&steps.count, ())?;
                        }
                        coordinator.join()?;
                        coordinator.schedule(&steps.count, ())?;
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

/// Evaluators follow the run directory, and must not take a failed training for one that has ended.
#[test]
fn the_run_directory_has_the_error_of_a_coordinator_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let model_dir = Some(folder.path().to_str().unwrap().to_owned());
    let settings = ParameterServerOptions { model_dir, ..ParameterServerOptions::default() };
    let strategy = Strategy::parameter_server(&phalanx_cluster::TaskConfig::local(), &quiet(), settings).unwrap();
    let fail = |_: &mut Coordinator<Ledger>| Err::<(), _>(Error::new(Code::DataRow, "row 7 is malformed"));
    let error = strategy.coordinate(ledger(), Sgd::new(0.1), StepFunctions::new(), fail).unwrap_err();
    assert_eq!(error.code(), Code::DataRow);
    let ended = std::fs::read_to_string(folder.path().join("phalanx.job")).unwrap();
    assert!(ended.starts_with("failed") && ended.contains("row 7 is malformed"), "{ended}");
}

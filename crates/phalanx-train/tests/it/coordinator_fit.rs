//! `fit` with a coordinator, its workers and servers in one process.

use crate::support::quiet as options;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_data::{Batch, Column, Dataset};
use phalanx_nn::model::{Dense, Model, Sequential};
use phalanx_optim::{Optimizer, Sgd};
use phalanx_ps::Partitioner;
use phalanx_train::fit::callbacks::{
    BackupAndRestore, CsvLogger, EarlyStopping, Lambda, LearningRateScheduler, ModelCheckpoint,
};
use phalanx_train::fit::{Compile, Compiled, Data, DatasetCreator, Fit, History, Logs, Verbose, Weight};
use phalanx_train::testing::LogRecorder;
use phalanx_train::{MiniCluster, ParameterServerStrategy, Server, ServerOptions, Supervisor};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ROWS: usize = 53;

fn x() -> Column {
    Column::f32((0..2 * ROWS).map(|i| ((i * 37) % 101) as f32 / 101.0).collect()).with_row_shape([2]).unwrap()
}

fn y() -> Column {
    Column::f32(x().as_f32().unwrap().chunks_exact(2).map(|x| 2.0 * x[0] - x[1] + 0.5).collect())
}

fn data() -> Data {
    (x(), y()).into()
}

fn weights(kernel: [f32; 2], bias: f32) -> Vec<Weight> {
    let weight = |name: &str, shape: &[usize], values: &[f32]| Weight {
        name: name.into(),
        shape: Shape::new(shape.to_vec()).unwrap(),
        values: values.to_vec(),
    };
    vec![weight("dense/kernel", &[2, 1], &kernel), weight("dense/bias", &[1], &[bias])]
}

/// A linear model with the same start in every task.
fn line(optimizer: impl Into<Optimizer>) -> Compiled<Model> {
    let model = Sequential::new().add(Dense::new(1)).build([2]).unwrap();
    let mut compiled = model.compile(optimizer, "mse", ["mae"]).unwrap();
    compiled.set_weights(weights([0.25, -0.5], 0.0)).unwrap();
    compiled
}

fn quiet(fit: Fit) -> Fit {
    fit.verbose(Verbose::Silent)
}

/// Fits the line of `Sgd(0.1)` to the data.
fn fit_line(strategy: ParameterServerStrategy, fit: Fit) -> Result<Option<(Compiled<Model>, History)>> {
    strategy.fit(line(Sgd::new(0.1)), data(), quiet(fit))
}

/// Runs `task` in a job of two servers, a chief and these workers under `Sgd(0.1)`. Returns the chief's result.
fn job<T: Send>(
    workers: u32,
    consistency: &str,
    task: impl Fn(ParameterServerStrategy, &Server) -> Result<Option<T>> + Sync,
) -> Result<T> {
    job_with(supervised(Sgd::new(0.1)), (workers, consistency), options(), task)
}

fn supervised(optimizer: Sgd) -> impl Fn(&Server) -> Supervisor {
    move |server| Supervisor::new(server, optimizer).partitioner(Partitioner::FixedShards(2))
}

fn job_with<T: Send>(
    supervisor: impl Fn(&Server) -> Supervisor + Sync,
    (workers, consistency): (u32, &str),
    options: ServerOptions,
    task: impl Fn(ParameterServerStrategy, &Server) -> Result<Option<T>> + Sync,
) -> Result<T> {
    let beat = Duration::from_millis(10);
    let cluster = MiniCluster::start_with(2, workers + 1, ServerOptions { beat, ..options }).unwrap();
    let play = |server: &Server| {
        task(ParameterServerStrategy::new(supervisor(server)).consistency(consistency).unwrap(), server)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = cluster.trainers()[1..].iter().map(|server| scope.spawn(|| play(server))).collect();
        let done = play(&cluster.trainers()[0]);
        for thread in threads {
            let served = thread.join().unwrap();
            assert!(done.is_err() || matches!(served, Ok(None)), "{:?}", served.err());
        }
        done.map(|done| done.expect("the chief has a result"))
    })
}

/// Fits a line in a job.
fn fit(
    workers: u32,
    consistency: &str,
    optimizer: Sgd,
    data: impl Fn() -> Data + Sync,
    fit: impl Fn() -> Fit + Sync,
) -> Result<(Vec<f32>, History)> {
    job_with(supervised(optimizer), (workers, consistency), options(), |strategy, _| {
        let done = strategy.fit(line(optimizer), data(), quiet(fit()))?;
        Ok(done.map(|(compiled, history)| (numbers(&compiled), history)))
    })
}

fn numbers(compiled: &Compiled<Model>) -> Vec<f32> {
    compiled.weights().unwrap().into_iter().flat_map(|weight| weight.values).collect()
}

fn close(found: &[f32], wanted: &[f32], tolerance: f32) {
    assert_eq!(found.len(), wanted.len());
    let near = found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= tolerance);
    assert!(near, "{found:?} is not {wanted:?}");
}

#[test]
fn a_line_is_learned_by_two_workers_and_two_servers() {
    let (weights, history) = fit(2, "async", Sgd::new(0.2), data, || Fit::epochs(60).batch_size(4)).unwrap();
    assert_eq!(history.epochs().len(), 60);
    assert!(history.last("loss").unwrap() < 1e-3 && history.last("mae").unwrap() < 0.03, "{history:?}");
    close(&weights, &[2.0, -1.0, 0.5], 0.15);
}

#[test]
fn every_example_counts_once_an_epoch() {
    let seen: Arc<Mutex<Vec<i64>>> = Arc::default();
    let rows = |seen: &Arc<Mutex<Vec<i64>>>| {
        let seen = Arc::clone(seen);
        // Records what the workers' pipelines read.
        Dataset::range(0, 41, 1).batch(3).map(move |batch| {
            let numbers = batch.i64("value")?.to_vec();
            seen.lock().unwrap().extend(&numbers);
            let x = Column::f32(numbers.iter().flat_map(|&n| [n as f32 / 41.0, 1.0]).collect()).with_row_shape([2])?;
            Batch::new([("x", x), ("y", Column::f32(numbers.iter().map(|&n| n as f32).collect()))])?.with_label("y")
        })
    };
    // With a rate of 0 the loss is the mean over all examples, if each counts once.
    let (_, history) =
        fit(3, "async", Sgd::new(0.0), || rows(&seen).into(), || Fit::epochs(2)).expect("a rate of 0 is allowed");
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort_unstable();
    // Pipelines may have read ahead for a pass that did not come; what was trained on is in the loss.
    let loss = (0..41).map(f64::from).map(|n| (0.25 * n / 41.0 - 0.5 - n).powi(2)).sum::<f64>() / 41.0;
    for found in history.series("loss").unwrap() {
        assert!((found - loss).abs() < 1e-4 * loss, "{found} is not {loss}");
    }
    assert_eq!(seen, (0..41).flat_map(|n| [n, n]).collect::<Vec<i64>>());
}

#[test]
fn arrays_are_seen_whole_whatever_the_number_of_workers() {
    let expected = line(Sgd::new(0.1)).evaluate(data(), quiet(Fit::default())).unwrap();
    for workers in [1, 2, 3] {
        let (_, history) = fit(workers, "async", Sgd::new(0.0), data, || Fit::epochs(3).batch_size(5)).unwrap();
        for found in history.series("loss").unwrap() {
            assert!((found - expected.get("loss").unwrap()).abs() < 1e-6, "{found} {expected}");
        }
    }
}

#[test]
fn a_round_of_one_worker_is_what_one_process_does() {
    let options = || Fit::epochs(3).batch_size(8).shuffle(false);
    let mut alone = line(Sgd::new(0.1).momentum(0.9));
    let expected = alone.fit(data(), quiet(options())).unwrap();
    let (weights, history) = fit(1, "sync", Sgd::new(0.1).momentum(0.9), data, options).unwrap();
    close(&weights, &numbers(&alone), 1e-5);
    for name in ["loss", "mae"] {
        let (found, wanted) = (history.series(name).unwrap(), expected.series(name).unwrap());
        assert!(found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} {wanted:?}");
    }
}

#[test]
fn steps_of_an_epoch_are_counted_over_all_workers_and_data_goes_on() {
    let done = job(3, "async", |strategy, _| {
        let done = fit_line(strategy, Fit::epochs(4).steps_per_epoch(7).batch_size(10))?;
        Ok(done.map(|(compiled, history)| (history.epochs().len(), compiled.iterations())))
    });
    assert_eq!(done.unwrap(), (4, 28));
}

#[test]
fn data_that_ends_before_its_steps_ends_the_training_and_is_logged() {
    let log = LogRecorder::default();
    let short = || DatasetCreator::new(|cx| Ok(Dataset::from_tensor_slices(rows(10)).shard(cx).batch(2)));
    let epochs = log.record(|| {
        job_with(supervised(Sgd::new(0.1)), (2, "async"), options(), |strategy, _| {
            let done = strategy.fit(line(Sgd::new(0.1)), short(), quiet(Fit::epochs(3).steps_per_epoch(4)))?;
            Ok(done.map(|(compiled, history)| (history.epochs().len(), compiled.iterations())))
        })
    });
    // Ten rows are six batches of two workers: one complete epoch, and half of another.
    assert_eq!(epochs.unwrap(), (2, 6));
    assert!(log.contains("the data ended after 2 of 4 steps of epoch 2"), "{log:?}");
}

fn rows(count: usize) -> Batch {
    let x = Column::f32(vec![0.5; 2 * count]).with_row_shape([2]).unwrap();
    Batch::new([("x", x), ("y", Column::f32(vec![1.0; count]))]).unwrap().with_label("y").unwrap()
}

#[test]
fn a_validation_over_workers_is_that_of_one_process() {
    let rows = Batch::new([("x", x()), ("y", y())]).unwrap().with_label("y").unwrap();
    let held_out = || -> Data { Dataset::from_tensor_slices(rows.clone()).batch(4).into() };
    let done = job(2, "async", |strategy, _| {
        let fit = Fit::epochs(2).batch_size(8).validation(held_out());
        let Some((mut compiled, history)) = fit_line(strategy, fit)? else { return Ok(None) };
        Ok(Some((compiled.evaluate(held_out(), quiet(Fit::default()))?, history)))
    });
    let (alone, history) = done.unwrap();
    for name in ["loss", "mae"] {
        let found = history.last(&format!("val_{name}")).unwrap();
        assert!((found - alone.find(name).unwrap()).abs() < 1e-6, "{name}: {found} {alone}");
    }
    let expected = line(Sgd::new(0.1)).evaluate(data(), quiet(Fit::default())).unwrap();
    let found: Logs = job(3, "async", |strategy, _| {
        strategy.evaluate(line(Sgd::new(0.1)), data(), quiet(Fit::default().batch_size(3)))
    })
    .unwrap();
    assert!((found.find("loss").unwrap() - expected.find("loss").unwrap()).abs() < 1e-6, "{found} {expected}");
}

#[test]
fn the_learning_rate_of_callbacks_is_that_of_the_servers() {
    // The gradient of the bias is always one: every step takes the rate away from it.
    let constant = || -> Data {
        let x = Column::f32(vec![0.0; 16]).with_row_shape([2]).unwrap();
        (x, Column::f32(vec![0.0; 8])).into()
    };
    for consistency in ["async", "sync"] {
        let (bias, rates) = job_with(supervised(Sgd::new(0.5)), (2, consistency), options(), |strategy, _| {
            let model = Sequential::new().add(Dense::new(1)).build([2]).unwrap();
            let mut compiled = model.compile(Sgd::new(0.5), "mae", [""; 0]).unwrap();
            compiled.set_weights(weights([0.0, 0.0], 100.0)).unwrap();
            let rates = [0.5, 0.25, 2.0];
            let fit = Fit::epochs(3)
                .steps_per_epoch(4)
                .batch_size(2)
                .callback(LearningRateScheduler::new(move |epoch, _| rates[epoch]));
            let done = strategy.fit(compiled, constant(), quiet(fit))?;
            Ok(done.map(|(compiled, history)| (numbers(&compiled)[2], history.series("lr").unwrap())))
        })
        .unwrap();
        assert_eq!(rates, [0.5, 0.25, 2.0]);
        let updates = if consistency == "async" { 4.0 } else { 2.0 };
        assert_eq!(bias, 100.0 - updates * (0.5 + 0.25 + 2.0), "{consistency}");
    }
}

#[test]
fn early_stopping_stops_and_puts_the_best_weights_on_the_servers() {
    // A rate at which it gets worse and worse.
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (weights, history, on_servers) =
        job_with(supervised(Sgd::new(0.9)), (2, "async"), options(), |strategy, server| {
            let mut fit = quiet(Fit::epochs(50).steps_per_epoch(6).batch_size(16));
            if server.is_chief() {
                fit = fit
                    .callback(EarlyStopping::new("loss").patience(2).restore_best_weights())
                    .callback(ModelCheckpoint::new(at("weights-{epoch}.safetensors")))
                    .callback(CsvLogger::new(at("log.csv")));
            }
            let Some((compiled, history)) = strategy.fit(line(Sgd::new(0.9)), data(), fit)? else { return Ok(None) };
            let mut best = line(Sgd::new(0.1));
            let losses = history.series("loss")?;
            let first = (0..losses.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b])).unwrap();
            best.load_weights(&at(&format!("weights-{}.safetensors", first + 1)))?;
            Ok(Some((numbers(&compiled), history, numbers(&best))))
        })
        .unwrap();
    assert!(history.epochs().len() >= 3);
    close(&weights, &on_servers, 0.0);
    let log = std::fs::read_to_string(dir.path().join("log.csv")).unwrap();
    assert_eq!(log.lines().count(), history.epochs().len() + 1);
}

#[test]
fn weights_that_a_callback_replaces_are_what_workers_go_on_with() {
    let (_, history) = fit(2, "async", Sgd::new(0.0), data, || {
        Fit::epochs(2).batch_size(8).callback(Lambda::new().on_epoch_end(|cx, epoch, _| match epoch {
            0 => cx.set_weights(weights([2.0, -1.0], 0.5)),
            _ => Ok(()),
        }))
    })
    .unwrap();
    let losses = history.series("loss").unwrap();
    assert!(losses[0] > 0.1 && losses[1] < 1e-10, "{losses:?}");
}

#[test]
fn steps_per_execution_thins_out_calls_and_a_callback_may_stop_in_the_middle() {
    let told: Arc<Mutex<Vec<u64>>> = Arc::default();
    let stop = || {
        let told = Arc::clone(&told);
        Lambda::new().on_batch_end(move |cx, batch, logs| {
            assert!(logs.get("loss").is_some() && cx.iterations() == batch + 1);
            told.lock().unwrap().push(batch);
            if batch == 39 {
                cx.stop_training();
            }
            Ok(())
        })
    };
    let done = fit(2, "async", Sgd::new(0.1), data, || {
        Fit::epochs(2).steps_per_epoch(100).steps_per_execution(10).callback(stop())
    });
    assert_eq!(done.unwrap().1.epochs(), [0]);
    let told = told.lock().unwrap();
    assert_eq!(told[..4], [9, 19, 29, 39]);
    assert!(told.len() < 10, "unstarted steps are cancelled: {told:?}");
}

#[test]
fn an_error_in_the_data_is_returned_once_with_its_position() {
    let bad = || -> Data {
        let rows = Dataset::from_tensor_slices(rows(100)).enumerate(0).batch(5).map(|batch| {
            if batch.iter().any(|(_, column)| column.as_i64().is_ok_and(|numbers| numbers.contains(&60))) {
                return Err(Error::new(Code::DataRow, "row 60 is no number"));
            }
            Batch::new([("x", batch.column("x")?.clone()), ("y", batch.column("y")?.clone())])?.with_label("y")
        });
        rows.into()
    };
    let error = fit(2, "async", Sgd::new(0.1), bad, || Fit::epochs(3)).unwrap_err();
    assert_eq!(error.what(), "row 60 is no number", "{}", error.report());
    let place = error.place().unwrap();
    assert!(place.contains("worker/") && place.contains("element"), "{place}");
}

#[test]
fn unsupported_settings_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap().to_owned();
    let backed = || Fit::epochs(1).callback(BackupAndRestore::new(at.clone()));
    let error = fit(1, "async", Sgd::new(0.1), data, backed).unwrap_err();
    assert!(error.next().unwrap().contains("run directory"), "{}", error.report());
    let nothing = || DatasetCreator::new(|_| Ok(Dataset::from_tensor_slices(rows(0)).batch(2))).into();
    let error = fit(1, "async", Sgd::new(0.1), nothing, || Fit::epochs(1)).unwrap_err();
    assert_eq!(error.code(), Code::DataMissing);
    let normed = job(1, "async", |strategy, _| {
        let model = Sequential::new().add(phalanx_nn::model::BatchNormalization::new()).add(Dense::new(1));
        let compiled = model.build([2]).unwrap().compile(Sgd::new(0.1), "mse", ["mae"]).unwrap();
        strategy.fit(compiled, data(), quiet(Fit::epochs(1))).map(|done| done.map(drop))
    });
    assert!(normed.unwrap_err().what().contains("moving average"));
}

#[test]
fn another_optimizer_than_the_supervisors_is_refused() {
    let fit = |strategy, _: &Server| Ok(fit_line(strategy, Fit::epochs(1))?.map(drop));
    let error = job_with(supervised(Sgd::new(1000.0)), (1, "async"), options(), fit).unwrap_err();
    assert_eq!(
        (error.code(), error.what()),
        (Code::BadSetting, "the model and the supervisor have different optimizers")
    );
    let why = error.why().unwrap();
    assert!(why.contains("0.1") && why.contains("1000"), "both are named: {why}");
    let error = job(1, "async", |strategy, _| {
        strategy.evaluate(line(Sgd::new(0.1).momentum(0.9)), data(), quiet(Fit::default()))
    })
    .unwrap_err();
    assert_eq!(error.code(), Code::BadSetting);
}

#[test]
fn a_job_that_is_started_again_goes_on_at_the_right_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let train = |epochs: usize, steps: Option<u64>, sub: &str| {
        let at = dir.path().join(sub).to_str().unwrap().to_owned();
        let supervisor = |server: &Server| Supervisor::new(server, Sgd::new(0.1)).logdir(&at).unwrap();
        let done = job_with(supervisor, (2, "async"), options(), |strategy, _| {
            let fit = Fit::epochs(epochs).batch_size(8);
            let done = fit_line(strategy, if let Some(steps) = steps { fit.steps_per_epoch(steps) } else { fit })?;
            Ok(done.map(|(compiled, history)| (history.epochs().to_vec(), compiled.iterations(), numbers(&compiled))))
        });
        done.unwrap()
    };
    for (steps, sub) in [(Some(5), "steps"), (None, "passes")] {
        let (epochs, iterations, _) = train(2, steps, sub);
        let each = if steps.is_some() { 5 } else { 8 };
        assert_eq!((epochs, iterations), (vec![0, 1], 2 * each));
        let (epochs, iterations, weights) = train(5, steps, sub);
        assert_eq!((epochs, iterations), (vec![2, 3, 4], 5 * each), "{sub}");
        let (epochs, _, same) = train(5, steps, sub);
        assert!(epochs.is_empty());
        assert_eq!(same, weights, "what was saved comes back");
    }
}

#[test]
fn the_model_that_comes_back_predicts_with_what_was_learned() {
    let predicted = job(2, "ssp:1", |strategy, _| {
        let done = fit_line(strategy, Fit::epochs(1))?;
        Ok(done.map(|(compiled, _)| (numbers(&compiled), compiled.predict(x()).unwrap().as_f32().unwrap()[0])))
    });
    let (weights, found) = predicted.unwrap();
    let wanted = weights[1] * 37.0 / 101.0 + weights[2];
    assert!((found - wanted).abs() < 1e-6 && wanted != 0.0);
}

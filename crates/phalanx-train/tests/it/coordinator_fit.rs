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
use phalanx_train::{MiniCluster, ParameterServerOptions, Server, ServerOptions, Strategy};
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
fn line(strategy: &Strategy, optimizer: impl Into<Optimizer>) -> Compiled<Model> {
    let model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([2])).unwrap();
    let mut compiled = model.compile(optimizer, "mse", ["mae"]).unwrap();
    compiled.set_weights(weights([0.25, -0.5], 0.0)).unwrap();
    compiled
}

fn quiet(fit: Fit) -> Fit {
    fit.verbose(Verbose::Silent)
}

/// Fits the line of `Sgd(0.1)` to the data.
fn fit_line(strategy: &Strategy, fit: Fit) -> Result<(Compiled<Model>, History)> {
    let mut compiled = line(strategy, Sgd::new(0.1));
    let history = compiled.fit(data(), quiet(fit))?;
    Ok((compiled, history))
}

fn settings(consistency: &str) -> ParameterServerOptions {
    let partitioner = Partitioner::FixedShards(2);
    ParameterServerOptions { consistency: consistency.into(), partitioner, ..ParameterServerOptions::default() }
}

/// Runs `task` in a job of two servers, a chief and these workers. Returns the chief's result.
fn job<T: Send>(workers: u32, consistency: &str, task: impl Fn(&Strategy, &Server) -> Result<T> + Sync) -> Result<T> {
    job_with(workers, &settings(consistency), task)
}

fn job_with<T: Send>(
    workers: u32,
    settings: &ParameterServerOptions,
    task: impl Fn(&Strategy, &Server) -> Result<T> + Sync,
) -> Result<T> {
    let beat = Duration::from_millis(10);
    let cluster = MiniCluster::start_with(2, workers, ServerOptions { beat, ..options() }).unwrap();
    cluster.run(|server| task(&Strategy::parameter_server_on(server, settings.clone())?, server))
}

/// Fits a line in a job.
fn fit(
    workers: u32,
    consistency: &str,
    optimizer: Sgd,
    data: impl Fn() -> Data + Sync,
    fit: impl Fn() -> Fit + Sync,
) -> Result<(Vec<f32>, History)> {
    job(workers, consistency, |strategy, _| {
        let mut compiled = line(strategy, optimizer);
        let history = compiled.fit(data(), quiet(fit()))?;
        Ok((numbers(&compiled), history))
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
    let expected = line(&Strategy::default(), Sgd::new(0.1)).evaluate(data(), quiet(Fit::default())).unwrap();
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
    let mut alone = line(&Strategy::default(), Sgd::new(0.1).momentum(0.9));
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
        let (compiled, history) = fit_line(strategy, Fit::epochs(4).steps_per_epoch(7).batch_size(10))?;
        Ok((history.epochs().len(), compiled.iterations()))
    });
    assert_eq!(done.unwrap(), (4, 28));
}

#[test]
fn data_that_ends_before_its_steps_ends_the_training_and_is_logged() {
    let log = LogRecorder::default();
    let short = || DatasetCreator::new(|cx| Ok(Dataset::from_tensor_slices(rows(10)).shard(cx).batch(2)));
    let epochs = log.record(|| {
        job(2, "async", |strategy, _| {
            let mut compiled = line(strategy, Sgd::new(0.1));
            let history = compiled.fit(short(), quiet(Fit::epochs(3).steps_per_epoch(4)))?;
            Ok((history.epochs().len(), compiled.iterations()))
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
        let (compiled, history) = fit_line(strategy, fit)?;
        let mut alone = line(&Strategy::default(), Sgd::new(0.1));
        alone.set_weights(compiled.weights()?)?;
        Ok((alone.evaluate(held_out(), quiet(Fit::default()))?, history))
    });
    let (alone, history) = done.unwrap();
    for name in ["loss", "mae"] {
        let found = history.last(&format!("val_{name}")).unwrap();
        assert!((found - alone.find(name).unwrap()).abs() < 1e-6, "{name}: {found} {alone}");
    }
    let expected = line(&Strategy::default(), Sgd::new(0.1)).evaluate(data(), quiet(Fit::default())).unwrap();
    let found: Logs = job(3, "async", |strategy, _| {
        line(strategy, Sgd::new(0.1)).evaluate(data(), quiet(Fit::default().batch_size(3)))
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
        let (bias, rates) = job(2, consistency, |strategy, _| {
            let model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([2]))?;
            let mut compiled = model.compile(Sgd::new(0.5), "mae", [""; 0])?;
            compiled.set_weights(weights([0.0, 0.0], 100.0)).unwrap();
            let rates = [0.5, 0.25, 2.0];
            let fit = Fit::epochs(3)
                .steps_per_epoch(4)
                .batch_size(2)
                .callback(LearningRateScheduler::new(move |epoch, _| rates[epoch]));
            let history = compiled.fit(constant(), quiet(fit))?;
            Ok((numbers(&compiled)[2], history.series("lr")?))
        })
        .unwrap();
        assert_eq!(rates, [0.5, 0.25, 2.0]);
        assert_eq!(bias, 100.0 - 4.0 * (0.5 + 0.25 + 2.0), "{consistency}");
    }
}

#[test]
fn early_stopping_stops_and_puts_the_best_weights_on_the_servers() {
    // A rate at which it gets worse and worse.
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (weights, history, on_servers) = job(2, "async", |strategy, _| {
        // Only the chief's callbacks are called.
        let fit = Fit::epochs(50)
            .steps_per_epoch(6)
            .batch_size(16)
            .callback(EarlyStopping::new("loss").patience(2).restore_best_weights())
            .callback(ModelCheckpoint::new(at("weights-{epoch}.safetensors")))
            .callback(CsvLogger::new(at("log.csv")));
        let mut compiled = line(strategy, Sgd::new(0.9));
        let history = compiled.fit(data(), quiet(fit))?;
        let mut best = line(&Strategy::default(), Sgd::new(0.1));
        let losses = history.series("loss")?;
        let first = (0..losses.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b])).unwrap();
        best.load_weights(&at(&format!("weights-{}.safetensors", first + 1)))?;
        Ok((numbers(&compiled), history, numbers(&best)))
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
}

#[test]
fn every_task_returns_the_same_history_and_has_the_same_weights() {
    let seen: Mutex<Vec<(History, Logs, Vec<f32>)>> = Mutex::default();
    job(2, "async", |strategy, _| {
        let (mut compiled, history) = fit_line(strategy, Fit::epochs(2).batch_size(8))?;
        let logs = compiled.evaluate(data(), quiet(Fit::default()))?;
        seen.lock().unwrap().push((history, logs, numbers(&compiled)));
        Ok(())
    })
    .unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!((seen.len(), &seen[0]), (3, &seen[1]));
    assert_eq!(&seen[0], &seen[2]);
    assert_eq!(seen[0].0.epochs(), [0, 1]);
}

#[test]
fn a_parameter_server_that_runs_the_program_returns_what_the_trainers_return() {
    let cluster = MiniCluster::start_with(2, 2, options()).unwrap();
    let part = |server: &Server| {
        let (compiled, history) = fit_line(&Strategy::parameter_server_on(server, settings("async"))?, Fit::epochs(1))?;
        Ok::<_, Error>((history, numbers(&compiled), compiled.predict(x())?.as_f32()?.to_vec()))
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let tasks = cluster.trainers().iter().chain(cluster.servers());
        let threads: Vec<_> = tasks.map(|server| scope.spawn(|| part(server))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    assert!(all.len() == 5 && all.iter().all(|one| *one == all[0]), "{all:?}");
}

#[test]
fn a_second_fit_goes_on_with_what_the_first_has_learned() {
    for (consistency, steps) in [("async", Some(7)), ("async", None), ("sync", None)] {
        let (first, second, iterations) = job(2, consistency, |strategy, _| {
            let fit = || {
                let fit = quiet(Fit::epochs(3).batch_size(8));
                if let Some(steps) = steps { fit.steps_per_epoch(steps) } else { fit }
            };
            let mut compiled = line(strategy, Sgd::new(0.1));
            let first = compiled.fit(data(), fit())?;
            let between = compiled.iterations();
            let second = compiled.fit(data(), fit())?;
            assert_eq!(compiled.iterations(), 2 * between, "{consistency} {steps:?} {first:?} {second:?}");
            Ok((first, second, between))
        })
        .unwrap();
        assert_eq!((first.epochs(), second.epochs()), (&[0, 1, 2][..], &[0, 1, 2][..]), "{consistency} {steps:?}");
        assert_eq!(iterations, 3 * steps.unwrap_or(if consistency == "sync" { 7 } else { 8 }));
        assert!(second.last("loss").unwrap() < first.last("loss").unwrap());
    }
}

#[test]
fn weights_that_are_set_between_calls_are_those_on_the_servers() {
    let logs = job(2, "async", |strategy, _| {
        let (mut compiled, _) = fit_line(strategy, Fit::epochs(1).batch_size(8))?;
        compiled.set_weights(weights([2.0, -1.0], 0.5))?;
        compiled.evaluate(data(), quiet(Fit::default()))
    })
    .unwrap();
    assert!(logs.find("loss").unwrap() < 1e-10, "{logs}");
}

#[test]
fn synchronous_rounds_learn_what_one_process_learns() {
    // 53 rows in batches of 8: the last one has five rows, which three workers share unevenly.
    let options = || Fit::epochs(3).batch_size(8).seed(5);
    let mut alone = line(&Strategy::default(), Sgd::new(0.1).momentum(0.9));
    let expected = alone.fit(data(), quiet(options())).unwrap();
    for workers in [2, 3] {
        let (weights, history) = fit(workers, "sync", Sgd::new(0.1).momentum(0.9), data, options).unwrap();
        close(&weights, &numbers(&alone), 1e-5);
        let (found, wanted) = (history.series("loss").unwrap(), expected.series("loss").unwrap());
        assert!(found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{workers}: {found:?} {wanted:?}");
    }
}

#[test]
fn moving_averages_are_on_the_servers() {
    let network = || {
        let norm = phalanx_nn::model::BatchNormalization::new().momentum(0.9);
        Sequential::new().add(norm).add(Dense::new(1)).seed(3).build([2])
    };
    let fit = |strategy: &Strategy| {
        let mut compiled = strategy.scope(network)?.compile(Sgd::new(0.1), "mse", ["mae"])?;
        compiled.fit(data(), quiet(Fit::epochs(3).batch_size(8).seed(5)))?;
        let logs = compiled.evaluate(data(), quiet(Fit::default()))?;
        Ok((numbers(&compiled), logs))
    };
    let (alone, logs) = fit(&Strategy::default()).unwrap();
    assert_eq!(alone.len(), 11, "two trained and two moving vectors of two numbers, a kernel of two and a bias");
    let (weights, found) = job(1, "sync", |strategy, _| fit(strategy)).unwrap();
    close(&weights, &alone, 1e-5);
    assert!((found.find("loss").unwrap() - logs.find("loss").unwrap()).abs() < 1e-5, "{found} {logs}");
    let (_, found) = job(2, "async", |strategy, _| fit(strategy)).unwrap();
    assert!(found.find("loss").unwrap() < 2.0 * logs.find("loss").unwrap() + 0.05, "{found} {logs}");
}

#[test]
fn a_job_has_one_model() {
    let error = job(1, "async", |strategy, _| {
        let first = line(strategy, Sgd::new(0.1));
        let model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([2]))?;
        let second = model.compile(Sgd::new(0.1), "mse", ["mae"]).map(drop);
        drop(first);
        second
    })
    .unwrap_err();
    assert_eq!(error.what(), "a job with parameter servers trains one model");
}

#[test]
fn a_job_that_is_started_again_goes_on_at_the_right_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let train = |epochs: usize, steps: Option<u64>, sub: &str| {
        let at = dir.path().join(sub).to_str().unwrap().to_owned();
        let settings = ParameterServerOptions { model_dir: Some(at), ..settings("async") };
        let done = job_with(2, &settings, |strategy, _| {
            let fit = Fit::epochs(epochs).batch_size(8);
            let fit = if let Some(steps) = steps { fit.steps_per_epoch(steps) } else { fit };
            let (compiled, history) = fit_line(strategy, fit)?;
            Ok((history.epochs().to_vec(), compiled.iterations(), numbers(&compiled)))
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
        let (compiled, _) = fit_line(strategy, Fit::epochs(1))?;
        Ok((numbers(&compiled), compiled.predict(x())?.as_f32()?[0]))
    });
    let (weights, found) = predicted.unwrap();
    let wanted = weights[1] * 37.0 / 101.0 + weights[2];
    assert!((found - wanted).abs() < 1e-6 && wanted != 0.0);
}

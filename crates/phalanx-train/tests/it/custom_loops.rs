//! Custom training loops: metrics, learning rates and clipping in the steps of `Strategy::run`.

use crate::support::quiet;
use phalanx_base::{Code, Error, Result, Role};
use phalanx_data::{Batch, Column, Dataset};
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::metrics::{BinaryAccuracy, Mean, Sum};
use phalanx_nn::model::{Dense, Mode, Model, Sequential};
use phalanx_optim::{Clip, Optimizer, Sgd};
use phalanx_train::fit::Logs;
use phalanx_train::{BatchTensors, HostTensor, MiniCluster, ParameterServerOptions, Replicated, Strategy};
use std::sync::Mutex;

const STRATEGIES: [&str; 4] = ["default", "mirrored:3", "central_storage:2", "parameter_server:sync"];
/// Divides evenly, so that every replica has a part of every batch.
const BATCH: usize = 12;
const ROWS: usize = 48;

fn points() -> Dataset {
    let x: Vec<f32> = (0..2 * ROWS).map(|i| ((i * 37) % 101) as f32 / 101.0).collect();
    let y = (0..ROWS).map(|row| f32::from(u8::from(row % 3 == 0))).collect();
    let columns = [("x", Column::f32(x).with_row_shape([2]).unwrap()), ("y", Column::f32(y))];
    Dataset::from_tensor_slices(Batch::new(columns).unwrap()).batch(BATCH)
}

fn model(strategy: &Strategy, optimizer: impl Into<Optimizer>) -> Result<Replicated<Model>> {
    strategy.scope(|| Sequential::new().add(Dense::new(1)).seed(5).build([2]))?.optimizer(optimizer.into())
}

/// The metrics of the second of two passes. With a rate of 0 they are those of the initial model.
fn measure(strategy: &Strategy, model: &mut Replicated<Model>) -> Result<Logs> {
    let (accuracy, rows) = (model.metric(BinaryAccuracy::new()), model.metric(Sum::new("rows")));
    let loss = model.metric(Mean::new("loss"));
    let data = strategy.distribute_dataset(&points())?;
    let pass = |model: &mut Replicated<Model>| -> Result<Logs> {
        for inputs in data.steps()? {
            strategy.run(model, inputs?, |replica, batch| {
                let x: Tensor<2> = batch.tensor("x", replica.device())?;
                let predicted: Tensor<2> = replica.model().forward(x, Mode::Inference)?;
                replica.apply_gradients(replica.gradient(predicted.clone().sum() / BATCH as f32)?);
                let predicted = HostTensor::from(predicted);
                replica.update(&accuracy, batch.f32("y")?, &predicted, None)?;
                replica.record(&rows, batch.rows() as f32)?;
                predicted.as_f32()?.iter().try_for_each(|number| replica.record(&loss, *number))
            })?;
        }
        model.metric_results()
    };
    pass(model)?;
    model.reset_metrics();
    pass(model)
}

#[test]
fn every_example_counts_once_in_the_metrics_of_a_loop() {
    let measured = |name: &str| {
        let strategy = Strategy::named(name).unwrap();
        let mut model = model(&strategy, Sgd::new(0.0)).unwrap();
        measure(&strategy, &mut model).unwrap()
    };
    let expected = measured("default");
    assert_eq!(expected.get("rows"), Some(ROWS as f64));
    assert!((0.1..1.0).contains(&expected.find("binary_accuracy").unwrap()));
    for name in STRATEGIES {
        let found = measured(name);
        assert_eq!(found.get("rows"), expected.get("rows"), "{name}");
        assert_eq!(found.get("binary_accuracy"), expected.get("binary_accuracy"), "{name}");
        assert!((found.find("loss").unwrap() - expected.find("loss").unwrap()).abs() < 1e-6, "{name}");
    }
}

#[test]
fn the_trainers_of_a_job_return_one_sum_from_every_task() {
    let alone = Strategy::default();
    let expected = measure(&alone, &mut model(&alone, Sgd::new(0.0)).unwrap()).unwrap();
    for consistency in ["async", "sync"] {
        let found = Mutex::new(Vec::new());
        let settings = ParameterServerOptions { consistency: consistency.into(), ..ParameterServerOptions::default() };
        let cluster = MiniCluster::start_with(1, 2, quiet()).unwrap();
        let task = |server: &phalanx_train::Server| {
            let strategy = Strategy::parameter_server_on(server, settings.clone())?;
            let logs = measure(&strategy, &mut model(&strategy, Sgd::new(0.0))?)?;
            found.lock().unwrap().push((server.task().role, logs));
            Ok(())
        };
        cluster.run(task).unwrap();
        let found = found.into_inner().unwrap();
        assert_eq!(found.iter().filter(|(role, _)| *role != Role::Ps).count(), 3, "{consistency}");
        for (_, logs) in &found {
            assert_eq!(logs.get("rows"), Some(ROWS as f64), "{consistency}");
            assert_eq!(logs.get("binary_accuracy"), expected.get("binary_accuracy"), "{consistency}");
        }
    }
}

#[test]
fn a_metric_of_another_model_is_refused() {
    let strategy = Strategy::default();
    let (mut one, mut other) = (model(&strategy, Sgd::new(0.1)).unwrap(), model(&strategy, Sgd::new(0.1)).unwrap());
    let (_, theirs) = (one.metric(Sum::new("rows")), other.metric(Sum::new("rows")));
    let inputs = strategy.values_from_function(|_| Ok(())).unwrap();
    let error = strategy.run(&mut one, inputs, |replica, ()| replica.record(&theirs, 1.0)).unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::BadSetting, "the metric belongs to another model"));
}

/// A program that ignores a failed step must not make its job succeed.
#[test]
fn a_step_that_fails_fails_the_job() {
    let cluster = MiniCluster::start_with(1, 1, quiet()).unwrap();
    let ended = cluster.run(|server| {
        let strategy = Strategy::parameter_server_on(server, ParameterServerOptions::default())?;
        let mut model = model(&strategy, Sgd::new(0.1))?;
        let inputs = strategy.values_from_function(|_| Ok(()))?;
        let bad = || Error::new(Code::DataRow, "row 7 is malformed");
        let stepped = strategy.run(&mut model, inputs, |_, ()| Err::<(), _>(bad()));
        assert!(stepped.is_err(), "this task's error, or that of the other one");
        Ok(())
    });
    assert!(ended.is_err(), "the program ignored the error, but its job has failed");
}

/// Trains one step on one batch and returns how far the weights moved.
fn moved(name: &str, optimizer: Optimizer, rate: Option<f32>) -> Vec<f32> {
    let strategy = Strategy::named(name).unwrap();
    let mut model = model(&strategy, optimizer).unwrap();
    if let Some(rate) = rate {
        model.set_learning_rate(rate).unwrap();
    }
    let before: Vec<f32> = model.module().values().unwrap().concat();
    let data = strategy.distribute_dataset(&points().take(1)).unwrap();
    for inputs in data.steps().unwrap() {
        let step = strategy.run(&mut model, inputs.unwrap(), |replica, batch| {
            let x: Tensor<2> = batch.tensor("x", replica.device())?;
            let y: Tensor<2> = batch.tensor("y", replica.device())?;
            let predicted: Tensor<2> = replica.model().forward(x, Mode::Training { seed: replica.seed() })?;
            let loss = (predicted - y).powi_scalar(2).sum() / BATCH as f32;
            replica.apply_gradients(replica.gradient(loss)?);
            Ok(())
        });
        step.unwrap();
    }
    // A step without gradients fetches the newest values from the servers.
    let nothing = strategy.values_from_function(|_| Ok(())).unwrap();
    strategy.run(&mut model, nothing, |_, ()| Ok(())).unwrap();
    model.module().values().unwrap().concat().iter().zip(before).map(|(after, before)| after - before).collect()
}

#[test]
fn a_learning_rate_set_before_the_first_step_counts_under_every_strategy() {
    let expected = moved("default", Sgd::new(0.5).into(), None);
    assert!(expected.iter().any(|change| change.abs() > 1e-2), "{expected:?}");
    for name in STRATEGIES {
        for (found, expected) in moved(name, Sgd::new(0.1).into(), Some(0.5)).iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6, "{name}: {found} {expected}");
        }
    }
}

#[test]
fn the_gradients_of_a_loop_are_clipped_under_every_strategy() {
    let norm = |changes: Vec<f32>| changes.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!(norm(moved("default", Sgd::new(0.5).into(), None)) > 0.02);
    for name in STRATEGIES {
        let found = norm(moved(name, Sgd::new(0.5).clip(Clip::GlobalNorm(0.02)).into(), None));
        assert!((found - 0.01).abs() < 1e-5, "{name}: {found}");
    }
}

//! `fit` of models with embeddings, whose rows are tables on parameter servers.

use crate::support::quiet as options;
use phalanx_base::Result;
use phalanx_data::{Batch, Column};
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::model::{Concatenate, Dense, DynTensor, Embedding, Flatten, Function, Input, Layer, Mode, Model};
use phalanx_optim::{Adagrad, Adam, Clip, ExponentialDecay, Optimizer, Sgd};
use phalanx_train::fit::callbacks::{EarlyStopping, LearningRateScheduler, ModelCheckpoint};
use phalanx_train::fit::{Compile, Compiled, Fit, History, Verbose, Weight};
use phalanx_train::{MiniCluster, ParameterServerOptions, Server, ServerOptions, Strategy};
use std::sync::Mutex;
use std::time::Duration;

const USERS: usize = 30;
const ITEMS: usize = 20;

/// A user, two items that share a table, and a label. The last batch of eight has one row.
fn batch(rows: usize) -> Batch {
    let ids = |factor: usize, count: usize| {
        Column::i64((0..rows).map(|row| (row * factor % count) as i64).collect()).with_row_shape([1]).unwrap()
    };
    let label = Column::f32((0..rows).map(|row| ((row * 37) % 11) as f32 / 11.0).collect());
    let columns = [("user", ids(7, USERS)), ("first", ids(3, ITEMS)), ("second", ids(11, ITEMS)), ("y", label)];
    Batch::new(columns).unwrap().with_label("y").unwrap()
}

fn data() -> Batch {
    batch(49)
}

fn network(users: usize, items: usize) -> Result<Model> {
    let (user, first, second) = (Input::named("user", [1]), Input::named("first", [1]), Input::named("second", [1]));
    let table = Embedding::new(items, 3).name("items");
    let rows = [Embedding::new(users, 4).name("users").call(&user), table.call(&first), table.call(&second)];
    let flat: Vec<_> = rows.iter().map(|rows| Flatten::new().call(rows)).collect();
    let joined = Concatenate::new().call(&flat);
    let hidden = Dense::new(5).activation(Function::Tanh).call(&joined);
    Model::seeded([&user, &first, &second], &Dense::new(1).call(&hidden), 11)
}

fn compiled(strategy: &Strategy, optimizer: impl Into<Optimizer>) -> Result<Compiled<Model>> {
    strategy.scope(|| network(USERS, ITEMS))?.compile(optimizer.into(), "mse", ["mae"])
}

fn quiet(fit: Fit) -> Fit {
    fit.verbose(Verbose::Silent)
}

fn settings(consistency: &str) -> ParameterServerOptions {
    ParameterServerOptions { consistency: consistency.into(), ..ParameterServerOptions::default() }
}

fn cluster(workers: u32) -> MiniCluster {
    MiniCluster::start_with(2, workers, ServerOptions { beat: Duration::from_millis(10), ..options() }).unwrap()
}

/// Runs `task` in a job of two servers, a chief and these workers. Returns the chief's result.
fn job<T: Send>(workers: u32, consistency: &str, task: impl Fn(&Strategy, &Server) -> Result<T> + Sync) -> Result<T> {
    let task = |server: &Server| task(&Strategy::parameter_server_on(server, settings(consistency))?, server);
    cluster(workers).run(task)
}

fn weights_close(found: &[Weight], wanted: &[Weight]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!((&found.name, &found.shape), (&wanted.name, &wanted.shape));
        let apart = found.values.iter().zip(&wanted.values).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "{} differs by {apart}", found.name);
    }
}

fn history_close(found: &History, wanted: &History) {
    for name in ["loss", "mae"] {
        let (found, wanted) = (found.series(name).unwrap(), wanted.series(name).unwrap());
        assert!(found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{name}: {found:?} {wanted:?}");
    }
}

/// Fits under one process and in a job of synchronous rounds, and compares everything.
fn agrees(workers: u32, optimizer: impl Into<Optimizer>, fit: impl Fn() -> Fit + Sync) {
    let optimizer = optimizer.into();
    let mut alone = compiled(&Strategy::default(), optimizer).unwrap();
    let wanted = alone.fit(data(), quiet(fit())).unwrap();
    let (history, weights, predicted) = job(workers, "sync", |strategy, _| {
        let mut model = compiled(strategy, optimizer)?;
        let history = model.fit(data(), quiet(fit()))?;
        Ok((history, model.weights()?, model.predict(data())?))
    })
    .unwrap();
    history_close(&history, &wanted);
    weights_close(&weights, &alone.weights().unwrap());
    let alone = alone.predict(data()).unwrap();
    let apart = predicted.as_f32().unwrap().iter().zip(alone.as_f32().unwrap()).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) < 1e-5);
}

fn epochs() -> Fit {
    Fit::epochs(3).batch_size(8)
}

#[test]
fn synchronous_rounds_agree_with_one_process() {
    for workers in [1, 2] {
        agrees(workers, Sgd::new(0.1), epochs);
        agrees(workers, Adagrad::new(0.2), epochs);
        // Rows without a gradient change, too: the embeddings are variables.
        agrees(workers, Adam::new(0.01).lazy(false), epochs);
        agrees(workers, Sgd::new(0.1).momentum(0.9), epochs);
    }
    // With all rows in every batch, a lazy Adam is the same.
    agrees(2, Adam::new(0.01), || Fit::epochs(5).batch_size(49));
}

#[test]
fn tables_follow_schedules_and_callbacks_that_set_the_learning_rate() {
    agrees(2, Optimizer::from(Sgd::new(0.5)).with_schedule(ExponentialDecay::new(0.5, 5, 0.5)), epochs);
    let falling = || epochs().callback(LearningRateScheduler::new(|epoch, _| 0.5 / (epoch + 1) as f32));
    agrees(2, Sgd::new(0.5), falling);
    agrees(1, Optimizer::from(Adagrad::new(0.2)).with_clip(Clip::Norm(0.05)), epochs);
    agrees(1, Optimizer::from(Sgd::new(0.5)).with_clip(Clip::GlobalNorm(0.05)), epochs);
}

#[test]
fn a_step_fetches_the_rows_of_its_batch_and_the_rest_does_not_exist() {
    // Too large to come to every task, and to be created in any of them.
    let (users, items) = (3_000_000_000, 4_000_000);
    let cluster = cluster(2);
    let sent = || cluster.servers().iter().map(|server| server.store().unwrap().load().bytes_out).sum::<u64>();
    let rows = |name: &str| {
        let stored = cluster.servers().iter().flat_map(|server| server.store().unwrap().stored_items());
        stored.filter(|item| item.table && item.name == name).map(|item| item.count).sum::<u64>()
    };
    let done = cluster.run(|server| {
        let strategy = Strategy::parameter_server_on(server, settings("async"))?;
        let mut model = strategy.scope(|| network(users, items))?.compile(Sgd::new(0.1), "mse", ["mae"])?;
        let fit = quiet(Fit::epochs(4).batch_size(8).validation(data()));
        model.fit(data(), fit)?;
        let logs = model.evaluate(data(), quiet(Fit::default()))?;
        Ok((model.predict(data())?.rows(), logs.get("loss").is_some(), model.iterations()))
    });
    assert_eq!(done.unwrap(), (49, true, 28));
    assert_eq!((rows("users/embeddings"), rows("items/embeddings")), (USERS as u64, ITEMS as u64));
    // A batch has eight users and sixteen items at most; dense values are a few hundred bytes.
    assert!(sent() < 200_000, "{}", sent());
}

#[test]
fn first_values_are_those_of_one_process_and_the_programs_own_replace_them() {
    let alone = compiled(&Strategy::default(), Sgd::new(0.0)).unwrap();
    let known = alone.weights().unwrap();
    let ones = || Weight { values: vec![1.0; 3 * ITEMS], ..known[1].clone() };
    assert_eq!(ones().name, "items/embeddings");
    let (first, before, set, later) = job(1, "async", |strategy, _| {
        let mut model = compiled(strategy, Sgd::new(0.0))?;
        let (first, before) = (model.weights()?, model.predict(data())?);
        model.set_weights(vec![ones()])?;
        model.fit(data(), quiet(Fit::epochs(1)))?;
        let set = model.weights()?;
        model.set_weights(vec![Weight { values: vec![2.0; 3 * ITEMS], ..ones() }])?;
        let changed = model.predict(data())?;
        let logs = model.evaluate(data(), quiet(Fit::default()))?;
        let label = batch(49).label().unwrap().as_f32().unwrap().to_vec();
        let errors = changed.as_f32()?.iter().zip(&label).map(|(a, b)| f64::from((a - b).powi(2)));
        assert!((logs.get("loss").unwrap() - errors.sum::<f64>() / 49.0).abs() < 1e-5);
        Ok((first, before, set, model.weights()?))
    })
    .unwrap();
    weights_close(&first, &known);
    assert_eq!(before, alone.predict(data()).unwrap());
    assert_eq!((&set[0], &set[1]), (&first[0], &ones()));
    assert_eq!(later[1].values, vec![2.0; 3 * ITEMS]);
}

#[test]
fn a_custom_loop_agrees_with_one_process() {
    let train = |strategy: &Strategy| -> Result<Vec<Weight>> {
        let mut model = compiled(strategy, Adagrad::new(0.2))?;
        let whole = phalanx_data::Dataset::from_tensor_slices(batch(48)).batch(8);
        for _ in 0..2 {
            for step in strategy.distribute_dataset(&whole)?.steps()? {
                strategy.run(model.replicated(), step?, |replica, batch: Batch| {
                    let inputs = ["user", "first", "second"].map(|name| -> Result<DynTensor> {
                        DynTensor::integers(batch.i64(name)?.to_vec(), &[batch.rows(), 1], replica.device())
                    });
                    let inputs = inputs.into_iter().collect::<Result<Vec<_>>>()?;
                    let output = replica.model().call(inputs, Mode::Training { seed: 1 })?.remove(0);
                    let label = Tensor::<1>::from_floats(batch.f32("y")?, replica.device()).reshape([-1, 1]);
                    let loss = (output.tensor::<2>()? - label).powi_scalar(2).sum() / 8.0;
                    replica.apply_gradients(replica.gradient(loss)?);
                    Ok(())
                })?;
            }
        }
        model.evaluate(data(), quiet(Fit::default()))?;
        model.weights()
    };
    let wanted = train(&Strategy::default()).unwrap();
    weights_close(&job(1, "sync", |strategy, _| train(strategy)).unwrap(), &wanted);
    weights_close(&job(2, "sync", |strategy, _| train(strategy)).unwrap(), &wanted);
}

#[test]
fn weights_are_saved_loaded_restored_and_exported_with_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let best = folder.path().join("best").display().to_string();
    let export = folder.path().join("export");
    let seen = Mutex::new(Vec::new());
    let weights = job(2, "async", |strategy, _| {
        let mut model = compiled(strategy, Sgd::new(0.3))?;
        let fit = epochs()
            .validation(data())
            .callback(ModelCheckpoint::new(&best))
            .callback(EarlyStopping::new("val_loss").patience(9).restore_best_weights());
        model.fit(data(), quiet(fit))?;
        // Every task has the rows of tables that are not large, also when the job is over.
        seen.lock().unwrap().push(model.weights()?);
        if strategy.should_checkpoint() {
            model.export_saved_model(&export, Some(&data()))?;
        }
        model.weights()
    })
    .unwrap();
    let mut alone = compiled(&Strategy::default(), Sgd::new(0.3)).unwrap();
    alone.load_weights(&best).unwrap();
    weights_close(&alone.weights().unwrap(), &weights);
    assert!(seen.lock().unwrap().iter().all(|seen| *seen == weights));
    assert!(export.join("saved_model.pb").exists());
}

#[test]
fn a_job_that_starts_again_continues_with_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let run = |epochs: usize| {
        let settings =
            ParameterServerOptions { model_dir: Some(folder.path().display().to_string()), ..settings("sync") };
        cluster(2).run(|server| {
            let strategy = Strategy::parameter_server_on(server, settings.clone())?;
            let mut model = compiled(&strategy, Adagrad::new(0.2))?;
            let fit = Fit::epochs(epochs).steps_per_epoch(7).batch_size(8).shuffle(false);
            model.fit(data(), quiet(fit))?;
            Ok((model.weights()?, model.iterations()))
        })
    };
    let (first, steps) = run(2).unwrap();
    assert_eq!(steps, 14);
    let (second, steps) = run(4).unwrap();
    assert_eq!(steps, 28);
    assert_ne!(first[0].values, second[0].values);
    let mut alone = compiled(&Strategy::default(), Adagrad::new(0.2)).unwrap();
    alone.fit(data(), quiet(Fit::epochs(4).steps_per_epoch(7).batch_size(8).shuffle(false))).unwrap();
    weights_close(&second, &alone.weights().unwrap());
}

#[test]
fn predictions_of_replicas_and_workers_are_those_of_one_process_in_the_order_of_the_rows() {
    let rows = || phalanx_data::Dataset::from_tensor_slices(batch(49)).batch(4);
    let wanted = compiled(&Strategy::default(), Sgd::new(0.1)).unwrap().predict(rows()).unwrap();
    assert_eq!(wanted.rows(), 49);
    let mirrored = Strategy::mirrored(["cpu:0", "cpu:1", "cpu:2"]).unwrap();
    assert_eq!(compiled(&mirrored, Sgd::new(0.1)).unwrap().predict(rows()).unwrap(), wanted);
    for found in crate::support::workers(2, |strategy| compiled(&strategy, Sgd::new(0.1))?.predict(rows())) {
        assert_eq!(found.unwrap(), wanted);
    }
    // A worker that has less than the others is no reason to wait for it.
    let uneven = crate::support::workers(2, |strategy| {
        let batches = if strategy.should_checkpoint() { rows() } else { rows().take(3) };
        compiled(&strategy, Sgd::new(0.1))?.predict(batches)
    });
    assert!(uneven.iter().all(Result::is_err), "{uneven:?}");
}

#[test]
fn an_evaluator_beside_the_job_reads_the_rows_of_tables() {
    let folder = tempfile::tempdir().unwrap();
    let location = folder.path().display().to_string();
    let settings = ParameterServerOptions { model_dir: Some(location.clone()), ..settings("async") };
    let wanted = cluster(1)
        .run(|server| {
            let mut model = compiled(&Strategy::parameter_server_on(server, settings.clone())?, Sgd::new(0.3))?;
            model.fit(data(), quiet(epochs()))?;
            model.weights()
        })
        .unwrap();
    let mut found = Vec::new();
    let evaluator = phalanx_train::SidecarEvaluator::new(&location).unwrap().max_evaluations(1);
    evaluator
        .run(network(USERS, ITEMS).unwrap(), |model, _| {
            found = model.values()?;
            Ok(Vec::new())
        })
        .unwrap();
    assert_eq!(found, wanted.into_iter().map(|weight| weight.values).collect::<Vec<_>>());
}

#[test]
fn an_id_outside_of_the_table_is_refused_with_the_layers_name() {
    let bad = || {
        let id = |id| Column::i64(vec![id]).with_row_shape([1]).unwrap();
        let columns = [("user", id(USERS as i64)), ("first", id(0)), ("second", id(0)), ("y", Column::f32(vec![0.0]))];
        Batch::new(columns).unwrap().with_label("y").unwrap()
    };
    let error = job(1, "async", |strategy, _| compiled(strategy, Sgd::new(0.1))?.fit(bad(), quiet(Fit::epochs(1))))
        .map(drop)
        .unwrap_err();
    assert!(error.report().contains("users") && error.to_string().contains("id 30"), "{}", error.report());
}

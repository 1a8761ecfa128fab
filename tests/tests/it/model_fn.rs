//! A custom model under an estimator: in one process and on servers, with hooks.

use phalanx::burn::nn::{Linear, LinearConfig};
use phalanx::burn::tensor::{Device, Tensor, TensorData};
use phalanx::data::{Batch, Column, Dataset, InputContext};
use phalanx::estimator::{Control, Ended, Hook, HookContext, Report, Served, ServingInput, Table};
use phalanx::layers::{BatchNormalization, Dense};
use phalanx::metrics::Values;
use phalanx::model::DynTensor;
use phalanx::prelude::*;
use phalanx_tests::{ports, within};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(120);

/// y = 3a - 2b + 1.
fn rows() -> Dataset {
    let point = |i: usize| [(i % 10) as f32 / 10.0, (i / 10 % 10) as f32 / 10.0];
    let points: Vec<f32> = (0..200).flat_map(point).collect();
    let y = points.chunks(2).map(|p| 3.0 * p[0] - 2.0 * p[1] + 1.0).collect();
    let points = Column::f32(points).with_row_shape([2]).unwrap();
    Dataset::from_tensor_slices(
        Batch::new([("point", points), ("y", Column::f32(y))]).unwrap().with_label("y").unwrap(),
    )
}

fn train(_: InputContext) -> Dataset {
    rows().shuffle(200).repeat().batch(20)
}

#[derive(Clone)]
struct Plane;

impl ModelFn for Plane {
    type Module = Linear;

    fn spec(&self) -> EstimatorSpec {
        EstimatorSpec::new(Head::regression(1), Adagrad::new(0.5))
    }

    fn module(&self, device: &Device) -> phalanx::Result<Linear> {
        Ok(LinearConfig::new(2, 1).init(device))
    }

    fn logits(&self, module: &Linear, batch: &ModelInput<'_>, _: Mode) -> phalanx::Result<Tensor<2>> {
        let points = TensorData::new(batch.f32("point")?.to_vec(), [batch.rows(), 2]);
        Ok(module.forward(Tensor::from_data(points, &module.weight.device())))
    }
}

fn config(model_dir: &Path) -> RunConfig {
    RunConfig::new().model_dir(model_dir.to_string_lossy()).log_step_count_steps(None)
}

/// Global steps at the beginning, the number of steps, global steps at the end.
type Calls = (Vec<u64>, u64, Vec<u64>);

/// Records the calls of a hook.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Calls>>);

impl Hook for Recorder {
    fn begin(&mut self, global_step: u64) -> phalanx::Result<()> {
        self.0.lock().unwrap().0.push(global_step);
        Ok(())
    }

    fn after_step(&mut self, step: &Step) -> phalanx::Result<Control> {
        assert!(step.loss.is_finite());
        // Slow enough that no trainer makes all steps before the other has begun.
        std::thread::sleep(Duration::from_millis(1));
        self.0.lock().unwrap().1 += 1;
        Ok(Control::Continue)
    }

    fn end(&mut self, global_step: u64) -> phalanx::Result<()> {
        self.0.lock().unwrap().2.push(global_step);
        Ok(())
    }
}

#[test]
fn in_one_process_it_learns_is_evaluated_and_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::default();
    let estimator = Estimator::new(&Plane, config(folder.path())).unwrap();
    let mut hooks: [Box<dyn Hook>; 1] = [Box::new(recorder.clone())];
    let trained = estimator.train_with(train, TrainSteps::Max(400), &mut hooks).unwrap();
    assert_eq!((trained.global_step, trained.steps, trained.ended), (400, 400, Ended::StepsReached));
    assert_eq!(*recorder.0.lock().unwrap(), (vec![0], 400, vec![400]));
    let found = estimator.evaluate(|_| rows().batch(50), None).unwrap();
    assert!(found.get("average_loss").unwrap() < 1e-3, "{found}");
    let predicted = estimator.predict(|_| rows().batch(200)).unwrap().next().unwrap().unwrap();
    let wanted = rows().batch(200).iter().unwrap().next().unwrap().unwrap().f32("y").unwrap().to_vec();
    let far = predicted.f32("predictions").unwrap().iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < 0.2, "{far}");
    // It goes on where it ended.
    let none = estimator.train_with(train, TrainSteps::Max(400), &mut hooks).unwrap();
    assert_eq!((none.steps, none.ended), (0, Ended::AlreadyTrained));
    let more = estimator.train_with(train, TrainSteps::Max(410), &mut hooks).unwrap();
    assert_eq!((more.global_step, more.steps), (410, 10));
    assert_eq!(*recorder.0.lock().unwrap(), (vec![0, 400], 410, vec![400, 410]));
}

#[test]
fn on_servers_every_role_ends_and_hooks_hear_every_trainer() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = ports::small_cluster();
    let tasks = [(Role::Chief, 0), (Role::Worker, 0), (Role::Ps, 0), (Role::Ps, 1), (Role::Evaluator, 0)];
    let (recorder, path) = (Recorder::default(), folder.path().to_owned());
    let ears = recorder.clone();
    let reports: Vec<Report> = within(DEADLINE, "the job", move || {
        std::thread::scope(|scope| {
            let start = |(role, index): (Role, u32)| {
                let (cluster, path, recorder) = (cluster.clone(), &path, ears.clone());
                scope.spawn(move || {
                    let task = TaskConfig::from_cluster(cluster, TaskId::new(role, index)).unwrap();
                    let train = TrainSpec::new(train).max_steps(600).hook(recorder);
                    let eval = EvalSpec::new(|_| rows().batch(50)).start_delay_secs(0).throttle_secs(0);
                    train_and_evaluate(&Plane, train, eval, config(path).task(task)).unwrap()
                })
            };
            let tasks: Vec<_> = tasks.into_iter().map(start).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        })
    });
    let made: u64 = reports.iter().filter_map(|report| report.training.map(|training| training.steps)).sum();
    let (begun, steps, ended) = recorder.0.lock().unwrap().clone();
    assert_eq!((begun.len(), steps, ended.len()), (2, made, 2), "a chief and a worker");
    assert!((600..604).contains(&made), "{made}");
    let evaluation = reports[4].evaluation.as_ref().expect("the evaluator evaluated");
    assert!(evaluation.global_step >= 600);
    assert!(evaluation.get("average_loss").unwrap() < 1e-3, "{evaluation}");
}

/// The same of our own layers, which have a graph.
#[derive(Clone)]
struct Layered {
    moving: bool,
}

impl ModelFn for Layered {
    type Module = Model;

    fn spec(&self) -> EstimatorSpec {
        EstimatorSpec::new(Head::regression(1), Adagrad::new(0.3))
    }

    fn module(&self, _: &Device) -> phalanx::Result<Model> {
        let layers = Sequential::new().add(Dense::new(8).activation(Function::Tanh));
        let layers = if self.moving { layers.add(BatchNormalization::new()) } else { layers };
        layers.add(Dense::new(1)).build([2])
    }

    fn logits(&self, module: &Model, batch: &ModelInput<'_>, mode: Mode) -> phalanx::Result<Tensor<2>> {
        module.forward(DynTensor::floats(batch.f32("point")?.to_vec(), &[batch.rows(), 2], &default_device())?, mode)
    }

    fn served(&self, input: ServingInput) -> phalanx::Result<Served> {
        Served::of_model(&self.module(&default_device())?, input, &["point"])
    }
}

/// Counts the steps that are computed.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<u64>>);

impl ModelFn for Counting {
    type Module = Linear;

    fn spec(&self) -> EstimatorSpec {
        Plane.spec()
    }

    fn module(&self, device: &Device) -> phalanx::Result<Linear> {
        Plane.module(device)
    }

    fn logits(&self, module: &Linear, batch: &ModelInput<'_>, mode: Mode) -> phalanx::Result<Tensor<2>> {
        if matches!(mode, Mode::Training { .. }) {
            *self.0.lock().unwrap() += 1;
        }
        Plane.logits(module, batch, mode)
    }
}

/// A trainer that learns that the others have made the last step has not computed one more.
#[test]
fn no_step_is_computed_to_be_thrown_away() {
    for round in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let (cluster, path, model) = (ports::small_cluster(), folder.path().to_owned(), Counting::default());
        let counted = model.clone();
        let made: u64 = within(DEADLINE, "the job", move || {
            std::thread::scope(|scope| {
                let tasks = [(Role::Chief, 0), (Role::Worker, 0), (Role::Ps, 0), (Role::Ps, 1)].map(|(role, index)| {
                    let (cluster, path, model) = (cluster.clone(), &path, model.clone());
                    scope.spawn(move || {
                        let task = TaskConfig::from_cluster(cluster, TaskId::new(role, index)).unwrap();
                        let train = TrainSpec::new(train).max_steps(200 + round);
                        train_and_evaluate(&model, train, Vec::new(), config(path).task(task)).unwrap()
                    })
                });
                let reports = tasks.map(|task| task.join().unwrap());
                reports.iter().filter_map(|report| report.training).map(|training| training.steps).sum()
            })
        });
        assert_eq!(*counted.0.lock().unwrap(), made);
    }
}

/// Likes of users and items: a model of two tables and a bias, with a loss, a metric and predictions of its own.
#[derive(Clone)]
struct Towers {
    seen: Arc<Mutex<Vec<f32>>>,
}

/// Reads the bias before every step.
struct Bias(Arc<Mutex<Vec<f32>>>);

impl Hook for Bias {
    fn before_step(&mut self, context: &mut HookContext<'_>) -> phalanx::Result<()> {
        let bias = context.variable("bias")?;
        self.0.lock().unwrap().push(bias[0]);
        Ok(())
    }
}

fn likes() -> Dataset {
    let (user, item) = (|i: i64| i % 6, |i: i64| i / 6 % 5);
    let liked = (0..120).map(|i| f32::from(u8::from((user(i) + item(i)) % 2 == 0))).collect();
    let columns = [
        ("user", Column::i64((0..120).map(user).collect())),
        ("item", Column::i64((0..120).map(item).collect())),
        ("liked", Column::f32(liked)),
    ];
    Dataset::from_tensor_slices(Batch::new(columns).unwrap())
}

fn column(values: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}

impl ModelFn for Towers {
    type Module = Linear;

    fn spec(&self) -> EstimatorSpec {
        // Squared distances from 1 and -1: no label column is set, the loss reads it itself.
        let head = Head::own(1, |logits: Tensor<2>, batch| {
            let wanted = column(batch.f32("liked")?, &logits.device()) * 2.0 - 1.0;
            Ok((logits.squeeze_dim::<1>(1) - wanted).powi_scalar(2))
        });
        let head = head.predictions_fn(|logits| {
            let likes = logits.into_data().iter::<f32>().map(|logit| i64::from(logit > 0.0)).collect();
            Batch::new([("likes", Column::i64(likes))])
        });
        let head = head.add_metric("hits", phalanx::metrics::Accuracy::new(), |metric, seen| {
            let (labels, likes) = (seen.batch.f32("liked")?, seen.predictions.i64("likes")?);
            metric.update(Values::column(labels), Values::ids(likes), None)
        });
        let seen = Arc::clone(&self.seen);
        EstimatorSpec::new(head, Adagrad::new(0.1))
            .table(Table::embedding("user", 6, 4, Adagrad::new(0.3)))
            .table(Table::embedding("item", 5, 4, Adagrad::new(0.3)))
            .training_hook(move || Bias(Arc::clone(&seen)))
    }

    fn module(&self, device: &Device) -> phalanx::Result<Linear> {
        Ok(LinearConfig::new(1, 1).init(device))
    }

    fn ids(&self, batch: &Batch) -> phalanx::Result<Vec<(&str, Vec<i64>)>> {
        Ok(vec![("user", batch.i64("user")?.to_vec()), ("item", batch.i64("item")?.to_vec())])
    }

    fn logits(&self, module: &Linear, batch: &ModelInput<'_>, _: Mode) -> phalanx::Result<Tensor<2>> {
        let products = batch.rows_of("user")?.lookup() * batch.rows_of("item")?.lookup();
        Ok(module.forward(products.sum_dim(1)))
    }
}

#[test]
fn a_model_has_its_own_loss_metrics_predictions_tables_and_hooks() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::<Mutex<Vec<f32>>>::default();
    let estimator = Estimator::new(&Towers { seen: Arc::clone(&seen) }, config(folder.path())).unwrap();
    let input = |_: InputContext| likes().shuffle(120).repeat().batch(30);
    let trained = estimator.train(input, TrainSteps::Max(300)).unwrap();
    assert_eq!(trained.steps, 300);
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 300);
    let changes = seen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes > 290, "the hook sees every step: {changes}");
    let found = estimator.evaluate(|_| likes().batch(60), None).unwrap();
    assert_eq!(found.get("hits"), Some(1.0), "{found}");
    assert!(found.get("average_loss").unwrap() < 0.1, "{found}");
    assert!((found.get("loss").unwrap() - found.get("average_loss").unwrap()).abs() < 1e-6);
    assert_eq!(found.metrics.len(), 3, "{found}");
    let predicted = estimator.predict(|_| likes().batch(120)).unwrap().next().unwrap().unwrap();
    assert_eq!(predicted.names().len(), 1);
    assert_eq!(predicted.i64("likes").unwrap()[..3], [1, 0, 1]);
    let wrong = Batch::new([("user", Column::i64(vec![6])), ("item", Column::i64(vec![0]))]).unwrap();
    let error = estimator.predict(|_| Dataset::from_tensor_slices(wrong.clone()).batch(1)).unwrap().next().unwrap();
    assert_eq!(error.unwrap_err().code(), Code::DataRow);
}

#[test]
fn several_heads_share_a_model_and_each_has_its_labels_and_metrics() {
    #[derive(Clone)]
    struct Both;

    impl ModelFn for Both {
        type Module = Linear;

        fn spec(&self) -> EstimatorSpec {
            let heads = [("above", Head::classes(2)), ("y", Head::regression(1))];
            EstimatorSpec::new(Head::several(heads).head_weights([1.0, 0.5]), Adagrad::new(0.5))
        }

        fn module(&self, device: &Device) -> phalanx::Result<Linear> {
            Ok(LinearConfig::new(2, 2).init(device))
        }

        fn logits(&self, module: &Linear, batch: &ModelInput<'_>, _: Mode) -> phalanx::Result<Tensor<2>> {
            let points = TensorData::new(batch.f32("point")?.to_vec(), [batch.rows(), 2]);
            Ok(module.forward(Tensor::from_data(points, &module.weight.device())))
        }
    }

    let both = || {
        rows().map_batches(phalanx::data::Parallel::default(), |batch| {
            let above = batch.f32("y")?.iter().map(|y| i64::from(*y > 1.5)).collect();
            batch.with_column("above", Column::i64(above))
        })
    };
    let folder = tempfile::tempdir().unwrap();
    let estimator = Estimator::new(&Both, config(folder.path())).unwrap();
    estimator.train(|_| both().shuffle(200).repeat().batch(20), TrainSteps::Max(500)).unwrap();
    let found = estimator.evaluate(|_| both().batch(50), None).unwrap();
    assert!(found.get("auc/above").unwrap() > 0.99 && found.get("average_loss/y").unwrap() < 0.01, "{found}");
    let (above, y) = (found.get("loss/above").unwrap(), found.get("loss/y").unwrap());
    assert!((found.get("loss").unwrap() - (above + 0.5 * y)).abs() < 1e-6, "{found}");
    let predicted = estimator.predict(|_| both().batch(200)).unwrap().next().unwrap().unwrap();
    assert_eq!(predicted.f32("y/predictions").unwrap().len(), 200);
    assert_eq!(predicted.f32("above/probabilities").unwrap().len(), 400);
}

#[test]
fn a_model_of_our_layers_is_exported_with_what_it_learned() {
    let folder = tempfile::tempdir().unwrap();
    let estimator = Estimator::new(&Layered { moving: false }, config(folder.path())).unwrap();
    estimator.train(train, TrainSteps::Max(50)).unwrap();
    let held = rows().batch(50).iter().unwrap().next().unwrap().unwrap();
    for input in [ServingInput::Examples, ServingInput::Raw] {
        let export = folder.path().join(format!("{input:?}"));
        let export = estimator.export_saved_model(export, input, Some(&held)).unwrap();
        assert!(export.join("saved_model.pb").exists());
        let manifest = std::fs::read_to_string(export.join("assets.extra/phalanx.json")).unwrap();
        assert!(manifest.contains("\"checked_rows\": 50") && manifest.contains("\"global_step\": 50"), "{manifest}");
    }
}

/// The moving mean of the first unit, from a checkpoint of a model with batch normalization.
fn moving_mean(model_dir: &Path) -> f32 {
    let estimator = Estimator::new(&Layered { moving: true }, config(model_dir)).unwrap();
    let name = estimator.latest_checkpoint().unwrap().unwrap();
    let dir = phalanx::storage::Dir::local(model_dir);
    let checkpoint = phalanx_ps::checkpoint::Checkpoint::open(&dir, &name).unwrap();
    let names: Vec<String> = checkpoint.index().tensors().keys().cloned().collect();
    let mean = names.iter().find(|name| name.ends_with("moving_mean")).expect("a moving mean");
    checkpoint.tensors().read(mean).unwrap().f32s().unwrap()[0]
}

/// They are variables that every step changes, whoever computes it.
#[test]
fn moving_averages_are_kept_with_the_model_under_every_strategy() {
    let input = |batch: usize| move |_: InputContext| rows().repeat().batch(batch);
    let mut means = Vec::new();
    for strategy in ["default", "mirrored:2"] {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path()).train_distribute(strategy);
        let estimator = Estimator::new(&Layered { moving: true }, config).unwrap();
        estimator.train(input(200), TrainSteps::Max(400)).unwrap();
        let found = estimator.evaluate(|_| rows().batch(200), None).unwrap();
        assert!(found.get("average_loss").unwrap() < 0.1, "{strategy}: {found}");
        means.push(moving_mean(folder.path()));
        let held = rows().batch(50).iter().unwrap().next().unwrap().unwrap();
        estimator.export_saved_model(folder.path().join("export"), ServingInput::Raw, Some(&held)).unwrap();
        // A second run continues with them.
        estimator.train(input(200), TrainSteps::Max(401)).unwrap();
        assert!((moving_mean(folder.path()) - means[means.len() - 1]).abs() < 0.05, "{strategy}");
    }
    assert!(means[0].abs() > 1e-3, "it has moved: {means:?}");
    assert!(means.iter().all(|mean| mean.is_finite()), "{means:?}");
}

#[test]
fn it_has_no_graph_to_export() {
    let folder = tempfile::tempdir().unwrap();
    let estimator = Estimator::new(&Plane, config(folder.path())).unwrap();
    estimator.train(train, TrainSteps::Max(2)).unwrap();
    let exported = estimator.export_saved_model(folder.path().join("export"), Default::default(), None);
    assert_eq!(exported.unwrap_err().code(), Code::BadSetting);
    assert!(!folder.path().join("export").join("1").exists());
}

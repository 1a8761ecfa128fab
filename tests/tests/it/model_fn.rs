//! A custom model under an estimator: in one process and on servers, with hooks.

use phalanx::burn::nn::{Linear, LinearConfig};
use phalanx::burn::tensor::{Device, Tensor, TensorData};
use phalanx::data::{Batch, Column, Dataset, InputContext};
use phalanx::estimator::{Control, Ended, Hook, Report, Served, ServingInput};
use phalanx::layers::{BatchNormalization, Dense};
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

    fn head(&self) -> Head {
        Head::regression(1)
    }

    fn module(&self, device: &Device) -> phalanx::Result<Linear> {
        Ok(LinearConfig::new(2, 1).init(device))
    }

    fn optimizer(&self) -> Optimizer {
        Adagrad::new(0.5).into()
    }

    fn logits(&self, module: &Linear, batch: &Batch, _: Mode) -> phalanx::Result<Tensor<2>> {
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

    fn head(&self) -> Head {
        Head::regression(1)
    }

    fn module(&self, _: &Device) -> phalanx::Result<Model> {
        let layers = Sequential::new().add(Dense::new(8).activation(Function::Tanh));
        let layers = if self.moving { layers.add(BatchNormalization::new()) } else { layers };
        layers.add(Dense::new(1)).build([2])
    }

    fn optimizer(&self) -> Optimizer {
        Adagrad::new(0.3).into()
    }

    fn logits(&self, module: &Model, batch: &Batch, mode: Mode) -> phalanx::Result<Tensor<2>> {
        module.forward(DynTensor::floats(batch.f32("point")?.to_vec(), &[batch.rows(), 2], &default_device())?, mode)
    }

    fn served(&self, input: ServingInput) -> phalanx::Result<Served> {
        Served::of_model(&self.module(&default_device())?, input, &["point"])
    }
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

#[test]
fn moving_averages_that_no_server_keeps_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Estimator::new(&Layered { moving: true }, config(folder.path())).err().expect("refused");
    assert_eq!(error.code(), Code::BadSetting);
    assert!(
        error.report().contains("moving_mean") && error.report().contains("LayerNormalization"),
        "{}",
        error.report()
    );
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

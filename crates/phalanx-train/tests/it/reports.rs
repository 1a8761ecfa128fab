//! What tasks without a server report for the dashboard: mirrored workers, and a process that trains alone.

use crate::support::{quiet, workers_with};
use phalanx_base::Result;
use phalanx_cluster::TaskConfig;
use phalanx_data::Column;
use phalanx_nn::model::{Dense, Model, Sequential};
use phalanx_optim::Sgd;
use phalanx_run::{PlacedShard, StatusDir, TaskPhase, TaskStatus};
use phalanx_train::fit::{Compile, Fit, Verbose};
use phalanx_train::{ParameterServerOptions, ServerOptions, Strategy};
use std::path::Path;

const BATCH: usize = 8;
const STEPS: usize = 5;

fn model() -> Result<Model> {
    Sequential::new().add(Dense::new(1)).seed(3).build([1])
}

/// Five batches whose rows have the squares 1 and 3 as losses, 2 in the mean, as long as the model predicts 0. No half of a batch
/// has that mean.
fn rows() -> (Column, Column) {
    let y = |row: usize| if matches!(row % BATCH, 0 | 1 | 2 | 4) { 1.0 } else { 3.0_f32.sqrt() };
    let rows = BATCH * STEPS;
    (Column::f32(vec![0.0; rows]).with_row_shape([1]).unwrap(), Column::f32((0..rows).map(y).collect()))
}

/// Trains for two epochs without learning anything.
fn fit(strategy: &Strategy) -> Result<()> {
    let mut model = strategy.scope(model)?.compile(Sgd::new(1e-9), "mse", ["mse"; 0])?;
    model.fit(rows(), Fit::epochs(2).batch_size(BATCH).shuffle(false).verbose(Verbose::Silent)).map(drop)
}

fn status(dir: &Path, task: &str) -> TaskStatus {
    StatusDir::at(dir).read(task.parse().unwrap()).unwrap().expect("a status").0
}

/// The name, the shape and the shards of every variable that `task` has created.
fn placement(dir: &Path, task: &str) -> Vec<(String, Vec<u64>, Vec<PlacedShard>)> {
    let placement = StatusDir::at(dir).read_placement(task.parse().unwrap()).unwrap().expect("a placement");
    placement.variables.into_iter().map(|one| (one.name, one.shape, one.shards)).collect()
}

fn options(dir: &Path) -> ServerOptions {
    ServerOptions { status_dir: Some(dir.to_owned()), ..quiet() }
}

#[test]
fn mirrored_workers_report_the_steps_they_make_together_and_the_loss_of_all() {
    let dir = tempfile::tempdir().unwrap();
    for done in workers_with(2, &options(dir.path()), |strategy| fit(&strategy)) {
        done.unwrap();
    }
    for task in ["worker/0", "worker/1"] {
        let status = status(dir.path(), task);
        let steps = Some(2 * STEPS as u64);
        assert_eq!((status.steps, status.global_step, status.max_steps), (steps, steps, steps), "{task}");
        assert_eq!((status.in_sync, status.lag, status.phase), (Some(true), None, Some(TaskPhase::Over)), "{task}");
        assert!((status.loss.expect("a loss") - 2.0).abs() < 1e-4, "{task}: {status:?}");
        // Every worker holds all of the model.
        let whole = |rows| vec![PlacedShard::of_variable(task.parse().unwrap(), 0..rows, 1)];
        let shapes: Vec<Vec<u64>> = placement(dir.path(), task).into_iter().map(|(_, shape, _)| shape).collect();
        assert_eq!(shapes, [vec![1, 1], vec![1]]);
        assert!(placement(dir.path(), task).into_iter().all(|(_, _, shards)| shards == whole(1)));
    }
}

#[test]
fn a_process_that_trains_alone_reports_as_the_task_that_was_launched() {
    let dir = tempfile::tempdir().unwrap();
    let config = r#"{"cluster": {"chief": ["127.0.0.1:1"]}, "task": {"type": "chief", "index": 0}}"#;
    let config = TaskConfig::from_tf_config(Some(config)).unwrap();
    for (name, total) in [("default", 10), ("mirrored:2", 10)] {
        let strategy = Strategy::named_for(name, &config, &options(dir.path())).unwrap();
        fit(&strategy).unwrap();
        drop(strategy);
        let status = status(dir.path(), "chief/0");
        assert_eq!((status.steps, status.max_steps, status.in_sync), (Some(total), Some(total), None), "{name}");
        assert!((status.loss.expect("a loss") - 2.0).abs() < 1e-4, "{name}: {status:?}");
        assert_eq!(placement(dir.path(), "chief/0").len(), 2, "{name}");
    }
}

#[test]
fn steps_of_a_custom_loop_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let strategy = Strategy::named_for("mirrored:2", &TaskConfig::local(), &options(dir.path())).unwrap();
    let run = |strategy: &Strategy, steps: u64| {
        let mut model = strategy.scope(model).unwrap().optimizer(Sgd::new(1e-9)).unwrap();
        for _ in 0..steps {
            let inputs = strategy.values_from_function(|replica| Ok(replica as f32)).unwrap();
            let step = |replica: &mut phalanx_train::Replica<'_, Model>, target: f32| {
                let x = burn::tensor::Tensor::<2>::zeros([1, 1], replica.device());
                let y: burn::tensor::Tensor<2> =
                    replica.model().forward(x, phalanx_nn::model::Mode::Training { seed: replica.seed() })?;
                let loss = (y - target).powi_scalar(2).mean() / replica.num_replicas_in_sync() as f32;
                replica.apply_gradients(replica.gradient(loss)?);
                Ok(())
            };
            strategy.run(&mut model, inputs, step).unwrap();
        }
    };
    // Nobody launched this process, so there is no task to report as.
    run(&strategy, 1);
    assert!(StatusDir::at(dir.path()).joined().is_empty());
    let config = r#"{"cluster": {"chief": ["127.0.0.1:1"]}, "task": {"type": "chief", "index": 0}}"#;
    let config = TaskConfig::from_tf_config(Some(config)).unwrap();
    let strategy = Strategy::named_for("mirrored:2", &config, &options(dir.path())).unwrap();
    run(&strategy, 3);
    drop(strategy);
    let status = status(dir.path(), "chief/0");
    assert_eq!((status.steps, status.global_step, status.loss), (Some(3), Some(3), Some(0.5)));
}

#[test]
fn a_job_of_one_process_holds_its_shards_itself() {
    let dir = tempfile::tempdir().unwrap();
    let settings = ParameterServerOptions::default();
    let strategy = Strategy::parameter_server(&TaskConfig::local(), &options(dir.path()), settings).unwrap();
    fit(&strategy).unwrap();
    let held = placement(dir.path(), "chief/0");
    assert_eq!(held.len(), 2);
    assert!(
        held.iter().all(|(_, _, shards)| shards.iter().all(|shard| shard.task.to_string() == "chief/0")),
        "{held:?}"
    );
    let reported = StatusDir::at(dir.path()).joined();
    assert!(!reported.contains(&"ps/0".parse().unwrap()), "no such task was launched: {reported:?}");
}

//! Options of the canned models that TensorFlow's suite cannot hold them to: dropout, shared tables, and batch
//! normalization on servers.

use phalanx::data::{Batch, Column, Dataset, InputContext};
use phalanx::estimator::{Control, Hook, IntoModel};
use phalanx::prelude::*;
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_storage::Dir;
use phalanx_tests::{ports, within};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(120);

fn config(model_dir: &Path) -> RunConfig {
    RunConfig::new().model_dir(model_dir.to_string_lossy()).log_step_count_steps(None).tf_random_seed(5)
}

struct Losses(Arc<Mutex<Vec<f32>>>);

impl Hook for Losses {
    fn after_step(&mut self, step: &Step) -> phalanx::Result<Control> {
        self.0.lock().unwrap().push(step.loss);
        Ok(Control::Continue)
    }
}

/// The losses of a training, and the accuracy of what came of it, twice.
fn trained(model: &impl IntoModel, rows: &Dataset, steps: u64) -> (Vec<f32>, [f64; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let estimator = Estimator::new(model, config(folder.path())).unwrap();
    let losses = Arc::new(Mutex::new(Vec::new()));
    let mut hooks: [Box<dyn Hook>; 1] = [Box::new(Losses(Arc::clone(&losses)))];
    estimator.train_with(|_| rows.clone().repeat().batch(50), TrainSteps::Max(steps), &mut hooks).unwrap();
    let loss = || estimator.evaluate(|_| rows.clone().batch(50), None).unwrap().get("average_loss").unwrap();
    (losses.lock().unwrap().clone(), [loss(), loss()])
}

/// The sign of a number.
fn signs() -> Dataset {
    let x: Vec<f32> = (0..400).map(|i| ((i * 37 % 400) as f32 - 200.0) / 100.0).collect();
    let label = x.iter().map(|x| i64::from(*x > 0.0)).collect();
    let rows = Batch::new([("x", Column::f32(x)), ("label", Column::i64(label))]).unwrap();
    Dataset::from_tensor_slices(rows.with_label("label").unwrap())
}

#[test]
fn dropout_disturbs_training_by_its_seed_and_evaluation_not_at_all() {
    let model = |rate: Option<f64>| {
        let model = DnnClassifier::new([numeric_column("x")]).hidden_units([32, 16]).optimizer(Adagrad::new(0.1));
        rate.map_or(model.clone(), |rate| model.dropout(rate))
    };
    let (plain, _) = trained(&model(None), &signs(), 60);
    let (dropped, [once, again]) = trained(&model(Some(0.5)), &signs(), 60);
    assert_eq!(dropped, trained(&model(Some(0.5)), &signs(), 60).0, "the same seed drops the same");
    assert!(plain.iter().zip(&dropped).all(|(a, b)| a != b), "nothing was dropped");
    assert_eq!(once, again);
    assert!(once < 0.25, "it learns all the same: {once}");
    let folder = tempfile::tempdir().unwrap();
    let refused = Estimator::new(&model(Some(1.0)), config(folder.path())).err().expect("refused");
    assert_eq!(refused.code(), Code::BadSetting);
}

/// Whether an id is below 10; it stands in `liked` and `watched` is empty, or the other way round.
fn tastes(liked: bool) -> Dataset {
    let ids: Vec<i64> = (0..400).map(|i| i * 7 % 20).collect();
    let label = ids.iter().map(|&id| i64::from(id < 10)).collect();
    let nothing = vec![-1_i64; ids.len()];
    let (liked, watched) = if liked { (ids, nothing) } else { (nothing, ids) };
    let columns = [("liked", Column::i64(liked)), ("watched", Column::i64(watched)), ("label", Column::i64(label))];
    Dataset::from_tensor_slices(Batch::new(columns).unwrap().with_label("label").unwrap())
}

#[test]
fn columns_that_share_a_table_learn_in_one() {
    let column = |name: &str| categorical_column_with_identity(name, 20);
    let columns = shared_embeddings([column("liked"), column("watched")], 4);
    let model = DnnClassifier::new(columns).hidden_units([16]).optimizer(Adagrad::new(0.3));
    let folder = tempfile::tempdir().unwrap();
    let estimator = Estimator::new(&model, config(folder.path())).unwrap();
    let both = |_: InputContext| tastes(true).concatenate(tastes(false)).shuffle(800).repeat().batch(50);
    estimator.train(both, TrainSteps::Max(300)).unwrap();
    let newest = estimator.latest_checkpoint().unwrap().unwrap();
    let checkpoint = Checkpoint::open(&Dir::local(folder.path()), &newest).unwrap();
    let table = "liked_watched_shared_embedding";
    assert_eq!(checkpoint.tensors().read(&format!("{table}-keys")).unwrap().i64s().unwrap().len(), 20);
    let names: Vec<&String> = checkpoint.index().tensors().keys().filter(|name| name.ends_with("-keys")).collect();
    assert_eq!(names, [&format!("{table}-keys")], "one table for both columns");
    for liked in [true, false] {
        let found = estimator.evaluate(|_| tastes(liked).batch(100), None).unwrap();
        assert!(found.get("accuracy").unwrap() > 0.99, "{found}");
    }
    let held = tastes(true).batch(100).iter().unwrap().next().unwrap().unwrap();
    let export = estimator.export_saved_model(folder.path().join("export"), Default::default(), Some(&held)).unwrap();
    let manifest = std::fs::read_to_string(export.join("assets.extra/phalanx.json")).unwrap();
    assert!(manifest.contains("\"checked_rows\": 100"), "{manifest}");
}

#[test]
fn moving_values_move_on_servers() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = ports::small_cluster();
    let path = folder.path().to_owned();
    within(DEADLINE, "the job", move || {
        std::thread::scope(|scope| {
            for (role, index) in [(Role::Chief, 0), (Role::Worker, 0), (Role::Ps, 0), (Role::Ps, 1)] {
                let (cluster, path) = (cluster.clone(), &path);
                scope.spawn(move || {
                    let model = DnnClassifier::new([numeric_column("x")]).hidden_units([8]).batch_norm(true);
                    // So little is learned that the layer's numbers stay what they are.
                    let model = model.optimizer(Sgd::new(1e-9)).activation_fn(Function::Linear);
                    let task = TaskConfig::from_cluster(cluster, TaskId::new(role, index)).unwrap();
                    let train = TrainSpec::new(|_| signs().repeat().batch(100)).max_steps(3000);
                    let eval = EvalSpec::new(|_| signs().batch(100));
                    train_and_evaluate(&model, train, eval, config(path).task(task)).unwrap();
                });
            }
        });
    });
    let dir = Dir::local(folder.path());
    let checkpoint = Checkpoint::open(&dir, "model.ckpt-0").unwrap();
    let kernel = checkpoint.tensors().read("dnn/hiddenlayer_0/kernel").unwrap().f32s().unwrap();
    let newest = Estimator::new(
        &DnnClassifier::new([numeric_column("x")]).hidden_units([8]).batch_norm(true),
        config(folder.path()),
    );
    let newest = newest.unwrap().latest_checkpoint().unwrap().unwrap();
    let checkpoint = Checkpoint::open(&dir, &newest).unwrap();
    let steps = checkpoint.global_step().unwrap();
    let variance = checkpoint.tensors().read("dnn/hiddenlayer_0/batchnorm_0/moving_variance").unwrap().f32s().unwrap();
    // The variance of x is that of 400 even steps between -2 and 2; what is left of the start is 0.999^steps.
    let (of_x, left) = (400.0_f64 * 400.0 / 12.0 / 1e4, 0.999_f64.powi(steps as i32));
    for (weight, found) in kernel.iter().zip(&variance) {
        let wanted = f64::from(*weight).powi(2) * of_x * (1.0 - left) + left;
        assert!((wanted - f64::from(*found)).abs() < 0.02 * wanted.max(0.1), "{wanted}, {found} after {steps}");
    }
}

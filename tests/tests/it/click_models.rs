//! DeepFM and DLRM on a click log whose clicks depend on pairs: they must see what a linear model cannot.

use phalanx::data::{Clicks, Dataset, InputContext, synthetic_clicks};
use phalanx::estimator::IntoModel;
use phalanx::prelude::*;
use phalanx_tests::{ports, within};
use std::path::Path;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(240);
const STEPS: u64 = 2500;
/// Few ids, so that a short training sees each of them.
const IDS: u64 = 50;
const DIMENSION: usize = 8;

fn log(seed: u64, rows: u64) -> Clicks {
    synthetic_clicks(seed, rows).max_ids(IDS)
}

fn train(cx: InputContext) -> Dataset {
    log(1, 640_000).shard(cx).repeat().batch(256)
}

fn test(_: InputContext) -> Dataset {
    log(2, 20_000).batch(1000)
}

fn numbers() -> impl Iterator<Item = FeatureColumn> {
    Clicks::number_names().into_iter().map(|name| numeric_column(name).normalizer_fn(|x| x.ln()))
}

fn categories() -> Vec<FeatureColumn> {
    let ids = log(1, 1).categories();
    ids.into_iter().map(|(name, ids)| categorical_column_with_identity(name, ids as usize)).collect()
}

fn fields() -> Vec<FeatureColumn> {
    numbers().chain(categories().into_iter().map(|column| embedding_column(column, DIMENSION))).collect()
}

fn linear() -> LinearClassifier {
    LinearClassifier::new(numbers().chain(categories()).collect::<Vec<_>>()).optimizer(Adagrad::new(0.2))
}

fn deepfm() -> DeepFmClassifier {
    DeepFmClassifier::new(fields()).hidden_units([64, 32])
}

fn dlrm() -> DlrmClassifier {
    DlrmClassifier::new(fields()).bottom_units([32, DIMENSION]).top_units([64, 32])
}

fn config(model_dir: &Path) -> RunConfig {
    RunConfig::new().model_dir(model_dir.to_string_lossy()).log_step_count_steps(None).tf_random_seed(3)
}

/// The area under the curve after a training in this process.
fn auc(model: &impl IntoModel) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let estimator = Estimator::new(model, config(folder.path())).unwrap();
    estimator.train(train, TrainSteps::Max(STEPS)).unwrap();
    estimator.evaluate(test, None).unwrap().get("auc").unwrap()
}

/// The same with a chief, a worker and two servers; each task with its own sockets.
fn auc_on_servers<M: IntoModel + Clone + Send + 'static>(model: M) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let cluster = ports::small_cluster();
    let path = folder.path().to_owned();
    let tasks = [(Role::Chief, 0), (Role::Worker, 0), (Role::Ps, 0), (Role::Ps, 1)];
    let own = model.clone();
    within(DEADLINE, "the job", move || {
        std::thread::scope(|scope| {
            for (role, index) in tasks {
                let (cluster, model, path) = (cluster.clone(), own.clone(), &path);
                scope.spawn(move || {
                    let task = TaskConfig::from_cluster(cluster, TaskId::new(role, index)).unwrap();
                    let train = TrainSpec::new(train).max_steps(STEPS);
                    train_and_evaluate(&model, train, EvalSpec::new(test), config(path).task(task)).unwrap();
                });
            }
        });
    });
    let estimator = Estimator::new(&model, config(folder.path())).unwrap();
    let found = estimator.evaluate(test, None).unwrap();
    assert!((STEPS..STEPS + 2).contains(&found.global_step), "{found}");
    found.get("auc").unwrap()
}

#[test]
fn pairs_are_seen_that_a_linear_model_cannot_see() {
    let (linear, best) = (auc(&linear()), log(1, 1).best().auc);
    let (deepfm, dlrm) = (auc(&deepfm()), auc(&dlrm()));
    eprintln!("linear {linear:.4}, deepfm {deepfm:.4}, dlrm {dlrm:.4}, best {best:.4}");
    assert!(deepfm > linear + 0.005 && dlrm > linear + 0.005, "linear {linear}, deepfm {deepfm}, dlrm {dlrm}");
}

#[test]
fn tables_on_servers_learn_the_same() {
    let linear = auc(&linear());
    let (deepfm, dlrm) = (auc_on_servers(deepfm()), auc_on_servers(dlrm()));
    eprintln!("linear {linear:.4}; on servers: deepfm {deepfm:.4}, dlrm {dlrm:.4}");
    // Two trainers that do not wait for each other learn a little less from as many steps.
    assert!(deepfm > linear + 0.002 && dlrm > linear + 0.002, "linear {linear}, deepfm {deepfm}, dlrm {dlrm}");
}

fn refused(model: &impl IntoModel) -> String {
    let folder = tempfile::tempdir().unwrap();
    Estimator::new(model, config(folder.path())).err().expect("refused").report()
}

#[test]
fn what_cannot_meet_is_refused() {
    let embedding = |name: &str, dimension| embedding_column(categorical_column_with_identity(name, 10), dimension);
    let uneven = [embedding("a", 4), embedding("b", 8)];
    let report = refused(&DeepFmClassifier::new(uneven.clone()).hidden_units([4]));
    assert!(report.contains("a_embedding") && report.contains("one dimension"), "{report}");
    assert!(refused(&DeepFmClassifier::new([numeric_column("x")]).hidden_units([4])).contains("embedding_column("));
    assert!(refused(&DeepFmClassifier::new([embedding("a", 4)])).contains("hidden_units"));
    let pair = [embedding("a", 4), numeric_column("x")];
    let report = refused(&DlrmClassifier::new(pair.clone()).bottom_units([8]).top_units([4]));
    assert!(report.contains("8 units") && report.contains("4 numbers"), "{report}");
    assert!(refused(&DlrmClassifier::new(pair)).contains("top_units"));
    assert!(refused(&DlrmClassifier::new([embedding("a", 4)]).top_units([4])).contains("one embedding"));
    let report = refused(&DlrmClassifier::new([embedding("a", 4)]).bottom_units([4]).top_units([4]));
    assert!(report.contains("no dense columns"), "{report}");
}

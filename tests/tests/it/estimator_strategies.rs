//! An estimator under every strategy: synchronous ones make the updates of one process, the others learn as much.

use phalanx::data::{AutoShardPolicy, Batch, Column, Dataset, InputContext, Options};
use phalanx::estimator::{Control, Ended, Hook, Report, StrategyChoice};
use phalanx::prelude::*;
use phalanx_tests::{ports, within};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(120);
const STEPS: u64 = 60;

/// 240 rows: words whose embedding matters, and a number.
fn rows() -> Dataset {
    let words = ["a", "b", "c", "d", "e"];
    let word = |i: usize| (i / 2) % 5;
    let number = |i: usize| (i % 7) as f32 / 7.0;
    let columns = [
        ("word", Column::text((0..240).map(|i| words[word(i)]))),
        ("x", Column::f32((0..240).map(number).collect())),
        ("weight", Column::f32((0..240).map(|i| 1.0 + (i % 3) as f32).collect())),
        ("y", Column::f32((0..240).map(|i| number(i) + word(i) as f32 / 5.0).collect())),
    ];
    Dataset::from_tensor_slices(Batch::new(columns).unwrap().with_label("y").unwrap())
}

/// A model with dense variables and tables, a penalty, and optimizers with slots.
fn model() -> WideDeepRegressor {
    let word = || categorical_column_with_vocabulary_list("word", ["a", "b", "c", "d", "e"]);
    WideDeepRegressor::new([word(), numeric_column("x")], [embedding_column(word(), 3), numeric_column("x")])
        .hidden_units([6])
        .linear_optimizer(Ftrl::new(0.1))
        .dnn_optimizer(Adagrad::new(0.1))
        .weight_column("weight")
        .l2(1e-3)
        .embedding_l2(1e-3)
}

fn config(model_dir: &Path) -> RunConfig {
    RunConfig::new().model_dir(model_dir.to_string_lossy()).log_step_count_steps(None).tf_random_seed(3)
}

/// What the trained model predicts for all rows.
fn predictions(model: &impl phalanx::estimator::IntoModel, model_dir: &Path) -> Vec<f32> {
    let estimator = Estimator::new(model, config(model_dir)).unwrap();
    let predicted = estimator.predict(|_| rows().batch(240)).unwrap().next().unwrap().unwrap();
    predicted.f32("predictions").unwrap().to_vec()
}

/// Trains in this process.
fn alone(model: &impl phalanx::estimator::IntoModel, strategy: impl Into<StrategyChoice>, batch: usize) -> Vec<f32> {
    let (folder, strategy) = (tempfile::tempdir().unwrap(), strategy.into());
    let estimator = Estimator::new(model, config(folder.path()).train_distribute(strategy.clone())).unwrap();
    let trained = estimator.train(|_| rows().repeat().batch(batch), TrainSteps::Max(STEPS)).unwrap();
    assert_eq!((trained.global_step, trained.ended), (STEPS, Ended::StepsReached), "{strategy:?}");
    predictions(model, folder.path())
}

fn far(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Runs every task of a job on a thread of its own and returns their reports.
fn job(
    jobs: &[(&str, usize)],
    config: RunConfig,
    train: impl Fn() -> TrainSpec + Send + Sync + 'static,
) -> Vec<(String, phalanx::Result<Report>)> {
    job_with(jobs, move |task| Ok(config.clone().task(task.clone())), train)
}

fn job_with(
    jobs: &[(&str, usize)],
    configure: impl Fn(&TaskConfig) -> phalanx::Result<RunConfig> + Send + Sync + 'static,
    train: impl Fn() -> TrainSpec + Send + Sync + 'static,
) -> Vec<(String, phalanx::Result<Report>)> {
    let mut cluster = ClusterSpec::new();
    for (job, count) in jobs {
        cluster = cluster.job(*job, (0..*count).map(|_| format!("127.0.0.1:{}", ports::free())).collect::<Vec<_>>());
    }
    let jobs: Vec<(String, usize)> = jobs.iter().map(|(job, count)| ((*job).to_owned(), *count)).collect();
    within(DEADLINE, "the job", move || {
        std::thread::scope(|scope| {
            let mut tasks = Vec::new();
            for (job, index) in jobs.iter().flat_map(|(job, count)| (0..*count).map(move |index| (job, index))) {
                let (cluster, configure, train) = (cluster.clone(), &configure, &train);
                let run = move || {
                    let task = TaskConfig::from_cluster(cluster, TaskId::new(job.parse()?, index as u32))?;
                    train_and_evaluate(&model(), train(), Vec::new(), configure(&task)?)
                };
                tasks.push((format!("{job}/{index}"), scope.spawn(run)));
            }
            tasks.into_iter().map(|(name, task)| (name, task.join().unwrap())).collect()
        })
    })
}

fn all_well(reports: Vec<(String, phalanx::Result<Report>)>) -> Vec<Report> {
    reports.into_iter().map(|(name, report)| report.unwrap_or_else(|error| panic!("{name}: {error}"))).collect()
}

#[test]
fn replicas_of_a_process_make_the_updates_of_one() {
    let expected = alone(&model(), "default", 25);
    for strategy in ["one_device", "mirrored:2", "central_storage:3", "mirrored:40", "multi_worker_mirrored:2"] {
        let found = alone(&model(), strategy, 25);
        assert!(far(&found, &expected) < 1e-5, "{strategy}: {}", far(&found, &expected));
    }
    let untrained = {
        let folder = tempfile::tempdir().unwrap();
        let estimator = Estimator::new(&model(), config(folder.path())).unwrap();
        estimator.train(|_| rows().repeat().batch(25), TrainSteps::Max(1)).unwrap();
        predictions(&model(), folder.path())
    };
    assert!(far(&untrained, &expected) > 0.1, "something was learned");
}

#[test]
fn replicas_make_the_updates_of_one_where_losses_are_summed() {
    let model = model().loss_reduction(phalanx::estimator::Reduction::Sum).dnn_optimizer(Sgd::new(0.001));
    let expected = alone(&model, "default", 24);
    let found = alone(&model, "mirrored:3", 24);
    assert!(far(&found, &expected) < 1e-5, "{}", far(&found, &expected));
}

/// Two trainers with batches of 20 of their own rows make the updates of one with batches of 40.
#[test]
fn mirrored_workers_and_synchronous_trainers_make_the_updates_of_one_process() {
    let expected = alone(&model(), "default", 40);
    let jobs: [(&str, &[(&str, usize)]); 3] = [
        ("multi_worker_mirrored", &[("chief", 1), ("worker", 1)]),
        ("multi_worker_mirrored:2", &[("worker", 2)]),
        ("parameter_server:sync", &[("chief", 1), ("worker", 1), ("ps", 2)]),
    ];
    for (strategy, jobs) in jobs {
        let folder = tempfile::tempdir().unwrap();
        let train = || TrainSpec::new(|_: InputContext| rows().repeat().batch(20)).max_steps(STEPS);
        let reports = all_well(job(jobs, config(folder.path()).train_distribute(strategy), train));
        for training in reports.iter().filter_map(|report| report.training) {
            assert_eq!((training.global_step, training.ended), (STEPS, Ended::StepsReached), "{strategy}");
        }
        let found = predictions(&model(), folder.path());
        assert!(far(&found, &expected) < 1e-5, "{strategy}: {}", far(&found, &expected));
    }
}

#[test]
fn a_strategy_trains_as_its_name_does_and_uses_the_task_that_it_started() {
    let (local, options) = (TaskConfig::local(), ServerOptions::default());
    let expected = alone(&model(), "default", 25);
    for name in ["mirrored:2", "multi_worker_mirrored", "parameter_server:async", "parameter_server:sync"] {
        let found = alone(&model(), Strategy::named_for(name, &local, &options).unwrap(), 25);
        assert!(far(&found, &expected) < 1e-5, "{name}: {}", far(&found, &expected));
    }
    let expected = alone(&model(), "default", 40);
    let jobs: [(&str, &[(&str, usize)]); 2] = [
        ("multi_worker_mirrored", &[("chief", 1), ("worker", 1)]),
        ("parameter_server:sync", &[("chief", 1), ("worker", 1), ("ps", 2)]),
    ];
    for (strategy, jobs) in jobs {
        let folder = tempfile::tempdir().unwrap();
        let (settings, options) = (config(folder.path()), options.clone());
        // The addresses are taken by the strategy's task: an estimator that started another one would fail.
        let configure = move |task: &TaskConfig| {
            let strategy = Strategy::named_for(strategy, task, &options)?;
            Ok(settings.clone().task(task.clone()).train_distribute(strategy))
        };
        let train = || TrainSpec::new(|_: InputContext| rows().repeat().batch(20)).max_steps(STEPS);
        for training in all_well(job_with(jobs, configure, train)).iter().filter_map(|report| report.training) {
            assert_eq!((training.global_step, training.ended), (STEPS, Ended::StepsReached), "{strategy}");
        }
        let found = predictions(&model(), folder.path());
        assert!(far(&found, &expected) < 1e-5, "{strategy}: {}", far(&found, &expected));
    }
}

#[test]
fn a_strategy_of_another_task_is_refused_and_a_job_trains_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let options = ServerOptions::default();
    let strategy = || Strategy::named_for("parameter_server", &TaskConfig::local(), &options).unwrap();
    let cluster = ClusterSpec::new().job("chief", ["127.0.0.1:1"]).job("ps", ["127.0.0.1:2"]);
    let other = TaskConfig::from_cluster(cluster, TaskId::new(Role::Chief, 0)).unwrap();
    let train = |config: RunConfig| {
        let estimator = Estimator::new(&model(), config).unwrap();
        let train = |last| estimator.train(|_| rows().repeat().batch(10), TrainSteps::Max(last)).map(drop);
        [train(1), train(2)]
    };
    for strategy in [strategy(), Strategy::default()] {
        let [error, _] = train(config(folder.path()).task(other.clone()).train_distribute(strategy));
        assert_eq!(error.unwrap_err().code(), Code::ConfigIgnored);
    }
    let [first, second] = train(config(folder.path()).train_distribute(strategy()));
    first.unwrap();
    assert_eq!(second.unwrap_err().what(), "a job with parameter servers trains one model");
}

/// A cluster of workers only is mirrored without a word about it; a second run continues with values and slots.
#[test]
fn mirrored_workers_continue_from_the_chiefs_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let run = |steps| {
        let train = move || TrainSpec::new(|_: InputContext| rows().batch(20).repeat()).max_steps(steps);
        all_well(job(&[("chief", 1), ("worker", 2)], config(folder.path()), train))
    };
    run(10);
    let again = run(25);
    assert!(again.iter().all(|report| report.training.unwrap().steps == 15), "{again:?}");
    let one = tempfile::tempdir().unwrap();
    let estimator = Estimator::new(&model(), config(one.path())).unwrap();
    for steps in [10, 25] {
        estimator.train(|_| rows().batch(60).repeat(), TrainSteps::Max(steps)).unwrap();
    }
    let (found, expected) = (predictions(&model(), folder.path()), predictions(&model(), one.path()));
    assert!(far(&found, &expected) < 1e-5, "{}", far(&found, &expected));
}

#[test]
fn workers_whose_input_ends_earlier_take_part_until_all_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let train = || {
        TrainSpec::new(|cx: InputContext| {
            let rows = rows().shard(cx);
            if cx.input_pipeline_id == 0 { rows.take(20).batch(10) } else { rows.take(70).batch(10) }
        })
    };
    let reports = all_well(job(&[("chief", 1), ("worker", 1)], config(folder.path()), train));
    for training in reports.iter().map(|report| report.training.unwrap()) {
        assert_eq!((training.global_step, training.ended), (7, Ended::InputEnded));
    }
}

struct StopAt(u64);

impl Hook for StopAt {
    fn after_step(&mut self, step: &Step) -> phalanx::Result<Control> {
        Ok(if step.global_step >= self.0 { Control::Stop } else { Control::Continue })
    }
}

/// Workers that step together stop together, whichever of them wants to.
#[test]
fn a_hook_of_one_worker_stops_all_at_the_same_step() {
    let folder = tempfile::tempdir().unwrap();
    let stops_at = std::sync::atomic::AtomicU64::new(7);
    let train = move || {
        // Each task has another limit.
        let stop = StopAt(stops_at.fetch_add(5, std::sync::atomic::Ordering::Relaxed));
        TrainSpec::new(|_: InputContext| rows().repeat().batch(10)).max_steps(50).hook(stop)
    };
    let reports = all_well(job(&[("chief", 1), ("worker", 2)], config(folder.path()), train));
    let trained: Vec<_> = reports.iter().map(|report| report.training.unwrap()).collect();
    assert!(trained.iter().all(|training| training.global_step == 7), "{trained:?}");
    assert_eq!(trained.iter().filter(|training| training.ended == Ended::Stopped).count(), 1, "{trained:?}");
}

#[test]
fn a_worker_that_fails_ends_the_job_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let train =
        || {
            TrainSpec::new(|cx: InputContext| {
                let rows = rows().shard(cx).repeat().batch(10);
                let worker = cx.input_pipeline_id == 1;
                rows.map_batches(phalanx::data::Parallel::default(), move |batch| {
                    if worker { batch.without("word") } else { Ok(batch) }
                })
            })
            .max_steps(50)
        };
    let reports = job(&[("chief", 1), ("worker", 1)], config(folder.path()), train);
    let error = |name: &str| {
        let of = reports.iter().find(|(known, _)| known == name).unwrap();
        of.1.as_ref().expect_err("the job failed").clone()
    };
    assert!(error("worker/0").to_string().contains("word"), "{}", error("worker/0"));
    assert_eq!(error("chief/0").code(), Code::JobFailed, "{}", error("chief/0"));
}

/// A trainer that has no input left does not hold the others up, whatever the bound is.
#[test]
fn trainers_with_bounded_staleness_learn_and_wait_for_nobody_who_has_left() {
    for strategy in ["parameter_server:ssp:0", "parameter_server:ssp:2", "parameter_server:sync:1"] {
        let folder = tempfile::tempdir().unwrap();
        let train = || {
            TrainSpec::new(|cx: InputContext| {
                let rows = rows().shard(cx);
                if cx.input_pipeline_id == 1 { rows.take(40).batch(10) } else { rows.repeat().batch(10) }
            })
            .max_steps(300)
        };
        let jobs = [("chief", 1), ("worker", 2), ("ps", 2)];
        let reports = all_well(job(&jobs, config(folder.path()).train_distribute(strategy), train));
        let chief = reports[0].training.unwrap();
        assert!((300..303).contains(&chief.global_step), "{strategy}: {chief:?}");
        let estimator = Estimator::new(&model(), config(folder.path())).unwrap();
        let found = estimator.evaluate(|_| rows().batch(240), None).unwrap();
        assert!(found.get("average_loss").unwrap() < 0.02, "{strategy}: {found}");
    }
}

#[test]
fn replicas_evaluate_as_one_process_does() {
    let folder = tempfile::tempdir().unwrap();
    let estimator = |config| Estimator::new(&model(), config).unwrap();
    estimator(config(folder.path())).train(|_| rows().repeat().batch(24), TrainSteps::Max(5)).unwrap();
    let evaluate = |config| estimator(config).evaluate(|_| rows().batch(50), None).unwrap();
    let expected = evaluate(config(folder.path()));
    let found = evaluate(config(folder.path()).eval_distribute("mirrored:3"));
    for (name, value) in &expected.metrics {
        assert!((found.get(name).unwrap() - value).abs() < 1e-6, "{name}: {found} and {expected}");
    }
    let error = estimator(config(folder.path()).eval_distribute("parameter_server:async"));
    assert_eq!(error.evaluate(|_| rows().batch(50), None).unwrap_err().code(), Code::BadSetting);
}

#[test]
fn a_strategy_that_does_not_fit_the_cluster_is_refused_by_every_task() {
    let folder = tempfile::tempdir().unwrap();
    let train = || TrainSpec::new(|_: InputContext| rows().repeat().batch(10)).max_steps(5);
    for strategy in ["mirrored:2", "multi_worker_mirrored"] {
        let config = config(folder.path()).train_distribute(strategy);
        for (name, report) in job(&[("chief", 1), ("ps", 1)], config, train) {
            assert_eq!(report.expect_err("refused").code(), Code::ConfigIgnored, "{strategy}, {name}");
        }
    }
}

/// The chief waits in its input until the worker has read most of what there is: the worker takes the blocks that the chief
/// does not come to, and every row is read once in every epoch.
#[test]
fn a_free_trainer_takes_the_blocks_that_a_slow_one_does_not_come_to() {
    const ROWS: usize = 3000;
    const EPOCHS: usize = 3;
    let seen = Arc::new((Mutex::new([vec![0; ROWS], vec![0; ROWS]]), Condvar::new()));
    let input = {
        let seen = Arc::clone(&seen);
        move |cx: InputContext| {
            let (seen, trainer) = (Arc::clone(&seen), cx.input_pipeline_id);
            let columns = [
                ("id", Column::i64((0..ROWS as i64).collect())),
                ("word", Column::text(std::iter::repeat_n("a", ROWS))),
                ("x", Column::f32(vec![0.5; ROWS])),
                ("weight", Column::f32(vec![1.0; ROWS])),
                ("y", Column::f32(vec![1.0; ROWS])),
            ];
            let rows = Batch::new(columns).and_then(|rows| rows.with_label("y")).unwrap();
            let blocks = Options { auto_shard_policy: Some(AutoShardPolicy::Blocks), ..Options::default() };
            let data = Dataset::from_tensor_slices(rows).with_options(blocks).repeat_times(EPOCHS as u64).batch(50);
            data.map(move |batch| {
                let (counts, changed) = &*seen;
                let mut counts = counts.lock().unwrap();
                batch.i64("id")?.iter().for_each(|&id| counts[trainer][id as usize] += 1);
                changed.notify_all();
                let waits = |counts: &mut [Vec<usize>; 2]| trainer == 0 && counts[1].iter().sum::<usize>() < ROWS * 2;
                drop(changed.wait_timeout_while(counts, DEADLINE, waits).unwrap());
                Ok(batch)
            })
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let jobs = [("chief", 1), ("worker", 1), ("ps", 2)];
    all_well(job(&jobs, config(folder.path()), move || TrainSpec::new(input.clone())));
    let [chief, worker] = std::mem::take(&mut *seen.0.lock().unwrap());
    let together: Vec<usize> = chief.iter().zip(&worker).map(|(chief, worker)| chief + worker).collect();
    assert_eq!(together, vec![EPOCHS; ROWS]);
    assert!(worker.iter().sum::<usize>() >= ROWS * 2, "half of all rows are {}", ROWS * EPOCHS / 2);
}

#[test]
fn mirrored_workers_do_not_share_by_blocks() {
    let blocks = Options { auto_shard_policy: Some(AutoShardPolicy::Blocks), ..Options::default() };
    let train =
        move || TrainSpec::new(move |_: InputContext| rows().with_options(blocks).repeat().batch(20)).max_steps(5);
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path()).train_distribute("multi_worker_mirrored");
    for (name, report) in job(&[("chief", 1), ("worker", 1)], config, train) {
        let error = report.expect_err(&name);
        assert!(error.report().contains("cannot share the input by blocks"), "{name}: {}", error.report());
    }
}

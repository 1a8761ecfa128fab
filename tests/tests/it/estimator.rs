//! `train_and_evaluate` in every role of a job, each task with its own sockets; and what ends it.

use phalanx::data::{Batch, Column, DType, Dataset, InputContext, SourceExt, csv};
use phalanx::estimator::{Control, Ended, Exporter, Hook, Report};
use phalanx::prelude::*;
use phalanx_tests::{ports, within};
use phalanx_train::Step as TrainStep;
use phalanx_train::testing::LogRecorder;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(120);

/// Words that say what the number is, beside one that says half of it. All words are in the share of each of two or three
/// trainers: one of them may make nearly all steps.
fn rows() -> Dataset {
    let words = ["a", "b", "c", "d"];
    let word = |i: usize| i / 2 % 4;
    let number = |i: usize| (i % 7) as f32 / 7.0;
    let y = (0..400).map(|i| number(i) + word(i) as f32).collect();
    let columns = [
        ("word", Column::text((0..400).map(|i| words[word(i)]))),
        ("x", Column::f32((0..400).map(number).collect())),
        ("y", Column::f32(y)),
    ];
    Dataset::from_tensor_slices(Batch::new(columns).unwrap().with_label("y").unwrap())
}

fn model() -> LinearRegressor {
    let word = categorical_column_with_vocabulary_list("word", ["a", "b", "c", "d"]);
    LinearRegressor::new([word, numeric_column("x")])
}

fn endless(_: InputContext) -> Dataset {
    rows().shuffle(400).repeat().batch(20)
}

fn quick() -> EvalSpec {
    EvalSpec::new(|_| rows().batch(100)).steps(None).start_delay_secs(0).throttle_secs(0)
}

fn config(model_dir: &std::path::Path) -> RunConfig {
    RunConfig::new().model_dir(model_dir.to_string_lossy()).log_step_count_steps(None)
}

/// Runs every task of a job, each on a thread of its own; answers what each reports, by its name.
fn job(
    jobs: &[(&str, usize)],
    model_dir: &std::path::Path,
    train: impl Fn() -> TrainSpec + Send + Sync + 'static,
) -> Vec<(String, phalanx::Result<Report>)> {
    job_with(jobs, config(model_dir), train)
}

/// The same, run in another way.
fn job_with(
    jobs: &[(&str, usize)],
    config: RunConfig,
    train: impl Fn() -> TrainSpec + Send + Sync + 'static,
) -> Vec<(String, phalanx::Result<Report>)> {
    let mut cluster = ClusterSpec::new();
    for (job, count) in jobs.iter().filter(|(job, _)| *job != "evaluator") {
        cluster = cluster.job(*job, (0..*count).map(|_| format!("127.0.0.1:{}", ports::free())).collect::<Vec<_>>());
    }
    let jobs: Vec<(String, usize)> = jobs.iter().map(|(job, count)| ((*job).to_owned(), *count)).collect();
    within(DEADLINE, "the job", move || {
        std::thread::scope(|scope| {
            let mut tasks = Vec::new();
            for (job, count) in &jobs {
                for index in 0..*count {
                    let (cluster, config, train) = (cluster.clone(), config.clone(), &train);
                    let run = move || {
                        let role = if job == "master" { Role::Chief } else { job.parse()? };
                        let task = TaskConfig::from_cluster(cluster, TaskId::new(role, index as u32))?;
                        train_and_evaluate(&model(), train(), quick(), config.task(task))
                    };
                    tasks.push((format!("{job}/{index}"), scope.spawn(run)));
                }
            }
            tasks.into_iter().map(|(name, task)| (name, task.join().unwrap())).collect()
        })
    })
}

fn all_well(reports: Vec<(String, phalanx::Result<Report>)>) -> Vec<(String, Report)> {
    reports.into_iter().map(|(name, report)| (name.clone(), report.unwrap_or_else(|e| panic!("{name}: {e}")))).collect()
}

fn of<'a>(reports: &'a [(String, Report)], name: &str) -> &'a Report {
    &reports.iter().find(|(known, _)| known == name).unwrap().1
}

#[test]
fn every_role_ends_by_itself_when_the_steps_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [("chief", 1), ("worker", 2), ("ps", 2), ("evaluator", 1)];
    let reports = all_well(job(&jobs, folder.path(), || TrainSpec::new(endless).max_steps(900)));
    let chief = of(&reports, "chief/0").training.unwrap();
    assert!((900..903).contains(&chief.global_step), "{chief:?}");
    assert_eq!(chief.ended, Ended::StepsReached);
    let steps: u64 = reports.iter().filter_map(|(_, report)| report.training.map(|training| training.steps)).sum();
    assert!((900..906).contains(&steps), "{steps}");
    let evaluation = of(&reports, "evaluator/0").evaluation.clone().unwrap();
    assert!(evaluation.global_step >= 900);
    assert!(evaluation.get("average_loss").unwrap() < 0.05, "{evaluation}");
    assert!(of(&reports, "chief/0").evaluation.is_none());
}

#[test]
fn every_role_ends_when_the_input_does_and_each_row_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [("chief", 1), ("worker", 1), ("ps", 1), ("evaluator", 1)];
    let reports = all_well(job(&jobs, folder.path(), || TrainSpec::new(|_| rows().batch(10))));
    // 400 rows in batches of 10, over two trainers.
    assert_eq!(of(&reports, "chief/0").training.unwrap().global_step, 40);
    assert_eq!(of(&reports, "evaluator/0").evaluation.as_ref().unwrap().global_step, 40);
}

#[test]
fn a_job_whose_steps_overlap_makes_the_same_steps_and_learns() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [("chief", 1), ("worker", 1), ("ps", 2), ("evaluator", 1)];
    let config = config(folder.path()).overlap(true);
    let reports = all_well(job_with(&jobs, config.clone(), || TrainSpec::new(|_| rows().repeat_times(20).batch(20))));
    assert_eq!(of(&reports, "chief/0").training.unwrap().global_step, 400);
    let reports = all_well(job_with(&jobs, config, || TrainSpec::new(endless).max_steps(900)));
    let chief = of(&reports, "chief/0").training.unwrap();
    // The other one may have a step under way and one to be sent.
    assert!((900..903).contains(&chief.global_step), "{chief:?}");
    let evaluation = of(&reports, "evaluator/0").evaluation.clone().unwrap();
    assert!(evaluation.get("average_loss").unwrap() < 0.05, "{evaluation}");
}

#[test]
fn checkpoints_are_evaluated_on_every_named_input() {
    let folder = tempfile::tempdir().unwrap();
    let half = || EvalSpec::new(|_| rows().take(200).batch(100)).name("half").steps(None);
    let spec = || TrainSpec::new(endless).max_steps(50);
    let report = train_and_evaluate(&model(), spec(), [quick(), half()], config(folder.path())).unwrap();
    let (main, [(name, named)]) = (report.evaluation.unwrap(), &report.named_evaluations[..]) else { panic!() };
    assert_eq!((main.global_step, main.rows, name.as_str(), named.rows), (50, 400, "half", 200));
    for (eval, loss) in [("eval", main.get("loss")), ("eval_half", named.get("loss"))] {
        let files = std::fs::read_dir(folder.path().join(eval)).unwrap().count();
        assert!(files == 1 && loss.is_some(), "{eval}");
    }
    let error = train_and_evaluate(&model(), spec(), [half(), half()], config(folder.path())).unwrap_err();
    assert_eq!(error.code(), Code::BadSetting);
    let none = train_and_evaluate(&model(), TrainSpec::new(endless).max_steps(60), Vec::new(), config(folder.path()));
    assert_eq!(none.unwrap().evaluation, None);
}

struct StopAt(u64);

impl Hook for StopAt {
    fn after_step(&mut self, step: &TrainStep) -> phalanx::Result<Control> {
        Ok(if step.global_step >= self.0 { Control::Stop } else { Control::Continue })
    }
}

#[test]
fn a_hook_that_stops_the_chief_ends_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [("chief", 1), ("worker", 1), ("ps", 1), ("evaluator", 1)];
    let train = || TrainSpec::new(endless).max_steps(1_000_000).hook(StopAt(50));
    let reports = all_well(job(&jobs, folder.path(), train));
    assert_eq!(of(&reports, "chief/0").training.unwrap().ended, Ended::Stopped);
    assert!(of(&reports, "evaluator/0").evaluation.as_ref().unwrap().global_step >= 50);
}

#[test]
fn a_training_that_fails_ends_every_role_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [("chief", 1), ("worker", 1), ("ps", 1), ("evaluator", 1)];
    let wrong = |_: InputContext| {
        rows().batch(10).map(|batch| {
            let far = vec![f32::NAN; batch.rows()];
            batch.with_column("y", Column::f32(far))
        })
    };
    let reports = job(&jobs, folder.path(), move || TrainSpec::new(wrong).max_steps(100));
    for (name, report) in &reports {
        assert!(report.is_err(), "{name} ended well");
    }
    let evaluator = reports.iter().find(|(name, _)| name == "evaluator/0").unwrap().1.as_ref().unwrap_err();
    assert!(evaluator.report().contains("not finite"), "{}", evaluator.report());
}

#[test]
fn a_master_evaluates_what_it_trains() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = [("master", 1), ("worker", 1), ("ps", 1)];
    let reports = all_well(job(&jobs, folder.path(), || TrainSpec::new(endless).max_steps(200)));
    let evaluation = of(&reports, "master/0").evaluation.as_ref().unwrap();
    assert!(evaluation.global_step >= 200);
    assert!(of(&reports, "worker/0").evaluation.is_none());
}

#[test]
fn alone_it_evaluates_after_each_save_and_at_the_end_as_tensorflow_does() {
    let folder = tempfile::tempdir().unwrap();
    let log = LogRecorder::default();
    let config = || config(folder.path()).save_checkpoints_steps(10).keep_checkpoint_max(0);
    let train = |steps| {
        let spec = TrainSpec::new(endless).max_steps(steps);
        log.record(|| train_and_evaluate(&model(), spec, quick(), config())).unwrap()
    };
    let done = train(25);
    assert_eq!(done.training.unwrap().global_step, 25);
    let events = log.events();
    let evaluated = events.iter().filter(|event| event.line.starts_with("evaluated step "));
    assert_eq!(evaluated.map(|event| event.field("step").unwrap()).collect::<Vec<_>>(), ["10", "20", "25"]);
    for step in [0, 10, 20, 25] {
        assert!(folder.path().join(format!("model.ckpt-{step}.index")).exists(), "{step}");
    }
    // Again: it logs that there is nothing to do.
    let again = train(25);
    assert_eq!(again.training.unwrap().ended, Ended::AlreadyTrained);
    assert!(again.evaluation.is_none());
    assert!(log.contains("has 25 steps already"));
    // And with more steps it goes on.
    let more = train(40);
    assert_eq!((more.training.unwrap().global_step, more.training.unwrap().steps), (40, 15));
}

fn exports(folder: &std::path::Path, name: &str) -> usize {
    std::fs::read_dir(folder.join("export").join(name)).map_or(0, Iterator::count)
}

#[test]
fn exporters_export_the_last_the_latest_and_the_best_and_remember_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = || config(folder.path()).save_checkpoints_steps(20);
    let eval = || {
        quick()
            .exporter(Exporter::at_end("final"))
            .exporter(Exporter::latest("latest").exports_to_keep(2))
            .exporter(Exporter::best("best").by_lowest("average_loss"))
    };
    let run = |steps| train_and_evaluate(&model(), TrainSpec::new(endless).max_steps(steps), eval(), config()).unwrap();
    run(60);
    assert_eq!((exports(folder.path(), "final"), exports(folder.path(), "latest")), (1, 2));
    let best = exports(folder.path(), "best");
    assert!(best >= 1);
    // Nothing is learned from labels that say the opposite: no evaluation is better, and after a restart that is known.
    let wrong = |_: InputContext| {
        rows().repeat().batch(20).map(|batch| {
            let far = vec![-100.0; batch.rows()];
            batch.with_column("y", Column::f32(far))
        })
    };
    train_and_evaluate(&model(), TrainSpec::new(wrong).max_steps(100), eval(), config()).unwrap();
    assert_eq!(exports(folder.path(), "best"), best);
    assert_eq!(exports(folder.path(), "final"), 2);
}

#[test]
fn two_exporters_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let eval = quick().exporter(Exporter::latest("a")).exporter(Exporter::best("a"));
    let error = train_and_evaluate(&model(), TrainSpec::new(endless).max_steps(2), eval, config(folder.path()));
    assert_eq!(error.unwrap_err().code(), Code::BadSetting);
}

#[test]
fn a_wrong_label_of_a_file_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, wrong: usize| {
        let path = folder.path().join(name);
        let line = |i: usize| format!("{i},{}\n", if i == wrong { 7 } else { i % 2 });
        let text: String = std::iter::once("x,y\n".to_owned()).chain((0..2000).map(line)).collect();
        std::fs::write(&path, text).unwrap();
        move |_: InputContext| {
            csv(&path).column("x", DType::F32).label("y").shuffle_seeded(2000, 1).repeat_times(1).batch(500)
        }
    };
    let columns = [numeric_column("x").scale(0.0, 2000.0)];
    let estimator = Estimator::new(&LinearClassifier::new(columns), config(&folder.path().join("run"))).unwrap();
    let error = estimator.train(file("train.csv", 1500), TrainSteps::More(4)).unwrap_err();
    assert!(error.place().unwrap().ends_with("train.csv, line 1502"), "{error:?}");
    estimator.train(file("good.csv", usize::MAX), TrainSteps::More(1)).unwrap();
    let error = estimator.evaluate(file("eval.csv", 40), None).unwrap_err();
    assert!(error.place().unwrap().ends_with("eval.csv, line 42"), "{error:?}");
    // A label that a stage of the pipeline has made is not in the file.
    let made = file("more.csv", usize::MAX);
    let doubled = |batch: Batch| {
        let doubled = batch.i64("y")?.iter().map(|label| 2 * label).collect();
        batch.with_column("y", Column::i64(doubled))
    };
    let error = estimator.evaluate(|cx| made(cx).map(doubled), None).unwrap_err();
    assert!(error.place().unwrap().contains("of the batch"), "{error:?}");
}

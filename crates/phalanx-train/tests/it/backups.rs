//! A `fit` that was stopped and restarted gives the same result as an uninterrupted one, bit for bit.

use crate::support::{until, workers};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, Dataset};
use phalanx_nn::model::{BatchNormalization, Dense, Dropout, Function, Model, Sequential};
use phalanx_optim::Adam;
use phalanx_train::fit::callbacks::{BackupAndRestore, Callback, FitContext, Lambda};
use phalanx_train::fit::{Compile, Compiled, Data, Fit, History, Logs, Verbose, Weight};
use phalanx_train::{Interrupt, Strategy};
use std::path::Path;

const ROWS: usize = 37;
const EPOCHS: usize = 3;

/// The training data of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FitInput {
    /// Arrays that are shuffled for every epoch; the last batch has 5 rows.
    Arrays,
    /// Arrays with epochs shorter than a pass.
    ShortEpochs,
    /// A dataset without an end.
    Repeating,
    /// A dataset of one pass per epoch.
    Dataset,
}

impl FitInput {
    const ALL: [Self; 4] = [Self::Arrays, Self::ShortEpochs, Self::Repeating, Self::Dataset];

    fn steps_per_epoch(self) -> u64 {
        if matches!(self, Self::ShortEpochs | Self::Repeating) { 3 } else { 5 }
    }

    fn steps(self) -> u64 {
        self.steps_per_epoch() * EPOCHS as u64
    }

    fn data(self) -> Data {
        let dataset = || Dataset::from_tensor_slices(rows(ROWS, 0)).shuffle_seeded(16, 3);
        match self {
            Self::Arrays | Self::ShortEpochs => rows(ROWS, 0).into(),
            Self::Repeating => dataset().repeat().batch(8).prefetch(2).into(),
            Self::Dataset => dataset().batch(8).into(),
        }
    }

    fn fit(self) -> Fit {
        let fit =
            Fit::epochs(EPOCHS).verbose(Verbose::Silent).validation(Dataset::from_tensor_slices(rows(9, 5)).batch(4));
        match self {
            Self::Arrays => Fit::epochs(EPOCHS).verbose(Verbose::Silent).batch_size(8).seed(7).validation(rows(9, 5)),
            Self::ShortEpochs => Fit::epochs(EPOCHS)
                .verbose(Verbose::Silent)
                .batch_size(8)
                .seed(7)
                .steps_per_epoch(3)
                .validation(rows(9, 5)),
            Self::Repeating => fit.steps_per_epoch(3),
            Self::Dataset => fit,
        }
    }
}

fn rows(count: usize, seed: usize) -> Batch {
    let noise = |i: usize| (((i + 1000 * seed) as f32 * 12.9898).sin() * 43_758.547).fract();
    let x: Vec<f32> = (0..count * 3).map(noise).collect();
    let y: Vec<f32> = x.chunks_exact(3).map(|x| x[0] - 2.0 * x[1] * x[2]).collect();
    let x = Column::f32(x).with_row_shape([3]).unwrap();
    Batch::new([("x", x), ("y", Column::f32(y))]).unwrap().with_label("y").unwrap()
}

/// A model with everything that a backup must contain: slots, moving averages, random seeds.
fn model() -> Result<Model> {
    Sequential::new()
        .add(Dense::new(6).activation(Function::Tanh))
        .add(BatchNormalization::new())
        .add(Dropout::new(0.3))
        .add(Dense::new(1))
        .seed(2)
        .build([3])
}

fn compiled(strategy: &Strategy) -> Result<Compiled<Model>> {
    strategy.scope(model)?.compile(Adam::new(0.01), "mse", ["mae"])
}

/// The result of a `fit`.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    history: History,
    weights: Vec<Weight>,
    iterations: u64,
}

fn run(strategy: &Strategy, input: FitInput, more: impl FnOnce(Fit) -> Fit) -> Result<Outcome> {
    let mut model = compiled(strategy)?;
    let history = model.fit(input.data(), more(input.fit()))?;
    Ok(Outcome { history, weights: model.weights()?, iterations: model.iterations() })
}

fn alone(input: FitInput, more: impl FnOnce(Fit) -> Fit) -> Result<Outcome> {
    run(&Strategy::default(), input, more)
}

fn backup(dir: &Path, every: Option<u64>) -> BackupAndRestore {
    let backup = BackupAndRestore::new(dir.to_str().unwrap());
    if let Some(every) = every { backup.save_freq(every) } else { backup }
}

fn stopped() -> Error {
    Error::new(Code::JobFailed, "stopped by the test")
}

/// Fails after `steps` steps of this process.
fn stop_after(steps: u64) -> Lambda {
    let mut done = 0;
    Lambda::new().on_batch_end(move |_, _, _| {
        done += 1;
        if done == steps { Err(stopped()) } else { Ok(()) }
    })
}

/// Checks that weights and counters are those of an uninterrupted run, the history is its end, and the backup is deleted.
fn assert_went_on(outcome: &Outcome, whole: &Outcome, dir: &Path, what: &str) {
    assert_eq!(outcome.weights, whole.weights, "{what}");
    assert_eq!(outcome.iterations, whole.iterations, "{what}");
    let epochs = outcome.history.epochs();
    let first = whole.history.epochs().len() - epochs.len();
    assert_eq!(epochs, &whole.history.epochs()[first..], "{what}");
    assert_eq!(outcome.history.logs(), &whole.history.logs()[first..], "{what}");
    let left: Vec<_> = std::fs::read_dir(dir.join("chief")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{what}: {left:?}");
}

#[test]
fn a_fit_that_fails_after_any_step_goes_on_as_if_nothing_had_happened() {
    for input in FitInput::ALL {
        let whole = alone(input, |fit| fit).unwrap();
        assert_eq!(whole.iterations, input.steps());
        for every in [None, Some(1), Some(4)] {
            for stop in 1..=input.steps() {
                let (dir, what) = (tempfile::tempdir().unwrap(), format!("{input:?}, {every:?}, {stop}"));
                let failed = alone(input, |fit| fit.callback(backup(dir.path(), every)).callback(stop_after(stop)));
                assert_eq!(failed.unwrap_err().what(), "stopped by the test", "{what}");
                let outcome = alone(input, |fit| fit.callback(backup(dir.path(), every))).unwrap();
                // Saved steps are not repeated; the end of the epoch in which it stopped was not saved.
                let steps = every.map_or(0, |every| stop / every * every);
                let first =
                    ((stop - 1) / input.steps_per_epoch()).max(steps.saturating_sub(1) / input.steps_per_epoch());
                assert_eq!(outcome.history.epochs()[0] as u64, first, "{what}");
                assert_went_on(&outcome, &whole, dir.path(), &what);
            }
        }
    }
}

#[test]
fn a_fit_that_fails_again_and_again_comes_to_the_same() {
    let input = FitInput::Arrays;
    let whole = alone(input, |fit| fit).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut starts = 0;
    let outcome = loop {
        starts += 1;
        match alone(input, |fit| fit.callback(backup(dir.path(), Some(1))).callback(stop_after(2))) {
            Ok(outcome) => break outcome,
            Err(error) => assert_eq!(error.what(), "stopped by the test"),
        }
    };
    // Every start does two steps; the eighth has one left.
    assert_eq!(starts, 8);
    assert_went_on(&outcome, &whole, dir.path(), "again and again");
}

/// Fails at the beginning or at the end of an epoch.
struct FailAt {
    epoch: usize,
    end: bool,
}

impl Callback for FailAt {
    fn on_epoch_begin(&mut self, _: &mut FitContext<'_>, epoch: usize) -> Result<()> {
        if !self.end && epoch == self.epoch { Err(stopped()) } else { Ok(()) }
    }

    fn on_epoch_end(&mut self, _: &mut FitContext<'_>, epoch: usize, _: &mut Logs) -> Result<()> {
        if self.end && epoch == self.epoch { Err(stopped()) } else { Ok(()) }
    }
}

#[test]
fn a_fit_that_fails_between_epochs_goes_on() {
    for input in FitInput::ALL {
        let whole = alone(input, |fit| fit).unwrap();
        for (epoch, end, before) in
            (0..EPOCHS).flat_map(|epoch| [(epoch, false, false), (epoch, true, false), (epoch, true, true)])
        {
            let (dir, fail) = (tempfile::tempdir().unwrap(), FailAt { epoch, end });
            let what = format!("{input:?}, {epoch}, {end}, {before}");
            let failed = alone(input, |fit| match before {
                // The epoch is then not in the backup.
                true => fit.callback(fail).callback(backup(dir.path(), None)),
                false => fit.callback(backup(dir.path(), None)).callback(fail),
            });
            assert!(failed.is_err(), "{what}");
            let outcome = alone(input, |fit| fit.callback(backup(dir.path(), None))).unwrap();
            let done = if end && !before { epoch + 1 } else { epoch };
            assert_eq!(outcome.history.epochs(), (done..EPOCHS).collect::<Vec<_>>(), "{what}");
            assert_went_on(&outcome, &whole, dir.path(), &what);
        }
    }
}

#[test]
fn a_backup_that_is_kept_makes_the_next_fit_go_on_with_more_epochs() {
    let dir = tempfile::tempdir().unwrap();
    alone(FitInput::Arrays, |fit| fit.callback(backup(dir.path(), None).keep())).unwrap();
    let mut model = compiled(&Strategy::default()).unwrap();
    let more = Fit::epochs(5).verbose(Verbose::Silent).batch_size(8).seed(7).callback(backup(dir.path(), None));
    assert_eq!(model.fit(FitInput::Arrays.data(), more).unwrap().epochs(), [3, 4]);
    assert_eq!(model.iterations(), 25);
    let dir = tempfile::tempdir().unwrap();
    alone(FitInput::ShortEpochs, |fit| fit.callback(backup(dir.path(), None).keep())).unwrap();
    let mut model = compiled(&Strategy::default()).unwrap();
    let more = Fit::epochs(5).verbose(Verbose::Silent).batch_size(8).seed(7).steps_per_epoch(3);
    assert_eq!(model.fit(rows(ROWS, 0), more.callback(backup(dir.path(), None))).unwrap().epochs(), [3, 4]);
    assert_eq!(model.iterations(), 15);
}

#[test]
fn a_backup_of_other_data_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let failed = alone(FitInput::Dataset, |fit| fit.callback(backup(dir.path(), Some(2))).callback(stop_after(7)));
    assert!(failed.is_err());
    let error = alone(FitInput::Repeating, |fit| fit.callback(backup(dir.path(), Some(2)))).unwrap_err();
    assert_eq!(error.code(), Code::CheckpointMismatch, "{}", error.report());
    assert!(error.what().contains("belongs to another input pipeline"), "{}", error.report());
}

#[test]
fn replicas_of_one_process_go_on_too() {
    let strategy = Strategy::mirrored(["cpu:0", "cpu:1"]).unwrap();
    for input in [FitInput::Arrays, FitInput::Repeating] {
        let whole = run(&strategy, input, |fit| fit).unwrap();
        for stop in 1..=input.steps() {
            let (dir, what) = (tempfile::tempdir().unwrap(), format!("mirrored, {input:?}, {stop}"));
            let with = |fit: Fit| fit.callback(backup(dir.path(), Some(2)));
            assert!(run(&strategy, input, |fit| with(fit).callback(stop_after(stop))).is_err(), "{what}");
            assert_went_on(&run(&strategy, input, with).unwrap(), &whole, dir.path(), &what);
        }
    }
}

#[test]
fn a_backup_of_other_metrics_or_another_model_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let failed = alone(FitInput::Arrays, |fit| fit.callback(backup(dir.path(), Some(2))).callback(stop_after(3)));
    assert!(failed.is_err());
    let resume = |mut model: Compiled<Model>| {
        model.fit(FitInput::Arrays.data(), FitInput::Arrays.fit().callback(backup(dir.path(), None))).unwrap_err()
    };
    let error = resume(model().unwrap().compile(Adam::new(0.01), "mse", ["mae", "AUC"]).unwrap());
    assert_eq!(error.code(), Code::CheckpointMismatch, "{}", error.report());
    let other = Sequential::new().add(Dense::new(1)).build([3]).unwrap();
    let error = resume(other.compile(Adam::new(0.01), "mse", ["mae"]).unwrap());
    assert_eq!(error.code(), Code::ShapeMismatch, "{}", error.report());
    assert!(error.report().contains("dense/kernel"), "{}", error.report());
}

#[test]
fn two_workers_that_fail_together_go_on_together() {
    let input = FitInput::Dataset;
    let both = |dir: &Path, stop: Option<u64>| {
        workers(2, |strategy| {
            run(&strategy, input, |fit| {
                let fit = fit.callback(backup(dir, Some(2)));
                if let Some(stop) = stop { fit.callback(stop_after(stop)) } else { fit }
            })
        })
    };
    let nowhere = tempfile::tempdir().unwrap();
    let whole: Vec<Outcome> = both(nowhere.path(), None).into_iter().map(Result::unwrap).collect();
    assert_eq!(whole[0].weights, whole[1].weights);
    assert_eq!(whole[0].history, whole[1].history);
    for stop in [1, 2, 3, 5, 9, 10, 14] {
        let dir = tempfile::tempdir().unwrap();
        assert!(both(dir.path(), Some(stop)).iter().all(Result::is_err), "{stop}");
        for outcome in both(dir.path(), None) {
            assert_went_on(&outcome.unwrap(), &whole[0], dir.path(), &format!("two workers, {stop}"));
        }
    }
}

const CHILD: &str = "PHALANX_TEST_INTERRUPTED_CHILD";

/// The interrupted process: after `step` steps it sends itself SIGTERM and waits until that has arrived.
fn interrupted_child(input: FitInput, step: u64, dir: &Path) {
    let interrupt = Interrupt::listen().unwrap();
    let (heard, mut done) = (interrupt.clone(), 0);
    let ask = Lambda::new().on_batch_end(move |_, _, _| {
        done += 1;
        if done == step {
            let own = std::process::id().to_string();
            assert!(std::process::Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
            until("the signal has arrived", || heard.error().is_some());
        }
        Ok(())
    });
    let done = alone(input, |fit| fit.callback(backup(dir, None)).callback(ask).interrupt(interrupt));
    // An interruption in the last step leaves nothing to do.
    match done {
        Ok(_) => assert_eq!(step, input.steps()),
        Err(error) => assert_eq!((error.code(), error.what()), (Code::Terminated, "stopped by SIGTERM")),
    }
}

#[test]
fn a_fit_that_is_asked_to_stop_saves_the_step_and_goes_on() {
    if let Ok(case) = std::env::var(CHILD) {
        let [input, step, dir] = case.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{case}") };
        return interrupted_child(
            FitInput::ALL[input.parse::<usize>().unwrap()],
            step.parse().unwrap(),
            Path::new(dir),
        );
    }
    for (number, input) in FitInput::ALL.into_iter().enumerate() {
        let whole = alone(input, |fit| fit).unwrap();
        for step in 1..=input.steps() {
            let dir = tempfile::tempdir().unwrap();
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "backups::a_fit_that_is_asked_to_stop_saves_the_step_and_goes_on"])
                .env(CHILD, format!("{number} {step} {}", dir.path().display()))
                .output()
                .unwrap();
            let what = format!("{input:?}, {step}: {}", String::from_utf8_lossy(&child.stdout));
            assert!(child.status.success(), "{what}");
            // The step after the interruption is the last.
            let saved = dir.path().join(format!("chief/ckpt-{}.index", step + 1));
            assert_eq!(saved.exists(), step < input.steps(), "{what}");
            let outcome = alone(input, |fit| fit.callback(backup(dir.path(), None))).unwrap();
            assert_went_on(&outcome, &whole, dir.path(), &what);
        }
    }
}

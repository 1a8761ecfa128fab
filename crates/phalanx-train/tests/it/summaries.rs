//! What a training writes into its event files without being asked.

use crate::checkpoints::Model as Kernel;
use crate::support::{quiet, workers_in};
use phalanx_data::Column;
use phalanx_formats::event::{EventPayload, EventReader, SummaryData};
use phalanx_nn::model::{Dense, Sequential};
use phalanx_optim::{Clip, CosineDecay, Schedule, Sgd};
use phalanx_storage::Dir;
use phalanx_train::fit::{Compile, Fit, Verbose};
use phalanx_train::{MiniCluster, ParameterServerOptions, Strategy, Supervisor};
use std::collections::BTreeSet;

/// Returns the step, tag and value of every summary in a directory.
fn summaries(dir: &Dir) -> Vec<(u64, String, SummaryData)> {
    let mut all = Vec::new();
    for file in dir.list("events.out.tfevents.").unwrap() {
        let bytes = dir.read(&file.name, 1 << 20).unwrap();
        let mut reader = EventReader::new(&bytes[..]);
        while let Some(event) = reader.next_event().unwrap() {
            if let EventPayload::Summary(values) = event.what {
                let step = event.stamp.step.cast_unsigned();
                all.extend(values.into_iter().map(|value| (step, value.tag, value.value)));
            }
        }
    }
    all
}

/// Returns the points of a curve.
fn curve(all: &[(u64, String, SummaryData)], tag: &str) -> Vec<(u64, f32)> {
    let point = |(step, known, value): &(u64, String, SummaryData)| match value {
        SummaryData::Scalar(number) if known == tag => Some((*step, *number as f32)),
        _ => None,
    };
    all.iter().filter_map(point).collect()
}

fn tags(all: &[(u64, String, SummaryData)]) -> BTreeSet<&str> {
    all.iter().map(|(_, tag, _)| tag.as_str()).collect()
}

/// Six numbers that begin with 1 and have a gradient of 2 each.
#[test]
fn a_session_writes_loss_rates_norm_and_staleness_and_histograms_on_request() {
    let dir = Dir::in_memory();
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let optimizer = Sgd::new(0.25).clip(Clip::GlobalNorm(1e6));
    let supervisor = Supervisor::new(&cluster.trainers()[0], optimizer).run_dir(dir.clone()).save_model_secs(None);
    let supervisor = supervisor.save_summaries_steps(2).save_histograms(true);
    let mut session = supervisor.prepare_or_wait_for_session(Kernel::new(2)).unwrap();
    for step in 0..6 {
        if step == 4 {
            session.set_learning_rate(0.5);
        }
        session.step(|model| model.kernel.val().sum() * 2.0).unwrap();
    }
    supervisor.stop(session).unwrap();
    let all = summaries(&dir);
    assert_eq!(curve(&all, "loss"), [(1, 12.0), (3, 0.0), (5, -12.0)], "each under the step that it became");
    assert_eq!(curve(&all, "learning_rate"), [(1, 0.25), (3, 0.25), (5, 0.5)]);
    assert_eq!(curve(&all, "gradient_norm"), [1, 3, 5].map(|step| (step, 24_f32.sqrt())));
    let rates = curve(&all, "global_step/sec");
    assert!(rates.iter().map(|(step, _)| *step).eq([3, 5]) && rates.iter().all(|(_, rate)| *rate > 0.0), "{rates:?}");
    let counts = |step: u64, tag: &str| {
        let found = all.iter().find(|(at, known, _)| (*at, known.as_str()) == (step, tag));
        let Some((_, _, SummaryData::Histogram(buckets))) = found else { panic!("{tag} at {step}") };
        buckets.iter().filter(|bucket| bucket.count > 0.0).map(|b| (b.left, b.right, b.count)).collect::<Vec<_>>()
    };
    assert_eq!(counts(3, "staleness"), [(0.0, 1.0, 2.0)], "two updates on the newest values");
    assert_eq!(counts(1, "kernel"), [(1.0, 1.0, 6.0)]);
    assert_eq!(counts(5, "kernel"), [(-1.0, -1.0, 6.0)]);
    let expected = ["bias", "global_step/sec", "gradient_norm", "kernel", "learning_rate", "loss", "staleness"];
    assert!(tags(&all).into_iter().eq(expected), "{:?}", tags(&all));
}

#[test]
fn every_learning_rate_has_a_curve_and_no_summaries_are_written_where_they_are_off() {
    for off in [false, true] {
        let dir = Dir::in_memory();
        let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
        let schedule = Schedule::from(CosineDecay::new(0.4, 4));
        let supervisor = Supervisor::new(&cluster.trainers()[0], Sgd::new(0.1).schedule(schedule));
        let supervisor = supervisor.optimizer_of("bias", Sgd::new(0.7)).run_dir(dir.clone()).save_model_secs(None);
        let supervisor = supervisor.save_summaries_steps((!off).then_some(1));
        let mut session = supervisor.prepare_or_wait_for_session(Kernel::new(2)).unwrap();
        (0..3).for_each(|_| _ = session.step(|model| model.kernel.val().sum()).unwrap());
        supervisor.stop(session).unwrap();
        let all = summaries(&dir);
        if off {
            assert!(all.is_empty(), "{all:?}");
            continue;
        }
        let rate = |step: u64| (step + 1, schedule.at(step));
        assert_eq!(curve(&all, "learning_rate"), [rate(0), rate(1), rate(2)]);
        assert_eq!(curve(&all, "learning_rate_1"), [(1, 0.7), (2, 0.7), (3, 0.7)]);
        assert!(!tags(&all).contains("kernel"), "histograms are for those who ask");
    }
}

fn fit(strategy: &Strategy) -> phalanx_base::Result<f64> {
    let model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([1]))?;
    let mut model = model.compile(Sgd::new(0.25), "mse", ["mae"])?;
    let x = Column::f32((0..64).map(|i| i as f32 / 64.0).collect()).with_row_shape([1])?;
    let y = Column::f32((0..64).map(|i| 3.0 * i as f32 / 64.0 + 1.0).collect());
    let fit = Fit::epochs(3).batch_size(16).validation((x.clone(), y.clone())).verbose(Verbose::Silent);
    model.fit((x, y), fit)?.last("val_mae")
}

/// What every `fit` writes: its first measured step, and every validation.
fn has_curves_of_fit(dir: &Dir, val_mae: f64) {
    let all = summaries(dir);
    for tag in ["loss", "mae", "gradient_norm"] {
        assert!(curve(&all, tag).first().is_some_and(|(step, value)| *step > 0 && *value > 0.0), "{tag}: {all:?}");
    }
    assert_eq!(curve(&all, "learning_rate").first().map(|(_, rate)| *rate), Some(0.25));
    assert_eq!(curve(&all, "val_loss").len(), 3);
    assert_eq!(curve(&all, "val_mae").last().map(|(_, value)| *value), Some(val_mae as f32));
}

#[test]
fn a_fit_with_parameter_servers_writes_its_curves() {
    let folder = tempfile::tempdir().unwrap();
    let model_dir = Some(folder.path().display().to_string());
    let settings = ParameterServerOptions { model_dir, ..ParameterServerOptions::default() };
    let cluster = MiniCluster::start_with(1, 2, quiet()).unwrap();
    let val_mae = cluster.run(|server| fit(&Strategy::parameter_server_on(server, settings.clone())?)).unwrap();
    has_curves_of_fit(&Dir::local(folder.path()), val_mae);
}

#[test]
fn a_fit_of_mirrored_workers_writes_into_the_run_directory_of_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let results = workers_in(folder.path(), 2, |strategy| fit(&strategy));
    has_curves_of_fit(&Dir::local(folder.path()), *results[0].as_ref().unwrap());
    let files = Dir::local(folder.path()).list("events.out.tfevents.").unwrap();
    assert_eq!(files.len(), 1, "only the first worker writes");
}

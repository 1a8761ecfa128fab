//! Learning-rate schedules and clipping of sessions and of `fit`.

use crate::support::{Line, quiet};
use phalanx_base::{Code, Result};
use phalanx_data::{Batch, Column};
use phalanx_nn::model::{Dense, Initializer, Sequential};
use phalanx_optim::{Clip, CosineDecay, Optimizer, PiecewiseConstantDecay, Schedule, Sgd};
use phalanx_ps::TableSpec;
use phalanx_ps::plan::RowInitializer;
use phalanx_storage::Dir;
use phalanx_train::fit::{Compile, Fit, Verbose};
use phalanx_train::{MiniCluster, Supervisor, SyncReplicas};

/// Halves the rate at every step: 1, 1/2, 1/4, …
fn halving() -> Schedule {
    let rates: Vec<f32> = (0..9).map(|step| 0.5_f32.powi(step)).collect();
    PiecewiseConstantDecay::new(&[0, 1, 2, 3, 4, 5, 6, 7], &rates).unwrap().into()
}

fn table(optimizer: impl Into<Optimizer>) -> TableSpec {
    let (initializer, optimizer) = (RowInitializer::constant(0.0), optimizer.into());
    TableSpec { name: "t".into(), dim: 1, initializer, optimizer }
}

/// Ids whose rows lie on both servers.
const IDS: [i64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Trains `steps` steps whose gradients are all 1; every second one looks up rows. Returns a weight and the rows' value.
fn train(dir: &Dir, steps: u64, sync: bool) -> Result<(f32, f32)> {
    let cluster = MiniCluster::start_with(2, 0, quiet())?;
    cluster.run(|server| {
        let optimizer = Sgd::default().schedule(halving());
        // An optimizer of its own follows its schedule too.
        let mut supervisor = Supervisor::new(server, Sgd::new(1.0)).optimizer_of("w", optimizer);
        supervisor = supervisor.run_dir(dir.clone()).save_model_secs(3600);
        let table = supervisor.table(table(optimizer))?;
        if sync {
            supervisor = supervisor.sync(SyncReplicas::default());
        }
        let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
        let first = session.global_step();
        for step in first..first + steps + u64::from(sync) {
            let ids: &[i64] = if step % 2 == 1 { &IDS } else { &[] };
            session.step_with_rows(&[(table, ids)], |line, rows| {
                let rows = if ids.is_empty() { 0.0 * line.w.val().sum() } else { rows[0].lookup().sum() };
                line.w.val().sum() + line.b.val().sum() * 0.0 + rows
            })?;
        }
        session.finish()?;
        let rows = session.look_up(&[(table, &IDS)])?[0].values.clone();
        assert!(rows.iter().all(|row| *row == rows[0]), "every server has the same rate: {rows:?}");
        let row = rows[0];
        let weight = session.model()?.w.val().into_data().as_slice::<f32>().unwrap()[0];
        supervisor.stop(session)?;
        Ok((weight, row))
    })
}

#[test]
fn variables_and_tables_follow_the_global_step_also_after_a_restart() {
    for sync in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open(folder.path().to_str().unwrap()).unwrap();
        // Rows are touched by steps 1, 3 and 5, which are not the first three updates of their table.
        assert_eq!(train(&dir, 4, sync).unwrap(), (-1.875, -0.625), "synchronous: {sync}");
        assert_eq!(train(&dir, 2, sync).unwrap(), (-1.96875, -0.65625), "continued, synchronous: {sync}");
    }
}

#[test]
fn gradients_of_one_optimizer_are_clipped_together_and_others_are_not() {
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let seen = cluster.run(|server| {
        let clipped = Sgd::new(1.0).clip(Clip::GlobalNorm(5.0));
        let mut supervisor = Supervisor::new(server, Sgd::new(1.0)).optimizer_of("w", clipped);
        let table = supervisor.table(table(clipped))?;
        let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
        session.step_with_rows(&[(table, &[3, 9, 3])], |line, rows| {
            // The repeated row counts once, with the sum of its gradients: 12 = 6 + 6.
            line.w.val().sum() * 9.0 + line.b.val().sum() * 100.0 + rows[0].lookup().sum() * 6.0
        })?;
        session.finish()?;
        let rows = session.look_up(&[(table, &[3, 9])])?[0].values.clone();
        let number = |tensor: burn::tensor::Tensor<1>| tensor.into_data().as_slice::<f32>().unwrap()[0];
        let (w, b) = (number(session.model()?.w.val()), number(session.model()?.b.val()));
        supervisor.stop(session)?;
        Ok((w, b, rows))
    });
    let (w, b, rows) = seen.unwrap();
    let norm = (9.0_f32 * 9.0 + 12.0 * 12.0 + 6.0 * 6.0).sqrt();
    let near = |ours: f32, gradient: f32| (ours + gradient * 5.0 / norm).abs() < 1e-5;
    assert!(near(w, 9.0) && near(rows[0], 12.0) && near(rows[1], 6.0), "{w} {rows:?}");
    assert_eq!(b, -100.0);
}

/// Fits `y = x` from zero for some epochs of one batch; returns the weights.
fn fit(optimizer: impl Into<Optimizer>, epochs: usize) -> Vec<f32> {
    let model = Sequential::new().add(Dense::new(1).kernel_initializer(Initializer::Zeros)).build([1]).unwrap();
    let mut model = model.compile(optimizer, "mse", ["mae"]).unwrap();
    let (x, y) = (Column::f32(vec![3.0, 4.0]).with_row_shape([1]).unwrap(), Column::f32(vec![30.0, 40.0]));
    let rows = Batch::new([("x", x), ("y", y)]).unwrap().with_label("y").unwrap();
    model.fit(rows, Fit::epochs(epochs).verbose(Verbose::Silent).shuffle(false)).unwrap();
    model.weights().unwrap().into_iter().flat_map(|weight| weight.values).collect()
}

#[test]
fn fit_follows_schedules_and_clips() {
    // d/dw of the mean of (wx - y)² is -250 at the start, d/db is -70.
    assert_eq!(fit(Sgd::new(1.0).clip(Clip::Value(0.5)), 1), [0.5, 0.5]);
    assert_eq!(fit(Sgd::new(1.0).clip(Clip::Norm(2.0)), 1), [2.0, 2.0]);
    let both = fit(Sgd::new(1.0).clip(Clip::GlobalNorm(1.0)), 1);
    assert!((both[0].hypot(both[1]) - 1.0).abs() < 1e-6 && (both[0] / both[1] - 250.0 / 70.0).abs() < 1e-4, "{both:?}");
    let halved = fit(Sgd::default().schedule(halving()).clip(Clip::Value(0.5)), 3);
    assert_eq!(halved, [0.875, 0.875]);
}

#[test]
fn the_rate_of_a_schedule_cannot_be_set() {
    let model = Sequential::new().add(Dense::new(1)).build([1]).unwrap();
    let mut model = model.compile(Sgd::default().schedule(CosineDecay::new(0.1, 10)), "mse", ["mae"]).unwrap();
    let error = model.set_learning_rate(0.5).unwrap_err();
    assert_eq!(error.code(), Code::BadSetting);
    assert!(error.what().contains("follows a schedule"), "{}", error.report());
}

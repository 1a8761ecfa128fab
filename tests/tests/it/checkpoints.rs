//! Checkpoints taken under full load: each is a snapshot of each server, whatever is being pushed meanwhile.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx::prelude::*;
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_storage::Dir;
use phalanx_tests::within;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CHECKPOINTS: usize = 100;
const SERVERS: u32 = 2;
const ROWS: usize = 400;
const COLUMNS: usize = 100;
const IDS: [i64; 12] = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, -89, 1 << 40];

/// Every gradient is exactly one. Under Adagrad that starts at nothing, a slot is then the count of the updates, and the
/// value a function of that count.
#[derive(Module, Debug)]
struct Ones {
    wide: Param<Tensor<2>>,
    one: Param<Tensor<1>>,
}

impl Ones {
    fn new() -> Self {
        let device = default_device();
        Self {
            wide: Param::from_tensor(Tensor::zeros([ROWS, COLUMNS], &device)),
            one: Param::from_tensor(Tensor::zeros([1], &device)),
        }
    }
}

fn optimizer() -> Optimizer {
    Adagrad::new(0.5).initial_accumulator_value(0.0).into()
}

/// Returns the value after 0, 1, 2, … updates, by the optimizer itself.
fn values_by_count(most: usize) -> Vec<f32> {
    let mut number = [0.0, 0.0];
    let mut values = vec![0.0];
    for step in 1..=most as u64 {
        optimizer().at_step(step).apply(&mut number, &[1.0]).unwrap();
        values.push(number[0]);
    }
    values
}

/// Trains with two trainers as fast as they can until there are enough checkpoints.
fn train(dir: &Dir, sync: bool) {
    let options = ServerOptions::default();
    let cluster = MiniCluster::start_with(SERVERS, 1, options).unwrap();
    let enough = AtomicBool::new(false);
    let work = |server: &Server| {
        let table =
            TableSpec { name: "t".into(), dim: 2, initializer: RowInitializer::constant(0.0), optimizer: optimizer() };
        let mut supervisor = Supervisor::new(server, optimizer())
            .partitioner(Partitioner::FixedShards(SERVERS as usize))
            .run_dir(dir.clone())
            .save_model_secs(None)
            .save_model_steps(1)
            .max_to_keep(0);
        let table = supervisor.table(table).unwrap();
        if sync {
            supervisor = supervisor.sync(SyncReplicas::default());
        }
        let mut session = supervisor.prepare_or_wait_for_session(Ones::new()).unwrap();
        let loss =
            |model: &Ones, rows: &[Rows]| model.wide.val().sum() + model.one.val().sum() + rows[0].lookup().sum();
        while let Some(step) = session.step_with_rows(&[(table, &IDS)], loss).unwrap() {
            if server.is_chief() && step.global_step % 50 == 0 {
                let saved = dir.list("model.ckpt-").unwrap().iter().filter(|e| e.name.ends_with(".index")).count();
                enough.store(saved >= CHECKPOINTS, Ordering::Release);
            }
            if server.is_chief() && enough.load(Ordering::Acquire) {
                break;
            }
        }
        supervisor.stop(session).unwrap();
    };
    std::thread::scope(|scope| {
        cluster.trainers().iter().for_each(|server| drop(scope.spawn(|| work(server))));
    });
}

/// Checks one checkpoint; returns how many updates each server has.
fn check(dir: &Dir, name: &str, values: &[f32], sync: bool) -> Vec<u64> {
    let found = Checkpoint::open(dir, name).unwrap();
    found.tensors().verify().unwrap();
    let read = |name: &str| found.tensors().read(name).unwrap();
    let mut updates = Vec::new();
    for server in 0..SERVERS as usize {
        let counts = read(&format!("_phalanx/ps-{server:05}/counts")).i64s().unwrap();
        let applied = read(&format!("_phalanx/ps-{server:05}/applied")).i64s().unwrap();
        let count = if sync {
            counts[2] as u64
        } else {
            let steps: i64 = applied.chunks(7).map(|record| record[3]).sum();
            assert!(counts.chunks(3).all(|item| item[1] == steps), "{name}: {counts:?} for {steps} applied steps");
            steps as u64
        };
        updates.push(count);
        // The server has one half of the rows.
        let half = (ROWS / 2) as u64;
        let slots = found.tensors().read_rows("wide/Adagrad", server as u64 * half, half).unwrap().f32s().unwrap();
        let numbers = found.tensors().read_rows("wide", server as u64 * half, half).unwrap().f32s().unwrap();
        assert!(slots.iter().all(|&slot| slot == count as f32), "{name}: slots are not {count}: {:?}", &slots[..5]);
        assert!(numbers.iter().all(|&x| x == values[count as usize]), "{name}: values are not of {count} updates");
    }
    let keys = read("t-keys").i64s().unwrap();
    let rows: BTreeMap<i64, (Vec<f32>, Vec<f32>)> = {
        let (numbers, slots) = (read("t-values").f32s().unwrap(), read("t/Adagrad-values").f32s().unwrap());
        let rows = numbers.chunks(2).zip(slots.chunks(2)).map(|(row, slot)| (row.to_vec(), slot.to_vec()));
        keys.iter().copied().zip(rows).collect()
    };
    for (id, (row, slot)) in rows {
        let count = updates[phalanx_ps::plan::server_of_row(id, SERVERS as usize)];
        assert_eq!((slot, row), (vec![count as f32; 2], vec![values[count as usize]; 2]), "{name}: row {id}");
    }
    if sync {
        let step = found.global_step().unwrap();
        assert!(updates.iter().all(|&count| count == step), "{name}: {updates:?} rounds at step {step}");
    }
    updates
}

fn every_checkpoint_is_one_instant(sync: bool) {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path());
    train(&dir, sync);
    let names: Vec<String> = dir
        .list("model.ckpt-")
        .unwrap()
        .into_iter()
        .filter_map(|entry| entry.name.strip_suffix(".index").map(str::to_owned))
        .collect();
    assert!(names.len() >= CHECKPOINTS, "{}", names.len());
    let values = values_by_count(1_000_000);
    let mut seen: Vec<Vec<u64>> = names.iter().map(|name| check(&dir, name, &values, sync)).collect();
    seen.sort();
    let apart = seen.iter().filter(|updates| updates[0] != updates[1]).count();
    eprintln!(
        "{} checkpoints of 1 to {:?} updates, {apart} with servers at different updates",
        seen.len(),
        seen.last()
    );
    assert!(seen.last().unwrap()[0] > 100, "training went on");
}

#[test]
fn a_hundred_checkpoints_of_asynchronous_training_are_each_one_instant_of_each_server() {
    within(Duration::from_secs(120), "the job hangs", || every_checkpoint_is_one_instant(false));
}

#[test]
fn a_hundred_checkpoints_of_synchronous_training_are_each_one_round_of_all_servers() {
    within(Duration::from_secs(120), "the job hangs", || every_checkpoint_is_one_instant(true));
}

/// The chief stops while the others push as fast as they can: every update that was acknowledged is in the last checkpoint,
/// on every server.
#[test]
fn the_last_checkpoint_has_every_update_that_was_acknowledged() {
    within(Duration::from_secs(120), "the job hangs", || {
        for run in 0..5 {
            let folder = tempfile::tempdir().unwrap();
            let dir = Dir::local(folder.path());
            let options = ServerOptions::default();
            let cluster = MiniCluster::start_with(SERVERS, 2, options).unwrap();
            let work = |server: &Server| {
                let supervisor = Supervisor::new(server, optimizer())
                    .partitioner(Partitioner::FixedShards(SERVERS as usize))
                    .run_dir(dir.clone())
                    .save_model_secs(None);
                let mut session = supervisor.prepare_or_wait_for_session(Ones::new()).unwrap();
                let mut pushed = 0;
                while session.step(|model| model.wide.val().sum()).unwrap().is_some() {
                    pushed += 1;
                    if server.is_chief() && pushed == 30 {
                        break;
                    }
                }
                supervisor.stop(session).unwrap();
                pushed
            };
            let pushed: Vec<u64> = std::thread::scope(|scope| {
                let work = &work;
                let trainers: Vec<_> =
                    cluster.trainers().iter().map(|server| scope.spawn(move || work(server))).collect();
                trainers.into_iter().map(|trainer| trainer.join().unwrap()).collect()
            });
            let state = dir.read("checkpoint", 1 << 20).unwrap();
            let state = String::from_utf8(state).unwrap();
            let name = state.split('"').nth(1).unwrap().to_owned();
            let found = Checkpoint::open(&dir, &name).unwrap();
            for server in 0..SERVERS {
                let applied = found.tensors().read(&format!("_phalanx/ps-{server:05}/applied")).unwrap();
                let mut steps: Vec<i64> = applied.i64s().unwrap().chunks(7).map(|record| record[3]).collect();
                steps.sort_unstable();
                let pushed = pushed.iter().filter(|&&steps| steps > 0);
                let mut expected: Vec<i64> = pushed.map(|&steps| steps as i64).collect();
                expected.sort_unstable();
                assert_eq!(steps, expected, "run {run}, {name}, ps/{server}");
            }
            assert_eq!(found.global_step().unwrap(), pushed.iter().sum::<u64>(), "run {run}");
        }
    });
}

#[test]
fn training_begins_although_the_first_checkpoint_cannot_be_saved() {
    let folder = tempfile::tempdir().unwrap();
    // A directory that is not empty has the name of the file, so the write fails as it would on a full disk.
    std::fs::create_dir_all(folder.path().join("model.ckpt-0.data-00000-of-00001/in-the-way")).unwrap();
    let dir = Dir::local(folder.path());
    let cluster = MiniCluster::start(1, 0).unwrap();
    let supervisor = Supervisor::new(&cluster.trainers()[0], optimizer()).run_dir(dir.clone());
    let mut session = supervisor.prepare_or_wait_for_session(Ones::new()).unwrap();
    for _ in 0..3 {
        session.step(|model| model.wide.val().sum() + model.one.val().sum()).unwrap();
    }
    supervisor.stop(session).unwrap();
    let saved: Vec<String> = dir.list("model.ckpt-").unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(saved.contains(&"model.ckpt-3.index".to_owned()), "{saved:?}");
    assert!(!saved.contains(&"model.ckpt-0.index".to_owned()), "{saved:?}");
}

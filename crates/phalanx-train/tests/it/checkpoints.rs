//! Checkpoints: saved during training, restored into other servers, passed over if damaged.

use crate::support::quiet;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx_base::{Code, Result};
use phalanx_nn::default_device;
use phalanx_optim::{Adagrad, Adam, Optimizer, Sgd};
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_ps::plan::RowInitializer;
use phalanx_ps::{Partitioner, Placement, TableSpec};
use phalanx_storage::Dir;
use phalanx_train::{MiniCluster, Session, Supervisor, SyncReplicas, testing::connections};

/// A matrix whose rows are split over servers, and a number.
#[derive(Module, Debug)]
pub(crate) struct Model {
    pub(crate) kernel: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Model {
    pub(crate) fn new(rows: usize) -> Self {
        let ones = Tensor::ones([rows, 3], &default_device());
        Self { kernel: Param::from_tensor(ones), bias: Param::from_tensor(Tensor::zeros([1], &default_device())) }
    }
}

/// Makes a step whose gradient depends on all values, on rows of the table and on the step.
pub(crate) fn step(session: &mut Session<Model>) -> Result<u64> {
    let ids: Vec<i64> = (0..40).map(|i| i * i - 100).collect();
    let table = session.table("t")?;
    let step = session.step_with_rows(&[(table, &ids)], |model, rows| {
        let table = rows[0].lookup().powf_scalar(2.0).sum() * 0.01;
        model.kernel.val().powf_scalar(2.0).sum() * 0.1 + (model.bias.val() - 3.0).powf_scalar(2.0).sum() + table
    })?;
    Ok(step.expect("the job goes on").global_step)
}

pub(crate) fn table(dim: usize, optimizer: Optimizer) -> TableSpec {
    TableSpec { name: "t".into(), dim, initializer: RowInitializer::uniform(-1.0, 1.0, 5), optimizer }
}

/// Trains on `servers` servers until `until` steps are committed. Returns the variables and the first step.
pub(crate) fn train(servers: u32, optimizer: Optimizer, dir: &Dir, until: u64, sync: bool) -> (Vec<Vec<f32>>, u64) {
    train_placed(servers, optimizer, dir, until, sync, Placement::default())
}

fn train_placed(
    servers: u32,
    optimizer: Optimizer,
    dir: &Dir,
    until: u64,
    sync: bool,
    placement: Placement,
) -> (Vec<Vec<f32>>, u64) {
    let cluster = MiniCluster::start_with(servers, 0, quiet()).unwrap();
    let mut supervisor = Supervisor::new(&cluster.trainers()[0], optimizer)
        .placement(placement)
        .partitioner(Partitioner::FixedShards(servers as usize))
        .run_dir(dir.clone())
        .save_model_secs(3600);
    supervisor.table(table(2, optimizer)).unwrap();
    if sync {
        supervisor = supervisor.sync(SyncReplicas::default());
    }
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(11)).unwrap();
    let began = session.global_step();
    // One gradient is always in flight; in synchronous mode the last one is dropped.
    let more = until - began + u64::from(sync);
    for _ in 0..more {
        step(&mut session).unwrap();
    }
    session.finish().unwrap();
    session.save().unwrap();
    let values = session.values().unwrap().into_iter().map(|(_, _, values)| values).collect();
    supervisor.stop(session).unwrap();
    (values, began)
}

/// Returns the ids and the bits of the rows of table `t`, sorted by id.
fn rows_of(dir: &Dir, checkpoint: &str, dim: usize) -> Vec<(i64, Vec<u32>)> {
    let found = Checkpoint::open(dir, checkpoint).unwrap();
    let read = |name: &str| found.tensors().read(name).unwrap();
    let numbers = read("t-values").f32s().unwrap();
    let rows = numbers.chunks(dim).map(|row| row.iter().map(|x| x.to_bits()).collect());
    let mut rows: Vec<(i64, Vec<u32>)> = read("t-keys").i64s().unwrap().into_iter().zip(rows).collect();
    rows.sort();
    rows
}

/// Flips a bit of a file.
fn damage(file: &std::path::Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_job_goes_on_in_other_servers_as_if_nothing_had_happened() {
    for (optimizer, sync) in
        [(Adam::new(0.05).into(), false), (Adagrad::new(0.1).into(), true), (Sgd::new(0.01).into(), false)]
    {
        let whole = Dir::in_memory();
        let (expected, _) = train(2, optimizer, &whole, 12, sync);
        for (first, second) in [(2, 2), (1, 3), (3, 1)] {
            let folder = tempfile::tempdir().unwrap();
            let dir = Dir::local(folder.path());
            train(first, optimizer, &dir, 5, sync);
            let (values, began) = train(second, optimizer, &dir, 12, sync);
            assert_eq!(began, 5);
            assert_eq!(values, expected, "{optimizer}: {first} servers, then {second}");
            let rows = |dir: &Dir| rows_of(dir, "model.ckpt-12", 2);
            assert_eq!(rows(&dir), rows(&whole), "the table's rows");
            assert_eq!(rows(&dir).len(), 40);
        }
    }
}

/// Pinned to one server, spread again, and pinned elsewhere: no row is lost, whoever reads the checkpoint.
#[test]
fn a_job_goes_on_when_its_variables_and_its_table_are_placed_elsewhere() {
    let optimizer = Adam::new(0.05).into();
    let whole = Dir::in_memory();
    let (expected, _) = train(2, optimizer, &whole, 12, false);
    let folder = tempfile::tempdir().unwrap();
    // Servers read what is in a folder themselves; a chief feeds them what is in memory.
    for dir in [Dir::local(folder.path()), Dir::in_memory()] {
        let on_1 = || Placement::round_robin().pin("*", 1);
        let placements = [on_1(), Placement::round_robin(), on_1().pin("t", 0), on_1()];
        let mut values = Vec::new();
        for (placement, until) in placements.into_iter().zip([3, 6, 9, 12]) {
            let began;
            (values, began) = train_placed(2, optimizer, &dir, until, false, placement);
            assert_eq!(began, until - 3);
        }
        assert_eq!(values, expected);
        assert_eq!(rows_of(&dir, "model.ckpt-12", 2), rows_of(&whole, "model.ckpt-12", 2));
        let bytes = |file: &str| dir.size(file).unwrap().unwrap();
        let (first, second) = (bytes("model.ckpt-12.data-00000-of-00002"), bytes("model.ckpt-12.data-00001-of-00002"));
        assert!(first < 200 && second > 1000, "all is on ps/1: {first} and {second} bytes");
    }
}

/// A save that finds a checkpoint of the same step must not take it for its own: that one may lack what has changed since.
#[test]
fn a_save_at_the_step_of_the_newest_checkpoint_has_what_changed_since() {
    let dir = Dir::in_memory();
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let mut supervisor =
        Supervisor::new(&cluster.trainers()[0], Sgd::new(0.1)).run_dir(dir.clone()).save_model_secs(3600);
    supervisor.table(table(2, Sgd::new(0.1).into())).unwrap();
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    step(&mut session).unwrap();
    session.finish().unwrap();
    session.save().unwrap();
    let saved = session.newest_checkpoint().unwrap();
    session.save().unwrap();
    assert_eq!(session.newest_checkpoint().unwrap().took, saved.took, "nothing has changed: it is not saved again");
    session.replace(&Model::new(3)).unwrap();
    session.save().unwrap();
    let kernel = Checkpoint::open(&dir, "model.ckpt-1").unwrap().tensors().read("kernel").unwrap();
    assert_eq!(kernel.f32s().unwrap(), [1.0; 9]);
    supervisor.stop(session).unwrap();
}

#[test]
fn servers_that_do_not_see_the_directory_send_their_part_to_the_chief() {
    // Memory of this process has no name that a server could open.
    let dir = Dir::in_memory();
    let (values, _) = train(3, Adagrad::new(0.1).into(), &dir, 4, false);
    let names: Vec<String> = dir.list("").unwrap().into_iter().map(|entry| entry.name).collect();
    let expected = [
        "checkpoint",
        "model.ckpt-0.data-00000-of-00003",
        "model.ckpt-0.data-00001-of-00003",
        "model.ckpt-0.data-00002-of-00003",
        "model.ckpt-0.index",
        "model.ckpt-4.data-00000-of-00003",
        "model.ckpt-4.data-00001-of-00003",
        "model.ckpt-4.data-00002-of-00003",
        "model.ckpt-4.index",
    ];
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.starts_with("events")).collect();
    assert_eq!(names, expected);
    let found = Checkpoint::open(&dir, "model.ckpt-4").unwrap();
    found.tensors().verify().unwrap();
    assert_eq!(found.global_step().unwrap(), 4);
    let kernel = found.tensors().read("kernel").unwrap();
    assert_eq!(kernel.f32s().unwrap(), values[0], "partitioned, and read as one");
    assert!(found.index().tensors().contains_key("kernel/Adagrad"));
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_the_one_before_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path());
    train(2, Sgd::new(0.1).into(), &dir, 3, false);
    train(2, Sgd::new(0.1).into(), &dir, 6, false);
    let file = folder.path().join("model.ckpt-6.data-00001-of-00002");
    damage(&file, 5);
    assert_eq!(train(2, Sgd::new(0.1).into(), &dir, 7, false).1, 3);
}

/// The dimension of large tables.
const DIM: usize = 256;

/// Trains a model with a table for `steps` steps on `ids`. Returns the first step and the rows of the last checkpoint.
fn train_rows(servers: u32, dir: &Dir, ids: &[i64], steps: u64) -> (u64, Vec<(i64, Vec<u32>)>) {
    let cluster = MiniCluster::start_with(servers, 0, quiet()).unwrap();
    let optimizer: Optimizer = Adagrad::new(0.1).into();
    let mut supervisor = Supervisor::new(&cluster.trainers()[0], optimizer).run_dir(dir.clone()).save_model_secs(3600);
    let table = supervisor.table(table(DIM, optimizer)).unwrap();
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    let began = session.global_step();
    for _ in 0..steps {
        let loss = |model: &Model, rows: &[phalanx_nn::Rows]| {
            model.kernel.val().powf_scalar(2.0).sum() + rows[0].lookup().powf_scalar(2.0).sum()
        };
        session.step_with_rows(&[(table, ids)], loss).unwrap();
    }
    session.finish().unwrap();
    supervisor.stop(session).unwrap();
    (began, rows_of(dir, &format!("model.ckpt-{}", began + steps), DIM))
}

/// Rows that a checkpoint has and the one before it lacks must not stay on the servers when it turns out to be damaged.
#[test]
fn nothing_of_a_damaged_checkpoint_stays_when_the_one_before_it_is_used() {
    let old: Vec<i64> = (0..50).collect();
    // More than one message's worth for each server: the first is sent before the damage is found.
    let both: Vec<i64> = (0..12_000).collect();
    let (whole, folder) = (Dir::in_memory(), tempfile::tempdir().unwrap());
    let dir = Dir::local(folder.path());
    for dir in [&whole, &dir] {
        train_rows(2, dir, &old, 3);
    }
    let (_, expected) = train_rows(2, &whole, &old, 2);
    assert_eq!(train_rows(2, &dir, &both, 2).1.len(), 12_000);
    // The last byte of the table's values, long after the first rows of the checkpoint.
    let found = Checkpoint::open(&dir, "model.ckpt-5").unwrap();
    let phalanx_formats::bundle::TensorLocation::Sliced(parts) = &found.index().tensors()["t-values"].location else {
        panic!("two servers have rows")
    };
    for (_, span) in parts {
        let file = folder.path().join(format!("model.ckpt-5.data-{:05}-of-00002", span.shard));
        damage(&file, (span.offset + span.size) as usize - 1);
    }
    let (began, rows) = train_rows(2, &dir, &old, 2);
    assert_eq!(began, 3, "the damaged one is passed over");
    assert_eq!(rows.len(), 50, "no row of the damaged one is left");
    assert_eq!(rows, expected, "and training went on as if it had never been");
}

#[test]
fn restoring_servers_read_each_table_once_together() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path());
    let ids: Vec<i64> = (0..3000).collect();
    train_rows(3, &dir, &ids, 2);
    let size: u64 = dir.list("model.ckpt-2.data-").unwrap().iter().map(|entry| entry.size).sum();
    let cluster = MiniCluster::start_with(3, 0, quiet()).unwrap();
    cluster.trainers()[0].wait_until_formed().unwrap();
    let client = connections::client(&cluster.trainers()[0]).unwrap();
    let optimizer: Optimizer = Adagrad::new(0.1).into();
    let layout = phalanx_ps::Layout::new(vec![], vec![table(DIM, optimizer)], 3, Default::default()).unwrap();
    let remote = phalanx_ps::client::RemoteModel::announce(&client, layout).unwrap();
    let servers: Vec<_> = (0..3).map(|server| (server, remote.incarnation(server))).collect();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let read = client.restore(&servers, 1, (&dir.location(), "model.ckpt-2"), until).unwrap();
    let (read, most) = (read.iter().sum::<u64>(), size + size / 10);
    assert!(read > size / 2 && read <= most, "{read} bytes of {size} were read");
    cluster.trainers()[0].leave(None);
}

#[test]
fn a_checkpoint_of_another_model_is_refused_with_the_names() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path());
    train(1, Sgd::new(0.1).into(), &dir, 3, false);
    let server = phalanx_train::Server::local().unwrap();
    let supervisor = Supervisor::new(&server, Sgd::new(0.1)).run_dir(dir);
    let error = supervisor.prepare_or_wait_for_session(Model::new(12)).err().unwrap();
    assert_eq!(error.code(), Code::CheckpointMismatch);
    let why = error.why().unwrap();
    assert!(why.contains("\"kernel\" is float32 [11, 3], not float32 [12, 3]"), "{why}");
    assert!(why.contains("extra: \"t-keys\", \"t-values\""), "{why}");
}

#[test]
fn an_evaluator_passes_a_damaged_checkpoint_over_and_evaluates_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path());
    train_rows(1, &dir, &[1, 2, 3], 3);
    train_rows(1, &dir, &[1, 2, 3], 2);
    for file in ["model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"] {
        let file = folder.path().join(file);
        let whole = std::fs::read(&file).unwrap();
        damage(&file, 20);
        let evaluator = phalanx_train::SidecarEvaluator::new(folder.path().to_str().unwrap()).unwrap();
        let mut steps = Vec::new();
        let count = evaluator.max_evaluations(3).run(Model::new(3), |_, step| {
            steps.push(step);
            Ok(Vec::new())
        });
        assert_eq!((count.unwrap(), steps), (1, vec![3]), "{}", file.display());
        std::fs::write(&file, whole).unwrap();
    }
}

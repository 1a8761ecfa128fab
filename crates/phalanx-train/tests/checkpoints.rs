//! What a job keeps: saved while it trains, restored into other servers, whole or refused.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx_base::{Code, Result};
use phalanx_nn::default_device;
use phalanx_optim::{Adagrad, Adam, Optimizer, Sgd};
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_ps::plan::Initializer;
use phalanx_ps::{Partitioner, TableSpec};
use phalanx_storage::Dir;
use phalanx_train::{MiniCluster, ServerOptions, Session, Supervisor, SyncReplicas, connections};
use std::sync::Arc;

/// A matrix, whose rows are split over servers, and a number.
#[derive(Module, Debug)]
struct Model {
    kernel: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

impl Model {
    fn new(rows: usize) -> Self {
        let ones = Tensor::ones([rows, 3], &default_device());
        Self { kernel: Param::from_tensor(ones), bias: Param::from_tensor(Tensor::zeros([1], &default_device())) }
    }
}

/// A step whose gradient depends on all values, on rows of the table and on how often it was done.
fn step(session: &mut Session<Model>) -> Result<u64> {
    let ids: Vec<i64> = (0..40).map(|i| i * i - 100).collect();
    let step = session.step_with_rows(&[(0, &ids)], |model, rows| {
        let table = rows[0].lookup().powf_scalar(2.0).sum() * 0.01;
        model.kernel.val().powf_scalar(2.0).sum() * 0.1 + (model.bias.val() - 3.0).powf_scalar(2.0).sum() + table
    })?;
    Ok(step.expect("the job goes on").global_step)
}

fn quiet() -> ServerOptions {
    ServerOptions { say: Arc::new(|_| {}), ..ServerOptions::default() }
}

/// Trains on `servers` servers until `until` steps are committed; answers the variables and some rows.
fn train(servers: u32, optimizer: Optimizer, dir: &Dir, until: u64, sync: bool) -> (Vec<Vec<f32>>, u64) {
    let cluster = MiniCluster::start_with(servers, 1, quiet()).unwrap();
    let table = TableSpec { name: "t".into(), dim: 2, initializer: Initializer::uniform(-1.0, 1.0, 5), optimizer };
    let mut supervisor = Supervisor::new(&cluster.trainers()[0], optimizer)
        .partitioner(Partitioner::FixedShards(servers as usize))
        .table(table)
        .run_dir(dir.clone())
        .save_model_secs(3600);
    if sync {
        supervisor = supervisor.sync(SyncReplicas::default());
    }
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(11)).unwrap();
    let began = session.global_step();
    // One gradient is always on its way; in synchronous mode the last one is dropped.
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
            let rows = |dir: &Dir| {
                let found = Checkpoint::open(dir, "model.ckpt-12").unwrap();
                let read = |name: &str| found.tensors().read(name).unwrap();
                let numbers = read("t-values").f32s().unwrap();
                let mut rows: Vec<(i64, Vec<u32>)> = read("t-keys")
                    .i64s()
                    .unwrap()
                    .into_iter()
                    .zip(numbers.chunks(2).map(|row| row.iter().map(|x| x.to_bits()).collect()))
                    .collect();
                rows.sort();
                rows
            };
            assert_eq!(rows(&dir), rows(&whole), "the table's rows");
            assert_eq!(rows(&dir).len(), 40);
        }
    }
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
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[5] ^= 0x10;
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(train(2, Sgd::new(0.1).into(), &dir, 7, false).1, 3);
}

/// How many numbers a row has in tests of large tables.
const DIM: usize = 256;

/// Trains a model with a table for `steps` steps on `ids`; answers the rows of the last checkpoint.
fn train_rows(servers: u32, dir: &Dir, ids: &[i64], steps: u64) -> (u64, Vec<(i64, Vec<u32>)>) {
    let cluster = MiniCluster::start_with(servers, 1, quiet()).unwrap();
    let optimizer: Optimizer = Adagrad::new(0.1).into();
    let table = TableSpec { name: "t".into(), dim: DIM, initializer: Initializer::uniform(-1.0, 1.0, 5), optimizer };
    let supervisor =
        Supervisor::new(&cluster.trainers()[0], optimizer).table(table).run_dir(dir.clone()).save_model_secs(3600);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    let began = session.global_step();
    for _ in 0..steps {
        let loss = |model: &Model, rows: &[phalanx_nn::Rows]| {
            model.kernel.val().powf_scalar(2.0).sum() + rows[0].lookup().powf_scalar(2.0).sum()
        };
        session.step_with_rows(&[(0, ids)], loss).unwrap();
    }
    session.finish().unwrap();
    supervisor.stop(session).unwrap();
    let found = Checkpoint::open(dir, &format!("model.ckpt-{}", began + steps)).unwrap();
    let read = |name: &str| found.tensors().read(name).unwrap();
    let numbers = read("t-values").f32s().unwrap();
    let rows = numbers.chunks(DIM).map(|row| row.iter().map(|x| x.to_bits()).collect());
    let mut rows: Vec<(i64, Vec<u32>)> = read("t-keys").i64s().unwrap().into_iter().zip(rows).collect();
    rows.sort();
    (began, rows)
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
    let phalanx_formats::bundle::Place::Sliced(parts) = &found.index().tensors()["t-values"].place else {
        panic!("two servers have rows")
    };
    for (_, span) in parts {
        let file = folder.path().join(format!("model.ckpt-5.data-{:05}-of-00002", span.shard));
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[(span.offset + span.size) as usize - 1] ^= 0x40;
        std::fs::write(&file, bytes).unwrap();
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
    let cluster = MiniCluster::start_with(3, 1, quiet()).unwrap();
    cluster.trainers()[0].wait_until_formed().unwrap();
    let client = connections::client(&cluster.trainers()[0]).unwrap();
    let optimizer: Optimizer = Adagrad::new(0.1).into();
    let table = TableSpec { name: "t".into(), dim: DIM, initializer: Initializer::uniform(-1.0, 1.0, 5), optimizer };
    let layout = phalanx_ps::Layout::new(vec![], vec![table], 3, Default::default()).unwrap();
    let remote = phalanx_ps::client::Remote::announce(&client, layout).unwrap();
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
fn old_checkpoints_go_and_a_directory_that_cannot_be_written_does_not_stop_training() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path().join("run"));
    let cluster = MiniCluster::start_with(1, 1, quiet()).unwrap();
    let table = TableSpec {
        name: "t".into(),
        dim: 2,
        initializer: Initializer::constant(0.0),
        optimizer: Sgd::new(0.1).into(),
    };
    let supervisor = Supervisor::new(&cluster.trainers()[0], Sgd::new(0.1))
        .table(table)
        .run_dir(dir.clone())
        .save_model_secs(None)
        .max_to_keep(2);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(2)).unwrap();
    let indices = || -> Vec<String> {
        let names = dir.list("model.ckpt").unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".index")).collect()
    };
    for _ in 0..4 {
        step(&mut session).unwrap();
        session.save().unwrap();
    }
    assert_eq!(indices(), ["model.ckpt-2.index", "model.ckpt-3.index"]);
    // The directory becomes a file: nothing can be written into it any more.
    std::fs::rename(folder.path().join("run"), folder.path().join("away")).unwrap();
    std::fs::write(folder.path().join("run"), "in the way").unwrap();
    step(&mut session).unwrap();
    assert_eq!(session.save().unwrap_err().code(), Code::StorageWrite);
    step(&mut session).unwrap();
    std::fs::remove_file(folder.path().join("run")).unwrap();
    std::fs::rename(folder.path().join("away"), folder.path().join("run")).unwrap();
    assert_eq!(indices(), ["model.ckpt-2.index", "model.ckpt-3.index"], "the older ones stay good");
    session.save().unwrap();
    assert_eq!(indices(), ["model.ckpt-3.index", "model.ckpt-5.index"]);
    supervisor.stop(session).unwrap();
}

/// A part that one server wrote is not left behind when another could not write its own.
#[test]
fn a_save_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path().join("run"));
    let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
    let supervisor = Supervisor::new(&cluster.trainers()[0], Sgd::new(0.1)).run_dir(dir.clone()).save_model_secs(None);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    session.step(|model| model.kernel.val().sum()).unwrap();
    session.step(|model| model.kernel.val().sum()).unwrap();
    // A directory where the data file of the checkpoint should go: it cannot be published.
    std::fs::create_dir(folder.path().join("run/model.ckpt-1.data-00001-of-00002")).unwrap();
    session.save().unwrap_err();
    let client = connections::client(&cluster.trainers()[0]).unwrap();
    // Asked after the clean-up was started, on another connection: give it a moment.
    let staged = || {
        let names = std::fs::read_dir(folder.path().join("run")).unwrap();
        names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp")).count()
    };
    for _ in 0..100 {
        if staged() == 0 {
            break;
        }
        client.describe(0).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(staged(), 0);
    assert!(dir.list("model.ckpt-1.").unwrap().is_empty(), "nor a data file that was published already");
    assert_eq!(Checkpoint::open(&dir, "model.ckpt-0").unwrap().global_step().unwrap(), 0, "the older one stays");
    supervisor.stop(session).unwrap();
}

/// What was trained since is nowhere: a job that ends like that has not done its work, for whoever started it.
#[test]
fn a_chief_whose_last_checkpoint_cannot_be_saved_ends_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let cluster = MiniCluster::start_with(1, 1, quiet()).unwrap();
    let chief = &cluster.trainers()[0];
    let supervisor = Supervisor::new(chief, Sgd::new(0.1)).run_dir(Dir::local(&run)).save_model_secs(None);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    session.step(|model| model.kernel.val().sum()).unwrap();
    session.step(|model| model.kernel.val().sum()).unwrap();
    session.save().unwrap();
    // A file where the directory was: nothing can be written there any more.
    std::fs::rename(&run, folder.path().join("away")).unwrap();
    std::fs::write(&run, "in the way").unwrap();
    let error = supervisor.stop(session).unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::StorageWrite, "the last checkpoint was not saved"));
    assert_ne!(error.exit_code(), 0);
    let place = error.place().unwrap();
    assert!(place.starts_with(run.to_str().unwrap()) && place.ends_with("step 2"), "{place}");
    assert!(error.next().unwrap().contains("model.ckpt-1, the newest checkpoint"), "{error:?}");
    // The others hear it, too: a server that waits for the end of the job does not end well.
    assert_eq!(cluster.servers()[0].join().unwrap_err().code(), Code::StorageWrite);
}

#[test]
fn a_save_that_succeeds_is_not_blamed_for_one_that_failed_before() {
    let folder = tempfile::tempdir().unwrap();
    let (run, away) = (folder.path().join("run"), folder.path().join("away"));
    let said = Arc::new(std::sync::Mutex::new(String::new()));
    let heard = Arc::clone(&said);
    let options = ServerOptions { say: Arc::new(move |line| heard.lock().unwrap().push_str(line)), ..quiet() };
    let cluster = MiniCluster::start_with(1, 1, options).unwrap();
    let supervisor = Supervisor::new(&cluster.trainers()[0], Sgd::new(0.1))
        .run_dir(Dir::local(&run))
        .save_model_secs(None)
        .save_model_steps(1);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    session.save().unwrap();
    std::fs::rename(&run, &away).unwrap();
    std::fs::write(&run, "in the way").unwrap();
    for _ in 0..500 {
        session.step(|model| model.kernel.val().sum()).unwrap();
        if said.lock().unwrap().contains("no checkpoint was saved") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(said.lock().unwrap().contains("no checkpoint was saved"), "by itself, at its pace");
    std::fs::remove_file(&run).unwrap();
    std::fs::rename(&away, &run).unwrap();
    session.step(|model| model.kernel.val().sum()).unwrap();
    session.save().unwrap();
    supervisor.stop(session).unwrap();
}

#[test]
fn who_removes_the_file_checkpoint_starts_anew_and_one_that_cannot_be_read_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path());
    train(1, Sgd::new(0.1).into(), &dir, 3, false);
    let state = folder.path().join("checkpoint");
    std::fs::write(&state, "model_checkpoint_path: \"model").unwrap();
    let catalog = phalanx_train::checkpoint::Catalog::open(&dir, "model.ckpt", Default::default()).unwrap();
    assert_eq!(catalog.newest_first(), ["model.ckpt-3", "model.ckpt-0"]);
    assert!(catalog.remark().unwrap().contains("checkpoint"), "{:?}", catalog.remark());
    assert_eq!(train(1, Sgd::new(0.1).into(), &dir, 4, false).1, 3);
    std::fs::remove_file(&state).unwrap();
    assert_eq!(train(1, Sgd::new(0.1).into(), &dir, 2, false).1, 0, "as TensorFlow does");
}

/// A supervisor over a cluster of its own that keeps itself in `dir`, with one server and one trainer.
fn keeping(cluster: &MiniCluster, dir: &Dir) -> Supervisor {
    Supervisor::new(&cluster.trainers()[0], Sgd::new(0.1)).run_dir(dir.clone()).save_model_secs(None)
}

#[test]
fn a_second_job_in_the_same_run_directory_is_refused_and_told_who_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path().join("run"));
    let (first, second) =
        (MiniCluster::start_with(1, 1, quiet()).unwrap(), MiniCluster::start_with(1, 1, quiet()).unwrap());
    let supervisor = keeping(&first, &dir);
    let session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    let refused = keeping(&second, &dir).prepare_or_wait_for_session(Model::new(3)).err().expect("it is refused");
    assert_eq!(refused.code(), Code::RunDirInUse);
    let (why, pid) = (refused.why().unwrap(), std::process::id());
    assert!(why.contains(&format!("process {pid} on ")), "{refused}");
    // Whoever only reads needs no lock.
    let catalog = phalanx_train::checkpoint::Catalog::open(&dir, "model.ckpt", Default::default()).unwrap();
    assert_eq!(catalog.newest_first(), ["model.ckpt-0"]);
    supervisor.stop(session).unwrap();
    let third = MiniCluster::start_with(1, 1, quiet()).unwrap();
    let supervisor = keeping(&third, &dir);
    let session = supervisor.prepare_or_wait_for_session(Model::new(3)).expect("the first one is gone");
    supervisor.stop(session).unwrap();
}

#[test]
fn a_look_at_checkpoints_makes_no_directory() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("nothing/here");
    let catalog =
        phalanx_train::checkpoint::Catalog::open(&Dir::local(&run), "model.ckpt", Default::default()).unwrap();
    assert!(catalog.newest_first().is_empty() && !folder.path().join("nothing").exists());
}

#[test]
fn a_run_directory_that_was_deleted_is_noticed_and_the_next_checkpoint_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let dir = Dir::local(&run);
    let said = Arc::new(std::sync::Mutex::new(String::new()));
    let heard = Arc::clone(&said);
    let options = ServerOptions { say: Arc::new(move |line| heard.lock().unwrap().push_str(line)), ..quiet() };
    let cluster = MiniCluster::start_with(1, 1, options).unwrap();
    let supervisor = keeping(&cluster, &dir);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    for _ in 0..2 {
        session.step(|model| model.kernel.val().sum()).unwrap();
    }
    session.save().unwrap();
    std::fs::remove_dir_all(&run).unwrap();
    session.step(|model| model.kernel.val().sum()).unwrap();
    session.save().unwrap();
    let said = said.lock().unwrap().clone();
    assert_eq!(said.matches("PX0505").count(), 1, "{said}");
    assert!(said.contains("deleted while the job runs"), "{said}");
    let catalog = phalanx_train::checkpoint::Catalog::open(&dir, "model.ckpt", Default::default()).unwrap();
    assert_eq!(catalog.newest_first(), ["model.ckpt-2"], "none that is gone is named");
    Checkpoint::open(&dir, "model.ckpt-2").unwrap().tensors().verify().unwrap();
    supervisor.stop(session).unwrap();
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
        let mut bytes = whole.clone();
        bytes[20] ^= 0x10;
        std::fs::write(&file, bytes).unwrap();
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

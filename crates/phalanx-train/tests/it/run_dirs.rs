//! Run directories: retention, failing saves, locks, deletion.

use crate::checkpoints::{Model, step, table, train};
use crate::support::{quiet, until};
use phalanx_base::Code;
use phalanx_optim::Sgd;
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_storage::Dir;
use phalanx_train::checkpoint::{BASENAME, CheckpointStore, Retention};
use phalanx_train::testing::{LogEvent, LogRecorder};
use phalanx_train::{MiniCluster, Session, Supervisor};

/// Returns the supervisor of a cluster's chief, which saves only at the start and at the end.
fn supervisor_of(cluster: &MiniCluster, dir: &Dir) -> Supervisor {
    Supervisor::new(&cluster.trainers()[0], Sgd::new(0.1)).run_dir(dir.clone()).save_model_secs(None)
}

fn steps(session: &mut Session<Model>, count: usize) {
    (0..count).for_each(|_| _ = session.step(|model| model.kernel.val().sum()).unwrap());
}

#[test]
fn old_checkpoints_go_and_a_directory_that_cannot_be_written_does_not_stop_training() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path().join("run"));
    let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
    let mut supervisor = supervisor_of(&cluster, &dir).max_to_keep(2);
    supervisor.table(table(2, Sgd::new(0.1).into())).unwrap();
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
    // The directory becomes a file, so nothing can be written to it.
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

/// The part that one server wrote is removed when another could not write its own.
#[test]
fn a_save_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path().join("run"));
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let supervisor = supervisor_of(&cluster, &dir);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    steps(&mut session, 2);
    // A directory where the data file of the checkpoint should go: it cannot be published.
    std::fs::create_dir(folder.path().join("run/model.ckpt-1.data-00001-of-00002")).unwrap();
    session.save().unwrap_err();
    let staged = || {
        let names = std::fs::read_dir(folder.path().join("run")).unwrap();
        names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp")).count()
    };
    // The clean-up runs on another connection.
    until("staged files are removed", || staged() == 0);
    assert!(dir.list("model.ckpt-1.").unwrap().is_empty(), "nor a data file that was published already");
    assert_eq!(Checkpoint::open(&dir, "model.ckpt-0").unwrap().global_step().unwrap(), 0, "the older one stays");
    supervisor.stop(session).unwrap();
}

/// The last updates are lost, so the job must not exit with success.
#[test]
fn a_chief_whose_last_checkpoint_cannot_be_saved_ends_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
    let supervisor = supervisor_of(&cluster, &Dir::local(&run));
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    steps(&mut session, 2);
    session.save().unwrap();
    // The directory becomes a file, so nothing can be written to it.
    std::fs::rename(&run, folder.path().join("away")).unwrap();
    std::fs::write(&run, "in the way").unwrap();
    let error = supervisor.stop(session).unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::StorageWrite, "the last checkpoint was not saved"));
    assert_ne!(error.exit_code(), 0);
    let place = error.place().unwrap();
    assert!(place.starts_with(run.to_str().unwrap()) && place.ends_with("step 2"), "{place}");
    assert!(error.next().unwrap().contains("model.ckpt-1, the newest checkpoint"), "{error:?}");
    // A server that waits for the end of the job gets the error, too.
    assert_eq!(cluster.servers()[0].join().unwrap_err().code(), Code::StorageWrite);
}

#[test]
fn a_save_that_succeeds_is_not_blamed_for_one_that_failed_before() {
    let folder = tempfile::tempdir().unwrap();
    let (run, away) = (folder.path().join("run"), folder.path().join("away"));
    let log = LogRecorder::default();
    let cluster = log.record(|| MiniCluster::start_with(1, 0, quiet())).unwrap();
    let supervisor = supervisor_of(&cluster, &Dir::local(&run)).save_model_steps(1);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    session.save().unwrap();
    std::fs::rename(&run, &away).unwrap();
    std::fs::write(&run, "in the way").unwrap();
    until("the failed save is logged", || {
        steps(&mut session, 1);
        log.contains("no checkpoint was saved")
    });
    std::fs::remove_file(&run).unwrap();
    std::fs::rename(&away, &run).unwrap();
    steps(&mut session, 1);
    session.save().unwrap();
    supervisor.stop(session).unwrap();
}

#[test]
fn without_the_file_checkpoint_a_job_starts_over_and_a_damaged_one_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path());
    train(1, Sgd::new(0.1).into(), &dir, 3, false);
    let state = folder.path().join("checkpoint");
    std::fs::write(&state, "model_checkpoint_path: \"model").unwrap();
    let catalog = CheckpointStore::open(&dir, BASENAME, Retention::default()).unwrap();
    assert_eq!(catalog.newest_first(), ["model.ckpt-3", "model.ckpt-0"]);
    assert!(catalog.warning().unwrap().contains("checkpoint"), "{:?}", catalog.warning());
    assert_eq!(train(1, Sgd::new(0.1).into(), &dir, 4, false).1, 3);
    std::fs::remove_file(&state).unwrap();
    assert_eq!(train(1, Sgd::new(0.1).into(), &dir, 2, false).1, 0, "as TensorFlow does");
}

#[test]
fn a_second_job_in_the_same_run_directory_is_refused_and_told_who_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::local(folder.path().join("run"));
    let (first, second) =
        (MiniCluster::start_with(1, 0, quiet()).unwrap(), MiniCluster::start_with(1, 0, quiet()).unwrap());
    let supervisor = supervisor_of(&first, &dir);
    let session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    let refused = supervisor_of(&second, &dir).prepare_or_wait_for_session(Model::new(3)).err().expect("it is refused");
    assert_eq!(refused.code(), Code::RunDirInUse);
    let (why, pid) = (refused.why().unwrap(), std::process::id());
    assert!(why.contains(&format!("process {pid} on ")), "{refused}");
    // Reading needs no lock.
    let catalog = CheckpointStore::open(&dir, BASENAME, Retention::default()).unwrap();
    assert_eq!(catalog.newest_first(), ["model.ckpt-0"]);
    supervisor.stop(session).unwrap();
    let third = MiniCluster::start_with(1, 0, quiet()).unwrap();
    let supervisor = supervisor_of(&third, &dir);
    let session = supervisor.prepare_or_wait_for_session(Model::new(3)).expect("the first one is gone");
    supervisor.stop(session).unwrap();
}

#[test]
fn a_look_at_checkpoints_makes_no_directory() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("nothing/here");
    let catalog = CheckpointStore::open(&Dir::local(&run), BASENAME, Retention::default()).unwrap();
    assert!(catalog.newest_first().is_empty() && !folder.path().join("nothing").exists());
}

#[test]
fn a_run_directory_that_was_deleted_is_noticed_and_the_next_checkpoint_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let dir = Dir::local(&run);
    let log = LogRecorder::default();
    let cluster = log.record(|| MiniCluster::start_with(1, 0, quiet())).unwrap();
    let supervisor = supervisor_of(&cluster, &dir);
    let mut session = supervisor.prepare_or_wait_for_session(Model::new(3)).unwrap();
    steps(&mut session, 2);
    session.save().unwrap();
    std::fs::remove_dir_all(&run).unwrap();
    steps(&mut session, 1);
    session.save().unwrap();
    let deleted = |event: &LogEvent| event.field("code").as_deref() == Some("PX0505");
    assert_eq!(log.events().iter().filter(|event| deleted(event)).count(), 1, "{log:?}");
    assert!(log.contains("deleted while the job runs"), "{log:?}");
    let catalog = CheckpointStore::open(&dir, BASENAME, Retention::default()).unwrap();
    assert_eq!(catalog.newest_first(), ["model.ckpt-2"], "none that is gone is named");
    Checkpoint::open(&dir, "model.ckpt-2").unwrap().tensors().verify().unwrap();
    supervisor.stop(session).unwrap();
}

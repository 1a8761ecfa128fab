//! A job whose trainers share files: every row counts once, nobody hangs at an uneven end, and a job that is killed goes on
//! with the next row.

use phalanx::data::{Dataset, Position, SourceExt, csv};
use phalanx::prelude::*;
use phalanx_tests::ledger::{self, Ledger};
use phalanx_tests::within;
use phalanx_train::testing::LogRecorder;
use std::path::Path;
use std::time::Duration;

/// Files with these numbers of rows; every row has its own number.
fn write(folder: &Path, files: &[usize]) -> i64 {
    let mut row = 0;
    for (file, rows) in files.iter().enumerate() {
        let mut text = "number\n".to_owned();
        for _ in 0..*rows {
            text += &format!("{row}\n");
            row += 1;
        }
        std::fs::write(folder.join(format!("part-{file}.csv")), text).unwrap();
    }
    row
}

fn dataset(folder: &Path) -> Dataset {
    csv(folder.join("part-*.csv").to_string_lossy().into_owned()).column("number", phalanx::data::DType::I64).dataset()
}

/// Runs one epoch of a job with two trainers; returns the rows that each saw, and the log lines about sharding.
fn epoch(files: &[usize], sync: bool) -> (Vec<Vec<i64>>, Vec<String>, i64) {
    let folder = tempfile::tempdir().unwrap();
    let all = write(folder.path(), files);
    let log = LogRecorder::default();
    let cluster = log.record(|| MiniCluster::start(2, 1)).unwrap();
    let work = |server: &Server| -> Vec<i64> {
        let mut supervisor = ledger::supervisor(server, Partitioner::FixedShards(2));
        if sync {
            supervisor = supervisor.sync(SyncReplicas::default());
        }
        let mut session = supervisor.prepare_or_wait_for_session(Ledger::default()).unwrap();
        let mut seen = Vec::new();
        for batch in server.share(&dataset(folder.path())).unwrap().batch(4).iter().unwrap() {
            let batch = batch.unwrap();
            seen.extend_from_slice(batch.i64("number").unwrap());
            session.step(Ledger::sum).unwrap().expect("the job goes on while somebody has input");
        }
        supervisor.stop_with_workers(session).unwrap();
        seen
    };
    let seen = std::thread::scope(|scope| {
        let workers: Vec<_> = cluster.trainers().iter().map(|server| scope.spawn(|| work(server))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    cluster.servers().iter().for_each(|server| server.join().unwrap());
    let mut said = log.lines();
    said.retain(|line| line.contains("worker") && line.contains(" of 2 "));
    (seen, said, all)
}

#[test]
fn every_row_goes_to_one_trainer_whatever_the_files() {
    for (files, how) in [
        (vec![10, 10, 10], "files"),
        (vec![31], "element"),
        (vec![1, 40, 0, 7, 3, 25, 2], "files"),
        (vec![0, 5], "files"),
    ] {
        for sync in [false, true] {
            let files = files.clone();
            within(Duration::from_secs(60), "the job hangs", move || {
                let (seen, lines, all) = epoch(&files, sync);
                let mut rows: Vec<i64> = seen.concat();
                rows.sort_unstable();
                assert_eq!(rows, (0..all).collect::<Vec<_>>(), "{files:?}: {seen:?}");
                assert_eq!(lines.len(), 2, "each trainer logs it once: {lines:?}");
                assert!(lines.iter().all(|line| line.contains(how)), "{files:?}: {lines:?}");
            });
        }
    }
}

#[test]
fn a_job_that_is_started_again_goes_on_with_the_next_row() {
    within(Duration::from_secs(60), "the job hangs", || {
        let folder = tempfile::tempdir().unwrap();
        let all = write(folder.path(), &[9, 14, 30]);
        let run = folder.path().join("run");
        let mut seen = Vec::new();
        // Three incarnations: two end early, the last one at the end of its input.
        for steps in [5, 3, usize::MAX] {
            let server = Server::local().unwrap();
            let supervisor = ledger::supervisor(&server, Partitioner::Whole).logdir(&run.to_string_lossy()).unwrap();
            let mut session = supervisor.prepare_or_wait_for_session(Ledger::default()).unwrap();
            let data = dataset(folder.path()).shuffle_seeded(20, 7).batch(4);
            let mut rows = match session.restore_position() {
                Some(note) => data.iter_from(&Position::from_bytes(note).unwrap()).unwrap(),
                None => data.iter().unwrap(),
            };
            for _ in 0..steps {
                let Some(batch) = rows.next() else { break };
                seen.extend_from_slice(batch.unwrap().i64("number").unwrap());
                session.save_position(rows.position().to_bytes());
                session.step(Ledger::sum).unwrap();
            }
            supervisor.stop(session).unwrap();
        }
        let expected: Vec<i64> = dataset(folder.path())
            .shuffle_seeded(20, 7)
            .batch(4)
            .iter()
            .unwrap()
            .flat_map(|batch| batch.unwrap().i64("number").unwrap().to_vec())
            .collect();
        assert_eq!(seen, expected, "as if it had never been stopped");
        assert_eq!(seen.len() as i64, all);
    });
}

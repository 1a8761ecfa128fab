//! How a cluster in one process ends when one of its tasks fails.

use crate::support::{Line, quiet};
use phalanx_base::{Code, Error, Result};
use phalanx_optim::Sgd;
use phalanx_ps::Partitioner;
use phalanx_train::{MiniCluster, Server, ServerOptions, Supervisor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

/// Runs a job under [`MiniCluster::run`]; panics if it does not end.
fn run_cluster(
    ps: u32,
    trainers: u32,
    part: impl Fn(&Server) -> Result<u64> + Send + Sync + 'static,
) -> std::thread::Result<Result<u64>> {
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let cluster = MiniCluster::start_with(ps, trainers - 1, quiet()).unwrap();
        let ended = catch_unwind(AssertUnwindSafe(|| cluster.run(part)));
        let over = cluster.servers().iter().chain(cluster.trainers()).all(Server::should_stop);
        let _ = done.send((ended, over));
    });
    let (ended, over) = wait.recv_timeout(Duration::from_secs(60)).expect("the job ends");
    assert!(over, "every task has ended");
    ended
}

/// Trains until the job is over, or for `steps` of this trainer.
fn train_part(server: &Server, steps: usize) -> Result<u64> {
    let supervisor = Supervisor::new(server, Sgd::new(0.1));
    let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
    for _ in 0..steps {
        if session.step(Line::loss)?.is_none() {
            break;
        }
    }
    let reached = session.global_step();
    supervisor.stop(session)?;
    Ok(reached)
}

fn mistake() -> Error {
    Error::new(Code::BadSetting, "no such model")
}

const FOREVER: usize = usize::MAX;

#[test]
fn a_cluster_ends_with_the_error_of_its_chief() {
    let before_training =
        |server: &Server| if server.is_chief() { Err(mistake()) } else { train_part(server, FOREVER) };
    let error = run_cluster(2, 3, before_training).unwrap().unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::BadSetting, "no such model"));
    let in_the_middle = |server: &Server| {
        if !server.is_chief() {
            return train_part(server, FOREVER);
        }
        let supervisor = Supervisor::new(server, Sgd::new(0.1));
        let mut session = supervisor.prepare_or_wait_for_session(Line::new(1))?;
        session.step(Line::loss)?;
        Err(mistake())
    };
    let error = run_cluster(2, 3, in_the_middle).unwrap().unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::BadSetting, "no such model"));
}

#[test]
fn a_cluster_ends_with_the_panic_of_its_chief() {
    let part = |server: &Server| {
        assert!(!server.is_chief(), "this does not hold");
        train_part(server, FOREVER)
    };
    let panic = run_cluster(2, 3, part).unwrap_err();
    assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("this does not hold")));
}

#[test]
fn a_cluster_ends_with_the_error_of_a_worker() {
    let part = |server: &Server| {
        if server.task().to_string() == "worker/1" { Err(mistake()) } else { train_part(server, FOREVER) }
    };
    let error = run_cluster(2, 3, part).unwrap().unwrap_err();
    assert_eq!(error.code(), Code::BadSetting, "{error}");
    assert!(error.to_string().contains("no such model"), "{error}");
    // A lost worker does not end the job, but its error is returned.
    let part = |server: &Server| match server.task().to_string().as_str() {
        "worker/1" => Err(Error::new(Code::PeerUnreachable, "the machine is gone")),
        _ => train_part(server, 50),
    };
    let error = run_cluster(2, 3, part).unwrap().unwrap_err();
    assert_eq!((error.code(), error.what()), (Code::PeerUnreachable, "the machine is gone"));
}

#[test]
fn a_cluster_ends_with_the_panic_of_a_worker() {
    let part = |server: &Server| {
        assert!(server.is_chief(), "this does not hold");
        // The consequences of the worker's panic must not hide it.
        Ok(train_part(server, FOREVER).unwrap())
    };
    let panic = run_cluster(2, 2, part).unwrap_err();
    assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("this does not hold")));
}

#[test]
fn a_cluster_whose_parameter_server_goes_ends_with_an_error() {
    let cluster = MiniCluster::start_with(2, 1, quiet()).unwrap();
    let lost = cluster.servers()[1].clone();
    let part = move |server: &Server| {
        if server.is_chief() {
            server.wait_until_formed()?;
            lost.leave(Some(&Error::new(Code::ServerLost, "the machine is gone")));
        }
        train_part(server, FOREVER)
    };
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(cluster.run(part)));
    let error = wait.recv_timeout(Duration::from_secs(60)).expect("the job ends").unwrap_err();
    assert_eq!(error.code(), Code::ServerLost, "{error}");
}

/// A lost worker does not end the job; a chief that returns without an error does.
#[test]
fn a_part_that_just_returns_ends_its_task() {
    let part = |server: &Server| if server.is_chief() { train_part(server, 50) } else { Ok(0) };
    let error = run_cluster(1, 2, part).unwrap();
    assert!(error.is_ok_and(|reached| reached >= 49));
    let part = |server: &Server| if server.is_chief() { Ok(0) } else { train_part(server, FOREVER) };
    let error = run_cluster(1, 2, part).unwrap().unwrap_err();
    assert_eq!(error.code(), Code::JobFailed, "{error}");
    assert!(error.to_string().contains("chief/0 stopped without finishing its part"), "{error}");
}

#[test]
fn a_server_that_is_gone_is_named_and_not_one_that_left_with_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let (lease, grace) = (Duration::from_millis(300), Duration::from_millis(300));
    let options = ServerOptions { lease, server_grace: grace, beat: Duration::from_millis(20), ..quiet() };
    let cluster = MiniCluster::start_with(2, 1, options).unwrap();
    let of_the_trainers = Mutex::new(Vec::new());
    let ended = cluster.run(|server| {
        let supervisor = Supervisor::new(server, Sgd::new(0.1)).partitioner(Partitioner::FixedShards(2));
        let supervisor = supervisor.logdir(dir.path().to_str().unwrap())?;
        let mut session = supervisor.prepare_or_wait_for_session(Line::new(4))?;
        let mut steps = 0;
        let trained = loop {
            match session.step(Line::loss) {
                Ok(Some(_)) => steps += 1,
                Ok(None) => break session.finish(),
                Err(error) => break Err(error),
            }
            if steps == 5 && server.is_chief() {
                cluster.kill("ps/1")?;
            }
        };
        of_the_trainers.lock().unwrap().push(trained.clone());
        trained.and_then(|()| supervisor.stop(session))
    });
    let error = ended.unwrap_err();
    assert!(error.to_string().contains("ps/1"), "{}", error.report());
    for trained in of_the_trainers.into_inner().unwrap() {
        let error = trained.unwrap_err();
        assert!(!error.report().to_string().contains("ps/0"), "a healthy server is blamed: {}", error.report());
        assert!(error.report().to_string().contains("ps/1"), "{}", error.report());
    }
}

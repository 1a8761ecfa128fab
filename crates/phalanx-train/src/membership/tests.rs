//! A member and a chief with a half-open connection between them.

use super::chief::Chief;
use super::identity::TaskIdentity;
use super::member::Member;
use crate::job::Job;
use crate::logging::LogScope;
use crate::{Interrupt, ServerOptions};
use phalanx_base::{Incarnation, Role, TaskId};
use phalanx_cluster::Phase;
use phalanx_wire::{Address, Endpoint, Listening};
use std::io::copy;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

const CHIEF: TaskId = TaskId { role: Role::Chief, index: 0 };
const WORKER: TaskId = TaskId { role: Role::Worker, index: 0 };

fn identity(task: TaskId) -> TaskIdentity {
    let (job, build, address) = ("a:1/0".to_owned(), "b".to_owned(), "a:1".to_owned());
    TaskIdentity { job, task, incarnation: Incarnation(1), build, address }
}

fn loopback(port: u16) -> Address {
    format!("127.0.0.1:{port}").parse().unwrap()
}

/// A proxy to `port` whose first connection swallows everything, as a half-open one does. It has the same port at another
/// address, because the port is part of the handshake.
fn half_open(port: u16) -> Address {
    let listener = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let own = format!("127.0.0.2:{port}").parse().unwrap();
    std::thread::spawn(move || {
        let mut dead = None;
        while let Ok((from, _)) = listener.accept() {
            if dead.is_none() {
                dead = Some(from);
                continue;
            }
            let to = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from_again, mut to_again) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || copy(&mut from_again, &mut &to));
            std::thread::spawn(move || copy(&mut to_again, &mut &from));
        }
    });
    own
}

#[test]
fn a_beat_that_is_stuck_on_a_dead_connection_does_not_cost_the_lease() {
    let options = ServerOptions::default();
    let job = || Arc::new(Job::new(Interrupt::default()));
    let mut listening = Listening::bind(&loopback(0), 1).unwrap();
    let others = vec![(WORKER, loopback(1))];
    let control = Arc::new(Chief::new(identity(CHIEF), others, job(), options.clone(), LogScope::of_task(CHIEF)));
    let port = listening.port();
    listening.serve(Endpoint { control, bulk: None, token: None }).unwrap();
    let (lease, heard) = (options.lease, job());
    let member =
        Member::new(identity(WORKER), (CHIEF, half_open(port)), Arc::clone(&heard), options, LogScope::of_task(WORKER));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let started = Instant::now();
    let until_running = async {
        while heard.phase() != Phase::Running && started.elapsed() < lease {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    runtime.block_on(async {
        tokio::select! {
            () = member.watch() => {}
            () = until_running => {}
        }
    });
    assert_eq!(heard.phase(), Phase::Running, "no beat got through in {lease:?}");
}

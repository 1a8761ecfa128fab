//! Steps whose exchange overlaps the computation of the previous step.

use crate::support::quiet;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx_base::{Code, Result};
use phalanx_nn::default_device;
use phalanx_optim::Sgd;
use phalanx_ps::plan::RowInitializer;
use phalanx_ps::{Client, TableSpec};
use phalanx_train::testing::connections;
use phalanx_train::{
    MiniCluster, ParameterServerOptions, Server, Session, StepFunctions, Strategy, Supervisor, SyncReplicas,
};
use phalanx_wire::bulk::{self, Pending, Transport};
use phalanx_wire::{InFrame, OutFrame, Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const RATE: f32 = 0.25;

#[derive(Module, Debug)]
struct Number {
    w: Param<Tensor<1>>,
}

fn number() -> Number {
    Number { w: Param::from_tensor(Tensor::zeros([1], &default_device())) }
}

/// Returns half the squared distance from one, and records the value in `seen`.
fn loss(model: &Number, seen: &mut Vec<f32>) -> Tensor<1> {
    seen.push(model.w.val().into_data().as_slice::<f32>().unwrap()[0]);
    (model.w.val() - 1.0).powf_scalar(2.0).sum() * 0.5
}

/// Returns the values that steps see when they lack the last `behind` updates, and the final value.
fn expected(steps: usize, behind: usize) -> (Vec<f32>, f32) {
    let mut values = vec![0.0_f32];
    let mut seen = Vec::new();
    for step in 0..steps {
        seen.push(values[step.saturating_sub(behind)]);
        values.push(values[step] - RATE * (seen[step] - 1.0));
    }
    (seen, values[steps])
}

fn supervisor(server: &Server) -> Supervisor {
    let (name, initializer) = ("t".to_owned(), RowInitializer::constant(0.0));
    let table = TableSpec { name, dim: 1, initializer, optimizer: Sgd::new(RATE).into() };
    let mut supervisor = Supervisor::new(server, Sgd::new(RATE)).overlap(true);
    supervisor.table(table).unwrap();
    supervisor
}

fn exchanges(cluster: &MiniCluster) -> u64 {
    cluster.servers().iter().map(|server| server.store().unwrap().load().exchanges).sum()
}

#[test]
fn a_step_is_computed_on_values_that_lack_its_tasks_last_update() {
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let supervisor = supervisor(&cluster.trainers()[0]);
    let mut session = supervisor.prepare_or_wait_for_session(number()).unwrap();
    let mut seen = Vec::new();
    for step in 0..20 {
        let done = session.step(|model| loss(model, &mut seen)).unwrap().unwrap();
        assert_eq!(done.global_step, step, "those under way are counted");
    }
    session.finish().unwrap();
    session.refresh().unwrap();
    let (wanted, last) = expected(20, 1);
    assert_eq!((seen, session.global_step()), (wanted, 20));
    assert_eq!(session.values().unwrap()[0].2, [last]);
    supervisor.stop(session).unwrap();
}

/// Makes one step on a row, with the same loss.
fn row_step(session: &mut Session<Number>, id: i64, seen: &mut Vec<f32>) -> Result<()> {
    let table = session.table("t")?;
    let step = session.step_with_rows(&[(table, &[id])], |model, rows| {
        let row = rows[0].lookup();
        seen.push(row.clone().into_data().as_slice::<f32>().unwrap()[0]);
        (row - 1.0).powf_scalar(2.0).sum() * 0.5 + model.w.val().sum()
    })?;
    assert!(step.is_some());
    Ok(())
}

#[test]
fn rows_that_were_announced_are_fetched_while_the_step_before_is_computed() {
    let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
    let supervisor = supervisor(&cluster.trainers()[0]);
    let mut session = supervisor.prepare_or_wait_for_session(number()).unwrap();
    let (mut seen, before) = (Vec::new(), exchanges(&cluster));
    for _ in 0..10 {
        session.announce(&[(session.table("t").unwrap(), &[7])]).unwrap();
        row_step(&mut session, 7, &mut seen).unwrap();
    }
    assert_eq!(seen, expected(10, 1).0);
    session.finish().unwrap();
    // One for each step, one more for the first, and the last push.
    assert_eq!(exchanges(&cluster) - before, 12);
    let mut other = Supervisor::new(&cluster.trainers()[0], Sgd::new(RATE));
    let table = |name: &str| {
        let initializer = RowInitializer::constant(0.0);
        TableSpec { name: name.into(), dim: 1, initializer, optimizer: Sgd::new(RATE).into() }
    };
    other.table(table("t")).unwrap();
    let stranger = other.table(table("u")).unwrap();
    assert_eq!(session.announce(&[(stranger, &[7])]).unwrap_err().code(), Code::NoSuchVariable);
    supervisor.stop(session).unwrap();
}

#[test]
fn rows_that_were_not_announced_are_the_newest() {
    let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
    let supervisor = supervisor(&cluster.trainers()[0]);
    let mut session = supervisor.prepare_or_wait_for_session(number()).unwrap();
    let mut seen = Vec::new();
    for step in 0..10 {
        if step % 2 == 0 {
            // Not the row that the step uses.
            session.announce(&[(session.table("t").unwrap(), &[8])]).unwrap();
        }
        row_step(&mut session, 7, &mut seen).unwrap();
    }
    assert_eq!(seen, expected(10, 0).0);
    session.finish().unwrap();
    assert_eq!(session.global_step(), 10);
    // The number beside it got every update, too: its gradient is one.
    assert_eq!(session.values().unwrap()[0].2, [-10.0 * RATE]);
    supervisor.stop(session).unwrap();
}

#[test]
fn values_that_were_replaced_are_those_of_the_next_step() {
    let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
    let supervisor = supervisor(&cluster.trainers()[0]);
    let mut session = supervisor.prepare_or_wait_for_session(number()).unwrap();
    let mut seen = Vec::new();
    (0..3).for_each(|_| _ = session.step(|model| loss(model, &mut seen)).unwrap());
    session.finish().unwrap();
    let five = Number { w: Param::from_tensor(Tensor::from_floats([5.0], &default_device())) };
    session.replace(&five).unwrap();
    session.step(|model| loss(model, &mut seen)).unwrap();
    assert_eq!(seen[3], 5.0);
    supervisor.stop(session).unwrap();
}

/// A transport that fails while it is broken.
struct Breakable {
    way: Box<dyn Transport>,
    broken: Arc<AtomicBool>,
}

impl Transport for Breakable {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        if self.broken.load(Ordering::Acquire) {
            let error = phalanx_base::Error::new(Code::BadMessage, "broken");
            return Box::pin(async move { Outcome::Failed(error) });
        }
        self.way.call(frame, deadline)
    }

    fn peer(&self) -> &str {
        self.way.peer()
    }
}

#[test]
fn gradients_whose_exchange_failed_are_sent_again_and_count_once() {
    let cluster = MiniCluster::start_with(2, 0, quiet()).unwrap();
    let server = &cluster.trainers()[0];
    server.wait_until_formed().unwrap();
    let broken = Arc::new(AtomicBool::new(false));
    let ways = || {
        let ways = connections::servers(server).unwrap().into_iter().enumerate();
        let way = |(at, (task, address)): (usize, (phalanx_base::TaskId, phalanx_wire::Address))| {
            let way = bulk::reach(&address, task.to_string(), connections::client_options(server).token);
            // One of the two gets everything.
            if at == 0 { way } else { Box::new(Breakable { way, broken: Arc::clone(&broken) }) as Box<dyn Transport> }
        };
        ways.map(way).collect()
    };
    let client = Client::over(ways, connections::client_options(server)).unwrap();
    let supervisor = supervisor(server);
    let mut session = connections::session_over(&supervisor, number(), client).unwrap();
    let mut seen = Vec::new();
    (0..5).for_each(|_| _ = session.step(|model| loss(model, &mut seen)).unwrap());
    broken.store(true, Ordering::Release);
    // The exchange of the next step fails, if not that of the last; the step after it hears of it.
    let error = (0..3).find_map(|_| session.step(|model| loss(model, &mut seen)).err()).unwrap();
    assert_eq!(error.what(), "broken");
    assert_eq!(session.step(|model| loss(model, &mut seen)).unwrap_err().what(), "broken");
    broken.store(false, Ordering::Release);
    (0..4).for_each(|_| _ = session.step(|model| loss(model, &mut seen)).unwrap());
    session.finish().unwrap();
    assert_eq!(session.global_step(), seen.len() as u64);
    let mut value = 0.0;
    seen.iter().for_each(|seen| value -= RATE * (seen - 1.0));
    assert_eq!(session.values().unwrap()[0].2, [value]);
    supervisor.stop(session).unwrap();
}

#[test]
fn a_job_of_one_process_has_nothing_to_wait_for() {
    let server = Server::local().unwrap();
    let supervisor = supervisor(&server);
    let mut session = supervisor.prepare_or_wait_for_session(number()).unwrap();
    let mut seen = Vec::new();
    (0..5).for_each(|_| _ = session.step(|model| loss(model, &mut seen)).unwrap());
    assert_eq!(seen, expected(5, 0).0);
    supervisor.stop(session).unwrap();
}

#[test]
fn steps_of_a_round_or_of_a_coordinator_do_not_overlap() {
    let cluster = MiniCluster::start_with(1, 0, quiet()).unwrap();
    let server = &cluster.trainers()[0];
    let supervised = supervisor(server).sync(SyncReplicas::default());
    let error = supervised.prepare_or_wait_for_session(number()).err().unwrap();
    assert_eq!((error.code(), error.why().unwrap()), (Code::BadSetting, "it trains synchronously"));
    let cluster = MiniCluster::start_with(1, 1, quiet()).unwrap();
    let server = &cluster.trainers()[0];
    let strategy = Strategy::parameter_server_on(server, ParameterServerOptions::default()).unwrap();
    let error = strategy.coordinate(number(), supervisor(server), StepFunctions::new(), |_| Ok(())).unwrap_err();
    assert_eq!((error.code(), error.why().unwrap()), (Code::BadSetting, "a coordinator hands out its steps"));
}

//! Steps too large for one message: wherever a trainer dies, after any part on any server, each step still counts once.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx::prelude::*;
use phalanx_base::Error as PhalanxError;
use phalanx_ps::Client;
use phalanx_ps::proto::{Request, request};
use phalanx_tests::within;
use phalanx_train::testing::connections;
use phalanx_wire::bulk::{self, Pending, Transport};
use phalanx_wire::{InFrame, OutFrame, Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const DIM: usize = 1024;
const SERVERS: usize = 2;

#[derive(Module, Debug)]
struct Big {
    numbers: Param<Tensor<1>>,
}

/// How many parts of pushes each server is to get, and how many it got.
struct Parts {
    cuts: [usize; SERVERS],
    arrived: [AtomicUsize; SERVERS],
}

/// Fails once its server has got its number of parts.
struct Truncated {
    way: Box<dyn Transport>,
    server: usize,
    left: AtomicUsize,
    parts: Arc<Parts>,
}

impl Transport for Truncated {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        Box::pin(async move {
            let ask: Request = frame.to_in_frame().and_then(|frame| frame.header()).expect("our own frame");
            let is_push = matches!(ask.op, Some(request::Op::Exchange(ask)) if ask.update.is_some());
            if is_push && self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_err() {
                // This failure ends the exchange with all servers; each is to get its parts first.
                while (0..SERVERS).any(|at| self.parts.arrived[at].load(Ordering::Acquire) < self.parts.cuts[at]) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                return Outcome::Failed(PhalanxError::new(Code::JobFailed, "a test killed this trainer"));
            }
            let answer = self.way.call(frame, deadline).await;
            self.parts.arrived[self.server].fetch_add(usize::from(is_push), Ordering::AcqRel);
            answer
        })
    }

    fn peer(&self) -> &str {
        self.way.peer()
    }
}

/// What a step touches: numbers of the variable (all of them), and rows of the table.
#[derive(Clone, Copy)]
struct Sizes {
    dense: usize,
    rows: i64,
}

impl Sizes {
    fn session(self, server: &Server, cuts: [usize; SERVERS]) -> Session<Big> {
        let (initializer, optimizer) = (RowInitializer::constant(0.0), Sgd::new(1.0).into());
        let table = TableSpec { name: "rows".into(), dim: DIM, initializer, optimizer };
        let mut supervisor = Supervisor::new(server, Sgd::new(1.0)).partitioner(Partitioner::FixedShards(SERVERS));
        supervisor.table(table).unwrap();
        let ways = || {
            let parts = Arc::new(Parts { cuts, arrived: Default::default() });
            let lane = |(at, (task, address)): (usize, (TaskId, _))| {
                let way = bulk::reach(&address, task.to_string(), connections::client_options(server).token);
                let (left, parts) = (AtomicUsize::new(cuts[at]), Arc::clone(&parts));
                Box::new(Truncated { way, server: at, left, parts }) as Box<dyn Transport>
            };
            connections::servers(server).expect("the cluster has servers").into_iter().enumerate().map(lane).collect()
        };
        let client = Client::over(ways, connections::client_options(server)).unwrap();
        let numbers = Param::from_tensor(Tensor::zeros([self.dense], &default_device()));
        connections::session_over(&supervisor, Big { numbers }, client).unwrap()
    }

    fn step(self, session: &mut Session<Big>, rows: i64) -> phalanx::Result<Option<Step>> {
        let ids: Vec<i64> = (0..rows).collect();
        let table = session.table("rows")?;
        session.step_with_rows(&[(table, &ids)], |model, rows| model.numbers.val().sum() + rows[0].lookup().sum())
    }

    /// Kills one trainer after each possible number of parts on each server; the values must be right in the end.
    fn survive_every_cut(self, parts: usize) {
        let cuts: Vec<[usize; SERVERS]> = (0..=parts).flat_map(|a| (0..=parts).map(move |b| [a, b])).collect();
        let (beat, build) = (Duration::from_millis(20), Some("test".to_owned()));
        let options = ServerOptions { beat, build, ..ServerOptions::default() };
        let cluster = MiniCluster::start_with(SERVERS as u32, cuts.len() as u32, options).unwrap();
        let chief = &cluster.trainers()[0];
        let mut session = self.session(chief, [usize::MAX; SERVERS]);
        for _ in 0..2 {
            self.step(&mut session, 4).unwrap();
        }
        let mut own = 2;
        let mut killed = 0;
        for (cut, worker) in cuts.iter().zip(&cluster.trainers()[1..]) {
            let mut lost = self.session(worker, *cut);
            self.step(&mut lost, self.rows).unwrap();
            let end = self.step(&mut lost, self.rows).map(drop);
            assert_eq!(
                end.is_ok(),
                *cut == [parts; SERVERS],
                "a step has {parts} parts on each server: {cut:?} {end:?}"
            );
            killed += u64::from(*cut != [0; SERVERS]);
            worker.leave(Some(&PhalanxError::new(Code::JobFailed, "killed")));
            self.step(&mut session, 4).unwrap();
            own += 1;
            let held = session.values().unwrap();
            let step = session.global_step();
            assert_eq!(step, own - 1 + killed, "every step that reached a server counts once: {cut:?}");
            let wrong = held[0].2.iter().filter(|&&x| x != -(step as f32)).count();
            assert_eq!(wrong, 0, "{cut:?}: {wrong} numbers are not -{step}");
        }
        session.finish().unwrap();
        chief.leave(None);
        cluster.servers().iter().for_each(|server| server.join().unwrap());
    }
}

#[test]
fn a_step_with_many_numbers_counts_once_wherever_it_was_cut() {
    let sizes = Sizes { dense: 6 << 20, rows: 4 };
    within(Duration::from_secs(120), "the job hangs", move || sizes.survive_every_cut(2));
}

#[test]
fn a_step_with_many_rows_counts_once_even_if_it_is_finished_with_few() {
    let sizes = Sizes { dense: 10, rows: 5000 };
    // The last of three parts pulls rows and pushes none.
    within(Duration::from_secs(120), "the job hangs", move || sizes.survive_every_cut(3));
}

/// Trains all rows of a table with Adam and a gradient of 1, in `sets` sets of rows, and returns the mean of the rows after
/// three steps.
fn mean_after_three_steps(rows: i64, sets: i64) -> f32 {
    let cluster = MiniCluster::start(1, 0).unwrap();
    let chief = &cluster.trainers()[0];
    let (initializer, optimizer) = (RowInitializer::constant(0.0), Adam::new(0.5).into());
    let mut supervisor = Supervisor::new(chief, Sgd::new(1.0));
    supervisor.table(TableSpec { name: "rows".into(), dim: DIM, initializer, optimizer }).unwrap();
    let numbers = Param::from_tensor(Tensor::zeros([1], &default_device()));
    let mut session = supervisor.prepare_or_wait_for_session(Big { numbers }).unwrap();
    let table = session.table("rows").unwrap();
    let ids: Vec<Vec<i64>> = (0..sets).map(|set| (set * rows / sets..(set + 1) * rows / sets).collect()).collect();
    let asked: Vec<_> = ids.iter().map(|ids| (table, ids.as_slice())).collect();
    let mut mean = 0.0;
    for _ in 0..4 {
        let taken = session.step_with_rows(&asked, |_, rows| {
            let sums = rows.iter().map(|rows| rows.lookup().sum());
            sums.reduce(|all, one| all + one).expect("there are sets")
        });
        mean = taken.unwrap().expect("the job runs").loss / (rows * DIM as i64) as f32;
    }
    session.finish().unwrap();
    chief.leave(None);
    cluster.servers().iter().for_each(|server| server.join().unwrap());
    mean
}

#[test]
fn adam_counts_a_step_once_however_many_messages_and_sets_it_has() {
    within(Duration::from_secs(120), "the job hangs", || {
        // Adam moves a number by its learning rate in every step if the gradient stays the same. 5000 rows take three messages.
        for (rows, sets) in [(16, 1), (5000, 1), (16, 2), (5000, 2)] {
            let mean = mean_after_three_steps(rows, sets);
            assert!((mean + 1.5).abs() < 0.01, "{rows} rows in {sets} sets: {mean}");
        }
    });
}

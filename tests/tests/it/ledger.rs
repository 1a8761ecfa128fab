//! Every update counts once, whatever happens to messages and trainers: gradients are exactly one, the learning rate
//! is one, so every number on every server must be minus the count of committed steps.

use phalanx::prelude::*;
use phalanx_base::{Error as PhalanxError, SplitMix};
use phalanx_ps::Client;
use phalanx_tests::faults::{Counts, Fate, Faulty, chance, lock, refused};
use phalanx_tests::ledger::{self, Ledger};
use phalanx_tests::within;
use phalanx_train::testing::{LogRecorder, connections};
use phalanx_wire::bulk::{self, Transport};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEEDS: u64 = 50;
const STEPS: u64 = 8;
/// Longer than any seed should take, by far.
const DEADLINE: Duration = Duration::from_secs(60);

/// Two connections to a server, for messages that come twice.
fn ways(server: &Server, at: usize) -> [Box<dyn Transport>; 2] {
    let (task, address) = connections::servers(server).expect("the cluster has servers").swap_remove(at);
    let token = connections::client_options(server).token;
    [0, 1].map(|_| bulk::reach(&address, task.to_string(), token.clone()))
}

fn faulty_client(server: &Server, fate: &Arc<Fate>) -> phalanx::Result<Client> {
    let servers = connections::servers(server)?.len();
    let make = || (0..servers).map(|i| Box::new(Faulty::new(i, fate, ways(server, i))) as Box<dyn Transport>).collect();
    Client::over(make, connections::client_options(server))
}

/// One job whose messages are disturbed and whose workers die, by a seed.
struct FaultyJob {
    seed: u64,
    sync: Option<SyncReplicas>,
    overlap: bool,
    counts: Arc<Counts>,
    /// Steps that the chief finished for a lost trainer.
    finished: Arc<AtomicU64>,
}

impl FaultyJob {
    fn run(&self) -> Result<(), String> {
        let mut random = SplitMix::new(self.seed);
        let (servers, trainers) = (2 + random.below(2) as u32, 3 + random.below(2) as u32);
        let partitioner = Partitioner::FixedShards(1 + random.below(3));
        let log = LogRecorder::default();
        let (beat, build) = (Duration::from_millis(10), Some("test".to_owned()));
        let options = ServerOptions { beat, build, ..ServerOptions::default() };
        let cluster = log.record(|| MiniCluster::start_with(servers, trainers - 1, options));
        let cluster = cluster.map_err(|error| error.to_string())?;
        let grave = Arc::new(Mutex::new(Vec::new()));
        let working = AtomicUsize::new(trainers as usize - 1);
        let deaths: Vec<Option<(u64, Vec<bool>)>> = (0..trainers)
            .map(|i| {
                let arrives = (0..servers).map(|_| chance(&mut random, 50)).collect();
                (i > 0 && chance(&mut random, 60)).then(|| (1 + random.below(STEPS as usize) as u64, arrives))
            })
            .collect();
        let fates: Vec<Arc<Fate>> = (0..)
            .zip(deaths)
            .map(|(i, death)| Fate::new(self.seed * 100 + i, &self.counts, &grave, death, i == 0))
            .collect();
        let outcome = std::thread::scope(|scope| {
            let workers = (1..trainers as usize).map(|i| {
                let (server, fate, working) = (cluster.trainers()[i].clone(), Arc::clone(&fates[i]), &working);
                scope.spawn(move || {
                    let worked = self.work(&server, &fate, partitioner, i as u64);
                    working.fetch_sub(1, Ordering::AcqRel);
                    worked
                })
            });
            let workers: Vec<_> = workers.collect();
            let train = self.lead(&cluster, &fates[0], partitioner, &working);
            let worked = workers.into_iter().map(|worker| worker.join().unwrap_or(Err("a worker panicked".into())));
            worked.collect::<Result<Vec<_>, String>>().and(train)
        });
        outcome?;
        let finished = log.events().into_iter().filter(|event| event.field("finished_step").is_some());
        self.finished.fetch_add(finished.count() as u64, Ordering::Relaxed);
        self.deliver_late(&cluster, &grave, partitioner)
    }

    /// The steps of a worker, up to its death.
    fn work(&self, server: &Server, fate: &Arc<Fate>, partitioner: Partitioner, at: u64) -> Result<(), String> {
        let mut random = SplitMix::new(self.seed * 31 + at);
        let mut train = || -> phalanx::Result<()> {
            let mut session = self.session(server, fate, partitioner)?;
            for _ in 0..STEPS {
                ledger::step(&mut session, connections::servers(server)?.len(), &mut random)?;
            }
            session.finish()
        };
        match train() {
            Ok(()) if !fate.is_dead() => {
                server.leave(None);
                Ok(())
            }
            Err(_) if fate.is_dead() => {
                server.leave(Some(&PhalanxError::new(Code::JobFailed, "killed")));
                Ok(())
            }
            other => Err(format!("{} did not end as planned: {other:?}", server.task())),
        }
    }

    fn session(&self, server: &Server, fate: &Arc<Fate>, at: Partitioner) -> phalanx::Result<Session<Ledger>> {
        let supervisor = ledger::supervisor(server, at).overlap(self.overlap);
        let supervisor = match self.sync {
            Some(sync) => supervisor.sync(sync),
            None => supervisor,
        };
        connections::session_over(&supervisor, Ledger::default(), faulty_client(server, fate)?)
    }

    /// The chief trains as long as any worker does.
    fn lead(
        &self,
        cluster: &MiniCluster,
        fate: &Arc<Fate>,
        partitioner: Partitioner,
        working: &AtomicUsize,
    ) -> Result<(), String> {
        let server = &cluster.trainers()[0];
        let mut random = SplitMix::new(self.seed * 31);
        let mut train = || -> phalanx::Result<()> {
            let mut session = self.session(server, fate, partitioner)?;
            let mut own = 0;
            loop {
                let alone = working.load(Ordering::Acquire) == 0;
                ledger::step(&mut session, cluster.servers().len(), &mut random)?;
                own += 1;
                if alone && own >= STEPS {
                    return session.finish();
                }
                // Leaves the servers to slow workers.
                std::thread::sleep(Duration::from_millis(u64::from(own >= STEPS)));
            }
        };
        train().map_err(|error| error.report())
    }

    /// Delivers what the dead trainers had not sent: it must be refused and change nothing. Then checks the values.
    fn deliver_late(
        &self,
        cluster: &MiniCluster,
        grave: &Mutex<Vec<(usize, phalanx_wire::OutFrame)>>,
        partitioner: Partitioner,
    ) -> Result<(), String> {
        let chief = &cluster.trainers()[0];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        for (at, frame) in lock(grave).drain(..) {
            runtime.block_on(async {
                let before = self.counts.refused.load(Ordering::Relaxed);
                refused(&self.counts, ways(chief, at)[0].call(frame, Duration::from_secs(10)).await);
                assert_eq!(self.counts.refused.load(Ordering::Relaxed), before + 1, "a dead trainer's frame was taken");
            });
        }
        let held =
            connections::client(chief).and_then(|client| ledger::read(&client, partitioner, self.sync.is_some()));
        let held = held.map_err(|error| error.report())?;
        chief.leave(None);
        for server in cluster.servers() {
            server.join().map_err(|error| error.report())?;
        }
        if held.global_step == 0 {
            return Err("nothing was committed".to_owned());
        }
        held.check(self.sync.is_none())
    }
}

fn values_are_right(sync: impl Fn(u64) -> Option<SyncReplicas>, overlap: bool) -> (Arc<Counts>, u64) {
    let (counts, finished) = (Arc::new(Counts::default()), Arc::new(AtomicU64::new(0)));
    for seed in 0..SEEDS {
        let (counts, finished) = (Arc::clone(&counts), Arc::clone(&finished));
        let job = FaultyJob { seed, sync: sync(seed), overlap, counts, finished };
        let outcome = within(DEADLINE, &format!("seed {seed}"), move || job.run());
        outcome.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    let finished = finished.load(Ordering::Relaxed);
    eprintln!("{counts:?}, {finished} steps finished for lost trainers");
    let each = [&counts.twice, &counts.old, &counts.lost, &counts.killed, &counts.late, &counts.refused];
    assert!(each.iter().all(|counter| counter.load(Ordering::Relaxed) > 0), "some faults never happened");
    (counts, finished)
}

#[test]
fn every_variable_counts_the_committed_steps_exactly() {
    let (_, finished) = values_are_right(|_| None, false);
    assert!(finished > 0, "no step was finished for a lost trainer");
}

#[test]
fn where_steps_overlap_every_variable_counts_them_exactly_too() {
    let (_, finished) = values_are_right(|_| None, true);
    assert!(finished > 0, "no step was finished for a lost trainer");
}

#[test]
fn in_synchronous_mode_every_variable_counts_the_closed_rounds_exactly() {
    let aggregate = |seed: u64| [None, Some(2), Some(5)][seed as usize % 3];
    values_are_right(|seed| Some(SyncReplicas { replicas_to_aggregate: aggregate(seed) }), false);
}

//! Simulates a job in one thread, from a seed: the real scheduler (`phalanx_cluster::schedule`), the real roster
//! (`phalanx_cluster::Roster`), the real deduplication of updates (`phalanx_ps::server::AppliedUpdates`) and the real recovery of
//! servers (`phalanx_ps::recovery`), with workers, a network, a run directory and accidents around them.
//!
//! Messages are lost, doubled, late and overtaken; workers die at any answer of a server, hang, leave, come back as
//! another incarnation, are cut off from the chief, and are declared lost while they live. Servers die and are restored
//! from the newest checkpoint, and die again meanwhile; chiefs die, alone or with a server, and are followed by others.
//! Every role is stopped for times below and above the lease. In place of numbers a server has a ledger of what it added.
//!
//! In half of the runs servers have a write-ahead log, the real one (`phalanx_wal`), and are killed at every point of an append too;
//! their snapshots are published late. Such a server must come back with everything that it had acknowledged.
//!
//! [`run`] reports every broken promise: each acknowledged update was added once on every server or is within the loss that
//! was reported; no less was reported than was lost; no live task was declared lost that an awake chief had heard within
//! its lease; no fenced task changed anything; and the job ended.
//!
//! Not simulated: synchronous rounds, and trainers that drive themselves.

mod check;
mod checkpoints;
mod chief;
mod fate;
mod ground_truth;
mod log;
mod net;
mod pusher;
mod random;
mod rpc;
mod server;
mod settings;
mod worker;

pub use settings::Plant;

use chief::Chief;
use net::{Alarm, Event, Net, Node};
use random::Random;
use server::Server;
use settings::Settings;
use std::collections::BTreeMap;
use std::rc::Rc;
use worker::Worker;

/// More events than any run needs: one that reaches them does not end.
const MOST_EVENTS: u64 = 2_000_000;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Broken promises.
    pub violations: Vec<String>,
    /// The number of events of each kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// Everything that happened, if tracing is on.
    pub trace: Vec<String>,
}

/// Runs one job to its end.
///
/// ```
/// let report = phalanx_sim::run(7, None, false);
/// assert!(report.violations.is_empty());
/// ```
#[must_use]
pub fn run(seed: u64, plant: Option<Plant>, trace: bool) -> Report {
    let mut random = Random::new(seed);
    let settings = Settings::new(&mut random, plant);
    let mut net = Net::new(random, settings, trace);
    net.record("runs", || format!("seed {seed}"));
    let mut world = World::new(&mut net);
    let mut events = 0;
    while !world.is_over() && net.truth.violations.is_empty() {
        events += 1;
        let Some((to, event)) = net.next() else { break };
        if events > MOST_EVENTS {
            net.violation(format!("the job does not end: {} steps are open", world.chief.scheduler.unfinished()));
        }
        world.happen(&mut net, to, event);
    }
    check::check(&mut net, &world.chief, &world.servers);
    let Net { truth, .. } = net;
    Report { seed, violations: truth.violations, counts: truth.counts, trace: truth.trace }
}

/// All nodes.
struct World {
    chief: Chief,
    /// The chief's process runs.
    chief_lives: bool,
    servers: Vec<Server>,
    workers: Vec<Worker>,
}

impl World {
    fn new(net: &mut Net) -> Self {
        let chief = Chief::new(net, 1);
        let servers: Vec<Server> = (0..net.settings.servers).map(|index| Server::new(net, index)).collect();
        let workers = (0..net.settings.workers).map(|index| Worker::new(net, index)).collect();
        // A model that was just made is saved before anybody trains.
        net.truth.checkpoints.push(servers.iter().map(|_| Rc::default()).collect());
        fate::plan(net);
        Self { chief, chief_lives: true, servers, workers }
    }

    fn is_over(&self) -> bool {
        self.chief_lives && self.chief.over
    }

    fn happen(&mut self, net: &mut Net, to: Node, event: Event) {
        match (to, event) {
            (Node::Chief, Event::Alarm(Alarm::Start)) => {
                (self.chief, self.chief_lives) = (Chief::new(net, self.chief.epoch() + 1), true);
            }
            (Node::Chief, _) if !self.chief_lives => {}
            (Node::Chief, Event::Message(message)) => self.chief.receive(net, message),
            (Node::Chief, Event::Alarm(alarm)) if alarm == Alarm::Look(self.chief.epoch()) => self.chief.look(net),
            (Node::Chief, Event::Alarm(_)) => {}
            (Node::Worker(index), Event::Message(message)) => self.workers[index].receive(net, message),
            (Node::Worker(index), Event::Alarm(alarm)) => self.workers[index].alarm(net, alarm),
            (Node::Server(index), Event::Message(message)) => self.servers[index].receive(net, message),
            (Node::Server(index), Event::Alarm(alarm)) => self.servers[index].alarm(net, alarm),
            (Node::Fate, Event::Alarm(Alarm::Kill(node))) => self.kill(net, node),
            (Node::Fate, _) => fate::strike(net).into_iter().for_each(|node| self.kill(net, node)),
        }
    }

    fn kill(&mut self, net: &mut Net, node: Node) {
        match node {
            Node::Server(index) => self.servers[index].die(net),
            Node::Chief if self.chief_lives => {
                self.chief.die(net);
                self.chief_lives = false;
                net.replaced(Node::Chief);
                let pause = net.random.between(100, 15_000);
                net.alarm(pause, Node::Chief, Alarm::Start);
            }
            _ => {}
        }
    }
}

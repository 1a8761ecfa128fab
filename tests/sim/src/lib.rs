//! A job in one thread, by a seed: the real scheduler (`phalanx_cluster::schedule`) and the real judge of update names
//! (`phalanx_ps::server::Applied`), with workers, a network and accidents around them.
//!
//! Messages are lost, doubled, late and overtaken; workers die at any answer of a server, hang, leave, come back as
//! another life, are cut off from the chief, and are taken for lost while they live. In place of numbers a server has a ledger of what it added.
//! [`run`] answers whether, in the end, every step's update was added once on every server or not at all, as its
//! outcome says.
//!
//! Not simulated: losing a server or the chief.

mod check;
mod chief;
mod net;
mod pusher;
mod random;
mod server;
mod settings;
mod worker;

pub use settings::Plant;

use chief::Chief;
use net::{Event, Net, Node};
use random::Random;
use server::Server;
use settings::Settings;
use std::collections::BTreeMap;
use worker::Worker;

/// More events than any run needs: one that reaches them does not end.
const MOST_EVENTS: u64 = 2_000_000;

/// What a run found.
#[derive(Debug)]
pub struct Report {
    /// The run's number.
    pub seed: u64,
    /// What must never be and was.
    pub violations: Vec<String>,
    /// How often what happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// Everything that happened, if it was asked for.
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
    net.note("runs", || format!("seed {seed}"));
    let mut chief = Chief::new(&mut net);
    let mut servers: Vec<Server> = (0..net.settings.servers).map(Server::new).collect();
    let mut workers: Vec<Worker> = (0..net.settings.workers).map(|index| Worker::new(&mut net, index)).collect();
    let mut events = 0;
    while !chief.over && net.truth.violations.is_empty() {
        events += 1;
        let Some((to, event)) = net.next() else { break };
        if events > MOST_EVENTS {
            net.violation(format!("the queue does not drain: {} steps are open", chief.scheduler.unfinished()));
        }
        match (to, event) {
            (Node::Chief, Event::Message(message)) => chief.receive(&mut net, message),
            (Node::Chief, Event::Alarm(_)) => chief.look(&mut net),
            (Node::Worker(index), Event::Message(message)) => workers[index].receive(&mut net, message),
            (Node::Worker(index), Event::Alarm(alarm)) => workers[index].alarm(&mut net, alarm),
            (Node::Server(index), Event::Message(message)) => servers[index].receive(&mut net, message),
            (Node::Server(_), Event::Alarm(_)) => {}
        }
    }
    check::check(&mut net, &chief, &servers);
    let Net { truth, .. } = net;
    Report { seed, violations: truth.violations, counts: truth.counts, trace: truth.trace }
}

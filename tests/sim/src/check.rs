//! What must be true when a run is over.

use crate::chief::Chief;
use crate::net::{Key, Net};
use crate::server::Server;
use crate::truth::result_of;
use phalanx_cluster::schedule::{Effect, Outcome, Reach, StepId};

pub(crate) fn check(net: &mut Net, chief: &Chief, servers: &[Server]) {
    servers.iter().filter(|server| server.ready).for_each(|server| server.settle(net));
    if !net.truth.violations.is_empty() {
        return;
    }
    let failed = |id: &&StepId| matches!(chief.scheduler.outcome(**id), Some(Outcome::Failed { .. }));
    let failures = chief.scheduled.keys().filter(failed).count();
    let early = net.settings.end_at.is_some_and(|at| net.now >= at);
    if !early && (chief.raised.is_empty() != (failures == 0) || chief.raised.len() > failures) {
        net.violation(format!("{failures} steps failed and {} errors were raised", chief.raised.len()));
    }
    for (&id, &effect) in &chief.scheduled {
        let key = Key { epoch: chief.epoch(), step: id };
        let Some(outcome) = chief.scheduler.outcome(id) else {
            net.violation(format!("{id} has no outcome"));
            continue;
        };
        let (kind, least, most) = match outcome {
            Outcome::Ok(result) if *result != result_of(id) => {
                net.violation(format!("{id} has another step's result"));
                continue;
            }
            Outcome::Ok(_) => ("ok", u32::from(effect == Effect::Update), u32::from(effect == Effect::Update)),
            Outcome::Failed { update: Reach::Nowhere, .. } => ("failed", 0, 0),
            Outcome::Failed { .. } if early => ("failed after its update", 0, 1),
            // What some servers lacked, the chief has completed.
            Outcome::Failed { .. } => ("failed after its update", 1, 1),
            Outcome::Cancelled if net.truth.started.contains(&key) => {
                net.violation(format!("{id} is called cancelled and was started"));
                continue;
            }
            Outcome::Cancelled => ("cancelled", 0, 0),
            Outcome::Unknown if !early => {
                net.violation(format!("the outcome of {id} is unknown and the job was not ended"));
                continue;
            }
            Outcome::Unknown => ("unknown", 0, u32::from(effect == Effect::Update)),
        };
        added(net, servers, key, kind, least, most);
        net.note(kind, || format!("{id} is {kind}"));
    }
    // Nobody knows what became of the steps of former chiefs, but each of their updates counts once or not at all.
    for key in std::mem::take(&mut net.truth.former) {
        if let Some(times) = servers.iter().map(|server| server.times_under_one_name(key)).find(|&times| times > 1) {
            net.violation(format!("{key} was added {times} times under one name"));
        }
        let times: Vec<u32> = whole(net, servers, key).map(|server| server.times(key).0).collect();
        if !early && times.iter().any(|&count| count != times[0]) && settled(net, chief, key) {
            net.violation(format!("{key} is on some servers only: {times:?}"));
        }
        net.note("steps of former chiefs", || format!("{key}: {times:?}"));
    }
}

/// The servers that hold their part and have not lost this step.
fn whole<'a>(net: &Net, servers: &'a [Server], key: Key) -> impl Iterator<Item = &'a Server> {
    let here = servers.iter().enumerate().filter(move |(_, server)| server.ready);
    let lost: Vec<usize> = (0..servers.len()).filter(|&index| net.truth.is_lost(index, key)).collect();
    here.filter(move |(index, _)| !lost.contains(index)).map(|(_, server)| server)
}

/// Whether every life that pushed this step has joined the last chief or was shut out by it.
fn settled(net: &Net, chief: &Chief, key: Key) -> bool {
    let mut pushers = net.truth.names.iter().filter(|(_, step)| **step == key).map(|((life, _), _)| *life);
    pushers.all(|life| chief.scheduler.has(life) || chief.scheduler.is_over(life))
}

fn added(net: &mut Net, servers: &[Server], key: Key, kind: &str, least: u32, most: u32) {
    for (index, server) in servers.iter().enumerate().filter(|(_, server)| server.ready) {
        let times = server.times(key);
        let least = if net.truth.is_lost(index, key) { 0 } else { least };
        if times.0 < least || times.1 > most {
            net.violation(format!("{key} is {kind}, and server {index} added its update {times:?} times"));
        }
    }
}

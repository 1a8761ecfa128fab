//! The promises that must hold when a run is over.

use crate::chief::Chief;
use crate::ground_truth::result_of;
use crate::net::{Net, StepKey};
use crate::server::Server;
use phalanx_cluster::schedule::{StepEffect, StepId, StepOutcome, UpdateReach};

pub(crate) fn check(net: &mut Net, chief: &Chief, servers: &[Server]) {
    servers.iter().filter(|server| server.ready).for_each(|server| server.settle(net));
    if !net.truth.violations.is_empty() {
        return;
    }
    let failed = |id: &&StepId| matches!(chief.scheduler.outcome(**id), Some(StepOutcome::Failed { .. }));
    let failures = chief.scheduled.keys().filter(failed).count();
    let early = net.settings.end_at.is_some_and(|at| net.now >= at);
    if !early && (chief.raised.is_empty() != (failures == 0) || chief.raised.len() > failures) {
        net.violation(format!("{failures} steps failed and {} errors were raised", chief.raised.len()));
    }
    for (&id, &effect) in &chief.scheduled {
        let key = StepKey { epoch: chief.epoch(), step: id };
        let Some(outcome) = chief.scheduler.outcome(id) else {
            net.violation(format!("{id} has no outcome"));
            continue;
        };
        let (kind, least, most) = match outcome {
            StepOutcome::Ok(result) if *result != result_of(id) => {
                net.violation(format!("{id} has another step's result"));
                continue;
            }
            StepOutcome::Ok(_) => {
                ("ok", u32::from(effect == StepEffect::Update), u32::from(effect == StepEffect::Update))
            }
            StepOutcome::Failed { update: UpdateReach::Nowhere, .. } => ("failed", 0, 0),
            StepOutcome::Failed { .. } if early => ("failed after its update", 0, 1),
            // What some servers lacked, the chief has completed.
            StepOutcome::Failed { .. } => ("failed after its update", 1, 1),
            StepOutcome::Cancelled if net.truth.started.contains(&key) => {
                net.violation(format!("{id} is called cancelled and was started"));
                continue;
            }
            StepOutcome::Cancelled => ("cancelled", 0, 0),
            StepOutcome::Unknown if !early => {
                net.violation(format!("the outcome of {id} is unknown and the job was not ended"));
                continue;
            }
            StepOutcome::Unknown => ("unknown", 0, u32::from(effect == StepEffect::Update)),
        };
        added(net, servers, key, kind, least, most);
        net.record(kind, || format!("{id} is {kind}"));
    }
    // Nobody knows what became of the steps of former chiefs, but each of their updates counts once or not at all.
    for key in std::mem::take(&mut net.truth.former) {
        if let Some(times) = servers.iter().map(|server| server.times_under_one_id(key)).find(|&times| times > 1) {
            net.violation(format!("{key} was added {times} times under one update"));
        }
        let times: Vec<u32> = complete(net, servers, key).map(|server| server.times(key).0).collect();
        if !early && times.iter().any(|&count| count != times[0]) && settled(net, chief, key) {
            net.violation(format!("{key} is on some servers only: {times:?}"));
        }
        net.record("steps of former chiefs", || format!("{key}: {times:?}"));
    }
}

/// The servers that hold their part and have not lost this step.
fn complete<'a>(net: &Net, servers: &'a [Server], key: StepKey) -> impl Iterator<Item = &'a Server> {
    let here = servers.iter().enumerate().filter(move |(_, server)| server.ready);
    let lost: Vec<usize> = (0..servers.len()).filter(|&index| net.truth.is_lost(index, key)).collect();
    here.filter(move |(index, _)| !lost.contains(index)).map(|(_, server)| server)
}

/// Whether every life that pushed this step has joined the last chief or was shut out by it.
fn settled(net: &Net, chief: &Chief, key: StepKey) -> bool {
    let mut pushers = net.truth.updates.iter().filter(|(_, step)| **step == key).map(|((life, _), _)| *life);
    pushers.all(|life| chief.scheduler.has(life) || chief.scheduler.is_over(life))
}

fn added(net: &mut Net, servers: &[Server], key: StepKey, kind: &str, least: u32, most: u32) {
    for (index, server) in servers.iter().enumerate().filter(|(_, server)| server.ready) {
        let times = server.times(key);
        let least = if net.truth.is_lost(index, key) { 0 } else { least };
        if times.0 < least || times.1 > most {
            net.violation(format!("{key} is {kind}, and server {index} added its update {times:?} times"));
        }
    }
}

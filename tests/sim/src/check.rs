//! What must be true when a run is over.

use crate::chief::Chief;
use crate::net::Net;
use crate::server::Server;
use crate::worker::result_of;
use phalanx_cluster::schedule::{Effect, Outcome, Reach, StepId};

pub(crate) fn check(net: &mut Net, chief: &Chief, servers: &[Server]) {
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
            Outcome::Cancelled if net.truth.started.contains(&id) => {
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
        for (index, server) in servers.iter().enumerate() {
            let times = server.times(id);
            if times.0 < least || times.1 > most {
                net.violation(format!("{id} is {kind}, and server {index} added its update {times:?} times"));
            }
        }
        net.note(kind, || format!("{id} is {kind}"));
    }
    let known = |id: &StepId| chief.scheduled.contains_key(id);
    if servers.iter().any(|server| server.ledger.keys().any(|(id, _)| !known(id))) {
        net.violation("a server added a step that nobody scheduled".to_owned());
    }
}

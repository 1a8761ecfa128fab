//! The chief's saves, and the real recovery of servers that come back empty (`phalanx_ps::recovery`).

use crate::net::Net;
use crate::rpc::{Calls, Op, Purpose, Reply};
use crate::server::Held;
use crate::settings::Plant;
use phalanx_base::{Code, Incarnation};
use phalanx_cluster::schedule::TaskIncarnation;
use phalanx_ps::recovery::{Action, Event, Failure, Known, Recovery, RecoveryOutcome, Saved, Survey};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The pause of a recovery after a failure.
const WAIT: u64 = 1_000;

/// What lies in the run directory: it outlives every process.
pub(crate) type Checkpoint = Vec<Rc<Held>>;

/// What a recovery waits for.
#[derive(Debug)]
enum Awaited {
    Fenced,
    Described,
    Announced,
    Restored(Rc<Held>),
    /// The other servers, until then at most.
    Surveys(BTreeMap<usize, Option<Survey>>, u64),
    Committed(Option<u64>),
    Ready,
    Time(u64),
}

struct Recovering {
    recovery: Recovery,
    awaited: Awaited,
    /// The incarnation that was to become ready.
    incarnation: u64,
    /// What the chief had heard of when it began.
    seen: u64,
}

pub(crate) struct CheckpointManager {
    recovering: BTreeMap<usize, Recovering>,
    lost: BTreeSet<TaskIncarnation>,
    saving: Option<(u64, Vec<Option<Rc<Held>>>)>,
    saved_at: u64,
    saves: u64,
}

impl CheckpointManager {
    pub(crate) fn new(net: &Net) -> Self {
        Self { recovering: BTreeMap::new(), lost: BTreeSet::new(), saving: None, saved_at: net.now, saves: 0 }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.recovering.is_empty()
    }

    /// A restored server must not let this life in again.
    pub(crate) fn shut_out(&mut self, life: TaskIncarnation) {
        self.lost.insert(life);
    }

    /// Saves when that is due, and continues recoveries that waited.
    pub(crate) fn look(&mut self, net: &mut Net, calls: &mut Calls, may_save: bool) {
        if !may_save || !self.recovering.is_empty() {
            if let Some((id, _)) = self.saving.take() {
                calls.cancel(Purpose::Save(id));
            }
        } else if self.saving.is_none() && net.now - self.saved_at >= net.settings.save_every {
            (self.saves, self.saved_at) = (self.saves + 1, net.now);
            self.saving = Some((self.saves, vec![None; net.settings.servers]));
            for server in 0..net.settings.servers {
                calls.make(net, Purpose::Save(self.saves), server, None, Op::TakeSnapshot);
            }
        }
        let due = |(server, one): (&usize, &Recovering)| match &one.awaited {
            Awaited::Time(until) | Awaited::Surveys(_, until) if net.now >= *until => Some(*server),
            _ => None,
        };
        let due: Vec<usize> = self.recovering.iter().filter_map(due).collect();
        for server in due {
            let Some(one) = self.recovering.get(&server) else { continue };
            let event = match &one.awaited {
                Awaited::Surveys(surveys, _) => Event::Surveyed(surveys.values().flatten().cloned().collect()),
                _ => Event::Waited,
            };
            calls.cancel(Purpose::Recover(server));
            self.advance(net, calls, server, event);
        }
    }

    /// A server is back and may hold nothing.
    pub(crate) fn recover(
        &mut self,
        net: &mut Net,
        calls: &mut Calls,
        server: usize,
        seen: u64,
        live: BTreeSet<(phalanx_base::TaskId, Incarnation)>,
    ) {
        if self.recovering.contains_key(&server) {
            // One that is under way notices by itself that the server was restarted.
            return;
        }
        let checkpoints = net.truth.checkpoints.len();
        let known = Known { server, rounds: false, seen, live, checkpoints };
        let mut recovery = Recovery::new(known);
        let action = recovery.begin();
        let one = Recovering { recovery, awaited: Awaited::Described, incarnation: 0, seen };
        self.recovering.insert(server, one);
        self.act(net, calls, server, action);
    }

    fn advance(&mut self, net: &mut Net, calls: &mut Calls, server: usize, event: Event) {
        let Some(one) = self.recovering.get_mut(&server) else { return };
        if event == Event::Failed(Failure::Restarted) {
            net.record("recoveries begun again", || format!("server {server} was restarted meanwhile"));
        }
        let action = one.recovery.next(event);
        self.act(net, calls, server, action);
    }

    fn act(&mut self, net: &mut Net, calls: &mut Calls, server: usize, action: Action) {
        let Some(one) = self.recovering.get_mut(&server) else { return };
        let any = net.settings.plant == Some(Plant::AnyIncarnation);
        let named = |incarnation: Incarnation| if any { None } else { Some(incarnation.0) };
        let (to, op, awaited) = match action {
            Action::Describe => (None, Op::Describe, Awaited::Described),
            Action::Fence(incarnation) => {
                let lost = self.lost.iter().copied().collect();
                (named(incarnation), Op::FenceLost(lost), Awaited::Fenced)
            }
            Action::Announce(incarnation) => (named(incarnation), Op::Announce, Awaited::Announced),
            Action::Restore(incarnation, checkpoint) => {
                let newest = net.truth.checkpoints.len() - 1;
                let held = Rc::clone(&net.truth.checkpoints[newest - checkpoint][server]);
                (named(incarnation), Op::Restore(Rc::clone(&held)), Awaited::Restored(held))
            }
            Action::Survey => {
                let others: Vec<usize> = (0..net.settings.servers).filter(|&other| other != server).collect();
                if others.is_empty() {
                    return self.advance(net, calls, server, Event::Surveyed(Vec::new()));
                }
                let surveys = others.iter().map(|&other| (other, None)).collect();
                one.awaited = Awaited::Surveys(surveys, net.now + 2 * net.settings.lease);
                for other in others {
                    calls.make(net, Purpose::Recover(server), other, None, Op::Survey);
                }
                return;
            }
            Action::Commit(incarnation, loss) => {
                one.incarnation = incarnation.0;
                let fenced = loss.fenced.iter().map(|&life| TaskIncarnation::from(life));
                let fenced = self.lost.iter().copied().chain(fenced).collect();
                let to = named(incarnation);
                (to, Op::Commit(fenced, loss), Awaited::Committed(to))
            }
            Action::Wait => {
                one.awaited = Awaited::Time(net.now + WAIT);
                return;
            }
            Action::Finish(outcome) => return self.finish(net, server, outcome),
        };
        one.awaited = awaited;
        calls.make(net, Purpose::Recover(server), server, to, op);
    }

    fn finish(&mut self, net: &mut Net, server: usize, outcome: RecoveryOutcome) {
        let Some(one) = self.recovering.remove(&server) else { return };
        match outcome {
            RecoveryOutcome::Held => net.record("servers that held their part", || format!("server {server} is ready")),
            RecoveryOutcome::Whole => net.record("servers that lost nothing", || format!("server {server} is whole")),
            RecoveryOutcome::Restored(_, loss) => {
                let mut reported = loss.at_most;
                if net.settings.plant == Some(Plant::LossByChief) {
                    // The bug: what the chief has heard of, and a step for each worker.
                    let trainers = net.settings.workers as u64;
                    reported = Some((one.seen + trainers).saturating_sub(loss.saved));
                }
                net.record("losses reported", || format!("server {server} lost at most {reported:?} steps"));
                let newest = net.truth.recovered.iter_mut().rev().find(|r| r.server == server);
                if let Some(newest) = newest.filter(|newest| newest.incarnation == one.incarnation) {
                    newest.reported.get_or_insert(reported);
                }
            }
            outcome => net.violation(format!("server {server} cannot be restored: {outcome:?}")),
        }
    }

    pub(crate) fn answered(
        &mut self,
        net: &mut Net,
        calls: &mut Calls,
        purpose: Purpose,
        server: usize,
        result: Result<Reply, Code>,
    ) {
        match purpose {
            Purpose::Save(id) => self.snapshot_taken(net, calls, id, server, result),
            Purpose::Recover(whose) => self.recovered(net, calls, whose, server, result),
            Purpose::TakeOver | Purpose::Fence(_) => {}
        }
    }

    fn snapshot_taken(
        &mut self,
        net: &mut Net,
        calls: &mut Calls,
        id: u64,
        server: usize,
        result: Result<Reply, Code>,
    ) {
        let Some((saving, parts)) = self.saving.as_mut().filter(|(saving, _)| *saving == id) else { return };
        let Ok(Reply::Snapshot(held)) = result else {
            calls.cancel(Purpose::Save(*saving));
            self.saving = None;
            return net.record("saves given up", || format!("server {server} has no part"));
        };
        parts[server] = Some(held);
        if let Some(parts) = parts.iter().cloned().collect::<Option<Checkpoint>>() {
            self.saving = None;
            net.record("checkpoints", || format!("checkpoint at step {}", parts[0].global_step));
            net.truth.checkpoints.push(parts);
        }
    }

    fn recovered(
        &mut self,
        net: &mut Net,
        calls: &mut Calls,
        whose: usize,
        server: usize,
        result: Result<Reply, Code>,
    ) {
        let Some(one) = self.recovering.get_mut(&whose) else { return };
        if let Awaited::Surveys(surveys, until) = &mut one.awaited {
            match result {
                Ok(Reply::Surveyed(survey)) => drop(surveys.insert(server, Some(survey))),
                // One that holds nothing cannot say anything.
                _ => drop(surveys.remove(&server)),
            }
            if surveys.values().all(Option::is_some) {
                *until = net.now;
                return self.look(net, calls, false);
            }
            return;
        }
        let event = match (result, &one.awaited) {
            (Ok(Reply::Described { incarnation, ready, replayed, .. }), Awaited::Described) => {
                Event::Described { incarnation: Incarnation(incarnation), ready, replayed }
            }
            (Ok(Reply::Done), Awaited::Fenced) => Event::Fenced,
            (Ok(Reply::Done), Awaited::Announced) => Event::Announced,
            (Ok(Reply::Done), Awaited::Restored(held)) => {
                Event::Restored(Saved { global_step: held.global_step, records: held.records() })
            }
            (Ok(Reply::Done), &Awaited::Committed(to)) => {
                one.awaited = Awaited::Ready;
                calls.make(net, Purpose::Recover(whose), whose, to, Op::SetReady);
                return;
            }
            (Ok(Reply::Done), Awaited::Ready) => Event::Committed,
            (Ok(_), _) => return,
            // The bug: a server that does not know its variables is a damaged checkpoint.
            (Err(Code::NoSuchVariable), _) if net.settings.plant == Some(Plant::AnyIncarnation) => {
                Event::Failed(Failure::Damaged)
            }
            (Err(code), _) => Event::Failed(Failure::of(code)),
        };
        self.advance(net, calls, whose, event);
    }
}

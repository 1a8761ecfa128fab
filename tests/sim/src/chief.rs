//! The chief: the real scheduler and the real roster, a program that fills the one, and fences.

mod members;

use crate::checkpoints::CheckpointManager;
use crate::ground_truth::update_key;
use crate::net::{Alarm, Message, Net, Node, Report, StepKey};
use crate::pusher::{Push, Pusher};
use crate::rpc::{Calls, Op, Purpose, Reply};
use crate::settings::Plant;
use phalanx_base::{Code, Error, Role, TaskId};
use phalanx_cluster::Roster;
use phalanx_cluster::schedule::{
    Consistency, Receipt, RefusalReason, Rejection, Scheduler, StepEffect, StepId, TaskIncarnation,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LOOK: u64 = 500;

/// What a chief does before it gives out steps.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// It waits until all servers and a worker are here.
    Forming,
    /// It asks the servers what they hold and whom they know.
    Asking,
    /// Those whom the servers know have until then, in awake time, to say that they are here.
    Waiting(u64),
    /// Servers that hold nothing are restored.
    Restoring,
    Working,
}

pub(crate) struct Chief {
    epoch: u64,
    stage: Stage,
    pub(crate) scheduler: Scheduler<u64, u64>,
    /// What was scheduled: whether each step updates.
    pub(crate) scheduled: BTreeMap<StepId, StepEffect>,
    pub(crate) raised: Vec<Error>,
    left_to_schedule: u64,
    pub(crate) roster: Roster,
    ticked: u64,
    /// When each life was last heard, in the chief's awake time.
    heard: BTreeMap<TaskIncarnation, u64>,
    /// The newest turn given to each life, and the numbers of what it has: a second book beside the scheduler's.
    turns: BTreeMap<TaskIncarnation, u64>,
    flying: BTreeMap<(TaskIncarnation, u64), u64>,
    fencing: BTreeMap<TaskIncarnation, Vec<Option<(u64, bool)>>>,
    ever_lost: BTreeSet<TaskIncarnation>,
    /// The servers' descriptions when this chief took over: whether each holds its part, and the workers it knows.
    described: Vec<Option<bool>>,
    known: BTreeSet<TaskIncarnation>,
    committed: u64,
    owed: Vec<Pusher>,
    pub(crate) calls: Calls,
    checkpoints: CheckpointManager,
    pub(crate) over: bool,
}

impl Chief {
    pub(crate) fn new(net: &mut Net, epoch: u64) -> Self {
        net.alarm(0, Node::Chief, Alarm::Look(epoch));
        let servers = (0..net.settings.servers).map(|index| TaskId::new(Role::Ps, index as u32));
        let mut roster = Roster::new(servers, Duration::from_micros(net.settings.lease));
        roster.take_any_workers();
        roster.wait_for_servers(Duration::from_micros(net.settings.grace));
        roster.tick(net.time());
        Self {
            epoch,
            stage: Stage::Forming,
            scheduler: Scheduler::new(net.settings.options),
            scheduled: BTreeMap::new(),
            raised: Vec::new(),
            left_to_schedule: net.settings.steps,
            roster,
            ticked: net.now,
            heard: BTreeMap::new(),
            turns: BTreeMap::new(),
            flying: BTreeMap::new(),
            fencing: BTreeMap::new(),
            ever_lost: BTreeSet::new(),
            described: vec![None; net.settings.servers],
            known: BTreeSet::new(),
            committed: 0,
            owed: Vec::new(),
            calls: Calls::new(epoch),
            checkpoints: CheckpointManager::new(net),
            over: false,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn key(&self, step: StepId) -> StepKey {
        StepKey { epoch: self.epoch, step }
    }

    /// Dies: its steps belong to no chief now.
    pub(crate) fn die(&self, net: &mut Net) {
        net.record("chiefs killed", || format!("chief {} dies", self.epoch));
        net.truth.shut_out.clear();
        net.truth.former.extend(self.scheduled.keys().map(|&step| self.key(step)));
    }

    /// Looks around: leases, fences, servers that return, the program.
    pub(crate) fn look(&mut self, net: &mut Net) {
        net.alarm(LOOK, Node::Chief, Alarm::Look(self.epoch));
        if net.settings.end_at.is_some_and(|at| net.now >= at) {
            net.record("jobs ended early", || "the job is ended".to_owned());
            self.scheduler.end();
            self.over = true;
            return;
        }
        self.tick(net);
        self.look_after_the_silent(net);
        self.observe_losses(net);
        let stalled: Vec<TaskIncarnation> =
            self.scheduler.stalled_workers(net.time()).iter().map(|stalled| stalled.worker_id).collect();
        stalled.into_iter().for_each(|life| self.lose(net, life, "stalled workers"));
        let suspected = self.scheduler.workers(net.time()).filter(|view| !view.lost).map(|view| view.worker_id).last();
        if let Some(life) = suspected
            && net.fault(net.settings.suspect)
        {
            self.lose(net, life, "false suspicions");
        }
        self.calls.again(net);
        self.owed.iter().for_each(|pusher| pusher.send(net));
        self.take_over(net);
        if self.stage >= Stage::Restoring {
            let calm = self.roster.lost_servers().next().is_none();
            self.checkpoints.look(net, &mut self.calls, calm && self.stage == Stage::Working);
        }
        self.work(net);
    }

    fn recover(&mut self, net: &mut Net, server: usize) {
        let live = self.roster.incarnations().collect();
        self.checkpoints.recover(net, &mut self.calls, server, self.committed, live);
    }

    /// The program: schedules, raises, schedules on, and ends when everything is done.
    fn work(&mut self, net: &mut Net) {
        if let Some(error) = self.scheduler.raise() {
            net.record("errors raised", || format!("raised: {error}"));
            self.raised.push(error);
        }
        if self.stage != Stage::Working {
            return;
        }
        while self.left_to_schedule > 0 {
            let bad = u64::from(net.random.chance(net.settings.poison));
            let evaluation = net.random.chance(net.settings.evaluation);
            let effect = if evaluation { StepEffect::Nothing } else { StepEffect::Update };
            match self.scheduler.schedule(bad, net.random.between(1, 40) as usize, effect) {
                Ok(id) => {
                    self.left_to_schedule -= 1;
                    self.scheduled.insert(id, effect);
                }
                Err(refused) if matches!(refused.why, RefusalReason::Full | RefusalReason::Failing) => break,
                Err(refused) => return net.violation(format!("a step is refused: {:?}", refused.why)),
            }
        }
        self.pay(net);
        let idle = self.scheduler.is_done() && !self.scheduler.is_failing();
        let nothing_open = self.owed.is_empty() && self.fencing.is_empty() && self.checkpoints.is_idle();
        let all_here = self.roster.lost_servers().next().is_none();
        self.over = self.left_to_schedule == 0 && idle && nothing_open && all_here;
    }

    /// Completes, on servers that lack them, updates that no step will complete.
    fn pay(&mut self, net: &mut Net) {
        for update in self.scheduler.take_unfinished_updates() {
            let Some(&step) = net.truth.updates.get(&update_key(update)) else {
                net.violation(format!("{update} is owed and was never pushed"));
                continue;
            };
            net.record("updates owed", || format!("the chief completes {update}, {step}"));
            let push = Push { update, step, by_another: true };
            let servers = vec![None; net.settings.servers];
            let pusher = Pusher::new(Node::Chief, None, self.calls.next(), Some(push), servers);
            pusher.send(net);
            self.owed.push(pusher);
        }
    }

    fn lose(&mut self, net: &mut Net, life: TaskIncarnation, why: &'static str) {
        if self.scheduler.is_over(life) || self.fencing.contains_key(&life) {
            return;
        }
        let _ = self.scheduler.lost(life);
        net.record(why, || format!("{life} is lost: {why}"));
        self.ever_lost.insert(life);
        self.checkpoints.shut_out(life);
        self.flying.retain(|(other, _), _| *other != life);
        self.fencing.insert(life, vec![None; net.settings.servers]);
        for server in 0..net.settings.servers {
            self.calls.make(net, Purpose::Fence(life), server, None, Op::Fence(life));
        }
    }

    pub(crate) fn receive(&mut self, net: &mut Net, message: Message) {
        match message {
            Message::Beat { from, life } => self.beat(net, from, life),
            Message::Poll { from, life, epoch, sent, reports, heard, want, leaving } => {
                if epoch != self.epoch {
                    let answer =
                        Message::Polled { life, epoch: self.epoch, acknowledged: 0, given: vec![], over: false };
                    return net.send(Node::Worker(from), answer);
                }
                self.polled(net, life, sent, &reports);
                let acknowledged = reports.last().map_or(0, |&(number, _)| number);
                let mut over = leaving && self.leave(life);
                let given = match self.scheduler.take(net.time(), life, heard, want) {
                    Ok(given) => given,
                    Err(rejection) => {
                        over |= matches!(rejection, Rejection::Ended(_));
                        Vec::new()
                    }
                };
                for assignment in &given {
                    let (turn, number) = (assignment.attempt_id.turn, assignment.number);
                    self.handed_out(net, life, turn, number);
                }
                net.send(Node::Worker(from), Message::Polled { life, epoch, acknowledged, given, over });
            }
            Message::Answer { server, call, result } => {
                let Some(purpose) = self.calls.answered(call) else { return };
                match purpose {
                    Purpose::Fence(life) => self.fenced(net, server, life, call, result),
                    Purpose::TakeOver => self.described(server, result),
                    Purpose::Save(_) | Purpose::Recover(_) => {
                        self.checkpoints.answered(net, &mut self.calls, purpose, server, result);
                    }
                }
            }
            Message::Exchanged { server, call, position, result, .. } => {
                let Some(at) = self.owed.iter().position(|pusher| pusher.call == call) else { return };
                match result {
                    Ok(()) if self.owed[at].answered(net, server, position) => {
                        let pusher = self.owed.remove(at);
                        net.truth.acknowledged.extend(pusher.push.map(|push| update_key(push.update)));
                    }
                    Err(Code::ServerRestarted) => self.owed[at].restarted(net, server, position),
                    _ => {}
                }
            }
            Message::Found { server, call, incarnation, .. } => {
                if let Some(pusher) = self.owed.iter_mut().find(|pusher| pusher.call == call) {
                    pusher.found(net, server, incarnation);
                }
            }
            _ => {}
        }
    }

    fn leave(&mut self, life: TaskIncarnation) -> bool {
        let left = self.scheduler.left(life).is_ok() && !self.fencing.contains_key(&life);
        if left {
            self.flying.retain(|(other, _), _| *other != life);
        }
        left
    }

    fn polled(&mut self, net: &mut Net, life: TaskIncarnation, sent: u64, reports: &[(u64, Report)]) {
        let now = net.time();
        if !self.ever_lost.contains(&life) {
            self.scheduler.joined(now, life, sent);
        }
        for (_, report) in reports {
            let (receipt, attempt_id) = match report.clone() {
                Report::Committed(attempt_id, sequence, result) => {
                    (self.scheduler.committed(now, life, attempt_id, sequence, result), attempt_id)
                }
                Report::Failed(attempt_id, error) => (self.scheduler.failed(now, life, attempt_id, error), attempt_id),
                Report::GaveBack(attempt_id) => {
                    (self.scheduler.gave_back(now, life, attempt_id, "no luck"), attempt_id)
                }
            };
            match receipt {
                Receipt::Taken => {
                    self.flying.remove(&(life, attempt_id.turn));
                    self.committed += u64::from(matches!(report, Report::Committed(_, Some(_), _)));
                    net.record("reports taken", || format!("{life} reports {report:?}"));
                }
                Receipt::Repeated => net.record("reports repeated", || format!("{life} repeats {report:?}")),
                Receipt::Ignored(rejection) => net.violation(format!("a report is ignored: {rejection}")),
            }
        }
        self.work(net);
    }

    /// Checks the bound on drift against a book of its own.
    fn handed_out(&mut self, net: &mut Net, life: TaskIncarnation, turn: u64, number: u64) {
        let newest = self.turns.entry(life).or_insert(0);
        if turn <= *newest {
            return;
        }
        *newest = turn;
        self.flying.insert((life, turn), number);
        let lowest = self.flying.values().copied().min().unwrap_or(number);
        let highest = self.flying.values().copied().max().unwrap_or(number);
        net.record("steps handed out", || format!("{life} gets turn {turn}, number {number}"));
        if let Consistency::Bounded(bound) = net.settings.options.consistency
            && highest > lowest + bound
        {
            net.violation(format!("{life} got number {number}: {lowest} to {highest} are in flight, bound {bound}"));
        }
    }

    fn fenced(&mut self, net: &mut Net, server: usize, life: TaskIncarnation, call: u64, result: Result<Reply, Code>) {
        let Ok(Reply::Fenced(progress)) = result else {
            // It holds nothing yet: it is asked again.
            return self.calls.reopen(net, call, Purpose::Fence(life), server, Op::Fence(life));
        };
        let Some(answers) = self.fencing.get_mut(&life) else { return };
        answers[server].get_or_insert(progress);
        let Some(mut progress) = answers.iter().copied().collect::<Option<Vec<_>>>() else { return };
        self.fencing.remove(&life);
        net.truth.shut_out.insert(life);
        if net.settings.plant == Some(Plant::Requeue) {
            // The bug: only what is complete everywhere is believed to have been pushed.
            let least = progress.iter().map(|&(step, complete)| step - u64::from(!complete)).min().unwrap_or(0);
            progress.fill((least, true));
        }
        net.record("fences", || format!("{life} is fenced: {progress:?}"));
        let known = self.scheduler.has(life);
        if let Err(rejection) = self.scheduler.fenced(life, &progress)
            && known
        {
            net.violation(format!("a fence is remarked upon: {rejection}"));
        }
        self.work(net);
    }
}

impl PartialOrd for Stage {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let rank = |stage: &Self| match stage {
            Self::Forming => 0,
            Self::Asking => 1,
            Self::Waiting(_) => 2,
            Self::Restoring => 3,
            Self::Working => 4,
        };
        rank(self).partial_cmp(&rank(other))
    }
}

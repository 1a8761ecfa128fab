//! The chief: the real scheduler, a program that fills it, leases, and fences.

use crate::net::{Alarm, Message, Net, Node, Report};
use crate::pusher::{Push, Pusher};
use crate::settings::Plant;
use phalanx_base::Error;
use phalanx_cluster::schedule::{Consistency, Effect, Life, Receipt, Scheduler, StepId, Why};
use std::collections::BTreeMap;

const LOOK: u64 = 1_000;

pub(crate) struct Chief {
    pub(crate) scheduler: Scheduler<u64, u64>,
    /// What was scheduled: whether each step updates.
    pub(crate) scheduled: BTreeMap<StepId, Effect>,
    pub(crate) raised: Vec<Error>,
    left_to_schedule: u64,
    heard: BTreeMap<Life, u64>,
    /// The newest turn given to each life, and the numbers of what it has: a second book beside the scheduler's.
    turns: BTreeMap<Life, u64>,
    flying: BTreeMap<(Life, u64), u64>,
    fencing: BTreeMap<Life, Vec<Option<(u64, bool)>>>,
    owed: Vec<Pusher>,
    calls: u64,
    pub(crate) over: bool,
}

impl Chief {
    pub(crate) fn new(net: &mut Net) -> Self {
        net.alarm(0, Node::Chief, Alarm::Look);
        Self {
            scheduler: Scheduler::new(net.settings.options),
            scheduled: BTreeMap::new(),
            raised: Vec::new(),
            left_to_schedule: net.settings.steps,
            heard: BTreeMap::new(),
            turns: BTreeMap::new(),
            flying: BTreeMap::new(),
            fencing: BTreeMap::new(),
            owed: Vec::new(),
            calls: 0,
            over: false,
        }
    }

    /// Looks around: leases, fences, the program.
    pub(crate) fn look(&mut self, net: &mut Net) {
        net.alarm(LOOK, Node::Chief, Alarm::Look);
        if net.settings.end_at.is_some_and(|at| net.now >= at) {
            net.note("jobs ended early", || "the job is ended".to_owned());
            self.scheduler.end();
            self.over = true;
            return;
        }
        let stalled: Vec<Life> = self.scheduler.standing_still(net.time()).iter().map(|stalled| stalled.life).collect();
        let silent = |(_, heard): &(&Life, &u64)| net.now - **heard > net.settings.lease;
        let silent: Vec<Life> = self.heard.iter().filter(silent).map(|(&life, _)| life).collect();
        stalled.into_iter().for_each(|life| self.lose(net, life, "workers that stand still"));
        silent.into_iter().for_each(|life| self.lose(net, life, "silent workers"));
        let suspected = self.heard.keys().next_back().copied();
        if let Some(life) = suspected
            && net.fault(net.settings.suspect)
        {
            self.lose(net, life, "false suspicions");
        }
        for (&life, answers) in &self.fencing {
            for server in (0..answers.len()).filter(|&server| answers[server].is_none()) {
                net.send(Node::Server(server), Message::Fence { life });
            }
        }
        self.owed.iter().for_each(|pusher| pusher.send(net));
        self.work(net);
    }

    /// The program: schedules, raises, schedules on, and ends when everything is done.
    fn work(&mut self, net: &mut Net) {
        if let Some(error) = self.scheduler.raise() {
            net.note("errors raised", || format!("raised: {error}"));
            self.raised.push(error);
        }
        while self.left_to_schedule > 0 {
            let bad = u64::from(net.random.chance(net.settings.poison));
            let evaluation = net.random.chance(net.settings.evaluation);
            let effect = if evaluation { Effect::Nothing } else { Effect::Update };
            match self.scheduler.schedule(bad, net.random.between(1, 40) as usize, effect) {
                Ok(id) => {
                    self.left_to_schedule -= 1;
                    self.scheduled.insert(id, effect);
                }
                Err(refused) if matches!(refused.why, Why::Full | Why::Failing) => break,
                Err(refused) => return net.violation(format!("a step is refused: {:?}", refused.why)),
            }
        }
        self.pay(net);
        let idle = self.scheduler.is_done() && !self.scheduler.is_failing();
        self.over = self.left_to_schedule == 0 && idle && self.owed.is_empty();
    }

    /// Completes, on servers that lack them, updates that no step will complete.
    fn pay(&mut self, net: &mut Net) {
        for name in self.scheduler.take_owed() {
            let life = Life::new(name.task, name.incarnation);
            let Some(&step) = net.truth.names.get(&(life, name.sequence)) else {
                net.violation(format!("{name} is owed and was never pushed"));
                continue;
            };
            net.note("updates owed", || format!("the chief completes {name}, {step}"));
            self.calls += 1;
            let push = Push { name, step, by_another: true };
            let pusher = Pusher::new(net, Node::Chief, None, self.calls, Some(push));
            pusher.send(net);
            self.owed.push(pusher);
        }
    }

    fn lose(&mut self, net: &mut Net, life: Life, why: &'static str) {
        self.heard.remove(&life);
        if self.scheduler.lost(life) {
            net.note(why, || format!("{life} is lost: {why}"));
            self.flying.retain(|(other, _), _| *other != life);
            self.fencing.insert(life, vec![None; net.settings.servers]);
            (0..net.settings.servers).for_each(|server| net.send(Node::Server(server), Message::Fence { life }));
        }
    }

    pub(crate) fn receive(&mut self, net: &mut Net, message: Message) {
        match message {
            Message::Poll { from, life, reports, heard, want, leaving } => {
                self.polled(net, life, &reports);
                let acknowledged = reports.last().map_or(0, |&(number, _)| number);
                let mut over = leaving && self.leave(life);
                let given = match self.scheduler.take(net.time(), life, heard, want) {
                    Ok(given) => given,
                    Err(remark) => {
                        over |= matches!(remark, phalanx_cluster::schedule::Remark::Ended(_));
                        Vec::new()
                    }
                };
                for assignment in &given {
                    let (turn, number) = (assignment.ticket.turn, assignment.number);
                    self.handed_out(net, life, turn, number);
                }
                net.send(Node::Worker(from), Message::Polled { life, acknowledged, given, over });
            }
            Message::Fenced { server, life, progress } => self.fenced(net, server, life, progress),
            Message::Exchanged { server, call, position, .. } => {
                if let Some(at) = self.owed.iter().position(|pusher| pusher.call == call)
                    && self.owed[at].answered(net, server, position)
                {
                    self.owed.remove(at);
                }
            }
            Message::Exchange { .. } | Message::Polled { .. } | Message::Fence { .. } => {}
        }
    }

    fn leave(&mut self, life: Life) -> bool {
        let left = self.scheduler.left(life).is_ok() && !self.fencing.contains_key(&life);
        if left {
            self.heard.remove(&life);
            self.flying.retain(|(other, _), _| *other != life);
        }
        left
    }

    fn polled(&mut self, net: &mut Net, life: Life, reports: &[(u64, Report)]) {
        let now = net.time();
        self.scheduler.joined(now, life, 0);
        if self.scheduler.workers(now).any(|view| view.life == life && !view.lost) {
            self.heard.insert(life, net.now);
            let former = |other: &&Life| other.task == life.task && other.incarnation < life.incarnation;
            let former: Vec<Life> = self.heard.keys().filter(former).copied().collect();
            former.into_iter().for_each(|other| self.lose(net, other, "former lives of a worker that came back"));
        }
        for (_, report) in reports {
            let (receipt, ticket) = match report.clone() {
                Report::Committed(ticket, sequence, result) => {
                    (self.scheduler.committed(now, life, ticket, sequence, result), ticket)
                }
                Report::Failed(ticket, error) => (self.scheduler.failed(now, life, ticket, error), ticket),
                Report::GaveBack(ticket) => (self.scheduler.gave_back(now, life, ticket, "no luck"), ticket),
            };
            match receipt {
                Receipt::Taken => {
                    self.flying.remove(&(life, ticket.turn));
                    net.note("reports taken", || format!("{life} reports {report:?}"));
                }
                Receipt::Repeated => net.note("reports repeated", || format!("{life} repeats {report:?}")),
                Receipt::Ignored(remark) => net.violation(format!("a report is ignored: {remark}")),
            }
        }
        self.work(net);
    }

    /// Checks the bound on drift against a book of its own.
    fn handed_out(&mut self, net: &mut Net, life: Life, turn: u64, number: u64) {
        let newest = self.turns.entry(life).or_insert(0);
        if turn <= *newest {
            return;
        }
        *newest = turn;
        self.flying.insert((life, turn), number);
        let lowest = self.flying.values().copied().min().unwrap_or(number);
        let highest = self.flying.values().copied().max().unwrap_or(number);
        net.note("steps handed out", || format!("{life} gets turn {turn}, number {number}"));
        if let Consistency::Bounded(bound) = net.settings.options.consistency
            && highest > lowest + bound
        {
            net.violation(format!("{life} got number {number}: {lowest} to {highest} are in flight, bound {bound}"));
        }
    }

    fn fenced(&mut self, net: &mut Net, server: usize, life: Life, progress: (u64, bool)) {
        let Some(answers) = self.fencing.get_mut(&life) else { return };
        answers[server].get_or_insert(progress);
        let Some(mut progress) = answers.iter().copied().collect::<Option<Vec<_>>>() else { return };
        self.fencing.remove(&life);
        if net.settings.plant == Some(Plant::Requeue) {
            // The bug: only what is whole everywhere is believed to have been pushed.
            let least = progress.iter().map(|&(step, whole)| step - u64::from(!whole)).min().unwrap_or(0);
            progress.fill((least, true));
        }
        net.note("fences", || format!("{life} is fenced: {progress:?}"));
        if let Err(remark) = self.scheduler.fenced(life, &progress) {
            net.violation(format!("a fence is remarked upon: {remark}"));
        }
        self.work(net);
    }
}

//! A worker that follows the rules of `phalanx_cluster::schedule`: it polls the chief, runs steps in the order of their
//! turns, and pushes the gradients of a step with the exchange of the next.

use crate::ground_truth::{result_of, update_key};
use crate::net::{Alarm, Message, Net, Node, Report, StepKey};
use crate::pusher::{Push, Pusher, Servers};
use phalanx_base::{Code, Error, Incarnation, Role, TaskId};
use phalanx_cluster::schedule::{Assignment, AttemptId, StepEffect, TaskIncarnation};
use std::collections::VecDeque;

const POLL: u64 = 700;
const RETRY: u64 = 1_500;

/// Gradients that wait for the next exchange.
#[derive(Clone, Copy, Debug)]
struct Pending {
    attempt_id: AttemptId,
    push: Push,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Exchanging(Pusher, Option<Assignment<u64>>),
    Computing(u64, Assignment<u64>),
}

/// The memory of one incarnation: gone when it dies.
#[derive(Debug)]
struct Memory {
    life: TaskIncarnation,
    /// The chief has taken a beat of it.
    welcome: bool,
    /// Which incarnation of the chief it has joined, and how many updates it had pushed by then.
    epoch: u64,
    sent: u64,
    /// Another incarnation of the chief answers: it is joined when everything pushed is complete.
    renew: Option<u64>,
    servers: Servers,
    heard: u64,
    queue: VecDeque<Assignment<u64>>,
    stage: Stage,
    pending: Option<Pending>,
    sequence: u64,
    calls: u64,
    reports: VecDeque<(u64, Report)>,
    reported: u64,
    acknowledged: u64,
    /// The report that must be acknowledged before anything is pushed again.
    must_hear: u64,
    leaving: bool,
    hung: bool,
    /// Until then the chief does not hear it.
    cut_until: u64,
}

pub(crate) struct Worker {
    index: usize,
    incarnations: u64,
    /// How many times slower than others it computes.
    slowness: u64,
    memory: Option<Memory>,
}

impl Worker {
    pub(crate) fn new(net: &mut Net, index: usize) -> Self {
        let slowness = if net.random.chance(150) { 20 } else { 1 };
        let start = if net.random.chance(700) { 0 } else { net.random.between(0, 20_000) };
        net.alarm(start, Node::Worker(index), Alarm::Start);
        Self { index, incarnations: 0, slowness, memory: None }
    }

    fn start(&mut self, net: &mut Net) {
        self.incarnations += 1;
        let life = TaskIncarnation::new(TaskId::new(Role::Worker, self.index as u32), Incarnation(self.incarnations));
        net.record("worker incarnations", || format!("{life} starts"));
        net.truth.living.insert(life.task, life.incarnation);
        self.memory = Some(Memory {
            life,
            welcome: false,
            epoch: 0,
            sent: 0,
            renew: None,
            servers: vec![None; net.settings.servers],
            heard: 0,
            queue: VecDeque::new(),
            stage: Stage::Idle,
            pending: None,
            sequence: 0,
            calls: 0,
            reports: VecDeque::new(),
            reported: 0,
            acknowledged: 0,
            must_hear: 0,
            leaving: false,
            hung: false,
            cut_until: 0,
        });
        self.poll(net);
        net.alarm(POLL, Node::Worker(self.index), Alarm::Poll(life));
    }

    /// Forgets everything; what it sent is still on its way. It comes back as another incarnation.
    fn die(&mut self, net: &mut Net, why: &'static str) {
        if let Some(memory) = self.memory.take() {
            net.record(why, || format!("{} dies: {why}", memory.life));
            net.truth.living.remove(&memory.life.task);
            net.replaced(Node::Worker(self.index));
            let pause = net.random.between(100, 15_000);
            net.alarm(pause, Node::Worker(self.index), Alarm::Start);
        }
    }

    pub(crate) fn alarm(&mut self, net: &mut Net, alarm: Alarm) {
        let current = self.memory.as_ref().map(|memory| memory.life);
        match alarm {
            Alarm::Start if current.is_none() => self.start(net),
            Alarm::Poll(life) if current == Some(life) => {
                self.poll(net);
                net.alarm(POLL, Node::Worker(self.index), Alarm::Poll(life));
            }
            Alarm::Retry(life, call) if current == Some(life) => {
                if let Some(Memory { stage: Stage::Exchanging(pusher, _), .. }) = &self.memory
                    && pusher.call == call
                {
                    pusher.send(net);
                    net.alarm(RETRY, Node::Worker(self.index), alarm);
                }
            }
            Alarm::Computed(life, call) if current == Some(life) => self.computed(net, call),
            _ => {}
        }
    }

    pub(crate) fn receive(&mut self, net: &mut Net, message: Message) {
        let Some(memory) = &mut self.memory else { return };
        match message {
            Message::Exchanged { server, life, call, position, result } if life == Some(memory.life) => {
                if net.fault(net.settings.crash) {
                    return self.die(net, "crashes");
                }
                let Stage::Exchanging(pusher, _) = &mut memory.stage else { return };
                if pusher.call != call {
                    return;
                }
                match result {
                    Ok(()) if pusher.answered(net, server, position) => self.exchanged(net),
                    // A server that is not ready is asked again.
                    Ok(()) | Err(Code::NotInitialized) => {}
                    Err(Code::ServerRestarted) => pusher.restarted(net, server, position),
                    Err(_) => self.die(net, "fenced workers that learned it from a server"),
                }
            }
            Message::Found { server, life, call, incarnation } if life == Some(memory.life) => {
                if let Stage::Exchanging(pusher, _) = &mut memory.stage
                    && pusher.call == call
                {
                    pusher.found(net, server, incarnation);
                }
            }
            Message::Heard { life } if life == memory.life => memory.welcome = true,
            Message::Polled { life, epoch, acknowledged, given, over } if life == memory.life => {
                if epoch < memory.epoch.max(memory.renew.unwrap_or(0)) {
                    return;
                }
                if over {
                    return self.die(net, "workers that learned from the chief that they are over");
                }
                if epoch != memory.epoch && memory.hung {
                    // The new chief does not know that there is a step to wait for.
                    return self.die(net, "hung workers that a person ended");
                }
                if epoch != memory.epoch {
                    // What the former chief gave and wants to hear is dropped; what is being pushed is finished.
                    memory.renew = Some(epoch);
                    memory.queue.clear();
                    memory.reports.clear();
                    memory.must_hear = 0;
                    return self.advance(net);
                }
                memory.acknowledged = memory.acknowledged.max(acknowledged);
                memory.reports.retain(|&(number, _)| number > acknowledged);
                for assignment in given {
                    if assignment.attempt_id.turn == memory.heard + 1 {
                        memory.heard += 1;
                        memory.queue.push_back(assignment);
                    }
                }
                self.advance(net);
            }
            _ => {}
        }
    }

    fn poll(&self, net: &mut Net) {
        let Some(memory) = self.memory.as_ref().filter(|memory| net.now >= memory.cut_until) else { return };
        net.send(Node::Chief, Message::Beat { from: Node::Worker(self.index), life: memory.life });
        if !memory.welcome {
            return;
        }
        let quiet = memory.reports.is_empty() && memory.pending.is_none() && matches!(memory.stage, Stage::Idle);
        let leaving = memory.leaving && quiet;
        let want = if memory.leaving { 0 } else { net.settings.depth };
        let (from, life, heard) = (self.index, memory.life, memory.heard);
        let (epoch, sent) = (memory.epoch, memory.sent);
        let reports = memory.reports.iter().cloned().collect();
        net.send(Node::Chief, Message::Poll { from, life, epoch, sent, reports, heard, want, leaving });
    }

    /// Begins the next exchange, if there is something to run or to push and nothing prevents it.
    fn advance(&mut self, net: &mut Net) {
        let Some(memory) = &mut self.memory else { return };
        let unheard = memory.pending.is_some() && memory.acknowledged < memory.must_hear;
        if !matches!(memory.stage, Stage::Idle) || unheard {
            return;
        }
        // One that leaves runs nothing more: what it has not begun goes back.
        let next = if memory.leaving || memory.renew.is_some() { None } else { memory.queue.pop_front() };
        if next.is_none() && memory.pending.is_none() {
            return self.settle(net);
        }
        memory.calls += 1;
        let push = memory.pending.map(|pending| pending.push);
        let from = Node::Worker(self.index);
        let pusher = Pusher::new(from, Some(memory.life), memory.calls, push, memory.servers.clone());
        pusher.send(net);
        net.alarm(RETRY, from, Alarm::Retry(memory.life, memory.calls));
        memory.stage = Stage::Exchanging(pusher, next);
    }

    /// Joins another incarnation of the chief: everything pushed is complete.
    fn settle(&mut self, net: &mut Net) {
        let Some(memory) = &mut self.memory else { return };
        let Some(epoch) = memory.renew.take() else { return };
        net.record("workers that joined another chief", || format!("{} joins chief {epoch}", memory.life));
        (memory.epoch, memory.sent, memory.heard) = (epoch, memory.sequence, 0);
        memory.reports.clear();
        (memory.reported, memory.acknowledged, memory.must_hear) = (0, 0, 0);
        self.poll(net);
    }

    /// Every server has what was pushed.
    fn exchanged(&mut self, net: &mut Net) {
        let Some(memory) = &mut self.memory else { return };
        let Stage::Exchanging(pusher, next) = std::mem::replace(&mut memory.stage, Stage::Idle) else { return };
        memory.servers = pusher.servers;
        if let Some(Pending { attempt_id, push }) = memory.pending.take() {
            net.truth.acknowledged.insert(update_key(push.update));
            let report = Report::Committed(attempt_id, Some(push.update.sequence), result_of(attempt_id.step));
            memory.report(report);
        }
        if let Some(assignment) = next {
            net.truth.started.insert(StepKey { epoch: memory.epoch, step: assignment.attempt_id.step });
            memory.calls += 1;
            let time = net.random.between(100, 800) * self.slowness;
            if net.fault(net.settings.hang) {
                net.record("hangs", || format!("{} hangs at {}", memory.life, assignment.attempt_id));
                memory.hung = true;
            } else {
                net.alarm(time, Node::Worker(self.index), Alarm::Computed(memory.life, memory.calls));
            }
            memory.stage = Stage::Computing(memory.calls, assignment);
        }
        self.poll(net);
        self.advance(net);
    }

    fn computed(&mut self, net: &mut Net, call: u64) {
        let Some(memory) = &mut self.memory else { return };
        let assignment = match &memory.stage {
            Stage::Computing(current, assignment) if *current == call => assignment.clone(),
            _ => return,
        };
        memory.stage = Stage::Idle;
        let (attempt_id, on_behalf_of) = (assignment.attempt_id, assignment.on_behalf_of);
        let key = StepKey { epoch: memory.epoch, step: attempt_id.step };
        if assignment.work == 1 {
            memory.report(Report::Failed(attempt_id, Error::new(Code::DataRow, format!("{} is bad", attempt_id.step))));
            memory.must_hear = memory.reported;
        } else if net.random.chance(net.settings.trouble) {
            memory.report(Report::GaveBack(attempt_id));
            memory.must_hear = memory.reported;
        } else if assignment.effect == StepEffect::Nothing {
            memory.report(Report::Committed(attempt_id, None, result_of(attempt_id.step)));
        } else {
            let own = || {
                memory.sequence += 1;
                memory.life.update(memory.sequence)
            };
            let update = on_behalf_of.unwrap_or_else(own);
            let by_another = on_behalf_of.is_some();
            if by_another {
                net.record("steps run on behalf", || format!("{} runs {attempt_id} as {update}", memory.life));
            }
            net.truth.updates.insert(update_key(update), key);
            memory.pending = Some(Pending { attempt_id, push: Push { update, step: key, by_another } });
        }
        if net.fault(net.settings.cut_off) {
            net.record("workers cut off", || format!("{} is cut off from the chief", memory.life));
            memory.cut_until = net.now + net.random.between(2_000, 20_000);
        }
        if net.fault(net.settings.leave) {
            net.record("departures", || format!("{} wants to leave", memory.life));
            memory.leaving = true;
        }
        self.poll(net);
        self.advance(net);
    }
}

impl Memory {
    fn report(&mut self, report: Report) {
        self.reported += 1;
        self.reports.push_back((self.reported, report));
    }
}

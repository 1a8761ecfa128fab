//! A worker, as the rules of `phalanx_cluster::schedule` want it: it polls the chief, runs steps in the order of their
//! turns, and pushes the gradients of a step with the exchange of the next.

use crate::net::{Alarm, Key, Message, Net, Node, Report};
use crate::pusher::{Push, Pusher, Servers};
use crate::truth::{name_of, result_of};
use phalanx_base::{Code, Error, Incarnation, Role, TaskId};
use phalanx_cluster::schedule::{Assignment, Effect, Life, Ticket};
use std::collections::VecDeque;

const POLL: u64 = 700;
const RETRY: u64 = 1_500;

/// Gradients that wait for the next exchange.
#[derive(Clone, Copy, Debug)]
struct Pending {
    ticket: Ticket,
    push: Push,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Exchanging(Pusher, Option<Assignment<u64>>),
    Computing(u64, Assignment<u64>),
}

/// One life's memory: gone when it dies.
#[derive(Debug)]
struct Memory {
    life: Life,
    /// The chief has taken a beat of it.
    welcome: bool,
    /// Which incarnation of the chief it has joined, and how many updates it had pushed by then.
    epoch: u64,
    sent: u64,
    /// Another incarnation of the chief answers: it is joined when everything pushed is whole.
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
    lives: u64,
    /// How many times slower than others it computes.
    slowness: u64,
    memory: Option<Memory>,
}

impl Worker {
    pub(crate) fn new(net: &mut Net, index: usize) -> Self {
        let slowness = if net.random.chance(150) { 20 } else { 1 };
        let start = if net.random.chance(700) { 0 } else { net.random.between(0, 20_000) };
        net.alarm(start, Node::Worker(index), Alarm::Start);
        Self { index, lives: 0, slowness, memory: None }
    }

    fn start(&mut self, net: &mut Net) {
        self.lives += 1;
        let life = Life::new(TaskId::new(Role::Worker, self.index as u32), Incarnation(self.lives));
        net.note("lives", || format!("{life} starts"));
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

    /// Forgets everything; what it sent is still on its way. It comes back as another life.
    fn die(&mut self, net: &mut Net, why: &'static str) {
        if let Some(memory) = self.memory.take() {
            net.note(why, || format!("{} dies: {why}", memory.life));
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
                    Err(_) => self.die(net, "fenced lives that heard it from a server"),
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
                    return self.die(net, "lives that heard from the chief that they are over");
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
                    return self.go_on(net);
                }
                memory.acknowledged = memory.acknowledged.max(acknowledged);
                memory.reports.retain(|&(number, _)| number > acknowledged);
                for assignment in given {
                    if assignment.ticket.turn == memory.heard + 1 {
                        memory.heard += 1;
                        memory.queue.push_back(assignment);
                    }
                }
                self.go_on(net);
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

    /// Begins the next exchange, if there is something to run or to push and nothing stands in its way.
    fn go_on(&mut self, net: &mut Net) {
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

    /// Joins another incarnation of the chief: all that was ever pushed is whole.
    fn settle(&mut self, net: &mut Net) {
        let Some(memory) = &mut self.memory else { return };
        let Some(epoch) = memory.renew.take() else { return };
        net.note("workers that joined another chief", || format!("{} joins chief {epoch}", memory.life));
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
        if let Some(Pending { ticket, push }) = memory.pending.take() {
            net.truth.acknowledged.insert(name_of(push.name));
            let report = Report::Committed(ticket, Some(push.name.sequence), result_of(ticket.step));
            memory.report(report);
        }
        if let Some(assignment) = next {
            net.truth.started.insert(Key { epoch: memory.epoch, step: assignment.ticket.step });
            memory.calls += 1;
            let time = net.random.between(100, 800) * self.slowness;
            if net.fault(net.settings.hang) {
                net.note("hangs", || format!("{} hangs at {}", memory.life, assignment.ticket));
                memory.hung = true;
            } else {
                net.alarm(time, Node::Worker(self.index), Alarm::Computed(memory.life, memory.calls));
            }
            memory.stage = Stage::Computing(memory.calls, assignment);
        }
        self.poll(net);
        self.go_on(net);
    }

    fn computed(&mut self, net: &mut Net, call: u64) {
        let Some(memory) = &mut self.memory else { return };
        let assignment = match &memory.stage {
            Stage::Computing(current, assignment) if *current == call => assignment.clone(),
            _ => return,
        };
        memory.stage = Stage::Idle;
        let (ticket, on_behalf_of) = (assignment.ticket, assignment.on_behalf_of);
        let key = Key { epoch: memory.epoch, step: ticket.step };
        if assignment.work == 1 {
            memory.report(Report::Failed(ticket, Error::new(Code::DataRow, format!("{} is bad", ticket.step))));
            memory.must_hear = memory.reported;
        } else if net.random.chance(net.settings.trouble) {
            memory.report(Report::GaveBack(ticket));
            memory.must_hear = memory.reported;
        } else if assignment.effect == Effect::Nothing {
            memory.report(Report::Committed(ticket, None, result_of(ticket.step)));
        } else {
            let own = || {
                memory.sequence += 1;
                memory.life.update(memory.sequence)
            };
            let name = on_behalf_of.unwrap_or_else(own);
            let by_another = on_behalf_of.is_some();
            if by_another {
                net.note("steps run on behalf", || format!("{} runs {ticket} as {name}", memory.life));
            }
            net.truth.names.insert(name_of(name), key);
            memory.pending = Some(Pending { ticket, push: Push { name, step: key, by_another } });
        }
        if net.fault(net.settings.cut) {
            net.note("workers cut off", || format!("{} is cut off from the chief", memory.life));
            memory.cut_until = net.now + net.random.between(2_000, 20_000);
        }
        if net.fault(net.settings.leave) {
            net.note("departures", || format!("{} wants to leave", memory.life));
            memory.leaving = true;
        }
        self.poll(net);
        self.go_on(net);
    }
}

impl Memory {
    fn report(&mut self, report: Report) {
        self.reported += 1;
        self.reports.push_back((self.reported, report));
    }
}

//! A parameter server: the real judge of names, and a ledger where the numbers would be.

use crate::net::{Alarm, Key, Message, Net, Node, Part};
use crate::rpc::{Op, Reply};
use crate::settings::Plant;
use crate::truth::{Name, Recovered, name_of};
use phalanx_base::{Code, Incarnation, Role, TaskId};
use phalanx_cluster::schedule::Life;
use phalanx_ps::recovery::{Record, Survey};
use phalanx_ps::server::{Applied, Progress, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::PoisonError;

const BEAT: u64 = 700;

/// How many parts the update of a step has for a server: alike for every worker that runs it.
pub(crate) fn parts(step: Key, server: usize) -> u32 {
    1 + u32::from((step.step.0 as usize + server).is_multiple_of(3))
}

/// How often each part of each update was added.
pub(crate) type Ledger = BTreeMap<(Name, u32), (Key, u32)>;

/// What a server holds at one instant: its part of a checkpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) ledger: Ledger,
    pub(crate) progress: Vec<((TaskId, Incarnation), Progress)>,
    pub(crate) global_step: u64,
}

impl Held {
    pub(crate) fn records(&self) -> Vec<Record> {
        records(&self.progress)
    }
}

fn records(progress: &[((TaskId, Incarnation), Progress)]) -> Vec<Record> {
    let record = |&(life, Progress { step, parts_applied, parts, fenced, behind, .. }): &(_, Progress)| Record {
        life,
        step,
        complete: parts_applied == parts,
        behind,
        fenced,
    };
    progress.iter().map(record).collect()
}

pub(crate) struct Server {
    index: usize,
    incarnation: u64,
    up: bool,
    created: bool,
    assigned: bool,
    pub(crate) ready: bool,
    restored: bool,
    applied: Applied,
    pub(crate) ledger: Ledger,
    global_step: u64,
    /// What it held when it was last ready and died.
    before: BTreeSet<Name>,
    /// A planted bug: what was acknowledged and is not applied yet.
    later: BTreeMap<u64, Part>,
}

impl Server {
    /// A server of a model that has just been made.
    pub(crate) fn new(net: &mut Net, index: usize) -> Self {
        let mut server = Self {
            index,
            incarnation: 0,
            up: false,
            created: true,
            assigned: true,
            ready: true,
            restored: false,
            applied: Applied::default(),
            ledger: Ledger::new(),
            global_step: 0,
            before: BTreeSet::new(),
            later: BTreeMap::new(),
        };
        server.start(net);
        server
    }

    fn task(&self) -> TaskId {
        TaskId::new(Role::Ps, self.index as u32)
    }

    fn start(&mut self, net: &mut Net) {
        self.incarnation += 1;
        self.up = true;
        net.truth.living.insert(self.task(), Incarnation(self.incarnation));
        net.alarm(0, Node::Server(self.index), Alarm::Beat(self.incarnation));
    }

    /// The process dies, and everything it held with it. Another one comes.
    pub(crate) fn die(&mut self, net: &mut Net) {
        if !self.up {
            return;
        }
        net.note(if self.ready { "servers killed" } else { "servers killed while they were restored" }, || {
            format!("server {} dies, incarnation {}", self.index, self.incarnation)
        });
        if self.ready {
            self.settle(net);
            self.before = self.ledger.keys().map(|(name, _)| *name).collect();
        }
        (self.up, self.created, self.assigned, self.ready, self.restored) = (false, false, false, false, false);
        (self.applied, self.ledger, self.global_step) = (Applied::default(), Ledger::new(), 0);
        self.later.clear();
        net.truth.living.remove(&self.task());
        net.truth.fenced.retain(|(server, _)| *server != self.index);
        net.replaced(Node::Server(self.index));
        let longest = if net.random.chance(300) { 1_000 } else { 15_000 };
        let pause = net.random.between(100, longest);
        net.alarm(pause, Node::Server(self.index), Alarm::Start);
    }

    pub(crate) fn alarm(&mut self, net: &mut Net, alarm: Alarm) {
        match alarm {
            Alarm::Start if !self.up => self.start(net),
            Alarm::Beat(incarnation) if self.up && incarnation == self.incarnation => {
                let (from, life) = (Node::Server(self.index), Life::new(self.task(), Incarnation(incarnation)));
                net.send(Node::Chief, Message::Beat { from, life });
                net.alarm(BEAT, from, alarm);
            }
            Alarm::Apply(number) => {
                if let Some(part) = self.later.remove(&number) {
                    let _ = self.push(net, part);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn receive(&mut self, net: &mut Net, message: Message) {
        if !self.up {
            return;
        }
        match message {
            Message::Exchange { from, life, call, position, incarnation, push } => {
                let result = self.exchange(net, incarnation, push);
                net.send(from, Message::Exchanged { server: self.index, life, call, position, result });
            }
            Message::Find { from, life, call } if self.ready => {
                let incarnation = self.incarnation;
                net.send(from, Message::Found { server: self.index, life, call, incarnation });
            }
            Message::Ask { call, incarnation, op } => {
                let result = if incarnation.is_some_and(|incarnation| incarnation != self.incarnation) {
                    Err(Code::ServerRestarted)
                } else {
                    self.answer(net, op)
                };
                net.call(Node::Chief, Message::Answer { server: self.index, call, result });
            }
            _ => {}
        }
    }

    fn exchange(&mut self, net: &mut Net, incarnation: u64, push: Option<Part>) -> Result<(), Code> {
        if incarnation != self.incarnation {
            return Err(Code::ServerRestarted);
        }
        if !self.ready {
            return Err(Code::NotInitialized);
        }
        let Some(part) = push else { return Ok(()) };
        if net.settings.plant == Some(Plant::AckBeforeApply) {
            // The bug: the answer does not wait for the work.
            let number = self.later.keys().next_back().map_or(0, |last| last + 1);
            self.later.insert(number, part);
            let late = net.random.between(1, 3_000);
            net.alarm(late, Node::Server(self.index), Alarm::Apply(number));
            return Ok(());
        }
        self.push(net, part)
    }

    fn answer(&mut self, net: &mut Net, op: Op) -> Result<Reply, Code> {
        match op {
            Op::Describe => {
                let mut lives: Vec<Life> = self.applied.lives().into_iter().map(Life::from).collect();
                lives.sort_unstable();
                let (incarnation, ready, global_step) = (self.incarnation, self.ready, self.global_step);
                return Ok(Reply::Described { incarnation, ready, lives, global_step });
            }
            Op::Announce => self.created = true,
            Op::Restore(_) if !self.created => return Err(Code::NoSuchVariable),
            Op::Restore(_) if self.ready => return Err(Code::VariableConflict),
            Op::Restore(held) => {
                net.truth.fenced.retain(|(server, _)| *server != self.index);
                self.ledger.clone_from(&held.ledger);
                self.global_step = held.global_step;
                self.applied = Applied::default();
                if net.settings.plant != Some(Plant::ForgetNames) {
                    self.applied.restore(held.progress.iter().copied());
                }
                (self.assigned, self.restored) = (true, true);
            }
            Op::Survey if !self.ready => return Err(Code::NotInitialized),
            Op::Survey => {
                let survey =
                    Survey { records: records(&self.progress()), restored: self.restored, ..Survey::default() };
                return Ok(Reply::Surveyed(survey));
            }
            Op::Commit(lives, loss) => {
                for counted in &loss.counted {
                    let (task, incarnation) = counted.record.life;
                    let progress = self.applied.of(task, incarnation);
                    progress.lock().unwrap_or_else(PoisonError::into_inner).counted = counted.up_to;
                }
                for life in lives {
                    self.fence(net, life);
                }
                self.global_step = loss.global_step;
            }
            Op::SetReady if !self.ready => self.become_ready(net),
            Op::SetReady => {}
            Op::Fence(_) if !self.assigned && net.settings.plant != Some(Plant::FenceTheEmpty) => {
                return Err(Code::NotInitialized);
            }
            Op::Fence(life) => return Ok(Reply::Fenced(self.fence(net, life))),
            Op::Cut if !self.ready => return Err(Code::NotInitialized),
            Op::Cut => {
                let (ledger, progress, global_step) = (self.ledger.clone(), self.progress(), self.global_step);
                return Ok(Reply::Cut(Rc::new(Held { ledger, progress, global_step })));
            }
        }
        Ok(Reply::Done)
    }

    /// How far each life came here, in an order that does not change from run to run.
    fn progress(&self) -> Vec<((TaskId, Incarnation), Progress)> {
        let mut progress = self.applied.all();
        progress.sort_unstable_by_key(|(life, _)| *life);
        progress
    }

    fn become_ready(&mut self, net: &mut Net) {
        self.ready = true;
        let has: BTreeSet<Name> =
            self.ledger.keys().map(|(name, _)| *name).filter(|name| self.is_whole(*name)).collect();
        let gone: BTreeSet<Name> = self.before.difference(&has).copied().collect();
        let (server, incarnation) = (self.index, self.incarnation);
        net.note("servers restored", || format!("server {server} is ready again, {} updates are gone", gone.len()));
        net.truth.recovered.push(Recovered { server, incarnation, gone, reported: None });
    }

    /// Compares what the newest recovery lost with what was said of it.
    pub(crate) fn settle(&self, net: &mut Net) {
        let Some(at) =
            net.truth.recovered.iter().position(|r| r.server == self.index && r.incarnation == self.incarnation)
        else {
            return;
        };
        let recovered = net.truth.recovered.remove(at);
        let acknowledged = |name: &&Name| net.truth.acknowledged.contains(*name);
        // What was pushed again is not lost.
        let lost: Vec<Name> =
            recovered.gone.iter().filter(acknowledged).filter(|name| !self.is_whole(**name)).copied().collect();
        match recovered.reported {
            Some(Some(reported)) if reported < lost.len() as u64 => {
                let (server, real) = (self.index, lost.len());
                net.violation(format!("server {server} lost {real} steps, {reported} were reported: {lost:?}"));
            }
            Some(Some(_)) => net.note("losses within what was reported", || format!("{} lost", lost.len())),
            Some(None) => net.note("losses reported as not known", || format!("{} lost", lost.len())),
            // The chief died before it could say so.
            None => net.note("losses that nobody reported", || format!("{} lost", lost.len())),
        }
        net.truth.lost.extend(recovered.gone.into_iter().map(|name| (self.index, name)));
    }

    fn fence(&mut self, net: &mut Net, life: Life) -> (u64, bool) {
        let progress = self.applied.of(life.task, life.incarnation);
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.fenced = true;
        net.truth.fenced.insert((self.index, life));
        (progress.step, progress.parts_applied == progress.parts)
    }

    fn push(&mut self, net: &mut Net, Part { name, step, part, parts, by_another }: Part) -> Result<(), Code> {
        let progress = self.applied.of(name.task, name.incarnation);
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = match progress.judge(name.sequence, part, parts, by_another) {
            _ if net.settings.plant == Some(Plant::Names) => Verdict::Fresh,
            Ok(verdict) => verdict,
            Err(error) => {
                if error.code() == Code::Fenced {
                    net.note("pushes refused", || format!("server {} refuses {name}", self.index));
                } else {
                    net.violation(format!("server {} refuses {name}, {step}: {error}", self.index));
                }
                return Err(error.code());
            }
        };
        match verdict {
            Verdict::Fresh => {
                let (life, _) = name_of(name);
                if !by_another && net.truth.is_shut_out(self.index, life) {
                    net.violation(format!("server {} adds {name}, which was shut out", self.index));
                }
                self.ledger.entry((name_of(name), part)).or_insert((step, 0)).1 += 1;
                progress.advance(name.sequence, part, parts);
                self.global_step += if part + 1 == parts { progress.count(name.sequence) } else { 0 };
                net.note("parts applied", || format!("server {} applies {name}, {step} part {part}", self.index));
            }
            Verdict::Last => progress.advance(name.sequence, part, parts),
            Verdict::Repeat => net.note("repeats dropped", || format!("server {} drops {name}", self.index)),
        }
        Ok(())
    }

    /// Whether all parts of an update were added.
    fn is_whole(&self, name: Name) -> bool {
        let Some((step, _)) = self.ledger.get(&(name, 0)) else { return false };
        (1..parts(*step, self.index)).all(|part| self.ledger.contains_key(&(name, part)))
    }

    /// How often an update of a step was added at most, under one name.
    pub(crate) fn times_under_one_name(&self, step: Key) -> u32 {
        self.ledger.values().filter(|(of, _)| *of == step).map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// How often a step's update was added, least and most over its parts, under whatever names.
    pub(crate) fn times(&self, step: Key) -> (u32, u32) {
        let mut times = vec![0; parts(step, self.index) as usize];
        for ((_, part), (of, count)) in &self.ledger {
            if *of == step {
                times[*part as usize] += count;
            }
        }
        (times.iter().copied().min().unwrap_or(0), times.iter().copied().max().unwrap_or(0))
    }
}

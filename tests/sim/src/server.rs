//! A parameter server: the real deduplication of updates, and a ledger in place of the numbers.

use crate::ground_truth::{Recovered, UpdateKey, update_key};
use crate::log::{Death, LogRecord, ServerLog};
use crate::net::{Alarm, Message, Net, Node, Part, StepKey};
use crate::rpc::{Op, Reply};
use crate::settings::Plant;
use phalanx_base::{Code, Incarnation, Role, TaskId};
use phalanx_cluster::schedule::TaskIncarnation;
use phalanx_ps::recovery::{Record, Survey};
use phalanx_ps::server::{AppliedUpdates, TaskProgress, UpdateOutcome, UpdatePart};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::PoisonError;

const BEAT: u64 = 700;

/// Returns the number of parts of a step's update on a server: the same for every worker that runs it.
pub(crate) fn parts(step: StepKey, server: usize) -> u32 {
    1 + u32::from((step.step.0 as usize + server).is_multiple_of(3))
}

/// How often each part of each update was added.
pub(crate) type Ledger = BTreeMap<(UpdateKey, u32), (StepKey, u32)>;

/// What a server holds: its part of a checkpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub(crate) ledger: Ledger,
    pub(crate) progress: Vec<((TaskId, Incarnation), TaskProgress)>,
    pub(crate) global_step: u64,
}

impl Held {
    pub(crate) fn records(&self) -> Vec<Record> {
        records(&self.progress)
    }
}

fn records(progress: &[((TaskId, Incarnation), TaskProgress)]) -> Vec<Record> {
    let record = |&(task, TaskProgress { step, parts_applied, parts, fenced, behind, .. }): &(_, TaskProgress)| {
        Record { task, step, complete: parts_applied == parts, behind, fenced }
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
    applied: AppliedUpdates,
    pub(crate) ledger: Ledger,
    global_step: u64,
    /// What it held when it was last ready and died.
    before: BTreeSet<UpdateKey>,
    /// A planted bug: what was acknowledged and is not applied, or not in the log, yet.
    later: BTreeMap<u64, Part>,
    log: Option<ServerLog>,
    /// This incarnation has what its predecessor had acknowledged.
    replayed: bool,
    /// The parts that were acknowledged; the truth, which survives the process.
    told: BTreeSet<(UpdateKey, u32)>,
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
            applied: AppliedUpdates::default(),
            ledger: Ledger::new(),
            global_step: 0,
            before: BTreeSet::new(),
            later: BTreeMap::new(),
            log: net.settings.logs.then(|| ServerLog::start(Held::default())),
            replayed: false,
            told: BTreeSet::new(),
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
        self.replay(net);
    }

    /// Continues with the log of the former process, if there is one.
    fn replay(&mut self, net: &mut Net) {
        if self.incarnation == 1 {
            return;
        }
        let Some(log) = &mut self.log else { return };
        let replay = match log.recover() {
            Ok(replay) => replay,
            Err(error) => return net.violation(format!("the log of server {} is refused: {error}", self.index)),
        };
        let (plant, torn) = (net.settings.plant, replay.torn.len());
        self.applied.resume(replay.base.held.progress, replay.base.restored);
        (self.ledger, self.global_step) = (replay.base.held.ledger, replay.base.held.global_step);
        (self.created, self.assigned, self.ready, self.replayed) = (true, true, true, true);
        self.restored = replay.base.restored;
        let times = if plant == Some(Plant::ReplayTwice) { 2 } else { 1 };
        let torn_too = if plant == Some(Plant::TornTail) { &replay.torn[..] } else { &[] };
        for record in replay.records.iter().chain(torn_too) {
            match *record {
                LogRecord::Fence(life) => drop(self.applied.fence((life.task, life.incarnation))),
                LogRecord::Push(part) => (0..times).for_each(|time| self.replay_push(part, time > 0)),
            }
        }
        let (server, records) = (self.index, replay.records.len());
        net.record("servers that replayed their log", || format!("server {server} replays {records} records"));
        (0..torn).for_each(|_| net.record("torn records", || format!("server {server} skips a torn record")));
        let lost = self.told.iter().find(|(update, part)| !self.ledger.contains_key(&(*update, *part)));
        if let Some(lost) = lost {
            net.violation(format!("server {server} lost {lost:?}, which it had acknowledged"));
        }
    }

    fn replay_push(&mut self, Part { update, step, part, parts, by_another }: Part, again: bool) {
        let progress = self.applied.of((update.task, update.incarnation));
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        let pushed = UpdatePart { step: update.sequence, part, parts, by_another };
        let outcome = if again { Ok(UpdateOutcome::Fresh) } else { progress.deduplicate(pushed) };
        match outcome {
            Ok(UpdateOutcome::Fresh) => {
                self.ledger.entry((update_key(update), part)).or_insert((step, 0)).1 += 1;
                progress.advance(pushed);
                self.global_step += if part + 1 == parts { progress.count(update.sequence) } else { 0 };
            }
            Ok(UpdateOutcome::Last) => progress.advance(pushed),
            Ok(UpdateOutcome::Repeat) | Err(_) => {}
        }
    }

    /// The process dies, and everything it held with it. Another one comes.
    pub(crate) fn die(&mut self, net: &mut Net) {
        if !self.up {
            return;
        }
        net.record(if self.ready { "servers killed" } else { "servers killed while they were restored" }, || {
            format!("server {} dies, incarnation {}", self.index, self.incarnation)
        });
        let logged = self.log.is_some();
        if let Some(log) = &mut self.log {
            log.die(None);
        } else if self.ready {
            self.settle(net);
            self.before = self.ledger.keys().map(|(update, _)| *update).collect();
        }
        (self.up, self.created, self.assigned, self.ready, self.restored) = (false, false, false, false, false);
        (self.applied, self.ledger, self.global_step) = (AppliedUpdates::default(), Ledger::new(), 0);
        self.later.clear();
        self.replayed = false;
        net.truth.living.remove(&self.task());
        net.truth.fenced.retain(|(server, _)| logged || *server != self.index);
        net.replaced(Node::Server(self.index));
        let longest = if net.random.chance(300) { 1_000 } else { 15_000 };
        let pause = net.random.between(100, longest);
        net.alarm(pause, Node::Server(self.index), Alarm::Start);
    }

    pub(crate) fn alarm(&mut self, net: &mut Net, alarm: Alarm) {
        match alarm {
            Alarm::Start if !self.up => self.start(net),
            Alarm::Beat(incarnation) if self.up && incarnation == self.incarnation => {
                let (from, life) =
                    (Node::Server(self.index), TaskIncarnation::new(self.task(), Incarnation(incarnation)));
                net.send(Node::Chief, Message::Beat { from, life });
                net.alarm(BEAT, from, alarm);
                self.take_snapshot(net, false);
            }
            Alarm::Publish(incarnation) if self.up && incarnation == self.incarnation => {
                let (late, forgets) = (Plant::LateSnapshot, Plant::ForgetLoggedNames);
                let plant = net.settings.plant;
                let log = self.log.as_mut();
                if log.is_some_and(|log| log.publish(plant == Some(late), plant != Some(forgets))) {
                    net.record("logs cut off", || format!("server {} cuts its log off", self.index));
                }
            }
            Alarm::Apply(number) => {
                let Some(part) = self.later.remove(&number) else { return };
                if net.settings.plant == Some(Plant::AckBeforeAppend) {
                    let _ = self.log.as_ref().map(|log| log.append(&LogRecord::Push(part)));
                } else {
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
                if !self.up {
                    // It died before it could answer.
                    return;
                }
                if let (Ok(()), Some(part)) = (result, push)
                    && self.ledger.contains_key(&(update_key(part.update), part.part))
                {
                    self.told.insert((update_key(part.update), part.part));
                }
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
                if !self.up {
                    return;
                }
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
                let mut workers: Vec<TaskIncarnation> =
                    self.applied.tasks().into_iter().map(TaskIncarnation::from).collect();
                workers.sort_unstable();
                let (incarnation, ready, global_step) = (self.incarnation, self.ready, self.global_step);
                let replayed = self.replayed;
                return Ok(Reply::Described { incarnation, ready, replayed, workers, global_step });
            }
            Op::Announce => self.created = true,
            Op::Restore(_) if !self.created => return Err(Code::NoSuchVariable),
            Op::Restore(_) if self.ready => return Err(Code::VariableConflict),
            Op::Restore(held) => {
                net.truth.fenced.retain(|(server, _)| *server != self.index);
                self.ledger.clone_from(&held.ledger);
                self.global_step = held.global_step;
                self.applied = AppliedUpdates::default();
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
            Op::Commit(fenced, loss) => {
                for counted in &loss.counted {
                    let progress = self.applied.of(counted.record.task);
                    progress.lock().unwrap_or_else(PoisonError::into_inner).counted = counted.up_to;
                }
                for life in fenced {
                    self.fence(net, life)?;
                }
                self.global_step = loss.global_step;
            }
            Op::FenceLost(lost) => {
                for life in lost {
                    self.fence(net, life)?;
                }
            }
            Op::SetReady if !self.ready => self.become_ready(net),
            Op::SetReady => {}
            Op::Fence(_) if !self.assigned && net.settings.plant != Some(Plant::FenceTheEmpty) => {
                return Err(Code::NotInitialized);
            }
            Op::Fence(life) => return self.fence(net, life).map(Reply::Fenced),
            Op::TakeSnapshot if !self.ready => return Err(Code::NotInitialized),
            Op::TakeSnapshot => {
                return Ok(Reply::Snapshot(Rc::new(self.held())));
            }
        }
        Ok(Reply::Done)
    }

    /// Returns the progress of each worker here, in an order that does not change from run to run.
    fn progress(&self) -> Vec<((TaskId, Incarnation), TaskProgress)> {
        let mut progress = self.applied.all();
        progress.sort_unstable_by_key(|(life, _)| *life);
        progress
    }

    fn become_ready(&mut self, net: &mut Net) {
        self.ready = true;
        let has: BTreeSet<UpdateKey> =
            self.ledger.keys().map(|(update, _)| *update).filter(|update| self.is_whole(*update)).collect();
        let gone: BTreeSet<UpdateKey> = self.before.difference(&has).copied().collect();
        let (server, incarnation) = (self.index, self.incarnation);
        net.record("servers restored", || format!("server {server} is ready again, {} updates are gone", gone.len()));
        net.truth.recovered.push(Recovered { server, incarnation, gone, reported: None });
    }

    /// Compares what the newest recovery lost with what was reported.
    pub(crate) fn settle(&self, net: &mut Net) {
        let Some(at) =
            net.truth.recovered.iter().position(|r| r.server == self.index && r.incarnation == self.incarnation)
        else {
            return;
        };
        let recovered = net.truth.recovered.remove(at);
        let acknowledged = |update: &&UpdateKey| net.truth.acknowledged.contains(*update);
        // What was pushed again is not lost.
        let lost: Vec<UpdateKey> =
            recovered.gone.iter().filter(acknowledged).filter(|update| !self.is_whole(**update)).copied().collect();
        match recovered.reported {
            Some(Some(reported)) if reported < lost.len() as u64 => {
                let (server, real) = (self.index, lost.len());
                net.violation(format!("server {server} lost {real} steps, {reported} were reported: {lost:?}"));
            }
            Some(Some(_)) => net.record("losses within what was reported", || format!("{} lost", lost.len())),
            Some(None) => net.record("losses reported as not known", || format!("{} lost", lost.len())),
            // The chief died before it could report.
            None => net.record("losses that nobody reported", || format!("{} lost", lost.len())),
        }
        net.truth.lost.extend(recovered.gone.into_iter().map(|update| (self.index, update)));
    }

    fn held(&self) -> Held {
        Held { ledger: self.ledger.clone(), progress: self.progress(), global_step: self.global_step }
    }

    /// Takes a snapshot for the log if one is due, or the log is full; it is published later.
    fn take_snapshot(&mut self, net: &mut Net, full: bool) {
        let held = self.held();
        let Some(log) = self.log.as_mut().filter(|log| log.is_due() || full) else { return };
        if log.is_due() {
            log.take_snapshot(held, self.restored, net.settings.plant == Some(Plant::TruncateBeforePublish));
            let after = net.random.between(50, 4_000);
            net.alarm(after, Node::Server(self.index), Alarm::Publish(self.incarnation));
        }
    }

    /// Records what is about to take effect. The process may die meanwhile.
    fn record(&mut self, net: &mut Net, record: LogRecord) -> Result<(), Code> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let deaths = net.settings.append_deaths;
        if net.fault(deaths) {
            let death = match net.random.between(0, 9) {
                0 => Death::Reserved,
                9 => Death::Complete,
                eighths => Death::Copied(eighths - 1),
            };
            net.record("servers killed in an append", || format!("server {} dies: {death:?}", self.index));
            log.die(Some((&record, death)));
            self.die(net);
            return Err(Code::PeerUnreachable);
        }
        match log.append(&record) {
            Err(Code::LogFull) if net.settings.plant == Some(Plant::IgnoreFullLog) => Ok(()),
            Err(code) => {
                net.record("full logs", || format!("the log of server {} is full", self.index));
                self.take_snapshot(net, true);
                Err(code)
            }
            Ok(()) => Ok(()),
        }
    }

    fn fence(&mut self, net: &mut Net, life: TaskIncarnation) -> Result<(u64, bool), Code> {
        if net.settings.plant != Some(Plant::FenceNotLogged) {
            self.record(net, LogRecord::Fence(life))?;
        }
        let progress = self.applied.fence((life.task, life.incarnation));
        net.truth.fenced.insert((self.index, life));
        Ok((progress.step, progress.is_complete()))
    }

    fn push(&mut self, net: &mut Net, Part { update, step, part, parts, by_another }: Part) -> Result<(), Code> {
        let progress = self.applied.of((update.task, update.incarnation));
        let pushed = UpdatePart { step: update.sequence, part, parts, by_another };
        let known = *progress.lock().unwrap_or_else(PoisonError::into_inner);
        if known.deduplicate(pushed).is_ok_and(|outcome| outcome != UpdateOutcome::Repeat) {
            self.record_push(net, Part { update, step, part, parts, by_another })?;
        }
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = match progress.deduplicate(pushed) {
            _ if net.settings.plant == Some(Plant::Names) => UpdateOutcome::Fresh,
            Ok(outcome) => outcome,
            Err(error) => {
                if error.code() == Code::Fenced {
                    net.record("pushes refused", || format!("server {} refuses {update}", self.index));
                } else {
                    net.violation(format!("server {} refuses {update}, {step}: {error}", self.index));
                }
                return Err(error.code());
            }
        };
        match outcome {
            UpdateOutcome::Fresh => {
                let (life, _) = update_key(update);
                if !by_another && net.truth.is_shut_out(self.index, life) {
                    net.violation(format!("server {} adds {update}, which is fenced", self.index));
                }
                self.ledger.entry((update_key(update), part)).or_insert((step, 0)).1 += 1;
                progress.advance(pushed);
                self.global_step += if part + 1 == parts { progress.count(update.sequence) } else { 0 };
                net.record("parts applied", || format!("server {} applies {update}, {step} part {part}", self.index));
            }
            UpdateOutcome::Last => progress.advance(pushed),
            UpdateOutcome::Repeat => net.record("repeats dropped", || format!("server {} drops {update}", self.index)),
        }
        Ok(())
    }

    fn record_push(&mut self, net: &mut Net, part: Part) -> Result<(), Code> {
        if net.settings.plant != Some(Plant::AckBeforeAppend) || self.log.is_none() {
            return self.record(net, LogRecord::Push(part));
        }
        // The bug: the answer does not wait for the log.
        let number = self.later.keys().next_back().map_or(0, |last| last + 1);
        self.later.insert(number, part);
        let late = net.random.between(1, 3_000);
        net.alarm(late, Node::Server(self.index), Alarm::Apply(number));
        Ok(())
    }

    /// Whether all parts of an update were added.
    fn is_whole(&self, update: UpdateKey) -> bool {
        let Some((step, _)) = self.ledger.get(&(update, 0)) else { return false };
        (1..parts(*step, self.index)).all(|part| self.ledger.contains_key(&(update, part)))
    }

    /// How often an update of a step was added at most, under one update.
    pub(crate) fn times_under_one_id(&self, step: StepKey) -> u32 {
        self.ledger.values().filter(|(of, _)| *of == step).map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// How often a step's update was added, least and most over its parts, under any id.
    pub(crate) fn times(&self, step: StepKey) -> (u32, u32) {
        let mut times = vec![0; parts(step, self.index) as usize];
        for ((_, part), (of, count)) in &self.ledger {
            if *of == step {
                times[*part as usize] += count;
            }
        }
        (times.iter().copied().min().unwrap_or(0), times.iter().copied().max().unwrap_or(0))
    }
}

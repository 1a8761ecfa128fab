//! Time, messages and what the network does to them; and what really happened, for the checks.

use crate::random::Random;
use crate::settings::Settings;
use phalanx_base::{Code, Error, UpdateName};
use phalanx_cluster::schedule::{Assignment, Life, StepId, Ticket};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

/// Somebody who gets messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Chief,
    Worker(usize),
    Server(usize),
}

/// What a worker says about a step.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Committed(Ticket, Option<u64>, u64),
    Failed(Ticket, Error),
    GaveBack(Ticket),
}

/// One part of an update, or only a pull.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) name: UpdateName,
    pub(crate) step: StepId,
    pub(crate) part: u32,
    pub(crate) parts: u32,
    pub(crate) by_another: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// To a server: apply this and answer. `call` and `position` come back with the answer.
    Exchange {
        from: Node,
        life: Option<Life>,
        call: u64,
        position: u32,
        push: Option<Part>,
    },
    Exchanged {
        server: usize,
        life: Option<Life>,
        call: u64,
        position: u32,
        result: Result<(), Code>,
    },
    /// To the chief: reports that were not acknowledged, and how many steps are wanted.
    Poll {
        from: usize,
        life: Life,
        reports: Vec<(u64, Report)>,
        heard: u64,
        want: usize,
        leaving: bool,
    },
    Polled {
        life: Life,
        acknowledged: u64,
        given: Vec<Assignment<u64>>,
        over: bool,
    },
    Fence {
        life: Life,
    },
    Fenced {
        server: usize,
        life: Life,
        progress: (u64, bool),
    },
}

/// What a node reminds itself of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    Start,
    Poll(Life),
    Retry(Life, u64),
    Computed(Life, u64),
    Look,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Message(Message),
    Alarm(Alarm),
}

/// What really happened, which no node of the simulation may ask.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) started: BTreeSet<StepId>,
    pub(crate) names: BTreeMap<(Life, u64), StepId>,
    pub(crate) violations: Vec<String>,
    pub(crate) trace: Vec<String>,
    pub(crate) tracing: bool,
    /// How often each kind of thing happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

/// The network, the clock and the dice.
pub(crate) struct Net {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) settings: Settings,
    pub(crate) truth: Truth,
    faults_left: u64,
    order: u64,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, (Node, Event)>,
}

impl Net {
    pub(crate) fn new(random: Random, settings: Settings, tracing: bool) -> Self {
        let truth = Truth { tracing, ..Truth::default() };
        let (heap, events, faults_left) = (BinaryHeap::new(), BTreeMap::new(), settings.faults);
        Self { now: 0, random, settings, truth, faults_left, order: 0, heap, events }
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    fn put(&mut self, after: u64, to: Node, event: Event) {
        self.order += 1;
        self.heap.push(Reverse((self.now + after, self.order)));
        self.events.insert(self.order, (to, event));
    }

    /// The next thing that happens; time moves to it.
    pub(crate) fn next(&mut self) -> Option<(Node, Event)> {
        let Reverse((at, order)) = self.heap.pop()?;
        self.now = at;
        self.events.remove(&order)
    }

    /// Sends a message, which may be lost, doubled, late, and overtaken by others.
    pub(crate) fn send(&mut self, to: Node, message: Message) {
        if self.random.chance(self.settings.drop) {
            self.note("messages lost", || format!("lost: to {to:?} {message:?}"));
            return;
        }
        if self.random.chance(self.settings.double) {
            self.note("messages doubled", || format!("doubled: to {to:?} {message:?}"));
            let delay = self.delay();
            self.put(delay, to, Event::Message(message.clone()));
        }
        let delay = self.delay();
        self.put(delay, to, Event::Message(message));
    }

    fn delay(&mut self) -> u64 {
        let late = self.random.chance(self.settings.late);
        if late { self.random.between(1_000, 30_000) } else { self.random.between(30, 400) }
    }

    pub(crate) fn alarm(&mut self, after: u64, to: Node, alarm: Alarm) {
        self.put(after, to, Event::Alarm(alarm));
    }

    /// Throws the dice for a fault, of which a run has only so many.
    pub(crate) fn fault(&mut self, permille: u64) -> bool {
        let happens = self.faults_left > 0 && self.random.chance(permille);
        self.faults_left -= u64::from(happens);
        happens
    }

    /// Counts something, and writes it down if somebody wants to read it.
    pub(crate) fn note(&mut self, kind: &'static str, text: impl FnOnce() -> String) {
        *self.truth.counts.entry(kind).or_insert(0) += 1;
        if self.truth.tracing {
            let line = format!("{:>9} µs  {}", self.now, text());
            self.truth.trace.push(line);
        }
    }

    /// Something that must never be.
    pub(crate) fn violation(&mut self, text: String) {
        self.note("violations", || format!("VIOLATION: {text}"));
        self.truth.violations.push(text);
    }
}

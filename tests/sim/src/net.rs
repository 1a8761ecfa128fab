//! Time, messages and the faults of the network; and what really happened, for the checks.

use crate::ground_truth::GroundTruth;
use crate::random::Random;
use crate::rpc::{Op, Reply};
use crate::settings::Settings;
use phalanx_base::{Code, Error, UpdateId};
use phalanx_cluster::schedule::{Assignment, AttemptId, StepId, TaskIncarnation};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

/// A receiver of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Chief,
    Worker(usize),
    Server(usize),
    /// Accidents come from here.
    Fate,
}

/// A step of one incarnation of the chief: each has a queue of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepKey {
    pub(crate) epoch: u64,
    pub(crate) step: StepId,
}

impl std::fmt::Display for StepKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of chief {}", self.step, self.epoch)
    }
}

/// A worker's report about a step.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Committed(AttemptId, Option<u64>, u64),
    Failed(AttemptId, Error),
    GaveBack(AttemptId),
}

/// One part of an update, or only a pull.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) update: UpdateId,
    pub(crate) step: StepKey,
    pub(crate) part: u32,
    pub(crate) parts: u32,
    pub(crate) by_another: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// To a server: apply this and answer. `call` and `position` come back with the answer.
    Exchange {
        from: Node,
        life: Option<TaskIncarnation>,
        call: u64,
        position: u32,
        /// Only this incarnation of the server may take it.
        incarnation: u64,
        push: Option<Part>,
    },
    Exchanged {
        server: usize,
        life: Option<TaskIncarnation>,
        call: u64,
        position: u32,
        result: Result<(), Code>,
    },
    /// To a server: which incarnation are you? Answered once it holds its part.
    Find {
        from: Node,
        life: Option<TaskIncarnation>,
        call: u64,
    },
    Found {
        server: usize,
        life: Option<TaskIncarnation>,
        call: u64,
        incarnation: u64,
    },
    /// To the chief: I am here.
    Beat {
        from: Node,
        life: TaskIncarnation,
    },
    /// The chief has taken a beat.
    Heard {
        life: TaskIncarnation,
    },
    /// To the chief: reports that were not acknowledged, and how many steps are wanted.
    Poll {
        from: usize,
        life: TaskIncarnation,
        /// Which incarnation of the chief the worker has joined, and how many updates it had pushed then.
        epoch: u64,
        sent: u64,
        reports: Vec<(u64, Report)>,
        heard: u64,
        want: usize,
        leaving: bool,
    },
    Polled {
        life: TaskIncarnation,
        epoch: u64,
        acknowledged: u64,
        given: Vec<Assignment<u64>>,
        over: bool,
    },
    /// The chief's calls to servers.
    Ask {
        call: u64,
        /// Only this incarnation of the server may answer; `None`: any.
        incarnation: Option<u64>,
        op: Op,
    },
    Answer {
        server: usize,
        call: u64,
        result: Result<Reply, Code>,
    },
}

/// What a node reminds itself of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    Start,
    Poll(TaskIncarnation),
    Retry(TaskIncarnation, u64),
    Computed(TaskIncarnation, u64),
    Look(u64),
    Beat(u64),
    /// A planted bug: what was acknowledged is applied now.
    Apply(u64),
    /// A server's snapshot for its log is written.
    Publish(u64),
    /// An accident: this node dies.
    Kill(Node),
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Message(Message),
    Alarm(Alarm),
}

/// The network, the clock and the dice.
pub(crate) struct Net {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) settings: Settings,
    pub(crate) truth: GroundTruth,
    faults_left: u64,
    order: u64,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, (Node, Event)>,
    /// Who is stopped, and until when.
    stopped: BTreeMap<Node, u64>,
    /// How long the chief has been stopped in all.
    chief_stopped: u64,
}

impl Net {
    pub(crate) fn new(random: Random, settings: Settings, tracing: bool) -> Self {
        let truth = GroundTruth { tracing, ..GroundTruth::default() };
        let faults_left = settings.faults;
        Self {
            now: 0,
            random,
            settings,
            truth,
            faults_left,
            order: 0,
            heap: BinaryHeap::new(),
            events: BTreeMap::new(),
            stopped: BTreeMap::new(),
            chief_stopped: 0,
        }
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    /// How long the chief has run.
    pub(crate) fn chief_awake(&self) -> u64 {
        self.now - self.chief_stopped
    }

    fn put(&mut self, after: u64, to: Node, event: Event) {
        self.order += 1;
        self.heap.push(Reverse((self.now + after, self.order)));
        self.events.insert(self.order, (to, event));
    }

    /// Returns the next event of a running node; time moves to it.
    pub(crate) fn next(&mut self) -> Option<(Node, Event)> {
        loop {
            let Reverse((at, order)) = self.heap.pop()?;
            self.now = at;
            let Some((to, event)) = self.events.remove(&order) else { continue };
            match self.stopped.get(&to).copied().filter(|&until| until > at) {
                // Messages wait in their order; what the node wanted to do by itself, it does before or after.
                Some(until) => {
                    let late = if matches!(event, Event::Alarm(_)) { self.random.between(0, 300) } else { 150 };
                    self.put(until - at + late, to, event);
                }
                None => return Some((to, event)),
            }
        }
    }

    /// Stops a node for a while, as SIGSTOP does.
    pub(crate) fn stop(&mut self, node: Node, time: u64) {
        if self.stopped.get(&node).is_some_and(|&until| until > self.now) {
            return;
        }
        self.stopped.insert(node, self.now + time);
        if node == Node::Chief {
            self.chief_stopped += time;
        }
    }

    /// Replaces the node by another process.
    pub(crate) fn replaced(&mut self, node: Node) {
        if let Some(until) = self.stopped.remove(&node)
            && node == Node::Chief
        {
            self.chief_stopped -= until.saturating_sub(self.now);
        }
    }

    /// Sends a message, which may be lost, doubled, late, and overtaken by others.
    pub(crate) fn send(&mut self, to: Node, message: Message) {
        let bad = match (&message, to, self.settings.bad_link) {
            (Message::Exchange { from: Node::Worker(worker), .. }, Node::Server(server), Some(link)) => {
                link == (*worker, server)
            }
            _ => false,
        };
        let drop = if bad { 800 } else { self.settings.drop };
        if self.random.chance(drop) {
            self.record("messages lost", || format!("lost: to {to:?} {message:?}"));
            return;
        }
        if self.random.chance(self.settings.double) {
            self.record("messages doubled", || format!("doubled: to {to:?} {message:?}"));
            let delay = self.delay();
            self.put(delay, to, Event::Message(message.clone()));
        }
        let delay = self.delay();
        self.put(delay, to, Event::Message(message));
    }

    /// Sends a message over a connection that its sender closes before it sends it again: it is lost or in time.
    pub(crate) fn call(&mut self, to: Node, message: Message) {
        if self.random.chance(self.settings.drop) {
            self.record("messages lost", || format!("lost: to {to:?} {message:?}"));
            return;
        }
        let delay = self.random.between(30, 400);
        self.put(delay, to, Event::Message(message));
    }

    fn delay(&mut self) -> u64 {
        let late = self.random.chance(self.settings.late);
        if late { self.random.between(1_000, 30_000) } else { self.random.between(30, 400) }
    }

    pub(crate) fn alarm(&mut self, after: u64, to: Node, alarm: Alarm) {
        self.put(after, to, Event::Alarm(alarm));
    }

    /// Throws the dice for a fault; a run has a limited number of them.
    pub(crate) fn fault(&mut self, permille: u64) -> bool {
        let happens = self.faults_left > 0 && self.random.chance(permille);
        self.faults_left -= u64::from(happens);
        happens
    }

    /// Counts an event, and traces it if tracing is on.
    pub(crate) fn record(&mut self, kind: &'static str, text: impl FnOnce() -> String) {
        *self.truth.counts.entry(kind).or_insert(0) += 1;
        if self.truth.tracing {
            let line = format!("{:>9} µs  {}", self.now, text());
            self.truth.trace.push(line);
        }
    }

    /// Records something that must never happen.
    pub(crate) fn violation(&mut self, text: String) {
        self.record("violations", || format!("VIOLATION: {text}"));
        self.truth.violations.push(text);
    }
}

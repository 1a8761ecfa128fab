//! What really happened, which no node of the simulation may ask.

use crate::keeper::Checkpoint;
use crate::net::Key;
use phalanx_base::{Incarnation, TaskId, UpdateName};
use phalanx_cluster::schedule::{Life, StepId};
use std::collections::{BTreeMap, BTreeSet};

/// An update: whose it is, and its number.
pub(crate) type Name = (Life, u64);

pub(crate) fn name_of(name: UpdateName) -> Name {
    (Life::new(name.task, name.incarnation), name.sequence)
}

/// One recovery of a server.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) server: usize,
    pub(crate) incarnation: u64,
    /// What it held before it died and did not get back.
    pub(crate) gone: BTreeSet<Name>,
    /// How many steps were said to be lost at most; `None` inside: that nobody knows.
    pub(crate) reported: Option<Option<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// Steps that some worker began to compute.
    pub(crate) started: BTreeSet<Key>,
    /// What was scheduled by former incarnations of the chief.
    pub(crate) former: BTreeSet<Key>,
    /// Which step each update is of.
    pub(crate) names: BTreeMap<Name, Key>,
    /// Updates whose sender has heard from every server that it has them.
    pub(crate) acknowledged: BTreeSet<Name>,
    /// Which incarnation of each task lives.
    pub(crate) living: BTreeMap<TaskId, Incarnation>,
    /// Which lives each server has shut out.
    pub(crate) fenced: BTreeSet<(usize, Life)>,
    /// Which lives the chief knows to be shut out everywhere.
    pub(crate) shut_out: BTreeSet<Life>,
    pub(crate) recovered: Vec<Recovered>,
    /// What lies in the run directory; the newest last.
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// What was said to be lost, and is, on each server.
    pub(crate) lost: BTreeSet<(usize, Name)>,
    pub(crate) violations: Vec<String>,
    pub(crate) trace: Vec<String>,
    pub(crate) tracing: bool,
    /// How often each kind of thing happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Truth {
    /// Whether this update of a step was lost on a server within what was reported.
    pub(crate) fn is_lost(&self, server: usize, step: Key) -> bool {
        self.lost.iter().any(|(where_, name)| *where_ == server && self.names.get(name) == Some(&step))
    }

    /// Whether a server may not take anything from this life. What no process remembers is over: a life that nobody
    /// remembers to have shut out is one like any other.
    pub(crate) fn is_shut_out(&self, server: usize, life: Life) -> bool {
        self.fenced.contains(&(server, life)) || self.shut_out.contains(&life)
    }

    pub(crate) fn lives(&self, life: Life) -> bool {
        self.living.get(&life.task) == Some(&life.incarnation)
    }
}

/// What a step answers when it went well.
pub(crate) fn result_of(step: StepId) -> u64 {
    step.0 * 7 + 3
}

//! What really happened, which no node of the simulation may read.

use crate::checkpoints::Checkpoint;
use crate::net::StepKey;
use phalanx_base::{Incarnation, TaskId, UpdateId};
use phalanx_cluster::schedule::{StepId, TaskIncarnation};
use std::collections::{BTreeMap, BTreeSet};

/// An update: its worker, and its number.
pub(crate) type UpdateKey = (TaskIncarnation, u64);

pub(crate) fn update_key(update: UpdateId) -> UpdateKey {
    (TaskIncarnation::new(update.task, update.incarnation), update.sequence)
}

/// One recovery of a server.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) server: usize,
    pub(crate) incarnation: u64,
    /// What it held before it died and did not get back.
    pub(crate) gone: BTreeSet<UpdateKey>,
    /// The most steps reported lost; `None` inside: reported as unknown.
    pub(crate) reported: Option<Option<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct GroundTruth {
    /// Steps that some worker began to compute.
    pub(crate) started: BTreeSet<StepKey>,
    /// What was scheduled by former incarnations of the chief.
    pub(crate) former: BTreeSet<StepKey>,
    /// Which step each update is of.
    pub(crate) updates: BTreeMap<UpdateKey, StepKey>,
    /// Updates that every server has acknowledged.
    pub(crate) acknowledged: BTreeSet<UpdateKey>,
    /// The live incarnation of each task.
    pub(crate) living: BTreeMap<TaskId, Incarnation>,
    /// The workers that each server has fenced.
    pub(crate) fenced: BTreeSet<(usize, TaskIncarnation)>,
    /// The workers that the chief knows to be fenced everywhere.
    pub(crate) shut_out: BTreeSet<TaskIncarnation>,
    pub(crate) recovered: Vec<Recovered>,
    /// What lies in the run directory; the newest last.
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// What is lost on each server, within what was reported.
    pub(crate) lost: BTreeSet<(usize, UpdateKey)>,
    pub(crate) violations: Vec<String>,
    pub(crate) trace: Vec<String>,
    pub(crate) tracing: bool,
    /// How often each kind of thing happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl GroundTruth {
    /// Whether this update of a step was lost on a server within what was reported.
    pub(crate) fn is_lost(&self, server: usize, step: StepKey) -> bool {
        self.lost.iter().any(|(where_, update)| *where_ == server && self.updates.get(update) == Some(&step))
    }

    /// Whether a server must refuse this worker. A fence that no process remembers does not count.
    pub(crate) fn is_shut_out(&self, server: usize, life: TaskIncarnation) -> bool {
        self.fenced.contains(&(server, life)) || self.shut_out.contains(&life)
    }

    pub(crate) fn is_alive(&self, life: TaskIncarnation) -> bool {
        self.living.get(&life.task) == Some(&life.incarnation)
    }
}

/// Returns the result of a successful step.
pub(crate) fn result_of(step: StepId) -> u64 {
    step.0 * 7 + 3
}

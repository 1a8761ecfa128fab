//! The chief's calls to servers: each is sent again until it is answered.

use crate::net::{Message, Net, Node};
use crate::server::Held;
use phalanx_cluster::schedule::TaskIncarnation;
use phalanx_ps::recovery::{LostSteps, Survey};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How long an answer may take before the call is made again, over another connection.
const AGAIN: u64 = 1_000;

/// What a server is asked to do.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Describe,
    Announce,
    Restore(Rc<Held>),
    Survey,
    /// These workers are fenced, and this was lost.
    Commit(Vec<TaskIncarnation>, LostSteps),
    SetReady,
    /// These workers are fenced; the server has lost nothing.
    FenceLost(Vec<TaskIncarnation>),
    Fence(TaskIncarnation),
    TakeSnapshot,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Done,
    Described { incarnation: u64, ready: bool, replayed: bool, workers: Vec<TaskIncarnation>, global_step: u64 },
    Surveyed(Survey),
    Fenced((u64, bool)),
    Snapshot(Rc<Held>),
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    TakeOver,
    Fence(TaskIncarnation),
    Save(u64),
    Recover(usize),
}

#[derive(Debug)]
struct Call {
    purpose: Purpose,
    server: usize,
    incarnation: Option<u64>,
    op: Op,
    sent: u64,
}

/// The calls without an answer.
#[derive(Debug)]
pub(crate) struct Calls {
    next: u64,
    open: BTreeMap<u64, Call>,
}

impl Calls {
    /// The calls of one incarnation of the chief.
    pub(crate) fn new(epoch: u64) -> Self {
        Self { next: epoch * 1_000_000, open: BTreeMap::new() }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn make(
        &mut self,
        net: &mut Net,
        purpose: Purpose,
        server: usize,
        incarnation: Option<u64>,
        op: Op,
    ) -> u64 {
        let number = self.next();
        let call = Call { purpose, server, incarnation, op, sent: net.now };
        call.send(net, number);
        self.open.insert(number, call);
        number
    }

    pub(crate) fn again(&mut self, net: &mut Net) {
        for (&number, call) in &mut self.open {
            if net.now - call.sent >= AGAIN {
                call.sent = net.now;
                call.send(net, number);
            }
        }
    }

    /// Returns the purpose of the call that was answered; `None` if it was cancelled.
    pub(crate) fn answered(&mut self, number: u64) -> Option<Purpose> {
        self.open.remove(&number).map(|call| call.purpose)
    }

    /// Makes the same call again: the server was not ready for it.
    pub(crate) fn reopen(&mut self, net: &Net, number: u64, purpose: Purpose, server: usize, op: Op) {
        self.open.insert(number, Call { purpose, server, incarnation: None, op, sent: net.now });
    }

    /// Drops the calls for this purpose.
    pub(crate) fn cancel(&mut self, purpose: Purpose) {
        self.open.retain(|_, call| call.purpose != purpose);
    }
}

impl Call {
    fn send(&self, net: &mut Net, number: u64) {
        let ask = Message::Ask { call: number, incarnation: self.incarnation, op: self.op.clone() };
        net.call(Node::Server(self.server), ask);
    }
}

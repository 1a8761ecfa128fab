//! A parameter server: the real judge of names, and a ledger where the numbers would be.

use crate::net::{Message, Net, Node, Part};
use crate::settings::Plant;
use phalanx_base::Code;
use phalanx_cluster::schedule::StepId;
use phalanx_ps::server::{Applied, Verdict};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// How many parts the update of a step has for a server: alike for every worker that runs it.
pub(crate) fn parts(step: StepId, server: usize) -> u32 {
    1 + u32::from((step.0 as usize + server).is_multiple_of(3))
}

#[derive(Default)]
pub(crate) struct Server {
    index: usize,
    applied: Applied,
    /// How often each part of each step was added.
    pub(crate) ledger: BTreeMap<(StepId, u32), u32>,
}

impl Server {
    pub(crate) fn new(index: usize) -> Self {
        Self { index, ..Self::default() }
    }

    pub(crate) fn receive(&mut self, net: &mut Net, message: Message) {
        match message {
            Message::Exchange { from, life, call, position, push } => {
                let result = push.map_or(Ok(()), |part| self.push(net, part));
                net.send(from, Message::Exchanged { server: self.index, life, call, position, result });
            }
            Message::Fence { life } => {
                let progress = self.applied.of(life.task, life.incarnation);
                let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
                progress.fenced = true;
                let whole = progress.parts_applied == progress.parts;
                let progress = (progress.step, whole);
                net.send(Node::Chief, Message::Fenced { server: self.index, life, progress });
            }
            Message::Exchanged { .. } | Message::Poll { .. } | Message::Polled { .. } | Message::Fenced { .. } => {}
        }
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
                *self.ledger.entry((step, part)).or_insert(0) += 1;
                progress.advance(name.sequence, part, parts);
                net.note("parts applied", || format!("server {} applies {name}, {step} part {part}", self.index));
            }
            Verdict::Last => progress.advance(name.sequence, part, parts),
            Verdict::Repeat => net.note("repeats dropped", || format!("server {} drops {name}", self.index)),
        }
        Ok(())
    }

    /// How often a step's update was added, least and most over its parts.
    pub(crate) fn times(&self, step: StepId) -> (u32, u32) {
        let times = (0..parts(step, self.index)).map(|part| self.ledger.get(&(step, part)).copied().unwrap_or(0));
        let times: Vec<u32> = times.collect();
        (times.iter().copied().min().unwrap_or(0), times.iter().copied().max().unwrap_or(0))
    }
}

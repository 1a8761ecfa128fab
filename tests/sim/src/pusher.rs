//! One exchange with all servers: each gets its parts in order, the next after the one before was answered.

use crate::net::{Message, Net, Node, Part};
use crate::server::parts;
use phalanx_base::UpdateName;
use phalanx_cluster::schedule::{Life, StepId};

/// What an exchange pushes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    pub(crate) name: UpdateName,
    pub(crate) step: StepId,
    pub(crate) by_another: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Pusher {
    from: Node,
    life: Option<Life>,
    pub(crate) call: u64,
    push: Option<Push>,
    /// How many answers each server has given.
    answered: Vec<u32>,
}

impl Pusher {
    pub(crate) fn new(net: &Net, from: Node, life: Option<Life>, call: u64, push: Option<Push>) -> Self {
        Self { from, life, call, push, answered: vec![0; net.settings.servers] }
    }

    fn needed(&self, server: usize) -> u32 {
        self.push.map_or(1, |push| parts(push.step, server))
    }

    /// Sends, or sends again, what each server has not answered.
    pub(crate) fn send(&self, net: &mut Net) {
        (0..self.answered.len()).for_each(|server| self.send_to(net, server));
    }

    fn send_to(&self, net: &mut Net, server: usize) {
        let (position, parts) = (self.answered[server], self.needed(server));
        if position < parts {
            let part = |push: Push| {
                let Push { name, step, by_another } = push;
                Part { name, step, part: position, parts, by_another }
            };
            let (from, life, call, push) = (self.from, self.life, self.call, self.push.map(part));
            net.send(Node::Server(server), Message::Exchange { from, life, call, position, push });
        }
    }

    /// Takes an answer; says whether every server has given all of its own.
    pub(crate) fn answered(&mut self, net: &mut Net, server: usize, position: u32) -> bool {
        if self.answered[server] == position {
            self.answered[server] += 1;
            self.send_to(net, server);
        }
        (0..self.answered.len()).all(|server| self.answered[server] >= self.needed(server))
    }
}

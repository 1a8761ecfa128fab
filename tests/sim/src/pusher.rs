//! One exchange with all servers: each gets its parts in order, the next after the one before was answered.

use crate::net::{Message, Net, Node, Part, StepKey};
use crate::server::parts;
use phalanx_base::UpdateId;
use phalanx_cluster::schedule::TaskIncarnation;

/// What an exchange pushes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Push {
    pub(crate) update: UpdateId,
    pub(crate) step: StepKey,
    pub(crate) by_another: bool,
}

/// Which incarnation of each server its handles are of; `None` where that is to be found out.
pub(crate) type Servers = Vec<Option<u64>>;

#[derive(Clone, Debug)]
pub(crate) struct Pusher {
    from: Node,
    life: Option<TaskIncarnation>,
    pub(crate) call: u64,
    pub(crate) push: Option<Push>,
    pub(crate) servers: Servers,
    /// How many answers each server has given in this attempt.
    answered: Vec<u32>,
    attempt: u32,
}

impl Pusher {
    pub(crate) fn new(
        from: Node,
        life: Option<TaskIncarnation>,
        call: u64,
        push: Option<Push>,
        servers: Servers,
    ) -> Self {
        let answered = vec![0; servers.len()];
        Self { from, life, call, push, servers, answered, attempt: 0 }
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
        if position >= parts {
            return;
        }
        let (from, life, call) = (self.from, self.life, self.call);
        let Some(incarnation) = self.servers[server] else {
            return net.send(Node::Server(server), Message::Find { from, life, call });
        };
        let part = |push: Push| {
            let Push { update, step, by_another } = push;
            Part { update, step, part: position, parts, by_another }
        };
        let push = self.push.map(part);
        let position = self.position(server);
        net.send(Node::Server(server), Message::Exchange { from, life, call, position, incarnation, push });
    }

    /// What comes back with the answer: which attempt it is of, and how many were before it.
    fn position(&self, server: usize) -> u32 {
        100 * self.attempt + self.answered[server]
    }

    pub(crate) fn found(&mut self, net: &mut Net, server: usize, incarnation: u64) {
        if self.servers[server].is_none() {
            self.servers[server] = Some(incarnation);
            self.send_to(net, server);
        }
    }

    /// A server was restarted: its handles are asked for again, and then everything is sent to everybody.
    pub(crate) fn restarted(&mut self, net: &mut Net, server: usize, position: u32) {
        if position / 100 != self.attempt {
            return;
        }
        self.servers[server] = None;
        self.answered.fill(0);
        self.attempt += 1;
        self.send(net);
    }

    /// Takes an answer; returns whether every server has given all of its answers.
    pub(crate) fn answered(&mut self, net: &mut Net, server: usize, position: u32) -> bool {
        if self.position(server) == position {
            self.answered[server] += 1;
            self.send_to(net, server);
        }
        (0..self.answered.len()).all(|server| self.answered[server] >= self.needed(server))
    }
}

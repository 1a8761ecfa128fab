//! Accidents: which node is stopped or killed, and when.

use crate::net::{Alarm, Net, Node};

/// Plans the next accident, if there is to be another.
pub(crate) fn plan(net: &mut Net) {
    if net.settings.accidents > 0 {
        net.settings.accidents -= 1;
        let after = net.random.between(100, net.settings.quiet);
        net.alarm(after, Node::Fate, Alarm::Start);
    }
}

/// Makes an accident happen. Returns the nodes that die now.
pub(crate) fn strike(net: &mut Net) -> Vec<Node> {
    plan(net);
    let server = Node::Server(net.random.between(0, net.settings.servers as u64 - 1) as usize);
    let dice = net.random.between(0, 999);
    let (stops, deaths, chiefs) = (net.settings.stops, net.settings.server_deaths, net.settings.chief_deaths);
    if dice < stops {
        let worker = Node::Worker(net.random.between(0, net.settings.workers as u64 - 1) as usize);
        let (node, kind) = match net.random.between(0, 2) {
            0 => (Node::Chief, "chiefs stopped"),
            1 => (worker, "workers stopped"),
            _ => (server, "servers stopped"),
        };
        let lease = net.settings.lease;
        let time = net.random.between(lease / 4, 3 * lease);
        net.record(kind, || format!("{node:?} is stopped for {time} µs"));
        net.stop(node, time);
        return Vec::new();
    }
    if dice < stops + deaths {
        if net.random.chance(400) {
            // Once more while it is being restored.
            let after = net.random.between(300, 20_000);
            net.alarm(after, Node::Fate, Alarm::Kill(server));
        }
        return vec![server];
    }
    if dice < stops + deaths + chiefs { vec![Node::Chief] } else { vec![Node::Chief, server] }
}

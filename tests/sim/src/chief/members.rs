//! The members of the job, by the real roster, and how a chief takes a job over.

use super::{Chief, LOOK, Stage};
use crate::net::{Message, Net, Node};
use crate::rpc::{Op, Purpose, Reply};
use crate::settings::Plant;
use phalanx_base::Code;
use phalanx_cluster::schedule::TaskIncarnation;
use phalanx_cluster::{MemberState, Phase, Roster, RosterEvent};
use std::collections::BTreeSet;
use std::time::Duration;

impl Chief {
    pub(super) fn tick(&mut self, net: &Net) {
        self.forget_stalls(net);
        self.roster.tick(net.time());
    }

    fn forget_stalls(&mut self, net: &Net) {
        if net.settings.plant == Some(Plant::BlameOthers) {
            // The bug: time that the chief did not see is time like any other.
            while self.ticked + LOOK < net.now {
                self.ticked += LOOK;
                self.roster.tick(Duration::from_micros(self.ticked));
            }
        }
        self.ticked = net.now;
    }

    /// Declares a silent task dead if nobody listens at its address, or another incarnation does.
    pub(super) fn look_after_the_silent(&mut self, net: &mut Net) {
        if net.settings.probes {
            for (task, incarnation) in self.roster.suspected(net.time(), Duration::from_micros(1_500)) {
                if !net.truth.is_alive(TaskIncarnation::new(task, incarnation)) {
                    self.roster.died(net.time(), task, incarnation, "nobody listens there");
                }
            }
        }
    }

    /// Takes from the roster the tasks that are lost or back.
    pub(super) fn observe_losses(&mut self, net: &mut Net) {
        for event in self.roster.take_events() {
            match event {
                RosterEvent::ServerLost(task) => {
                    net.record("servers lost", || format!("{task} is lost"));
                    if let Some(&incarnation) = net.truth.living.get(&task) {
                        self.check_loss(net, TaskIncarnation::new(task, incarnation));
                    }
                }
                RosterEvent::ServerBack(task) => net.record("servers forgiven", || format!("{task} is back")),
                RosterEvent::ServerStartedAgain(task) => {
                    net.record("servers restarted", || format!("{task} holds nothing"));
                }
                RosterEvent::ChiefStalled(time) => net.record("stalls noticed", || format!("stopped for {time:?}")),
            }
        }
        for (task, incarnation) in self.roster.take_lost() {
            let life = TaskIncarnation::new(task, incarnation);
            self.check_loss(net, life);
            self.lose(net, life, "silent workers");
        }
        if let Some(error) = self.roster.failure() {
            net.violation(format!("the job fails: {error}"));
        }
        // While this chief takes over it asks every server itself.
        if self.stage >= Stage::Restoring {
            for task in self.roster.take_returned() {
                self.recover(net, task.index as usize);
            }
        }
    }

    /// A live task must have been silent for a good part of its lease, as a chief saw it that was awake.
    fn check_loss(&self, net: &mut Net, life: TaskIncarnation) {
        let silent = self.heard.get(&life).map(|heard| net.chief_awake() - heard);
        if let Some(silent) = silent
            && net.truth.is_alive(life)
            && silent < net.settings.lease / 2
        {
            net.violation(format!("{life} is declared lost and was heard {silent} µs ago"));
        }
    }

    /// Takes the job over from a former chief, step by step.
    pub(super) fn take_over(&mut self, net: &mut Net) {
        let awake = net.chief_awake();
        match self.stage {
            Stage::Forming if self.roster.phase() == Phase::Running => {
                self.stage = Stage::Asking;
                for server in 0..net.settings.servers {
                    self.calls.make(net, Purpose::TakeOver, server, None, Op::Describe);
                }
            }
            Stage::Asking if self.described.iter().all(Option::is_some) => {
                self.stage = Stage::Waiting(awake + net.settings.lease);
            }
            Stage::Waiting(until) => {
                let here: BTreeSet<TaskIncarnation> = self.roster.incarnations().map(TaskIncarnation::from).collect();
                let silent = self.known.iter().any(|life| !here.iter().any(|other| other.task == life.task));
                if silent && awake < until {
                    return;
                }
                let lost: Vec<TaskIncarnation> = self.known.difference(&here).copied().collect();
                lost.into_iter().for_each(|life| self.lose(net, life, "workers of a former chief"));
                self.stage = Stage::Restoring;
                let empty = (0..net.settings.servers).filter(|&server| self.described[server] == Some(false));
                let empty: Vec<usize> = empty.collect();
                empty.into_iter().for_each(|server| self.recover(net, server));
            }
            Stage::Restoring if self.checkpoints.is_idle() => {
                self.stage = Stage::Working;
                self.left_to_schedule = net.settings.steps.saturating_sub(self.committed);
                if self.epoch > 1 {
                    net.record("jobs taken over", || format!("chief {} continues at {}", self.epoch, self.committed));
                }
            }
            _ => {}
        }
    }

    pub(super) fn beat(&mut self, net: &mut Net, from: Node, life: TaskIncarnation) {
        let lost = |roster: &Roster| roster.lost_servers().any(|task| task == life.task);
        let unforgiven = net.settings.plant == Some(Plant::Unforgiven) && lost(&self.roster);
        self.forget_stalls(net);
        // The bug: only another incarnation is taken back.
        let heard = if unforgiven && self.heard.contains_key(&life) {
            Ok(())
        } else {
            self.roster.beat(net.time(), life.task, life.incarnation, MemberState::Here).map(drop)
        };
        if heard.is_err() {
            return net.record("beats refused", || format!("{life} is refused"));
        }
        if lost(&self.roster) {
            net.violation(format!("{life} is heard and still lost"));
        }
        self.heard.insert(life, net.chief_awake());
        self.observe_losses(net);
        net.send(from, Message::Heard { life });
    }

    pub(super) fn described(&mut self, server: usize, result: Result<Reply, Code>) {
        let Ok(Reply::Described { ready, workers, global_step, .. }) = result else { return };
        self.described[server] = Some(ready);
        self.known.extend(workers);
        if server == 0 {
            self.committed = global_step;
        }
    }
}

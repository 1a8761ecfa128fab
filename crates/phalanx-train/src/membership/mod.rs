//! How tasks find each other and stay together. The chief keeps the list; everybody else beats.

mod chief;
mod hello;
mod looking;
mod member;
mod reminder;
#[cfg(test)]
mod tests;

use crate::ServerOptions;
use crate::job::Job;
use chief::Chief;
pub(crate) use hello::{Who, check_peer};
use member::Member;
use phalanx_base::{Code, Context, Error, Incarnation, Result, TaskId};
use phalanx_cluster::Phase;
use phalanx_wire::{Address, control};
use reminder::Reminder;
use std::collections::BTreeSet;
use std::sync::Arc;

/// This task's place in the job.
pub(crate) enum Membership {
    Chief(Arc<Chief>),
    Member(Arc<Member>),
}

impl Membership {
    /// The chief of a job that has these `others`.
    pub(crate) fn chief(who: Who, others: Vec<(TaskId, Address)>, job: Arc<Job>, options: ServerOptions) -> Self {
        Self::Chief(Arc::new(Chief::new(who, others, job, options)))
    }

    /// A task that is not the chief.
    pub(crate) fn member(who: Who, chief: (TaskId, Address), job: Arc<Job>, options: ServerOptions) -> Self {
        Self::Member(Arc::new(Member::new(who, chief, job, options)))
    }

    pub(crate) fn is_chief(&self) -> bool {
        matches!(self, Self::Chief(_))
    }

    /// What answers on the control lane.
    pub(crate) fn handler(&self) -> Arc<dyn control::Handler> {
        match self {
            Self::Chief(chief) => Arc::clone(chief) as _,
            Self::Member(member) => Arc::clone(member) as _,
        }
    }

    /// Watches the job on a thread of its own, so that neither computing nor serving can make a task look dead. The chief
    /// counts leases among those who serve it (`serving`), because it is they who hear the others.
    pub(crate) fn watch(&self, serving: &tokio::runtime::Handle) -> Result<()> {
        let wrong = "the membership thread cannot be started";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(Code::Internal, wrong)?;
        let thread = std::thread::Builder::new().name("phalanx-member".into());
        let started = match self {
            Self::Chief(chief) => {
                let (chief, ticking) = (Arc::clone(chief), Arc::clone(chief));
                serving.spawn(async move { ticking.tick().await });
                thread.spawn(move || runtime.block_on(chief.look_around()))
            }
            Self::Member(member) => {
                let member = Arc::clone(member);
                thread.spawn(move || runtime.block_on(member.watch()))
            }
        };
        started.context(Code::Internal, wrong).map(drop)
    }

    /// Ends this task's part; the chief ends the job with it, and waits until everybody knows.
    pub(crate) fn leave(&self, job: &Job, failure: Option<&Error>) {
        match self {
            // An interrupted job is ended, not failed: the others did nothing wrong.
            Self::Chief(chief) => {
                let failed = failure.filter(|error| !matches!(error.code(), Code::Interrupted | Code::Terminated));
                chief.end(failed.cloned());
            }
            Self::Member(member) => {
                if job.phase() != Phase::Over
                    && let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build()
                {
                    runtime.block_on(member.leave(failure));
                }
                job.set_phase(Phase::Over);
            }
        }
    }

    /// A trainer that is not the chief has done its part.
    pub(crate) fn done(&self) {
        if let Self::Member(member) = self {
            member.done();
        }
    }

    /// The chief: whether other trainers are at work. Nobody else knows.
    pub(crate) fn has_trainers(&self) -> bool {
        match self {
            Self::Chief(chief) => chief.has_trainers(),
            Self::Member(_) => false,
        }
    }

    /// The chief: tells the other trainers to stop.
    pub(crate) fn stop_trainers(&self) {
        if let Self::Chief(chief) = self {
            chief.stop_trainers();
        }
    }

    /// The chief: a lost server may come back from now on.
    pub(crate) fn wait_for_servers(&self) {
        if let Self::Chief(chief) = self {
            chief.wait_for_servers();
        }
    }

    /// The chief: workers may come and go as they like.
    pub(crate) fn take_any_workers(&self) {
        if let Self::Chief(chief) = self {
            chief.take_any_workers();
        }
    }

    /// The chief: ends the job badly.
    pub(crate) fn fail(&self, error: Error) {
        if let Self::Chief(chief) = self {
            chief.fail(error);
        }
    }

    /// The chief: the incarnations of the tasks that are here, its own among them.
    pub(crate) fn live(&self) -> BTreeSet<(TaskId, Incarnation)> {
        match self {
            Self::Chief(chief) => chief.live(),
            Self::Member(_) => BTreeSet::new(),
        }
    }

    /// The chief: takes note of lives that the servers know and that are nobody's now.
    pub(crate) fn take_over(&self, known: BTreeSet<(TaskId, Incarnation)>) {
        if let Self::Chief(chief) = self {
            chief.take_over(known);
        }
    }
}

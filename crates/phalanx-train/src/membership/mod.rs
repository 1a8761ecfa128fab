//! Membership of a job: the chief keeps the roster, every other task sends it heartbeats.

mod chief;
mod identity;
mod looking;
mod member;
#[cfg(test)]
mod tests;

use crate::job::Job;
pub(crate) use chief::Chief;
pub(crate) use identity::{TaskIdentity, check_peer};
pub(crate) use member::Member;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_cluster::Phase;
use phalanx_wire::control;
use std::sync::Arc;
use std::time::Duration;

/// When missing tasks are logged: first, and how often then.
const REMIND: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(10));

/// This task's side of the membership.
pub(crate) enum Membership {
    Chief(Arc<Chief>),
    Member(Arc<Member>),
}

impl Membership {
    /// Returns the chief's side, where this task is the chief.
    pub(crate) fn as_chief(&self) -> Option<&Chief> {
        match self {
            Self::Chief(chief) => Some(chief),
            Self::Member(_) => None,
        }
    }

    /// Returns the handler of the control lane.
    pub(crate) fn handler(&self) -> Arc<dyn control::Handler> {
        match self {
            Self::Chief(chief) => Arc::clone(chief) as _,
            Self::Member(member) => Arc::clone(member) as _,
        }
    }

    /// Starts a thread for heartbeats, so that neither computing nor serving makes a task look lost. The chief counts leases
    /// on the threads that receive heartbeats (`serving`).
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

    /// Leaves the job; the chief ends the job with it, and waits until every task knows.
    pub(crate) fn leave(&self, job: &Job, failure: Option<&Error>) {
        match self {
            // An interruption ends the job without failing it.
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

    /// A trainer other than the chief: it has done its part.
    pub(crate) fn done(&self) {
        if let Self::Member(member) = self {
            member.done();
        }
    }
}

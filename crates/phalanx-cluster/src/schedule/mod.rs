//! The coordinator's scheduler: which worker runs which step, and with what outcome. Pure; time is passed in.
//!
//! The chief owns a [`Scheduler`], and workers pull steps from it. Every update counts exactly once because the servers
//! apply an update id once, and because a worker obeys four rules:
//!
//! 1. It runs steps in the order of their turns, and pushes their gradients in that order: each step under the worker's
//!    next sequence number, from 1 without gaps, unless the assignment names another incarnation to push on behalf of.
//! 2. It pushes a step only after the previous one is complete on every server.
//! 3. A step that should have pushed and did not (it failed, was given back, or had nothing to push) is reported, and
//!    the report acknowledged, before the worker pushes again. Other reports may be arbitrarily late.
//! 4. It gives a step back only if nothing of it was pushed under its own update id.
//!
//! So the scheduler knows which step a sequence number of a lost incarnation belongs to, without the worker's help.
//! When an incarnation is lost, the chief fences it on every server, and each server returns that incarnation's
//! progress. A step that reached a server runs again under the lost incarnation's update id: servers that have it drop
//! the repeat, the others apply it, and the result is still delivered. A step that reached no server is an ordinary new
//! run.
//!
//! Reports name an [`AttemptId`], not only a step: a worker may get a step twice, and a late repeat of the first report
//! must not affect the second run.
//!
//! Inside: `step` and `worker` (the records of steps and incarnations), `sequences` (reported numbers), `queue`
//! (schedule and take), `refused` (steps that are refused), `outcomes` (how steps end), `unfinished_updates`
//! (half-pushed updates of lost workers), `rounds` (synchronous rounds), `reports`, `losses`, `errors` (the stored
//! error, the end), `watch` (stragglers).

mod errors;
mod incarnation;
mod losses;
mod options;
mod outcomes;
mod queue;
mod refused;
mod rejection;
mod reports;
mod rounds;
mod sequences;
mod step;
#[cfg(test)]
mod tests;
mod unfinished_updates;
mod watch;
mod worker;

pub use incarnation::TaskIncarnation;
pub use options::{Consistency, SchedulerOptions};
pub use queue::Scheduler;
pub use refused::{RefusalReason, RefusedStep};
pub use rejection::{Receipt, Rejection};
pub use step::{Assignment, AttemptId, StepEffect, StepId, StepOutcome, UpdateReach};
pub use watch::{Stalled, WorkerView};

//! The coordinator's queue: which worker runs which step, and what became of it. Pure; time is passed in.
//!
//! The chief owns a [`Scheduler`] and workers pull from it. What makes every update count once is a promise of the
//! servers (a name is applied once) and four rules that a worker keeps:
//!
//! 1. It runs steps in the order of their turns, and pushes their gradients in that order: each step under the worker's
//!    next sequence number, from 1 without gaps, unless the assignment names another life to push on behalf of.
//! 2. It pushes a step only after the one before is whole on every server.
//! 3. A step that was to push and ends without (failed, given back, nothing to push) is reported, and the report
//!    acknowledged, before the worker pushes anything again. Other reports may come as late as they like.
//! 4. It gives a step back only if nothing of it was pushed under its own name.
//!
//! From these the scheduler knows which step a sequence number of a lost life belongs to, without the worker's help. When
//! a life is lost, the chief fences it on every server, which answers how far it came there. A step of it that reached
//! a server runs again under the lost life's name: servers that have it drop the repeat, the others apply it, and
//! the result still comes. A step that reached no server is an ordinary new run.
//!
//! Reports name a [`Ticket`], not only a step: a step may come to the same worker twice, and a late repeat of the first
//! report must not touch the second run.
//!
//! Inside: `step` (what is known of a step), `worker` (of a life), `sequences` (which numbers were reported), `queue`
//! (schedule and take), `refused` (what it does not take), `outcomes` (how steps end), `owed` (updates left half pushed), `rounds` (which step is for which round), `reports`, `losses`, `errors` (the stored error, the end),
//! `watch` (stragglers).

mod errors;
mod life;
mod losses;
mod options;
mod outcomes;
mod owed;
mod queue;
mod refused;
mod remark;
mod reports;
mod rounds;
mod sequences;
mod step;
#[cfg(test)]
mod tests;
mod watch;
mod worker;

pub use life::Life;
pub use options::{Consistency, Options};
pub use queue::Scheduler;
pub use refused::{Refused, Why};
pub use remark::{Receipt, Remark};
pub use step::{Assignment, Effect, Outcome, Reach, StepId, Ticket};
pub use watch::{Stalled, WorkerView};

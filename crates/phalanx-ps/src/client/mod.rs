//! What a worker calls: create, find, push and pull.
//!
//! One round trip a step: the gradients of the step before go out in the same message that asks for what this step
//! needs, to all servers at once. The calling thread drives the connections itself: handing every exchange to another
//! thread and back would add two context switches. [`BackgroundExchange`] does so for a worker that computes meanwhile.

mod answer;
mod assign;
mod background;
mod calls;
mod describe;
mod exchange;
mod packing;
mod read;
mod recover;
mod remote_model;
mod rounds;
mod rows;
mod save;

pub use answer::PulledValues;
pub use background::BackgroundExchange;
pub use calls::{Client, ClientOptions, Stop};
pub use describe::ServerDescription;
pub use exchange::{Pulled, Push, UpdateMode};
pub use remote_model::RemoteModel;
pub use rounds::ClaimedBlock;
pub use rows::{RowGradients, RowSet};
pub use save::{SnapshotInfo, StagedPart};

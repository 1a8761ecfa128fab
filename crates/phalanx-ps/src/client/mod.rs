//! What a worker calls: create, find, push and pull.
//!
//! One round trip a step: the gradients of the step before go out in the same message that asks for what this step
//! needs, to all servers at once. The connections are driven by the calling thread itself: handing every exchange to
//! another thread and back would add two context switches to it. [`Ahead`] does so for who computes meanwhile.

mod ahead;
mod answer;
mod assign;
mod calls;
mod exchange;
mod packing;
mod recover;
mod remote;
mod rounds;
mod rows;
mod save;

pub use ahead::Ahead;
pub use answer::Values;
pub use calls::to_wire;
pub use calls::{Client, Options, Stop};
pub use exchange::{Mode, Pulled, Push};
pub use recover::ServerState;
pub use remote::Remote;
pub use rows::{RowGradients, RowSet};
pub use save::{CutMade, Part};

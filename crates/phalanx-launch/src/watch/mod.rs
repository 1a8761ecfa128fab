//! Reads a run directory while it grows or after its end: for `phalanx status`, the terminal's bottom line and the page.
//!
//! Files are the interface: a launcher, or nobody any more, wrote them; a page in the same process or another reads them.

mod board;
mod checkpoints;
mod curves;
mod follower;
mod loads;
mod tail;

pub use board::{Board, JobState, LogLine, TaskState, TaskView};
pub use checkpoints::CheckpointFile;
pub use curves::{Curve, Point};
pub use follower::Follower;

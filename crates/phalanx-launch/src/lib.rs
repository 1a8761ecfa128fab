//! Starts the tasks of a job on this machine as processes of their own, and leaves none behind. Knows nothing of models.

mod guard;
mod local_job;
mod ports;

pub use guard::die_with_parent;
pub use local_job::{Ended, Lines, LocalJob};
pub use ports::{free_ports, local_cluster};

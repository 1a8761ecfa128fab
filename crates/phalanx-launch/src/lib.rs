//! Starts the tasks of a job as processes of their own, shows them, and leaves none behind. Knows nothing of models: any
//! program that reads `TF_CONFIG` can be launched.
//!
//! Read first: [`Layout`] (which tasks, where), [`Supervision`] (what follows from a task's end; pure), [`Launch`] (carries it
//! out), [`guard_if_asked`] (why nothing outlives the launcher), [`Follower`] (reads what a launcher wrote).

mod args;
mod clock;
mod command;
mod disk;
mod exit;
mod guard;
mod journal;
mod launch;
mod layout;
mod limits;
mod lines;
mod listeners;
mod local_job;
mod marks;
mod oom;
mod ports;
mod process;
mod report;
mod run_dir;
mod running;
mod screen;
mod signals;
mod ssh;
mod supervise;
mod token;
mod watch;
mod watcher;

pub use args::{LaunchArgs, LayoutArgs, kill_at, print_tf_configs};
pub use clock::{now_ms, stamp};
pub use command::launch;
pub use disk::free_bytes;
pub use exit::{Class, Exit};
pub use guard::{die_with_parent, guard_if_asked};
pub use launch::Launch;
pub use layout::{Layout, Placed, Shape};
pub use local_job::{Ended, Lines, LocalJob};
pub use ports::{ReservedPorts, free_ports, local_cluster};
pub use report::{Report, TaskEnd};
pub use run_dir::{Happened, Kind, Outcome, RunDir, STATUS_DIR};
pub use screen::{Progress, Screen};
pub use signals::Signals;
pub use ssh::Ssh;
pub use supervise::{Do, End, Ending, Next, Restart, Rules, Supervision};
pub use token::new_token;
pub use watch::{Board, CheckpointFile, Curve, Follower, JobState, LogLine, Point, TaskState, TaskView};
pub use watcher::Watcher;

//! Launches the tasks of a job as processes, supervises them, and leaves none behind. Knows nothing about models: any program
//! that reads `TF_CONFIG` can be launched.
//!
//! Start with [`Layout`] (which tasks run where), `supervise.rs` (what follows from a task's exit; pure), [`Launch`] (runs the job),
//! [`guard`] (why no process outlives the launcher). The files of a run are in `phalanx-run`.

mod args;
mod command;
mod disk;
mod durability;
mod exit;
mod guard;
mod kills;
mod launch;
mod layout;
mod layout_args;
mod limits;
mod lines;
mod listeners;
mod node_plan;
mod observer;
mod oom;
mod participation;
mod ports;
mod process;
mod report;
mod running;
mod signals;
mod ssh;
mod staging;
mod supervise;
mod terminal;
mod this_program;

pub use args::{LaunchArgs, durability, kill_at};
pub use command::{StartDashboard, launch, tailer};
pub use disk::free_bytes;
pub use exit::{Exit, ExitClass};
pub use guard::{guard, guard_if_asked};
pub use launch::Launch;
pub use layout::{JobShape, Layout, Placed};
pub use layout_args::{LayoutArgs, MakeArgs};
pub use node_plan::NodePlan;
pub use observer::Observer;
pub use ports::{ReservedPorts, free_ports};
pub use report::{Report, TaskEnd};
pub use signals::Signals;
pub use ssh::{Ssh, shell_quoted};
pub use staging::{CopiedBy, NodeCopy};
pub use supervise::{Ending, Restart, Rules};
pub use terminal::{Progress, TerminalUi};
pub use this_program::ThisProgram;

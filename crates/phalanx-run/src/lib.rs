//! The files of a launched run: their formats, the code that writes them, and the code that reads them while they grow.
//!
//! Start with [`RunDir`] (where the files are), [`JobFile`], [`Event`] and [`TaskStatus`] (what they contain), [`Journal`] (writes
//! the launcher's files), [`StatusDir`] (read and written by launcher and tasks), [`RunTailer`] and [`RunState`] (what
//! `phalanx status`, the terminal and the dashboard show), [`RunIndex`] (the list of the runs in a folder).

mod checkpoints;
mod curves;
mod event;
mod folder;
mod format;
mod job_file;
mod journal;
mod loads;
mod placement;
mod process;
mod run_dir;
mod run_index;
mod settings;
mod shared_tailer;
mod state;
mod statistics;
mod stop;
mod summary;
mod tail;
mod tailer;
mod task_status;
mod timestamp;
mod token;
mod updates;
mod usage;

pub use checkpoints::CheckpointFile;
pub use curves::{Curve, Point};
pub use event::{Event, EventKind, Outcome};
pub use folder::{RunFolder, Runs};
pub use format::FORMAT_VERSION;
pub use job_file::{JobFile, JobTask};
pub use journal::Journal;
pub use placement::{PlacedShard, PlacedVariable, Placement};
pub use process::ProcessIdentity;
pub use run_dir::{RunDir, host_name};
pub use run_index::RunIndex;
pub use settings::Setting;
pub use shared_tailer::{SharedTailer, StateGuard};
pub use state::{JobState, LogLine, RunState, TaskState, TaskView};
pub use statistics::DataStatistics;
pub use summary::{LastMetric, RunSummary};
pub use tailer::RunTailer;
pub use task_status::{Holding, StatusDir, TaskFailure, TaskPhase, TaskStatus};
pub use timestamp::{now_ms, timestamp};
pub use token::new_token;
pub use updates::UpdateCount;
pub use usage::{JobUsage, ProcessUsage, RoleUsage};

/// The environment variable that names the directory for a task's status files.
pub const STATUS_DIR_VAR: &str = "PHALANX_STATUS_DIR";
/// The environment variable with the number of times that a task has been started, from 1.
pub const ATTEMPT_VAR: &str = "PHALANX_ATTEMPT";
/// The environment variable with the run directory for programs that choose none.
pub const OUTPUT_DIR_VAR: &str = "PHALANX_OUTPUT_DIR";

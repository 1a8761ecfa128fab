//! Checkpoints of a running job: saving, retention, and restoring servers that return.
//!
//! | read | for |
//! | --- | --- |
//! | `interval` | when to save |
//! | `retention` | which checkpoints stay |
//! | `lock` | one job at a time in a run directory |
//! | `store` | the checkpoints of a run directory and the file that names them |
//! | `saver` | one save, from the servers' snapshot to the published name |
//! | `restore` | restoring servers from the run directory |
//! | `manager` | the chief's thread that saves at an interval and restores a server that returns |

mod interval;
mod lock;
mod manager;
mod restore;
mod retention;
mod saver;
mod store;

pub(crate) use interval::{CheckpointInterval, SavePeriod};
pub(crate) use lock::RunLock;
pub use lock::refuse_if_in_use;
pub(crate) use manager::{CheckpointManager, StepSource};
pub(crate) use restore::{Recovered, Restorer, lost_for_good, sees};
pub use retention::Retention;
pub use saver::Saved;
pub(crate) use saver::Saver;
pub use store::CheckpointStore;
pub(crate) use store::now;

/// The default name of checkpoints; the global step follows, as in `model.ckpt-300`.
pub const BASENAME: &str = "model.ckpt";

/// Returns whether an error of reading a checkpoint means that its bytes are not those that were written.
#[must_use]
pub fn is_damage(error: &phalanx_base::Error) -> bool {
    use phalanx_base::Code;
    matches!(error.code(), Code::CheckpointDamaged | Code::CheckpointMissing | Code::DataFormat | Code::DataMissing)
}

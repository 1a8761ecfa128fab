//! Checkpoints of a running job: when, where, how many, and what happens when a server returns.
//!
//! | read | for |
//! | --- | --- |
//! | `retention` | which checkpoints stay |
//! | `catalog` | the checkpoints of a run directory and the file that names them |
//! | `lock` | one job at a time in a run directory |
//! | `saver` | one save from the servers' instant to the published name |
//! | `restore` | from the run directory into the servers |
//! | `keeper` | the chief's thread that saves at its pace and restores a server that returns |

mod catalog;
mod keeper;
mod lock;
mod restore;
mod retention;
mod saver;

pub use catalog::Catalog;
pub(crate) use catalog::now;
pub(crate) use keeper::{Follow, Keeper, Pace};
pub(crate) use lock::RunLock;
pub(crate) use restore::{Recovered, Restorer, lost_for_good, sees};
pub use retention::Retention;
pub use saver::Saved;
pub(crate) use saver::Saver;

/// Whether an error of reading a checkpoint says that its bytes are not those that were written.
#[must_use]
pub fn is_damage(error: &phalanx_base::Error) -> bool {
    use phalanx_base::Code;
    matches!(error.code(), Code::CheckpointDamaged | Code::CheckpointMissing | Code::DataFormat | Code::DataMissing)
}

//! Checkpoints: TensorFlow's tensor bundle, one data file for each server.
//!
//! Beside the variables (partitioned ones as slices) and their slots under TensorFlow's names, a checkpoint has
//! `global_step`; for each table its ids (`NAME-keys`) and rows (`NAME-values`) in one order; and, under
//! `_phalanx/`, what each server needs to continue exactly: how often each of its items was updated, and which updates
//! are in the values.

mod compare;
mod estimator_names;
mod files;
mod flow;
pub(crate) mod names;
mod reader;
mod records;
mod restore;
mod verify;

pub use compare::{Difference, compare};
pub use files::Files;
pub use names::{GLOBAL_STEP, OWN, table_keys, table_values};
pub use reader::Checkpoint;
pub use records::SavedProgress;
pub(crate) use restore::{RestorePlan, ShardPlan, TablePlan, restore_part};
pub use verify::verify_part;

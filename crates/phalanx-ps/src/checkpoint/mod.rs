//! Checkpoints: TensorFlow's tensor bundle, one data file for each server.
//!
//! Beside the variables (partitioned ones as slices) and their slots under TensorFlow's names, a checkpoint has
//! `global_step`; for each table its ids (`NAME-keys`) and rows (`NAME-values`) in one order; and, under
//! `_phalanx/`, what each server needs to go on exactly: how often each of its items was updated, and which updates
//! are in the values.

mod compare;
mod files;
mod flow;
mod reader;
mod records;
mod restore;
mod verify;
mod write;

pub use compare::{Difference, compare};
pub use files::Files;
pub use reader::Checkpoint;
pub use records::Applied;
pub use restore::feed_server;
pub(crate) use restore::{Plan, restore_part};
pub use verify::verify_part;
pub(crate) use write::write_cut;

/// The committed steps.
pub const GLOBAL_STEP: &str = "global_step";

/// Everything of ours that TensorFlow has no name for.
pub const OWN: &str = "_phalanx/";

/// The name of what a variable or table consists of: its values (`part` 0), then slot after slot.
fn part_name(optimizer: &phalanx_optim::Optimizer, of: &str, part: usize) -> String {
    match part {
        0 => of.to_owned(),
        slot => optimizer.slot_in_checkpoint(of, slot - 1),
    }
}

fn table_keys(table: &str) -> String {
    format!("{table}-keys")
}

fn table_values(table: &str) -> String {
    format!("{table}-values")
}

/// Which tasks left notes, and the notes.
const NOTES: [&str; 2] = ["_phalanx/notes/tasks", "_phalanx/notes/texts"];

/// The names of a server's items, one for each row of [`item_counts`].
fn item_names(server: u32) -> String {
    format!("{OWN}ps-{server:05}/items")
}

/// For each item of a server: its first row, how often it was updated, the rounds that are closed.
fn item_counts(server: u32) -> String {
    format!("{OWN}ps-{server:05}/counts")
}

/// For each task life: role, index, incarnation, step, parts applied, parts, fenced.
fn applied(server: u32) -> String {
    format!("{OWN}ps-{server:05}/applied")
}

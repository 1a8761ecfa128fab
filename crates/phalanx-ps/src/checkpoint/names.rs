//! The names of tensors in a checkpoint.

/// The committed steps.
pub const GLOBAL_STEP: &str = "global_step";

/// The prefix of everything that TensorFlow has no name for.
pub const OWN: &str = "_phalanx/";

/// The tasks that have an input position, and the positions.
pub(crate) const INPUT_POSITIONS: [&str; 2] = ["_phalanx/notes/tasks", "_phalanx/notes/texts"];

/// Returns the name of the values (`part` 0) or of a slot (from 1) of a variable or table.
pub(crate) fn part_name(optimizer: &phalanx_optim::Optimizer, of: &str, part: usize) -> String {
    match part {
        0 => of.to_owned(),
        slot => optimizer.slot_in_checkpoint(of, slot - 1),
    }
}

/// Returns the name of the tensor that holds the ids of a table.
#[must_use]
pub fn table_keys(table: &str) -> String {
    format!("{table}-keys")
}

/// Returns the name of the tensor that holds the rows of a table, or of one of its slots.
#[must_use]
pub fn table_values(table: &str) -> String {
    format!("{table}-values")
}

/// The names of a server's items, one for each row of [`item_counts`].
pub(crate) fn item_names(server: u32) -> String {
    format!("{OWN}ps-{server:05}/items")
}

/// For each item of a server: its first row, its number of updates, and the number of closed rounds.
pub(crate) fn item_counts(server: u32) -> String {
    format!("{OWN}ps-{server:05}/counts")
}

/// For each of them: how many of its steps the server lacks because it was restored.
pub(crate) fn lacking(server: u32) -> String {
    format!("{OWN}ps-{server:05}/lacking")
}

/// For each task incarnation: role, index, incarnation, step, parts applied, parts, fenced.
pub(crate) fn progress(server: u32) -> String {
    format!("{OWN}ps-{server:05}/applied")
}

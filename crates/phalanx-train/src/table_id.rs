//! The name of a table in a program.

/// A table of a model, as [`Supervisor::table`](crate::Supervisor::table) returns it: what a step names the table by whose
/// rows it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub(crate) usize);

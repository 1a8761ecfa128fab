//! Files as the readers see them: patterns become a sorted list, a path becomes a stream of decompressed bytes.
//!
//! This is the only place of the crate that opens anything, local or in an object store (`phalanx-storage` does both).

mod ahead;
mod bad_rows;
mod input_file;
mod list;
mod open;
mod side_by_side;

pub use bad_rows::BadRows;
pub use list::Files;

pub(crate) use input_file::InputFile;
pub(crate) use open::{OpenFile, open};
pub(crate) use side_by_side::SideBySide;

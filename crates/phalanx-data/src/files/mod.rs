//! Files as the readers see them: patterns become a sorted list, a path becomes a stream of decompressed bytes.
//!
//! Only this module opens files, local ones or objects in a store, through `phalanx-storage`.

mod ahead;
mod bad_rows;
mod input_file;
mod list;
mod open;
mod side_by_side;

pub use bad_rows::BadRows;
pub(crate) use input_file::InputFile;
pub(crate) use list::FileList;
pub use list::Files;
pub(crate) use open::{OpenFile, open};
pub(crate) use side_by_side::SideBySide;

//! Rows of equal size, as IDX and NumPy files have them: a header, then one row after another.

mod element;
mod files;
mod reader;

pub(crate) use element::{Element, Layout};
pub(crate) use files::StridedFiles;
pub(crate) use reader::{Opened, StridedReader};

/// What a column of such rows becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Floats stay floats, bytes stay bytes, other numbers become int64.
    #[default]
    Natural,
    /// Whole numbers, as labels are wanted.
    Integers,
    /// Floats between 0 and 1, as pixels are wanted.
    Scaled,
}

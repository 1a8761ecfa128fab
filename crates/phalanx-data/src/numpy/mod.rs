//! NumPy's files: `.npy` with one array, `.npz` with several; the first axis is the row.
//!
//! | in the file | here |
//! | --- | --- |
//! | f4, f8 | float32 (f8 is rounded) |
//! | u1 | uint8 |
//! | i1, i2, i4, i8, u2, u4, bool | int64 |
//! | S, U | string (zeros at the end do not count; U as UTF-8) |
//!
//! Arrays in Fortran's order are refused, unless order makes no difference: their rows are scattered over the file.

mod header;
mod members;
mod source;

#[cfg(test)]
mod tests;

use crate::Files;
pub use source::{Npy, Npz};

/// Reads `.npy` files as one column; [`Npy::column`] adds further ones.
///
/// ```no_run
/// use phalanx_data::{SourceExt, npy};
/// let data = npy("x", "train-x.npy").column("y", "train-y.npy").label("y").batch(32);
/// # drop(data);
/// ```
pub fn npy(name: impl Into<String>, files: impl Into<Files>) -> Npy {
    Npy::new(name.into(), files.into())
}

/// Reads `.npz` files: every array is a column under its own name, all of them with as many rows.
///
/// ```no_run
/// use phalanx_data::{SourceExt, npz};
/// let data = npz("mnist.npz").select(["x_train", "y_train"]).label("y_train").batch(32);
/// # drop(data);
/// ```
pub fn npz(files: impl Into<Files>) -> Npz {
    Npz::new(files.into())
}

//! Work split over the threads of rayon's current pool, without allocation.
//!
//! Every row of the outputs is written by one call, so the number of threads changes no bit.

use std::ops::Range;

/// The fewest numbers of an element-wise operation for each thread: fewer are done before a second one would have started.
pub(crate) const GRAIN: usize = 1 << 14;

/// A part of an operation that is split between rows.
pub(crate) trait Rows: Send + Sized {
    /// Returns the first `rows` rows, and the others.
    fn split(self, rows: usize) -> (Self, Self);
}

/// A slice to be read, with this many numbers in each row.
#[derive(Clone, Copy)]
pub(crate) struct In<'a, T>(pub(crate) &'a [T], pub(crate) usize);

/// A slice to be written, with this many numbers in each row.
pub(crate) struct Out<'a, T>(pub(crate) &'a mut [T], pub(crate) usize);

impl<T: Sync> Rows for In<'_, T> {
    fn split(self, rows: usize) -> (Self, Self) {
        let (a, b) = self.0.split_at(rows * self.1);
        (Self(a, self.1), Self(b, self.1))
    }
}

impl<T: Send> Rows for Out<'_, T> {
    fn split(self, rows: usize) -> (Self, Self) {
        let (a, b) = self.0.split_at_mut(rows * self.1);
        (Self(a, self.1), Self(b, self.1))
    }
}

impl Rows for Range<usize> {
    fn split(self, rows: usize) -> (Self, Self) {
        let middle = self.start + rows;
        (self.start..middle, middle..self.end)
    }
}

impl<R: Rows> Rows for Option<R> {
    fn split(self, rows: usize) -> (Self, Self) {
        self.map(|all| all.split(rows)).unzip()
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        impl<$($name: Rows),*> Rows for ($($name,)*) {
            fn split(self, rows: usize) -> (Self, Self) {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                $(#[allow(non_snake_case)] let $name = $name.split(rows);)*
                (($($name.0,)*), ($($name.1,)*))
            }
        }
    )*};
}
tuples! { A B; A B C; A B C D; A B C D E; A B C D E F; }

/// Calls `work` for all of `parts`, which have `rows` rows, in pieces of at least `grain` rows.
pub(crate) fn by_rows<P: Rows>(rows: usize, grain: usize, parts: P, work: &(impl Fn(P) + Sync)) {
    let threads = rayon::current_num_threads();
    if threads == 1 || rows <= grain {
        return if rows > 0 {
            work(parts)
        };
    }
    split(rows, grain.max(rows.div_ceil(4 * threads)), parts, work);
}

fn split<P: Rows>(rows: usize, grain: usize, parts: P, work: &(impl Fn(P) + Sync)) {
    if rows <= grain {
        return work(parts);
    }
    let half = rows / 2;
    let (a, b) = parts.split(half);
    rayon::join(|| split(half, grain, a, work), || split(rows - half, grain, b, work));
}

/// Returns the rows of `columns` numbers that make up a [`GRAIN`].
pub(crate) fn grain(columns: usize) -> usize {
    (GRAIN / columns.max(1)).max(1)
}

/// Checks that a slice has `rows` rows of `columns` numbers.
///
/// # Panics
/// If it has not.
#[track_caller]
pub(crate) fn check<T>(what: &str, slice: &[T], rows: usize, columns: usize) {
    assert_eq!(Some(slice.len()), rows.checked_mul(columns), "{what}: {rows} rows of {columns} numbers");
}

/// Returns the number of rows of `columns` numbers in a slice.
///
/// # Panics
/// If the slice does not consist of complete rows.
#[track_caller]
pub(crate) fn rows_of<T>(what: &str, slice: &[T], columns: usize) -> usize {
    if columns == 0 {
        assert!(slice.is_empty(), "{what}: rows without numbers");
        return 0;
    }
    assert!(slice.len().is_multiple_of(columns), "{what}: complete rows of {columns} numbers");
    slice.len() / columns
}

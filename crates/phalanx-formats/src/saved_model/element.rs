//! The types that tensors of a graph can have, as types of Rust.

use crate::bundle::Dtype;

/// What an element of a tensor can be: `f32`, `f64`, `i32`, `i64`, `bool`, or [`Text`].
pub trait Element: Copy + sealed::Sealed + 'static {
    /// TensorFlow's type.
    const DTYPE: Dtype;
}

/// Elements that are numbers.
pub trait Number: Element {
    /// Zero.
    const ZERO: Self;
    /// Appends the little-endian bytes.
    fn put(self, out: &mut Vec<u8>);
}

/// Elements that can say which: rows, buckets, classes.
pub trait Index: Number {}

/// The elements of string tensors. It has no values: constants are made with
/// [`GraphBuilder::texts`](super::GraphBuilder::texts).
#[derive(Clone, Copy, Debug)]
pub enum Text {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty = $dtype:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            const ZERO: Self = 0 as $type;
            fn put(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}

elements! {
    f32 = F32;
    f64 = F64;
    i32 = I32;
    i64 = I64;
    bool = Bool;
    Text = String;
}
numbers! { f32 f64 i32 i64 }
impl Index for i32 {}
impl Index for i64 {}

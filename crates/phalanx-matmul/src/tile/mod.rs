//! One tile of a product, summed up in registers, and the instruction sets that can do it.
//!
//! A tile is a few rows by one or two vectors of columns. Its left factor is read where it stands, number by number: matrices
//! in either order and the pixels of an image need no copy. Its right factor is read by vectors: rows of a matrix, or panels
//! that were packed from one.

#![allow(unsafe_code)]

mod body;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::level::Isa;
use crate::{Level, Precision};

/// What computes tiles. A value proves that this CPU has the instructions: it is made from a [`Level`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Both factors are words of two bfloat16 numbers, of two steps along the sum.
    #[cfg(target_arch = "x86_64")]
    Bf16,
}

impl Kernel {
    /// Returns the kernel of a level and, where it has one, of a precision.
    pub(crate) fn new(level: Level, precision: Precision) -> Self {
        match level.isa() {
            Isa::Portable => Self::Portable,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Self::Avx2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { bf16: true } if precision == Precision::Bf16 => Self::Bf16,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { .. } => Self::Avx512,
        }
    }

    /// Returns the most rows of a tile.
    pub(crate) fn rows(self) -> usize {
        match self {
            Self::Portable => portable::ROWS,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 6,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Bf16 => 14,
        }
    }

    /// Returns the most columns of a tile.
    pub(crate) fn columns(self) -> usize {
        match self {
            Self::Portable => portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 16,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Bf16 => 32,
        }
    }

    /// Returns the lanes of a vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Self::Portable => portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 8,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 | Self::Bf16 => 16,
        }
    }

    /// Returns whether part of a vector is read as fast as all of it.
    pub(crate) fn has_masks(self) -> bool {
        self != Self::Portable
    }

    /// Returns the steps along the sum that a word holds.
    pub(crate) fn steps_per_word(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Bf16 => 2,
            _ => 1,
        }
    }

    /// Computes a tile.
    ///
    /// # Safety
    /// As [`Tile`] says.
    pub(crate) unsafe fn compute(self, tile: &Tile) {
        // SAFETY: a kernel exists only where the CPU has its instructions; the caller promises the rest.
        unsafe {
            match self {
                Self::Portable => portable::compute(tile),
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 => x86::avx2::compute(tile),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => x86::avx512::compute(tile),
                #[cfg(target_arch = "x86_64")]
                Self::Bf16 => x86::bf16::compute(tile),
            }
        }
    }
}

/// Repetitions of the innermost loop over steps, and how far each moves both factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    pub(crate) count: usize,
    pub(crate) left: usize,
    pub(crate) right: usize,
}

impl Repeat {
    pub(crate) const ONCE: Self = Self { count: 1, left: 0, right: 0 };
}

/// Where the factors of a tile stand. All distances are in words of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    /// The loops around the steps, the outer one first.
    pub(crate) repeats: [Repeat; 2],
    /// Steps of the innermost loop.
    pub(crate) steps: usize,
    pub(crate) left: *const f32,
    /// The distance between the rows of the left factor.
    pub(crate) left_row: usize,
    pub(crate) left_step: usize,
    pub(crate) right: *const f32,
    /// The distance between the vectors of one step of the right factor.
    pub(crate) right_vector: usize,
    pub(crate) right_step: usize,
    /// Whether vectors of the right factor can be read in full, beyond the columns of the tile.
    pub(crate) right_padded: bool,
}

/// Where the sums of a tile go, and what is done with them on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    pub(crate) out: *mut f32,
    /// The distance between rows of the product.
    pub(crate) row: usize,
    /// Whether the sums are added to the numbers in `out`.
    pub(crate) add: bool,
    /// A bias for each column, or null.
    pub(crate) bias: *const f32,
    /// Whether sums that are not positive then become 0.
    pub(crate) relu: bool,
    /// Outputs of a ReLU, laid out as `out`, or null: where they are not positive, the sum becomes 0.
    pub(crate) relu_outputs: *const f32,
}

/// A tile to compute.
///
/// To compute it is sound if it has 1 to [`Kernel::rows`] rows and 1 to [`Kernel::columns`] columns; if, for every step of every
/// repetition, the left factor can be read for every row and the right one for every column (for complete vectors if it is
/// padded); if `out` can be written for every row and column, which no other thread uses meanwhile, and is initialized if
/// `add` is set; and if `bias` and `relu_outputs` are null or can be read for every column and number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) factors: Factors,
    pub(crate) sums: Sums,
}

//! One tile of a product, summed up in registers.

use super::{COLUMNS, CacheLine, Kernel, ROWS};
use crate::Precision;
use std::arch::x86_64::*;

pub(super) struct Tile<'a> {
    pub(super) steps: usize,
    pub(super) left: *const CacheLine,
    pub(super) right: *const CacheLine,
    pub(super) out: *mut f32,
    /// The distance between rows of the product.
    pub(super) next: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Whether the sums are added to the numbers in `out`.
    pub(super) adds: bool,
    /// A bias for each column, and whether negative sums then become 0; set for the last steps along the sum.
    pub(super) finish: Option<(&'a [f32], bool)>,
}

impl Tile<'_> {
    /// Computes the tile.
    ///
    /// # Safety
    /// `left` has a line for every step, and `right` one or, where there are more than 16 columns, two. `rows` is 1 to
    /// [`ROWS`] and `columns` 1 to [`COLUMNS`]. The tile is inside the product, no other thread uses it meanwhile, and its
    /// numbers are initialized if `adds` is set. There is a bias for every column.
    pub(super) unsafe fn compute(&self, kernel: Kernel) {
        debug_assert!((1..=ROWS).contains(&self.rows) && (1..=COLUMNS).contains(&self.columns));
        // SAFETY: there is a kernel for this precision, so the CPU has its instructions. The tile is as the caller promises;
        // as many vectors are read and written as its columns need.
        unsafe {
            match (kernel.0, self.columns > 16) {
                (Precision::F32, true) => f32s::compute::<2>(self),
                (Precision::F32, false) => f32s::compute::<1>(self),
                (Precision::Bf16, true) => bf16s::compute::<2>(self),
                (Precision::Bf16, false) => bf16s::compute::<1>(self),
            }
        }
    }

    /// Writes the sums of one row.
    ///
    /// # Safety
    /// As for [`Self::compute`]; `row` is less than `rows`, and `VECTORS` vectors are as many as the columns need.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put<const VECTORS: usize>(&self, row: usize, sums: [__m512; VECTORS]) {
        for (i, sum) in sums.into_iter().enumerate() {
            let columns = (self.columns - 16 * i).min(16);
            let mask = ((1_u32 << columns) - 1) as __mmask16;
            // SAFETY: the row is inside the tile, and columns beyond its last one are masked, here and in the bias.
            unsafe {
                let to = self.out.add(row * self.next + 16 * i);
                let mut sum = if self.adds { _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, to)) } else { sum };
                if let Some((bias, relu)) = self.finish {
                    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, bias.as_ptr().add(16 * i)));
                    // NaN stays NaN; a zero becomes the positive one.
                    let below = _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_LE_OQ);
                    sum = if relu { _mm512_mask_mov_ps(sum, below, _mm512_setzero_ps()) } else { sum };
                }
                _mm512_mask_storeu_ps(to, mask, sum);
            }
        }
    }
}

macro_rules! kernel {
    ($name:ident, $features:literal, |$sum:ident, $left:ident, $right:ident| $multiply:expr) => {
        mod $name {
            use super::*;

            /// Computes a tile.
            ///
            /// # Safety
            /// The CPU has the features that are enabled here. The tile is as [`Tile::compute`] requires, and `VECTORS` is 2
            /// where it has more than 16 columns, or else 1.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn compute<const VECTORS: usize>(tile: &Tile<'_>) {
                // SAFETY: the same conditions; each arm takes the tile's own number of rows, of which there are 14 at most.
                unsafe {
                    match tile.rows {
                        1 => rows::<1, VECTORS>(tile),
                        2 => rows::<2, VECTORS>(tile),
                        3 => rows::<3, VECTORS>(tile),
                        4 => rows::<4, VECTORS>(tile),
                        5 => rows::<5, VECTORS>(tile),
                        6 => rows::<6, VECTORS>(tile),
                        7 => rows::<7, VECTORS>(tile),
                        8 => rows::<8, VECTORS>(tile),
                        9 => rows::<9, VECTORS>(tile),
                        10 => rows::<10, VECTORS>(tile),
                        11 => rows::<11, VECTORS>(tile),
                        12 => rows::<12, VECTORS>(tile),
                        13 => rows::<13, VECTORS>(tile),
                        _ => rows::<14, VECTORS>(tile),
                    }
                }
            }

            /// Computes a tile of `ROWS` rows.
            ///
            /// # Safety
            /// As for `compute`, and the tile has `ROWS` rows.
            #[target_feature(enable = $features)]
            unsafe fn rows<const ROWS: usize, const VECTORS: usize>(tile: &Tile<'_>) {
                let mut sums = [[_mm512_setzero_ps(); VECTORS]; ROWS];
                for step in 0..tile.steps {
                    // SAFETY: the left factor has a line for every step, of at least `ROWS` words; the right one has `VECTORS`
                    // lines for every step.
                    unsafe {
                        let lefts: *const i32 = tile.left.add(step).cast();
                        let rights: [__m512i; VECTORS] =
                            std::array::from_fn(|i| _mm512_load_si512(tile.right.add(step * VECTORS + i).cast()));
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let $left = _mm512_set1_epi32(*lefts.add(row));
                            for ($sum, &$right) in sums.iter_mut().zip(&rights) {
                                *$sum = $multiply;
                            }
                        }
                    }
                }
                for (row, sums) in sums.into_iter().enumerate() {
                    // SAFETY: the tile has `ROWS` rows.
                    unsafe { tile.put(row, sums) };
                }
            }
        }
    };
}

kernel!(f32s, "avx512f,avx512bw", |sum, left, right| _mm512_fmadd_ps(
    _mm512_castsi512_ps(left),
    _mm512_castsi512_ps(right),
    *sum
));
kernel!(bf16s, "avx512f,avx512bw,avx512bf16", |sum, left, right| _mm512_dpbf16_ps(
    *sum,
    std::mem::transmute::<__m512i, __m512bh>(left),
    std::mem::transmute::<__m512i, __m512bh>(right)
));

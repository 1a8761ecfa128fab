//! `f32` numbers in little-endian bytes of any alignment.
//!
//! Bytes that come off a socket are not aligned for `f32`. They are copied block by block into an aligned buffer that stays
//! in the L1 cache; no message is copied as a whole.

/// Numbers per block: 4 KiB, a small part of the L1 cache.
const BLOCK: usize = 1024;

/// An aligned scratch buffer for reading numbers out of bytes of any alignment.
pub struct F32Block(Box<[f32; BLOCK]>);

impl Default for F32Block {
    fn default() -> Self {
        Self(Box::new([0.0; BLOCK]))
    }
}

impl F32Block {
    /// Calls `each` with successive runs of the numbers in `bytes` and the position of each run.
    ///
    /// ```
    /// let bytes: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    /// let mut sum = 0.0;
    /// phalanx_base::F32Block::default().each(&bytes, |_, run| sum += run.iter().sum::<f32>());
    /// assert_eq!(sum, 6.0);
    /// ```
    pub fn each(&mut self, bytes: &[u8], mut each: impl FnMut(usize, &[f32])) {
        if let Some(numbers) = in_place(bytes) {
            return each(0, numbers);
        }
        for (i, chunk) in bytes.chunks(4 * BLOCK).enumerate() {
            let run = &mut self.0[..chunk.len() / 4];
            read_f32s(chunk, run);
            each(i * BLOCK, run);
        }
    }
}

/// Returns the numbers in little-endian `bytes`: a view of `bytes` if they are aligned, else a copy in `buffer`, which must
/// be of the same length.
///
/// ```
/// let bytes = 1.5_f32.to_le_bytes();
/// assert_eq!(phalanx_base::as_f32s(&bytes, &mut [0.0]), [1.5]);
/// ```
pub fn as_f32s<'a>(bytes: &'a [u8], buffer: &'a mut [f32]) -> &'a [f32] {
    in_place(bytes).unwrap_or_else(|| {
        read_f32s(bytes, buffer);
        buffer
    })
}

/// Returns a view of little-endian `bytes` as numbers; `None` if they must be copied to be read.
///
/// ```
/// let numbers = [1.5_f32, 2.5];
/// let bytes = bytemuck::cast_slice(&numbers);
/// if cfg!(target_endian = "little") {
///     assert_eq!(phalanx_base::in_place(bytes), Some(&numbers[..]));
/// }
/// assert_eq!(phalanx_base::in_place(&bytes[1..5]), None);
/// ```
#[must_use]
pub fn in_place(bytes: &[u8]) -> Option<&[f32]> {
    if cfg!(target_endian = "little") { bytemuck::try_cast_slice(bytes).ok() } else { None }
}

/// Fills `numbers` from little-endian `bytes`; stops at the shorter of the two.
pub fn read_f32s(bytes: &[u8], numbers: &mut [f32]) {
    for (number, four) in numbers.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *number = f32::from_le_bytes(*four);
    }
}

/// Appends `numbers` to `bytes`, little-endian.
pub fn write_f32s(numbers: &[f32], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + 4 * numbers.len(), 0);
    for (four, number) in bytes[start..].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
        *four = number.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_every_number_once_at_any_alignment() {
        let numbers: Vec<f32> = (0..5000_u16).map(f32::from).collect();
        for offset in 0..4 {
            let mut bytes = vec![0; offset];
            write_f32s(&numbers, &mut bytes);
            let mut seen = vec![0.0; numbers.len()];
            F32Block::default().each(&bytes[offset..], |at, run| seen[at..at + run.len()].copy_from_slice(run));
            assert_eq!(seen, numbers);
        }
    }
}

//! Gradients of rows: ids and their rows, never made dense.

use phalanx_base::{Code, Error, Result};

/// Rows by id. After a reduction the ids are in order and each is there once.
///
/// ```
/// use phalanx_collective::Rows;
/// let rows = Rows::new(2, vec![7, 3], vec![1.0, 2.0, 3.0, 4.0]).unwrap();
/// assert_eq!(rows.row(1), [3.0, 4.0]);
/// assert!(Rows::new(2, vec![7], vec![1.0]).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    width: usize,
    ids: Vec<i64>,
    values: Vec<f32>,
}

impl Rows {
    /// Rows of `width` numbers each, one behind another. An id may be there several times.
    ///
    /// # Errors
    /// When there are not as many numbers as ids times `width`.
    pub fn new(width: usize, ids: Vec<i64>, values: Vec<f32>) -> Result<Self> {
        if ids.len().checked_mul(width) != Some(values.len()) {
            return Err(Error::new(Code::ShapeMismatch, "ids and rows do not fit each other").because(format!(
                "{} ids with rows of {width}, but {} numbers",
                ids.len(),
                values.len()
            )));
        }
        Ok(Self { width, ids, values })
    }

    /// How many numbers a row has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The ids.
    #[must_use]
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }

    /// The rows, one behind another, in the order of the ids.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Row number `i`, which is that of `ids()[i]`.
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.width..(i + 1) * self.width]
    }

    /// The ids and the rows.
    #[must_use]
    pub fn into_parts(self) -> (Vec<i64>, Vec<f32>) {
        (self.ids, self.values)
    }

    pub(crate) fn finish(&mut self, reduce: crate::Reduce, members: usize) {
        reduce.finish(&mut self.values, members);
    }

    /// Puts the ids and then the rows behind `bytes`, as they lie: all members run the same build.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(bytemuck::cast_slice(&self.ids));
        bytes.extend_from_slice(bytemuck::cast_slice(&self.values));
    }

    /// Sums up what the members wrote: rows of one id in the order of the ranks, and of a member in its own order.
    pub(crate) fn merge(width: usize, members: &[Vec<u8>]) -> Result<Self> {
        let each = 8 + 4 * width;
        if let Some(wrong) = members.iter().position(|bytes| bytes.len() % each != 0) {
            let error = Error::new(Code::BadMessage, format!("the rows of rank {wrong} are malformed"));
            return Err(error.because(format!("{} bytes are no rows of {width}", members[wrong].len())));
        }
        let count = |bytes: &Vec<u8>| bytes.len() / each;
        let mut order: Vec<(i64, u32, u32)> = Vec::with_capacity(members.iter().map(count).sum());
        for (rank, bytes) in members.iter().enumerate() {
            let ids = bytes[..8 * count(bytes)].as_chunks::<8>().0;
            order.extend(ids.iter().zip(0..).map(|(id, i)| (i64::from_ne_bytes(*id), rank as u32, i)));
        }
        order.sort_unstable();
        let mut merged = Self { width, ids: Vec::with_capacity(order.len()), values: Vec::new() };
        merged.values.reserve(order.len() * width);
        for (id, rank, i) in order {
            let bytes = &members[rank as usize];
            let start = 8 * count(bytes) + 4 * width * i as usize;
            let row = bytes[start..start + 4 * width].as_chunks::<4>().0.iter().map(|four| f32::from_ne_bytes(*four));
            if merged.ids.last() == Some(&id) {
                let end = merged.values.len();
                merged.values[end - width..].iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
            } else {
                merged.ids.push(id);
                merged.values.extend(row);
            }
        }
        Ok(merged)
    }
}

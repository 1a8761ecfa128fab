//! A part of a tensor, dimension by dimension.

use super::region::Region;
use phalanx_base::{Code, Error, Result, Shape};

/// What a slice takes of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Extent {
    /// All of it.
    Full,
    /// `length` from `start` on.
    Range {
        /// The first index.
        start: u64,
        /// How many.
        length: u64,
    },
}

/// A box inside a tensor. Saying a dimension in full and saying all its indices mean the same numbers, but not the
/// same key in the index.
///
/// ```
/// use phalanx_formats::bundle::TensorSlice;
/// let slice = TensorSlice::rows(4, 2, 3);
/// assert_eq!(slice.to_string(), "4,2:-:-");
/// assert_eq!("4,2:-:-".parse::<TensorSlice>().unwrap(), slice);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorSlice(Vec<Extent>);

impl TensorSlice {
    /// A slice of these extents, outermost first.
    #[must_use]
    pub fn new(extents: impl Into<Vec<Extent>>) -> Self {
        Self(extents.into())
    }

    /// The whole of a tensor of this rank.
    #[must_use]
    pub fn full(rank: usize) -> Self {
        Self(vec![Extent::Full; rank])
    }

    /// `length` rows from `start` on of a tensor of this rank; a scalar has none.
    #[must_use]
    pub fn rows(start: u64, length: u64, rank: usize) -> Self {
        let mut slice = Self::full(rank);
        if let Some(first) = slice.0.first_mut() {
            *first = Extent::Range { start, length };
        }
        slice
    }

    /// The extents, outermost first.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.0
    }

    /// The indices that the slice means in a tensor of this shape.
    ///
    /// # Errors
    /// When it has another rank or does not lie inside.
    pub(super) fn region(&self, shape: &Shape) -> Result<Region> {
        let outside = || {
            Error::new(Code::ShapeMismatch, format!("slice {self} is not inside of shape {shape}"))
                .help("a slice has one start,length or - per dimension")
        };
        if self.0.len() != shape.dims().len() {
            return Err(outside());
        }
        let range = |(extent, &size): (&Extent, &usize)| match *extent {
            Extent::Full => Some((0, size)),
            Extent::Range { start, length } => {
                let (start, length) = (usize::try_from(start).ok()?, usize::try_from(length).ok()?);
                start.checked_add(length).filter(|&end| end <= size).map(|_| (start, length))
            }
        };
        let ranges: Option<Vec<_>> = self.0.iter().zip(shape.dims()).map(range).collect();
        ranges.map(Region::new).ok_or_else(outside)
    }
}

impl std::fmt::Display for TensorSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, extent) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ":" })?;
            match extent {
                Extent::Full => f.write_str("-")?,
                Extent::Range { start, length } => write!(f, "{start},{length}")?,
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for TensorSlice {
    type Err = Error;

    /// Reads TensorFlow's notation; the empty text is the slice of a scalar.
    fn from_str(text: &str) -> Result<Self> {
        let extent = |text: &str| match text.split_once(',') {
            None => (text == "-").then_some(Extent::Full),
            Some((start, length)) => Some(Extent::Range { start: start.parse().ok()?, length: length.parse().ok()? }),
        };
        let extents: Option<Vec<_>> = text.split(':').filter(|_| !text.is_empty()).map(extent).collect();
        extents.map(Self).ok_or_else(|| {
            Error::new(Code::ShapeMismatch, format!("{text:?} is not a slice")).help("write 0,5:- for rows 0 to 4")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_outside_of_the_shape_are_refused() {
        let shape = Shape::new([4, 5]).unwrap();
        for text in ["0,5:-", "4,1:-", "-:1,5", "18446744073709551615,2:-", "-", "-:-:-", ""] {
            assert!(text.parse::<TensorSlice>().unwrap().region(&shape).is_err(), "{text}");
        }
        for text in ["0,4:-", "4,0:-", "-:1,4", "-:-"] {
            assert!(text.parse::<TensorSlice>().unwrap().region(&shape).is_ok(), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_slices() {
        for text in ["a", "1", "1,2:", ":", "1,-2", "1,2,3"] {
            assert!(text.parse::<TensorSlice>().is_err(), "{text}");
        }
    }
}

//! The shape of a tensor, with sizes that cannot overflow.

use crate::{Code, Error, Result};

const MAX_RANK: usize = 8;
/// Anything larger belongs into a table.
const MAX_ELEMENTS: u64 = 1 << 40;

/// The shape of a dense tensor: its dimensions, outermost first.
///
/// ```
/// use phalanx_base::Shape;
/// let shape = Shape::new([9, 20]).unwrap();
/// assert_eq!((shape.elements(), shape.rows(), shape.row_elements()), (180, 9, 20));
/// assert_eq!(shape.to_string(), "[9, 20]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// Creates a shape. A scalar has no dimensions.
    ///
    /// # Errors
    /// When there are more than 8 dimensions or 2⁴⁰ elements.
    pub fn new(dims: impl Into<Vec<usize>>) -> Result<Self> {
        let dims = dims.into();
        // A dimension of zero must not hide others whose product overflows.
        let fits = dims.len() <= MAX_RANK
            && dims.iter().try_fold(1_u64, |n, &d| n.checked_mul(d.max(1) as u64)).is_some_and(|n| n <= MAX_ELEMENTS);
        if fits {
            Ok(Self(dims))
        } else {
            Err(Error::new(Code::ShapeMismatch, format!("shape {dims:?} is too large"))
                .because(format!("at most {MAX_RANK} dimensions and {MAX_ELEMENTS} elements")))
        }
    }

    /// Returns the dimensions.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Returns the number of elements; 1 for a scalar.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// Returns the size of axis 0, along which variables are split; 1 for a scalar.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.first().copied().unwrap_or(1)
    }

    /// Returns the number of elements in one row along axis 0.
    #[must_use]
    pub fn row_elements(&self) -> usize {
        self.0.iter().skip(1).product()
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_shapes_are_refused() {
        assert!(Shape::new([usize::MAX, usize::MAX]).is_err());
        assert!(Shape::new([1; 9]).is_err());
        assert!(Shape::new([1 << 21, 1 << 20]).is_err());
    }

    #[test]
    fn scalars_and_empty_shapes_have_sizes() {
        assert_eq!(Shape::new([]).unwrap().elements(), 1);
        assert_eq!(Shape::new([0, 5]).unwrap().elements(), 0);
    }
}

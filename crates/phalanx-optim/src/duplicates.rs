//! Summing several gradients of one id.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use phalanx_base::{Code, Error, Result};

/// Sums the gradients of equal ids; ids are in the order of first occurrence.
///
/// Rules with slots need this before they see a sparse gradient: two updates by `g` are not one update by `2g`. It is
/// what TensorFlow's `_apply_sparse_duplicate_indices` does; plain SGD adds up either way.
///
/// ```
/// let (ids, grads) = phalanx_optim::sum_duplicates(&[7, 3, 7], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0], 2)?;
/// assert_eq!(ids, [7, 3]);
/// assert_eq!(grads, [4.0, 4.0, 2.0, 2.0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When `grads` does not hold `dim` numbers per id.
pub fn sum_duplicates(ids: &[i64], grads: &[f32], dim: usize) -> Result<(Vec<i64>, Vec<f32>)> {
    if ids.len().checked_mul(dim) != Some(grads.len()) {
        let what = format!("{} ids of {dim} elements need other than {} gradients", ids.len(), grads.len());
        return Err(Error::new(Code::ShapeMismatch, what));
    }
    let mut place: HashMap<i64, usize> = HashMap::with_capacity(ids.len());
    let mut unique = Vec::with_capacity(ids.len());
    let mut sums: Vec<f32> = Vec::with_capacity(grads.len());
    for (i, &id) in ids.iter().enumerate() {
        let grad = &grads[i * dim..(i + 1) * dim];
        match place.entry(id) {
            Entry::Vacant(entry) => {
                entry.insert(unique.len());
                unique.push(id);
                sums.extend_from_slice(grad);
            }
            Entry::Occupied(entry) => {
                let sum = &mut sums[entry.get() * dim..][..dim];
                sum.iter_mut().zip(grad).for_each(|(sum, grad)| *sum += grad);
            }
        }
    }
    Ok((unique, sums))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_of_first_occurrence() {
        let (ids, grads) = sum_duplicates(&[5, -1, 5, 9, -1], &[1.0, 2.0, 3.0, 4.0, 5.0], 1).unwrap();
        assert_eq!((ids, grads), (vec![5, -1, 9], vec![4.0, 7.0, 4.0]));
    }

    #[test]
    fn empty_and_zero_wide_are_fine() {
        assert_eq!(sum_duplicates(&[], &[], 3).unwrap(), (vec![], vec![]));
        assert_eq!(sum_duplicates(&[1, 1], &[], 0).unwrap(), (vec![1], vec![]));
    }

    #[test]
    fn refuses_lengths_that_disagree() {
        assert_eq!(sum_duplicates(&[1, 2], &[1.0; 3], 2).unwrap_err().code(), Code::ShapeMismatch);
        assert!(sum_duplicates(&[1, 2], &[1.0; 3], usize::MAX).is_err());
    }
}

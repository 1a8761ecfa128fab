//! Reductions.

/// How the members' values are reduced to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// Their sum, divided by their number.
    Mean,
}

impl Reduce {
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Sum => 1,
            Self::Mean => 2,
        }
    }

    /// Turns sums into means, if this is [`Self::Mean`].
    pub(crate) fn finish(self, sums: &mut [f32], members: usize) {
        if self == Self::Mean {
            let members = members as f32;
            sums.iter_mut().for_each(|sum| *sum /= members);
        }
    }
}

/// Adds element by element. Addition commutes, so the bits do not depend on which side is which.
pub(crate) fn add(into: &mut [f32], numbers: &[f32]) {
    for (sum, number) in into.iter_mut().zip(numbers) {
        *sum += number;
    }
}

/// Returns the range of part `i` when `length` is split into `parts`. The first parts may be longer by one.
pub(crate) fn part(length: usize, parts: usize, i: usize) -> std::ops::Range<usize> {
    let (base, extra) = (length / parts, length % parts);
    let start = i * base + i.min(extra);
    start..start + base + usize::from(i < extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_once() {
        for length in 0..40 {
            for parts in 1..7 {
                let ends: Vec<_> = (0..parts).map(|i| part(length, parts, i)).collect();
                assert_eq!((ends[0].start, ends[parts - 1].end), (0, length));
                assert!(ends.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].len() >= pair[1].len()));
            }
        }
    }
}

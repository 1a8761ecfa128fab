//! The number of distinct values: exact while there are few, then estimated by HyperLogLog.

use std::collections::HashSet;

/// The largest exact count.
const EXACT: usize = 4096;
/// The number of leading bits of a hash that choose a register.
const BITS: u32 = 14;
const REGISTERS: usize = 1 << BITS;

/// A counter of distinct hashes.
#[derive(Clone, Debug)]
pub(super) enum Distinct {
    Exact(HashSet<u64>),
    /// The longest run of zeros, plus one, of the hashes of each register.
    Estimated(Vec<u8>),
}

impl Default for Distinct {
    fn default() -> Self {
        Self::Exact(HashSet::new())
    }
}

impl Distinct {
    pub(super) fn add(&mut self, hash: u64) {
        match self {
            Self::Estimated(registers) => raise(registers, hash),
            Self::Exact(seen) => {
                seen.insert(hash);
                if seen.len() > EXACT {
                    let registers = self.registers();
                    *self = Self::Estimated(registers);
                }
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        match other {
            Self::Exact(seen) => seen.iter().for_each(|&hash| self.add(hash)),
            Self::Estimated(theirs) => {
                let mut registers = self.registers();
                registers.iter_mut().zip(theirs).for_each(|(ours, &theirs)| *ours = theirs.max(*ours));
                *self = Self::Estimated(registers);
            }
        }
    }

    fn registers(&self) -> Vec<u8> {
        match self {
            Self::Estimated(registers) => registers.clone(),
            Self::Exact(seen) => {
                let mut registers = vec![0; REGISTERS];
                seen.iter().for_each(|&hash| raise(&mut registers, hash));
                registers
            }
        }
    }

    pub(super) fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Exact(seen) => seen.len() as u64,
            Self::Estimated(registers) => estimate(registers),
        }
    }
}

fn raise(registers: &mut [u8], hash: u64) {
    let register = (hash >> (64 - BITS)) as usize;
    // The set bit ends the run within the bits that chose no register.
    let run = (hash << BITS | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
    registers[register] = registers[register].max(run);
}

fn estimate(registers: &[u8]) -> u64 {
    let count = REGISTERS as f64;
    let sum: f64 = registers.iter().map(|&run| (-f64::from(run)).exp2()).sum();
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    let empty = registers.iter().filter(|&&run| run == 0).count();
    let linear = if empty == 0 { f64::INFINITY } else { count * (count / empty as f64).ln() };
    (if raw <= 2.5 * count && linear.is_finite() { linear } else { raw }).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(range: std::ops::Range<u64>) -> Distinct {
        let mut all = Distinct::default();
        range.for_each(|value| all.add(phalanx_base::mix(value)));
        all
    }

    #[test]
    fn few_values_are_exact_and_many_within_two_percent() {
        assert_eq!(counter(0..4096).count(), 4096);
        for size in [5_000, 20_000, 100_000, 1_000_000] {
            let found = counter(0..size).count() as f64;
            assert!((found / size as f64 - 1.0).abs() < 0.02, "{found} of {size}");
        }
    }

    #[test]
    fn a_merge_counts_the_union() {
        let mut merged = counter(0..60_000);
        merged.merge(&counter(30_000..90_000));
        assert_eq!(merged.count(), counter(0..90_000).count());
        let mut small = counter(0..10);
        small.merge(&counter(5..15));
        assert_eq!((small.count(), small.is_exact()), (15, true));
    }
}

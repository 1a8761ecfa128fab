//! Dropout.

use crate::support::with_threads;
use phalanx_matmul::{Dropout, Level};

fn dropped(dropout: Dropout, level: Level, threads: usize, length: usize) -> Vec<f32> {
    let mut y = vec![f32::NAN; length];
    with_threads(threads, || dropout.apply(level, &vec![1.0; length], &mut y));
    y
}

#[test]
fn neither_threads_nor_levels_change_a_bit() {
    let dropout = Dropout { seed: 0x1234_5678_9abc_def0, rate: 0.3 };
    for length in [0, 1, 63, 64, 65, 1000, 100_001] {
        let first = dropped(dropout, Level::PORTABLE, 1, length);
        for level in Level::all() {
            assert_eq!(dropped(dropout, level, 1, length), first);
            assert_eq!(dropped(dropout, level, 5, length), first);
        }
        // Number i does not depend on how many there are.
        assert_eq!(dropped(dropout, Level::detect(), 2, 200_000)[..length], first);
    }
}

#[test]
fn the_fraction_is_that_of_the_rate() {
    for rate in [0.1, 0.5, 0.9] {
        let y = dropped(Dropout { seed: 5, rate }, Level::detect(), 1, 1_000_000);
        let count = y.iter().filter(|&&y| y == 0.0).count() as f64;
        // Six deviations.
        let deviation = (1e6 * f64::from(rate) * (1.0 - f64::from(rate))).sqrt();
        assert!((count - 1e6 * f64::from(rate)).abs() < 6.0 * deviation, "{count} of {rate}");
        assert!(y.iter().all(|&y| y == 0.0 || y == 1.0 / (1.0 - rate)));
    }
    assert_eq!(dropped(Dropout { seed: 5, rate: 0.0 }, Level::detect(), 1, 1000), [1.0; 1000]);
    assert_eq!(dropped(Dropout { seed: 5, rate: 1.0 }, Level::detect(), 1, 1000), [0.0; 1000]);
}

#[test]
fn seeds_are_independent() {
    let first = dropped(Dropout { seed: 1, rate: 0.5 }, Level::detect(), 1, 10_000);
    for seed in [2, 1 << 32, 1 << 63] {
        let other = dropped(Dropout { seed, rate: 0.5 }, Level::detect(), 1, 10_000);
        let same = first.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!((4700..5300).contains(&same), "{same}");
    }
}

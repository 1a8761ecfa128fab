//! Embedding lookups and their gradients.

use crate::support::{near, numbers, with_threads};
use phalanx_base::SplitMix;
use phalanx_matmul::{Bags, Combiner, Level, gather, row_sums, row_sums_scratch};

/// Random rows of a table of `count`.
fn rows(length: usize, count: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix::new(seed);
    // Half of them are few, as in real data.
    (0..length).map(|i| random.below(if i % 2 == 0 { count } else { count.min(3) }) as u32).collect()
}

const SHAPES: [(usize, usize, usize, usize, usize); 6] = [
    // Lines, rows per line, more numbers, table rows, numbers of a row.
    (0, 3, 2, 5, 4),
    (7, 1, 0, 1, 1),
    (13, 2, 3, 10, 7),
    (40, 26, 13, 500, 16),
    (9, 5, 0, 30, 17),
    (100, 3, 1, 40, 64),
];

#[test]
fn rows_are_gathered_and_their_gradients_summed_up() {
    for level in Level::all() {
        for (lines, per_line, more, count, dim) in SHAPES {
            let (table, at) = (numbers(count * dim, 1), rows(lines * per_line, count, 2));
            let width = per_line * dim + more;
            let before = numbers(lines * width, 3);
            let mut out = before.clone();
            gather(dim, &table, &at, (per_line, width), &mut out);
            let mut exact = vec![0.0_f64; count * dim];
            for line in 0..lines {
                for (i, &got) in out[line * width..][..width].iter().enumerate() {
                    let entry = (i < per_line * dim).then(|| at[line * per_line + i / dim] as usize * dim + i % dim);
                    assert_eq!(got, entry.map_or(before[line * width + i], |entry| table[entry]));
                    if let Some(entry) = entry {
                        exact[entry] += f64::from(before[line * width + i]);
                    }
                }
            }
            let mut sums = vec![f32::NAN; count * dim];
            let mut scratch = vec![u32::MAX; row_sums_scratch(&at, count)];
            row_sums(level, dim, &at, (per_line, width), &before, &mut sums, &mut scratch);
            for (&got, &exact) in sums.iter().zip(&exact) {
                near(got, exact, 1e-6, lines as f64 * 8.0, || format!("{lines} lines {level:?}"));
            }
        }
    }
}

#[test]
fn bags_of_every_kind() {
    let lengths = [0, 1, 3, 0, 0, 7, 40, 2, 0];
    let mut starts = vec![0];
    starts.extend(lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    }));
    let entries = starts[lengths.len()] as usize;
    for level in Level::all() {
        for dim in [1, 4, 16, 19] {
            let (count, at, mut weights) = (12, rows(entries, 12, 2), numbers(entries, 5));
            // The weights of a bag may cancel out.
            (weights[1], weights[2], weights[3]) = (1.0, 1.0, -2.0);
            let (table, dy) = (numbers(count * dim, 1), numbers(lengths.len() * dim, 6));
            for combiner in [Combiner::Sum, Combiner::Mean, Combiner::Sqrtn] {
                for weights in [None, Some(&weights[..])] {
                    let bags = Bags { rows: &at, starts: &starts, weights, combiner };
                    let (mut out, mut sums) = (vec![f32::NAN; dy.len()], vec![f32::NAN; table.len()]);
                    let mut scratch = vec![u32::MAX; bags.gradient_scratch(count)];
                    bags.forward(level, dim, &table, &mut out);
                    bags.gradient(level, dim, &dy, &mut sums, &mut scratch);
                    let (mut exact, mut slopes) = (vec![0.0; dy.len()], vec![0.0; table.len()]);
                    for bag in 0..lengths.len() {
                        let range = starts[bag] as usize..starts[bag + 1] as usize;
                        let weight = |i: usize| weights.map_or(1.0, |weights| f64::from(weights[i]));
                        let under = match combiner {
                            Combiner::Sum => 1.0,
                            Combiner::Mean => range.clone().map(weight).sum::<f64>(),
                            Combiner::Sqrtn => range.clone().map(|i| weight(i).powi(2)).sum::<f64>().sqrt(),
                        };
                        for (i, d) in range.flat_map(|i| (0..dim).map(move |d| (i, d))).filter(|_| under != 0.0) {
                            let (row, to) = (at[i] as usize * dim + d, bag * dim + d);
                            exact[to] += f64::from(table[row]) * weight(i) / under;
                            slopes[row] += f64::from(dy[to]) * weight(i) / under;
                        }
                    }
                    let what = || format!("{combiner:?} {dim} {level:?}");
                    out.iter().zip(&exact).for_each(|(&got, &exact)| near(got, exact, 1e-5, 300.0, what));
                    sums.iter().zip(&slopes).for_each(|(&got, &exact)| near(got, exact, 1e-5, 300.0, what));
                }
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let (count, dim, at) = (3000, 16, rows(20_000, 3000, 1));
    let gradient = numbers(at.len() * dim, 2);
    for level in Level::all() {
        let with = |threads: usize| {
            with_threads(threads, || {
                let (mut sums, mut out) = (vec![0.0; count * dim], vec![0.0; gradient.len()]);
                let mut scratch = vec![0; row_sums_scratch(&at, count)];
                row_sums(level, dim, &at, (4, 4 * dim), &gradient, &mut sums, &mut scratch);
                gather(dim, &sums, &at, (4, 4 * dim), &mut out);
                (sums, out)
            })
        };
        assert!(with(1) == with(3), "{level:?}");
    }
}

#[test]
#[should_panic(expected = "the table has every row, of 3")]
fn a_row_beyond_the_table_is_refused() {
    gather(2, &[0.0; 6], &[3], (1, 2), &mut [0.0; 2]);
}

#[test]
#[should_panic(expected = "the bags have all entries")]
fn bags_beyond_the_entries_are_refused() {
    let bags = Bags { rows: &[0], starts: &[0, 2], weights: None, combiner: Combiner::Sum };
    bags.forward(Level::detect(), 1, &[0.0], &mut [0.0]);
}

#[test]
#[should_panic(expected = "fit into 2")]
fn lines_that_are_too_short_are_refused() {
    gather(usize::MAX, &[], &[], (2, 2), &mut []);
}

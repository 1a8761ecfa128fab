//! Embedding lookups and their gradients.

use crate::Level;
use crate::level::leveled;
use crate::math::fma;
use crate::parallel::{GRAIN, In, Out, by_rows, check, grain, rows_of};

/// How the rows of a bag are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combiner {
    /// Their weighted sum.
    Sum,
    /// The sum over the sum of the weights.
    Mean,
    /// The sum over the root of the sum of the squared weights.
    Sqrtn,
}

/// Bags of table rows: bag `i` has the entries `starts[i]..starts[i + 1]`, and entry `j` is row `rows[j]` of the table.
///
/// ```
/// use phalanx_matmul::{Bags, Combiner, Level};
///
/// let table = [1.0, 2.0, 3.0, 4.0];
/// let bags = Bags { rows: &[0, 1, 1], starts: &[0, 0, 3], weights: None, combiner: Combiner::Sum };
/// let mut out = [9.0; 4];
/// bags.forward(Level::detect(), 2, &table, &mut out);
/// assert_eq!(out, [0.0, 0.0, 7.0, 10.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bags<'a> {
    /// The table row of each entry.
    pub rows: &'a [u32],
    /// Where each bag starts; one more number than there are bags.
    pub starts: &'a [u32],
    /// A weight for each entry.
    pub weights: Option<&'a [f32]>,
    /// How the rows are combined. A bag without entries, or with weights that sum to 0, is 0.
    pub combiner: Combiner,
}

impl Bags<'_> {
    /// Writes the combination of each bag's rows, of `dim` numbers.
    ///
    /// # Panics
    /// If bags, rows or weights do not fit the slices.
    pub fn forward(&self, level: Level, dim: usize, table: &[f32], out: &mut [f32]) {
        let bags = self.check(rows_of("the table", table, dim));
        check("the bags", out, bags, dim);
        by_rows(bags, grain(4 * dim), (0..bags, Out(out, dim)), &|(bags, out)| {
            for (bag, out) in bags.zip(out.0.chunks_exact_mut(dim.max(1))) {
                self.combine(level, bag, table, out);
            }
        });
    }

    fn combine(&self, level: Level, bag: usize, table: &[f32], out: &mut [f32]) {
        out.fill(0.0);
        let factor = self.factor(bag);
        for entry in self.entries(bag) {
            let at = self.rows[entry] as usize * out.len();
            add_row(level, factor * self.weight(entry), &table[at..at + out.len()], out);
        }
    }

    /// Returns how many numbers of scratch [`Self::gradient`] needs for a table of `count` rows.
    #[must_use]
    pub fn gradient_scratch(&self, count: usize) -> usize {
        row_sums_scratch(self.rows, count).saturating_add(self.rows.len()).saturating_add(self.starts.len())
    }

    /// Writes the gradient of every row of the table, of `dim` numbers: the sum over its entries, in their order.
    ///
    /// ```
    /// use phalanx_matmul::{Bags, Combiner, Level};
    ///
    /// let bags = Bags { rows: &[0, 1, 1], starts: &[0, 1, 3], weights: None, combiner: Combiner::Mean };
    /// let (mut scratch, mut sums) = (vec![0; bags.gradient_scratch(2)], [0.0; 2]);
    /// bags.gradient(Level::detect(), 1, &[3.0, 4.0], &mut sums, &mut scratch);
    /// assert_eq!(sums, [3.0, 4.0]);
    /// ```
    ///
    /// # Panics
    /// If bags, rows or weights do not fit the slices, or there is too little scratch.
    pub fn gradient(&self, level: Level, dim: usize, dy: &[f32], sums: &mut [f32], scratch: &mut [u32]) {
        let count = rows_of("the table", sums, dim);
        let bags = self.check(count);
        check("the gradient of the bags", dy, bags, dim);
        let (sorted, scratch) = scratch.split_at_mut(row_sums_scratch(self.rows, count));
        let (bag_of, factors) = scratch[..self.rows.len() + bags].split_at_mut(self.rows.len());
        for bag in 0..bags {
            bag_of[self.entries(bag)].fill(bag as u32);
            factors[bag] = self.factor(bag).to_bits();
        }
        let (bag_of, factors) = (&*bag_of, &*factors);
        sum_rows(level, dim, self.rows, sums, sorted, &|entry| {
            let bag = bag_of[entry] as usize;
            (f32::from_bits(factors[bag]) * self.weight(entry), &dy[bag * dim..][..dim])
        });
    }

    fn entries(&self, bag: usize) -> std::ops::Range<usize> {
        self.starts[bag] as usize..self.starts[bag + 1] as usize
    }

    fn weight(&self, entry: usize) -> f32 {
        self.weights.map_or(1.0, |weights| weights[entry])
    }

    /// Returns what the sum of a bag is multiplied by.
    fn factor(&self, bag: usize) -> f32 {
        let weights = || self.entries(bag).map(|entry| self.weight(entry));
        let under = match self.combiner {
            Combiner::Sum => return 1.0,
            Combiner::Mean => weights().sum::<f32>(),
            Combiner::Sqrtn => weights().map(|weight| weight * weight).sum::<f32>().sqrt(),
        };
        if under == 0.0 { 0.0 } else { 1.0 / under }
    }

    /// Checks everything and returns the number of bags.
    fn check(&self, table_rows: usize) -> usize {
        let bags = self.starts.len().checked_sub(1).expect("the starts have one more number than there are bags");
        assert!(self.starts.is_sorted(), "bags start in order");
        assert_eq!((self.starts[0], self.starts[bags] as usize), (0, self.rows.len()), "the bags have all entries");
        self.weights.inspect(|weights| check("the weights", weights, self.rows.len(), 1));
        check_rows(self.rows, table_rows);
        bags
    }
}

fn check_rows(rows: &[u32], count: usize) {
    assert!(rows.iter().all(|&row| (row as usize) < count), "the table has every row, of {count}");
}

/// Copies one row of the table for each of `rows`, `per_line` of them to the start of each line of `width` numbers. The rest
/// of a line, for other numbers of the example, stays as it is.
///
/// ```
/// use phalanx_matmul::gather;
///
/// let mut out = [9.0; 6];
/// gather(1, &[1.0, 2.0, 3.0], &[0, 2, 1, 1], (2, 3), &mut out);
/// assert_eq!(out, [1.0, 3.0, 9.0, 2.0, 2.0, 9.0]);
/// ```
///
/// # Panics
/// If the slices do not have the same lines, or a row is not in the table.
pub fn gather(dim: usize, table: &[f32], rows: &[u32], (per_line, width): (usize, usize), out: &mut [f32]) {
    check_rows(rows, rows_of("the table", table, dim));
    let lines = lines(dim, rows, per_line, width, out);
    by_rows(lines, grain(width), (In(rows, per_line), Out(out, width)), &|(rows, out)| {
        for (rows, line) in rows.0.chunks_exact(per_line.max(1)).zip(out.0.chunks_exact_mut(width.max(1))) {
            for (&row, to) in rows.iter().zip(line.chunks_exact_mut(dim)) {
                to.copy_from_slice(&table[row as usize * dim..][..dim]);
            }
        }
    });
}

/// Checks that `rows` makes up lines of `per_line`, and returns their number.
fn lines<T>(dim: usize, rows: &[u32], per_line: usize, width: usize, out: &[T]) -> usize {
    let lines = rows_of("the rows", rows, per_line);
    assert!(per_line.checked_mul(dim).is_some_and(|used| used <= width), "{per_line} rows of {dim} fit into {width}");
    check("the lines", out, lines, width);
    lines
}

/// Returns how many numbers of scratch [`row_sums`] needs.
#[must_use]
pub fn row_sums_scratch(rows: &[u32], count: usize) -> usize {
    rows.len().saturating_add(count).saturating_add(1)
}

/// Writes the gradient of `count` table rows, of `dim` numbers: for each the sum over its places in `rows`, in their order.
/// The gradient of entry `j` stands where [`gather`] would write row `j`.
///
/// ```
/// use phalanx_matmul::{Level, row_sums, row_sums_scratch};
///
/// let rows = [1, 0, 1];
/// let mut scratch = vec![0; row_sums_scratch(&rows, 2)];
/// let mut sums = [0.0; 2];
/// row_sums(Level::detect(), 1, &rows, (1, 1), &[1.0, 2.0, 4.0], &mut sums, &mut scratch);
/// assert_eq!(sums, [2.0, 5.0]);
/// ```
///
/// # Panics
/// If the slices do not have the same lines, a row is not in the table, or there is too little scratch.
pub fn row_sums(
    level: Level,
    dim: usize,
    rows: &[u32],
    (per_line, width): (usize, usize),
    gradient: &[f32],
    sums: &mut [f32],
    scratch: &mut [u32],
) {
    let count = rows_of("the table", sums, dim);
    check_rows(rows, count);
    lines(dim, rows, per_line, width, gradient);
    sum_rows(level, dim, rows, sums, scratch, &|entry| {
        let (line, place) = (entry / per_line, entry % per_line);
        (1.0, &gradient[line * width + place * dim..][..dim])
    });
}

/// Sums up, for each row of a table, what `term` returns for its entries: a factor and a gradient.
fn sum_rows<'a>(
    level: Level,
    dim: usize,
    rows: &[u32],
    sums: &mut [f32],
    scratch: &mut [u32],
    term: &(impl Fn(usize) -> (f32, &'a [f32]) + Sync),
) {
    let count = rows_of("the table", sums, dim);
    assert!(u32::try_from(rows.len()).is_ok(), "fewer than 2 to the 32nd rows are looked up at once");
    let (ends, order) = scratch[..rows.len() + count + 1].split_at_mut(count + 1);
    sort_entries(rows, ends, order);
    let (ends, order) = (&*ends, &*order);
    // What a row costs depends on how many entries it has; a grain has as many as others on average.
    let grain = (GRAIN / dim.max(1)).saturating_mul(count) / rows.len().max(1);
    by_rows(count, grain.max(1), (0..count, Out(sums, dim)), &|(range, out)| {
        for (row, out) in range.zip(out.0.chunks_exact_mut(dim.max(1))) {
            let start = if row == 0 { 0 } else { ends[row - 1] };
            out.fill(0.0);
            for &entry in &order[start as usize..ends[row] as usize] {
                let (factor, gradient) = term(entry as usize);
                add_row(level, factor, gradient, out);
            }
        }
    });
}

/// Sorts entries by their row, keeping the order of equal ones; `ends` becomes where each row's entries end.
fn sort_entries(rows: &[u32], ends: &mut [u32], order: &mut [u32]) {
    ends.fill(0);
    for &row in rows {
        ends[row as usize + 1] += 1;
    }
    for row in 1..ends.len() {
        ends[row] += ends[row - 1];
    }
    // The start of each row moves to its end while its entries are placed.
    for (entry, &row) in rows.iter().enumerate() {
        let to = &mut ends[row as usize];
        order[*to as usize] = entry as u32;
        *to += 1;
    }
}

leveled! {
    fn add_row(factor: f32, x: &[f32], y: &mut [f32]) => add_row_body;
}

#[inline(always)]
fn add_row_body<const F: bool>(factor: f32, x: &[f32], y: &mut [f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = fma::<F>(factor, x, *y);
    }
}

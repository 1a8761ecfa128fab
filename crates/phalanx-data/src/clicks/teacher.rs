//! The fixed teacher: what makes a row of the click log a click.
//!
//! Its logit has a part for every number (straight and bent), for the frequent ids of every categorical column, and for
//! some pairs of columns, which only a model that combines columns can learn. Rare ids have no effect, so that a model
//! that has seen enough rows can come near the best that is attainable.

use super::columns::{CARDINALITIES, NUMBERS};
use super::math::{normal, sigmoid, word};

/// Ids from this one on have no effect of their own.
const HEAD: usize = 1024;
/// Ids of a pair from this one on count as this one less one.
const PAIR_HEAD: usize = 16;
/// Pairs of categorical columns that act together: of small, middle and large cardinality.
const PAIRS: [(usize, usize); 8] = [(5, 8), (2, 19), (13, 16), (0, 21), (11, 22), (3, 24), (15, 4), (20, 7)];
/// How strong each kind of part is; together they make the best attainable AUC about 0.80.
const STRAIGHT: f64 = 0.18;
const BENT: f64 = 0.09;
const IDS: f64 = 0.22;
const PAIRED: f64 = 0.25;

/// Weights drawn once from a seed of their own, never from the seed of the rows.
#[derive(Clone, Debug)]
pub(super) struct Teacher {
    straight: [f64; NUMBERS],
    bent: [f64; NUMBERS],
    /// [`HEAD`] effects for each categorical column.
    ids: Vec<f32>,
    /// [`PAIR_HEAD`] squared effects for each pair.
    pairs: Vec<f32>,
    intercept: f64,
}

impl Teacher {
    /// The teacher of that seed, before its intercept is set.
    pub(super) fn new(seed: u64) -> Self {
        let key = word(seed, 0xC11C);
        let draw = |part: u64, at: usize| normal(word(word(key, part), at as u64));
        Self {
            straight: std::array::from_fn(|at| STRAIGHT * draw(1, at)),
            bent: std::array::from_fn(|at| BENT * draw(2, at)),
            ids: (0..CARDINALITIES.len() * HEAD).map(|at| (IDS * draw(3, at)) as f32).collect(),
            pairs: (0..PAIRS.len() * PAIR_HEAD * PAIR_HEAD).map(|at| (PAIRED * draw(4, at)) as f32).collect(),
            intercept: 0.0,
        }
    }

    /// Sets the intercept so that these logits, made without one, have the wanted mean probability.
    pub(super) fn calibrate(&mut self, logits: &[f64], positives: f64) {
        let (mut low, mut high) = (-30.0, 30.0);
        for _ in 0..32 {
            let middle = (low + high) / 2.0;
            let mean = logits.iter().map(|logit| sigmoid(logit + middle)).sum::<f64>() / logits.len() as f64;
            if mean < positives { low = middle } else { high = middle }
        }
        self.intercept = (low + high) / 2.0;
    }

    pub(super) fn intercept(&self) -> f64 {
        self.intercept
    }

    /// Adds what number `index` says; `z` is its value on the scale of a standard normal.
    #[inline]
    pub(super) fn add_number(&self, index: usize, z: f64, logit: &mut f64) {
        *logit += self.straight[index] * z + self.bent[index] * (z * z - 1.0);
    }

    /// Adds what the ids of categorical column `index` say.
    pub(super) fn add_ids(&self, index: usize, ids: &[i64], logits: &mut [f64]) {
        let effects = &self.ids[index * HEAD..(index + 1) * HEAD];
        for (&id, logit) in ids.iter().zip(logits) {
            if let Some(&effect) = effects.get(id as usize) {
                *logit += f64::from(effect);
            }
        }
    }

    /// Adds what pairs of columns say together.
    pub(super) fn add_pairs(&self, columns: &[Vec<i64>], logits: &mut [f64]) {
        let tables = self.pairs.chunks_exact(PAIR_HEAD * PAIR_HEAD);
        for (&(a, b), table) in PAIRS.iter().zip(tables) {
            for ((&a, &b), logit) in columns[a].iter().zip(&columns[b]).zip(logits.iter_mut()) {
                let head = |id: i64| (id as usize).min(PAIR_HEAD - 1);
                *logit += f64::from(table[head(a) * PAIR_HEAD + head(b)]);
            }
        }
    }
}

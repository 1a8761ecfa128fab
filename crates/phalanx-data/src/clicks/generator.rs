//! Rows of the click log, a block at a time.
//!
//! Hot: column by column over a block, so that every loop is short and has no branch per row.

use super::columns::{CARDINALITIES, NUMBERS, PowerLaw};
use super::math::{exp2, normal, sigmoid, uniform, word};
use super::teacher::Teacher;

/// The share of clicks.
pub(super) const POSITIVES: f64 = 0.256;
/// How many rows set the intercept: enough for a tenth of a percent.
const CALIBRATION_ROWS: u64 = 1 << 16;
const CALIBRATION_SEED: u64 = 0x5EED_CA1B;
const BLOCK: u64 = 4096;

/// Makes any row of one click log.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    key: u64,
    laws: Vec<PowerLaw>,
    teacher: Teacher,
}

/// Some rows, column by column.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub(super) numbers: Vec<Vec<f32>>,
    pub(super) ids: Vec<Vec<i64>>,
    pub(super) labels: Vec<i64>,
    /// What the teacher thinks of each row.
    pub(super) probabilities: Vec<f64>,
}

impl Generator {
    /// Draws the teacher and sets its intercept; about 50 ms.
    pub(super) fn new(seed: u64, teacher_seed: u64, cap: Option<u64>) -> Self {
        let ids = CARDINALITIES.map(|ids| cap.map_or(ids, |cap| ids.min(cap.max(1))));
        let laws: Vec<PowerLaw> = ids.into_iter().map(PowerLaw::new).collect();
        let mut generator = Self { key: word(CALIBRATION_SEED, 0), laws, teacher: Teacher::new(teacher_seed) };
        let mut logits = Vec::with_capacity(CALIBRATION_ROWS as usize);
        for first in (0..CALIBRATION_ROWS).step_by(BLOCK as usize) {
            logits.extend(generator.rows_and_logits(first, BLOCK as usize).1);
        }
        generator.teacher.calibrate(&logits, POSITIVES);
        generator.key = word(seed, 1);
        generator
    }

    /// The rows from `first` on.
    pub(super) fn rows(&self, first: u64, count: usize) -> Rows {
        let (mut rows, logits) = self.rows_and_logits(first, count);
        rows.probabilities = logits.iter().map(|logit| sigmoid(logit + self.teacher.intercept())).collect();
        let chances = (first..).map(|row| uniform(word(self.row_key(row), LABEL_WORD)));
        rows.labels = rows.probabilities.iter().zip(chances).map(|(&p, chance)| i64::from(chance < p)).collect();
        rows
    }

    fn row_key(&self, row: u64) -> u64 {
        word(self.key, row)
    }

    fn rows_and_logits(&self, first: u64, count: usize) -> (Rows, Vec<f64>) {
        let keys: Vec<u64> = (first..).take(count).map(|row| self.row_key(row)).collect();
        let mut logits = vec![0.0; count];
        let number = |index: usize| {
            let column = keys.iter().zip(&mut logits).map(|(&key, logit)| {
                let z = normal(word(key, index as u64));
                self.teacher.add_number(index, z, logit);
                // Skewed as counts are: the middle is 1, a few are ten and more.
                exp2(z) as f32
            });
            column.collect()
        };
        let numbers: Vec<Vec<f32>> = (0..NUMBERS).map(number).collect();
        let mut ids = Vec::with_capacity(self.laws.len());
        for (index, law) in self.laws.iter().enumerate() {
            let column: Vec<i64> = keys.iter().map(|&key| law.draw(word(key, (NUMBERS + index) as u64))).collect();
            self.teacher.add_ids(index, &column, &mut logits);
            ids.push(column);
        }
        self.teacher.add_pairs(&ids, &mut logits);
        (Rows { numbers, ids, ..Rows::default() }, logits)
    }
}

const LABEL_WORD: u64 = (NUMBERS + CARDINALITIES.len()) as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_depends_on_its_number_alone() {
        let generator = Generator::new(3, 0, None);
        let all = generator.rows(100, 50);
        let some = generator.rows(117, 20);
        assert_eq!(all.ids[2][17..37], some.ids[2]);
        assert_eq!(all.numbers[12][17..37], some.numbers[12]);
        assert_eq!(all.labels[17..37], some.labels);
        assert_ne!(Generator::new(4, 0, None).rows(100, 50).ids, all.ids);
    }

    #[test]
    fn these_very_rows_on_every_machine() {
        let rows = Generator::new(1, 0, None).rows(1_000_000_007, 3);
        let shown = format!("{:?} {:?} {:?}", rows.ids[2], rows.numbers[0], rows.labels);
        assert_eq!(shown, "[485163, 122557, 15516] [1.8221506, 0.8730153, 1.225968] [1, 0, 0]");
    }

    #[test]
    fn a_cap_bounds_the_ids() {
        let rows = Generator::new(1, 0, Some(1000)).rows(0, 2000);
        assert!(rows.ids.iter().flatten().all(|&id| id < 1000));
        assert!(rows.ids[2].iter().any(|&id| id > 900));
    }
}

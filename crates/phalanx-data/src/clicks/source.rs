//! The click log as a source.

use super::columns::{CARDINALITIES, NUMBERS, category_name, number_name};
use super::generator::Generator;
use super::quality::{AttainableMetrics, best};
use crate::{Batch, Column, PartPosition, Reader, Schema, Source};
use phalanx_base::{Code, Error, Result};
use std::sync::{Arc, OnceLock};

/// How many rows a part has at least, and how many parts there are at most: enough for many workers to share.
const PART_ROWS: u64 = 8_192;
const MAX_PARTS: u64 = 1_024;

/// A click log that is made while it is read; see [`synthetic_clicks`](crate::synthetic_clicks).
///
/// Columns `I1` to `I13` are float32 (skewed, their middle is 1), `C1` to `C26` int64 ids from 0 on, `label` is int64, 0
/// or 1, and marked as the label.
#[derive(Clone, Debug)]
pub struct Clicks {
    seed: u64,
    rows: u64,
    teacher: u64,
    cap: Option<u64>,
    made: OnceLock<Arc<Made>>,
}

#[derive(Debug)]
struct Made {
    generator: Generator,
    schema: Arc<Schema>,
}

impl Clicks {
    pub(super) fn new(seed: u64, rows: u64) -> Self {
        Self { seed, rows, teacher: 0, cap: None, made: OnceLock::new() }
    }

    /// At most `ids` ids per column: smaller tables for a test.
    #[must_use]
    pub fn max_ids(self, ids: u64) -> Self {
        Self { cap: Some(ids.max(1)), made: OnceLock::new(), ..self }
    }

    /// Another teacher than the usual one.
    #[must_use]
    pub fn teacher(self, seed: u64) -> Self {
        Self { teacher: seed, made: OnceLock::new(), ..self }
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The names of the 13 numbers.
    #[must_use]
    pub fn number_names() -> Vec<String> {
        (0..NUMBERS).map(number_name).collect()
    }

    /// The names of the 26 columns of ids, each with the number of its ids.
    #[must_use]
    pub fn categories(&self) -> Vec<(String, u64)> {
        let cap = self.cap.unwrap_or(u64::MAX);
        CARDINALITIES.iter().enumerate().map(|(at, &ids)| (category_name(at), ids.min(cap))).collect()
    }

    /// The best AUC and log loss that any model can reach; takes about a quarter of a second.
    #[must_use]
    pub fn best(&self) -> AttainableMetrics {
        best(&self.made().generator)
    }

    fn made(&self) -> &Arc<Made> {
        self.made.get_or_init(|| {
            let names = (0..NUMBERS).map(number_name).chain((0..CARDINALITIES.len()).map(category_name));
            let schema = Schema::new(names.chain(["label".to_owned()]));
            // The names are ours and all different.
            let schema = schema.and_then(|schema| schema.with_label("label")).unwrap_or_else(|error| {
                unreachable!("the columns of a click log: {error}");
            });
            Arc::new(Made { generator: Generator::new(self.seed, self.teacher, self.cap), schema: Arc::new(schema) })
        })
    }

    fn part_count(&self) -> u64 {
        (self.rows / PART_ROWS).clamp(1, MAX_PARTS)
    }

    /// The first row of a part; of the part after the last one: the end.
    fn part_start(&self, part: u64) -> u64 {
        (u128::from(self.rows) * u128::from(part) / u128::from(self.part_count())) as u64
    }
}

impl Source for Clicks {
    fn parts(&self) -> Result<usize> {
        Ok(self.part_count() as usize)
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let (start, end) = (self.part_start(part as u64), self.part_start(part as u64 + 1));
        if from.row > end - start || part as u64 >= self.part_count() {
            return Err(Error::new(Code::DataFormat, "the click log is shorter than it was")
                .at(self.part_name(part))
                .because(format!("reading was to resume after row {} of {}", from.row, end - start)));
        }
        Ok(Box::new(ClicksReader { made: self.made().clone(), start, next: start + from.row, end }))
    }

    fn kind(&self) -> &str {
        "clicks"
    }

    fn part_name(&self, part: usize) -> String {
        let (start, end) = (self.part_start(part as u64), self.part_start(part as u64 + 1));
        format!("click log of seed {}, rows {start} to {end}", self.seed)
    }
}

/// `row` of its position counts the rows of the part that were read.
struct ClicksReader {
    made: Arc<Made>,
    start: u64,
    next: u64,
    end: u64,
}

impl Reader for ClicksReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        // More at once would leave the cache.
        let count = (self.end - self.next).min(max_rows.clamp(1, 4096) as u64) as usize;
        if count == 0 {
            return Ok(None);
        }
        let rows = self.made.generator.rows(self.next, count);
        self.next += count as u64;
        let numbers = rows.numbers.into_iter().map(Column::f32);
        let columns = numbers.chain(rows.ids.into_iter().map(Column::i64)).chain([Column::i64(rows.labels)]);
        Batch::with_schema(self.made.schema.clone(), columns.collect()).map(Some)
    }

    fn position(&self) -> PartPosition {
        PartPosition { row: self.next - self.start, ..PartPosition::START }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_part(log: &Clicks, part: usize, from: PartPosition) -> Batch {
        let mut reader = log.open(part, from).unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = reader.read(1000).unwrap() {
            batches.push(batch);
        }
        Batch::concat(&batches).unwrap()
    }

    #[test]
    fn parts_cover_every_row_once() {
        for rows in [1, 8_191, 8_192, 50_001, 100_000_000_000] {
            let log = Clicks::new(1, rows);
            let parts = log.part_count();
            assert_eq!((log.part_start(0), log.part_start(parts)), (0, rows));
            assert!((0..parts).all(|part| log.part_start(part) < log.part_start(part + 1)));
        }
        assert_eq!(read_part(&Clicks::new(1, 0), 0, PartPosition::START).rows(), 0);
    }

    #[test]
    fn a_position_continues_with_the_next_row() {
        let log = Clicks::new(9, 20_000).max_ids(100);
        let whole = read_part(&log, 1, PartPosition::START);
        assert_eq!(whole.rows(), 10_000);
        let mut reader = log.open(1, PartPosition::START).unwrap();
        reader.read(777).unwrap();
        assert_eq!(read_part(&log, 1, reader.position()), whole.slice(777..10_000));
        assert!(log.open(1, PartPosition { row: 10_001, ..PartPosition::START }).is_err());
    }

    #[test]
    fn a_quarter_are_positive_and_the_best_is_the_same_for_all_seeds() {
        let bests: Vec<AttainableMetrics> = (1..4)
            .map(|seed| {
                let log = Clicks::new(seed, 200_000);
                let clicks: i64 = (0..log.parts().unwrap())
                    .map(|part| read_part(&log, part, PartPosition::START).i64("label").unwrap().iter().sum::<i64>())
                    .sum();
                let share = clicks as f64 / 200_000.0;
                assert!((share - 0.256).abs() < 0.003, "{share}");
                log.best()
            })
            .collect();
        for best in &bests {
            assert!((best.auc - bests[0].auc).abs() < 0.003 && (0.78..0.82).contains(&best.auc), "{bests:?}");
            assert!((best.log_loss - bests[0].log_loss).abs() < 0.003, "{bests:?}");
            assert!((best.positives - 0.256).abs() < 0.003, "{bests:?}");
        }
    }

    #[test]
    fn ids_are_below_their_number_and_the_first_is_the_most_frequent() {
        let log = Clicks::new(5, 50_000);
        let batch = read_part(&log, 0, PartPosition::START);
        for (name, ids) in log.categories() {
            let column = batch.i64(&name).unwrap();
            assert!(column.iter().all(|&id| (0..ids as i64).contains(&id)), "{name}");
            let share = |wanted: i64| column.iter().filter(|&&id| id == wanted).count() as f64 / column.len() as f64;
            // Of two ids the first has at least 6 %, and clearly more than the third.
            assert!(share(0) > 0.06 && share(0) > 1.5 * share(2), "{name}: {} {}", share(0), share(2));
        }
    }
}

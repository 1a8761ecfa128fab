//! The statistics of a job's inputs.

use super::file::with_nulls;
use super::{ColumnReport, ColumnRole, DataStatistics, each_batch};
use crate::Job;
use crate::data::{Data, Format};
use phalanx_base::Result;
use phalanx_data::{Dataset, FeatureKind, FeatureSpec, NonFiniteValues, SourceExt, parquet, tfrecord};
use phalanx_feature::KnownValues;
use phalanx_storage::Dir;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file of a run directory with the statistics of the first batches.
const FILE: &str = "statistics.json";

/// How many of the first batches are counted, and how many rows at most.
const FIRST_BATCHES: u64 = 1000;
const FIRST_ROWS: u64 = 1 << 20;

/// The files of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPart {
    /// Those of the training.
    Train,
    /// Those of the evaluation.
    Eval,
}

impl Job {
    /// Returns statistics of the job's inputs: of values as they are in the files, and of how many of them the model
    /// knows. Reads `most` rows at most.
    ///
    /// # Errors
    /// If the data cannot be read. Errors that the file causes point at their cause.
    pub fn statistics(&self, part: DataPart, most: Option<u64>) -> Result<DataStatistics> {
        self.count(part, most, &|| false).map_err(|error| self.explain(error))
    }

    fn count(&self, part: DataPart, most: Option<u64>, stop: &dyn Fn() -> bool) -> Result<DataStatistics> {
        let inputs = &self.inputs.counted_apart();
        let files = match part {
            DataPart::Train => inputs.train_files(),
            DataPart::Eval => inputs.eval_files(),
        };
        let features = inputs.features.iter().map(|spec| ColumnReport::new(&spec.name, ColumnRole::Input));
        let weight = inputs.weight.iter().map(|spec| ColumnReport::new(&spec.name, ColumnRole::Weight));
        let label = ColumnReport::new(&inputs.label.name, ColumnRole::Label);
        let columns: Vec<_> = features.chain(weight).chain([label]).collect();
        let raw = inputs.data.raw_rows(files.clone(), &columns)?;
        let mut found = DataStatistics::read(&raw, columns, most, stop)?;
        // Unknown is what the model does not know of the values that it gets.
        let known = self.known_values()?;
        if !known.is_empty() {
            each_batch(&inputs.spelled_rows(files), most, stop, |batch| {
                for known in &known {
                    let column = found.columns.iter_mut().find(|column| column.name == known.key());
                    column.map_or(Ok(()), |column| {
                        batch.column(known.key()).map(|values| column.count_unknown(known, values))
                    })?;
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// The vocabularies and ranges of the model's columns, one for each input.
    fn known_values(&self) -> Result<Vec<KnownValues>> {
        let mut all: Vec<KnownValues> = Vec::new();
        for column in self.model.columns().flat_map(|(named, _, _)| &named.columns) {
            for known in column.known_values()? {
                if all.iter().all(|other| other.key() != known.key()) {
                    all.push(known);
                }
            }
        }
        Ok(all)
    }

    /// The number of rows in the first batches.
    pub(crate) fn first_rows(&self) -> u64 {
        FIRST_BATCHES.saturating_mul(self.train.batch_size as u64).min(FIRST_ROWS)
    }

    /// Runs `work` while another thread counts the first rows of the training files, logs what it found and leaves it in
    /// the run directory. Training reads on its own, so it does not wait.
    pub(crate) fn counting_first_rows<T>(&self, location: &str, work: impl FnOnce() -> T) -> T {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let count = || {
                let found = self.count(DataPart::Train, Some(self.first_rows()), &|| ended.load(Ordering::Relaxed));
                // What is wrong with the data is reported by the training itself.
                let Ok(found) = found else { return };
                found.log();
                let written =
                    Dir::open(location).and_then(|dir| dir.write(FILE, found.to_json().to_string().as_bytes()));
                if let Err(error) = written {
                    tracing::warn!(code = %error.code(), "the statistics of the data are not kept: {error}");
                }
            };
            let counting = std::thread::Builder::new().name("phalanx-stats".into()).spawn_scoped(scope, count);
            let done = work();
            ended.store(true, Ordering::Relaxed);
            match counting {
                // If it panicked, the training is done all the same.
                Ok(counting) => drop(counting.join()),
                Err(error) => tracing::warn!("the training data is not counted: {error}"),
            }
            done
        })
    }
}

impl DataStatistics {
    fn log(&self) {
        let of = if self.complete { "all" } else { "the first" };
        tracing::info!("statistics of {of} {} rows of the training files:", self.rows);
        self.table().lines().for_each(|line| tracing::info!("  {line}"));
        self.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    }
}

impl Data {
    /// The rows of files as they are: texts of a CSV file without defaults, features of Examples with any number of values.
    fn raw_rows(&self, files: Vec<String>, columns: &[ColumnReport]) -> Result<Dataset> {
        let names = || columns.iter().map(|column| column.name.clone());
        Ok(match self.format {
            Format::Csv => self.texts(files, names()).dataset(),
            Format::Parquet => with_nulls(parquet(files).select(names()))?.dataset(),
            Format::TfRecord => {
                let kinds = tfrecord(files.clone()).feature_kinds()?;
                let kind = |name: &str| kinds.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
                let spec = |name: String| {
                    let kind = kind(&name).unwrap_or(FeatureKind::Bytes);
                    FeatureSpec::variable(name, kind)
                };
                tfrecord(files).parse(names().map(spec)).non_finite(NonFiniteValues::keep()).dataset()
            }
        })
    }
}

//! A checkpoint to restore from.

use super::estimator_names::{self, Located, is_dense_table, is_own, locate};
use super::flow::Flow;
use super::names::{item_counts, item_names, part_name, table_values};
use super::{Files, GLOBAL_STEP};
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::{BundleIndex, BundleReader, Dtype, data_file, index_file};
use phalanx_optim::Optimizer;
use phalanx_storage::Dir;
use std::collections::HashMap;

/// The largest index in bytes.
const LARGEST_INDEX: u64 = 1 << 30;

/// An open checkpoint. Its index was checked, and every data file has the size that the index requires.
pub struct Checkpoint {
    name: String,
    pub(super) reader: BundleReader<Files>,
    pub(super) files: Files,
}

impl Checkpoint {
    /// Opens the checkpoint `name` of `dir`, such as `model.ckpt-300`.
    ///
    /// # Errors
    /// When it is not there, or damaged as far as its index and the sizes of its files show.
    pub fn open(dir: &Dir, name: &str) -> Result<Self> {
        let index = index_file(name);
        if dir.size(&index)?.is_none() {
            return Err(Error::new(Code::CheckpointMissing, format!("there is no checkpoint {name:?}"))
                .at(dir.location())
                .because(format!("{index} is not there")));
        }
        let index = BundleIndex::parse(&dir.read(&index, LARGEST_INDEX)?).map_err(|error| damaged(name, error))?;
        let shards = index.shards();
        let files = (0..shards).map(|shard| data_file(name, shard, shards));
        let files = Files::open(dir, files).map_err(|error| damaged(name, error))?;
        let reader = BundleReader::new(index, files.clone()).map_err(|error| damaged(name, error))?;
        Ok(Self { name: name.to_owned(), reader, files })
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of bytes of its data files that were read through this handle.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.files.bytes_read()
    }

    /// Returns the index of its tensors.
    #[must_use]
    pub fn index(&self) -> &BundleIndex {
        self.reader.index()
    }

    /// Returns the reader of its tensors.
    #[must_use]
    pub fn tensors(&self) -> &BundleReader<Files> {
        &self.reader
    }

    /// Returns whether Phalanx wrote it; otherwise TensorFlow did.
    #[must_use]
    pub fn is_own(&self) -> bool {
        is_own(self.index())
    }

    /// Returns the number of rows of a table that is stored as TensorFlow does: as a variable with a row for each id.
    #[must_use]
    pub fn dense_rows(&self, table: &str) -> Option<usize> {
        is_dense_table(self.index(), table).then(|| self.index().tensors().get(table).map(|info| info.shape.rows()))?
    }

    /// Reads the values (`part` 0) or a slot (from 1) of a variable, whichever of TensorFlow's names it has; or the rows of a
    /// table, in the order of its ids.
    ///
    /// # Errors
    /// When it is not there, or damaged.
    pub fn read_part(&self, optimizer: &Optimizer, of: &str, part: usize) -> Result<Vec<f32>> {
        let own = table_values(&part_name(optimizer, of, part));
        let located = match locate(self.index(), optimizer, of, part) {
            Some(located) => located,
            None if self.index().tensors().contains_key(&own) => Located { names: vec![own], scale: 1.0 },
            None => Located { names: vec![part_name(optimizer, of, part)], scale: 1.0 },
        };
        let elements = self.reader.info(&located.names[0])?.shape.elements();
        let mut flow = Flow::open(&self.reader, &self.files, &located, 0..elements, 4)?;
        let mut bytes = vec![0; 4 * elements];
        flow.fill(&mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect())
    }

    /// Returns the learning rate that TensorFlow recorded for the optimizer of a variable, where it did.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn recorded_rate(&self, optimizer: &Optimizer, variable: &str) -> Result<Option<f32>> {
        estimator_names::recorded_rate(&self.reader, optimizer, variable)
    }

    /// Returns how many updates a variable or table has had.
    ///
    /// # Errors
    /// When the checkpoint is damaged.
    pub fn updates_of(&self, optimizer: &Optimizer, of: &str) -> Result<u64> {
        let counts = self.counts()?;
        let known = counts.iter().filter(|((name, _), _)| name == of).map(|(_, &(updates, _))| updates).max();
        known.map_or_else(|| estimator_names::updates(&self.reader, optimizer, of, self.global_step()?), Ok)
    }

    /// Returns the updates and closed rounds of every item of every server, by name and first row.
    pub(super) fn counts(&self) -> Result<HashMap<(String, i64), (u64, u64)>> {
        let mut counts = HashMap::new();
        for server in 0..self.index().shards() {
            if !self.index().tensors().contains_key(&item_names(server)) {
                continue;
            }
            let names = self.reader.read(&item_names(server))?;
            let numbers = self.reader.read(&item_counts(server))?.i64s()?;
            for (name, numbers) in names.strings()?.iter().zip(numbers.as_chunks::<3>().0) {
                let name = String::from_utf8_lossy(name).into_owned();
                let [first_row, updates, closed] = *numbers;
                let found = counts.entry((name, first_row)).or_insert((0, 0));
                *found = (found.0.max(updates.cast_unsigned()), found.1.max(closed.cast_unsigned()));
            }
        }
        Ok(counts)
    }

    /// Returns the committed steps that it contains; 0 if it has no `global_step`.
    ///
    /// # Errors
    /// When `global_step` cannot be read.
    pub fn global_step(&self) -> Result<u64> {
        let Some(info) = self.index().tensors().get(GLOBAL_STEP) else { return Ok(0) };
        let tensor = self.reader.read(GLOBAL_STEP).map_err(|error| damaged(&self.name, error))?;
        let step = match info.dtype {
            Dtype::I32 => tensor.i32s()?.first().map(|&step| i64::from(step)),
            _ => tensor.i64s()?.first().copied(),
        };
        let wrong = || damaged(&self.name, Error::new(Code::DataFormat, format!("{GLOBAL_STEP} is {step:?}")));
        step.and_then(|step| u64::try_from(step).ok()).ok_or_else(wrong)
    }
}

pub(super) fn damaged(name: &str, error: Error) -> Error {
    Error::new(Code::CheckpointDamaged, format!("checkpoint {name:?} cannot be used"))
        .because(error)
        .help("name an older one in the file `checkpoint`, or remove that file to start over")
}

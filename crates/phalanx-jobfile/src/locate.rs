//! Finds the row of the data that an error in a batch is about.

use crate::Job;
use crate::input::RowKind;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Files, find_row};
use phalanx_estimator::{Canned, IntoModel, Trainable};

impl Job {
    /// Names file and line (record, row) in an error about a row of a batch. The files are read again up to that row.
    pub(crate) fn locate(&self, error: Error, files: &[Vec<String>], rows: RowKind) -> Error {
        if error.code() != Code::DataRow || self.names_a_file(&error, files) {
            return error;
        }
        let Ok(job) = self.with_trial_statistics() else { return error };
        let Ok(model) = job.model.to_model(self.seed) else { return error };
        for files in files {
            let mut found = None;
            let place = find_row(&*self.inputs.source_of(files.clone(), rows), |batch| {
                let checked = job.try_rows(batch, &model, rows);
                let fails = checked.is_err();
                found = checked.err().or(found.take());
                fails
            });
            if let (Ok(Some(place)), Some(error)) = (place, found) {
                return error.at(place);
            }
        }
        error
    }

    fn names_a_file(&self, error: &Error, files: &[Vec<String>]) -> bool {
        let Some(place) = error.place() else { return false };
        let listed = |files: &Vec<String>| Files::from(files.clone()).list().unwrap_or_default();
        files.iter().flat_map(listed).any(|file| place.contains(&file))
    }

    fn try_rows(&self, batch: &Batch, model: &Canned, rows: RowKind) -> Result<()> {
        if rows != RowKind::Labelled {
            return self.check_columns_of(batch);
        }
        let Some(batch) = self.inputs.data.kept(batch)? else { return Ok(()) };
        self.check_columns_of(&batch)?;
        model.head().check_labels(&self.inputs.spell(&batch)?)
    }
}

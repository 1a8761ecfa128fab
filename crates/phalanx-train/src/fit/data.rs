//! The data of a `fit`: a dataset, or arrays.

use super::DatasetCreator;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, Dataset, InputContext};

/// The column names of arrays.
const X: &str = "x";
const Y: &str = "y";
pub(super) const WEIGHT: &str = "sample_weight";

/// Data for `fit`, `evaluate` and `predict`: a batched dataset, a [`DatasetCreator`], or arrays in memory (`x`, `(x, y)`,
/// `(x, y, sample_weight)` or a [`Batch`] of named columns).
#[derive(Clone, Debug)]
pub struct Data(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Batches(Dataset),
    Made(DatasetCreator),
    Rows(Result<Batch>),
}

impl From<DatasetCreator> for Data {
    fn from(creator: DatasetCreator) -> Self {
        Self(Kind::Made(creator))
    }
}

impl From<Dataset> for Data {
    fn from(dataset: Dataset) -> Self {
        Self(Kind::Batches(dataset))
    }
}

impl From<&Dataset> for Data {
    fn from(dataset: &Dataset) -> Self {
        dataset.clone().into()
    }
}

impl From<Batch> for Data {
    fn from(batch: Batch) -> Self {
        Self(Kind::Rows(Ok(batch)))
    }
}

impl From<Column> for Data {
    fn from(x: Column) -> Self {
        Self(Kind::Rows(Batch::new([(X, x)])))
    }
}

impl From<(Column, Column)> for Data {
    fn from((x, y): (Column, Column)) -> Self {
        Self(Kind::Rows(Batch::new([(X, x), (Y, y)]).and_then(|batch| batch.with_label(Y))))
    }
}

impl From<(Column, Column, Column)> for Data {
    fn from((x, y, weight): (Column, Column, Column)) -> Self {
        let columns = [(X, x), (Y, y), (WEIGHT, weight)];
        Self(Kind::Rows(Batch::new(columns).and_then(|batch| batch.with_label(Y))))
    }
}

/// A dataset of global batches, and their number if it is known.
pub(super) struct BatchedData {
    pub(super) dataset: Dataset,
    pub(super) steps: Option<u64>,
}

impl BatchedData {
    /// Repeats arrays without end, for epochs with a fixed number of steps. A dataset stays as it is.
    pub(super) fn repeated(self) -> Self {
        match self.steps {
            Some(_) => Self { dataset: self.dataset.repeat(), ..self },
            None => self,
        }
    }
}

impl Data {
    /// Returns whether these are arrays in memory.
    pub(super) fn is_rows(&self) -> bool {
        matches!(self.0, Kind::Rows(_))
    }

    /// Returns the number of rows of arrays.
    pub(super) fn rows(&self) -> Option<usize> {
        match &self.0 {
            Kind::Rows(Ok(rows)) => Some(rows.rows()),
            _ => None,
        }
    }

    /// Returns the creator, if there is one.
    pub(super) fn creator(&self) -> Option<&DatasetCreator> {
        match &self.0 {
            Kind::Made(creator) => Some(creator),
            _ => None,
        }
    }

    /// Returns the data as global batches. Arrays are batched here, and shuffled for each epoch if `shuffle` is a seed.
    pub(super) fn batched(self, batch_size: Option<usize>, shuffle: Option<u64>) -> Result<BatchedData> {
        match (self.0, batch_size) {
            (Kind::Batches(_) | Kind::Made(_), Some(size)) => {
                Err(Error::new(Code::BadSetting, format!("batch_size({size}) was given beside a dataset"))
                    .because("a dataset is already batched")
                    .help("leave batch_size out, and call batch on the dataset"))
            }
            (Kind::Batches(dataset), None) => Ok(BatchedData { dataset, steps: None }),
            (Kind::Made(creator), None) => {
                Ok(BatchedData { dataset: creator.create(&InputContext::default())?, steps: None })
            }
            (Kind::Rows(rows), size) => {
                let (rows, size) = (rows?, size.unwrap_or(32));
                let (count, steps) = (rows.rows(), rows.rows().div_ceil(size.max(1)) as u64);
                let dataset = Dataset::from_tensor_slices(rows);
                let dataset = match shuffle {
                    Some(seed) => dataset.shuffle_seeded(count.max(1), seed),
                    None => dataset,
                };
                Ok(BatchedData { dataset: dataset.batch(size), steps: Some(steps) })
            }
        }
    }

    /// Splits off the last `fraction` of the rows, before shuffling.
    pub(super) fn split(self, fraction: f64) -> Result<(Self, Self)> {
        if !(0.0..1.0).contains(&fraction) {
            return Err(Error::new(Code::BadSetting, format!("validation_split({fraction}) is not a fraction"))
                .help("choose a number between 0 and 1"));
        }
        match self.0 {
            Kind::Rows(rows) => {
                let rows = rows?;
                let at = (rows.rows() as f64 * (1.0 - fraction)) as usize;
                Ok((rows.slice(0..at).into(), rows.slice(at..rows.rows()).into()))
            }
            Kind::Batches(_) | Kind::Made(_) => {
                Err(Error::new(Code::BadSetting, "validation_split was given beside a dataset")
                    .because("only the length of arrays is known in advance")
                    .help("give the validation data with validation(…)"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(rows: usize) -> Data {
        let numbers = || Column::f32((0..rows).map(|i| i as f32).collect());
        (numbers(), numbers()).into()
    }

    #[test]
    fn arrays_are_cut_and_split_from_the_end() {
        let (head, tail) = arrays(10).split(0.25).unwrap();
        let tail = tail.batched(Some(2), None).unwrap();
        assert_eq!(tail.steps, Some(2));
        let first = tail.dataset.iter().unwrap().next().unwrap().unwrap();
        assert_eq!(first.f32("x").unwrap(), [7.0, 8.0]);
        assert_eq!(head.batched(None, Some(1)).unwrap().steps, Some(1));
    }
}

//! A worker's datasets and resources, each created on first use.

use super::{DatasetPart, StepFunctions};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Dataset, DatasetIter, InputContext, Position};
use std::any::Any;
use std::collections::BTreeMap;

/// The longest position that servers keep for a task.
const LONGEST_POSITION: usize = 64 << 10;

pub(super) struct Inputs {
    cx: InputContext,
    /// The open datasets by their indexes.
    open: BTreeMap<usize, (Dataset, DatasetIter)>,
    /// The current pass over each dataset, where passes are counted.
    passes: BTreeMap<usize, u64>,
    resources: BTreeMap<usize, Box<dyn Any>>,
    /// The positions of a former incarnation of this worker, by dataset.
    restored: BTreeMap<usize, Vec<u8>>,
    /// The dataset that was read last.
    last: Option<usize>,
    /// Whether it was logged that the position is too long.
    warned: bool,
}

impl Inputs {
    /// Continues at the position of a former incarnation, if there is one.
    pub(super) fn new(cx: InputContext, position: Option<&[u8]>) -> Self {
        let (mut restored, mut passes) = (BTreeMap::new(), BTreeMap::new());
        for (dataset, position, pass) in position.and_then(decode).unwrap_or_default() {
            passes.insert(dataset, pass);
            restored.insert(dataset, position);
        }
        Self { cx, open: BTreeMap::new(), passes, resources: BTreeMap::new(), restored, last: None, warned: false }
    }

    pub(super) fn context(&self) -> InputContext {
        self.cx
    }

    pub(super) fn next<M>(&mut self, steps: &StepFunctions<M>, dataset: usize) -> Result<Option<Batch>> {
        let next = self.open(steps, dataset)?.1.next().transpose();
        self.last = Some(dataset);
        next
    }

    fn open<M>(&mut self, steps: &StepFunctions<M>, index: usize) -> Result<&mut (Dataset, DatasetIter)> {
        if !self.open.contains_key(&index) {
            let dataset = create(steps, index, &self.cx)?;
            let iter = match self.restored.remove(&index) {
                Some(position) => dataset.iter_from(&Position::from_bytes(&position)?)?,
                None => dataset.iter()?,
            };
            self.open.insert(index, (dataset, iter));
        }
        self.open.get_mut(&index).ok_or_else(|| gone("dataset"))
    }

    /// Starts a dataset from its beginning.
    pub(super) fn rewind<M>(&mut self, steps: &StepFunctions<M>, dataset: usize) -> Result<()> {
        self.restored.remove(&dataset);
        let (dataset, iter) = self.open(steps, dataset)?;
        *iter = dataset.iter()?;
        Ok(())
    }

    /// Begins a pass by its number, unless this worker is in it or in a later one; returns the pass it is in.
    pub(super) fn begin_pass<M>(&mut self, steps: &StepFunctions<M>, dataset: usize, number: u64) -> Result<u64> {
        let now = self.passes.get(&dataset).copied().unwrap_or(0);
        if now >= number {
            return Ok(now);
        }
        self.passes.insert(dataset, number);
        self.restored.remove(&dataset);
        if self.open.contains_key(&dataset) {
            self.rewind(steps, dataset)?;
        }
        Ok(number)
    }

    /// Returns a part of a dataset.
    pub(super) fn part<M>(&self, steps: &StepFunctions<M>, dataset: usize, part: DatasetPart) -> Result<DatasetIter> {
        let DatasetPart { index, of } = part;
        let cx = InputContext { num_input_pipelines: of, input_pipeline_id: index, num_replicas_in_sync: of };
        create(steps, dataset, &cx)?.iter()
    }

    pub(super) fn resource<M>(&mut self, steps: &StepFunctions<M>, index: usize) -> Result<&mut dyn Any> {
        if !self.resources.contains_key(&index) {
            let registered = steps.resources().get(index).ok_or_else(|| gone("resource"))?;
            self.resources.insert(index, (registered.create)(&self.cx)?);
        }
        self.resources.get_mut(&index).map(|made| &mut **made).ok_or_else(|| gone("resource"))
    }

    /// Returns the position in every dataset, for a later incarnation of this worker; `None` if it is too long, which is logged
    /// once.
    pub(super) fn position(&mut self) -> Option<Vec<u8>> {
        let mut positions = Vec::new();
        let mut add = |dataset: usize, position: &[u8]| {
            let pass = self.passes.get(&dataset).copied().unwrap_or(0).to_le_bytes();
            for bytes in [&(dataset as u32).to_le_bytes()[..], position, &pass] {
                positions.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                positions.extend_from_slice(bytes);
            }
        };
        self.open.iter().for_each(|(&dataset, (_, iter))| add(dataset, &iter.position().to_bytes()));
        self.restored.iter().for_each(|(&dataset, position)| add(dataset, position));
        if positions.len() > LONGEST_POSITION && !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                "the position in this worker's input is too long to be kept: started again, it continues from the last one kept",
            );
        }
        (positions.len() <= LONGEST_POSITION).then_some(positions)
    }

    /// Returns the position in the input, for messages.
    pub(super) fn place<M>(&self, steps: &StepFunctions<M>) -> String {
        let last = self.last.and_then(|index| Some((steps.datasets().get(index)?, self.open.get(&index)?)));
        last.map_or_else(String::new, |(of, (_, iter))| {
            format!(", element {} of the dataset of {}", iter.elements(), of.name)
        })
    }
}

fn create<M>(steps: &StepFunctions<M>, dataset: usize, cx: &InputContext) -> Result<Dataset> {
    (steps.datasets().get(dataset).ok_or_else(|| gone("dataset"))?.create)(cx)
}

fn gone(what: &str) -> Error {
    Error::new(Code::Internal, format!("a {what} is gone"))
}

/// Decodes positions; `None` where the bytes are something else: the input then starts at its beginning.
fn decode(mut bytes: &[u8]) -> Option<Vec<(usize, Vec<u8>, u64)>> {
    let mut found = Vec::new();
    let take = |rest: &mut &[u8]| -> Option<Vec<u8>> {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (taken, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *rest = after;
        Some(taken.to_vec())
    };
    while !bytes.is_empty() {
        let dataset = u32::from_le_bytes(take(&mut bytes)?.try_into().ok()?) as usize;
        let (position, pass) = (take(&mut bytes)?, take(&mut bytes)?);
        found.push((dataset, position, u64::from_le_bytes(pass.try_into().ok()?)));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_incarnation_continues_where_the_former_one_stopped() {
        let mut steps = StepFunctions::<()>::new();
        steps.dataset(|cx| Ok(Dataset::range(0, 9, 1).shard(*cx)));
        let cx = InputContext { num_input_pipelines: 3, input_pipeline_id: 1, num_replicas_in_sync: 3 };
        let mut inputs = Inputs::new(cx, None);
        inputs.next(&steps, 0).unwrap();
        let position = inputs.position().unwrap();
        let rest = |mut inputs: Inputs| std::iter::from_fn(|| inputs.next(&steps, 0).unwrap()).collect::<Vec<Batch>>();
        let again = rest(Inputs::new(cx, Some(&position)));
        assert_eq!((rest(inputs), again.len()), (again.clone(), 2));
        assert_eq!(rest(Inputs::new(cx, Some(b"rubbish"))).len(), 3);
    }

    #[test]
    fn a_pass_is_begun_once_by_whichever_incarnation() {
        let mut steps = StepFunctions::<()>::new();
        steps.dataset(|_| Ok(Dataset::range(0, 3, 1)));
        let mut inputs = Inputs::new(InputContext::default(), None);
        let read = |inputs: &mut Inputs| inputs.next(&steps, 0).unwrap().map(|row| row.i64("value").unwrap()[0]);
        assert_eq!(inputs.begin_pass(&steps, 0, 0).unwrap(), 0);
        assert_eq!(read(&mut inputs), Some(0));
        assert_eq!(inputs.begin_pass(&steps, 0, 2).unwrap(), 2);
        assert_eq!((read(&mut inputs), read(&mut inputs)), (Some(0), Some(1)));
        let mut later = Inputs::new(InputContext::default(), inputs.position().as_deref());
        assert_eq!(later.begin_pass(&steps, 0, 1).unwrap(), 2);
        assert_eq!(later.begin_pass(&steps, 0, 2).unwrap(), 2);
        assert_eq!((read(&mut later), read(&mut later)), (Some(2), None));
        let mut later = Inputs::new(InputContext::default(), inputs.position().as_deref());
        assert_eq!(later.begin_pass(&steps, 0, 3).unwrap(), 3);
        assert_eq!(read(&mut later), Some(0));
    }
}

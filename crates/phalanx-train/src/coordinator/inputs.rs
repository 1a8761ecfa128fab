//! A worker's datasets and resources, each created on first use.

use super::StepFunctions;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Dataset, DatasetIter, InputContext, Position};
use std::any::Any;
use std::collections::BTreeMap;

/// The longest position that servers keep for a task.
const LONGEST_POSITION: usize = 64 << 10;

pub(super) struct Inputs {
    cx: InputContext,
    open: BTreeMap<String, (Dataset, DatasetIter)>,
    /// The current pass over each dataset, where passes are counted.
    passes: BTreeMap<String, u64>,
    resources: BTreeMap<String, Box<dyn Any>>,
    /// The positions of a former incarnation of this worker, by dataset.
    restored: BTreeMap<String, Vec<u8>>,
    /// The dataset that was read last.
    last: Option<String>,
    /// Whether it was logged that the position is too long.
    warned: bool,
}

impl Inputs {
    /// Continues at the position of a former incarnation, if there is one.
    pub(super) fn new(cx: InputContext, position: Option<&[u8]>) -> Self {
        let (mut restored, mut passes) = (BTreeMap::new(), BTreeMap::new());
        for (name, position, pass) in position.and_then(decode).unwrap_or_default() {
            passes.insert(name.clone(), pass);
            restored.insert(name, position);
        }
        Self { cx, open: BTreeMap::new(), passes, resources: BTreeMap::new(), restored, last: None, warned: false }
    }

    pub(super) fn context(&self) -> InputContext {
        self.cx
    }

    pub(super) fn next<M>(&mut self, steps: &StepFunctions<M>, name: &str) -> Result<Option<Batch>> {
        let next = self.open(steps, name)?.1.next().transpose();
        self.last = Some(name.to_owned());
        next
    }

    fn open<M>(&mut self, steps: &StepFunctions<M>, name: &str) -> Result<&mut (Dataset, DatasetIter)> {
        if !self.open.contains_key(name) {
            let dataset = steps.dataset_function(name)?(&self.cx)?;
            let iter = match self.restored.remove(name) {
                Some(position) => dataset.iter_from(&Position::from_bytes(&position)?)?,
                None => dataset.iter()?,
            };
            self.open.insert(name.to_owned(), (dataset, iter));
        }
        self.open.get_mut(name).ok_or_else(|| Error::new(Code::Internal, "a dataset is gone"))
    }

    /// Starts a dataset from its beginning.
    pub(super) fn rewind<M>(&mut self, steps: &StepFunctions<M>, name: &str) -> Result<()> {
        self.restored.remove(name);
        let (dataset, iter) = self.open(steps, name)?;
        *iter = dataset.iter()?;
        Ok(())
    }

    /// Begins a pass by its number, unless this worker is in it or in a later one; returns the pass it is in.
    pub(super) fn begin_pass<M>(&mut self, steps: &StepFunctions<M>, name: &str, number: u64) -> Result<u64> {
        let now = self.passes.get(name).copied().unwrap_or(0);
        if now >= number {
            return Ok(now);
        }
        self.passes.insert(name.to_owned(), number);
        self.restored.remove(name);
        if self.open.contains_key(name) {
            self.rewind(steps, name)?;
        }
        Ok(number)
    }

    /// Returns part `index` of `of` of a dataset.
    pub(super) fn part<M>(&self, steps: &StepFunctions<M>, name: &str, index: usize, of: usize) -> Result<DatasetIter> {
        let cx = InputContext { num_input_pipelines: of, input_pipeline_id: index, num_replicas_in_sync: of };
        steps.dataset_function(name)?(&cx)?.iter()
    }

    pub(super) fn resource<M>(&mut self, steps: &StepFunctions<M>, name: &str) -> Result<&mut dyn Any> {
        if !self.resources.contains_key(name) {
            let made = steps.resource_function(name)?(&self.cx)?;
            self.resources.insert(name.to_owned(), made);
        }
        let found = self.resources.get_mut(name);
        found.map(|made| &mut **made).ok_or_else(|| Error::new(Code::Internal, "a resource is gone"))
    }

    /// Returns the position in every dataset, for a later incarnation of this worker; `None` if it is too long, which is logged
    /// once.
    pub(super) fn position(&mut self) -> Option<Vec<u8>> {
        let mut positions = Vec::new();
        let mut add = |name: &str, position: &[u8]| {
            let pass = self.passes.get(name).copied().unwrap_or(0).to_le_bytes();
            for bytes in [name.as_bytes(), position, &pass] {
                positions.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                positions.extend_from_slice(bytes);
            }
        };
        self.open.iter().for_each(|(name, (_, iter))| add(name, &iter.position().to_bytes()));
        self.restored.iter().for_each(|(name, position)| add(name, position));
        if positions.len() > LONGEST_POSITION && !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                "the position in this worker's input is too long to be kept: started again, it continues from the last one kept",
            );
        }
        (positions.len() <= LONGEST_POSITION).then_some(positions)
    }

    /// Returns the position in the input, for messages.
    pub(super) fn place(&self) -> String {
        let last = self.last.as_ref().and_then(|name| Some((name, self.open.get(name)?)));
        last.map_or_else(String::new, |(name, (_, iter))| format!(", element {} of {name:?}", iter.elements()))
    }
}

/// Decodes positions; `None` where the bytes are something else: the input then starts at its beginning.
fn decode(mut bytes: &[u8]) -> Option<Vec<(String, Vec<u8>, u64)>> {
    let mut found = Vec::new();
    let take = |rest: &mut &[u8]| -> Option<Vec<u8>> {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (taken, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *rest = after;
        Some(taken.to_vec())
    };
    while !bytes.is_empty() {
        let name = String::from_utf8(take(&mut bytes)?).ok()?;
        let (position, pass) = (take(&mut bytes)?, take(&mut bytes)?);
        found.push((name, position, u64::from_le_bytes(pass.try_into().ok()?)));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_incarnation_continues_where_the_former_one_stopped() {
        let steps: StepFunctions<()> =
            StepFunctions::new().dataset("numbers", |cx| Ok(Dataset::range(0, 9, 1).shard(*cx)));
        let cx = InputContext { num_input_pipelines: 3, input_pipeline_id: 1, num_replicas_in_sync: 3 };
        let mut inputs = Inputs::new(cx, None);
        inputs.next(&steps, "numbers").unwrap();
        let position = inputs.position().unwrap();
        let rest =
            |mut inputs: Inputs| std::iter::from_fn(|| inputs.next(&steps, "numbers").unwrap()).collect::<Vec<Batch>>();
        let again = rest(Inputs::new(cx, Some(&position)));
        assert_eq!((rest(inputs), again.len()), (again.clone(), 2));
        assert_eq!(rest(Inputs::new(cx, Some(b"rubbish"))).len(), 3);
    }

    #[test]
    fn a_pass_is_begun_once_by_whichever_incarnation() {
        let steps: StepFunctions<()> = StepFunctions::new().dataset("numbers", |_| Ok(Dataset::range(0, 3, 1)));
        let mut inputs = Inputs::new(InputContext::default(), None);
        let read =
            |inputs: &mut Inputs| inputs.next(&steps, "numbers").unwrap().map(|row| row.i64("value").unwrap()[0]);
        assert_eq!(inputs.begin_pass(&steps, "numbers", 0).unwrap(), 0);
        assert_eq!(read(&mut inputs), Some(0));
        assert_eq!(inputs.begin_pass(&steps, "numbers", 2).unwrap(), 2);
        assert_eq!((read(&mut inputs), read(&mut inputs)), (Some(0), Some(1)));
        let mut later = Inputs::new(InputContext::default(), inputs.position().as_deref());
        assert_eq!(later.begin_pass(&steps, "numbers", 1).unwrap(), 2);
        assert_eq!(later.begin_pass(&steps, "numbers", 2).unwrap(), 2);
        assert_eq!((read(&mut later), read(&mut later)), (Some(2), None));
        let mut later = Inputs::new(InputContext::default(), inputs.position().as_deref());
        assert_eq!(later.begin_pass(&steps, "numbers", 3).unwrap(), 3);
        assert_eq!(read(&mut later), Some(0));
    }
}

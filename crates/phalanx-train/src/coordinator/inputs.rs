//! A worker's datasets and resources, each made when a step first asks for it.

use super::Steps;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Dataset, DatasetIter, InputContext, Position};
use std::any::Any;
use std::collections::BTreeMap;

/// The most that servers keep for a task.
const NOTE: usize = 64 << 10;

pub(super) struct Inputs {
    cx: InputContext,
    open: BTreeMap<String, (Dataset, DatasetIter)>,
    /// Which pass over each dataset this is, where somebody counts them.
    passes: BTreeMap<String, u64>,
    resources: BTreeMap<String, Box<dyn Any>>,
    /// Where a former life of this worker stopped, by dataset.
    recalled: BTreeMap<String, Vec<u8>>,
    /// The dataset that was read last.
    last: Option<String>,
    /// Whether it was said that the place in the input cannot be kept.
    told: bool,
}

impl Inputs {
    /// Goes on where the note of a former life says.
    pub(super) fn new(cx: InputContext, note: Option<&[u8]>) -> Self {
        let (mut recalled, mut passes) = (BTreeMap::new(), BTreeMap::new());
        for (name, position, pass) in note.and_then(read_note).unwrap_or_default() {
            passes.insert(name.clone(), pass);
            recalled.insert(name, position);
        }
        Self { cx, open: BTreeMap::new(), passes, resources: BTreeMap::new(), recalled, last: None, told: false }
    }

    pub(super) fn next<M>(&mut self, steps: &Steps<M>, name: &str) -> Result<Option<Batch>> {
        let next = self.open(steps, name)?.1.next().transpose();
        self.last = Some(name.to_owned());
        next
    }

    fn open<M>(&mut self, steps: &Steps<M>, name: &str) -> Result<&mut (Dataset, DatasetIter)> {
        if !self.open.contains_key(name) {
            let dataset = steps.dataset_function(name)?(&self.cx)?;
            let iter = match self.recalled.remove(name) {
                Some(position) => dataset.iter_from(&Position::from_bytes(&position)?)?,
                None => dataset.iter()?,
            };
            self.open.insert(name.to_owned(), (dataset, iter));
        }
        self.open.get_mut(name).ok_or_else(|| Error::new(Code::Internal, "a dataset is gone"))
    }

    /// Starts the next pass.
    pub(super) fn rewind<M>(&mut self, steps: &Steps<M>, name: &str) -> Result<()> {
        self.recalled.remove(name);
        let (dataset, iter) = self.open(steps, name)?;
        *iter = dataset.iter()?;
        Ok(())
    }

    /// Begins a pass by its number, unless this worker is in it or behind it; answers in which it is.
    pub(super) fn begin_pass<M>(&mut self, steps: &Steps<M>, name: &str, number: u64) -> Result<u64> {
        let now = self.passes.get(name).copied().unwrap_or(0);
        if now >= number {
            return Ok(now);
        }
        self.passes.insert(name.to_owned(), number);
        self.recalled.remove(name);
        if self.open.contains_key(name) {
            self.rewind(steps, name)?;
        }
        Ok(number)
    }

    /// A part of a dataset, for a step that is told which: all of it when every part is read.
    pub(super) fn part<M>(&self, steps: &Steps<M>, name: &str, index: usize, of: usize) -> Result<DatasetIter> {
        let cx = InputContext { num_input_pipelines: of, input_pipeline_id: index, num_replicas_in_sync: of };
        steps.dataset_function(name)?(&cx)?.iter()
    }

    pub(super) fn resource<M>(&mut self, steps: &Steps<M>, name: &str) -> Result<&mut dyn Any> {
        if !self.resources.contains_key(name) {
            let made = steps.resource_function(name)?(&self.cx)?;
            self.resources.insert(name.to_owned(), made);
        }
        let found = self.resources.get_mut(name);
        found.map(|made| &mut **made).ok_or_else(|| Error::new(Code::Internal, "a resource is gone"))
    }

    /// Where every dataset stands, for a later life of this worker; `None` if that is too long to keep, which is said once.
    pub(super) fn note(&mut self, say: impl FnOnce(&str)) -> Option<Vec<u8>> {
        let mut note = Vec::new();
        let mut add = |name: &str, position: &[u8]| {
            let pass = self.passes.get(name).copied().unwrap_or(0).to_le_bytes();
            for bytes in [name.as_bytes(), position, &pass] {
                note.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                note.extend_from_slice(bytes);
            }
        };
        self.open.iter().for_each(|(name, (_, iter))| add(name, &iter.position().to_bytes()));
        self.recalled.iter().for_each(|(name, position)| add(name, position));
        if note.len() > NOTE && !std::mem::replace(&mut self.told, true) {
            say(
                "where this worker's input stands is too long to keep: started again, it begins where it last was kept",
            );
        }
        (note.len() <= NOTE).then_some(note)
    }

    /// Where the input stands, for messages.
    pub(super) fn place(&self) -> String {
        let last = self.last.as_ref().and_then(|name| Some((name, self.open.get(name)?)));
        last.map_or_else(String::new, |(name, (_, iter))| format!(", element {} of {name:?}", iter.elements()))
    }
}

/// `None` where the note is not one of ours: the input then starts at its beginning.
fn read_note(mut note: &[u8]) -> Option<Vec<(String, Vec<u8>, u64)>> {
    let mut found = Vec::new();
    let take = |rest: &mut &[u8]| -> Option<Vec<u8>> {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (bytes, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        *rest = after;
        Some(bytes.to_vec())
    };
    while !note.is_empty() {
        let name = String::from_utf8(take(&mut note)?).ok()?;
        let (position, pass) = (take(&mut note)?, take(&mut note)?);
        found.push((name, position, u64::from_le_bytes(pass.try_into().ok()?)));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_life_goes_on_where_the_former_one_stopped() {
        let steps: Steps<()> = Steps::new().dataset("numbers", |cx| Ok(Dataset::range(0, 9, 1).shard(*cx)));
        let cx = InputContext { num_input_pipelines: 3, input_pipeline_id: 1, num_replicas_in_sync: 3 };
        let mut inputs = Inputs::new(cx, None);
        inputs.next(&steps, "numbers").unwrap();
        let note = inputs.note(|_| {}).unwrap();
        let rest =
            |mut inputs: Inputs| std::iter::from_fn(|| inputs.next(&steps, "numbers").unwrap()).collect::<Vec<Batch>>();
        let again = rest(Inputs::new(cx, Some(&note)));
        assert_eq!((rest(inputs), again.len()), (again.clone(), 2));
        assert_eq!(rest(Inputs::new(cx, Some(b"rubbish"))).len(), 3);
    }

    #[test]
    fn a_pass_is_begun_once_whatever_life_is_asked() {
        let steps: Steps<()> = Steps::new().dataset("numbers", |_| Ok(Dataset::range(0, 3, 1)));
        let mut inputs = Inputs::new(InputContext::default(), None);
        let read =
            |inputs: &mut Inputs| inputs.next(&steps, "numbers").unwrap().map(|row| row.i64("value").unwrap()[0]);
        assert_eq!(inputs.begin_pass(&steps, "numbers", 0).unwrap(), 0);
        assert_eq!(read(&mut inputs), Some(0));
        assert_eq!(inputs.begin_pass(&steps, "numbers", 2).unwrap(), 2);
        assert_eq!((read(&mut inputs), read(&mut inputs)), (Some(0), Some(1)));
        let mut later = Inputs::new(InputContext::default(), inputs.note(|_| {}).as_deref());
        assert_eq!(later.begin_pass(&steps, "numbers", 1).unwrap(), 2);
        assert_eq!(later.begin_pass(&steps, "numbers", 2).unwrap(), 2);
        assert_eq!((read(&mut later), read(&mut later)), (Some(2), None));
        let mut later = Inputs::new(InputContext::default(), inputs.note(|_| {}).as_deref());
        assert_eq!(later.begin_pass(&steps, "numbers", 3).unwrap(), 3);
        assert_eq!(read(&mut later), Some(0));
    }
}

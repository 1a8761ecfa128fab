//! Backups of a `fit`: values, slots, and every worker's position in its data.

use super::accumulators::Accumulators;
use super::trained_state::TrainedState;
use super::weights::{Weight, stage_bundle};
use crate::checkpoint::CheckpointStore;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_data::ReplicaIterator;
use phalanx_formats::bundle::{BundleReader, data_file, index_file};
use phalanx_ps::checkpoint::Files;
use phalanx_storage::Dir;

/// The largest checkpoint index that is read, in bytes.
const INDEX: u64 = 256 << 20;

/// The epoch and step that a `fit` has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FitPosition {
    /// The epoch, from 0.
    pub(crate) epoch: usize,
    /// The steps of this epoch that are done.
    pub(crate) batch: u64,
}

/// The state that this worker resumes from.
#[derive(Debug)]
pub(crate) struct ResumeState {
    pub(crate) at: FitPosition,
    /// The position of its input.
    pub(crate) position: Option<Vec<u8>>,
    /// The concatenated accumulators of its replicas.
    pub(crate) words: Vec<f64>,
}

/// One worker's part of a backup.
struct WorkerBackup {
    position: Vec<u8>,
    words: Vec<f64>,
    /// The worker's concatenated moving averages. Empty at the end of an epoch, when all workers have the same.
    states: Vec<f32>,
}

/// Saves a backup. All workers take part, since each knows its own input position; the first one writes.
pub(crate) fn save(
    model: &mut dyn TrainedState,
    at: FitPosition,
    batches: Option<&ReplicaIterator>,
    accumulators: &[Accumulators],
    catalog: &mut Option<CheckpointStore>,
) -> Result<()> {
    let own = WorkerBackup {
        position: batches.map(|batches| batches.position().to_bytes()).unwrap_or_default(),
        words: if at.batch > 0 { accumulators.iter().flat_map(Accumulators::words).collect() } else { Vec::new() },
        states: Vec::new(),
    };
    if model.strategy().workers().is_none() {
        return write(model, at, &[own], catalog);
    }
    let states = if at.batch > 0 { model.states()? } else { Vec::new() };
    let own = WorkerBackup { states: states.into_iter().flat_map(|state| state.values).collect(), ..own };
    let strategy = model.strategy().clone();
    let Some(workers) = strategy.workers() else { return Ok(()) };
    let all = workers.patiently(|group| group.all_gather(&own.to_bytes()))?;
    let parts = all.iter().map(|bytes| WorkerBackup::read(bytes)).collect::<Result<Vec<_>>>()?;
    let written = if workers.rank() == 0 { write(model, at, &parts, catalog) } else { Ok(()) };
    if let Err(error) = &written {
        workers.group().abort(error.clone());
    }
    workers.patiently(phalanx_collective::Group::barrier)?;
    written
}

fn write(
    model: &mut dyn TrainedState,
    at: FitPosition,
    parts: &[WorkerBackup],
    catalog: &mut Option<CheckpointStore>,
) -> Result<()> {
    let Some(catalog) = catalog else { return Ok(()) };
    let mut tensors = model.weights()?;
    tensors.extend(model.slots());
    for (rank, part) in parts.iter().enumerate().filter(|(_, part)| !part.states.is_empty()) {
        let shape = Shape::new(vec![part.states.len()])?;
        tensors.push(Weight { name: states_of(rank), shape, values: part.states.clone() });
    }
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut numbers = vec![
        ("global_step".to_owned(), vec![whole(model.iterations())]),
        ("fit/epoch".to_owned(), vec![whole(at.epoch as u64)]),
        ("fit/batch".to_owned(), vec![whole(at.batch)]),
        ("fit/workers".to_owned(), vec![whole(parts.len() as u64)]),
        ("fit/learning_rate".to_owned(), vec![i64::from(model.learning_rate().to_bits())]),
    ];
    for (rank, part) in parts.iter().enumerate() {
        numbers.push((format!("fit/words/{rank}"), part.words.iter().map(|word| word.to_bits() as i64).collect()));
    }
    let strings: Vec<(String, &[u8])> =
        parts.iter().enumerate().map(|(rank, part)| (format!("fit/position/{rank}"), &part.position[..])).collect();
    let name = catalog.name(model.iterations());
    let dir = catalog.dir().clone();
    let (staged, index) = stage_bundle(&dir, &data_file(&name, 0, 1), &tensors, &numbers, &strings)?;
    let published = catalog.publish(&name, std::slice::from_ref(&staged), &index);
    if published.is_err() {
        let _ = dir.remove(&staged);
    }
    published.map(drop)
}

/// Restores the newest backup. Returns `None` if there is none.
pub(crate) fn restore(model: &mut dyn TrainedState, catalog: &CheckpointStore) -> Result<Option<ResumeState>> {
    let Some(name) = catalog.newest_first().into_iter().next() else { return Ok(None) };
    let dir = catalog.dir();
    read(model, dir, &name).map(Some).map_err(|error| error.at(format!("{}/{name}", dir.location())))
}

fn read(model: &mut dyn TrainedState, dir: &Dir, name: &str) -> Result<ResumeState> {
    let index = dir.read(&index_file(name), INDEX)?;
    let reader = BundleReader::open(&index, Files::open(dir, [data_file(name, 0, 1)])?)?;
    let whole = |name: &str| reader.read(name)?.i64s();
    let one = |name: &str| whole(name).map(|numbers| numbers.first().copied().unwrap_or(0));
    let count = |name: &str| one(name).map(|number| u64::try_from(number).unwrap_or(0));
    let load = |weights: Vec<Weight>| -> Result<Vec<Weight>> {
        weights
            .into_iter()
            .map(|weight| {
                let tensor = reader.read(&weight.name)?;
                Ok(Weight { values: tensor.f32s()?, ..weight })
            })
            .collect()
    };
    let (rank, workers) = model.strategy().workers().map_or((0, 1), |workers| (workers.rank(), workers.size()));
    let before = count("fit/workers")?;
    if before != workers as u64 {
        return Err(Error::new(
            Code::CheckpointMismatch,
            format!("the backup was made by {before} workers, now there are {workers}"),
        )
        .because("it contains the input position of each worker")
        .help("start as many workers as before, or remove the backup and load only the weights"));
    }
    let mut weights = load(model.weights()?)?;
    let own = states_of(rank);
    if reader.index().tensors().contains_key(&own) {
        replace(&mut weights, model.states()?, &reader.read(&own)?.f32s()?)?;
    }
    let slots = load(model.slots())?;
    model.set_weights(weights)?;
    model.set_slots(slots, count("global_step")?)?;
    let rate = u32::try_from(one("fit/learning_rate")?).map(f32::from_bits).unwrap_or(f32::NAN);
    // A schedule follows the number of updates, which is restored.
    if !model.has_schedule() {
        model.set_learning_rate(rate)?;
    }
    let position = reader.read(&format!("fit/position/{rank}"))?;
    let position = position.strings()?.iter().next().map(<[u8]>::to_vec).filter(|bytes| !bytes.is_empty());
    let words = whole(&format!("fit/words/{rank}"))?.into_iter().map(|bits| f64::from_bits(bits as u64)).collect();
    let epoch = usize::try_from(count("fit/epoch")?).unwrap_or(usize::MAX);
    Ok(ResumeState { at: FitPosition { epoch, batch: count("fit/batch")? }, position, words })
}

/// The tensor that holds one worker's moving averages.
fn states_of(rank: usize) -> String {
    format!("fit/states/{rank}")
}

/// Replaces the first worker's moving averages by this worker's own, which are concatenated in `values`.
fn replace(weights: &mut [Weight], states: Vec<Weight>, mut values: &[f32]) -> Result<()> {
    for state in states {
        let (own, rest) = values.split_at_checked(state.values.len()).ok_or_else(|| {
            Error::new(Code::CheckpointMismatch, "the backup's moving averages do not fit the model")
                .help("build the same model that was saved")
        })?;
        if let Some(weight) = weights.iter_mut().find(|weight| weight.name == state.name) {
            weight.values = own.to_vec();
        }
        values = rest;
    }
    Ok(())
}

impl WorkerBackup {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = (self.words.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(&(self.states.len() as u64).to_le_bytes());
        self.words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        self.states.iter().for_each(|state| bytes.extend_from_slice(&state.to_le_bytes()));
        bytes.extend_from_slice(&self.position);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let malformed = || Error::new(Code::BadMessage, "a worker's part of a backup is malformed");
        let (words, rest) = bytes.split_first_chunk::<8>().ok_or_else(malformed)?;
        let (states, rest) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
        let length = |bytes: &[u8], count: &[u8; 8], size: usize| {
            let length = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(size)?;
            (length <= bytes.len()).then_some(length)
        };
        let (words, rest) = rest.split_at(length(rest, words, 8).ok_or_else(malformed)?);
        let (states, position) = rest.split_at(length(rest, states, 4).ok_or_else(malformed)?);
        let words = words.as_chunks::<8>().0.iter().map(|eight| f64::from_le_bytes(*eight)).collect();
        let states = states.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        Ok(Self { position: position.to_vec(), words, states })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_as_it_was_written_and_rubbish_is_refused() {
        let bytes = WorkerBackup { position: vec![7, 8], words: vec![1.5, f64::NAN], states: vec![0.25; 3] }.to_bytes();
        let part = WorkerBackup::read(&bytes).unwrap();
        assert_eq!((part.position, part.words[0], part.states), (vec![7, 8], 1.5, vec![0.25; 3]));
        assert!([7, 15, 16, 31, 43].iter().all(|&length| WorkerBackup::read(&bytes[..length]).is_err()));
        assert!(WorkerBackup::read(&[0xff; 16]).is_err() && WorkerBackup::read(&[0xff; 64]).is_err());
    }
}

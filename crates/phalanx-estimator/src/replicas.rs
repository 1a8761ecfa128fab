//! A step that several replicas compute together.
//!
//! The replicas of a process share a batch, and workers share a step. All of them look up the union of their ids, so that
//! the gradients of rows have the same shape everywhere and are summed like those of variables. A part counts by its share of
//! the rows: the update is that of one process with the whole batch.

use crate::input::{PreparedBatch, PreparedPart};
use crate::{StepPart, Trainable};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::{HostBuffer, ParameterRegistry, Parameters, Slots};
use phalanx_train::{RowValues, Session, StepGradients, TableId, WorkerGroup};
use std::collections::BTreeMap;

/// What all replicas of a step know before they compute it.
pub(crate) struct StepPlan {
    /// For each table used, in order: the ids of all replicas, by rank.
    ids: Vec<(usize, Vec<i64>)>,
    /// The start of this process's ids in each list.
    starts: Vec<usize>,
    /// The rows of all replicas.
    pub(crate) rows: usize,
    /// Whether a worker asks to stop.
    pub(crate) stop: bool,
}

impl StepPlan {
    /// Plans a step of the replicas of this process.
    pub(crate) fn alone<M: Trainable>(model: &M, parts: &[PreparedPart<M::Input>]) -> Self {
        let ids: Vec<(usize, Vec<i64>)> = merged(model, parts).into_iter().collect();
        let starts = vec![0; ids.len()];
        Self { ids, starts, rows: parts.iter().map(|part| part.rows).sum(), stop: false }
    }

    /// Plans a step with all workers. A worker without rows takes part all the same.
    pub(crate) fn agree<M: Trainable>(
        workers: &WorkerGroup,
        model: &M,
        parts: &[PreparedPart<M::Input>],
        global_step: u64,
        stop: bool,
    ) -> Result<Self> {
        let own = Announcement {
            global_step,
            rows: parts.iter().map(|part| part.rows).sum(),
            stop,
            ids: merged(model, parts),
        };
        let (mut ids, mut starts) = (BTreeMap::<usize, Vec<i64>>::new(), BTreeMap::<usize, usize>::new());
        let mut plan = Self { ids: Vec::new(), starts: Vec::new(), rows: 0, stop: false };
        for (rank, bytes) in workers.all_gather(&own.encode())?.iter().enumerate() {
            let said = Announcement::decode(bytes).filter(|said| said.ids.keys().all(|at| *at < model.tables().len()));
            let said = said.ok_or_else(|| {
                Error::new(Code::BadMessage, format!("the plan of worker number {rank} is malformed"))
            })?;
            if said.global_step != global_step {
                let what = format!("worker number {rank} is at step {}, this one at {global_step}", said.global_step);
                return Err(Error::new(Code::JobFailed, what)
                    .because("workers that step together begin with the same checkpoint")
                    .help("give every task the same model_dir, in a file system that all of them share"));
            }
            for (table, more) in said.ids {
                let all = ids.entry(table).or_default();
                if rank == workers.rank() {
                    starts.insert(table, all.len());
                }
                all.extend(more);
            }
            plan.rows += said.rows;
            plan.stop |= said.stop;
        }
        plan.starts = ids.keys().map(|table| starts.get(table).copied().unwrap_or(0)).collect();
        plan.ids = ids.into_iter().collect();
        Ok(plan)
    }

    /// Returns the ids that the step looks up.
    pub(crate) fn ids(&self) -> Vec<(usize, &[i64])> {
        self.ids.iter().map(|(table, ids)| (*table, ids.as_slice())).collect()
    }
}

/// Returns the ids of all parts, by table.
fn merged<M: Trainable>(model: &M, parts: &[PreparedPart<M::Input>]) -> BTreeMap<usize, Vec<i64>> {
    let mut all = BTreeMap::<usize, Vec<i64>>::new();
    for (table, ids) in parts.iter().flat_map(|part| model.ids(&part.input)) {
        all.entry(table).or_default().extend_from_slice(ids);
    }
    all
}

/// What a worker tells the others before a step.
#[derive(Debug, PartialEq, Eq)]
struct Announcement {
    global_step: u64,
    rows: usize,
    stop: bool,
    ids: BTreeMap<usize, Vec<i64>>,
}

impl Announcement {
    fn encode(&self) -> Vec<u8> {
        let head = [self.global_step, self.rows as u64, u64::from(self.stop)];
        let mut words: Vec<u64> = head.to_vec();
        for (table, ids) in &self.ids {
            words.extend([*table as u64, ids.len() as u64]);
            words.extend(ids.iter().map(|id| id.cast_unsigned()));
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (global_step, rows, stop) = (words.next()?, usize::try_from(words.next()?).ok()?, words.next()? != 0);
        let mut ids = BTreeMap::new();
        while let Some(table) = words.next() {
            let count = usize::try_from(words.next()?).ok().filter(|count| *count <= words.len())?;
            ids.insert(usize::try_from(table).ok()?, words.by_ref().take(count).map(u64::cast_signed).collect());
        }
        Some(Self { global_step, rows, stop, ids })
    }
}

/// One step of the replicas of this process.
pub(crate) struct ReplicaStep<'a, M: Trainable> {
    pub(crate) model: &'a M,
    pub(crate) parts: &'a PreparedBatch<M::Input>,
    pub(crate) plan: &'a StepPlan,
    pub(crate) slots: &'a Slots,
    pub(crate) workers: Option<&'a WorkerGroup>,
    /// The seed of each replica, by its place in this process.
    pub(crate) seed: &'a (dyn Fn(usize) -> u64 + Sync),
}

impl<M: Trainable> ReplicaStep<'_, M> {
    /// Computes all parts, and sums the gradients over the replicas of all workers.
    pub(crate) fn compute(
        &self,
        module: &M::Module,
        registry: &ParameterRegistry,
        rows: &[RowValues],
    ) -> Result<StepGradients> {
        let mut cursors = self.plan.starts.clone();
        let mut items = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let (mut lists, mut own) = (Vec::new(), Vec::new());
            for (table, ids) in self.model.ids(&part.input) {
                let at = self.plan.ids.iter().position(|(known, _)| *known == table);
                let at = at.ok_or_else(|| Error::new(Code::Internal, "a table is not in the plan of its step"))?;
                let positions = rows[at].positions[cursors[at]..cursors[at] + ids.len()].to_vec();
                cursors[at] += ids.len();
                own.push(RowValues { values: rows[at].values.clone(), dim: rows[at].dim, positions });
                lists.push(at);
            }
            items.push((part, module.clone(), own, lists));
        }
        let done = self.slots.run(items, |place, (part, module, rows, lists)| {
            let share = part.rows as f32 / self.plan.rows as f32;
            let (input, targets, seed) = (&part.input, &part.targets, (self.seed)(place));
            let step = StepPart { input, rows, seed, targets, share };
            Ok((share, lists, self.model.step(&module.for_replica(), registry, step)?))
        });
        let mut sum = StepGradients {
            loss: Some(0.0),
            dense: registry.parameters().iter().chain(registry.states()).map(|_| None).collect(),
            rows: rows.iter().map(|_| None).collect(),
            ..StepGradients::default()
        };
        for one in done {
            let (share, lists, one): (f32, Vec<usize>, StepGradients) = one?;
            sum.loss = sum.loss.zip(one.loss).map(|(sum, own)| sum + share * own);
            sum.dense.iter_mut().zip(one.dense).for_each(|(sum, own)| add(sum, own, share));
            lists.into_iter().zip(one.rows).for_each(|(at, own)| add(&mut sum.rows[at], own, share));
        }
        if let Some(workers) = self.workers {
            reduce(workers, registry, rows, &mut sum)?;
        }
        Ok(sum)
    }
}

/// Adds `share` times a gradient.
fn add(sum: &mut Option<HostBuffer>, own: Option<HostBuffer>, share: f32) {
    let Some(mut own) = own else { return };
    match sum {
        Some(sum) => sum.iter_mut().zip(&*own).for_each(|(sum, number)| *sum += share * number),
        None => {
            own.iter_mut().for_each(|number| *number *= share);
            *sum = Some(own);
        }
    }
}

/// Sums loss and gradients over all workers. A gradient that no worker has stays `None`.
fn reduce(
    workers: &WorkerGroup,
    registry: &ParameterRegistry,
    rows: &[RowValues],
    sum: &mut StepGradients,
) -> Result<()> {
    let lengths = registry.parameters().iter().chain(registry.states()).map(|parameter| parameter.shape.elements());
    let lengths = lengths.chain(rows.iter().map(|rows| rows.values.len()));
    let mut header = vec![sum.loss.unwrap_or(0.0)];
    for (gradient, length) in sum.dense.iter_mut().chain(&mut sum.rows).zip(lengths) {
        header.push(f32::from(u8::from(gradient.is_some())));
        gradient.get_or_insert_with(|| HostBuffer::zeros(length));
    }
    let mut tensors: Vec<&mut [f32]> = vec![&mut header];
    tensors.extend(sum.dense.iter_mut().chain(&mut sum.rows).flatten().map(|gradient| &mut **gradient));
    workers.all_reduce(&mut tensors)?;
    sum.loss = Some(header[0]);
    for (gradient, count) in sum.dense.iter_mut().chain(&mut sum.rows).zip(&header[1..]) {
        if *count == 0.0 {
            *gradient = None;
        }
    }
    Ok(())
}

/// Returns the tables of a model on the servers, in the order in which the model numbers them.
pub(crate) fn tables_of<M: Trainable>(model: &M, session: &Session<M::Module>) -> Result<Vec<TableId>> {
    model.tables().iter().map(|table| session.table(&table.spec.name)).collect()
}

/// Returns the ids of an input with the tables that they are of; a model numbers its tables.
pub(crate) fn on_tables<'a>(tables: &[TableId], ids: Vec<(usize, &'a [i64])>) -> Vec<(TableId, &'a [i64])> {
    ids.into_iter().map(|(table, ids)| (tables[table], ids)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_read_as_it_was_written_and_rubbish_is_refused() {
        let ids = BTreeMap::from([(0, vec![3, -1]), (4, Vec::new()), (7, vec![i64::MAX])]);
        let said = Announcement { global_step: 9, rows: 32, stop: true, ids };
        let bytes = said.encode();
        assert_eq!(Announcement::decode(&bytes), Some(said));
        let whole = [24, 40 + 16, 40 + 16 + 16];
        for cut in (0..bytes.len()).filter(|cut| !whole.contains(cut)) {
            assert!(Announcement::decode(&bytes[..cut]).is_none(), "{cut} bytes");
        }
        let huge = [1, 1, 0, 5, u64::MAX].map(u64::to_le_bytes).concat();
        assert!(Announcement::decode(&huge).is_none());
    }
}

//! Everything one server holds.

use super::applied::{Applied, Verdict};
use super::barrier::Barrier;
use super::body::Body;
use super::dense::Dense;
use super::lock;
use super::table::Table;
use crate::plan::Initializer;
use phalanx_base::{Code, Error, F32Block, Incarnation, Result, Shape, TaskId};
use phalanx_optim::Optimizer;
use phalanx_wire::limits;
use phalanx_wire::proto::params::{Assign, Exchange, Exchanged, Fenced, Spec};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

#[derive(Clone)]
enum Item {
    Dense(Arc<Dense>),
    Table(Arc<Table>),
}

#[derive(Default)]
struct Items {
    list: Vec<Item>,
    /// A shard is found by its name and its first row: one server may hold several shards of a variable.
    by_name: HashMap<(String, u64), u32>,
}

/// One parameter server's state. All methods may be called from any thread; none waits for the network.
#[derive(Default)]
pub struct Store {
    items: RwLock<Items>,
    applied: Applied,
    pub(crate) barrier: Mutex<Barrier>,
    global_step: AtomicU64,
    ready: AtomicBool,
    stale: AtomicU64,
    repeats: AtomicU64,
}

impl Store {
    /// Makes what is not there and answers the handles; asking again for the same changes nothing.
    ///
    /// # Errors
    /// When a name is taken by something else.
    pub fn create(&self, specs: &[Spec], values: &[u8]) -> Result<Vec<u32>> {
        let mut body = Body(values);
        let mut made = Vec::with_capacity(specs.len().min(1024));
        for spec in specs {
            made.push(make(spec, &mut body)?);
        }
        body.end()?;
        let mut items = self.items.write().unwrap_or_else(PoisonError::into_inner);
        let mut handles = Vec::with_capacity(made.len());
        for (spec, item) in specs.iter().zip(made) {
            let key = (spec.name.clone(), spec.first_row);
            let handle = match items.by_name.get(&key) {
                Some(&handle) => {
                    same(&items.list[handle as usize], spec)?;
                    handle
                }
                None => {
                    let handle = items.list.len() as u32;
                    items.list.push(item);
                    items.by_name.insert(key, handle);
                    handle
                }
            };
            handles.push(handle);
        }
        Ok(handles)
    }

    /// The handles of what was made before.
    ///
    /// # Errors
    /// When something is not there, or is not what the caller takes it for.
    pub fn find(&self, specs: &[Spec]) -> Result<Vec<u32>> {
        let items = self.items.read().unwrap_or_else(PoisonError::into_inner);
        let find = |spec: &Spec| {
            let handle = items.by_name.get(&(spec.name.clone(), spec.first_row)).copied();
            let handle = handle.ok_or_else(|| {
                let error = Error::new(Code::NoSuchVariable, format!("there is no variable {:?} here", spec.name));
                match phalanx_base::nearest(&spec.name, items.by_name.keys().map(|(name, _)| name.as_str())) {
                    Some(near) if near != spec.name => error.help(format!("did you mean {near:?}?")),
                    _ => error.help("every task must build the same model over the same servers"),
                }
            })?;
            same(&items.list[handle as usize], spec)?;
            Ok(handle)
        };
        specs.iter().map(find).collect()
    }

    /// Applies what a step pushes, once, and answers what it pulls.
    ///
    /// # Errors
    /// When the message does not fit what is held here, or its sender may not push.
    pub fn exchange(&self, from: (TaskId, Incarnation), ask: &Exchange, body: &[u8]) -> Result<(Exchanged, Vec<u8>)> {
        let mut body = Body(body);
        let mut answer = Exchanged::default();
        self.push(from, ask, &mut body, &mut answer)?;
        let values = self.pull(ask, &mut body, &mut answer)?;
        body.end()?;
        Ok((answer, values))
    }

    fn push(
        &self,
        (task, incarnation): (TaskId, Incarnation),
        ask: &Exchange,
        body: &mut Body<'_>,
        answer: &mut Exchanged,
    ) -> Result<()> {
        // Everything is checked before anything is changed: an update is applied whole or not at all.
        let mut dense = Vec::with_capacity(ask.dense_push.len().min(1024));
        for range in &ask.dense_push {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            dense.push((shard, body.numbers(elements.len())?, elements));
        }
        let mut rows = Vec::with_capacity(ask.row_push.len().min(1024));
        for push in &ask.row_push {
            let table = self.table(push.handle)?;
            let ids = body.ids(push.count as usize)?;
            let gradients = body.numbers(ids.len() * table.dim)?;
            rows.push((table, ids, gradients));
        }
        if ask.step == 0 {
            return Ok(());
        }
        let progress = self.applied.of(task, incarnation);
        let mut progress = lock(&progress);
        if progress.judge(ask.step, ask.part, ask.parts, ask.on_behalf_of.is_some())? == Verdict::Repeat {
            answer.repeated = true;
            self.repeats.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let mut block = F32Block::default();
        let mut taken = true;
        for (shard, gradient, elements) in dense {
            match ask.round.checked_sub(1) {
                None => shard.push(elements, gradient, &mut block)?,
                Some(round) => taken &= shard.contribute(round, elements, gradient, &mut block)?,
            }
        }
        for (table, ids, gradients) in rows {
            match ask.round.checked_sub(1) {
                None => table.push(&ids, gradients)?,
                Some(round) => taken &= table.contribute(round, &ids, gradients)?,
            }
        }
        progress.advance(ask.step, ask.part, ask.parts);
        if !taken {
            answer.stale = true;
            self.stale.fetch_add(1, Ordering::Relaxed);
        }
        if ask.counts && ask.round == 0 && ask.part + 1 == ask.parts {
            self.global_step.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    fn pull(&self, ask: &Exchange, body: &mut Body<'_>, answer: &mut Exchanged) -> Result<Vec<u8>> {
        let mut dense = Vec::with_capacity(ask.dense_pull.len().min(1024));
        let mut numbers = 0;
        for range in &ask.dense_pull {
            let shard = self.dense(range.handle)?;
            shard.close(ask.closed);
            let elements = shard.check(range.start, range.count)?;
            let version = shard.version();
            let changed = version != range.held;
            answer.versions.push(if changed { version } else { 0 });
            if changed {
                numbers += elements.len();
                dense.push((shard, elements));
            }
        }
        let mut rows = Vec::with_capacity(ask.row_pull.len().min(1024));
        for pull in &ask.row_pull {
            let table = self.table(pull.handle)?;
            table.close(ask.closed);
            let ids = body.ids(pull.count as usize)?;
            numbers += ids.len() * table.dim;
            rows.push((table, ids));
        }
        if 4 * numbers > limits::FRAME_BYTES - limits::HEADER_BYTES {
            return Err(Error::new(Code::BadMessage, format!("{numbers} numbers do not fit into one answer"))
                .help("pull in several parts"));
        }
        let mut values = Vec::with_capacity(4 * numbers);
        for (shard, elements) in dense {
            shard.pull(elements, &mut values)?;
        }
        for (table, ids) in rows {
            let at = values.len();
            values.resize(at + 4 * ids.len() * table.dim, 0);
            table.pull(&ids, &mut values[at..])?;
        }
        Ok(values)
    }

    /// Replaces values, as a restore does.
    ///
    /// # Errors
    /// When the message does not fit what is held here.
    pub fn assign(&self, ask: &Assign, body: &[u8]) -> Result<()> {
        let mut body = Body(body);
        for range in &ask.ranges {
            let shard = self.dense(range.handle)?;
            let elements = shard.check(range.start, range.count)?;
            let values = body.numbers(elements.len())?;
            shard.assign(elements, values)?;
        }
        if let Some(step) = ask.global_step {
            self.global_step.store(step, Ordering::Release);
        }
        body.end()
    }

    /// Shuts a lost task's life out, and says how far it came.
    pub fn fence(&self, task: TaskId, incarnation: Incarnation) -> Fenced {
        lock(&self.barrier).leave((task, incarnation));
        let progress = self.applied.of(task, incarnation);
        let mut progress = lock(&progress);
        progress.fenced = true;
        Fenced { step: progress.step, complete: progress.parts_applied == progress.parts }
    }

    /// Says that the model is initialised.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether the model is initialised.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// How many steps were committed, where this server counts them.
    pub fn global_step(&self) -> u64 {
        self.global_step.load(Ordering::Acquire)
    }

    /// Takes note that a synchronous round was closed.
    pub(crate) fn reach_step(&self, step: u64) {
        self.global_step.fetch_max(step, Ordering::AcqRel);
    }

    /// Contributions dropped because their round was closed.
    pub fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Updates dropped because they had been applied.
    pub fn repeats(&self) -> u64 {
        self.repeats.load(Ordering::Relaxed)
    }

    /// How many shards of variables and how many tables are held.
    pub fn counts(&self) -> (usize, usize) {
        let items = self.items.read().unwrap_or_else(PoisonError::into_inner);
        let tables = items.list.iter().filter(|item| matches!(item, Item::Table(_))).count();
        (items.list.len() - tables, tables)
    }

    fn item(&self, handle: u32) -> Result<Item> {
        let items = self.items.read().unwrap_or_else(PoisonError::into_inner);
        items.list.get(handle as usize).cloned().ok_or_else(|| {
            Error::new(Code::NoSuchVariable, format!("there is no variable with handle {handle} here"))
                .because("the server was started anew since the handle was given out")
        })
    }

    fn dense(&self, handle: u32) -> Result<Arc<Dense>> {
        match self.item(handle)? {
            Item::Dense(shard) => Ok(shard),
            Item::Table(table) => Err(Error::new(Code::ShapeMismatch, format!("{:?} is a table", table.name))),
        }
    }

    fn table(&self, handle: u32) -> Result<Arc<Table>> {
        match self.item(handle)? {
            Item::Table(table) => Ok(table),
            Item::Dense(shard) => Err(Error::new(Code::ShapeMismatch, format!("{:?} is not a table", shard.name))),
        }
    }
}

fn make(spec: &Spec, body: &mut Body<'_>) -> Result<Item> {
    let optimizer = Optimizer::from_words(&spec.optimizer)?;
    optimizer.validate()?;
    let dims: Result<Vec<usize>, _> = spec.shape.iter().map(|&d| usize::try_from(d)).collect();
    let shape = Shape::new(dims.map_err(|_| Error::new(Code::ShapeMismatch, "an extent is too large"))?)?;
    if let Some(initializer) = &spec.initializer {
        if shape.dims().len() != 1 || shape.elements() == 0 || shape.elements() > 1 << 20 {
            return Err(Error::new(Code::ShapeMismatch, format!("{shape} is not the width of a table")));
        }
        let initializer = Initializer::from_wire(initializer)?;
        return Ok(Item::Table(Arc::new(Table::new(spec.name.clone(), shape.elements(), initializer, optimizer))));
    }
    let end = spec.first_row.checked_add(spec.rows).filter(|&end| end <= shape.rows() as u64);
    let end = end.ok_or_else(|| {
        Error::new(
            Code::ShapeMismatch,
            format!("{:?} of shape {shape} has no rows {}+{}", spec.name, spec.first_row, spec.rows),
        )
    })?;
    let rows = spec.first_row as usize..end as usize;
    // The values are in the message already, so this cannot take more memory than was received, times the slots.
    let values = body.numbers(rows.len() * shape.row_elements())?;
    Ok(Item::Dense(Arc::new(Dense::new(spec.name.clone(), shape, rows, optimizer, values))))
}

/// Whether what is held is what the caller takes it for.
fn same(item: &Item, spec: &Spec) -> Result<()> {
    let (name, shape, held) = match item {
        Item::Dense(shard) => {
            let held = (
                shard.shape.dims().iter().map(|&d| d as u64).collect(),
                shard.rows.len() as u64,
                None,
                shard.optimizer.to_words(),
            );
            (&shard.name, shard.shape.to_string(), held)
        }
        Item::Table(table) => {
            let held = (vec![table.dim as u64], 0, Some(table.initializer.to_wire()), table.optimizer.to_words());
            (&table.name, format!("table of width {}", table.dim), held)
        }
    };
    let (held_shape, held_rows, held_initializer, held_optimizer): (Vec<u64>, u64, _, Vec<f64>) = held;
    let differs = if held_shape != spec.shape || held_initializer.is_some() != spec.initializer.is_some() {
        format!("it exists as {shape}, this task wants {:?}", spec.shape)
    } else if held_rows != spec.rows {
        format!("this server holds {held_rows} of its rows, this task takes it to hold {}", spec.rows)
    } else if held_optimizer != spec.optimizer {
        let named = |words: &[f64]| Optimizer::from_words(words).map_or_else(|_| "?".to_owned(), |o| format!("{o:?}"));
        format!("it is updated by {}, this task wants {}", named(&held_optimizer), named(&spec.optimizer))
    } else if held_initializer != spec.initializer {
        "its rows start otherwise".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(Code::VariableConflict, format!("variable {name:?} is not the one this task means"))
        .because(differs)
        .help("every task must build the same model with the same optimizer"))
}

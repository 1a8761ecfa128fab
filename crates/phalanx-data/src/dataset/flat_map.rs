//! The user's side of `flat_map` and `interleave`.

use super::interleave::{Inner, Inners, InterleaveStage};
use super::node::{Context, ElementKind, Node, Op, Stage, open_input};
use super::random::mix;
use crate::position::{Loader, Saver, damaged};
use crate::{Batch, Dataset};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// More inner datasets than this are not open at a time: each holds a chunk.
const MAX_CYCLE: usize = 1 << 16;

type MakeDataset = Arc<dyn Fn(Batch) -> Result<Dataset> + Send + Sync>;

/// How [`Dataset::interleave`] takes turns.
///
/// ```
/// use phalanx_data::Interleave;
/// let turns = Interleave { cycle_length: 4, block_length: 16, ..Interleave::default() };
/// assert_eq!(turns.num_parallel_calls, 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interleave {
    /// How many inner datasets are open at a time; [`AUTOTUNE`](crate::AUTOTUNE) for as many as there are cores.
    pub cycle_length: usize,
    /// How many consecutive elements are taken from one of them.
    pub block_length: usize,
    /// How many of the open ones are read ahead by a thread of their own; 0 for none.
    pub num_parallel_calls: usize,
    /// What the elements of the inner datasets are: rows unless they are batched.
    pub batched: bool,
}

impl Default for Interleave {
    fn default() -> Self {
        Self { cycle_length: crate::AUTOTUNE, block_length: 1, num_parallel_calls: 0, batched: false }
    }
}

struct InterleaveOp {
    make: MakeDataset,
    turns: Interleave,
    flat: bool,
}

impl Op for InterleaveOp {
    fn describe(&self) -> String {
        if self.flat {
            return "flat_map".to_string();
        }
        format!("interleave({}, {})", self.turns.cycle_length, self.turns.block_length)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let kind = self.kind(inputs);
        let cycle = cx.options.threads_for(self.turns.cycle_length);
        let threads = match self.turns.num_parallel_calls {
            0 => 0,
            wanted => cx.options.threads_for(wanted),
        };
        let mut state = None;
        let upstream = match from {
            None => open_input(inputs, cx, None)?,
            Some(from) => {
                let opened = (from.u64()?, open_input(inputs, cx, Some(from))?);
                state = Some((opened.0, from));
                opened.1
            }
        };
        let input = inputs[0].clone();
        let (opened, from) = state.map_or((0, None), |(opened, from)| (opened, Some(from)));
        let inners = FromElements { make: self.make.clone(), input, upstream, cx, kind, opened };
        let stage = InterleaveStage::open(inners, cycle, self.turns.block_length, threads, kind, from, |_, _| Ok(()))?;
        Ok(Box::new(stage))
    }

    fn kind(&self, _: &[Node]) -> ElementKind {
        if self.turns.batched { ElementKind::Batches } else { ElementKind::Rows }
    }

    fn batch_size(&self, _: &[Node]) -> Option<usize> {
        None
    }
}

/// The inner datasets: one for each element of the input.
struct FromElements {
    make: MakeDataset,
    input: Node,
    upstream: Box<dyn Stage>,
    cx: Context,
    kind: ElementKind,
    opened: u64,
}

impl FromElements {
    fn open_inner(&self, element: Batch, ordinal: u64, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let dataset = (self.make)(element)?;
        if dataset.node().kind() != self.kind {
            let (got, help) = match self.kind {
                ElementKind::Rows => ("batches", "set `batched` in the Interleave settings, or unbatch them"),
                ElementKind::Batches => ("rows", "batch them, or leave `batched` unset"),
            };
            return Err(Error::new(Code::BadSetting, format!("the inner dataset has {got} as its elements")).help(help));
        }
        let cx = Context { path: mix(self.cx.path, ordinal), ..self.cx };
        dataset.node().open(cx.child(1), from)
    }
}

impl Inners for FromElements {
    fn next_inner(&mut self) -> Result<Option<Inner>> {
        // The element is not stored, only where it can be read again.
        let mut key = Saver::default();
        key.u64(self.opened);
        self.upstream.save(&mut key);
        let Some(element) = self.upstream.next(1)? else { return Ok(None) };
        let stage = self.open_inner(element, self.opened, None)?;
        self.opened += 1;
        Ok(Some((key.into_vec(), stage)))
    }

    fn reopen(&mut self, key: &[u8], from: &mut Loader<'_>) -> Result<Box<dyn Stage>> {
        let mut key = Loader::new(key);
        let ordinal = key.u64()?;
        let mut upstream = self.input.open(self.cx.child(0), Some(&mut key))?;
        let element = upstream.next(1)?.ok_or_else(|| damaged("an element it points to is not there"))?;
        self.open_inner(element, ordinal, Some(from))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.opened);
        self.upstream.save(out);
    }
}

impl Dataset {
    /// The elements of the dataset made for the first element, then those of the next, and so on.
    ///
    /// The inner datasets must be un-batched; [`Dataset::interleave`] takes batched ones.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(1, 4, 1).flat_map(|row| Ok(Dataset::range(0, row.i64("value")?[0], 1)));
    /// let all = data.batch(10).iter()?.next().unwrap()?;
    /// assert_eq!(all.i64("value")?, [0, 0, 1, 0, 1, 2]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn flat_map(self, make: impl Fn(Batch) -> Result<Self> + Send + Sync + 'static) -> Self {
        let turns = Interleave { cycle_length: 1, block_length: usize::MAX, ..Interleave::default() };
        self.then(InterleaveOp { make: Arc::new(make), turns, flat: true })
    }

    /// Interleaves the elements of the datasets made for several elements.
    ///
    /// ```
    /// use phalanx_data::{Dataset, Interleave};
    /// let turns = Interleave { cycle_length: 2, block_length: 1, ..Interleave::default() };
    /// let data = Dataset::range(0, 3, 1)
    ///     .interleave(|row| Ok(Dataset::from_tensor_slices(row).repeat_times(2)), turns);
    /// let all = data.batch(10).iter()?.next().unwrap()?;
    /// assert_eq!(all.i64("value")?, [0, 1, 0, 1, 2, 2]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn interleave(self, make: impl Fn(Batch) -> Result<Self> + Send + Sync + 'static, turns: Interleave) -> Self {
        if turns.cycle_length > MAX_CYCLE && turns.cycle_length != crate::AUTOTUNE {
            return Self::broken(
                Error::new(Code::BadSetting, format!("cycle_length must be at most {MAX_CYCLE}")).at("interleave"),
            );
        }
        for (name, value) in [("cycle_length", turns.cycle_length), ("block_length", turns.block_length)] {
            if value == 0 {
                return Self::broken(Error::new(Code::BadSetting, format!("{name} must be > 0")).at("interleave"));
            }
        }
        self.then(InterleaveOp { make: Arc::new(make), turns, flat: false })
    }
}

//! `shuffle`: a sliding buffer from which elements are drawn at random.
//!
//! Each slot of the buffer holds its row as bytes (see `batch/rows.rs`). A row that leaves is put into columns again,
//! and the next one of the input takes its slot, and the memory of that slot: nothing is allocated per row, and nothing
//! beside the buffer is kept but the chunk that is being read.

use super::node::{Context, Node, Op, Stage, open_input};
use super::random::{Random, mix};
use crate::Dataset;
use crate::position::Loader;
use phalanx_base::{Code, Error, Result};

mod resume;
mod stage;

use stage::ShuffleStage;

#[derive(Clone)]
struct ShuffleOp {
    buffer: usize,
    seed: Option<u64>,
    reshuffle: bool,
}

impl ShuffleOp {
    /// What this pass draws from.
    fn key(&self, cx: Context) -> u64 {
        let seed = self.seed.unwrap_or_else(|| mix(cx.seed, cx.path));
        if self.reshuffle { mix(seed, cx.epoch) } else { mix(seed, u64::MAX) }
    }
}

impl Op for ShuffleOp {
    fn describe(&self) -> String {
        let seed = self.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
        let same = if self.reshuffle { "" } else { ", every pass the same" };
        format!("shuffle({}{seed}{same})", self.buffer)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (random, kind) = (Random::new(self.key(cx)), inputs[0].kind());
        let Some(from) = from else {
            let upstream = open_input(inputs, cx, None)?;
            return Ok(Box::new(ShuffleStage::new(upstream, kind, self.buffer, random)));
        };
        let saved = resume::Saved::load(from)?;
        let upstream = open_input(inputs, cx, Some(from))?;
        Ok(Box::new(saved.resume(ShuffleStage::new(upstream, kind, self.buffer, random))?))
    }

    fn is_unseeded(&self) -> bool {
        self.seed.is_none()
    }
}

impl Dataset {
    /// Draws elements at random from a buffer of `buffer` elements that is kept full.
    ///
    /// Every pass has another order, and so has every round of a `repeat` above. A buffer of 0 is an error, as in
    /// TensorFlow. The seed is drawn when the dataset is made; a [`Position`](crate::Position) carries it along.
    #[must_use]
    pub fn shuffle(self, buffer: usize) -> Self {
        self.shuffle_with(buffer, None, true)
    }

    /// [`Dataset::shuffle`] with a seed: the same seed gives the same orders on every machine.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(0, 100, 1).shuffle_seeded(100, 42).batch(100);
    /// let mut values = data.iter()?.next().unwrap()?.i64("value")?.to_vec();
    /// assert_ne!(values[..5], [0, 1, 2, 3, 4]);
    /// values.sort();
    /// assert_eq!(values, (0..100).collect::<Vec<i64>>());
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn shuffle_seeded(self, buffer: usize, seed: u64) -> Self {
        self.shuffle_with(buffer, Some(seed), true)
    }

    /// Shuffles as [`Dataset::shuffle`] does, with an optional seed; without `reshuffle_each_iteration` every pass has the
    /// same order.
    #[must_use]
    pub fn shuffle_with(self, buffer: usize, seed: Option<u64>, reshuffle_each_iteration: bool) -> Self {
        if buffer == 0 {
            return Self::broken(
                Error::new(Code::BadSetting, "buffer_size must be greater than zero")
                    .at("shuffle(0)")
                    .help("leave shuffle out, or give it a buffer; the larger, the better mixed"),
            );
        }
        self.then(ShuffleOp { buffer, seed, reshuffle: reshuffle_each_iteration })
    }
}

//! `from_fn`, `from_iter`: elements made by the user's own code.

use super::node::{Context, ElementKind, Node, Op, Shardability, Stage};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::Result;
use std::sync::Arc;

type Items = Box<dyn Iterator<Item = Result<Batch>> + Send>;

struct GenerateOp {
    make: Arc<dyn Fn() -> Items + Send + Sync>,
}

impl Op for GenerateOp {
    fn describe(&self) -> String {
        "from_fn".to_string()
    }

    fn open(&self, _: &[Node], _: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let done = from.map_or(Ok(0), Loader::u64)?;
        let mut stage = GenerateStage { items: Some((self.make)()), chunk: None, done: 0 };
        stage.skip(done, ElementKind::Rows)?;
        Ok(Box::new(stage))
    }

    fn shardability(&self) -> Shardability {
        Shardability::Source
    }
}

struct GenerateStage {
    items: Option<Items>,
    chunk: Option<(Batch, usize)>,
    done: u64,
}

impl Stage for GenerateStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        loop {
            if let Some((batch, used)) = self.chunk.take() {
                let end = batch.rows().min(used.saturating_add(max));
                let rows = batch.slice(used..end);
                if end < batch.rows() {
                    self.chunk = Some((batch, end));
                }
                self.done += rows.rows() as u64;
                return Ok(Some(rows));
            }
            let Some(items) = &mut self.items else { return Ok(None) };
            match items.next() {
                Some(batch) => self.chunk = Some((batch?, 0)).filter(|(batch, _)| !batch.is_empty()),
                // Not every iterator stays at its end.
                None => self.items = None,
            }
        }
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.done);
    }
}

impl Dataset {
    /// The rows of the batches that an iterator yields; `make` is called once per pass.
    ///
    /// A position in such a dataset is a number of rows: restoring it runs the iterator from its start.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column, Dataset};
    /// let data = Dataset::from_fn(|| (0..3).map(|i| Batch::new([("i", Column::i64(vec![i, i]))])));
    /// let batch = data.batch(10).iter()?.next().unwrap()?;
    /// assert_eq!(batch.i64("i")?, [0, 0, 1, 1, 2, 2]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn from_fn<F, I>(make: F) -> Self
    where
        F: Fn() -> I + Send + Sync + 'static,
        I: Iterator<Item = Result<Batch>> + Send + 'static,
    {
        Self::from_op(GenerateOp { make: Arc::new(move || Box::new(make())) })
    }

    /// The rows of the batches of a collection that can be gone through again and again.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column, Dataset};
    /// let rows = vec![Batch::new([("x", Column::f32(vec![0.5]))])?; 4];
    /// assert_eq!(Dataset::from_batches(rows).iter()?.count(), 4);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn from_batches<C>(batches: C) -> Self
    where
        C: IntoIterator<Item = Batch> + Clone + Send + Sync + 'static,
        C::IntoIter: Send,
    {
        Self::from_fn(move || batches.clone().into_iter().map(Ok))
    }
}

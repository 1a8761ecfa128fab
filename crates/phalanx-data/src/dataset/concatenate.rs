//! `concatenate`: one dataset after another.

use super::node::{Context, ElementKind, Node, Op, Stage};
use crate::position::{Loader, Saver, damaged};
use crate::{Batch, Dataset};
use phalanx_base::{Code, Error, Result};

struct ConcatenateOp;

impl Op for ConcatenateOp {
    fn describe(&self) -> String {
        "concatenate".to_string()
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (index, stage) = match from {
            Some(from) => {
                let index = from.usize()?;
                let input = inputs.get(index).ok_or_else(|| damaged("a dataset it points to is not there"))?;
                (index, input.open(cx.child(index), Some(from))?)
            }
            None => (0, inputs[0].open(cx.child(0), None)?),
        };
        Ok(Box::new(ConcatenateStage { inputs: inputs.to_vec(), cx, index, stage, last: None }))
    }

    fn batch_size(&self, inputs: &[Node]) -> Option<usize> {
        let size = inputs[0].batch_size();
        if inputs.iter().all(|input| input.batch_size() == size) { size } else { None }
    }
}

struct ConcatenateStage {
    inputs: Vec<Node>,
    cx: Context,
    index: usize,
    stage: Box<dyn Stage>,
    /// Some elements of the input before, to compare their columns with.
    last: Option<Batch>,
}

impl Stage for ConcatenateStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        loop {
            if let Some(chunk) = self.stage.next(max)? {
                if self.index == 0 {
                    self.last.get_or_insert_with(|| chunk.empty_like());
                } else if let Some(last) = self.last.take() {
                    check_columns(&last, &chunk)?;
                }
                return Ok(Some(chunk));
            }
            let Some(input) = self.inputs.get(self.index + 1) else { return Ok(None) };
            self.index += 1;
            self.stage = input.open(self.cx.child(self.index), None)?;
        }
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.index as u64);
        self.stage.save(out);
    }

    fn skip(&mut self, count: u64, kind: ElementKind) -> Result<u64> {
        let mut skipped = self.stage.skip(count, kind)?;
        while skipped < count && self.index + 1 < self.inputs.len() {
            self.index += 1;
            self.stage = self.inputs[self.index].open(self.cx.child(self.index), None)?;
            skipped += self.stage.skip(count - skipped, kind)?;
        }
        Ok(skipped)
    }
}

/// Names and types must be the same; shapes may differ.
fn check_columns(a: &Batch, b: &Batch) -> Result<()> {
    let types = |batch: &Batch| batch.iter().map(|(name, column)| (name.clone(), column.dtype())).collect::<Vec<_>>();
    let (a, b) = (types(a), types(b));
    if a == b {
        return Ok(());
    }
    let text = |types: Vec<(std::sync::Arc<str>, crate::DType)>| {
        types.iter().map(|(name, dtype)| format!("{name}: {dtype}")).collect::<Vec<_>>().join(", ")
    };
    Err(Error::new(Code::DataColumn, "datasets of different columns cannot be concatenated")
        .at("concatenate")
        .because(format!("one has ({}), the other ({})", text(a), text(b)))
        .help("bring both to the same columns with map"))
}

impl Dataset {
    /// The elements of this dataset, then those of the other.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(0, 2, 1).concatenate(Dataset::range(7, 9, 1));
    /// assert_eq!(data.batch(9).iter()?.next().unwrap()?.i64("value")?, [0, 1, 7, 8]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn concatenate(self, other: Self) -> Self {
        if self.node().kind() != other.node().kind() {
            return Self::broken(
                Error::new(Code::BadSetting, "a batched dataset and one that is not cannot be concatenated")
                    .at("concatenate")
                    .help("batch both, or batch after concatenate"),
            );
        }
        self.join(other, ConcatenateOp)
    }
}

//! `zip`: two datasets side by side.

use super::node::{Context, ElementKind, Node, Op, Shardability, Stage};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::{Code, Error, Result};

struct ZipOp;

impl Op for ZipOp {
    fn describe(&self) -> String {
        "zip".to_string()
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (left, right, ended) = match from {
            Some(from) => {
                let ended = from.flag()?;
                let left = inputs[0].open(cx.child(0), Some(from))?;
                (left, inputs[1].open(cx.child(1), Some(from))?, ended)
            }
            None => (inputs[0].open(cx.child(0), None)?, inputs[1].open(cx.child(1), None)?, false),
        };
        Ok(Box::new(ZipStage { left, right, kind: inputs[0].kind(), ended }))
    }

    fn shardability(&self) -> Shardability {
        Shardability::ByOrder
    }
}

struct ZipStage {
    left: Box<dyn Stage>,
    right: Box<dyn Stage>,
    kind: ElementKind,
    ended: bool,
}

impl Stage for ZipStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.ended {
            return Ok(None);
        }
        let Some(left) = self.left.next(max)? else {
            self.ended = true;
            return Ok(None);
        };
        let wanted = self.kind.elements(&left);
        let mut parts = Vec::new();
        let mut have = 0;
        while have < wanted {
            let Some(chunk) = self.right.next(wanted - have)? else {
                // Ends with the shorter one; what was read of the longer one is of no use any more.
                self.ended = true;
                break;
            };
            have += self.kind.elements(&chunk);
            parts.push(chunk);
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let right = Batch::concat(&parts)?;
        let left = if self.kind == ElementKind::Rows { left.slice(0..have) } else { left };
        left.beside(&right).map(Some).map_err(|error| error.at("zip"))
    }

    fn save(&self, out: &mut Saver) {
        out.flag(self.ended);
        self.left.save(out);
        self.right.save(out);
    }
}

impl Dataset {
    /// The columns of both datasets side by side; ends with the shorter one.
    ///
    /// No name may be in both. Batches are zipped with batches of as many rows.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column, Dataset};
    /// let labels = Dataset::from_tensor_slices(Batch::new([("label", Column::i64(vec![1, 0]))])?);
    /// let data = Dataset::range(0, 9, 1).zip(labels);
    /// assert_eq!(data.iter()?.count(), 2);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn zip(self, other: Self) -> Self {
        if self.node().kind() != other.node().kind() {
            return Self::broken(
                Error::new(Code::BadSetting, "a batched dataset and one that is not cannot be zipped")
                    .at("zip")
                    .help("batch both, or batch after zip"),
            );
        }
        self.join(other, ZipOp)
    }
}

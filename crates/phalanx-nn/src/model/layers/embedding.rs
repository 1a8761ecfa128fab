//! Embeddings.

use crate::model::layer::{layer_basics, only};
use crate::model::tables::checked_ids;
use crate::model::{DynTensor, Identity, Initializer, Layer, Mode, Op, Plan, WeightPlan, Weights};
use phalanx_base::{Code, Error, Result};

/// Looks up the row of each id: the shape `[None, ...]` becomes `[None, ..., dim]`.
///
/// With parameter servers, the rows of a layer that is only called on inputs of the model are a table there: a step fetches
/// those of its batch.
///
/// ```
/// use phalanx_nn::model::{Embedding, Flatten, Sequential};
/// let model = Sequential::new().add(Embedding::new(100, 8)).add(Flatten::new()).build([3])?;
/// assert!(model.summary(None).contains("(None, 24)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embedding {
    identity: Identity,
    rows: usize,
    dim: usize,
    initializer: Initializer,
}

layer_basics!(Embedding);

impl Embedding {
    /// Returns a table for ids below `rows`, with rows of `dim` numbers.
    #[must_use]
    pub fn new(rows: usize, dim: usize) -> Self {
        Self { identity: Identity::default(), rows, dim, initializer: Initializer::random_uniform() }
    }

    setters! {
        /// Sets the initializer of the table. The default is `random_uniform`.
        embeddings_initializer: Initializer => initializer;
    }
}

impl Layer for Embedding {
    layer_basics!(parts Embedding);

    fn op(&self) -> Option<Op> {
        Some(Op::Embedding)
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        if self.rows == 0 || self.dim == 0 {
            return Err(Error::new(Code::BadSetting, format!("a table of {} rows of {} numbers", self.rows, self.dim))
                .because("both must be at least 1"));
        }
        let weights = vec![WeightPlan::table("embeddings", [self.rows, self.dim], self.initializer)];
        Ok(Plan { output: [only(inputs)?, &[self.dim][..]].concat(), weights })
    }

    fn forward(&self, inputs: Vec<DynTensor>, weights: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let input = only(inputs)?;
        let mut dims = input.dims();
        let ids = input.ids();
        // An id out of range would panic in Burn.
        checked_ids(&ids, self.rows)?;
        dims.push(self.dim);
        DynTensor::from(weights.matrix(0)?.select(0, ids)).reshape(&dims)
    }
}

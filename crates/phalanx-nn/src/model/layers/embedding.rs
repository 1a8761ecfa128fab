//! Embeddings.

use crate::model::layer::{layer_basics, only};
use crate::model::{DynTensor, Identity, Initializer, Layer, Mode, Op, Plan, WeightPlan, Weights};
use phalanx_base::{Code, Error, Result};

/// Looks up the row of each id: the shape `[None, ...]` becomes `[None, ..., dim]`.
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
        let weights = vec![WeightPlan::new("embeddings", [self.rows, self.dim], self.initializer)];
        Ok(Plan { output: [only(inputs)?, &[self.dim][..]].concat(), weights })
    }

    fn forward(&self, inputs: Vec<DynTensor>, weights: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let input = only(inputs)?;
        let mut dims = input.dims();
        let ids = input.ids();
        // An id out of range would panic in Burn.
        let inside = |id: &i64| usize::try_from(*id).is_ok_and(|id| id < self.rows);
        let outside = ids.clone().into_data().iter::<i64>().find(|id| !inside(id));
        if let Some(id) = outside {
            return Err(Error::new(Code::DataRow, format!("id {id} is not in the table"))
                .because(format!("the table has the ids 0 to {}", self.rows - 1))
                .help("give the layer more rows, or map unknown ids to a separate row"));
        }
        dims.push(self.dim);
        DynTensor::from(weights.matrix(0)?.select(0, ids)).reshape(&dims)
    }
}

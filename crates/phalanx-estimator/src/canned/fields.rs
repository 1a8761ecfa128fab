//! Fields: embeddings of one dimension that interact pairwise, and the dense columns beside them.

use super::parts::ModelPlan;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::{EmbeddingInitializer, FeatureColumn, Transform};
use phalanx_graph::NodeId;
use phalanx_optim::Optimizer;

/// The default initializer of rows. With that of a single layer, the sum of hundreds of products would start as noise
/// that outweighs the labels.
const START: EmbeddingInitializer = EmbeddingInitializer::TruncatedNormal { mean: 0.0, stddev: 0.01 };

/// The columns of a model whose embeddings interact.
pub(super) struct Fields {
    /// The dense columns; `None` if there are none.
    pub(super) dense: Option<NodeId>,
    /// The embeddings, field after field.
    pub(super) embeddings: NodeId,
    pub(super) count: usize,
    pub(super) dimension: usize,
}

impl Fields {
    /// Plans the embeddings as `SCOPE/COLUMN/embedding_weights`.
    pub(super) fn plan(
        columns: &[FeatureColumn],
        scope: &str,
        optimizer: Optimizer,
        plan: &mut ModelPlan,
    ) -> Result<Self> {
        let dimension = one_dimension(&Transform::dense_features(columns)?)?;
        let part = plan.embeddings(columns, scope, Some(START), optimizer)?;
        let embeddings = plan.side_by_side(&part.bags)?;
        plan.parts.push(part.columns);
        Ok(Self { dense: part.dense, embeddings, count: part.bags.len(), dimension })
    }
}

/// Returns the dimension that all embeddings have.
fn one_dimension(transform: &Transform) -> Result<usize> {
    let tables = transform.tables();
    let Some(first) = tables.first() else {
        return Err(Error::new(Code::BadSetting, "the model has no embedding columns").help(
            "give it embedding columns, such as embedding_column(categorical_column_with_identity(\"ad\", 1000), 16)",
        ));
    };
    match tables.iter().find(|table| table.dimension != first.dimension) {
        None => Ok(first.dimension),
        Some(other) => Err(Error::new(Code::BadSetting, "the embeddings have different dimensions")
            .because(format!("{:?} has {}, {:?} has {}", first.name, first.dimension, other.name, other.dimension))
            .help("give all embedding columns of the model one dimension")),
    }
}

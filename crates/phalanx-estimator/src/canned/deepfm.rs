//! `DeepFmClassifier`: a factorization machine and a deep model over the same embeddings.

use super::deep::INPUT;
use super::fields::Fields;
use super::hidden::LayerSettings;
use super::l2::L2;
use super::linear::linear;
use super::parts::ModelPlan;
use super::settings::{head_settings, into_model, layer_settings, two_optimizers};
use crate::Head;
use phalanx_base::Result;
use phalanx_feature::{Combiner, FeatureColumn};
use phalanx_graph::{Add, NodeId, SecondOrder};
use phalanx_optim::{Adagrad, Ftrl, Optimizer};

/// The default learning rate of both parts: high, since rows start near 0 and few batches contain a rare id.
const LEARNING_RATE: f32 = 0.15;

/// DeepFM (Guo et al., 2017) for two classes: a weight for every id, the dot products of all pairs of embeddings, and
/// hidden layers over the same embeddings.
///
/// The columns are embeddings of one dimension, each of which is a field, and any dense columns. The ids of every
/// embedding also have linear weights. The variables have the names of wide & deep.
///
/// ```
/// use phalanx_estimator::DeepFmClassifier;
/// use phalanx_feature::{categorical_column_with_hash_bucket as hashed, embedding_column, numeric_column};
/// let model = DeepFmClassifier::new([
///     numeric_column("price"),
///     embedding_column(hashed("user", 100_000), 16),
///     embedding_column(hashed("ad", 10_000), 16),
/// ])
/// .hidden_units([128, 64]);
/// # let _ = model;
/// ```
#[derive(Clone, Debug)]
pub struct DeepFmClassifier {
    columns: Vec<FeatureColumn>,
    head: Head,
    linear_optimizer: Option<Optimizer>,
    dnn_optimizer: Optimizer,
    layers: LayerSettings,
    l2: L2,
}

impl DeepFmClassifier {
    /// A model of these columns: FTRL for linear weights, Adagrad for embeddings and layers, both at a rate of 0.15.
    #[must_use]
    pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
        Self {
            columns: columns.into(),
            head: Head::classes(2),
            linear_optimizer: None,
            dnn_optimizer: Adagrad::new(LEARNING_RATE).into(),
            layers: LayerSettings::default(),
            l2: L2::default(),
        }
    }
}

layer_settings!(DeepFmClassifier);
two_optimizers!(DeepFmClassifier);
head_settings!(binary DeepFmClassifier);

into_model!(DeepFmClassifier);

impl DeepFmClassifier {
    fn parts(&self, _: usize, plan: &mut ModelPlan) -> Result<NodeId> {
        let optimizer = self.linear_optimizer.unwrap_or_else(|| Ftrl::new(LEARNING_RATE).into());
        let linear = linear(&first_order(&self.columns), Combiner::Sum, 1, optimizer, plan)?;
        let machine = machine(&self.columns, Some(&self.layers), self.dnn_optimizer, plan)?;
        plan.graph.add(Add, &[machine, linear])
    }
}

/// Returns the columns of a machine's linear part: the categorical columns of embeddings and indicators, each once, and the
/// dense columns.
pub(super) fn first_order(columns: &[FeatureColumn]) -> Vec<FeatureColumn> {
    let mut found: Vec<FeatureColumn> = Vec::with_capacity(columns.len());
    for column in columns {
        let own = column.categorical_column().unwrap_or_else(|| column.clone());
        if found.iter().all(|known| known.name() != own.name()) {
            found.push(own);
        }
    }
    found
}

/// Plans the second-order terms, and the hidden layers if there are any; the linear part is separate. Returns their logits.
/// The layers see the dense columns first, then the embeddings.
pub(super) fn machine(
    columns: &[FeatureColumn],
    layers: Option<&LayerSettings>,
    optimizer: Optimizer,
    plan: &mut ModelPlan,
) -> Result<NodeId> {
    layers.map_or(Ok(()), LayerSettings::check)?;
    let Fields { dense, embeddings, count, .. } = Fields::plan(columns, INPUT, optimizer, plan)?;
    let pairs = plan.graph.add(SecondOrder { fields: count }, &[embeddings])?;
    let Some(layers) = layers else { return Ok(pairs) };
    let all: Vec<NodeId> = dense.into_iter().chain([embeddings]).collect();
    let input = plan.side_by_side(&all)?;
    let deep = plan.mlp(["dnn", "dnn/logits"], layers, input, 1, optimizer)?;
    plan.graph.add(Add, &[deep, pairs])
}

//! `DeepFmClassifier`: a factorization machine and a deep model over the same embeddings.

use super::Canned;
use super::deep::INPUT;
use super::fields::{Fields, second_order};
use super::hidden::{Drift, Hidden, Layers, Sums};
use super::linear::Linear;
use super::parts::Builder;
use super::settings::{HeadSettings, head_settings, layer_settings};
use crate::IntoModel;
use crate::variables::Variables;
use phalanx_base::Result;
use phalanx_feature::{Combiner, FeatureColumn};
use phalanx_nn::Precision;
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::model::{Function, Mode};
use phalanx_optim::{Adagrad, Ftrl, Optimizer};

/// What both parts learn at where nothing else is said: rows begin near 0, and few batches name a rare id.
const LEARNING_RATE: f32 = 0.15;

/// DeepFM (Guo and others, 2017): a weight for every id, every pair of embeddings multiplied, and hidden layers over
/// the same embeddings. For two classes.
///
/// The columns are embeddings of one dimension, each of which is a field, and whatever numbers stand beside them. Every
/// embedding's ids have linear weights too. Over variables of its own it has those of wide & deep, under their names.
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
    head: HeadSettings,
    linear_optimizer: Optimizer,
    dnn_optimizer: Optimizer,
    layers: Layers,
}

impl DeepFmClassifier {
    /// A model of these columns: FTRL for the weights of ids, Adagrad for embeddings and layers, both at a rate of 0.15.
    #[must_use]
    pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
        Self {
            columns: columns.into(),
            head: HeadSettings::classifier(),
            linear_optimizer: Ftrl::new(LEARNING_RATE).into(),
            dnn_optimizer: Adagrad::new(LEARNING_RATE).into(),
            layers: Layers::default(),
        }
    }

    /// How gradients change the weights of single ids and numbers.
    #[must_use]
    pub fn linear_optimizer(mut self, optimizer: impl Into<Optimizer>) -> Self {
        self.linear_optimizer = optimizer.into();
        self
    }

    /// How gradients change embeddings and hidden layers.
    #[must_use]
    pub fn dnn_optimizer(mut self, optimizer: impl Into<Optimizer>) -> Self {
        self.dnn_optimizer = optimizer.into();
        self
    }
}

layer_settings!(DeepFmClassifier);
head_settings!(binary DeepFmClassifier);

impl IntoModel for DeepFmClassifier {
    type Model = Canned;

    fn to_model(&self, seed: u64) -> Result<Canned> {
        let (head, mut kept) = (self.head.head(), Builder::new(seed));
        let linear = Linear::plan(&self.linear_columns(), Combiner::Sum, 1, self.linear_optimizer, &mut kept)?;
        let machine = Machine::plan(&self.columns, &self.layers, self.dnn_optimizer, &mut kept)?;
        let canned = Canned::new(head, Some(linear), None, kept)?;
        Ok(Canned { machine: Some(machine), ..canned })
    }
}

impl DeepFmClassifier {
    /// What has weights of its own: the ids behind embeddings and indicators, each once, and numbers.
    fn linear_columns(&self) -> Vec<FeatureColumn> {
        let mut columns: Vec<FeatureColumn> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let own = column.categorical_column().unwrap_or_else(|| column.clone());
            if columns.iter().all(|known| known.name() != own.name()) {
                columns.push(own);
            }
        }
        columns
    }
}

/// The machine and the layers; the linear part stands beside it.
pub(crate) struct Machine {
    pub(crate) fields: Fields,
    pub(crate) hidden: Hidden,
    pub(crate) logits: Sums,
}

impl Machine {
    fn plan(columns: &[FeatureColumn], layers: &Layers, optimizer: Optimizer, builder: &mut Builder) -> Result<Self> {
        layers.check()?;
        let fields = Fields::plan(columns, INPUT, optimizer, builder)?;
        let width = fields.dense_width() + fields.width();
        let (hidden, width) = Hidden::plan("dnn", layers, width, optimizer, builder);
        let logits = Sums::plan("dnn/logits", [width, 1], optimizer, builder);
        Ok(Self { fields, hidden, logits })
    }

    /// The logits that are not linear; the layers see numbers first, then the embeddings.
    pub(crate) fn logits(
        &self,
        variables: &Variables,
        dense: Option<Tensor<2>>,
        embeddings: Tensor<2>,
        mode: Mode,
        drift: &mut Drift,
    ) -> Result<Tensor<2>> {
        let pairs = second_order(self.fields.stacked(embeddings.clone()));
        let input = match dense {
            Some(dense) => Tensor::cat(vec![dense, embeddings], 1),
            None => embeddings,
        };
        Ok(self.logits.of(
            variables,
            self.hidden.of(variables, input, mode, drift)?,
            Function::Linear,
            Precision::F32,
        )? + pairs)
    }
}

//! `DlrmClassifier`: dense columns become one more embedding, and top layers see the dot products of all pairs.

use super::fields::Fields;
use super::hidden::LayerSettings;
use super::l2::L2;
use super::parts::ModelPlan;
use super::settings::{head_settings, into_model, optimizer_setting};
use crate::Head;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::FeatureColumn;
use phalanx_graph::{NodeId, PairProducts, pairs};
use phalanx_optim::{Adagrad, Optimizer};

/// The default learning rate.
const LEARNING_RATE: f32 = 0.15;

/// DLRM (Naumov et al., 2019): bottom layers turn the dense columns into one more embedding, and top layers turn it and
/// the dot products of all pairs of embeddings into logits.
///
/// The columns are embeddings of one dimension and any dense columns; the last bottom layer has that dimension too.
/// Without dense columns there are no bottom layers.
///
/// ```
/// use phalanx_estimator::DlrmClassifier;
/// use phalanx_feature::{categorical_column_with_hash_bucket as hashed, embedding_column, numeric_column};
/// let model = DlrmClassifier::new([
///     numeric_column("price"),
///     embedding_column(hashed("user", 100_000), 16),
///     embedding_column(hashed("ad", 10_000), 16),
/// ])
/// .bottom_units([64, 16])
/// .top_units([128, 64]);
/// # let _ = model;
/// ```
#[derive(Clone, Debug)]
pub struct DlrmClassifier {
    columns: Vec<FeatureColumn>,
    head: Head,
    optimizer: Optimizer,
    bottom: Vec<usize>,
    top: LayerSettings,
    l2: L2,
}

impl DlrmClassifier {
    /// A model of these columns, with Adagrad at a rate of 0.15. By default there is one bottom layer.
    #[must_use]
    pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
        Self {
            columns: columns.into(),
            head: Head::classes(2),
            optimizer: Adagrad::new(LEARNING_RATE).into(),
            bottom: Vec::new(),
            top: LayerSettings::default(),
            l2: L2::default(),
        }
    }

    phalanx_train::setters! {
        /// Sets the widths of the bottom layers; the last must be the embeddings' dimension.
        bottom_units(units: impl Into<Vec<usize>>) { bottom = units.into() }
        /// Sets the widths of the top layers, from the dot products to the logits.
        top_units(units: impl Into<Vec<usize>>) { top.hidden_units = units.into() }
        /// Sets the dropout rate of the top layers.
        dropout(rate: f64) { top.dropout = Some(rate) }
    }
}

optimizer_setting!(DlrmClassifier, "embeddings and layers");
head_settings!(classifier DlrmClassifier);

into_model!(DlrmClassifier);

impl DlrmClassifier {
    fn parts(&self, units: usize, plan: &mut ModelPlan) -> Result<NodeId> {
        if self.top.hidden_units.is_empty() {
            return Err(Error::new(Code::BadSetting, "a DLRM has no top layers")
                .help("set their widths, such as .top_units([128, 64])"));
        }
        self.top.check()?;
        let fields = Fields::plan(&self.columns, "dlrm/input_layer", self.optimizer, plan)?;
        let bottom = match (fields.dense, bottom_layers(&fields, &self.bottom)?) {
            (Some(dense), Some(layers)) => Some(plan.hidden_layers("dlrm/bottom", &layers, dense, self.optimizer)?),
            _ => None,
        };
        // The bottom layers' output is one more field.
        let all: Vec<NodeId> = bottom.into_iter().chain([fields.embeddings]).collect();
        let (all, fields) = (plan.side_by_side(&all)?, fields.count + usize::from(bottom.is_some()));
        if pairs(fields).count() == 0 {
            return Err(Error::new(Code::BadSetting, "a DLRM of one embedding")
                .because("there is no pair to multiply")
                .help("give it two embedding columns, or dense columns beside one"));
        }
        let products = plan.graph.add(PairProducts { fields }, &[all])?;
        let input: Vec<NodeId> = bottom.into_iter().chain([products]).collect();
        let input = plan.side_by_side(&input)?;
        plan.mlp(["dlrm/top", "dlrm/logits"], &self.top, input, units, self.optimizer)
    }
}

/// Returns the settings of the bottom layers, or `None` if there are no dense columns.
fn bottom_layers(fields: &Fields, units: &[usize]) -> Result<Option<LayerSettings>> {
    if fields.dense.is_none() {
        return match units {
            [] => Ok(None),
            _ => Err(Error::new(Code::BadSetting, "a DLRM has bottom layers but no dense columns")
                .help("remove bottom_units, or add numeric columns")),
        };
    }
    let units = if units.is_empty() { vec![fields.dimension] } else { units.to_vec() };
    if units.last() != Some(&fields.dimension) {
        let last = units.last().copied().unwrap_or(0);
        return Err(Error::new(Code::BadSetting, format!("the last bottom layer of a DLRM has {last} units"))
            .because(format!("the embeddings have {} numbers", fields.dimension))
            .help("make bottom_units end with the embeddings' dimension"));
    }
    let layers = LayerSettings { hidden_units: units, ..LayerSettings::default() };
    layers.check().map(|()| Some(layers))
}

//! `DlrmClassifier`: numbers become one more embedding, and embeddings meet in pairs below the last layers.

use super::Canned;
use super::fields::{Fields, pairs, products};
use super::hidden::{Drift, Hidden, Layers, Sums};
use super::parts::Builder;
use super::settings::{HeadSettings, head_settings, optimizer_setting};
use crate::IntoModel;
use crate::variables::Variables;
use phalanx_base::{Code, Error, Result};
use phalanx_feature::FeatureColumn;
use phalanx_nn::Precision;
use phalanx_nn::burn::tensor::Tensor;
use phalanx_nn::model::{Function, Mode};
use phalanx_optim::{Adagrad, Optimizer};

/// What everything learns at where nothing else is said.
const LEARNING_RATE: f32 = 0.15;

/// DLRM (Naumov and others, 2019): layers make the numbers one more vector among the embeddings, all pairs of them are
/// multiplied, and more layers take the products with that vector to the logits.
///
/// The columns are embeddings of one dimension and whatever numbers stand beside them; the last of the bottom layers
/// has that dimension too. Without numbers there are no bottom layers.
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
    head: HeadSettings,
    optimizer: Optimizer,
    bottom: Vec<usize>,
    top: Layers,
}

impl DlrmClassifier {
    /// A model of these columns, with Adagrad at a rate of 0.15. Without [`Self::bottom_units`] numbers go through one
    /// layer of the embeddings' dimension.
    #[must_use]
    pub fn new(columns: impl Into<Vec<FeatureColumn>>) -> Self {
        Self {
            columns: columns.into(),
            head: HeadSettings::classifier(),
            optimizer: Adagrad::new(LEARNING_RATE).into(),
            bottom: Vec::new(),
            top: Layers::default(),
        }
    }

    /// How wide the layers below are; the last has the embeddings' dimension.
    #[must_use]
    pub fn bottom_units(mut self, units: impl Into<Vec<usize>>) -> Self {
        self.bottom = units.into();
        self
    }

    /// How wide the layers above are, from the products to the logits.
    #[must_use]
    pub fn top_units(mut self, units: impl Into<Vec<usize>>) -> Self {
        self.top.hidden_units = units.into();
        self
    }

    /// Drops this share of the numbers of every layer above while training.
    #[must_use]
    pub fn dropout(mut self, rate: f64) -> Self {
        self.top.dropout = Some(rate);
        self
    }
}

optimizer_setting!(DlrmClassifier, "embeddings and layers");
head_settings!(classifier DlrmClassifier);

impl IntoModel for DlrmClassifier {
    type Model = Canned;

    fn to_model(&self, seed: u64) -> Result<Canned> {
        let (head, mut kept) = (self.head.head(), Builder::new(seed));
        let units = head.logits_dimension();
        let meeting = Meeting::plan(&self.columns, &self.bottom, &self.top, units, self.optimizer, &mut kept)?;
        let canned = Canned::new(head, None, None, kept)?;
        Ok(Canned { meeting: Some(meeting), ..canned })
    }
}

/// The whole of DLRM.
pub(crate) struct Meeting {
    pub(crate) fields: Fields,
    /// What makes a vector of the numbers; `None` where there are none.
    pub(crate) bottom: Option<Hidden>,
    pub(crate) top: Hidden,
    pub(crate) logits: Sums,
}

impl Meeting {
    fn plan(
        columns: &[FeatureColumn],
        bottom: &[usize],
        top: &Layers,
        units: usize,
        optimizer: Optimizer,
        builder: &mut Builder,
    ) -> Result<Self> {
        if top.hidden_units.is_empty() {
            return Err(Error::new(Code::BadSetting, "a DLRM has no layers above its products")
                .help("say how wide they are, such as .top_units([128, 64])"));
        }
        top.check()?;
        let fields = Fields::plan(columns, "dlrm/input_layer", optimizer, builder)?;
        let bottom = below(&fields, bottom)?;
        let bottom =
            bottom.map(|layers| Hidden::plan("dlrm/bottom", &layers, fields.dense_width(), optimizer, builder).0);
        let met = pairs(fields.count + usize::from(bottom.is_some())).count();
        if met == 0 {
            return Err(Error::new(Code::BadSetting, "a DLRM of one embedding")
                .because("it has nobody to meet")
                .help("give it two embedding columns, or numbers beside one"));
        }
        let own = if bottom.is_some() { fields.dimension } else { 0 };
        let (top, width) = Hidden::plan("dlrm/top", top, own + met, optimizer, builder);
        let logits = Sums::plan("dlrm/logits", [width, units], optimizer, builder);
        Ok(Self { fields, bottom, top, logits })
    }

    pub(crate) fn logits(
        &self,
        variables: &Variables,
        dense: Option<Tensor<2>>,
        embeddings: Tensor<2>,
        mode: Mode,
        drift: &mut Drift,
    ) -> Result<Tensor<2>> {
        let fields = self.fields.stacked(embeddings);
        let input = match (&self.bottom, dense) {
            (Some(bottom), Some(dense)) => {
                let own = bottom.of(variables, dense, mode, drift)?;
                let all = Tensor::cat(vec![own.clone().unsqueeze_dim(1), fields], 1);
                Tensor::cat(vec![own, products(all)], 1)
            }
            _ => products(fields),
        };
        self.logits.of(variables, self.top.of(variables, input, mode, drift)?, Function::Linear, Precision::F32)
    }
}

/// The layers below; `None` for columns without numbers.
fn below(fields: &Fields, units: &[usize]) -> Result<Option<Layers>> {
    if fields.dense_width() == 0 {
        return match units {
            [] => Ok(None),
            _ => Err(Error::new(Code::BadSetting, "a DLRM has layers below, and no numbers to put through them")
                .help("leave out bottom_units, or give it numeric columns")),
        };
    }
    let units = if units.is_empty() { vec![fields.dimension] } else { units.to_vec() };
    if units.last() != Some(&fields.dimension) {
        let last = units.last().copied().unwrap_or(0);
        return Err(Error::new(Code::BadSetting, format!("the last of a DLRM's bottom layers has {last} units"))
            .because(format!("it meets embeddings of {} numbers", fields.dimension))
            .help("let bottom_units end with the embeddings' dimension"));
    }
    let layers = Layers { hidden_units: units, ..Layers::default() };
    layers.check().map(|()| Some(layers))
}

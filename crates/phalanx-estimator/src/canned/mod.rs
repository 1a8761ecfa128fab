//! The canned models: baseline, linear, deep, wide & deep, factorization machines, DeepFM, DLRM.

mod baseline;
mod combined;
mod deep;
mod deepfm;
mod dlrm;
mod dnn;
mod fields;
mod fm;
mod graph;
mod graph_fields;
mod hidden;
mod input;
mod l2;
mod linear;
mod linear_models;
mod lookup;
mod parts;
mod settings;

pub use baseline::{BaselineClassifier, BaselineRegressor};
pub use combined::{WideDeepClassifier, WideDeepRegressor};
pub use deepfm::DeepFmClassifier;
pub use dlrm::DlrmClassifier;
pub use dnn::{DnnClassifier, DnnRegressor};
pub use fm::{FmClassifier, FmRegressor, MfRegressor};
pub use linear_models::{LinearClassifier, LinearRegressor};

pub use input::CannedInput;

use crate::variables::Variables;
use crate::{Forward, Head, Served, ServingInput, Table, Trainable};
use deep::Deep;
use deepfm::FactorizationMachine;
use dlrm::DotInteraction;
use hidden::{ForwardPass, MovingAverageUpdate};
use input::{Leaf, PartInput};
use l2::L2;
use linear::Linear;
pub(crate) use parts::Columns;
use parts::ModelPlan;
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::HostBuffer;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::model::Mode;
use phalanx_optim::Optimizer;
use phalanx_train::RowValues;

/// A planned canned model. Made from settings such as [`DnnClassifier`].
pub struct Canned {
    pub(crate) head: Head,
    pub(crate) linear: Option<Linear>,
    pub(crate) network: Option<Network>,
    pub(crate) plan: ModelPlan,
}

/// The part of a canned model that is not linear.
pub(crate) enum Network {
    /// The bias of a baseline, which uses no features.
    Bias(usize),
    Deep(Deep),
    /// A DeepFM without its linear part.
    FactorizationMachine(FactorizationMachine),
    /// A DLRM.
    DotInteraction(DotInteraction),
}

/// The parts of a model: linear and not.
type Parts = (Option<Linear>, Option<Network>);

impl Canned {
    fn new(head: Head, (linear, network): Parts, plan: ModelPlan) -> Result<Self> {
        head.check()?;
        plan.optimizers.iter().try_for_each(Optimizer::validate)?;
        plan.l2.check()?;
        let every_row = plan.tables.iter().filter(|table| updates_every_row(&table.spec.optimizer));
        let numbers = every_row.map(|table| table.rows.saturating_mul(table.spec.dim + 2)).sum::<usize>();
        if numbers > MOST_EVERY_STEP {
            return Err(Error::new(Code::BadSetting, "the tables are too large for an Adam that is not lazy")
                .because(format!("each step would send {numbers} numbers, and at most {MOST_EVERY_STEP} are allowed"))
                .help("leave `lazy` out: rows without a gradient then stay as they are"));
        }
        Ok(Self { head, linear, network, plan })
    }

    /// Returns the columns of the linear part and of the network.
    pub(crate) fn columns(&self) -> [Option<&Columns>; 2] {
        [self.linear.as_ref().map(|linear| &linear.columns), self.network.as_ref().and_then(Network::columns)]
    }
}

impl Network {
    fn columns(&self) -> Option<&Columns> {
        match self {
            Self::Bias(_) => None,
            Self::Deep(deep) => Some(&deep.columns),
            Self::FactorizationMachine(machine) => Some(&machine.fields.columns),
            Self::DotInteraction(dot) => Some(&dot.fields.columns),
        }
    }

    /// Returns the logits and the matrix of looked-up rows that they depend on.
    fn logits<'a>(
        &'a self,
        pass: &mut ForwardPass<'_>,
        part: Option<&'a PartInput>,
        rows: &[RowValues],
        device: &Device,
    ) -> Result<(Tensor<2>, Option<Leaf<'a>>)> {
        let learns = matches!(pass.mode, Mode::Training { .. });
        let (fields, part) = match (self, part) {
            (Self::Bias(bias), _) => return Ok((pass.variables.row(*bias)?, None)),
            (_, None) => return Err(Error::new(Code::Internal, "the batch has no features for the network")),
            (Self::Deep(deep), Some(part)) => {
                let leaf = part.layer(&deep.columns, rows, device, learns);
                return Ok((deep.mlp.logits(pass, leaf.tensor.clone())?, Some(leaf)));
            }
            (Self::FactorizationMachine(machine), Some(part)) => (&machine.fields, part),
            (Self::DotInteraction(dot), Some(part)) => (&dot.fields, part),
        };
        let leaf = part.sums(&fields.columns, fields.width(), rows, device, learns);
        let (dense, embeddings) = (fields.dense(&part.features.dense, device), leaf.tensor.clone());
        let logits = match self {
            Self::FactorizationMachine(machine) => machine.logits(pass, dense, embeddings)?,
            Self::DotInteraction(dot) => dot.logits(pass, dense, embeddings)?,
            Self::Bias(_) | Self::Deep(_) => embeddings,
        };
        Ok((logits, Some(leaf)))
    }
}

impl Trainable for Canned {
    type Module = Variables;
    type Input = CannedInput;

    fn head(&self) -> &Head {
        &self.head
    }

    fn module(&self, device: &Device) -> Result<Variables> {
        Variables::new(&self.plan.variables, self.plan.seed, device)
    }

    fn served(&self, input: ServingInput) -> Result<Served> {
        self.graph(input, &self.plan)
    }

    fn served_with_rows(&self, input: ServingInput, rows: &[usize]) -> Result<Served> {
        self.graph(input, &ModelPlan { stored_rows: rows.to_vec(), ..self.plan.clone() })
    }

    fn optimizer(&self, variable: &str) -> Result<Optimizer> {
        let mut planned = self.plan.variables.iter().zip(&self.plan.optimizers);
        let found = planned.find(|(plan, _)| plan.name == variable).map(|(_, optimizer)| *optimizer);
        found.ok_or_else(|| Error::new(Code::NoSuchVariable, format!("the model has no variable {variable:?}")))
    }

    fn tables(&self) -> &[Table] {
        &self.plan.tables
    }

    fn input(&self, batch: &Batch) -> Result<CannedInput> {
        let [linear, deep] = self.columns();
        let mut input = CannedInput::new(batch, linear, deep)?;
        for of in &mut input.ids {
            let table = &self.plan.tables[of.table];
            if updates_every_row(&table.spec.optimizer) {
                of.ids.extend(0..table.rows as i64);
            }
        }
        Ok(input)
    }

    fn ids<'a>(&self, input: &'a CannedInput) -> Vec<(usize, &'a [i64])> {
        input.ids.iter().map(|of| (of.table, of.ids.as_slice())).collect()
    }

    fn forward<'a>(
        &'a self,
        variables: &Variables,
        input: &'a CannedInput,
        rows: Vec<RowValues>,
        mode: Mode,
    ) -> Result<Forward<'a>> {
        let device = phalanx_nn::burn::module::Module::devices(variables).into_iter().next();
        let device = device.unwrap_or_else(phalanx_nn::default_device);
        let mut pass = ForwardPass { variables, mode, averages: MovingAverageUpdate::default() };
        let (mut leaves, mut logits) = (Vec::new(), None);
        if let (Some(linear), Some(part)) = (&self.linear, &input.linear) {
            let learns = matches!(mode, Mode::Training { .. });
            let leaf = (!linear.columns.lookups.is_empty())
                .then(|| part.sums(&linear.columns, linear.units, &rows, &device, learns));
            let by_ids = leaf.as_ref().map(|leaf| leaf.tensor.clone());
            logits = Some(linear.logits(variables, &part.features.dense, by_ids)?);
            leaves.extend(leaf);
        }
        if let Some(network) = &self.network {
            let (own, leaf) = network.logits(&mut pass, input.deep.as_ref(), &rows, &device)?;
            leaves.extend(leaf);
            logits = Some(match logits {
                Some(linear) => own + linear,
                None => own,
            });
        }
        let mut logits = logits.ok_or_else(|| Error::new(Code::Internal, "the model has no part"))?;
        if logits.dims()[0] != input.rows {
            // Only a bias: it is the same for every row.
            logits = logits.repeat_dim(0, input.rows);
        }
        let l2 = self.plan.l2;
        let penalty = match mode {
            Mode::Training { .. } => l2.penalty(&self.plan, variables, &rows, &device)?,
            Mode::Inference => None,
        };
        let row_gradients = Box::new(move |gradients: &mut Gradients| row_gradients(leaves, &rows, l2, gradients));
        Ok(Forward { logits, row_gradients, penalty, moving_averages: pass.averages.term() })
    }
}

/// The most numbers of tables of which every row is updated in every step.
const MOST_EVERY_STEP: usize = 1 << 20;

/// Returns whether every row of a table is updated in every step, as TensorFlow's Adam does: then all its ids are part of
/// every batch, with gradients of 0 for those that no example has.
fn updates_every_row(optimizer: &Optimizer) -> bool {
    matches!(optimizer, Optimizer::Adam(adam) if !adam.is_lazy())
}

/// Scatters the gradients of matrices to the rows that were looked up.
fn row_gradients(
    leaves: Vec<Leaf<'_>>,
    rows: &[RowValues],
    l2: L2,
    gradients: &mut Gradients,
) -> Result<Vec<Option<HostBuffer>>> {
    let mut out: Vec<Option<Vec<f32>>> = vec![None; rows.len()];
    for leaf in leaves {
        leaf.scatter(rows, gradients, &mut out)?;
    }
    for (rows, gradient) in rows.iter().zip(&mut out) {
        // Tables that are not trained have no gradient.
        if let Some(gradient) = gradient {
            l2.add_to_gradient(rows, gradient);
        }
    }
    Ok(out.into_iter().map(|numbers| numbers.map(HostBuffer::from)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IntoModel, WideDeepRegressor};
    use phalanx_feature::numeric_column;
    use phalanx_nn::ParameterRegistry;
    use phalanx_optim::{Adagrad, Ftrl};

    #[test]
    fn every_variable_has_its_optimizer_and_no_other_name_has_one() {
        let (linear, deep) = (Optimizer::from(Ftrl::new(0.3)), Optimizer::from(Adagrad::new(0.7)));
        let model = WideDeepRegressor::new([numeric_column("x")], [numeric_column("x")]).hidden_units([2]);
        let model = model.linear_optimizer(Ftrl::new(0.3)).dnn_optimizer(Adagrad::new(0.7)).to_model(0).unwrap();
        let registry = ParameterRegistry::of(&model.module(&phalanx_nn::default_device()).unwrap()).unwrap();
        for parameter in registry.parameters() {
            let expected = if parameter.name.starts_with("linear") { linear } else { deep };
            assert_eq!(model.optimizer(&parameter.name).unwrap(), expected, "{}", parameter.name);
        }
        for unknown in ["", "linear/x"] {
            assert_eq!(model.optimizer(unknown).unwrap_err().code(), Code::NoSuchVariable);
        }
    }
}

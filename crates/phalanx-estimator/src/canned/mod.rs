//! The canned models: linear, deep, both, none, and those in which embeddings meet.

mod baseline;
mod combined;
mod deep;
mod deepfm;
mod dlrm;
mod dnn;
mod fields;
mod graph;
mod graph_fields;
mod hidden;
mod input;
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
pub use linear_models::{LinearClassifier, LinearRegressor};

pub use input::CannedInput;

use crate::variables::Variables;
use crate::{Forward, Head, Served, ServingInput, Table, Trainable};
use deep::Deep;
use deepfm::Machine;
use dlrm::Meeting;
use fields::Fields;
use hidden::Drift;
use input::Leaf;
use linear::Linear;
use parts::{Builder, Columns};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::Flat;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::model::Mode;
use phalanx_optim::Optimizer;
use phalanx_train::RowValues;

/// A canned model, its columns planned. Made of settings such as [`DnnClassifier`].
pub struct Canned {
    pub(crate) head: Head,
    pub(crate) linear: Option<Linear>,
    pub(crate) deep: Option<Deep>,
    /// What a DeepFM has beside its linear part.
    pub(crate) machine: Option<Machine>,
    /// A DLRM.
    pub(crate) meeting: Option<Meeting>,
    /// The bias of a model that looks at no feature.
    pub(crate) baseline: Option<usize>,
    pub(crate) kept: Builder,
}

impl Canned {
    fn new(head: Head, linear: Option<Linear>, deep: Option<Deep>, kept: Builder) -> Result<Self> {
        head.check()?;
        kept.optimizers.iter().try_for_each(Optimizer::validate)?;
        Ok(Self { head, linear, deep, machine: None, meeting: None, baseline: None, kept })
    }

    /// The columns whose embeddings meet.
    fn fields(&self) -> Option<&Fields> {
        let machine = self.machine.as_ref().map(|machine| &machine.fields);
        machine.or(self.meeting.as_ref().map(|meeting| &meeting.fields))
    }

    /// The columns of what is not linear.
    fn deep_columns(&self) -> Option<&Columns> {
        self.deep.as_ref().map(|deep| &deep.columns).or(self.fields().map(|fields| &fields.columns))
    }
}

impl Trainable for Canned {
    type Module = Variables;
    type Input = CannedInput;

    fn head(&self) -> &Head {
        &self.head
    }

    fn module(&self, device: &Device) -> Result<Variables> {
        Variables::new(&self.kept.variables, self.kept.seed, device)
    }

    fn served(&self, input: ServingInput) -> Result<Served> {
        Self::served(self, input)
    }

    fn optimizer(&self, variable: &str) -> Result<Optimizer> {
        let mut planned = self.kept.variables.iter().zip(&self.kept.optimizers);
        let found = planned.find(|(plan, _)| plan.name == variable).map(|(_, optimizer)| *optimizer);
        found.ok_or_else(|| Error::new(Code::NoSuchVariable, format!("the model has no variable {variable:?}")))
    }

    fn tables(&self) -> &[Table] {
        &self.kept.tables
    }

    fn input(&self, batch: &Batch) -> Result<CannedInput> {
        let linear = self.linear.as_ref().map(|linear| &linear.columns);
        CannedInput::new(batch, linear, self.deep_columns())
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
        let learns = matches!(mode, Mode::Training { .. });
        let (mut leaves, mut drift) = (Vec::new(), Drift::default());
        let mut logits: Option<Tensor<2>> = None;
        if let (Some(linear), Some(part)) = (&self.linear, &input.linear) {
            let leaf = part.sums(&linear.columns, linear.units, &rows, &device, learns);
            let own = linear.logits(variables, &part.features.dense, leaf.as_ref().map(|leaf| leaf.tensor.clone()))?;
            leaves.extend(leaf);
            logits = Some(own);
        }
        if let (Some(deep), Some(part)) = (&self.deep, &input.deep) {
            let leaf = part.layer(&deep.columns, &rows, &device, learns);
            let own = deep.logits(variables, leaf.tensor.clone(), mode, &mut drift)?;
            leaves.push(leaf);
            logits = Some(added(logits, own));
        }
        if let (Some(fields), Some(part)) = (self.fields(), &input.deep)
            && let Some(leaf) = part.sums(&fields.columns, fields.width(), &rows, &device, learns)
        {
            let (dense, met) = (fields.dense(&part.features.dense, &device), leaf.tensor.clone());
            let own = match (&self.machine, &self.meeting) {
                (Some(machine), _) => machine.logits(variables, dense, met, mode, &mut drift)?,
                (None, Some(meeting)) => meeting.logits(variables, dense, met, mode, &mut drift)?,
                (None, None) => met,
            };
            leaves.push(leaf);
            logits = Some(added(logits, own));
        }
        if let Some(bias) = self.baseline {
            logits = Some(variables.row(bias)?.repeat_dim(0, input.rows));
        }
        let mut logits = logits.ok_or_else(|| Error::new(Code::Internal, "the model has no part"))?;
        if logits.dims()[0] != input.rows {
            // Only a bias: it is the same for every row.
            logits = logits.repeat_dim(0, input.rows);
        }
        let row_gradients = Box::new(move |gradients: &mut Gradients| row_gradients(leaves, &rows, gradients));
        Ok(Forward { logits, row_gradients, drift: drift.term() })
    }
}

fn added(others: Option<Tensor<2>>, own: Tensor<2>) -> Tensor<2> {
    match others {
        Some(others) => own + others,
        None => own,
    }
}

/// From the gradients of matrices to those of the rows that went into them.
fn row_gradients(leaves: Vec<Leaf<'_>>, rows: &[RowValues], gradients: &mut Gradients) -> Result<Vec<Option<Flat>>> {
    let mut out: Vec<Option<Vec<f32>>> = vec![None; rows.len()];
    for leaf in leaves {
        leaf.scatter(rows, gradients, &mut out)?;
    }
    Ok(out.into_iter().map(|numbers| numbers.map(Flat::from)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IntoModel, WideDeepRegressor};
    use phalanx_feature::numeric_column;
    use phalanx_nn::Book;
    use phalanx_optim::{Adagrad, Ftrl};

    #[test]
    fn every_variable_has_its_optimizer_and_no_other_name_has_one() {
        let (linear, deep) = (Optimizer::from(Ftrl::new(0.3)), Optimizer::from(Adagrad::new(0.7)));
        let model = WideDeepRegressor::new([numeric_column("x")], [numeric_column("x")]).hidden_units([2]);
        let model = model.linear_optimizer(Ftrl::new(0.3)).dnn_optimizer(Adagrad::new(0.7)).to_model(0).unwrap();
        let book = Book::of(&model.module(&phalanx_nn::default_device()).unwrap()).unwrap();
        for parameter in book.parameters() {
            let expected = if parameter.name.starts_with("linear") { linear } else { deep };
            assert_eq!(model.optimizer(&parameter.name).unwrap(), expected, "{}", parameter.name);
        }
        for unknown in ["", "linear/x"] {
            assert_eq!(model.optimizer(unknown).unwrap_err().code(), Code::NoSuchVariable);
        }
    }
}

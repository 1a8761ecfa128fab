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
mod hidden;
mod input;
mod l2;
mod linear;
mod linear_models;
mod parts;
mod settings;
mod step;

pub use baseline::{BaselineClassifier, BaselineRegressor};
pub use combined::{WideDeepClassifier, WideDeepRegressor};
pub use deepfm::DeepFmClassifier;
pub use dlrm::DlrmClassifier;
pub use dnn::{DnnClassifier, DnnRegressor};
pub use fm::{FmClassifier, FmRegressor, MfRegressor};
pub use linear_models::{LinearClassifier, LinearRegressor};

pub use input::CannedInput;

use crate::model::StepPart;
use crate::variables::initial_values;
use crate::{Head, Served, ServingInput, Table, Trainable};
use parts::ModelPlan;
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_graph::{Graph, NodeId};
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::{ParameterRegistry, ParameterValues};
use phalanx_optim::Optimizer;
use phalanx_train::{RowValues, StepGradients};
use step::Step;

/// A planned canned model. Made from settings such as [`DnnClassifier`].
pub struct Canned {
    pub(crate) head: Head,
    pub(crate) plan: ModelPlan,
    step: Step,
}

impl Canned {
    fn new(head: Head, logits: NodeId, plan: ModelPlan) -> Result<Self> {
        plan.optimizers.iter().try_for_each(Optimizer::validate)?;
        let every_row = plan.tables.iter().filter(|table| updates_every_row(&table.spec.optimizer));
        let numbers = every_row.map(|table| table.rows.saturating_mul(table.spec.dim + 2)).sum::<usize>();
        if numbers > MOST_EVERY_STEP {
            return Err(Error::new(Code::BadSetting, "the tables are too large for an Adam that is not lazy")
                .because(format!("each step would send {numbers} numbers, and at most {MOST_EVERY_STEP} are allowed"))
                .help("leave `lazy` out: rows without a gradient then stay as they are"));
        }
        let step = Step::new(&head, logits, &plan)?;
        Ok(Self { head, plan, step })
    }

    /// Returns the graph of the model and of its loss.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.step.graph
    }
}

impl Trainable for Canned {
    type Module = ParameterValues;
    type Input = CannedInput;

    fn head(&self) -> &Head {
        &self.head
    }

    fn module(&self, _: &Device) -> Result<ParameterValues> {
        initial_values(&self.plan.variables, self.plan.seed)
    }

    fn served(&self, input: ServingInput) -> Result<Served> {
        self.saved_graph(input, &[])
    }

    fn served_with_rows(&self, input: ServingInput, rows: &[usize]) -> Result<Served> {
        self.saved_graph(input, rows)
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
        let mut input = CannedInput::new(batch, &self.plan.parts)?;
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

    fn step(
        &self,
        module: &ParameterValues,
        _: &ParameterRegistry,
        part: StepPart<'_, CannedInput>,
    ) -> Result<StepGradients> {
        self.gradients(module, part)
    }

    fn logits(&self, module: &ParameterValues, input: &CannedInput, rows: Vec<RowValues>) -> Result<Vec<f32>> {
        self.infer(module, input, &rows)
    }
}

/// The most numbers of tables of which every row is updated in every step.
const MOST_EVERY_STEP: usize = 1 << 20;

/// Returns whether every row of a table is updated in every step, as TensorFlow's Adam does: then all its ids are part of
/// every batch, with gradients of 0 for those that no example has.
fn updates_every_row(optimizer: &Optimizer) -> bool {
    matches!(optimizer, Optimizer::Adam(adam) if !adam.is_lazy())
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

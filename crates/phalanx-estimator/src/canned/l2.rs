//! L2 regularization: `l2 · Σ w²`, as Keras' `regularizers.l2` adds it to the loss.

use super::hidden::squared;
use super::parts::ModelPlan;
use crate::variables::Variables;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::tensor::{Device, Tensor};
use phalanx_train::RowValues;

/// The strengths of the regularization; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct L2 {
    /// Of the kernels of layers and the linear weights of dense columns: every variable with two axes.
    pub(crate) weights: f32,
    /// Of the rows that a batch looks up.
    pub(crate) rows: f32,
}

impl L2 {
    pub(crate) fn check(self) -> Result<()> {
        match [("l2", self.weights), ("embedding_l2", self.rows)].iter().find(|(_, l2)| !(l2.is_finite() && *l2 >= 0.0))
        {
            None => Ok(()),
            Some((name, l2)) => {
                Err(Error::new(Code::BadSetting, format!("{name} is {l2}")).help("give a finite number, 0 or above"))
            }
        }
    }

    /// Returns the term that a step adds to its loss. Its gradient with respect to rows is that of
    /// [`Self::add_to_gradient`], because rows are not part of the graph.
    pub(crate) fn penalty(
        self,
        plan: &ModelPlan,
        variables: &Variables,
        rows: &[RowValues],
        device: &Device,
    ) -> Result<Option<Tensor<1>>> {
        let mut sum: Option<Tensor<1>> = None;
        if self.weights > 0.0 {
            for at in (0..plan.variables.len()).filter(|&at| plan.variables[at].dims.len() == 2) {
                let own = squared(variables.matrix(at)?).sum() * self.weights;
                sum = Some(sum.map_or(own.clone(), |sum| sum + own));
            }
        }
        if self.rows > 0.0 {
            let squares = rows.iter().flat_map(|rows| &rows.values).map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
            let own = Tensor::from_floats([(squares * f64::from(self.rows)) as f32], device);
            sum = Some(sum.map_or(own.clone(), |sum| sum + own));
        }
        Ok(sum)
    }

    /// Adds the gradient of the rows' term.
    pub(crate) fn add_to_gradient(self, rows: &RowValues, gradient: &mut [f32]) {
        if self.rows > 0.0 {
            gradient.iter_mut().zip(&rows.values).for_each(|(gradient, value)| *gradient += 2.0 * self.rows * value);
        }
    }
}

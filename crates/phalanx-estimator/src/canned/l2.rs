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

#[cfg(test)]
mod tests {
    use crate::{DnnRegressor, IntoModel, LinearRegressor, Trainable};
    use phalanx_base::Code;
    use phalanx_data::{Batch, Column};
    use phalanx_feature::{categorical_column_with_identity as identity, embedding_column, numeric_column};
    use phalanx_nn::model::Mode;
    use phalanx_nn::{ParameterRegistry, default_device, scalar};
    use phalanx_train::RowValues;

    #[test]
    fn weights_and_rows_of_the_batch_are_pulled_to_zero_and_nothing_else_is() {
        let columns = [numeric_column("x"), embedding_column(identity("id", 9), 2)];
        let model = DnnRegressor::new(columns).hidden_units([2]).l2(0.25).embedding_l2(0.5).to_model(3).unwrap();
        let module = model.module(&default_device()).unwrap();
        let batch = Batch::new([("x", Column::f32(vec![1.0; 3])), ("id", Column::i64(vec![4, 7, 4]))]).unwrap();
        let input = model.input(&batch).unwrap();
        let rows = vec![RowValues { values: vec![1.0, -2.0, 3.0, 0.5], dim: 2, positions: vec![0, 1, 0] }];
        let forward = model.forward(&module, &input, rows.clone(), Mode::Training { seed: 0 }).unwrap();
        let penalty = forward.penalty.unwrap();
        let mut gradients = (penalty.clone() + forward.logits.sum() * 0.0).backward();
        let registry = ParameterRegistry::of(&module).unwrap();
        let (values, slopes) =
            (registry.values(&module).unwrap(), registry.gradients(&module, &mut gradients).unwrap());
        let mut expected = 0.5 * (1.0 + 4.0 + 9.0 + 0.25);
        for ((parameter, values), slope) in registry.parameters().iter().zip(&values).zip(&slopes) {
            let l2 = if parameter.name.ends_with("kernel") { 0.25 } else { 0.0 };
            expected += l2 * values.iter().map(|w| w * w).sum::<f32>();
            let near = |(slope, w): (&f32, &f32)| (slope - 2.0 * l2 * w).abs() < 1e-6;
            assert!(slope.as_ref().unwrap().iter().zip(values.iter()).all(near), "{}", parameter.name);
        }
        assert!((scalar(penalty).unwrap() - expected).abs() < 1e-5);
        // Each row once, also the one that two examples have.
        let slopes = (forward.row_gradients)(&mut gradients).unwrap();
        assert_eq!(**slopes[0].as_ref().unwrap(), [1.0, -2.0, 3.0, 0.5]);
        let forward = model.forward(&module, &input, rows, Mode::Inference).unwrap();
        assert!(forward.penalty.is_none(), "evaluations report the loss alone");
    }

    #[test]
    fn a_strength_out_of_range_is_refused() {
        for l2 in [-0.1, f32::NAN] {
            let error = LinearRegressor::new([numeric_column("x")]).l2(l2).to_model(0).err().unwrap();
            assert_eq!(error.code(), Code::BadSetting);
            assert!(LinearRegressor::new([numeric_column("x")]).embedding_l2(l2).to_model(0).is_err());
        }
    }
}

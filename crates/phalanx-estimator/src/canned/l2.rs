//! L2 regularization: `l2 · Σ w²`, as Keras' `regularizers.l2` adds it to the loss.

use phalanx_base::{Code, Error, Result};

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
}

#[cfg(test)]
mod tests {
    use crate::{DnnRegressor, IntoModel, LinearRegressor, StepPart, Trainable};
    use phalanx_base::Code;
    use phalanx_data::{Batch, Column};
    use phalanx_feature::{categorical_column_with_identity as identity, embedding_column, numeric_column};
    use phalanx_nn::{ParameterRegistry, default_device};
    use phalanx_train::RowValues;

    #[test]
    fn weights_and_rows_of_the_batch_are_pulled_to_zero_and_nothing_else_is() {
        let columns = [numeric_column("x"), embedding_column(identity("id", 9), 2)];
        let plain = DnnRegressor::new(columns).hidden_units([2]);
        let columns =
            [("x", Column::f32(vec![1.0; 3])), ("id", Column::i64(vec![4, 7, 4])), ("y", Column::f32(vec![0.5; 3]))];
        let batch = Batch::new(columns).unwrap().with_label("y").unwrap();
        // Each row once, also the one that two examples have.
        let rows = vec![RowValues { values: vec![1.0, -2.0, 3.0, 0.5], dim: 2, positions: vec![0, 1, 0] }];
        let step = |model: DnnRegressor| {
            let model = model.to_model(3).unwrap();
            let module = model.module(&default_device()).unwrap();
            let registry = ParameterRegistry::of(&module).unwrap();
            let (input, targets) = (&model.input(&batch).unwrap(), &model.head().targets(&batch).unwrap());
            let part = StepPart { input, rows: rows.clone(), seed: 0, targets, share: 1.0 };
            let step = model.step(&module, &registry, part).unwrap();
            let logits = model.logits(&module, input, rows.clone()).unwrap();
            (step, logits, registry.values(&module).unwrap(), registry)
        };
        let (without, logits, ..) = step(plain.clone());
        let (with, same_logits, values, registry) = step(plain.l2(0.25).embedding_l2(0.5));
        assert_eq!(logits, same_logits, "predictions do not depend on it");
        let mut expected = 0.5 * (1.0 + 4.0 + 9.0 + 0.25);
        let slopes = with.dense.iter().zip(&without.dense);
        for ((parameter, values), (slope, before)) in registry.parameters().iter().zip(&values).zip(slopes) {
            let l2 = if parameter.name.ends_with("kernel") { 0.25 } else { 0.0 };
            expected += l2 * values.iter().map(|w| w * w).sum::<f32>();
            let (slope, before) = (slope.as_ref().unwrap(), before.as_ref().unwrap());
            let near = |((slope, before), w): ((&f32, &f32), &f32)| (slope - before - 2.0 * l2 * w).abs() < 1e-5;
            assert!(slope.iter().zip(&**before).zip(&**values).all(near), "{}", parameter.name);
        }
        assert!((with.loss.unwrap() - without.loss.unwrap() - expected).abs() < 1e-5);
        let (slope, before) = (with.rows[0].as_ref().unwrap(), without.rows[0].as_ref().unwrap());
        let pulled = slope.iter().zip(&**before).map(|(slope, before)| slope - before);
        assert!(pulled.zip([1.0, -2.0, 3.0, 0.5]).all(|(pulled, row)| (pulled - row).abs() < 1e-5));
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

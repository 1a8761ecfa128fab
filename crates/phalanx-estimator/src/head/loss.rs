//! The loss of a batch.

use super::{Head, HeadKind, Labels, OwnLoss, Targets};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::losses::{Labels as LossLabels, Loss, check_each};
use phalanx_nn::metrics::Reduction;

impl Head {
    /// Returns the loss of a batch.
    pub(crate) fn batch_loss(&self, logits: Tensor<2>, targets: &Targets) -> Result<Tensor<1>> {
        let [rows, width] = logits.dims();
        self.check_width(width)?;
        if let Labels::Several(of_parts) = &targets.labels {
            let mut sum: Option<Tensor<1>> = None;
            for ((part, range), targets) in self.ranges().zip(of_parts) {
                let own = logits.clone().narrow(1, range.start, range.len());
                let loss = part.head.batch_loss(own, targets)? * part.weight;
                sum = Some(match sum {
                    Some(sum) => sum + loss,
                    None => loss,
                });
            }
            return sum.ok_or_else(|| Error::new(Code::Internal, "a head of no heads"));
        }
        let device = logits.device();
        let mut each = self.each_loss(logits, targets)?;
        if let Some(weights) = &targets.weights {
            each = each * Tensor::from_data(TensorData::new(weights.clone(), [rows]), &device);
        }
        Ok(each.sum() * self.scale(rows) as f32)
    }

    /// Returns the factor that reduces the sum of the rows' losses to that of the batch.
    pub(super) fn scale(&self, rows: usize) -> f64 {
        match (self.reduction, self.kind) {
            // The loss of a row is the mean over its numbers.
            (Reduction::Sum, HeadKind::Regression(numbers) | HeadKind::Poisson(numbers)) => numbers as f64,
            (Reduction::Sum, _) => 1.0,
            _ => 1.0 / rows.max(1) as f64,
        }
    }

    /// Returns whether the loss of a batch is the sum over its rows and not their mean.
    pub(crate) fn sums_losses(&self) -> bool {
        self.parts.first().map_or(self.reduction, |part| part.head.reduction) == Reduction::Sum
    }

    /// Returns the unweighted loss of each row.
    pub(super) fn each_loss(&self, logits: Tensor<2>, targets: &Targets) -> Result<Tensor<1>> {
        let ([rows, width], device) = (logits.dims(), logits.device());
        if let (Some(OwnLoss::OfBatch(own)), Some(batch)) = (&self.own_loss, &targets.batch) {
            return check_each("loss_fn", (own.0)(logits, batch)?, rows);
        }
        let labels = match &targets.labels {
            Labels::Numbers(numbers) => LossLabels::rows(numbers.clone(), width, &device)?,
            Labels::Ids(ids) => LossLabels::ids(ids, width, &device)?,
            Labels::None | Labels::Several(_) => {
                return Err(Error::new(Code::Internal, "the head has no loss for these labels"));
            }
        };
        match (&self.own_loss, self.kind, labels) {
            (Some(OwnLoss::OfLabels(own)), _, labels) => {
                let own = own.clone().resolve()?;
                check_each(own.name(), own.forward(labels, logits)?, rows)
            }
            (_, HeadKind::Poisson(_), LossLabels::Rows(counts)) => Ok(poisson(counts, logits)),
            (_, _, labels) => self.default_loss().forward(labels, logits),
        }
    }

    pub(super) fn default_loss(&self) -> Loss {
        match self.kind {
            HeadKind::Binary | HeadKind::MultiLabel(_) => {
                Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 }
            }
            HeadKind::MultiClass(_) => Loss::SparseCategoricalCrossentropy { from_logits: true },
            HeadKind::Regression(_) | HeadKind::Poisson(_) | HeadKind::Several | HeadKind::Own(_) => {
                Loss::MeanSquaredError
            }
        }
    }

    fn check_width(&self, width: usize) -> Result<()> {
        if width == self.logits_dimension() {
            return Ok(());
        }
        Err(Error::new(Code::ShapeMismatch, format!("the model returns {width} logits per example"))
            .because(format!("its head takes {}", self.logits_dimension()))
            .help("give the last layer as many units as the head has logits"))
    }
}

/// Returns the mean of `tf.nn.log_poisson_loss` over each row, with Stirling's approximation of the constant term.
fn poisson(counts: Tensor<2>, logits: Tensor<2>) -> Tensor<1> {
    let rows = logits.dims()[0];
    // The term is 0 for counts up to 1; the clamp keeps the logarithm finite there.
    let large = counts.clone().clamp_min(1.0);
    let stirling = large.clone() * large.clone().log() - large.clone() + (large * std::f32::consts::TAU).log() * 0.5;
    let counted = counts.clone().greater_elem(1.0).float();
    let each = logits.clone().exp() - counts * logits + stirling * counted;
    each.mean_dim(1).reshape([rows])
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_data::{Batch, Column};
    use phalanx_nn::default_device;
    use phalanx_nn::scalar;

    fn batch() -> Batch {
        let columns = [("y", Column::f32(vec![1.0, 0.0, 1.0])), ("w", Column::f32(vec![1.0, 2.0, 3.0]))];
        Batch::new(columns).unwrap().with_label("y").unwrap()
    }

    fn loss(head: &Head) -> f32 {
        head.check().unwrap();
        let logits = Tensor::<2>::from_data([[0.5], [-0.25], [2.0]], &default_device());
        scalar(head.batch_loss(logits, &head.targets(&batch()).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn a_loss_of_labels_and_logits_is_weighted_and_reduced_as_the_heads_own() {
        let squared = |labels: Tensor<2>, logits: Tensor<2>| (labels - logits).powi_scalar(2).squeeze_dim::<1>(1);
        let head = || Head::regression(1).weight_column("w");
        assert_eq!(loss(&head().loss(squared)), loss(&head()));
        assert_eq!(loss(&head().loss("mse")), loss(&head()));
        assert!((loss(&head().loss("mae")) - (0.5 + 2.0 * 0.25 + 3.0 * 1.0) / 3.0).abs() < 1e-6);
        let entropy = Loss::binary_crossentropy().from_logits();
        assert_eq!(loss(&Head::classes(2).loss(entropy)), loss(&Head::classes(2)));
    }

    #[test]
    fn a_loss_that_does_not_exist_or_fit_is_refused() {
        let error = Head::regression(1).loss("msee").check().unwrap_err();
        assert_eq!((error.place(), error.next()), (Some("the model's head"), Some("did you mean `mse`?")));
        let own = Head::own(1, |logits: Tensor<2>, _| Ok(logits.squeeze_dim(1))).loss("mse");
        assert!(own.check().is_err(), "the head knows no labels");
        let scalar = |labels: Tensor<2>, logits: Tensor<2>| (labels - logits).mean();
        let head = Head::regression(1).loss(scalar);
        let logits = Tensor::<2>::zeros([3, 1], &default_device());
        let error = head.batch_loss(logits, &head.targets(&batch()).unwrap()).unwrap_err();
        assert_eq!(error.what(), "the loss has 1 numbers for 3 rows of predictions");
    }
}

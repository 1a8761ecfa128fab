//! The loss of a batch.

use super::{Head, HeadKind, Labels, Targets};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::losses::{Labels as LossLabels, Loss};
use phalanx_nn::metrics::Reduction;

impl Head {
    /// Returns the loss of a batch.
    pub(crate) fn loss(&self, logits: Tensor<2>, targets: &Targets) -> Result<Tensor<1>> {
        let [rows, width] = logits.dims();
        self.check_width(width)?;
        if let Labels::Several(of_parts) = &targets.labels {
            let mut sum: Option<Tensor<1>> = None;
            for ((part, range), targets) in self.ranges().zip(of_parts) {
                let own = logits.clone().narrow(1, range.start, range.len());
                let loss = part.head.loss(own, targets)? * part.weight;
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
        if let (Some(own), Some(batch)) = (&self.own_loss, &targets.batch) {
            let each = (own.0)(logits, batch)?;
            if each.dims() != [rows] {
                return Err(Error::new(Code::ShapeMismatch, format!("the loss has the shape {:?}", each.dims()))
                    .at("the model's head")
                    .because(format!("the batch has {rows} rows"))
                    .help("return one loss for each row: the head weights and reduces them"));
            }
            return Ok(each);
        }
        let labels = match &targets.labels {
            Labels::Numbers(numbers) => LossLabels::rows(numbers.clone(), width, &device)?,
            Labels::Ids(ids) => LossLabels::ids(ids, width, &device)?,
            Labels::None | Labels::Several(_) => {
                return Err(Error::new(Code::Internal, "the head has no loss for these labels"));
            }
        };
        match (self.kind, labels) {
            (HeadKind::Poisson(_), LossLabels::Rows(counts)) => Ok(poisson(counts, logits)),
            (_, labels) => self.loss_function().forward(labels, logits),
        }
    }

    pub(super) fn loss_function(&self) -> Loss {
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

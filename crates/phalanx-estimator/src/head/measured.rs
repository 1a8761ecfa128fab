//! The metrics of an evaluation.

use super::{Evaluated, Head, HeadKind, Labels, Targets};
use phalanx_base::Result;
use phalanx_data::Batch;
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::default_device;
use phalanx_nn::metrics::{HeadMetrics, Mean, Metric, Values};

/// The metrics that an evaluation reports besides `loss`.
pub(crate) struct EvalMetrics {
    own: OwnMetrics,
    parts: Vec<PartMetrics>,
    /// The metrics that the user added, in their order.
    added: Vec<(String, Box<dyn Metric>)>,
}

/// The metrics of a head that is not made of heads.
enum OwnMetrics {
    Head(Box<HeadMetrics>),
    /// The mean loss.
    Losses(Mean),
    None,
}

struct PartMetrics {
    name: String,
    loss: f64,
    batches: u64,
    metrics: EvalMetrics,
}

impl EvalMetrics {
    /// Returns every metric with its value.
    pub(crate) fn results(&self) -> Vec<(String, f64)> {
        let mut all = match &self.own {
            OwnMetrics::Head(head) => head.results(),
            OwnMetrics::Losses(mean) => vec![(mean.name().to_owned(), mean.result())],
            OwnMetrics::None => Vec::new(),
        };
        for part in &self.parts {
            let of = |metric: String| format!("{metric}/{}", part.name);
            all.push((of("loss".to_owned()), part.loss / part.batches.max(1) as f64));
            all.extend(part.metrics.results().into_iter().map(|(metric, value)| (of(metric), value)));
        }
        all.extend(self.added.iter().map(|(name, metric)| (name.clone(), metric.result())));
        all
    }
}

impl Head {
    /// Returns the metrics that an evaluation reports besides `loss`.
    pub(crate) fn metrics(&self) -> Result<EvalMetrics> {
        let head = match self.kind {
            HeadKind::Binary => Some(HeadMetrics::binary(&self.thresholds)?),
            HeadKind::MultiClass(_) => Some(HeadMetrics::multi_class()),
            HeadKind::MultiLabel(_) => Some(HeadMetrics::multi_label(&self.thresholds)?),
            HeadKind::Regression(_) | HeadKind::Poisson(_) => Some(HeadMetrics::regression()),
            HeadKind::Several | HeadKind::Own(_) => None,
        };
        let own = match head {
            Some(mut head) => {
                self.eval_metrics.iter().for_each(|&metric| head.request(metric));
                OwnMetrics::Head(Box::new(head))
            }
            None if self.kind == HeadKind::Several => OwnMetrics::None,
            None => OwnMetrics::Losses(Mean::new("average_loss")),
        };
        let part = |part: &super::HeadPart| {
            Ok(PartMetrics { name: part.name.clone(), loss: 0.0, batches: 0, metrics: part.head.metrics()? })
        };
        let parts = self.parts.iter().map(part).collect::<Result<_>>()?;
        let added = self.added.iter().map(|added| (added.name.clone(), added.fresh())).collect();
        Ok(EvalMetrics { own, parts, added })
    }

    /// Updates the metrics with a batch, and returns its loss.
    pub(crate) fn measure(&self, metrics: &mut EvalMetrics, logits: &[f32], batch: &Batch) -> Result<f64> {
        let loss = self.measure_targets(metrics, logits, batch, &self.targets(batch)?)?;
        if !self.added.is_empty() {
            let predictions = self.predictions(logits.to_vec())?;
            let seen = Evaluated { batch, predictions: &predictions };
            for (added, (_, metric)) in self.added.iter().zip(&mut metrics.added) {
                added.update(metric.as_mut(), &seen)?;
            }
        }
        Ok(loss)
    }

    fn measure_targets(
        &self,
        metrics: &mut EvalMetrics,
        logits: &[f32],
        batch: &Batch,
        targets: &Targets,
    ) -> Result<f64> {
        let width = self.logits_dimension();
        if let Labels::Several(of_parts) = &targets.labels {
            let mut sum = 0.0;
            for (((part, range), targets), measured) in self.ranges().zip(of_parts).zip(&mut metrics.parts) {
                let own: Vec<f32> =
                    logits.chunks_exact(width).flat_map(|row| row[range.clone()].iter().copied()).collect();
                let loss = part.head.measure_targets(&mut measured.metrics, &own, batch, targets)?;
                (measured.loss, measured.batches) = (measured.loss + loss, measured.batches + 1);
                sum += f64::from(part.weight) * loss;
            }
            return Ok(sum);
        }
        let weights = targets.weights.as_deref();
        let labels = match &targets.labels {
            Labels::Numbers(numbers) => Some(Values::rows(numbers, width)),
            Labels::Ids(ids) => Some(Values::ids(ids)),
            Labels::None | Labels::Several(_) => None,
        };
        let each: Vec<f64> = match labels {
            Some(labels) if self.own_loss.is_none() && !matches!(self.kind, HeadKind::Poisson(_)) => {
                self.default_loss().values(labels, Values::rows(logits, width))?
            }
            _ => {
                let rows = logits.len() / width;
                let tensor = Tensor::from_data(TensorData::new(logits.to_vec(), [rows, width]), &default_device());
                let each = self.each_loss(tensor, targets)?.into_data();
                each.iter::<f32>().map(f64::from).collect()
            }
        };
        match (&mut metrics.own, labels) {
            (OwnMetrics::Head(head), Some(labels)) => {
                if let (Some(groups), Labels::Numbers(numbers)) = (self.groups(batch)?, &targets.labels) {
                    head.update_groups(&groups, numbers, logits, weights)?;
                }
                let expected: Vec<f32>;
                let seen = if matches!(self.kind, HeadKind::Poisson(_)) {
                    expected = logits.iter().map(|logit| logit.exp()).collect();
                    &expected
                } else {
                    logits
                };
                head.update(labels, Values::rows(seen, width), &each, weights)?;
            }
            (OwnMetrics::Losses(mean), _) => {
                let losses: Vec<f32> = each.iter().map(|&loss| loss as f32).collect();
                mean.update(Values::column(&losses), Values::column(&losses), weights)?;
            }
            _ => {}
        }
        let weight = |row: usize| weights.map_or(1.0, |weights| f64::from(weights[row]));
        let sum: f64 = each.iter().enumerate().map(|(row, loss)| loss * weight(row)).sum();
        Ok(sum * self.scale(each.len()))
    }
}

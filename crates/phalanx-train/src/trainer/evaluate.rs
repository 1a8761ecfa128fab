//! Evaluates the model on the servers.

use super::Trainer;
use super::lookups::{BatchRows, fixed};
use super::outputs::IntoPredictions;
use crate::coordinator::stop_reason;
use crate::{HostTensor, Session};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Dataset};
use phalanx_nn::burn::module::Module;
use phalanx_nn::metrics::Metric;

impl<M: Module> Trainer<M> {
    /// Evaluates the model with its newest values on all of `data`, and returns the value of the metric. `predict` gets the
    /// model, the rows of the batch's ids and the batch; what it returns is compared with the label column of the batch
    /// ([`Batch::with_label`]).
    ///
    /// Every trainer makes this call and returns the same value; the chief computes it, after the other trainers have ended
    /// their steps. It writes the value as the summary `eval/NAME`.
    ///
    /// # Errors
    /// When the input is not batched, empty or without a label, what `predict` returns, or when the job fails.
    pub fn evaluate<P: IntoPredictions>(
        &mut self,
        data: Dataset,
        mut metric: impl Metric,
        mut predict: impl FnMut(&M, &BatchRows, &Batch) -> P,
    ) -> Result<f64> {
        let outcome = self.call(|trainer, session| {
            if !trainer.server().is_chief() {
                return trainer.await_outcome(|| Ok(()));
            }
            let value = trainer.measure(session, &data, &mut metric, &mut predict)?;
            session.summaries().scalar(session.global_step(), &format!("eval/{}", metric.name()), value as f32);
            trainer.publish(value.to_le_bytes().to_vec().into())
        })?;
        let bytes = outcome.first_chunk::<8>().filter(|_| outcome.len() == 8);
        bytes.map(|bytes| f64::from_le_bytes(*bytes)).ok_or_else(super::malformed)
    }

    fn measure<P: IntoPredictions>(
        &self,
        session: &mut Session<M>,
        data: &Dataset,
        metric: &mut impl Metric,
        mut predict: impl FnMut(&M, &BatchRows, &Batch) -> P,
    ) -> Result<f64> {
        data.check_batched()?;
        let mut rows_seen = 0;
        for batch in data.iter()? {
            let batch = batch?;
            if let Some(error) = stop_reason(self.server()) {
                return Err(error);
            }
            if batch.is_empty() {
                continue;
            }
            rows_seen += batch.rows();
            let ids = self.lookups.ids(&batch)?;
            let values = session.look_up(&ids.as_slices())?;
            let model = session.model()?;
            let device = model.devices().into_iter().next().unwrap_or_else(phalanx_nn::default_device);
            let rows = fixed(values, &device);
            let predicted = predict(model, &self.lookups.rows(&ids, &rows), &batch).into_predictions()?;
            let label = batch.label().ok_or_else(|| {
                Error::new(Code::DataColumn, "the evaluation's batches have no label")
                    .because(format!("the input is {}", data.describe()))
                    .help("name the label column with with_label, or .label(…) of the reader")
            })?;
            metric.update((&HostTensor::try_from(label)?).into(), (&predicted).into(), None)?;
        }
        if rows_seen == 0 {
            return Err(Error::new(Code::DataMissing, "there is nothing to evaluate")
                .because("the evaluation's input has no batch")
                .help("check the files, and what filter, take and skip leave of them"));
        }
        Ok(metric.result())
    }
}

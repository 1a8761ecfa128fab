//! Metrics on request: which a head can have, and the groups of a batch.

use super::{Head, HeadKind};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, ValuesView};
use phalanx_formats::fingerprint::fingerprint64;
use phalanx_nn::metrics::EvalMetric;

impl Head {
    pub(super) fn check_eval_metrics(&self) -> Result<()> {
        let wrong =
            |what: String, help: String| Err(Error::new(Code::BadSetting, what).at("the model's head").help(help));
        let fits = |metric: EvalMetric| match self.kind {
            HeadKind::Binary => metric.fits(true),
            HeadKind::Regression(_) | HeadKind::Poisson(_) => metric.fits(false),
            HeadKind::MultiClass(_) | HeadKind::MultiLabel(_) | HeadKind::Several | HeadKind::Own(_) => false,
        };
        for (at, metric) in self.eval_metrics.iter().enumerate() {
            let name = metric.name();
            if !fits(*metric) {
                let known = EvalMetric::ALL.iter().filter(|metric| fits(**metric)).map(|metric| metric.name());
                let known: Vec<&str> = known.collect();
                let help =
                    if known.is_empty() { "leave it out".to_owned() } else { format!("use {}", known.join(", ")) };
                return wrong(format!("evaluations of this model cannot have the metric \"{name}\""), help);
            }
            if self.eval_metrics[..at].contains(metric) {
                return wrong(format!("the metric \"{name}\" twice"), "leave one out".to_owned());
            }
        }
        match (&self.group_by, self.eval_metrics.contains(&EvalMetric::GroupAuc)) {
            (None, true) => {
                let help = "name the column of the groups, such as group_by = \"user\"";
                wrong("the metric \"gauc\" has no groups".to_owned(), help.to_owned())
            }
            (Some(name), false) => {
                wrong(format!("the groups {name:?} have no metric"), "add the metric \"gauc\"".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns a number for the group of each example; `None` if no metric has groups.
    ///
    /// # Errors
    /// Fails if the batch has no such column, or several values per example in it.
    pub fn groups(&self, batch: &Batch) -> Result<Option<Vec<u64>>> {
        let Some(name) = &self.group_by else { return Ok(None) };
        let column = batch.column(name)?;
        if column.is_ragged() || column.width() != 1 {
            return Err(Error::new(Code::DataColumn, format!("the column {name:?} of the groups is a list"))
                .help("group by a column that has one value per row"));
        }
        Ok(Some(match column.values() {
            ValuesView::I64(values) => values.iter().map(|&value| value as u64).collect(),
            ValuesView::U8(values) => values.iter().map(|&value| u64::from(value)).collect(),
            ValuesView::F32(values) => values.iter().map(|value| u64::from(value.to_bits())).collect(),
            ValuesView::Bytes(values) => values.iter().map(fingerprint64).collect(),
        }))
    }
}

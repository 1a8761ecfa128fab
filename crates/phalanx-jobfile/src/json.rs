//! Results of jobs as JSON.

use crate::Done;
use phalanx_base::Error;
use phalanx_cluster::Json;
use phalanx_data::{Batch, ValuesView};
use phalanx_estimator::Evaluation;

/// Returns a number; NaN and infinities become texts.
#[must_use]
pub fn number_json(value: f64) -> Json {
    if value.is_finite() { Json::Number(format!("{value:?}")) } else { Json::text(value.to_string()) }
}

/// Returns an evaluation under TensorFlow's names, sorted by name; with `reached_end`, which is false, if it did not reach
/// the end of its set.
#[must_use]
pub fn evaluation_json(found: &Evaluation) -> Json {
    let mut entries: Vec<(String, Json)> =
        found.metrics.iter().map(|(name, value)| (name.clone(), number_json(*value))).collect();
    entries.push(("global_step".to_owned(), Json::number(found.global_step)));
    if !found.reached_end {
        entries.push(("reached_end".to_owned(), Json::Bool(false)));
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Json::Object(entries)
}

/// Returns the outcome of a task: the metrics of its last evaluation, `global_step`, `steps`, `seconds`, `steps_per_s` and `model_dir`.
#[must_use]
pub fn done_json(done: &Done) -> Json {
    let mut entries = match done.report.evaluation.as_ref().map(evaluation_json) {
        Some(Json::Object(entries)) => entries,
        _ => Vec::new(),
    };
    if let Some(training) = &done.report.training {
        if done.report.evaluation.is_none() {
            entries.push(("global_step".to_owned(), Json::number(training.global_step)));
        }
        entries.push(("steps".to_owned(), Json::number(training.steps)));
        entries.push(("seconds".to_owned(), number_json((training.seconds * 1000.0).round() / 1000.0)));
    }
    if let Some(rate) = done.steps_per_s {
        entries.push(("steps_per_s".to_owned(), number_json((rate * 10.0).round() / 10.0)));
    }
    if let Some(task) = &done.report.task {
        entries.push(("task".to_owned(), Json::text(task.to_string())));
    }
    if !done.model_dir.is_empty() {
        entries.push(("model_dir".to_owned(), Json::text(done.model_dir.clone())));
    }
    Json::Object(entries)
}

/// Returns one object per row of predictions.
pub fn rows_json(batch: &Batch) -> impl Iterator<Item = Json> + '_ {
    // As f32, whose shortest digits are fewer than those of the same f64.
    let float = |value: &f32| match value.is_finite() {
        true => Json::Number(format!("{value:?}")),
        false => Json::text(value.to_string()),
    };
    let value = move |column: &phalanx_data::Column, row: usize| {
        Json::List(match column.row(row) {
            ValuesView::F32(values) => values.iter().map(float).collect(),
            ValuesView::I64(values) => values.iter().map(|value| Json::number(*value)).collect(),
            ValuesView::U8(values) => values.iter().map(|value| Json::number(*value)).collect(),
            ValuesView::Bytes(values) => {
                values.iter().map(|value| Json::text(String::from_utf8_lossy(value))).collect()
            }
        })
    };
    (0..batch.rows())
        .map(move |row| Json::object(batch.iter().map(|(name, column)| (name.to_string(), value(column, row)))))
}

/// Returns an error with its position in the file.
#[must_use]
pub fn error_json(error: &Error) -> Json {
    let text = |text: Option<String>| text.map_or(Json::Null, Json::text);
    let place = error.pointed_at().or_else(|| error.place().map(str::to_owned));
    let error = Json::object([
        ("code", Json::text(error.code().to_string())),
        ("message", Json::text(error.to_string())),
        ("place", text(place)),
        ("help", text(error.next().map(str::to_owned))),
    ]);
    Json::object([("error", error)])
}

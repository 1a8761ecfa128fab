//! What was measured, as a table.

use super::entrant::{Case, Entrant, Ours};
use super::form::Form;
use crate::limits::Limits;
use crate::model::Sizes;
use crate::stats::{bytes, digits, median, spread};
use crate::watch::Seen;
use serde_json::{Value, json};

/// One system in one case.
pub(crate) struct Row {
    pub(crate) case: Case,
    pub(crate) entrant: Entrant,
    pub(crate) seen: Vec<Seen>,
    pub(crate) failure: Option<String>,
}

impl Row {
    pub(crate) fn new(case: Case, entrant: Entrant) -> Self {
        Self { case, entrant, seen: Vec::new(), failure: None }
    }

    fn median(&self, of: impl Fn(&Seen) -> Option<f64>) -> Option<f64> {
        let numbers: Vec<f64> = self.seen.iter().filter_map(of).collect();
        (!numbers.is_empty()).then(|| median(&numbers))
    }

    fn rates(&self) -> Vec<f64> {
        self.seen.iter().map(Seen::rate).collect()
    }

    fn rate(&self) -> f64 {
        median(&self.rates())
    }

    /// Batches in a step: mirrored workers take a step together.
    fn batches(&self) -> f64 {
        if let Form::Mirrored { workers } = self.case.form { workers as f64 } else { 1.0 }
    }

    fn examples_per_s(&self) -> f64 {
        self.rate() * self.batches() * self.case.model.batch() as f64
    }

    fn cpu_per_million(&self) -> Option<f64> {
        let examples = self.examples_per_s();
        self.median(|seen| Some(seen.cpu_per_s)).filter(|_| examples > 0.0).map(|cpu| 1e6 * cpu / examples)
    }

    /// As the servers count them, or else what went over the loopback device.
    fn bytes_per_step(&self) -> Option<f64> {
        let counted = |seen: &Seen| seen.number("bytes_per_step");
        let device = |seen: &Seen| (seen.rate() > 0.0).then(|| seen.loopback_per_s / seen.rate());
        // Machines of their own have devices of their own.
        let several = self.case.form != Form::One && self.case.network.is_none();
        let ours = self.entrant.is_ours();
        if ours { self.median(counted) } else { self.median(device).filter(|_| several) }
    }

    fn peaks(&self) -> Option<(f64, f64)> {
        let largest = self.median(|seen| seen.peaks.first().map(|&bytes| bytes as f64))?;
        Some((largest, self.median(|seen| Some(seen.peaks.iter().sum::<u64>() as f64))?))
    }
}

pub(crate) struct Report {
    limits: Limits,
    rounds: usize,
    cases: Vec<Vec<Row>>,
}

impl Report {
    pub(crate) fn new(limits: Limits, rounds: usize) -> Self {
        Self { limits, rounds, cases: Vec::new() }
    }

    pub(crate) fn add(&mut self, case: Vec<Row>) {
        self.cases.push(case);
    }

    /// Of the best square products, and of the model's own.
    fn shares(&self, row: &Row) -> (f64, f64) {
        let kind = row.case.model;
        let steps = row.rate() * row.batches();
        let own = self.limits.steps_of(kind).map_or(0.0, |limit| steps / limit);
        (self.limits.share(Sizes::new(kind).flops(kind.batch()), steps), own)
    }

    /// How many times this one's rate ours is.
    fn ratio(case: &[Row], row: &Row) -> Option<f64> {
        let ours = case.iter().find(|row| row.entrant == Entrant::Ours(Ours::Plain))?;
        (row.entrant != ours.entrant && row.rate() > 0.0).then(|| ours.rate() / row.rate())
    }

    pub(crate) fn table(&self) -> String {
        let mut lines = vec![
            "| model | form | system | steps/s (least to most) | phalanx is | examples/s | CPU s per million examples | bytes \
             a step | peak memory: largest process, all | of the matmul limit, of its own products |"
                .to_owned(),
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |".to_owned(),
        ];
        lines.extend(self.cases.iter().flat_map(|case| case.iter().map(|row| self.line(case, row))));
        lines.push(format!(
            "\nMedians of {} by turns; a measurement is the best of three after a warm-up. CPU seconds and memory are of all \
             processes of a job, seen from outside, while it measured. Bytes a step: ours as the servers count what they \
             receive and send; a peer's as the loopback device counts, which everybody on the machine shares.",
            self.rounds
        ));
        lines.join("\n")
    }

    fn line(&self, case: &[Row], row: &Row) -> String {
        let Case { model, .. } = row.case;
        let (form, name) = (row.case.place(), row.entrant.name());
        if row.seen.is_empty() {
            let why = row.failure.as_deref().unwrap_or("nothing measured").replace(['\n', '|'], " ");
            return format!("| {model} | {form} | {name} | {why} | | | | | | |");
        }
        let (least, most) = spread(&row.rates());
        let or_none = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        let (limit, own) = self.shares(row);
        [
            format!("| {model} | {form} | {name}"),
            format!("{} ({} to {})", digits(row.rate()), digits(least), digits(most)),
            Self::ratio(case, row).map_or_else(String::new, |ratio| format!("{ratio:.2} times")),
            digits(row.examples_per_s()),
            or_none(row.cpu_per_million().map(digits)),
            or_none(row.bytes_per_step().map(bytes)),
            or_none(row.peaks().map(|(largest, all)| format!("{}, {}", bytes(largest), bytes(all)))),
            format!("{:.0} %, {:.0} % |", 100.0 * limit, 100.0 * own),
        ]
        .join(" | ")
    }

    pub(crate) fn to_json(&self) -> String {
        let mut lines = vec![json!({ "limits": self.limits.to_json() }).to_string()];
        for case in &self.cases {
            lines.extend(case.iter().map(|row| self.row_json(case, row).to_string()));
        }
        lines.join("\n")
    }

    fn row_json(&self, case: &[Row], row: &Row) -> Value {
        let (limit, own) = self.shares(row);
        json!({
            "model": row.case.model.to_string(), "form": row.case.form.to_string(),
            "network": row.case.network.map(|link| link.to_string()), "system": row.entrant.name(),
            "steps_per_s": row.rate(), "all": row.rates(), "phalanx_is": Self::ratio(case, row),
            "examples_per_s": row.examples_per_s(), "cpu_s_per_million_examples": row.cpu_per_million(),
            "bytes_per_step": row.bytes_per_step(), "peak_bytes": row.peaks().map(|(largest, _)| largest),
            "peak_bytes_all": row.peaks().map(|(_, all)| all), "of_matmul_limit": limit, "of_own_products": own,
            "failure": row.failure,
        })
    }
}

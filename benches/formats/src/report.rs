//! What was measured.

use crate::Args;
use serde_json::json;

/// The measurements of one thing.
pub(crate) struct Row {
    /// What was measured.
    pub(crate) name: &'static str,
    /// How much of it.
    pub(crate) amount: f64,
    /// The unit of the amount, per second.
    pub(crate) unit: &'static str,
    /// Seconds of each round.
    pub(crate) ours: Vec<f64>,
    /// Seconds of each round; empty without TensorFlow.
    pub(crate) theirs: Vec<f64>,
}

impl Row {
    pub(crate) fn new(name: &'static str, amount: f64, unit: &'static str) -> Self {
        Self { name, amount, unit, ours: Vec::new(), theirs: Vec::new() }
    }
}

/// Everything that was measured.
pub(crate) struct Report {
    about: String,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(args: &Args) -> Self {
        let peer = if args.python.is_some() { "beside TensorFlow" } else { "ours only: no --python was given" };
        let (tensors, size, records, rounds) = (args.tensors, args.tensor_mib, args.records, args.rounds);
        let about = format!(
            "{tensors} tensors of {size} MiB, {records} records of 26 int64 and 13 float; medians of {rounds}; {peer}"
        );
        Self { about, rows: Vec::new() }
    }

    pub(crate) fn text(&self) -> String {
        let head = ["ours", "TensorFlow", "ratio", "best ratio"];
        let mut text = format!("{}\n{}\n", self.about, line("", &head.map(str::to_owned)));
        for Row { name, amount, unit, ours, theirs } in &self.rows {
            let shown = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.2}"));
            let rate = |times| median(times).map(|time| amount / time);
            let numbers = [rate(ours), rate(theirs), ratio(ours, theirs, median), ratio(ours, theirs, best)];
            text += &format!("{}\n", line(&format!("{name}, {unit}"), &numbers.map(shown)));
        }
        text
    }

    pub(crate) fn json(&self) -> String {
        let row = |row: &Row| {
            let rate = |times| median(times).map(|time| row.amount / time);
            json!({
                "name": row.name, "unit": row.unit, "ours": rate(&row.ours), "tensorflow": rate(&row.theirs),
                "ratio": ratio(&row.ours, &row.theirs, median), "best_ratio": ratio(&row.ours, &row.theirs, best),
                "ours_s": row.ours, "tensorflow_s": row.theirs,
            })
        };
        format!("{}\n", json!({"about": self.about, "rows": self.rows.iter().map(row).collect::<Vec<_>>()}))
    }
}

fn line(name: &str, cells: &[String; 4]) -> String {
    let [a, b, c, d] = cells;
    format!("{name:36} {a:>12} {b:>12} {c:>8} {d:>12}")
}

/// How many times as fast ours is, by one way to make one number of several.
fn ratio(ours: &[f64], theirs: &[f64], of: impl Fn(&[f64]) -> Option<f64>) -> Option<f64> {
    Some(of(theirs)? / of(ours)?)
}

/// The shortest: what is left when nothing else runs on the machine.
fn best(times: &[f64]) -> Option<f64> {
    times.iter().copied().min_by(f64::total_cmp)
}

fn median(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(ratio(&[1.0], &[3.0], median), Some(3.0));
        assert_eq!(ratio(&[4.0, 1.0], &[6.0, 5.0], best), Some(5.0));
        assert_eq!(ratio(&[1.0], &[], median), None);
    }
}

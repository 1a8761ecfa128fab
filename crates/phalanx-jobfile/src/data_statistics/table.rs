//! Statistics as a table.

use super::{ColumnReport, ColumnRole, DataStatistics};

/// The largest number of columns that are shown.
const SHOWN: usize = 200;

/// The largest number of classes that are shown.
const CLASSES: usize = 10;

const HEADING: [&str; 12] =
    ["column", "kind", "missing", "unknown", "distinct", "min", "1 %", "25 %", "median", "75 %", "99 %", "max"];

impl DataStatistics {
    /// Returns a table with a line per column, and a line with the balance of the label.
    #[must_use]
    pub fn table(&self) -> String {
        let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
        rows[0].insert(6, "mean".to_owned());
        rows.extend(self.columns.iter().take(SHOWN).map(ColumnReport::cells));
        // Columns of the table in which no row has something are left out.
        let used = |at: usize| at < 2 || rows[1..].iter().any(|row| row[at] != "-");
        let used: Vec<usize> = (0..rows[0].len()).filter(|&at| used(at)).collect();
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for row in &rows {
            let cells: Vec<String> = used.iter().map(|&at| format!("{:<1$}", row[at], width(at))).collect();
            text += cells.join("  ").trim_end();
            text.push('\n');
        }
        if self.columns.len() > SHOWN {
            text += &format!("and {} more\n", self.columns.len() - SHOWN);
        }
        for label in self.columns.iter().filter(|column| column.role == ColumnRole::Label) {
            text += &label.balance();
        }
        text
    }
}

impl ColumnReport {
    fn cells(&self) -> Vec<String> {
        let share = |count: u64, of: u64| match (count, of) {
            (0, _) | (_, 0) => "-".to_owned(),
            _ => percent(count, of),
        };
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
        let (distinct, exact) = self.distinct();
        let name = match self.role {
            ColumnRole::Input => self.name.clone(),
            role => format!("{} ({})", self.name, role.as_str()),
        };
        let unknown = match self.unknown() {
            None => "-".to_owned(),
            Some(count) if count.unknown == 0 => "none".to_owned(),
            Some(count) => percent(count.unknown, count.values),
        };
        let quantiles = [0.01, 0.25, 0.5, 0.75, 0.99].map(|share| number(self.quantile(share)));
        let first = [
            name,
            self.kind(),
            share(self.missing(), self.rows()),
            unknown,
            if exact { distinct.to_string() } else { format!("~{distinct}") },
            number(self.min()),
            number(self.mean()),
        ];
        first.into_iter().chain(quantiles).chain([number(self.max())]).collect()
    }

    fn balance(&self) -> String {
        let Some(classes) = self.classes().filter(|classes| !classes.is_empty()) else { return String::new() };
        let shown = classes.iter().take(CLASSES).map(|(class, count)| {
            let class = if class.is_empty() { "missing" } else { class };
            format!("{class} {}", percent(*count, self.rows()))
        });
        let more = classes.len().saturating_sub(CLASSES);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        format!("label \"{}\": {}{more}\n", self.name, shown.collect::<Vec<_>>().join(", "))
    }
}

/// A share that is not 0, in percent: never rounded to nothing.
fn percent(count: u64, of: u64) -> String {
    let percent = 100.0 * count as f64 / of as f64;
    if percent < 0.05 { "<0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

/// A number with at most five digits, or with an exponent.
fn short(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e9).contains(&size) {
        return format!("{value:.3e}");
    }
    let text = if size >= 1000.0 { format!("{value:.1}") } else { format!("{value:.4}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shares_are_short_and_do_not_vanish() {
        let all = [0.0, 1.0, -2.5, 0.123_456, 12_345.678, 1e12, 1e-7].map(short);
        assert_eq!(all, ["0", "1", "-2.5", "0.1235", "12345.7", "1.000e12", "1.000e-7"]);
        assert_eq!([percent(1, 1_000_000), percent(1, 3)], ["<0.1 %", "33.3 %"]);
    }
}

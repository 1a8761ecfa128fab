//! One row of the display, fitted to the width of the terminal.

use std::ops::Range;

/// The bar's width if the terminal is wide enough.
const WIDEST: usize = 30;
/// A shorter bar is left out.
const SHORTEST: usize = 10;
/// The width of ` [` and `]`.
const FRAME: usize = 3;
/// Replaces fields that were cut.
const CUT: &str = " …";

/// A count, perhaps a bar, and the fields after them: `37/100 [===>......] - 1s 12ms/step - loss: 0.5`.
pub(super) struct Row {
    seen: u64,
    target: Option<u64>,
    count: String,
    /// Each begins with ` - `.
    fields: Vec<String>,
}

/// Returns the columns of `text`. Every character counts as one, which is wrong only for East Asian names.
pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

impl Row {
    pub(super) fn new(seen: u64, target: Option<u64>) -> Self {
        let count = match target {
            Some(target) => format!("{seen:digits$}/{target}", digits = target.to_string().len()),
            None => format!("{seen:7}/Unknown"),
        };
        Self { seen, target, count, fields: Vec::new() }
    }

    pub(super) fn push(&mut self, field: &str) {
        self.fields.push(format!(" - {field}"));
    }

    /// Returns the row without a bar and without a limit.
    pub(super) fn plain(&self) -> String {
        self.count.clone() + &self.fields.concat()
    }

    /// Returns the row while it is redrawn: one line of at most `columns`. The bar is cut first, then fields from the
    /// right.
    pub(super) fn running(&self, columns: usize) -> String {
        let all = 0..self.fields.len();
        if self.count_and(all.clone()) <= columns {
            return self.first_line(all, columns);
        }
        let fits = |end: &usize| self.count_and(0..*end) + width(CUT) <= columns;
        match all.rev().find(fits) {
            Some(end) => self.count.clone() + &self.fields[..end].concat() + CUT,
            None => clip(&self.count, columns),
        }
    }

    /// Returns the final row: as few lines as possible, at least one, with a bar if that adds none.
    pub(super) fn finished(&self, columns: usize) -> Vec<String> {
        let bare = self.folded(width(&self.count), columns);
        let barred = self.folded(width(&self.count) + FRAME + SHORTEST, columns);
        let parts = if self.target.is_some() && barred.len() <= bare.len() { barred } else { bare };
        let mut lines = vec![clip(&self.first_line(parts[0].clone(), columns), columns)];
        let indent = " ".repeat(width(&self.count));
        lines.extend(
            parts[1..].iter().map(|part| clip(&(indent.clone() + &self.fields[part.clone()].concat()), columns)),
        );
        lines
    }

    /// Returns the fields of each line; the first line begins with `head` columns.
    fn folded(&self, head: usize, columns: usize) -> Vec<Range<usize>> {
        let mut lines = Vec::new();
        let (mut start, mut used) = (0, head);
        for (index, field) in self.fields.iter().enumerate() {
            // A line holds at least one field, however wide; on the first line that is the time.
            if used + width(field) > columns && index > start {
                lines.push(start..index);
                (start, used) = (index, width(&self.count));
            }
            used += width(field);
        }
        lines.push(start..self.fields.len());
        lines
    }

    /// Returns the count, the widest bar that fits, and `fields`.
    fn first_line(&self, fields: Range<usize>, columns: usize) -> String {
        let left = columns.saturating_sub(self.count_and(fields.clone()) + FRAME);
        let bar = match self.target {
            Some(target) if left >= SHORTEST => format!(" [{}]", bar(self.seen, target, left.min(WIDEST))),
            _ => String::new(),
        };
        self.count.clone() + &bar + &self.fields[fields].concat()
    }

    fn count_and(&self, fields: Range<usize>) -> usize {
        width(&self.count) + self.fields[fields].iter().map(|field| width(field)).sum::<usize>()
    }
}

/// `=====>....`, all `=` when done.
fn bar(seen: u64, target: u64, columns: usize) -> String {
    if seen >= target {
        return "=".repeat(columns);
    }
    let filled = (columns as f64 * (seen as f64 / target as f64)) as usize;
    let head = if filled > 0 { ">" } else { "" };
    format!("{}{head}{}", "=".repeat(filled.saturating_sub(1)), ".".repeat(columns - filled))
}

/// Cuts a field that is wider than the terminal.
fn clip(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain((columns > 0).then_some('…')).collect()
}

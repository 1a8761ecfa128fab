//! One row of the display, and how it fits into the room there is.

use std::ops::Range;

/// The bar's width where there is room for it.
const WIDEST: usize = 30;
/// A shorter bar says less than the room it takes.
const SHORTEST: usize = 10;
/// What stands around a bar: ` [` and `]`.
const FRAME: usize = 3;
/// What stands for fields that were cut.
const CUT: &str = " …";

/// A count, perhaps a bar, and the fields after them: `37/100 [===>......] - 1s 12ms/step - loss: 0.5`.
pub(super) struct Row {
    seen: u64,
    target: Option<u64>,
    count: String,
    /// Each with its ` - ` in front.
    fields: Vec<String>,
}

/// How many columns `text` takes. Every character counts as one, which holds for all but East Asian names.
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

    /// Without a bar, as long as it comes.
    pub(super) fn plain(&self) -> String {
        self.count.clone() + &self.fields.concat()
    }

    /// The row while it is redrawn: one line, whatever that costs. The bar goes first, then fields from the right.
    pub(super) fn running(&self, room: usize) -> String {
        let all = 0..self.fields.len();
        if self.count_and(all.clone()) <= room {
            return self.first_line(all, room);
        }
        let fits = |end: &usize| self.count_and(0..*end) + width(CUT) <= room;
        match all.rev().find(fits) {
            Some(end) => self.count.clone() + &self.fields[..end].concat() + CUT,
            None => clip(&self.count, room),
        }
    }

    /// The row as it stays: as few lines as possible, and a bar if it adds none. There is always one line.
    pub(super) fn finished(&self, room: usize) -> Vec<String> {
        let bare = self.folded(width(&self.count), room);
        let barred = self.folded(width(&self.count) + FRAME + SHORTEST, room);
        let parts = if self.target.is_some() && barred.len() <= bare.len() { barred } else { bare };
        let mut lines = vec![clip(&self.first_line(parts[0].clone(), room), room)];
        lines.extend(parts[1..].iter().map(|part| clip(&(self.indent() + &self.fields[part.clone()].concat()), room)));
        lines
    }

    /// Which fields go to which line, where the first line begins with a head of `head` columns.
    fn folded(&self, head: usize, room: usize) -> Vec<Range<usize>> {
        let mut lines = Vec::new();
        let (mut start, mut used) = (0, head);
        for (index, field) in self.fields.iter().enumerate() {
            // A line holds one field at least, however wide; on the first that is the time beside the count.
            if used + width(field) > room && index > start {
                lines.push(start..index);
                (start, used) = (index, width(&self.count));
            }
            used += width(field);
        }
        lines.push(start..self.fields.len());
        lines
    }

    /// The count, the widest bar that leaves room for `fields`, and those fields.
    fn first_line(&self, fields: Range<usize>, room: usize) -> String {
        let left = room.saturating_sub(self.count_and(fields.clone()) + FRAME);
        let bar = match self.target {
            Some(target) if left >= SHORTEST => format!(" [{}]", bar(self.seen, target, left.min(WIDEST))),
            _ => String::new(),
        };
        self.count.clone() + &bar + &self.fields[fields].concat()
    }

    fn count_and(&self, fields: Range<usize>) -> usize {
        width(&self.count) + self.fields[fields].iter().map(|field| width(field)).sum::<usize>()
    }

    /// Further lines begin under the first field.
    fn indent(&self) -> String {
        " ".repeat(width(&self.count))
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

/// The last resort where a single field is wider than the terminal.
fn clip(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain((room > 0).then_some('…')).collect()
}

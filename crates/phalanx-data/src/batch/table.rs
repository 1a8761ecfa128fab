//! A batch as a table, for people.

use super::Batch;
use crate::{Column, DType, ValuesView};
use std::fmt;

/// The largest number of rows, unless all are asked for, and of columns that are shown.
const ROWS: usize = 20;
const COLUMNS: usize = 24;
/// The largest number of values of a list, and of characters of a text, that are shown.
const VALUES: usize = 6;
const CHARACTERS: usize = 40;

/// Writes a heading, then a line per row. Long batches, lists and texts are shortened; `{:#}` shows every row.
///
/// ```
/// use phalanx_data::{Batch, Column};
/// let batch = Batch::new([
///     ("age", Column::f32(vec![39.0, 50.5])),
///     ("education", Column::text(["Bachelors", "Masters"])),
///     ("point", Column::i64(vec![1, 2, 3, 4]).with_row_shape([2])?),
/// ])?;
/// let lines = [" age  education  point", "  39  Bachelors  [1, 2]", "50.5  Masters    [3, 4]"];
/// assert_eq!(batch.to_string().lines().collect::<Vec<_>>(), lines);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = if f.alternate() { self.rows } else { self.rows.min(ROWS) };
        let columns: Vec<TextColumn> =
            self.iter().take(COLUMNS).map(|(name, column)| TextColumn::new(name, column, rows)).collect();
        for line in 0..=rows {
            let cells: Vec<String> = columns.iter().map(|column| column.padded(line)).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        if self.rows > rows {
            writeln!(f, "… and {} more rows", self.rows - rows)?;
        }
        let hidden = &self.names()[columns.len()..];
        if !hidden.is_empty() {
            let names: Vec<String> = hidden.iter().take(COLUMNS).map(|name| shortened(name)).collect();
            let more = if hidden.len() > COLUMNS { ", …" } else { "" };
            writeln!(f, "… and {} more columns: {}{more}", hidden.len(), names.join(", "))?;
        }
        Ok(())
    }
}

/// The cells of a column under its name, and how they are aligned.
struct TextColumn {
    cells: Vec<String>,
    width: usize,
    is_number: bool,
}

impl TextColumn {
    fn new(name: &str, column: &Column, rows: usize) -> Self {
        let cells: Vec<String> =
            std::iter::once(shortened(name)).chain((0..rows).map(|row| cell(column, row))).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let is_number = column.dtype() != DType::Bytes && column.row_shape().is_empty() && !column.is_ragged();
        Self { cells, width, is_number }
    }

    fn padded(&self, line: usize) -> String {
        let (cell, width) = (&self.cells[line], self.width);
        if self.is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    }
}

fn cell(column: &Column, row: usize) -> String {
    let (values, count): (Vec<String>, usize) = match column.row(row) {
        ValuesView::F32(values) => (values.iter().take(VALUES).map(f32::to_string).collect(), values.len()),
        ValuesView::I64(values) => (values.iter().take(VALUES).map(i64::to_string).collect(), values.len()),
        ValuesView::U8(values) => (values.iter().take(VALUES).map(u8::to_string).collect(), values.len()),
        ValuesView::Bytes(values) => (values.iter().take(VALUES).map(text).collect(), values.len()),
    };
    if column.row_shape().is_empty() && !column.is_ragged() {
        return values.into_iter().next().unwrap_or_default();
    }
    let more = if count > VALUES { ", …" } else { "" };
    let shape = match column.row_shape() {
        shape if count > VALUES || shape.len() > 1 => {
            let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
            if sizes.is_empty() { format!(" ({count})") } else { format!(" ({})", sizes.join("×")) }
        }
        _ => String::new(),
    };
    format!("[{}{more}]{shape}", values.join(", "))
}

/// Bytes as text, or as hexadecimal digits if they are not UTF-8.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => shortened(text),
        Err(_) => {
            let digits: String = bytes.iter().take(CHARACTERS / 2).map(|byte| format!("{byte:02x}")).collect();
            let more = if bytes.len() > CHARACTERS / 2 { "…" } else { "" };
            format!("0x{digits}{more}")
        }
    }
}

/// A text of one line and at most [`CHARACTERS`] characters.
fn shortened(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let short: String = text.chars().take(CHARACTERS).map(escape).collect();
    if text.chars().nth(CHARACTERS).is_some() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_batches_lists_and_texts_are_shortened() {
        let long = "x".repeat(50);
        let batch = Batch::new([
            ("image", Column::u8(vec![7; 25 * 28 * 28]).with_row_shape([28, 28]).unwrap()),
            ("text", Column::text((0..25).map(|row| if row == 0 { long.clone() } else { "a\nb".to_owned() }))),
        ])
        .unwrap();
        let table = batch.to_string();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 1 + 20 + 1, "{table}");
        assert_eq!(lines[1], format!("[7, 7, 7, 7, 7, 7, …] (28×28)  {}…", "x".repeat(40)));
        assert!(lines[2].ends_with("  a\\nb"), "{table}");
        assert_eq!(lines[21], "… and 5 more rows");
        assert_eq!(format!("{batch:#}").lines().count(), 1 + 25);
    }

    #[test]
    fn many_columns_bytes_and_lists_of_any_length_are_shown() {
        let columns = (0..26).map(|at| (format!("c{at}"), Column::i64(vec![at])));
        let table = Batch::new(columns).unwrap().to_string();
        assert!(table.ends_with("… and 2 more columns: c24, c25\n"), "{table}");

        let lists = Column::i64((0..9).collect()).with_splits(vec![0, 0, 1, 9]).unwrap();
        let mut bytes = crate::Strings::default();
        [&b"\xff\x00"[..], b"", b"ok"].into_iter().for_each(|one| bytes.push(one));
        let table = Batch::new([("ids", lists), ("raw", Column::bytes(bytes))]).unwrap().to_string();
        let wanted = "ids                         raw\n[]                          0xff00\n[0]\n[1, 2, 3, 4, 5, 6, …] (8)   ok\n";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&table), squeeze(wanted));
    }

    #[test]
    fn a_batch_without_rows_has_a_heading() {
        let batch = Batch::new([("x", Column::f32(vec![]))]).unwrap();
        assert_eq!(batch.to_string(), "x\n");
    }
}

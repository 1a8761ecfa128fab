//! Copies of rows: joining batches, and picking rows out of several.
//!
//! Hot: one loop per column and type, no allocation per row.

use super::Batch;
use crate::{Column, DType, Strings, Values};
use phalanx_base::{Code, Error, Result};

/// One row of one of several batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) batch: u32,
    pub(crate) row: u32,
}

impl Batch {
    /// Joins batches end to end.
    ///
    /// # Errors
    /// When names, types or shapes of rows differ.
    pub fn concat(batches: &[Self]) -> Result<Self> {
        let Some(first) = batches.first() else { return Ok(Self::from_raw(super::Schema::empty(), Vec::new(), 0)) };
        if batches.len() == 1 {
            return Ok(first.clone());
        }
        for other in &batches[1..] {
            first.check_layout(other)?;
        }
        let rows = batches.iter().map(Self::rows).sum();
        let columns = (0..first.columns.len())
            .map(|index| concat_column(&batches.iter().map(|batch| &batch.columns[index]).collect::<Vec<_>>()))
            .collect();
        Ok(Self::from_raw(first.schema.clone(), columns, rows))
    }

    /// Copies the picked rows of several batches of one layout into a new one.
    pub(crate) fn gather(batches: &[&Self], picks: &[Pick]) -> Self {
        let Some(first) = batches.first() else { return Self::from_raw(super::Schema::empty(), Vec::new(), 0) };
        let columns = (0..first.columns.len())
            .map(|index| gather_column(&batches.iter().map(|batch| &batch.columns[index]).collect::<Vec<_>>(), picks))
            .collect();
        Self::from_raw(first.schema.clone(), columns, picks.len())
    }

    /// Keeps the rows whose place in `keep` is true.
    pub(crate) fn retain(&self, keep: &[bool]) -> Self {
        if keep.iter().all(|&keep| keep) {
            return self.clone();
        }
        self.pick_rows(keep.iter().enumerate().filter(|&(_, &keep)| keep).map(|(row, _)| row as u32))
    }

    /// Copies rows into a new batch, in this order; a row may be taken several times.
    ///
    /// # Errors
    /// When a number is not that of a row.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column};
    /// let batch = Batch::new([("x", Column::i64(vec![10, 20, 30]))])?;
    /// assert_eq!(batch.take_rows(&[2, 0, 0])?.i64("x")?, [30, 10, 10]);
    /// assert!(batch.take_rows(&[3]).is_err());
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    pub fn take_rows(&self, rows: &[u32]) -> Result<Self> {
        if let Some(row) = rows.iter().find(|&&row| row as usize >= self.rows) {
            return Err(Error::new(Code::ShapeMismatch, format!("there is no row {row} in a batch of {}", self.rows)));
        }
        Ok(self.pick_rows(rows.iter().copied()))
    }

    /// Copies the rows of these numbers.
    pub(crate) fn pick_rows(&self, rows: impl Iterator<Item = u32>) -> Self {
        let picks: Vec<Pick> = rows.map(|row| Pick { batch: 0, row }).collect();
        Self::gather(&[self], &picks)
    }

    /// Whether rows of the two can lie in one batch.
    pub(crate) fn same_layout(&self, other: &Self) -> bool {
        (std::sync::Arc::ptr_eq(&self.schema, &other.schema) || self.schema == other.schema)
            && self.columns.iter().zip(&other.columns).all(|(a, b)| same_rows(a, b))
    }

    /// The reason why rows of the two cannot lie in one batch.
    pub(crate) fn check_layout(&self, other: &Self) -> Result<()> {
        if self.same_layout(other) {
            return Ok(());
        }
        if self.names() != other.names() {
            let what = format!("elements have different columns: {:?} and {:?}", self.names(), other.names());
            return Err(Error::new(Code::DataColumn, what).help("make every part of the input give the same columns"));
        }
        if self.schema.label() != other.schema.label() {
            return Err(Error::new(Code::DataColumn, "elements have different labels"));
        }
        let differs = |(_, (a, b)): &(usize, (&Column, &Column))| !same_rows(a, b);
        let pairs = self.columns.iter().zip(&other.columns);
        let Some((index, (a, b))) = pairs.enumerate().find(differs) else { return Ok(()) };
        let name = &self.names()[index];
        let code = if a.dtype() == b.dtype() { Code::ShapeMismatch } else { Code::DataColumn };
        Err(Error::new(code, format!("cannot batch tensors with different shapes or types in column {name:?}"))
            .because(format!("the first element had {}, a later one {}", layout(a), layout(b)))
            .help("use padded_batch, or make the elements alike with map"))
    }
}

fn same_rows(a: &Column, b: &Column) -> bool {
    a.dtype() == b.dtype() && a.is_ragged() == b.is_ragged() && a.row_shape() == b.row_shape()
}

fn layout(column: &Column) -> String {
    let ragged = if column.is_ragged() { "ragged " } else { "" };
    format!("{ragged}{} of shape {:?}", column.dtype(), column.row_shape())
}

fn concat_column(parts: &[&Column]) -> Column {
    let first = parts[0];
    let rows: usize = parts.iter().map(|part| part.rows()).sum();
    let total = parts.iter().map(|part| part.value_range().len()).sum();
    let mut values = match first.dtype() {
        DType::Bytes => {
            let bytes = |part: &&Column| part.as_bytes().map_or(0, |view| view.byte_len());
            Values::Bytes(Strings::with_capacity(total, parts.iter().map(bytes).sum()))
        }
        dtype => Values::with_capacity(dtype, total),
    };
    let mut splits = first.is_ragged().then(|| {
        let mut splits = Vec::with_capacity(rows + 1);
        splits.push(0);
        splits
    });
    for part in parts {
        let same = values.extend_from(part.buffer(), part.value_range());
        debug_assert!(same, "layouts were checked");
        if let (Some(splits), Some(from)) = (&mut splits, part.splits()) {
            let shift = splits.last().copied().unwrap_or(0);
            splits.extend(from[1..].iter().map(|end| end - from[0] + shift));
        }
    }
    Column::from_raw(values, splits, first.shape_arc(), rows)
}

fn gather_column(parts: &[&Column], picks: &[Pick]) -> Column {
    let first = parts[0];
    if first.is_ragged() {
        return gather_ragged(parts, picks);
    }
    let values = match first.dtype() {
        DType::F32 => Values::F32(gather_dense(&slices(parts, Column::as_f32), first.width(), picks)),
        DType::I64 => Values::I64(gather_dense(&slices(parts, Column::as_i64), first.width(), picks)),
        DType::U8 => Values::U8(gather_dense(&slices(parts, Column::as_u8), first.width(), picks)),
        DType::Bytes => gather_strings(parts, first.width(), picks),
    };
    Column::from_raw(values, None, first.shape_arc(), picks.len())
}

fn slices<'a, T>(parts: &[&'a Column], get: impl Fn(&'a Column) -> Result<&'a [T]>) -> Vec<&'a [T]> {
    parts.iter().map(|part| get(part).unwrap_or(&[])).collect()
}

fn gather_dense<T: Copy>(parts: &[&[T]], width: usize, picks: &[Pick]) -> Vec<T> {
    if width == 1 {
        return picks.iter().map(|pick| parts[pick.batch as usize][pick.row as usize]).collect();
    }
    let mut values = Vec::with_capacity(picks.len() * width);
    for pick in picks {
        let start = pick.row as usize * width;
        values.extend_from_slice(&parts[pick.batch as usize][start..start + width]);
    }
    values
}

fn gather_strings(parts: &[&Column], width: usize, picks: &[Pick]) -> Values {
    let views: Vec<_> = parts.iter().filter_map(|part| part.as_bytes().ok()).collect();
    let at = |pick: &Pick| (&views[pick.batch as usize], pick.row as usize * width);
    let bytes = picks.iter().map(|pick| {
        let (view, start) = at(pick);
        (start..start + width).map(|index| view.from(index).1).sum::<usize>()
    });
    // Room for the last short one to be copied as a whole piece.
    let mut strings = Strings::with_capacity(picks.len() * width, bytes.sum::<usize>() + Strings::SHORT);
    for pick in picks {
        let (view, start) = at(pick);
        for index in start..start + width {
            let (from, bytes) = view.from(index);
            strings.push_short(from, bytes);
        }
    }
    Values::Bytes(strings)
}

fn gather_ragged(parts: &[&Column], picks: &[Pick]) -> Column {
    let first = parts[0];
    let width = first.width();
    let ranges = || {
        picks.iter().map(|pick| {
            let (part, row) = (parts[pick.batch as usize], pick.row as usize);
            (part, part.range_of(row..row + 1))
        })
    };
    let mut values = Values::with_capacity(first.dtype(), ranges().map(|(_, range)| range.len()).sum());
    let mut splits = Vec::with_capacity(picks.len() + 1);
    splits.push(0);
    let mut items = 0;
    for (pick, (part, range)) in picks.iter().zip(ranges()) {
        let own = part.splits().unwrap_or(&[]);
        items += own[pick.row as usize + 1] - own[pick.row as usize];
        splits.push(items);
        debug_assert!(width == 0 || range.len() % width == 0);
        let same = values.extend_from(part.buffer(), range);
        debug_assert!(same, "layouts were checked");
    }
    Column::from_raw(values, Some(splits), first.shape_arc(), picks.len())
}

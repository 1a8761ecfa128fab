//! One server's part of a checkpoint.

use super::{GLOBAL_STEP, NOTES, applied, item_counts, item_names, part_name, table_keys, table_values};
use crate::client::to_wire;
use crate::server::cut::{Cut, CutItem};
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_formats::bundle::{BundleIndex, BundleWriter, Dtype, TensorSlice};
use phalanx_wire::proto::params;
use std::io::Write;

/// Writes the instant as one data file; answers the file and its index.
pub(crate) fn write_cut<W: Write>(cut: &Cut, part: &params::Part, out: W) -> Result<(W, BundleIndex)> {
    let mut bundle = BundleWriter::new(out);
    let mut spans = part.tables.iter();
    for item in &cut.items {
        match item {
            CutItem::Dense { shard, .. } => write_dense(&mut bundle, shard)?,
            CutItem::Table { table, rows, .. } => {
                let span = spans.next().ok_or_else(|| Error::new(Code::BadMessage, "a table's place is missing"))?;
                write_table(&mut bundle, table, rows, span, part.server == 0)?;
            }
        }
    }
    write_own(&mut bundle, cut, part.server)?;
    if part.server == 0 {
        bundle.add_i64s(GLOBAL_STEP, &Shape::new([])?, &[cut.global_step.cast_signed()])?;
        let shape = Shape::new([cut.notes.len()])?;
        bundle.add_strings(NOTES[0], &shape, cut.notes.iter().map(|(task, _)| task.to_string()))?;
        bundle.add_strings(NOTES[1], &shape, cut.notes.iter().map(|(_, note)| note))?;
    }
    let written = bundle.finish()?;
    // Whoever gave the instant up said so before the first number of it was lost: what was read until now is good.
    if cut.is_given_up() {
        return Err(Error::new(Code::OutcomeUnknown, "the instant was given up while it was being written"));
    }
    Ok(written)
}

fn write_dense<W: Write>(bundle: &mut BundleWriter<W>, shard: &crate::server::dense::Dense) -> Result<()> {
    if shard.rows.is_empty() {
        return Ok(());
    }
    for part in 0..=shard.optimizer.slot_count() {
        let name = part_name(&shard.optimizer, &shard.name, part);
        let rank = shard.shape.dims().len();
        let mut tensor = if rank == 0 {
            bundle.begin(&name, Dtype::F32, &shard.shape)?
        } else {
            let rows = TensorSlice::rows(shard.rows.start as u64, shard.rows.len() as u64, rank);
            bundle.begin_slice(&name, Dtype::F32, &shard.shape, &rows)?
        };
        shard.at_cut(part, |numbers| tensor.write(bytemuck::cast_slice(numbers)))?;
        tensor.finish()?;
    }
    Ok(())
}

fn write_table<W: Write>(
    bundle: &mut BundleWriter<W>,
    table: &crate::server::table::Table,
    rows: &[usize],
    span: &params::Span,
    is_first: bool,
) -> Result<()> {
    let count = rows.iter().sum::<usize>() as u64;
    if span.first.checked_add(count).is_none_or(|end| end > span.total) {
        return Err(Error::new(Code::BadMessage, format!("table {:?} has {count} rows here", table.name))
            .because(format!("they do not fit at {} of {}", span.first, span.total)));
    }
    // A table without rows is written once, so that it is known; a server without rows of it writes nothing.
    if count == 0 && !(is_first && span.total == 0) {
        return Ok(());
    }
    let total = usize::try_from(span.total).map_err(|_| Error::new(Code::BadMessage, "a table is too large"))?;
    let (keys, values) = (Shape::new([total])?, Shape::new([total, table.dim])?);
    let mut tensor = begin_rows(bundle, &table_keys(&table.name), Dtype::I64, &keys, span.first, count)?;
    table.ids_at_cut(rows, |ids| tensor.write(bytemuck::cast_slice(ids)))?;
    tensor.finish()?;
    for part in 0..=table.optimizer.slot_count() {
        let name = table_values(&part_name(&table.optimizer, &table.name, part));
        let mut tensor = begin_rows(bundle, &name, Dtype::F32, &values, span.first, count)?;
        table.at_cut(part, rows, |numbers| tensor.write(bytemuck::cast_slice(numbers)))?;
        tensor.finish()?;
    }
    Ok(())
}

fn begin_rows<'a, W: Write>(
    bundle: &'a mut BundleWriter<W>,
    name: &str,
    dtype: Dtype,
    shape: &Shape,
    first: u64,
    count: u64,
) -> Result<phalanx_formats::bundle::TensorWriter<'a, W>> {
    if count == 0 {
        return bundle.begin(name, dtype, shape);
    }
    bundle.begin_slice(name, dtype, shape, &TensorSlice::rows(first, count, shape.dims().len()))
}

/// What TensorFlow has no name for.
fn write_own<W: Write>(bundle: &mut BundleWriter<W>, cut: &Cut, server: u32) -> Result<()> {
    let (mut names, mut counts) = (Vec::new(), Vec::new());
    for item in &cut.items {
        let (name, first_row, updates, closed) = match item {
            CutItem::Dense { shard, updates, closed } => (&shard.name, shard.rows.start, updates, closed),
            CutItem::Table { table, updates, closed, .. } => (&table.name, 0, updates, closed),
        };
        names.push(name.as_str());
        counts.extend([first_row as i64, updates.cast_signed(), closed.cast_signed()]);
    }
    let items = names.len();
    bundle.add_strings(&item_names(server), &Shape::new([items])?, names)?;
    bundle.add_i64s(&item_counts(server), &Shape::new([items, 3])?, &counts)?;
    let mut lives = Vec::new();
    for ((task, incarnation), progress) in &cut.applied {
        let life = to_wire(*task, *incarnation);
        let (step, fenced) = (progress.step.cast_signed(), progress.fenced.into());
        let (role, index, incarnation) = (life.role.into(), life.index.into(), life.incarnation.cast_signed());
        lives.extend([role, index, incarnation, step, progress.parts_applied.into(), progress.parts.into(), fenced]);
    }
    bundle.add_i64s(&applied(server), &Shape::new([cut.applied.len(), 7])?, &lives)
}

//! Writing a snapshot as one server's part of a checkpoint.

use super::dense::Dense;
use super::snapshot::SnapshotKind;
use super::store_snapshot::{SnapshotItem, StoreSnapshot};
use super::table::Table;
use crate::checkpoint::names::{self, GLOBAL_STEP, INPUT_POSITIONS, part_name};
use crate::proto;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_formats::bundle::{BundleIndex, BundleWriter, Dtype, TensorSlice};
use phalanx_wire::task_to_wire;
use std::io::Write;

/// Writes the snapshot as one data file; returns the file and its index.
pub(crate) fn write_snapshot<W: Write>(
    snapshot: &StoreSnapshot,
    part: &proto::Part,
    out: W,
) -> Result<(W, BundleIndex)> {
    let mut bundle = BundleWriter::new(out);
    let mut spans = part.tables.iter();
    for item in &snapshot.items {
        match item {
            SnapshotItem::Dense { shard, .. } => write_dense(&mut bundle, shard, snapshot.kind)?,
            SnapshotItem::Table { table, rows, .. } => {
                let span = spans.next().ok_or_else(|| Error::new(Code::BadMessage, "a table's span is missing"))?;
                write_table(&mut bundle, (table, snapshot.kind), rows, span, part.server == 0)?;
            }
        }
    }
    write_own(&mut bundle, snapshot, part.server)?;
    if part.server == 0 {
        bundle.add_i64s(GLOBAL_STEP, &Shape::new([])?, &[snapshot.global_step.cast_signed()])?;
        let positions = &snapshot.input_positions;
        let shape = Shape::new([positions.len()])?;
        bundle.add_strings(INPUT_POSITIONS[0], &shape, positions.iter().map(|(task, _)| task.to_string()))?;
        bundle.add_strings(INPUT_POSITIONS[1], &shape, positions.iter().map(|(_, position)| position))?;
    }
    let written = bundle.finish()?;
    // The mark is set before the first copy is dropped: without it, everything that was read is of the snapshot.
    if snapshot.is_released() {
        return Err(Error::new(Code::OutcomeUnknown, "the snapshot was released while it was being written"));
    }
    Ok(written)
}

fn write_dense<W: Write>(bundle: &mut BundleWriter<W>, shard: &Dense, kind: SnapshotKind) -> Result<()> {
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
        shard.read_snapshot(kind, part, |numbers| tensor.write(bytemuck::cast_slice(numbers)))?;
        tensor.finish()?;
    }
    Ok(())
}

fn write_table<W: Write>(
    bundle: &mut BundleWriter<W>,
    (table, kind): (&Table, SnapshotKind),
    rows: &[usize],
    span: &proto::Span,
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
    let mut tensor = begin_rows(bundle, &names::table_keys(&table.name), Dtype::I64, &keys, span.first, count)?;
    table.read_snapshot_ids(rows, |ids| tensor.write(bytemuck::cast_slice(ids)))?;
    tensor.finish()?;
    for part in 0..=table.optimizer.slot_count() {
        let name = names::table_values(&part_name(&table.optimizer, &table.name, part));
        let mut tensor = begin_rows(bundle, &name, Dtype::F32, &values, span.first, count)?;
        table.read_snapshot(kind, part, rows, |numbers| tensor.write(bytemuck::cast_slice(numbers)))?;
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

/// Writes the tensors that TensorFlow has no name for.
fn write_own<W: Write>(bundle: &mut BundleWriter<W>, snapshot: &StoreSnapshot, server: u32) -> Result<()> {
    let (mut names, mut counts) = (Vec::new(), Vec::new());
    for item in &snapshot.items {
        let (name, first_row, updates, closed) = match item {
            SnapshotItem::Dense { shard, updates, closed } => (&shard.name, shard.rows.start, updates, closed),
            SnapshotItem::Table { table, updates, closed, .. } => (&table.name, 0, updates, closed),
        };
        names.push(name.as_str());
        counts.extend([first_row as i64, updates.cast_signed(), closed.cast_signed()]);
    }
    let items = names.len();
    bundle.add_strings(&names::item_names(server), &Shape::new([items])?, names)?;
    bundle.add_i64s(&names::item_counts(server), &Shape::new([items, 3])?, &counts)?;
    let mut tasks = Vec::new();
    for ((task, incarnation), progress) in &snapshot.progress {
        let task = task_to_wire(*task, *incarnation);
        let (step, fenced) = (progress.step.cast_signed(), progress.fenced.into());
        let (role, index, incarnation) = (task.role.into(), task.index.into(), task.incarnation.cast_signed());
        tasks.extend([role, index, incarnation, step, progress.parts_applied.into(), progress.parts.into(), fenced]);
    }
    bundle.add_i64s(&names::progress(server), &Shape::new([snapshot.progress.len(), 7])?, &tasks)?;
    let lacking: Vec<i64> = snapshot.progress.iter().map(|(_, progress)| progress.lacking.cast_signed()).collect();
    bundle.add_i64s(&names::lacking(server), &Shape::new([lacking.len()])?, &lacking)
}

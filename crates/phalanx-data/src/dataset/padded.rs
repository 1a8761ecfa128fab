//! `padded_batch`: batches of rows of different lengths, filled up.

use super::batch::{collect, size_error};
use super::node::{Context, ElementKind, Node, Op, Stage, open_input};
use crate::position::{Loader, Saver};
use crate::{Batch, Column, DType, Dataset, Strings, Values};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// How [`Dataset::padded_batch`] fills up one column; columns without one are filled with 0 or "" to the longest.
///
/// ```
/// use phalanx_data::Padding;
/// let padding = Padding::to([Some(5)]).with_i64(-1);
/// # let _ = padding;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Padding {
    /// The extent of each dimension of a row; `None` for the longest of the batch. `None` at all: all dimensions so.
    shape: Option<Vec<Option<usize>>>,
    value: Option<Values>,
}

impl Padding {
    /// Fills up to these extents; `None` stands for the longest row of the batch.
    #[must_use]
    pub fn to(shape: impl Into<Vec<Option<usize>>>) -> Self {
        Self { shape: Some(shape.into()), value: None }
    }

    /// Fills up with this float.
    #[must_use]
    pub fn with_f32(self, value: f32) -> Self {
        Self { value: Some(Values::F32(vec![value])), ..self }
    }

    /// Fills up with this integer.
    #[must_use]
    pub fn with_i64(self, value: i64) -> Self {
        Self { value: Some(Values::I64(vec![value])), ..self }
    }

    /// Fills up with this small number.
    #[must_use]
    pub fn with_u8(self, value: u8) -> Self {
        Self { value: Some(Values::U8(vec![value])), ..self }
    }

    /// Fills up with this string.
    #[must_use]
    pub fn with_bytes(self, value: &[u8]) -> Self {
        Self { value: Some(Values::Bytes([value].into_iter().collect())), ..self }
    }

    /// One value of the column's type.
    fn value(&self, dtype: DType) -> Result<Values> {
        match &self.value {
            Some(value) if value.dtype() != dtype => {
                Err(Error::new(Code::DataColumn, format!("a {dtype} column is padded with a {}", value.dtype()))
                    .help("give a padding value of the column's type"))
            }
            Some(value) => Ok(value.clone()),
            None => Ok(match dtype {
                DType::F32 => Values::F32(vec![0.0]),
                DType::I64 => Values::I64(vec![0]),
                DType::U8 => Values::U8(vec![0]),
                DType::Bytes => Values::Bytes([b""].into_iter().collect::<Strings>()),
            }),
        }
    }
}

#[derive(Clone)]
struct PaddedOp {
    size: usize,
    drop_remainder: bool,
    paddings: Arc<[(String, Padding)]>,
}

impl Op for PaddedOp {
    fn describe(&self) -> String {
        let rest = if self.drop_remainder { ", full ones only" } else { "" };
        format!("padded_batch({}{rest})", self.size)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        Ok(Box::new(PaddedStage { upstream: open_input(inputs, cx, from)?, op: self.clone() }))
    }

    fn kind(&self, _: &[Node]) -> ElementKind {
        ElementKind::Batches
    }

    fn batch_size(&self, _: &[Node]) -> Option<usize> {
        Some(self.size)
    }
}

struct PaddedStage {
    upstream: Box<dyn Stage>,
    op: PaddedOp,
}

impl Stage for PaddedStage {
    fn next(&mut self, _: usize) -> Result<Option<Batch>> {
        let op = &self.op;
        let Some(parts) = collect(&mut *self.upstream, ElementKind::Rows, op.size, op.drop_remainder)? else {
            return Ok(None);
        };
        let first = &parts[0];
        if let Some((name, _)) = op.paddings.iter().find(|(name, _)| first.schema().find(name).is_none()) {
            first.column(name)?;
        }
        let default = Padding::default();
        let columns = first.names().iter().map(|name| {
            let parts: Vec<&Column> = parts.iter().map(|part| part.column(name)).collect::<Result<_>>()?;
            let padding = op.paddings.iter().find(|(known, _)| **known == **name).map_or(&default, |(_, p)| p);
            pad_column(&parts, padding).map_err(|error| error.at(format!("padded_batch, column {name:?}")))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Batch::with_schema(first.schema().clone(), columns).map(Some)
    }

    fn save(&self, out: &mut Saver) {
        self.upstream.save(out);
    }
}

/// The shape of one row: a ragged one's length comes first.
fn row_shape(column: &Column, row: usize) -> Vec<usize> {
    let length = column.splits().map(|splits| splits[row + 1] - splits[row]);
    length.into_iter().chain(column.row_shape().iter().copied()).collect()
}

fn pad_column(parts: &[&Column], padding: &Padding) -> Result<Column> {
    let dtype = parts[0].dtype();
    let fill = padding.value(dtype)?;
    let rows = || parts.iter().flat_map(|&part| (0..part.rows()).map(move |row| (part, row)));
    let shape = target_shape(rows().map(|(part, row)| row_shape(part, row)), padding)?;
    let width = phalanx_base::Shape::new(shape.clone())?.elements();
    let count = rows().count();
    let mut values = Values::with_capacity(dtype, count.saturating_mul(width));
    for (part, row) in rows() {
        let range = part.range_of(row..row + 1);
        if part.dtype() != dtype || !copy_padded(&mut values, part, range, &row_shape(part, row), &shape, &fill) {
            return Err(Error::new(Code::DataColumn, "elements of one column have different types"));
        }
    }
    Ok(Column::from_raw(values, None, (!shape.is_empty()).then(|| shape.into()), count))
}

fn target_shape(rows: impl Iterator<Item = Vec<usize>>, padding: &Padding) -> Result<Vec<usize>> {
    let mut target: Option<Vec<usize>> = None;
    for shape in rows {
        let longest = target.get_or_insert_with(|| vec![0; shape.len()]);
        if longest.len() != shape.len() {
            return Err(Error::new(
                Code::ShapeMismatch,
                "all elements in a batch must have the same rank as the padded shape",
            )
            .because(format!("one has {} dimensions, another {}", longest.len(), shape.len())));
        }
        longest.iter_mut().zip(shape).for_each(|(longest, extent)| *longest = extent.max(*longest));
    }
    let mut target = target.unwrap_or_default();
    let Some(wanted) = &padding.shape else { return Ok(target) };
    if wanted.len() != target.len() {
        return Err(Error::new(
            Code::ShapeMismatch,
            "all elements in a batch must have the same rank as the padded shape",
        )
        .because(format!("elements have {} dimensions, the padded shape {}", target.len(), wanted.len())));
    }
    for (extent, wanted) in target.iter_mut().zip(wanted) {
        let Some(wanted) = *wanted else { continue };
        if *extent > wanted {
            return Err(Error::new(Code::ShapeMismatch, "attempted to pad to a smaller size than the input element")
                .because(format!("an element has {extent}, the padded shape {wanted}"))
                .help("give a larger shape, None for the longest, or cut the elements with map"));
        }
        *extent = wanted;
    }
    Ok(target)
}

/// Appends one row of shape `from`, filled up to shape `to`; false when types differ.
fn copy_padded(
    values: &mut Values,
    part: &Column,
    range: std::ops::Range<usize>,
    from: &[usize],
    to: &[usize],
    fill: &Values,
) -> bool {
    let (Some((&have, from_rest)), Some((&want, to_rest))) = (from.split_first(), to.split_first()) else {
        return values.extend_from(part.buffer(), range);
    };
    let inner: usize = from_rest.iter().product();
    let same = if from_rest == to_rest {
        values.extend_from(part.buffer(), range)
    } else {
        (0..have).all(|index| {
            let start = range.start + index * inner;
            copy_padded(values, part, start..start + inner, from_rest, to_rest, fill)
        })
    };
    let missing = (want - have) * to_rest.iter().product::<usize>();
    same && (0..missing).all(|_| values.extend_from(fill, 0..1))
}

impl Dataset {
    /// Joins every `size` rows into a dense batch; ragged rows, and rows of different shapes, are filled up.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column, Dataset, Padding};
    /// let lists = Column::i64(vec![1, 2, 3]).with_splits(vec![0, 1, 3])?;
    /// let data = Dataset::from_tensor_slices(Batch::new([("ids", lists)])?);
    /// let batch = data.padded_batch(2, [("ids", Padding::default().with_i64(-1))], false).iter()?.next().unwrap()?;
    /// assert_eq!(batch.column("ids")?.row_shape(), [2]);
    /// assert_eq!(batch.i64("ids")?, [1, -1, 2, 3]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn padded_batch<N: Into<String>>(
        self,
        size: usize,
        paddings: impl IntoIterator<Item = (N, Padding)>,
        drop_remainder: bool,
    ) -> Self {
        if size == 0 {
            return Self::broken(size_error("padded_batch"));
        }
        if self.node().kind() == ElementKind::Batches {
            return Self::broken(
                Error::new(Code::BadSetting, "padded_batch takes rows, not batches")
                    .at("padded_batch after batch")
                    .help("use padded_batch in place of batch"),
            );
        }
        let paddings = paddings.into_iter().map(|(name, padding)| (name.into(), padding)).collect();
        self.then(PaddedOp { size, drop_remainder, paddings })
    }
}

//! Columns while rows are read into them.
//!
//! Hot: a field goes straight from the file's text into its column's buffer.

use super::number::{parse_f32, parse_i64};
use super::options::CsvOptions;
use super::plan::Wanted;
use crate::missing::Fill;
use crate::{Column, DType, Strings};

/// One column under way.
pub(super) struct Builder {
    values: Buffer,
    trim: bool,
}

enum Buffer {
    F32 { values: Vec<f32>, default: Option<f32> },
    I64 { values: Vec<i64>, default: Option<i64> },
    Bytes { offsets: Vec<usize>, data: Vec<u8>, default: Option<Vec<u8>> },
}

/// Why a field is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is empty and has no default.
    Missing,
    /// It is no value of this type.
    Type(DType),
}

impl Builder {
    pub(super) fn new(wanted: &Wanted, trim: bool) -> Self {
        let values = match (wanted.dtype, &wanted.fill) {
            (DType::F32, Some(Fill::F32(fill))) => Buffer::F32 { values: Vec::new(), default: Some(*fill) },
            (DType::F32, _) => Buffer::F32 { values: Vec::new(), default: None },
            (DType::I64 | DType::U8, Some(Fill::I64(fill))) => Buffer::I64 { values: Vec::new(), default: Some(*fill) },
            (DType::I64 | DType::U8, _) => Buffer::I64 { values: Vec::new(), default: None },
            (DType::Bytes, fill) => {
                let default = match fill {
                    Some(Fill::Bytes(fill)) => Some(fill.clone()),
                    _ => None,
                };
                Buffer::Bytes { offsets: vec![0], data: Vec::new(), default }
            }
        };
        Self { values, trim }
    }

    /// Takes a field as the next row's value.
    #[inline]
    pub(super) fn push(&mut self, field: &[u8], na: &[Vec<u8>]) -> Result<(), Refused> {
        let field = if self.trim { field.trim_ascii() } else { field };
        let missing = CsvOptions::is_missing(na, field);
        match &mut self.values {
            Buffer::I64 { values, default } => {
                let value = if missing {
                    default.ok_or(Refused::Missing)?
                } else {
                    parse_i64(field).ok_or(Refused::Type(DType::I64))?
                };
                values.push(value);
            }
            Buffer::F32 { values, default } => {
                let value = if missing {
                    default.ok_or(Refused::Missing)?
                } else {
                    parse_f32(field).ok_or(Refused::Type(DType::F32))?
                };
                values.push(value);
            }
            Buffer::Bytes { offsets, data, default } => {
                if missing {
                    data.extend_from_slice(default.as_ref().ok_or(Refused::Missing)?);
                } else {
                    data.extend_from_slice(field);
                }
                offsets.push(data.len());
            }
        }
        Ok(())
    }

    /// Forgets all but the first `rows` rows.
    pub(super) fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Buffer::F32 { values, .. } => values.truncate(rows),
            Buffer::I64 { values, .. } => values.truncate(rows),
            Buffer::Bytes { offsets, data, .. } => {
                offsets.truncate(rows + 1);
                data.truncate(offsets[offsets.len() - 1]);
            }
        }
    }

    /// The rows so far as a column; leaves room for as many again.
    pub(super) fn take(&mut self) -> Column {
        match &mut self.values {
            Buffer::F32 { values, .. } => Column::f32(successor(values)),
            Buffer::I64 { values, .. } => Column::i64(successor(values)),
            Buffer::Bytes { offsets, data, .. } => {
                let (taken, data) = (successor(offsets), successor(data));
                offsets.push(0);
                // They describe each other, so this is always there.
                Column::bytes(Strings::from_parts(taken, data).unwrap_or_default())
            }
        }
    }
}

/// Takes the vector and leaves an empty one of its size.
fn successor<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len());
    std::mem::replace(values, next)
}

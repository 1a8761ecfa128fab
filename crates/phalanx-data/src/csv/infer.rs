//! Types from the first rows, as TensorFlow's `make_csv_dataset` finds them.
//!
//! Whole numbers make an int64 column (TensorFlow: int32 where they fit), other finite numbers a float32 one (also where
//! TensorFlow would take float64), anything else a string; empty fields say nothing, and a column of nothing else is a
//! string. Spaces around a number do not count.

use super::number::{parse_f32, parse_i64};
use super::options::CsvOptions;
use super::scan::{Found, Scan};
use crate::DType;
use phalanx_base::{Code, Error, Result};

/// The type of every field, from the first rows of all files together.
pub(super) fn types(files: &[String], names: &[String], options: &CsvOptions) -> Result<Vec<DType>> {
    let mut types = Types { found: vec![None; names.len()], row: Vec::new() };
    let (mut rows, mut refused) = (0, false);
    for path in files {
        if rows == options.infer_rows {
            break;
        }
        let mut scan = Scan::open(path, options)?;
        // A file that is not like the first is refused when it is read; it has no say here.
        if options.header && !scan.header().is_ok_and(|header| header == names || options.names.is_some()) {
            continue;
        }
        while rows < options.infer_rows {
            let each = |types: &mut Types, field: usize, bytes: &[u8]| types.see(field, bytes, options);
            match scan.row(names.len() > 1, &mut types, each, |types| types.row.clear())? {
                Found::Row { fields, .. } if fields == names.len() => {
                    types.accept();
                    rows += 1;
                }
                // What is wrong with these is said, or counted, when they are read.
                Found::Row { .. } | Found::Broken { .. } => {
                    types.row.clear();
                    refused = true;
                }
                Found::End => break,
            }
        }
    }
    if rows == 0 && !refused {
        return Err(Error::new(Code::DataFormat, "there are no rows to find types from")
            .at(files.join(", "))
            .help("give every column's type, or add data"));
    }
    Ok(types.found.into_iter().map(|found| found.unwrap_or(DType::Bytes)).collect())
}

struct Types {
    found: Vec<Option<DType>>,
    /// What the row under way says.
    row: Vec<Option<DType>>,
}

impl Types {
    fn see(&mut self, field: usize, bytes: &[u8], options: &CsvOptions) {
        let bytes = if options.trim { bytes.trim_ascii() } else { bytes };
        let before = self.found.get(field).copied().flatten();
        self.row.push(if CsvOptions::is_missing(&options.na, bytes) { before } else { Some(widen(before, bytes)) });
    }

    fn accept(&mut self) {
        self.found.copy_from_slice(&self.row);
        self.row.clear();
    }
}

fn widen(before: Option<DType>, bytes: &[u8]) -> DType {
    match before {
        None | Some(DType::I64) if parse_i64(bytes).is_some() => DType::I64,
        None | Some(DType::I64 | DType::F32) if is_finite(bytes) => DType::F32,
        _ => DType::Bytes,
    }
}

/// "nan" and "inf" are words until somebody says that the column holds floats.
fn is_finite(bytes: &[u8]) -> bool {
    parse_f32(bytes).is_some() && bytes.iter().any(u8::is_ascii_digit)
}

//! What is read from each row: decided once for all files, before the first of them is read.

use super::options::{CsvOptions, Given};
use super::{infer, scan::Scan};
use crate::batch::no_column;
use crate::missing::{Fill, MissingRule};
use crate::{DType, Schema};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// One column that is read.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) field: usize,
    pub(super) dtype: DType,
    /// What a missing value becomes; `None` if it is an error.
    pub(super) fill: Option<Fill>,
}

/// Everything a reader of one of the files has to know.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) files: Vec<String>,
    pub(super) options: CsvOptions,
    /// The names of all fields of a row.
    pub(super) names: Vec<String>,
    /// In the order of the fields.
    pub(super) wanted: Vec<Wanted>,
    pub(super) schema: Arc<Schema>,
}

impl Plan {
    /// Looks at the first file's header, and at the first rows where types are not given.
    pub(super) fn new(files: Vec<String>, options: CsvOptions) -> Result<Self> {
        let names = match &options.names {
            Some(names) => names.clone(),
            None if options.header => Scan::open(&files[0], &options)?.header()?,
            None => {
                return Err(Error::new(Code::BadSetting, "the columns of the CSV have no names")
                    .because("it has no header, and no names are given")
                    .help("give a name for every column (`names`)"));
            }
        };
        check_unique(&names, &files[0])?;
        for name in options.named() {
            index_of(&names, name, &files[0])?;
        }
        let fields = selected(&names, &options, &files[0])?;
        let open =
            |field: &usize| !options.columns.iter().any(|(name, given)| *name == names[*field] && given.is_typed());
        let types = if fields.iter().any(open) { infer::types(&files, &names, &options)? } else { Vec::new() };
        let mut wanted = Vec::with_capacity(fields.len());
        for field in fields {
            let inferred = types.get(field).copied().unwrap_or(DType::Bytes);
            let (dtype, fill) = resolve(&names[field], inferred, &options)?;
            wanted.push(Wanted { name: names[field].clone(), field, dtype, fill });
        }
        let mut schema = Schema::new(wanted.iter().map(|wanted| wanted.name.as_str()))?;
        if let Some(label) = &options.label {
            schema = schema.with_label(label)?;
        }
        Ok(Self { files, options, names, wanted, schema: Arc::new(schema) })
    }
}

/// The type of a column and the value of missing fields, from all that was said about it.
fn resolve(name: &str, inferred: DType, options: &CsvOptions) -> Result<(DType, Option<Fill>)> {
    let about = || options.columns.iter().filter(|(about, _)| about == name).map(|(_, given)| given);
    let default = about().find_map(|given| match given {
        Given::Default(default) => Some(default),
        _ => None,
    });
    let typed = about().find_map(|given| match given {
        Given::Type(dtype) => Some(*dtype),
        _ => None,
    });
    let dtype = typed.or(default.map(Fill::dtype)).unwrap_or(inferred);
    if dtype == DType::U8 {
        return Err(Error::new(Code::BadSetting, format!("column {name:?} cannot be uint8"))
            .help("a CSV column is float32, int64 or string"));
    }
    let required = about().any(|given| matches!(given, Given::Required));
    let rule = MissingRule { default, required, is_label: options.label.as_deref() == Some(name) };
    Ok((dtype, rule.fill(name, dtype)?))
}

/// The fields to read, in the order of the file; the label is always one of them.
fn selected(names: &[String], options: &CsvOptions, file: &str) -> Result<Vec<usize>> {
    let Some(select) = &options.select else { return Ok((0..names.len()).collect()) };
    let mut fields = Vec::with_capacity(select.len() + 1);
    for name in select.iter().chain(&options.label) {
        fields.push(index_of(names, name, file)?);
    }
    fields.sort_unstable();
    fields.dedup();
    if fields.is_empty() {
        return Err(Error::new(Code::BadSetting, "no column of the CSV is selected"));
    }
    Ok(fields)
}

fn index_of(names: &[String], name: &str, file: &str) -> Result<usize> {
    let missing = || {
        let error = no_column("column", name, names.iter().map(String::as_str)).at(file);
        match names {
            [header] if likely_delimiter(header.as_bytes(), 2..).is_some() => {
                let delimiter = likely_delimiter(header.as_bytes(), 2..).unwrap_or_default();
                error.help(format!("the header is one field: set the delimiter to {delimiter:?}"))
            }
            _ => error,
        }
    };
    names.iter().position(|known| known == name).ok_or_else(missing)
}

/// The separators of common files.
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];

/// The separator that divides a line into a number of fields in `wanted`, if one does.
pub(super) fn likely_delimiter(line: &[u8], wanted: impl std::ops::RangeBounds<usize>) -> Option<char> {
    let fields = |delimiter: char| line.iter().filter(|&&byte| char::from(byte) == delimiter).count() + 1;
    DELIMITERS.into_iter().find(|&delimiter| wanted.contains(&fields(delimiter)))
}

fn check_unique(names: &[String], file: &str) -> Result<()> {
    for (at, name) in names.iter().enumerate() {
        if let Some(first) = names[..at].iter().position(|before| before == name) {
            return Err(Error::new(Code::DataColumn, format!("two columns are named {name:?}"))
                .at(file)
                .because(format!("fields {} and {} of the header are the same", first + 1, at + 1))
                .help("give other names (`names`); the header is then skipped"));
        }
    }
    Ok(())
}

//! What is read from each row: decided once for all files, before the first of them is read.

use super::options::{CsvOptions, Given};
use super::{infer, scan::Scan};
use crate::batch::no_column;
use crate::{DType, Schema};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// What a missing value becomes; `None` where the value must be there. Also says the column's type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Default {
    F32(Option<f32>),
    I64(Option<i64>),
    Bytes(Option<Vec<u8>>),
}

/// One column that is read.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) field: usize,
    pub(super) default: Default,
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
                    .help("give them with .names([…])"));
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
            let default = resolve(&names[field], inferred, &options)?;
            wanted.push(Wanted { name: names[field].clone(), field, default });
        }
        let mut schema = Schema::new(wanted.iter().map(|wanted| wanted.name.as_str()))?;
        if let Some(label) = &options.label {
            schema = schema.with_label(label)?;
        }
        Ok(Self { files, options, names, wanted, schema: Arc::new(schema) })
    }
}

/// The type and default of a column from all that was said about it.
fn resolve(name: &str, inferred: DType, options: &CsvOptions) -> Result<Default> {
    let about = || options.columns.iter().filter(|(about, _)| about == name).map(|(_, given)| given);
    let mut default = about().find_map(|given| match given {
        Given::Default(default) => Some(default.clone()),
        _ => None,
    });
    let typed = about().find_map(|given| match given {
        Given::Type(dtype) => Some(*dtype),
        _ => None,
    });
    let dtype = typed.unwrap_or(match &default {
        Some(default) => default.dtype(),
        None => inferred,
    });
    if let Some(given) = &default
        && given.dtype() != dtype
    {
        // A whole number is a fine default for floats.
        match (given, dtype) {
            (Default::I64(Some(value)), DType::F32) => default = Some(Default::F32(Some(*value as f32))),
            _ => {
                return Err(Error::new(Code::BadSetting, format!("the default of column {name:?} has the wrong type"))
                    .because(format!("the column is {dtype}, its default {}", given.dtype())));
            }
        }
    }
    let required = about().any(|given| matches!(given, Given::Required));
    Ok(match dtype {
        _ if required && default.is_some() => {
            return Err(Error::new(Code::BadSetting, format!("column {name:?} is required and has a default"))
                .help("it can be one of the two"));
        }
        DType::F32 => default.unwrap_or(Default::F32((!required).then_some(0.0))),
        DType::I64 => default.unwrap_or(Default::I64((!required).then_some(0))),
        DType::Bytes => default.unwrap_or(Default::Bytes((!required).then(Vec::new))),
        DType::U8 => {
            return Err(Error::new(Code::BadSetting, format!("column {name:?} cannot be uint8"))
                .help("a CSV column is float32, int64 or string"));
        }
    })
}

impl Default {
    pub(super) fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::I64(_) => DType::I64,
            Self::Bytes(_) => DType::Bytes,
        }
    }
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
    let missing = || no_column("column", name, names.iter().map(String::as_str)).at(file);
    names.iter().position(|known| known == name).ok_or_else(missing)
}

fn check_unique(names: &[String], file: &str) -> Result<()> {
    for (at, name) in names.iter().enumerate() {
        if let Some(first) = names[..at].iter().position(|before| before == name) {
            return Err(Error::new(Code::DataColumn, format!("two columns are named {name:?}"))
                .at(file)
                .because(format!("fields {} and {} of the header are the same", first + 1, at + 1))
                .help("give other names with .names([…]); the header is then skipped"));
        }
    }
    Ok(())
}

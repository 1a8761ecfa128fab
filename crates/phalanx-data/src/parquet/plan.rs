//! Which columns are read, and what they become.

use crate::DType;
use crate::batch::no_column;
use arrow_schema::{DataType, Field, SchemaRef};
use phalanx_base::{Code, Error, Result};

/// One column that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) ragged: bool,
    pub(super) required: bool,
}

/// The options of the columns.
#[derive(Clone, Debug)]
pub(super) struct ParquetOptions {
    pub(super) select: Option<Vec<String>>,
    pub(super) label: Option<String>,
    pub(super) required: Vec<String>,
    pub(super) decode_bytes: usize,
}

impl Default for ParquetOptions {
    fn default() -> Self {
        Self { select: None, label: None, required: Vec::new(), decode_bytes: 32 << 20 }
    }
}

/// The columns to read from a file of this schema, in the file's order.
pub(super) fn wanted(schema: &SchemaRef, options: &ParquetOptions, path: &str) -> Result<Vec<Wanted>> {
    let named = options.select.iter().flatten().chain(&options.label).chain(&options.required);
    for name in named {
        if schema.column_with_name(name).is_none() {
            return Err(no_column("column", name, schema.fields().iter().map(|field| field.name().as_str())).at(path));
        }
    }
    let selected = |name: &String| match &options.select {
        Some(select) => select.contains(name) || options.label.as_ref() == Some(name),
        None => true,
    };
    let fields = schema.fields().iter().filter(|field| selected(field.name()));
    fields.map(|field| describe(field, options, path)).collect()
}

fn describe(field: &Field, options: &ParquetOptions, path: &str) -> Result<Wanted> {
    let (item, ragged) = match field.data_type() {
        DataType::List(item) => (item.data_type(), true),
        other => (other, false),
    };
    let Some(dtype) = dtype(item) else {
        return Err(Error::new(Code::DataColumn, format!("column {:?} cannot be read", field.name()))
            .at(path)
            .because(format!("its type is {}", field.data_type()))
            .help("leave it out with .select([…]), or write it as numbers, strings or lists of them"));
    };
    let required = options.required.contains(field.name());
    Ok(Wanted { name: field.name().clone(), dtype, ragged, required })
}

fn dtype(data_type: &DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Float32 | DataType::Float64 => DType::F32,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => DType::I64,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => DType::I64,
        DataType::Boolean | DataType::Date32 | DataType::Date64 => DType::I64,
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => DType::I64,
        DataType::Utf8 | DataType::Binary | DataType::FixedSizeBinary(_) => DType::Bytes,
        _ => return None,
    })
}

/// Says how a file's columns differ from those of the first one.
pub(super) fn check_same(first: &[Wanted], found: &[Wanted], first_path: &str, path: &str) -> Result<()> {
    if first == found {
        return Ok(());
    }
    let show =
        |column: &Wanted| format!("{:?} {}{}", column.name, if column.ragged { "list of " } else { "" }, column.dtype);
    let other = |columns: &[Wanted], of: &[Wanted]| {
        columns.iter().filter(|column| !of.contains(column)).map(show).collect::<Vec<_>>().join(", ")
    };
    let why = match (other(first, found), other(found, first)) {
        (a, b) if a.is_empty() && b.is_empty() => "they are in another order".to_owned(),
        (a, b) => format!("there: {}; here: {}", or_nothing(a), or_nothing(b)),
    };
    Err(Error::new(Code::DataColumn, format!("{path:?} has other columns than {first_path:?}"))
        .because(why)
        .help("select columns that all files have alike, or read the files on their own"))
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { "nothing else".to_owned() } else { text }
}

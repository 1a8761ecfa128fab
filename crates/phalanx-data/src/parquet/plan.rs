//! Which columns are read, and what they become.

use arrow_schema::{DataType, Field, SchemaRef};
use phalanx_base::{Code, Error, Result, nearest};

use crate::DType;

/// One column that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) ragged: bool,
    pub(super) required: bool,
}

/// What was said about the columns.
#[derive(Clone, Debug)]
pub(super) struct Wishes {
    pub(super) select: Option<Vec<String>>,
    pub(super) label: Option<String>,
    pub(super) required: Vec<String>,
    pub(super) decode_bytes: usize,
}

impl Default for Wishes {
    fn default() -> Self {
        Self { select: None, label: None, required: Vec::new(), decode_bytes: 32 << 20 }
    }
}

/// The columns to read from a file of this schema, in the file's order.
pub(super) fn wanted(schema: &SchemaRef, wishes: &Wishes, path: &str) -> Result<Vec<Wanted>> {
    let named = wishes.select.iter().flatten().chain(&wishes.label).chain(&wishes.required);
    for name in named {
        if schema.column_with_name(name).is_none() {
            return Err(missing(name, schema, path));
        }
    }
    let selected = |name: &String| match &wishes.select {
        Some(select) => select.contains(name) || wishes.label.as_ref() == Some(name),
        None => true,
    };
    let fields = schema.fields().iter().filter(|field| selected(field.name()));
    fields.map(|field| describe(field, wishes, path)).collect()
}

fn describe(field: &Field, wishes: &Wishes, path: &str) -> Result<Wanted> {
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
    let required = wishes.required.contains(field.name());
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

fn missing(name: &str, schema: &SchemaRef, path: &str) -> Error {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let shown = names.iter().take(24).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 24 { format!(" and {} more", names.len() - 24) } else { String::new() };
    let error = Error::new(Code::DataColumn, format!("there is no column {name:?}"))
        .at(path)
        .because(format!("the columns are {shown}{more}"));
    match nearest(name, names) {
        Some(near) => error.help(format!("did you mean {near:?}?")),
        None => error.help("use one of these names"),
    }
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

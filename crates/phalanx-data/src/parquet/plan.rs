//! Which columns are read, and what they become.

use crate::batch::no_column;
use crate::missing::{Fill, MissingRule};
use crate::{BadRows, DType, NonFiniteValues};
use arrow_schema::{DataType, Field, SchemaRef};
use phalanx_base::{Code, Error, Result};

/// One column that is read.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) ragged: bool,
    /// The number of values of a row, if every row has a list of as many.
    pub(crate) width: Option<usize>,
    /// What a null becomes; `None` if it is an error.
    pub(crate) fill: Option<Fill>,
    /// Whether the default was given, so that it also replaces a missing list.
    pub(crate) has_default: bool,
    /// Whether integers of the file are read as floats.
    pub(crate) as_float: bool,
    pub(crate) is_label: bool,
}

impl Wanted {
    /// Whether two files have the same column.
    fn same(&self, other: &Self) -> bool {
        (&self.name, self.dtype, self.ragged, self.width) == (&other.name, other.dtype, other.ragged, other.width)
    }
}

/// The options of the columns.
#[derive(Clone, Debug)]
pub(crate) struct ParquetOptions {
    pub(crate) select: Option<Vec<String>>,
    pub(crate) label: Option<String>,
    pub(crate) required: Vec<String>,
    pub(crate) defaults: Vec<(String, Fill)>,
    pub(crate) bad_rows: BadRows,
    pub(crate) non_finite: NonFiniteValues,
    pub(crate) decode_bytes: usize,
}

impl ParquetOptions {
    /// Returns the columns whose default is NaN: there, NaN marks a missing value.
    pub(crate) fn nan_is_missing(&self) -> Vec<String> {
        let is_nan = |fill: &Fill| matches!(fill, Fill::F32(value) if value.is_nan());
        self.defaults.iter().filter(|(_, fill)| is_nan(fill)).map(|(name, _)| name.clone()).collect()
    }
}

impl Default for ParquetOptions {
    fn default() -> Self {
        Self {
            select: None,
            label: None,
            required: Vec::new(),
            defaults: Vec::new(),
            bad_rows: BadRows::stop(),
            non_finite: NonFiniteValues::fail(),
            decode_bytes: 32 << 20,
        }
    }
}

/// The columns to read from a file of this schema, in the file's order.
pub(crate) fn wanted(schema: &SchemaRef, options: &ParquetOptions, path: &str) -> Result<Vec<Wanted>> {
    let named = options.select.iter().flatten().chain(&options.label).chain(&options.required);
    for name in named.chain(options.defaults.iter().map(|(name, _)| name)) {
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
    let (item, ragged, width) = match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) => (item.data_type(), true, None),
        DataType::FixedSizeList(item, width) if *width > 0 => (item.data_type(), false, usize::try_from(*width).ok()),
        other => (other, false, None),
    };
    let Some(dtype) = dtype(item) else {
        return Err(Error::new(Code::DataColumn, format!("column {:?} cannot be read", field.name()))
            .at(path)
            .because(format!("its type is {}", field.data_type()))
            .help("leave the column out, or write it as numbers, strings or lists of them"));
    };
    let name = field.name();
    let default = options.defaults.iter().find(|(known, _)| known == name).map(|(_, fill)| fill);
    // Integers whose default is no integer are read as floats.
    let as_float = dtype == DType::I64 && matches!(default, Some(Fill::F32(value)) if value.fract() != 0.0);
    let dtype = if as_float { DType::F32 } else { dtype };
    let is_label = options.label.as_ref() == Some(name);
    let rule = MissingRule { default, required: options.required.contains(name), is_label };
    let fill = rule.fill(name, dtype).map_err(|error| error.at(path))?;
    Ok(Wanted { name: name.clone(), dtype, ragged, width, fill, has_default: default.is_some(), as_float, is_label })
}

fn dtype(data_type: &DataType) -> Option<DType> {
    Some(match data_type {
        DataType::Float32 | DataType::Float64 => DType::F32,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => DType::I64,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => DType::I64,
        DataType::Boolean | DataType::Date32 | DataType::Date64 => DType::I64,
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => DType::I64,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DType::Bytes,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DType::Bytes,
        DataType::Dictionary(_, words) => match **words {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DType::Bytes,
            _ => return None,
        },
        _ => return None,
    })
}

/// Says how a file's columns differ from those of the first one.
pub(crate) fn check_same(first: &[Wanted], found: &[Wanted], first_path: &str, path: &str) -> Result<()> {
    if first.len() == found.len() && first.iter().zip(found).all(|(a, b)| a.same(b)) {
        return Ok(());
    }
    let show =
        |column: &Wanted| format!("{:?} {}{}", column.name, if column.ragged { "list of " } else { "" }, column.dtype);
    let other = |columns: &[Wanted], of: &[Wanted]| {
        columns
            .iter()
            .filter(|column| !of.iter().any(|known| known.same(column)))
            .map(show)
            .collect::<Vec<_>>()
            .join(", ")
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

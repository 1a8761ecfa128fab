//! The table `[data]`: files and their format.

use crate::row_source::NonFinite;
use crate::schema::{DATA, DTYPES};
use crate::section::Section;
use crate::selection::Selection;
use crate::source::{Source, Spanned};
use crate::tree::{Node, TomlValue};
use phalanx_base::Result;
use phalanx_data::{DType, FeatureKind, FeatureSpec};

/// The format of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    Parquet,
    TfRecord,
}

/// A default for missing values.
#[derive(Clone, Debug)]
pub(crate) enum Missing {
    Integer(i64),
    Number(f64),
    Text(String),
}

/// `[data]`.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) format: Format,
    pub(crate) dir: Option<Spanned<String>>,
    pub(crate) train: Spanned<Vec<String>>,
    pub(crate) eval: Spanned<Vec<String>>,
    pub(crate) label: Spanned<String>,
    pub(crate) types: Vec<(Spanned<String>, DType)>,
    pub(crate) defaults: Vec<(Spanned<String>, Missing)>,
    pub(crate) required: Vec<Spanned<String>>,
    pub(crate) names: Option<Spanned<Vec<String>>>,
    pub(crate) cycle: usize,
    pub(crate) skip: u64,
    pub(crate) non_finite: NonFinite,
    pub(crate) header: bool,
    pub(crate) delimiter: Option<u8>,
    pub(crate) quotes: bool,
    pub(crate) trim: bool,
    pub(crate) na: Vec<String>,
    pub(crate) comment: Option<u8>,
    pub(crate) selection: Selection,
}

/// The keys that only apply to CSV.
const OF_CSV: [&str; 7] = ["header", "names", "delimiter", "quotes", "trim", "na_value", "comment"];

impl Data {
    pub(crate) fn read(source: &Source, node: &Node) -> Result<Self> {
        let own = Section::open(source, "[data]", DATA, node)?;
        let formats = [("csv", Format::Csv), ("parquet", Format::Parquet), ("tfrecord", Format::TfRecord)];
        let format = own.choice("format", &formats)?.map_or(Format::Csv, |format| format.value);
        let foreign = |key: &&&str| format != Format::Csv && own.span_of(key) != own.span;
        if let Some(key) = OF_CSV.iter().find(foreign) {
            let what = format!("`{key}` only applies to CSV files");
            let error = own.wrong(&own.span_of(key), what, "has no effect on this format");
            return Err(error.help("leave it out, or set format = \"csv\""));
        }
        let plain = |list: Spanned<Vec<Spanned<String>>>| {
            list.map(|texts| texts.into_iter().map(|text| text.value).collect::<Vec<_>>())
        };
        let train = plain(own.one_or_more("train")?.ok_or_else(|| own.missing("train"))?);
        let selection = Selection::read(&own)?;
        let eval = match (own.one_or_more("eval")?, &selection.split) {
            (Some(files), None) => plain(files),
            (None, Some(_)) => train.clone(),
            (None, None) => {
                return Err(own.missing("eval").help("add `eval` with files, or `split` to divide `train`"));
            }
            (Some(_), Some(_)) => {
                let what = "evaluation has its own files, or a part of the training files, not both";
                let error = own.wrong(&own.span_of("split"), what, "together with `eval`");
                return Err(error.help("leave `eval` or `split` out"));
            }
        };
        let non_finite = [("error", NonFinite::Error), ("skip", NonFinite::Skip), ("zero", NonFinite::Zero)];
        let data = Self {
            format,
            dir: own.text("dir")?,
            train,
            eval,
            label: own.need_text("label")?,
            types: types(&own)?,
            defaults: defaults(&own)?,
            required: own.texts("required")?.map_or_else(Vec::new, |list| list.value),
            names: own.texts("names")?.map(plain),
            selection,
            cycle: own.plain_count("read_at_once", 1)?.unwrap_or(1) as usize,
            skip: own.plain_count("skip_bad_rows", 0)?.unwrap_or(0),
            non_finite: own.choice("non_finite", &non_finite)?.map_or(NonFinite::Error, |choice| choice.value),
            header: own.boolean("header")?.unwrap_or(true),
            delimiter: byte(&own, "delimiter")?,
            quotes: own.boolean("quotes")?.unwrap_or(true),
            trim: own.boolean("trim")?.unwrap_or(false),
            na: own.one_or_more("na_value")?.map_or_else(Vec::new, |texts| plain(texts).value),
            comment: byte(&own, "comment")?,
        };
        if format == Format::Csv && !data.header && data.names.is_none() {
            let error = own.wrong(&own.span_of("header"), "the columns of the CSV have no names", "no header");
            return Err(error.help("give their names: names = [\"age\", …]"));
        }
        own.close();
        Ok(data)
    }

    /// The type that an input is read as: from the file, or else from its columns.
    pub(crate) fn type_of(&self, spec: &FeatureSpec) -> DType {
        let given = self.types.iter().find(|(name, _)| name.value == spec.name);
        given.map_or_else(|| dtype(spec.kind), |(_, dtype)| *dtype)
    }
}

pub(crate) fn dtype(kind: FeatureKind) -> DType {
    match kind {
        FeatureKind::F32 => DType::F32,
        FeatureKind::I64 => DType::I64,
        FeatureKind::Bytes => DType::Bytes,
    }
}

fn byte(own: &Section<'_>, key: &'static str) -> Result<Option<u8>> {
    let Some(text) = own.text(key)? else { return Ok(None) };
    match text.value.as_bytes() {
        [byte] => Ok(Some(*byte)),
        _ => {
            let what = format!("`{key}` is {:?}", text.value);
            Err(own.wrong(&own.span_of(key), what, "not one character").help("give one ASCII character, such as \";\""))
        }
    }
}

fn types(own: &Section<'_>) -> Result<Vec<(Spanned<String>, DType)>> {
    let entries = own.table("types")?.unwrap_or_default();
    let read = |entry: &crate::tree::Entry| {
        let word = own.as_text("types", &entry.node)?;
        let dtype = match word.value.as_str() {
            "float32" => DType::F32,
            "int64" => DType::I64,
            "string" => DType::Bytes,
            _ => return Err(own.no_such("types", &word, DTYPES.to_vec())),
        };
        Ok((Spanned::new(entry.key.clone(), &entry.key_span), dtype))
    };
    entries.iter().map(read).collect()
}

fn defaults(own: &Section<'_>) -> Result<Vec<(Spanned<String>, Missing)>> {
    let entries = own.table("defaults")?.unwrap_or_default();
    let read = |entry: &crate::tree::Entry| {
        let value = match &entry.node.value {
            TomlValue::Integer(number) => Missing::Integer(*number),
            TomlValue::Number(number) if number.is_finite() => Missing::Number(*number),
            TomlValue::Number(number) => {
                let what = format!("the default of \"{}\" is {number}", entry.key);
                return Err(own.wrong(&entry.node.span, what, "not a finite number").help("give a finite number"));
            }
            TomlValue::Text(text) => Missing::Text(text.clone()),
            _ => return Err(own.not("defaults", &entry.node, "a number or a text")),
        };
        Ok((Spanned::new(entry.key.clone(), &entry.key_span), value))
    };
    entries.iter().map(read).collect()
}

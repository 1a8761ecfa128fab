//! The files of a job and how they are read.

use crate::schema::{DATA, DTYPES};
use crate::section::Section;
use crate::source::{At, Source};
use crate::tree::{Node, Value};
use phalanx_base::Result;
use phalanx_data::{
    BadRows, Csv, CsvDefault, DType, Dataset, FeatureKind, FeatureSpec, Input, Parquet, csv, parquet, tfrecord,
};

/// What files are.
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
    pub(crate) dir: Option<At<String>>,
    pub(crate) train: At<Vec<String>>,
    pub(crate) eval: At<Vec<String>>,
    pub(crate) label: At<String>,
    pub(crate) types: Vec<(At<String>, DType)>,
    pub(crate) defaults: Vec<(At<String>, Missing)>,
    pub(crate) required: Vec<At<String>>,
    pub(crate) names: Option<At<Vec<String>>>,
    cycle: usize,
    skip: u64,
    header: bool,
    delimiter: Option<u8>,
    quotes: bool,
    trim: bool,
    na: Option<String>,
    comment: Option<u8>,
}

/// The keys that only one format knows.
const OF_CSV: [&str; 8] = ["header", "names", "delimiter", "quotes", "trim", "na_value", "comment", "defaults"];

impl Data {
    pub(crate) fn read(source: &Source, node: &Node) -> Result<Self> {
        let own = Section::open(source, "[data]", DATA, node)?;
        let formats = [("csv", Format::Csv), ("parquet", Format::Parquet), ("tfrecord", Format::TfRecord)];
        let format = own.choice("format", &formats)?.map_or(Format::Csv, |format| format.value);
        let foreign = |key: &&&str| format != Format::Csv && own.span_of(key) != own.span;
        if let Some(key) = OF_CSV.iter().find(foreign) {
            let what = format!("`{key}` is about CSV files");
            let error = own.wrong(&own.span_of(key), what, "has no effect on this format");
            return Err(error.help("leave it out, or set format = \"csv\""));
        }
        let files = |key| {
            let found = own.one_or_more(key)?.ok_or_else(|| own.missing(key))?;
            Ok(At { value: found.value.into_iter().map(|file| file.value).collect(), span: found.span })
        };
        let names = own
            .texts("names")?
            .map(|list| At { value: list.value.into_iter().map(|name| name.value).collect(), span: list.span });
        let data = Self {
            format,
            dir: own.text("dir")?,
            train: files("train")?,
            eval: files("eval")?,
            label: own.need_text("label")?,
            types: types(&own)?,
            defaults: defaults(&own)?,
            required: own.texts("required")?.map_or_else(Vec::new, |list| list.value),
            names,
            cycle: own.count("read_at_once", 1)?.map_or(1, |count| count.value as usize),
            skip: own.count("skip_bad_rows", 0)?.map_or(0, |count| count.value),
            header: own.truth("header")?.unwrap_or(true),
            delimiter: byte(&own, "delimiter")?,
            quotes: own.truth("quotes")?.unwrap_or(true),
            trim: own.truth("trim")?.unwrap_or(false),
            na: own.text("na_value")?.map(|text| text.value),
            comment: byte(&own, "comment")?,
        };
        if format == Format::Csv && !data.header && data.names.is_none() {
            let error = own.wrong(&own.span_of("header"), "the columns of the CSV have no names", "no header");
            return Err(error.help("give their names: names = [\"age\", …]"));
        }
        own.close();
        Ok(data)
    }

    /// CSV files, with all that is said about them but which columns are read.
    pub(crate) fn csv(&self, files: Vec<String>) -> Csv {
        let mut csv = csv(files).header(self.header).quotes(self.quotes).trim(self.trim);
        if let Some(names) = &self.names {
            csv = csv.names(names.value.clone());
        }
        if let Some(delimiter) = self.delimiter {
            csv = csv.delimiter(delimiter);
        }
        if let Some(na) = &self.na {
            csv = csv.na_value(na.clone());
        }
        if let Some(comment) = self.comment {
            csv = csv.comment(comment);
        }
        csv
    }

    fn bad_rows(&self) -> BadRows {
        if self.skip == 0 { BadRows::stop() } else { BadRows::skip_at_most(self.skip) }
    }

    /// The rows of files: these features, and a label where one is wanted.
    pub(crate) fn rows(&self, files: Vec<String>, features: &[FeatureSpec], label: Option<&FeatureSpec>) -> Dataset {
        match self.format {
            Format::Csv => self.turns(self.csv_rows(files, features, label)),
            Format::Parquet => self.turns(self.parquet_rows(files, features, label)),
            Format::TfRecord => {
                let examples = tfrecord(files).parse(features.iter().chain(label).cloned().collect::<Vec<_>>());
                let examples = examples.bad_rows(self.bad_rows());
                self.turns(match label {
                    Some(label) => examples.label(label.name.clone()),
                    None => examples,
                })
            }
        }
    }

    fn turns(&self, source: impl Input) -> Dataset {
        if self.cycle > 1 { source.by_turns(self.cycle) } else { source.dataset() }
    }

    fn csv_rows(&self, files: Vec<String>, features: &[FeatureSpec], label: Option<&FeatureSpec>) -> Csv {
        let mut csv = self.csv(files).bad_rows(self.bad_rows());
        let is_read = |name: &str| features.iter().chain(label).any(|spec| spec.name == name);
        for spec in features.iter().chain(label) {
            csv = csv.column(spec.name.clone(), self.type_of(spec));
        }
        for (name, value) in self.defaults.iter().filter(|(name, _)| is_read(&name.value)) {
            let value: CsvDefault = match value {
                Missing::Integer(number) => (*number).into(),
                Missing::Number(number) => (*number).into(),
                Missing::Text(text) => text.as_str().into(),
            };
            csv = csv.default_value(name.value.clone(), value);
        }
        for name in self.required.iter().filter(|name| is_read(&name.value)) {
            csv = csv.required(name.value.clone());
        }
        csv = csv.select(features.iter().map(|spec| spec.name.clone()));
        match label {
            Some(label) => csv.label(label.name.clone()),
            None => csv,
        }
    }

    fn parquet_rows(&self, files: Vec<String>, features: &[FeatureSpec], label: Option<&FeatureSpec>) -> Parquet {
        let is_read = |name: &str| features.iter().chain(label).any(|spec| spec.name == name);
        let mut rows = parquet(files).select(features.iter().map(|spec| spec.name.clone()));
        for name in self.required.iter().filter(|name| is_read(&name.value)) {
            rows = rows.required(name.value.clone());
        }
        match label {
            Some(label) => rows.label(label.name.clone()),
            None => rows,
        }
    }

    /// What an input is read as: what the file says, or what its columns take.
    pub(crate) fn type_of(&self, spec: &FeatureSpec) -> DType {
        let said = self.types.iter().find(|(name, _)| name.value == spec.name);
        said.map_or_else(|| dtype(spec.kind), |(_, dtype)| *dtype)
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

fn types(own: &Section<'_>) -> Result<Vec<(At<String>, DType)>> {
    let entries = own.table("types")?.unwrap_or_default();
    let read = |entry: &crate::tree::Entry| {
        let word = own.as_text("types", &entry.node)?;
        let dtype = match word.value.as_str() {
            "float32" => DType::F32,
            "int64" => DType::I64,
            "string" => DType::Bytes,
            _ => return Err(own.no_such("types", &word, DTYPES.to_vec())),
        };
        Ok((At::new(entry.key.clone(), &entry.key_span), dtype))
    };
    entries.iter().map(read).collect()
}

fn defaults(own: &Section<'_>) -> Result<Vec<(At<String>, Missing)>> {
    let entries = own.table("defaults")?.unwrap_or_default();
    let read = |entry: &crate::tree::Entry| {
        let value = match &entry.node.value {
            Value::Integer(number) => Missing::Integer(*number),
            Value::Number(number) => Missing::Number(*number),
            Value::Text(text) => Missing::Text(text.clone()),
            _ => return Err(own.not("defaults", &entry.node, "a number or a text")),
        };
        Ok((At::new(entry.key.clone(), &entry.key_span), value))
    };
    entries.iter().map(read).collect()
}

//! The table `[columns]`: feature columns by name.

mod settings;

use crate::paths::Paths;
use crate::schema::{COLUMN_KINDS, CROSS_COLUMN};
use crate::section::Section;
use crate::source::{Source, Span, Spanned, meant};
use crate::tree::{Entry, TomlValue};
use phalanx_base::{Code, Result};
use phalanx_feature::{
    CrossKey, FeatureColumn, FeatureStatistics, NumericSource, bucketized_column, categorical_column_with_hash_bucket,
    categorical_column_with_identity, categorical_column_with_vocabulary_file, categorical_column_with_vocabulary_list,
    crossed_column, embedding_column, indicator_column, make_parse_example_spec, numeric_column, quantile_column,
    sequence_categorical_column_with_hash_bucket, sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file, sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column, shared_embeddings, shared_embeddings_named, timestamp_column, weighted_categorical_column,
};
use settings::{buckets, embedded, filed, hash_size, identity, numeric, sorted, timestamp, tokens};
use settings::{with_dtype, with_split, with_unknown};

/// The maximum depth of columns that are derived from columns.
const DEEPEST: usize = 16;

/// A column of the file; shared embeddings are several under one name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) columns: Vec<FeatureColumn>,
    /// The inputs that it reads.
    pub(crate) inputs: Vec<Spanned<String>>,
    /// The position of its name.
    pub(crate) span: Span,
    /// Its vocabulary file.
    pub(crate) file: Option<Spanned<String>>,
}

impl Named {
    /// The column with the statistics that it needs.
    pub(crate) fn adapted(&self, statistics: &FeatureStatistics) -> Result<Self> {
        let columns = self.columns.iter().map(|column| column.adapted(statistics)).collect::<Result<_>>()?;
        Ok(Self { columns, ..self.clone() })
    }
}

/// All columns of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns(Vec<Named>);

impl Columns {
    pub(crate) fn read(source: &Source, paths: &Paths, entries: &[Entry]) -> Result<Self> {
        let mut builder = Builder { source, paths, entries, made: Vec::new(), open: Vec::new() };
        for entry in entries {
            builder.get(&Spanned::new(entry.key.clone(), &entry.key_span))?;
        }
        Ok(Self(builder.made))
    }

    /// The columns with the statistics that they need.
    pub(crate) fn adapted(&self, statistics: &FeatureStatistics) -> Result<Self> {
        Ok(Self(self.0.iter().map(|named| named.adapted(statistics)).collect::<Result<_>>()?))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Named> {
        self.0.iter()
    }

    pub(crate) fn get(&self, source: &Source, name: &Spanned<String>) -> Result<&Named> {
        let found = self.0.iter().find(|named| named.name == name.value);
        found.ok_or_else(|| no_such(source, name, self.0.iter().map(|named| named.name.as_str()).collect()))
    }
}

fn no_such(source: &Source, name: &Spanned<String>, known: Vec<&str>) -> phalanx_base::Error {
    let what = format!("[columns] has no \"{}\"", name.value);
    source.wrong(Code::JobValue, &name.span_or(&(0..0)), what, "no such column").help(meant(&name.value, known))
}

/// Builds columns, starting with those that others derive from.
struct Builder<'a> {
    source: &'a Source,
    paths: &'a Paths,
    entries: &'a [Entry],
    made: Vec<Named>,
    /// The columns being built, to detect one that derives from itself.
    open: Vec<String>,
}

/// A column without its name.
#[derive(Default)]
struct Made {
    columns: Vec<FeatureColumn>,
    inputs: Vec<Spanned<String>>,
    file: Option<Spanned<String>>,
}

impl<'a> Builder<'a> {
    fn get(&mut self, name: &Spanned<String>) -> Result<Named> {
        if let Some(made) = self.made.iter().find(|made| made.name == name.value) {
            return Ok(made.clone());
        }
        let Some(entry) = self.entries.iter().find(|entry| entry.key == name.value) else {
            return Err(no_such(self.source, name, self.entries.iter().map(|entry| entry.key.as_str()).collect()));
        };
        let wrong = |what: String, label: &str| {
            let error = self.source.wrong(Code::JobValue, &name.span_or(&(0..0)), what, label);
            Err(error.help("name a column that reads inputs"))
        };
        if self.open.contains(&name.value) {
            return wrong(format!("column \"{}\" derives from itself", name.value), "leads back to itself");
        }
        if self.open.len() >= DEEPEST {
            return wrong(format!("columns derive from columns more than {DEEPEST} levels deep"), "too deep");
        }
        self.open.push(name.value.clone());
        let made = self.make(entry)?;
        self.open.pop();
        // Checks the column's own rules, without reading files.
        make_parse_example_spec(&made.columns).map_err(|error| {
            self.source.point_with(error, Some(&entry.node.span), "not a valid column", "correct the column")
        })?;
        let Made { columns, inputs, file } = made;
        let named = Named { name: name.value.clone(), columns, inputs, span: entry.key_span.clone(), file };
        self.made.push(named.clone());
        Ok(named)
    }

    fn make(&mut self, entry: &'a Entry) -> Result<Made> {
        let place = format!("column \"{}\"", entry.key);
        let (kind, own) = Section::of_kind(self.source, &place, "kind", COLUMN_KINDS, &entry.node)?;
        own.node("kind");
        let input = match own.may_have("key").then(|| own.text("key")).transpose()?.flatten() {
            Some(key) => key,
            None => Spanned::new(entry.key.clone(), &entry.key_span),
        };
        let key = input.value.clone();
        let mut made = Made { inputs: vec![input], ..Made::default() };
        let column = match kind {
            "numeric" => numeric(&own, numeric_column(key))?,
            "sequence_numeric" => numeric(&own, sequence_numeric_column(key))?,
            "bucketized" => self.bucketized(&own, key, &mut made)?,
            "identity" => identity(&own, categorical_column_with_identity(key, buckets(&own)?))?,
            "sequence_identity" => identity(&own, sequence_categorical_column_with_identity(key, buckets(&own)?))?,
            "hash_bucket" => {
                with_split(&own, with_dtype(&own, categorical_column_with_hash_bucket(key, hash_size(&own)?))?)?
            }
            "sequence_hash_bucket" => {
                let column = sequence_categorical_column_with_hash_bucket(key, hash_size(&own)?);
                with_split(&own, with_dtype(&own, column)?)?
            }
            "timestamp" => {
                let (part, unit) = timestamp(&own)?;
                timestamp_column(key, part, unit)
            }
            "vocabulary_list" => with_unknown(&own, categorical_column_with_vocabulary_list(key, tokens(&own)?))?,
            "sequence_vocabulary_list" => {
                with_unknown(&own, sequence_categorical_column_with_vocabulary_list(key, tokens(&own)?))?
            }
            "vocabulary_file" => {
                let path = self.file(&own, &mut made)?;
                filed(&own, categorical_column_with_vocabulary_file(key, path))?
            }
            "sequence_vocabulary_file" => {
                let path = self.file(&own, &mut made)?;
                filed(&own, sequence_categorical_column_with_vocabulary_file(key, path))?
            }
            "crossed" => self.crossed(&own, &mut made)?,
            "weighted" => {
                let column = self.categorical(&own, &own.need_text("column")?, &mut made)?;
                let weights = own.need_text("weight_key")?;
                made.inputs.push(weights.clone());
                with_dtype(&own, weighted_categorical_column(column, weights.value))?
            }
            "indicator" => indicator_column(self.categorical(&own, &own.need_text("column")?, &mut made)?),
            "embedding" => {
                let column = self.categorical(&own, &own.need_text("column")?, &mut made)?;
                embedded(&own, embedding_column(column, own.need_count("dimension", 1)?.value as usize))?
            }
            _ => {
                made.columns = self.shared(&own, &mut made.inputs)?;
                own.close();
                return Ok(made);
            }
        };
        own.close();
        made.columns = vec![column];
        Ok(made)
    }

    /// Finds a categorical column and replaces the inputs of `made` by its inputs.
    fn categorical(&mut self, own: &Section<'_>, name: &Spanned<String>, made: &mut Made) -> Result<FeatureColumn> {
        let named = self.get(name)?;
        made.inputs = named.inputs.clone();
        match named.columns.as_slice() {
            [column] if column.is_categorical() => Ok(column.clone()),
            _ => {
                let what = format!("column \"{}\" is not categorical", name.value);
                Err(own.wrong(&name.span_or(&own.span), what, "yields no ids").help(
                    "name a column of kind identity, hash_bucket, vocabulary_list, vocabulary_file, bucketized or crossed",
                ))
            }
        }
    }

    fn bucketized(&mut self, own: &Section<'_>, key: String, made: &mut Made) -> Result<FeatureColumn> {
        let source: NumericSource = match own.text("column")? {
            None => key.into(),
            Some(_) if own.node("key").is_some() => {
                let what = "a bucketized column has a `key` or a `column`, not both";
                return Err(own
                    .wrong(&own.span_of("column"), what, "together with `key`")
                    .help("leave one of them out"));
            }
            Some(name) => {
                let named = self.get(&name)?;
                made.inputs = named.inputs.clone();
                named.columns[0].clone().into()
            }
        };
        let boundaries = own.numbers("boundaries")?;
        if let Some(quantiles) = own.count("quantiles", 2)? {
            if boundaries.is_some() {
                let what = "a bucketized column has `boundaries` or `quantiles`, not both";
                let error = own.wrong(&own.span_of("quantiles"), what, "together with `boundaries`");
                return Err(error.help("leave one of them out"));
            }
            return Ok(quantile_column(source, quantiles.value as usize));
        }
        let list = boundaries.ok_or_else(|| own.missing("boundaries"))?;
        let unsorted = list.value.windows(2).find(|pair| pair[0].value >= pair[1].value);
        if let Some([first, second]) = unsorted {
            let what = format!("the boundaries do not increase: {} comes after {}", second.value, first.value);
            return Err(own.wrong(&second.span_or(&own.span), what, "not greater than the one before").help(format!(
                "sort them: boundaries = {:?}",
                sorted(list.value.iter().map(|number| number.value).collect())
            )));
        }
        let boundaries: Vec<f64> = list.value.iter().map(|number| number.value).collect();
        Ok(bucketized_column(source, boundaries))
    }

    fn crossed(&mut self, own: &Section<'_>, made: &mut Made) -> Result<FeatureColumn> {
        let list = own.list("keys")?.ok_or_else(|| own.missing("keys"))?;
        let (mut keys, mut inputs, mut has_input) = (Vec::<CrossKey>::new(), Vec::new(), false);
        for node in list.value {
            match &node.value {
                TomlValue::Text(key) => {
                    inputs.push(Spanned::new(key.clone(), &node.span));
                    keys.push(key.as_str().into());
                    has_input = true;
                }
                TomlValue::Table(_) if has_input => {
                    let what = "in a cross, columns must precede inputs";
                    return Err(own
                        .wrong(&node.span, what, "a column after an input")
                        .because(
                            "TensorFlow hashes columns before dense inputs, but sparse inputs, as in an exported model, in \
                             the order of `keys`: the exported model would use other ids than the trained one",
                        )
                        .help("write the columns first: keys = [{ column = \"…\" }, \"input\"]"));
                }
                TomlValue::Table(_) => {
                    let part = Section::open(own.source, "an item of `keys`", CROSS_COLUMN, node)?;
                    keys.push(self.categorical(&part, &part.need_text("column")?, made)?.into());
                    part.close();
                    inputs.append(&mut made.inputs);
                }
                _ => return Err(own.not("keys", node, "a text, or { column = \"…\" }")),
            }
        }
        made.inputs = inputs;
        Ok(set!(crossed_column(keys, hash_size(own)?), hash_key: own.plain_count("hash_key", 0)?))
    }

    fn shared(&mut self, own: &Section<'_>, inputs: &mut Vec<Spanned<String>>) -> Result<Vec<FeatureColumn>> {
        let names = own.texts("columns")?.ok_or_else(|| own.missing("columns"))?;
        let dimension = own.need_count("dimension", 1)?.value as usize;
        let (mut columns, mut all) = (Vec::new(), Vec::new());
        for name in &names.value {
            let mut made = Made::default();
            columns.push(self.categorical(own, name, &mut made)?);
            all.append(&mut made.inputs);
        }
        *inputs = all;
        let columns = match own.text("collection_name")? {
            Some(name) => shared_embeddings_named(name.value, columns, dimension),
            None => shared_embeddings(columns, dimension),
        };
        columns.into_iter().map(|column| embedded(own, column)).collect()
    }

    fn file(&self, own: &Section<'_>, made: &mut Made) -> Result<String> {
        let file = own.need_text("vocabulary_file")?;
        let path = self.paths.of_data(&file.value);
        made.file = Some(file);
        Ok(path)
    }
}

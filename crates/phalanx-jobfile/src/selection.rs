//! Which rows of the files are read, and by which trainer: `filter`, `split` and `by` of `[data]`.

use crate::data::{Data, Format};
use crate::row_source::{RowCounts, WantedColumns};
use crate::schema::SPLIT;
use crate::section::Section;
use crate::source::Spanned;
use phalanx_base::{Error, Result};
use phalanx_data::{
    AutoShardPolicy, Batch, Dataset, FeatureKind, FeatureSpec, HashSplit, InputContext, Options, Parallel, RowFilter,
    SplitPart, tfrecord,
};

/// `filter`, `split` and `by`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) filter: Option<Spanned<RowFilter>>,
    pub(crate) split: Option<Spanned<HashSplit>>,
    pub(crate) by: Option<Spanned<AutoShardPolicy>>,
}

/// The rows that are wanted of some files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// A part of the split; `None` for all rows.
    pub(crate) part: Option<SplitPart>,
    /// The trainer whose share it is; `None` for all rows.
    pub(crate) share: Option<InputContext>,
}

impl Selection {
    pub(crate) fn read(own: &Section<'_>) -> Result<Self> {
        let at = |key: &str, error: Error| {
            let wrong = own.wrong(&own.span_of(key), error.what(), error.why().unwrap_or("out of range"));
            let help = "write comparisons such as age >= 18 and country != \"XX\", or `in [...]`, or `is missing`";
            wrong.help(if key == "filter" { help } else { error.next().unwrap_or("correct it") })
        };
        let filter = own.text("filter")?.map(|text| {
            let parsed = RowFilter::parse(&text.value).map_err(|error| at("filter", error))?;
            Ok(Spanned { value: parsed, span: text.span })
        });
        let split = own.node("split").map(|node| {
            let table = Section::open(own.source, "`split`", SPLIT, node)?;
            let by = table.need_text("by")?;
            let eval = table.number("eval")?.ok_or_else(|| table.missing("eval"))?;
            table.close();
            let split = HashSplit::new(by.value, eval.value).map_err(|error| at("split", error))?;
            Ok(Spanned { value: split, span: by.span })
        });
        let words = [
            ("auto", AutoShardPolicy::Auto),
            ("rows", AutoShardPolicy::Data),
            ("blocks", AutoShardPolicy::Blocks),
            ("files", AutoShardPolicy::File),
            ("all", AutoShardPolicy::Off),
        ];
        Ok(Self { filter: filter.transpose()?, split: split.transpose()?, by: own.choice("by", &words)? })
    }

    /// What decides which rows are read, in words.
    pub(crate) fn describe(&self) -> String {
        let filter = self.filter.as_ref().map_or("", |filter| filter.value.text());
        let split = self.split.as_ref().map(|split| format!("{} {}", split.value.column(), split.value.share()));
        format!("filter {filter}\nsplit {}", split.unwrap_or_default())
    }
}

impl Data {
    /// The inputs that decide about rows, each with its position, apart from `known` ones.
    pub(crate) fn selectors(&self, part: Option<SplitPart>, known: &[FeatureSpec]) -> Vec<Spanned<String>> {
        let mut names: Vec<Spanned<String>> = Vec::new();
        if let Some(filter) = &self.selection.filter {
            let span = &filter.span;
            names.extend(
                filter.value.columns().into_iter().map(|name| Spanned { value: name.to_owned(), span: span.clone() }),
            );
        }
        if let (Some(split), Some(_)) = (&self.selection.split, part) {
            names.push(Spanned { value: split.value.column().to_owned(), span: split.span.clone() });
        }
        names.retain(|name| known.iter().all(|spec| spec.name != name.value));
        names.dedup_by(|a, b| a.value == b.value);
        names
    }

    /// The rows of a batch that fulfil the filter; `None` if none does.
    pub(crate) fn kept(&self, batch: &Batch) -> Result<Option<Batch>> {
        let Some(filter) = &self.selection.filter else { return Ok(Some(batch.clone())) };
        let rows = Dataset::from_tensor_slices(batch.clone()).filter_where(filter.value.clone());
        rows.batch(batch.rows().max(1)).iter()?.next().transpose()
    }

    /// The features of these columns, and what decides about rows.
    pub(crate) fn with_selectors(
        &self,
        files: &[String],
        columns: WantedColumns<'_>,
        part: Option<SplitPart>,
    ) -> Vec<FeatureSpec> {
        let known: Vec<FeatureSpec> = columns.all().cloned().collect();
        let more = self.selectors(part, &known);
        let kinds = match self.format {
            // What the files hold decides; a file that cannot be read is reported when it is read.
            Format::TfRecord if !more.is_empty() => tfrecord(files.to_vec()).feature_kinds().unwrap_or_default(),
            _ => Vec::new(),
        };
        let kind = |name: &str| kinds.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
        let spec = |name: &Spanned<String>| {
            FeatureSpec::variable(&name.value, kind(&name.value).unwrap_or(FeatureKind::Bytes))
        };
        columns.features.iter().cloned().chain(more.iter().map(spec)).collect()
    }

    /// The rows of files that are wanted, with these columns.
    pub(crate) fn selected(
        &self,
        files: Vec<String>,
        columns: WantedColumns<'_>,
        wanted: Wanted,
        counts: &RowCounts,
    ) -> Dataset {
        let features = self.with_selectors(&files, columns, wanted.part);
        let mut rows = self.rows(files, WantedColumns { features: &features, ..columns }, counts);
        if let Some(by) = &self.selection.by {
            rows = rows.with_options(Options { auto_shard_policy: Some(by.value), ..Options::default() });
        }
        // Every trainer tests its own share only.
        if let Some(share) = wanted.share {
            rows = rows.shard(share);
        }
        if let Some(filter) = &self.selection.filter {
            rows = rows.filter_where(filter.value.clone());
        }
        if let (Some(split), Some(part)) = (&self.selection.split, wanted.part) {
            rows = rows.filter_split(split.value.clone(), part);
        }
        if features.len() == columns.features.len() {
            return rows;
        }
        let kept: Vec<String> = columns.all().map(|spec| spec.name.clone()).collect();
        let label = columns.label.map(|label| label.name.clone());
        rows.map_batches(Parallel::default(), move |batch| {
            let batch = batch.select(&kept.iter().map(String::as_str).collect::<Vec<_>>())?;
            label.as_ref().map_or(Ok(batch.clone()), |label| batch.with_label(label))
        })
    }
}

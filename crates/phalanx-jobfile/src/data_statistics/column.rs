//! The statistics of one column.

use super::TOO_MANY_UNKNOWN;
use phalanx_data::{Column, ColumnStatistics, StringsView, Values, ValuesView};
use phalanx_feature::{KnownValues, UnknownCount};
use std::collections::BTreeMap;

/// The largest number of classes that are counted.
const MOST_CLASSES: usize = 1000;

/// Values of a label are classes if there are at most this many, or if each has this many rows on average.
const FEW_CLASSES: usize = 20;
const ROWS_OF_CLASS: u64 = 5;

/// Stands for a missing integer of a Parquet file.
pub(super) const MISSING_INTEGER: i64 = i64::MIN;

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnRole {
    /// An input of the model, or any column of a file.
    Input,
    /// The label.
    Label,
    /// The weight of the rows.
    Weight,
}

impl ColumnRole {
    /// Returns the name of the role.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Label => "label",
            Self::Weight => "weight",
        }
    }
}

/// The statistics of one column.
#[derive(Clone, Debug)]
pub struct ColumnReport {
    /// The name of the column.
    pub name: String,
    /// What it is for.
    pub role: ColumnRole,
    /// All values.
    all: ColumnStatistics,
    /// The numbers among texts, for columns that are read as texts.
    parsed: Option<ColumnStatistics>,
    /// The number of texts that are no numbers.
    texts: u64,
    is_bag: bool,
    /// How many values the model does not know.
    pub(super) unknown: Option<UnknownCount>,
    /// How often each value of a label occurs; `None` if there are too many, or it is no label.
    classes: Option<BTreeMap<String, u64>>,
    /// The delimiter of a bag that is written as one text.
    pub(super) bag_delimiter: Option<char>,
    /// Whether the first unknown value would be known without the spaces around it.
    has_spaces: bool,
}

impl ColumnReport {
    pub(super) fn new(name: impl Into<String>, role: ColumnRole) -> Self {
        Self {
            name: name.into(),
            role,
            all: ColumnStatistics::new(),
            parsed: None,
            texts: 0,
            is_bag: false,
            unknown: None,
            classes: (role == ColumnRole::Label).then(BTreeMap::new),
            bag_delimiter: None,
            has_spaces: false,
        }
    }

    /// Adds the rows of a column.
    pub(super) fn add(&mut self, column: &Column) {
        if let ValuesView::I64(values) = column.values()
            && !column.is_ragged()
            && values.contains(&MISSING_INTEGER)
        {
            let there: Vec<i64> = values.iter().copied().filter(|&value| value != MISSING_INTEGER).collect();
            self.all.add_missing((values.len() - there.len()) as u64);
            return self.add(&Column::i64(there));
        }
        self.all.add(column);
        self.is_bag |= column.is_ragged();
        if let ValuesView::Bytes(texts) = column.values() {
            self.parse(texts);
        }
        self.count_classes(column);
    }

    /// Adds the numbers among texts.
    fn parse(&mut self, texts: StringsView<'_>) {
        let (mut integers, mut floats) = (Vec::new(), Vec::new());
        for text in texts.iter().filter(|text| !text.is_empty()) {
            let text = std::str::from_utf8(text).map(str::trim).unwrap_or_default();
            match (text.parse::<i64>(), text.parse::<f32>()) {
                (Ok(integer), _) => integers.push(integer),
                (_, Ok(float)) => floats.push(float),
                _ => self.texts += 1,
            }
        }
        let parsed = self.parsed.get_or_insert_default();
        [Values::I64(integers), Values::F32(floats)].into_iter().for_each(|numbers| parsed.add(&Column::new(numbers)));
    }

    fn count_classes(&mut self, column: &Column) {
        let Some(classes) = &mut self.classes else { return };
        let mut count = |class: String| *classes.entry(class).or_default() += 1;
        match column.values() {
            ValuesView::F32(values) => values.iter().for_each(|value| count(value.to_string())),
            ValuesView::I64(values) => values.iter().for_each(|value| count(value.to_string())),
            ValuesView::U8(values) => values.iter().for_each(|value| count(value.to_string())),
            ValuesView::Bytes(values) => {
                values.iter().for_each(|value| count(String::from_utf8_lossy(value).into_owned()));
            }
        }
        if classes.len() > MOST_CLASSES {
            self.classes = None;
        }
    }

    /// Counts the values that the model does not know.
    pub(super) fn count_unknown(&mut self, known: &KnownValues, column: &Column) {
        let count = self.unknown.get_or_insert_default();
        let had = count.example.is_some();
        known.count(column, count);
        if let Some(example) = count.example.as_ref().filter(|_| !had) {
            let mut trimmed = UnknownCount::default();
            known.count(&Column::text([example.trim()]), &mut trimmed);
            self.has_spaces = (trimmed.values, trimmed.unknown) == (1, 0);
            self.bag_delimiter = ['|', ';', ',', ' ', '/'].into_iter().find(|&delimiter| {
                let pieces = example.split(delimiter).map(str::trim).collect::<Vec<_>>();
                let mut count = UnknownCount::default();
                known.count(&Column::text(&pieces), &mut count);
                pieces.len() > 1 && count.unknown < count.values
            });
        }
    }

    fn numbers(&self) -> &ColumnStatistics {
        self.parsed.as_ref().unwrap_or(&self.all)
    }

    /// Returns what the values are: `number`, `text`, `number and text`, or a bag of these.
    #[must_use]
    pub fn kind(&self) -> String {
        let has_numbers = self.numbers().min().is_some();
        let kind = match (has_numbers, self.texts > 0) {
            (true, true) => "number and text",
            (true, false) => "number",
            (false, true) => "text",
            (false, false) => "nothing",
        };
        if self.is_bag { format!("bag of {kind}") } else { kind.to_owned() }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.all.rows()
    }

    /// Returns the number of missing values: empty fields, nulls, NaN and bags without values.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.all.missing() + self.parsed.as_ref().map_or(0, ColumnStatistics::missing)
    }

    /// Returns the number of infinite values.
    #[must_use]
    pub fn infinite(&self) -> u64 {
        self.numbers().infinite()
    }

    /// Returns the number of distinct values, and whether it is exact.
    #[must_use]
    pub fn distinct(&self) -> (u64, bool) {
        (self.all.distinct(), self.all.is_distinct_exact())
    }

    /// Returns the smallest number.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        self.numbers().min()
    }

    /// Returns the mean of the numbers.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.numbers().mean()
    }

    /// Returns the standard deviation of the numbers.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        self.numbers().deviation()
    }

    /// Returns the largest number.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.numbers().max()
    }

    /// Returns a quantile of the numbers.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        self.numbers().quantile(share)
    }

    /// Returns how many values the model does not know; `None` if it has no vocabulary or range for them.
    #[must_use]
    pub fn unknown(&self) -> Option<&UnknownCount> {
        self.unknown.as_ref()
    }

    /// Returns how often each value of a label occurs, the most frequent first; `None` if the column is not the
    /// label, or has too many distinct values to be classes.
    #[must_use]
    pub fn classes(&self) -> Option<Vec<(&str, u64)>> {
        let classes = self.classes.as_ref()?;
        let are_classes = classes.len() <= FEW_CLASSES || classes.len() as u64 * ROWS_OF_CLASS <= self.rows();
        let mut all: Vec<_> =
            classes.iter().filter(|_| are_classes).map(|(class, count)| (class.as_str(), *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        are_classes.then_some(all)
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        let name = &self.name;
        if self.rows() > 0 && self.all.values() == 0 && self.infinite() == 0 {
            all.push(format!("column \"{name}\" has no values"));
        }
        if let Some(count) = self.unknown.as_ref().filter(|count| count.share() > TOO_MANY_UNKNOWN) {
            let (percent, example) = (100.0 * count.share(), count.example.as_deref().unwrap_or_default());
            let hint = match self.bag_delimiter {
                _ if self.has_spaces => "it has spaces around it: add trim = true to [data]".to_owned(),
                Some(delimiter) => {
                    format!("it is a bag written as one text: add split = \"{delimiter}\" to the column")
                }
                None => "check the vocabulary, its spelling and the spaces around values".to_owned(),
            };
            all.push(format!(
                "column \"{name}\": {percent:.0} % of {} values are unknown, such as {example:?}; {hint}",
                count.values
            ));
        }
        if let Some([(class, _)]) = self.classes().as_deref().filter(|_| self.rows() > 1) {
            all.push(format!("every label in column \"{name}\" is {class:?}"));
        }
        all
    }
}

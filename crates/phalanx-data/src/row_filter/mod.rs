//! A condition on rows, written as a text: `age >= 18 and country != "XX"`.

mod evaluate;
mod parse;

use crate::{Batch, Dataset};
use phalanx_base::Result;

/// A condition that selects rows, parsed from a text.
///
/// | form | example |
/// | --- | --- |
/// | comparisons `==` (or `=`), `!=`, `<`, `<=`, `>`, `>=` of a column with a number or a text | `age >= 18` |
/// | one of several values | `country in ["DE", "FR"]`, `year not in [2019, 2020]` |
/// | missing values | `age is missing`, `age is not missing` |
/// | `and`, `or`, `not`, parentheses | `not (age < 18 or country == "XX")` |
///
/// Put a column name in backquotes if it has characters other than letters, digits, `_` and `.`; put texts in `"` or `'`.
/// A missing value (an empty text, NaN, a bag without values) fulfils no comparison, not even `!=`. A bag fulfils a
/// comparison if one of its values does, and `!=` and `not in` if none of them is equal. Texts are compared byte by byte,
/// and as numbers with a number.
///
/// ```
/// use phalanx_data::{Batch, Column, RowFilter};
/// let filter = RowFilter::parse(r#"age >= 18 and country != "XX""#)?;
/// let rows = Batch::new([("age", Column::i64(vec![17, 18, 40])), ("country", Column::text(["DE", "DE", "XX"]))])?;
/// assert_eq!(filter.keep(&rows)?, [false, true, false]);
/// assert_eq!(filter.columns(), ["age", "country"]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RowFilter {
    text: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
    Compare { column: String, comparison: Comparison, literal: Literal },
    In { column: String, literals: Vec<Literal>, negated: bool },
    Missing { column: String, negated: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Integer(i64),
    Number(f64),
    Text(String),
}

impl RowFilter {
    /// Parses a condition.
    ///
    /// # Errors
    /// If the text is not a condition; the error says where and what was expected.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { text: text.to_owned(), condition: parse::parse(text)? })
    }

    /// Returns the condition as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the columns that the condition reads, each once.
    #[must_use]
    pub fn columns(&self) -> Vec<&str> {
        let mut columns = Vec::new();
        self.condition.columns(&mut columns);
        columns
    }

    /// Returns whether each row fulfils the condition.
    ///
    /// # Errors
    /// If a column is missing or has another type than what it is compared with.
    pub fn keep(&self, rows: &Batch) -> Result<Vec<bool>> {
        self.condition.keep(rows).map_err(|error| match error.place() {
            None => error.at(format!("filter {:?}", self.text)),
            Some(_) => error,
        })
    }
}

impl Condition {
    fn columns<'a>(&'a self, columns: &mut Vec<&'a str>) {
        match self {
            Self::And(all) | Self::Or(all) => all.iter().for_each(|one| one.columns(columns)),
            Self::Not(inner) => inner.columns(columns),
            Self::Compare { column, .. } | Self::In { column, .. } | Self::Missing { column, .. } => {
                if !columns.contains(&column.as_str()) {
                    columns.push(column);
                }
            }
        }
    }
}

impl Dataset {
    /// Keeps the rows that fulfil a condition.
    #[must_use]
    pub fn filter_where(self, filter: RowFilter) -> Self {
        self.filter_rows(move |rows| filter.keep(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Strings};

    fn rows() -> Batch {
        let tags = Column::bytes(["a", "b", "b"].map(str::as_bytes).into_iter().collect::<Strings>());
        Batch::new([
            ("age", Column::f32(vec![17.5, f32::NAN, 40.0])),
            ("id", Column::i64(vec![9_007_199_254_740_993, 2, -3])),
            ("country", Column::text(["DE", "", "XX"])),
            ("year", Column::text(["2019", "2020.5", ""])),
            ("tags", tags.with_splits(vec![0, 2, 2, 3]).unwrap()),
            ("odd name", Column::i64(vec![1, 2, 3])),
        ])
        .unwrap()
    }

    fn kept(text: &str) -> Vec<usize> {
        let keep = RowFilter::parse(text).unwrap().keep(&rows()).unwrap();
        (0..3).filter(|&row| keep[row]).collect()
    }

    #[test]
    fn conditions_keep_what_they_say() {
        let none: [usize; 0] = [];
        for (text, wanted) in [
            ("age > 17", &[0, 2][..]),
            ("age = 17.5", &[0]),
            ("age != 40", &[0]),
            ("age is missing", &[1]),
            ("age is not missing and id < 0", &[2]),
            ("id == 9007199254740993", &[0]),
            ("id == 9007199254740992", &none),
            ("id in [2, -3]", &[1, 2]),
            ("id NOT IN [2, -3]", &[0]),
            ("id >= 2 or country == 'XX'", &[0, 1, 2]),
            ("not (id >= 2 or country == 'XX')", &none),
            ("id < 0 or id > 5 and age < 18", &[0, 2]),
            ("country != \"DE\"", &[2]),
            ("country < \"E\"", &[0]),
            ("year >= 2020", &[1]),
            ("tags == \"a\"", &[0]),
            ("tags != \"a\"", &[2]),
            ("tags is missing", &[1]),
            ("`odd name` <= 2", &[0, 1]),
        ] {
            assert_eq!(kept(text), wanted, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_conditions_say_where() {
        for (text, place) in [
            ("", "character 1"),
            ("age", "character 4"),
            ("age >", "character 6"),
            ("age > 18 and", "character 13"),
            ("age > 18 country", "character 10"),
            ("(age > 18", "character 10"),
            ("age in 3", "character 8"),
            ("age is 3", "character 8"),
            ("age > \"a", "character 7"),
            ("age # 3", "character 5"),
            ("18 < age", "character 1"),
            ("age > 99999999999999999999999", "character 7"),
        ] {
            let error = RowFilter::parse(text).unwrap_err();
            assert!(error.to_string().contains(place), "{text:?}: {error}");
        }
        let deep = format!("{}x > 1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(RowFilter::parse(&deep).is_err());
    }

    #[test]
    fn comparisons_of_different_types_are_refused() {
        let refused = |text: &str| RowFilter::parse(text).unwrap().keep(&rows()).unwrap_err().to_string();
        assert!(refused("age == \"x\"").contains("holds float32"));
        assert!(refused("country > 3").contains("\"DE\" is not a number"));
        assert!(refused("nothing > 3").contains("nothing"));
    }
}

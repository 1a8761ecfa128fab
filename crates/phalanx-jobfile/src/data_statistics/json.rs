//! Statistics as JSON.

use super::{ColumnReport, DataStatistics};
use crate::number_json;
use phalanx_cluster::Json;

/// The quantiles that are reported.
const QUANTILES: [(&str, f64); 7] =
    [("0.01", 0.01), ("0.1", 0.1), ("0.25", 0.25), ("0.5", 0.5), ("0.75", 0.75), ("0.9", 0.9), ("0.99", 0.99)];

/// The largest number of classes that are listed.
const CLASSES: usize = 100;

impl DataStatistics {
    /// Returns `rows`, `complete`, `columns` and `warnings`.
    #[must_use]
    pub fn to_json(&self) -> Json {
        Json::object([
            ("rows", Json::number(self.rows)),
            ("complete", Json::Bool(self.complete)),
            ("columns", Json::List(self.columns.iter().map(ColumnReport::to_json).collect())),
            ("warnings", Json::List(self.warnings().into_iter().map(Json::text).collect())),
        ])
    }
}

impl ColumnReport {
    fn to_json(&self) -> Json {
        let number = |value: Option<f64>| value.map_or(Json::Null, number_json);
        let (distinct, exact) = self.distinct();
        let quantiles = QUANTILES.map(|(name, share)| (name, number(self.quantile(share))));
        let mut entries = vec![
            ("name", Json::text(self.name.clone())),
            ("role", Json::text(self.role.as_str())),
            ("kind", Json::text(self.kind())),
            ("rows", Json::number(self.rows())),
            ("missing", Json::number(self.missing())),
            ("infinite", Json::number(self.infinite())),
            ("distinct", Json::number(distinct)),
            ("distinct_is_exact", Json::Bool(exact)),
            ("min", number(self.min())),
            ("mean", number(self.mean())),
            ("deviation", number(self.deviation())),
            ("max", number(self.max())),
            ("quantiles", if self.min().is_some() { Json::object(quantiles) } else { Json::Null }),
        ];
        if let Some(count) = self.unknown() {
            entries.push(("values", Json::number(count.values)));
            entries.push(("unknown", Json::number(count.unknown)));
            entries.push(("unknown_example", count.example.clone().map_or(Json::Null, Json::text)));
        }
        if let Some(classes) = self.classes() {
            let classes =
                classes.into_iter().take(CLASSES).map(|(class, count)| (class.to_owned(), Json::number(count)));
            entries.push(("classes", Json::Object(classes.collect())));
        }
        Json::object(entries)
    }
}

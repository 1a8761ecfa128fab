//! The columns of TensorFlow's wide-and-deep tutorial on the census.
#![allow(dead_code, unreachable_pub)]

#[path = "../../../../phalanx-data/tests/common/census.rs"]
pub mod files;

use phalanx_data::{Csv, csv};
use phalanx_feature::*;
use std::path::Path;

const EDUCATION: &str = "\
    Bachelors HS-grad 11th Masters 9th Some-college Assoc-acdm Assoc-voc 7th-8th Doctorate Prof-school \
    5th-6th 10th 1st-4th Preschool 12th";

const MARITAL_STATUS: &str = "\
    Married-civ-spouse Divorced Married-spouse-absent Never-married Separated Married-AF-spouse Widowed";

const RELATIONSHIP: &str = "Husband Not-in-family Wife Own-child Unmarried Other-relative";

const WORKCLASS: &str = "\
    Self-emp-not-inc Private State-gov Federal-gov Local-gov ? Self-emp-inc Without-pay Never-worked";

const NUMBERS: [&str; 5] = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"];

/// The census file as read by the tutorial.
pub fn census(path: impl AsRef<Path>) -> Csv {
    csv(path.as_ref()).names(files::COLUMNS).header(false).trim(true).label("income_bracket")
}

fn listed() -> [FeatureColumn; 4] {
    [
        categorical_column_with_vocabulary_list("education", EDUCATION.split(' ')),
        categorical_column_with_vocabulary_list("marital_status", MARITAL_STATUS.split(' ')),
        categorical_column_with_vocabulary_list("relationship", RELATIONSHIP.split(' ')),
        categorical_column_with_vocabulary_list("workclass", WORKCLASS.split(' ')),
    ]
}

fn occupation() -> FeatureColumn {
    categorical_column_with_hash_bucket("occupation", 1000)
}

/// The columns of the linear part.
pub fn wide() -> Vec<FeatureColumn> {
    let age = bucketized_column("age", [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]);
    let mut columns: Vec<FeatureColumn> = listed().into();
    columns.extend([
        occupation(),
        age.clone(),
        crossed_column(["education", "occupation"], 1000),
        crossed_column([CrossKey::from(age), "education".into(), "occupation".into()], 1000),
    ]);
    columns
}

/// The columns of the deep part.
pub fn deep() -> Vec<FeatureColumn> {
    let mut columns: Vec<FeatureColumn> = NUMBERS.into_iter().map(numeric_column).collect();
    columns.extend(listed().map(indicator_column));
    columns.push(embedding_column(occupation(), 8));
    columns
}

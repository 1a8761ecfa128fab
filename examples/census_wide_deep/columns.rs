//! The columns of the census.

use phalanx::data::{InputContext, Parallel};
use phalanx::prelude::*;

/// Categorical columns with few values, and their vocabularies.
const VOCABULARIES: [(&str, &str); 6] = [
    ("workclass", "?,Federal-gov,Local-gov,Never-worked,Private,Self-emp-inc,Self-emp-not-inc,State-gov,Without-pay"),
    (
        "education",
        "10th,11th,12th,1st-4th,5th-6th,7th-8th,9th,Assoc-acdm,Assoc-voc,Bachelors,Doctorate,HS-grad,Masters,Preschool,\
         Prof-school,Some-college",
    ),
    (
        "marital_status",
        "Divorced,Married-AF-spouse,Married-civ-spouse,Married-spouse-absent,Never-married,Separated,Widowed",
    ),
    ("relationship", "Husband,Not-in-family,Other-relative,Own-child,Unmarried,Wife"),
    ("race", "Amer-Indian-Eskimo,Asian-Pac-Islander,Black,Other,White"),
    ("gender", "Female,Male"),
];

/// Returns one trainer's share of the rows. The label is 1 for incomes above 50,000.
pub(crate) fn people(rows: &Dataset, cx: InputContext) -> Dataset {
    rows.clone().shard(cx).map_batches(Parallel::default(), |batch| {
        // The test file has a full stop after every label.
        let rich = batch.bytes("income")?.iter().map(|income| i64::from(income.starts_with(b">50K"))).collect();
        batch.with_column("income", Column::i64(rich))
    })
}

fn categorical() -> impl Iterator<Item = FeatureColumn> {
    VOCABULARIES.iter().map(|(name, words)| categorical_column_with_vocabulary_list(*name, words.split(',')))
}

/// Returns the columns of the linear part: categories, bucketized ages, crosses.
pub(crate) fn wide() -> Vec<FeatureColumn> {
    let age = bucketized_column("age", [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]);
    let mut columns: Vec<FeatureColumn> = categorical().collect();
    columns.extend([
        categorical_column_with_hash_bucket("occupation", 1000),
        categorical_column_with_hash_bucket("native_country", 1000),
        age.clone(),
        crossed_column(["education", "occupation"], 1000),
        crossed_column([CrossKey::from(age), "education".into(), "occupation".into()], 1000),
    ]);
    columns
}

/// Returns the columns of the deep part: scaled numbers, one-hot categories, embedded occupations.
pub(crate) fn deep() -> Vec<FeatureColumn> {
    let scaled = |name: &'static str, scale: f32| numeric_column(name).normalizer_fn(move |x| x / scale);
    let mut columns = vec![
        scaled("age", 100.0),
        scaled("education_num", 100.0),
        scaled("capital_gain", 10_000.0),
        scaled("capital_loss", 100.0),
        scaled("hours_per_week", 100.0),
    ];
    columns.extend(categorical().map(indicator_column));
    columns.push(embedding_column(categorical_column_with_hash_bucket("occupation", 1000), 8));
    columns
}

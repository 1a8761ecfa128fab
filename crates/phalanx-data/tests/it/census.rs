//! The census and the digits, loaded by the few lines that a new user would write. Needs the data: PHALANX_DATA_DIR.

use crate::census_data::{COLUMNS, data};
use phalanx_data::{DType, SourceExt, csv, mnist_test};

#[test]
fn the_census_in_a_few_lines() {
    let Some(folder) = data() else { return };
    let people = csv(folder.join("census/adult.data"))
        .names(COLUMNS)
        .header(false)
        .trim(true)
        .na_value("?")
        .default_value("workclass", "unknown")
        .label("income_bracket");
    assert_eq!(people.columns().unwrap()[2], ("fnlwgt".to_owned(), DType::I64));
    let (mut rows, mut rich, mut unknown, mut ages) = (0, 0, 0, 0);
    for batch in people.batch(128).iter().unwrap() {
        let batch = batch.unwrap();
        rows += batch.rows();
        rich += batch.label().unwrap().as_bytes().unwrap().iter().filter(|&label| label == b">50K").count();
        unknown += batch.bytes("workclass").unwrap().iter().filter(|&class| class == b"unknown").count();
        ages += batch.i64("age").unwrap().iter().sum::<i64>();
    }
    assert_eq!((rows, rich, unknown, ages), (32_561, 7_841, 1_836, 1_256_257));
}

#[test]
fn the_test_half_too() {
    let Some(folder) = data() else { return };
    let people = csv(folder.join("census/adult.test")).names(COLUMNS).header(false).trim(true);
    let rows: usize = people.batch(1000).iter().unwrap().map(|batch| batch.unwrap().rows()).sum();
    assert_eq!(rows, 16_281);
}

#[test]
fn the_digits_in_one_line() {
    let Some(folder) = data() else { return };
    let mut batches = mnist_test(folder.join("mnist")).scaled("image").shuffle(1000).batch(100).iter().unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!((batch.rows(), batch.column("image").unwrap().row_shape()), (100, &[28, 28][..]));
    assert!(batch.label().unwrap().as_i64().unwrap().iter().all(|label| (0..10).contains(label)));
    assert_eq!(batches.count(), 99);
}

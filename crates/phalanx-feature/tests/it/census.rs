//! The wide-and-deep columns of the census against TensorFlow's digests of the same rows (`fixtures/census.py`).
//! Needs the data: PHALANX_DATA_DIR.

use crate::common::census::{self, files::data};
use phalanx_data::SourceExt;
use phalanx_feature::{Slot, Transform};
use serde_json::Value;
use std::path::Path;

/// The digest of `census.py`, for numbers from 0 up.
#[derive(Default)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, number: u64) {
        let next = u128::from(self.0) * 1_000_003 + u128::from(number) + 1;
        self.0 = (next % ((1 << 61) - 1)) as u64;
    }
}

#[test]
fn a_thousand_rows_equal_tensorflow_to_the_bit() {
    let Some(folder) = data() else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/census.json");
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let rows = census::census(folder.join("census/adult.data")).dataset().take(1000).batch(1000);
    let batch = rows.iter().unwrap().next().unwrap().unwrap();
    let mut compared = 0;
    for plan in [Transform::linear_model(&census::wide()), Transform::dense_features(&census::deep())] {
        let plan = plan.unwrap();
        let features = plan.apply(&batch).unwrap();
        for column in plan.columns() {
            let (Slot::Ids { index, .. } | Slot::Table { index, .. }) = column.slot else { continue };
            let mut digest = Digest::default();
            for row in 0..batch.rows() {
                let ids = features.sparse[index].row(row);
                digest.add(ids.len() as u64);
                ids.iter().for_each(|&id| digest.add(id as u64));
            }
            assert_eq!(Value::from(digest.0), expected[&column.name], "{}", column.name);
            compared += 1;
        }
        if plan.dense_width() > 0 {
            let mut digest = Digest::default();
            features.dense.iter().for_each(|value| digest.add(value.to_bits().into()));
            assert_eq!(Value::from(digest.0), expected["dense"]);
            compared += 1;
        }
    }
    assert_eq!(compared, expected.as_object().unwrap().len());
}

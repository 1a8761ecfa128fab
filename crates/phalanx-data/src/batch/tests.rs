use super::copy::Pick;
use super::*;
use crate::Strings;

fn sample() -> Batch {
    let ids = Column::i64(vec![1, 2, 3, 4, 5, 6]).with_splits(vec![0, 2, 2, 6]).unwrap();
    let dense = Column::f32(vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5]).with_row_shape([2]).unwrap();
    Batch::new([("ids", ids), ("dense", dense), ("text", Column::text(["a", "", "ccc"]))]).unwrap()
}

#[test]
fn gather_takes_rows_of_every_kind_of_column() {
    let batch = sample();
    let tail = batch.slice(1..3);
    let picks = [Pick { batch: 1, row: 1 }, Pick { batch: 0, row: 0 }, Pick { batch: 1, row: 0 }];
    let got = Batch::gather(&[&batch, &tail], &picks);
    assert_eq!(got, Batch::concat(&[batch.slice(2..3), batch.slice(0..2)]).unwrap());
    assert_eq!(got.column("ids").unwrap().splits().unwrap(), [0, 4, 6, 6]);
    assert_eq!(got.f32("dense").unwrap(), [2.0, 2.5, 0.0, 0.5, 1.0, 1.5]);
    assert_eq!(got.bytes("text").unwrap().iter().collect::<Vec<_>>(), [b"ccc".as_slice(), b"a", b""]);
}

#[test]
fn concat_of_slices_is_the_whole() {
    let batch = sample();
    assert_eq!(Batch::concat(&[batch.slice(0..1), batch.slice(1..1), batch.slice(1..3)]).unwrap(), batch);
    assert_eq!(batch.slice(1..3).column("ids").unwrap().as_i64().unwrap(), [3, 4, 5, 6]);
}

#[test]
fn differing_rows_are_said() {
    let a = Batch::new([("x", Column::f32(vec![1.0, 2.0]).with_row_shape([2]).unwrap())]).unwrap();
    let b = Batch::new([("x", Column::f32(vec![1.0]))]).unwrap();
    let error = Batch::concat(&[a, b]).unwrap_err();
    assert_eq!(error.code(), Code::ShapeMismatch);
    assert!(error.to_string().contains("different shapes"), "{error}");
}

#[test]
fn columns_of_unequal_length_are_refused() {
    let error = Batch::new([("x", Column::f32(vec![1.0])), ("y", Column::i64(vec![1, 2]))]).unwrap_err();
    assert_eq!(error.what(), "column \"y\" has 2 rows, \"x\" has 1");
    assert!(Batch::new([("x", Column::f32(vec![])), ("x", Column::f32(vec![]))]).is_err());
}

#[test]
fn the_label_follows_its_column() {
    let batch = sample().with_label("dense").unwrap();
    assert_eq!(batch.without("ids").unwrap().label(), batch.label());
    assert!(batch.without("dense").unwrap().label().is_none());
    assert_eq!(batch.select(&["text", "dense"]).unwrap().label(), batch.label());
}

#[test]
fn shapes_and_splits_must_fit() {
    assert!(Column::f32(vec![1.0; 5]).with_row_shape([2]).is_err());
    assert!(Column::i64(vec![1; 5]).with_splits(vec![0, 3]).is_err());
    assert!(Column::i64(vec![1; 5]).with_splits(vec![0, 4, 3, 5]).is_err());
    assert!(Strings::from_parts(vec![0, 2, 1, 3], vec![0; 3]).is_none());
}

use super::ArrowBatches;
use crate::testing::{first_error, read_all};
use crate::{BadRows, PartPosition, Source};
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeListArray, Float64Array, Int64Array, LargeListArray, LargeStringArray,
    RecordBatch, StringViewArray, UInt64Array,
};
use phalanx_base::Code;
use std::sync::Arc;

fn batches(parts: Vec<Vec<(&str, ArrayRef)>>) -> ArrowBatches {
    let batch = |columns: Vec<(&str, ArrayRef)>| {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
    };
    let batches: Vec<RecordBatch> = parts.into_iter().map(batch).collect();
    ArrowBatches::new(batches[0].schema(), batches)
}

#[test]
fn the_types_of_data_frames_are_columns() {
    let lists = [Some(vec![Some(1), None]), None, Some(vec![Some(9)])];
    let pairs = [Some(vec![Some(1), Some(2)]), Some(vec![Some(3), Some(4)]), Some(vec![Some(5), Some(6)])];
    let source = batches(vec![vec![
        ("large", Arc::new(LargeStringArray::from(vec![Some("é"), None, Some("x")])) as ArrayRef),
        ("view", Arc::new(StringViewArray::from(vec![Some("a word of more than twelve bytes"), None, Some("b")]))),
        ("word", Arc::new(DictionaryArray::<Int8Type>::from_iter([Some("red"), None, Some("red")]))),
        ("list", Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
        ("pair", Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(pairs, 2))),
        ("x", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(2.0)]))),
    ]]);
    // Read row by row, so that every array is a slice.
    for chunk in [1, 3] {
        let rows = crate::Batch::concat(&read_all(&source, PartPosition::START, chunk)).unwrap();
        let texts = |name: &str| rows.bytes(name).unwrap().iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(texts("large"), ["é".as_bytes(), b"", b"x"], "{chunk}");
        assert_eq!(texts("view"), [&b"a word of more than twelve bytes"[..], b"", b"b"], "{chunk}");
        assert_eq!(texts("word"), [&b"red"[..], b"", b"red"], "{chunk}");
        assert_eq!(rows.i64("list").unwrap(), [1, 0, 9], "{chunk}");
        assert_eq!(rows.column("list").unwrap().splits().unwrap(), [0, 2, 2, 3], "{chunk}");
        assert_eq!(rows.i64("pair").unwrap(), [1, 2, 3, 4, 5, 6], "{chunk}");
        assert_eq!(rows.column("pair").unwrap().row_shape(), [2], "{chunk}");
        assert_eq!(rows.f32("x").unwrap(), [0.5, 0.0, 2.0], "{chunk}");
    }
}

#[test]
fn a_dictionary_without_words_is_missing_everywhere() {
    let source =
        batches(vec![vec![("word", Arc::new(DictionaryArray::<Int8Type>::from_iter([None::<&str>, None])) as _)]]);
    let rows = read_all(&source.default_value("word", "none"), PartPosition::START, 9);
    assert_eq!(rows[0].bytes("word").unwrap().iter().collect::<Vec<_>>(), [b"none", b"none"]);
}

#[test]
fn every_batch_is_a_part_that_resumes_at_any_row() {
    let part = |from: i64| vec![("n", Arc::new(Int64Array::from_iter_values(from..from + 4)) as ArrayRef)];
    let empty = vec![("n", Arc::new(Int64Array::from(Vec::<i64>::new())) as ArrayRef)];
    let source = batches(vec![part(0), empty, part(4)]);
    assert_eq!((source.parts().unwrap(), source.rows()), (2, 8));
    let mut reader = source.open(1, PartPosition::START).unwrap();
    assert_eq!(reader.read(3).unwrap().unwrap().i64("n").unwrap(), [4, 5, 6]);
    assert_eq!(reader.last_row().unwrap(), "the Arrow data, row 6");
    let mut again = source.open(1, reader.position()).unwrap();
    assert_eq!(again.read(3).unwrap().unwrap().i64("n").unwrap(), [7]);
    assert!(again.read(3).unwrap().is_none());
    assert!(source.open(1, PartPosition { row: 5, ..PartPosition::START }).is_err());
}

#[test]
fn a_row_that_misses_its_label_is_refused_or_skipped() {
    let columns = || {
        vec![
            ("y", Arc::new(Int64Array::from(vec![Some(1), None, Some(0)])) as ArrayRef),
            ("u", Arc::new(UInt64Array::from(vec![1, 2, 3])) as ArrayRef),
        ]
    };
    let error = first_error(&batches(vec![columns()]).label("y"));
    assert_eq!((error.code(), error.place()), (Code::DataRow, Some("the Arrow data, row 1")));
    let bad = BadRows::skip_at_most(1);
    let rows = read_all(&batches(vec![columns()]).label("y").bad_rows(bad.clone()), PartPosition::START, 9);
    assert_eq!(crate::Batch::concat(&rows).unwrap().i64("u").unwrap(), [1, 3]);
    assert_eq!(bad.skipped(), 1);
    assert_eq!(batches(vec![columns()]).select(["v"]).parts().unwrap_err().code(), Code::DataColumn);
    let empty = vec![("y", Arc::new(Int64Array::from(Vec::<i64>::new())) as ArrayRef)];
    assert_eq!(batches(vec![empty]).parts().unwrap_err().code(), Code::DataMissing);
}

use crate::{DType, PartPosition, Source, parquet};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::properties::WriterProperties;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    TimestampMillisecondArray, UInt64Array,
};
use phalanx_base::Code;
use std::sync::Arc;

fn write(path: &std::path::Path, columns: Vec<(&str, ArrayRef)>, group_rows: usize, compression: Compression) {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).set_compression(compression).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn numbers(rows: i64) -> Vec<(&'static str, ArrayRef)> {
    let texts: Vec<String> = (0..rows).map(|i| format!("text {}", i % 7)).collect();
    let lists = (0..rows).map(|i| Some((0..i % 3).map(Some).collect::<Vec<_>>()));
    vec![
        ("n", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef),
        ("x", Arc::new(Float32Array::from_iter_values((0..rows).map(|i| i as f32 / 2.0)))),
        ("s", Arc::new(StringArray::from(texts))),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
    ]
}

#[test]
fn every_type_and_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let lists = [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(9)])];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("f", Arc::new(Float32Array::from(vec![Some(1.5), None, Some(2.0), None]))),
        ("d", Arc::new(Float64Array::from(vec![Some(0.1), None, Some(2.0), None]))),
        ("i", Arc::new(Int32Array::from(vec![Some(-1), None, Some(2), None]))),
        ("u", Arc::new(UInt64Array::from(vec![Some(7), None, Some(2), None]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None]))),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![Some(1234), None, Some(5), None]))),
        ("s", Arc::new(StringArray::from(vec![Some("é"), None, Some(""), Some("x")]))),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
    ];
    write(&path, columns, 100, Compression::SNAPPY);
    let batch = parquet(&path).open(0, PartPosition::START).unwrap().read(100).unwrap().unwrap();
    let floats = |name: &str| batch.f32(name).unwrap().iter().map(|x| x.to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!((floats("f"), floats("d")), ("1.5 0 2 0".to_owned(), "0.1 0 2 0".to_owned()));
    assert_eq!(batch.i64("i").unwrap(), [-1, 0, 2, 0]);
    assert_eq!(batch.i64("u").unwrap(), [7, 0, 2, 0]);
    assert_eq!(batch.i64("b").unwrap(), [1, 0, 0, 0]);
    assert_eq!(batch.i64("t").unwrap(), [1234, 0, 5, 0]);
    assert_eq!(batch.bytes("s").unwrap().iter().collect::<Vec<_>>(), ["é".as_bytes(), b"", b"", b"x"]);
    assert_eq!(batch.i64("l").unwrap(), [1, 0, 9]);
    assert_eq!(batch.column("l").unwrap().splits().unwrap(), [0, 2, 2, 2, 3]);

    let mut reader = parquet(&path).required("f").open(0, PartPosition::START).unwrap();
    assert_eq!(reader.read(100).unwrap().unwrap().rows(), 1, "the rows before it come first");
    let error = reader.read(100).unwrap_err();
    assert_eq!(error.code(), Code::DataRow);
    assert_eq!(error.place().unwrap(), format!("{}, row 1", path.display()));
    assert!(error.to_string().contains("column \"f\" is required"), "{error}");

    let source = parquet(&path).default_value("f", 7).default_value("s", "none").default_value("l", 5);
    let batch = source.open(0, PartPosition::START).unwrap().read(100).unwrap().unwrap();
    assert_eq!(batch.f32("f").unwrap(), [1.5, 7.0, 2.0, 7.0]);
    assert_eq!(batch.bytes("s").unwrap().get(1), b"none");
    assert_eq!(batch.column("l").unwrap().splits().unwrap(), [0, 2, 3, 3, 4]);
    assert_eq!(batch.i64("l").unwrap(), [1, 5, 5, 9]);
    let source = parquet(&path).select(["i"]).default_value("i", 0.5);
    let batch = source.open(0, PartPosition::START).unwrap().read(100).unwrap().unwrap();
    assert_eq!(batch.f32("i").unwrap(), [-1.0, 0.5, 2.0, 0.5]);
    assert_eq!(parquet(&path).default_value("i", "x").parts().unwrap_err().code(), Code::BadSetting);
}

#[test]
fn a_position_continues_with_the_next_row_across_groups_and_compressions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(Default::default()),
        Compression::LZ4_RAW,
        Compression::GZIP(Default::default()),
    ] {
        write(&path, numbers(10_000), 3_000, compression);
        let source = parquet(&path).label("n");
        let mut reader = source.open(0, PartPosition::START).unwrap();
        let mut read = 0;
        for (stop, place) in [(1, (0, 1)), (2_999, (1, 0)), (3_001, (2, 1)), (1_023, (2, 1_024)), (2_976, (4, 0))] {
            let until = read + stop;
            while read < until {
                let batch = reader.read(1_024.min((until - read) as usize)).unwrap().unwrap();
                assert_eq!(batch.i64("n").unwrap()[0], read);
                assert_eq!(batch.f32("x").unwrap()[0], read as f32 / 2.0);
                read += batch.rows() as i64;
            }
            let position = reader.position();
            assert_eq!((position.byte, position.row), place);
            let mut again = source.open(0, position).unwrap();
            let next = again.read(5).unwrap();
            assert_eq!(next.as_ref().map(|batch| batch.i64("n").unwrap()[0]), (read < 10_000).then_some(read));
            if let Some(batch) = next {
                assert_eq!(batch.bytes("s").unwrap().get(1), format!("text {}", (read + 1) % 7).as_bytes());
                assert_eq!(batch.column("l").unwrap().rows(), 5);
            }
        }
        assert!(reader.read(10).unwrap().is_none());
    }
    let beyond = PartPosition { byte: 9, ..PartPosition::START };
    assert!(parquet(&path).open(0, beyond).is_err());
}

#[test]
fn columns_are_selected_and_missing_ones_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path, numbers(10), 100, Compression::SNAPPY);
    let source = parquet(&path).select(["x"]).label("n");
    assert_eq!(source.columns().unwrap(), [("n".to_owned(), DType::I64), ("x".to_owned(), DType::F32)]);
    let batch = source.open(0, PartPosition::START).unwrap().read(100).unwrap().unwrap();
    assert_eq!(batch.label().unwrap().as_i64().unwrap()[9], 9);
    let error = parquet(&path).select(["xx"]).parts().unwrap_err();
    assert_eq!((error.code(), error.next()), (Code::DataColumn, Some("did you mean \"x\"?")));
}

#[test]
fn files_that_differ_or_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("a.parquet"), numbers(10), 100, Compression::SNAPPY);
    write(
        &path("b.parquet"),
        vec![("n", Arc::new(Float32Array::from(vec![1.0])) as ArrayRef)],
        100,
        Compression::SNAPPY,
    );
    let source = parquet(path("*.parquet")).select(["n"]);
    let error = source.open(1, PartPosition::START).map(drop).unwrap_err();
    assert_eq!(error.code(), Code::DataColumn);
    assert!(error.to_string().contains("there: \"n\" int64; here: \"n\" float32"), "{error}");

    let whole = std::fs::read(path("a.parquet")).unwrap();
    std::fs::write(path("c"), &whole[..whole.len() - 9]).unwrap();
    std::fs::write(path("d"), b"").unwrap();
    for (name, said) in [("c", "not a complete Parquet file"), ("d", "it is empty")] {
        let error = parquet(path(name)).parts().unwrap_err();
        assert_eq!(error.code(), Code::DataFormat);
        assert!(error.to_string().contains(said), "{error}");
    }
}

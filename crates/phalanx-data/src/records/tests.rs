use crate::{BadRows, PartPosition, Source, tfrecord};
use phalanx_base::Code;
use phalanx_formats::example::{ExampleWriter, FeatureKind, FeatureSpec, FeatureValues};
use phalanx_formats::record::{Compression, RecordWriter};

fn file(compression: Compression, records: &[Vec<u8>]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tfrecord").to_string_lossy().into_owned();
    let mut writer = RecordWriter::with_compression(Vec::new(), compression);
    records.iter().for_each(|record| writer.write_record(record).unwrap());
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    (folder, path)
}

fn example(i: i64) -> Vec<u8> {
    let ids: Vec<i64> = (0..i % 4).collect();
    let mut example = ExampleWriter::new();
    example.f32s("x", &[i as f32, 0.5]).i64s("ids", &ids).bytes("name", &[format!("row {i}")]).i64s("y", &[i]);
    example.encode()
}

fn features() -> Vec<FeatureSpec> {
    vec![
        FeatureSpec::fixed("x", FeatureKind::F32, 2),
        FeatureSpec::variable("ids", FeatureKind::I64),
        FeatureSpec::fixed("name", FeatureKind::Bytes, 1),
        FeatureSpec::fixed("y", FeatureKind::I64, 1),
        FeatureSpec::fixed("z", FeatureKind::F32, 1).with_default(FeatureValues::F32(vec![9.0])),
    ]
}

#[test]
fn columns_of_every_layout() {
    let (_folder, path) = file(Compression::None, &(0..10).map(example).collect::<Vec<_>>());
    let source = tfrecord(&*path).parse(features()).label("y");
    let mut reader = source.open(0, PartPosition::START).unwrap();
    let batch = reader.read(4).unwrap().unwrap();
    assert_eq!(batch.rows(), 4);
    assert_eq!(batch.column("x").unwrap().row_shape(), [2]);
    assert_eq!(batch.column("ids").unwrap().splits().unwrap(), [0, 0, 1, 3, 6]);
    assert_eq!(batch.bytes("name").unwrap().get(3), b"row 3");
    assert_eq!(batch.f32("z").unwrap(), [9.0; 4]);
    assert_eq!(batch.label().unwrap().as_i64().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_position_continues_with_the_next_record_in_every_compression() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let (_folder, path) = file(compression, &(0..50).map(example).collect::<Vec<_>>());
        let source = tfrecord(&*path).parse(features());
        for stop in [0, 1, 17, 50] {
            let mut reader = source.open(0, PartPosition::START).unwrap();
            if stop > 0 {
                assert_eq!(reader.read(stop).unwrap().unwrap().rows(), stop);
            }
            let mut again = source.open(0, reader.position()).unwrap();
            assert_eq!(again.position(), reader.position());
            assert_eq!(again.read(100).unwrap(), reader.read(100).unwrap());
            assert!(again.read(100).unwrap().is_none());
        }
        let beyond = PartPosition { byte: 1 << 20, ..PartPosition::START };
        let error = source.open(0, beyond).map(drop).unwrap_err();
        assert!(error.to_string().contains("shorter than it was"), "{error}");
    }
}

#[test]
fn records_that_are_not_as_specified() {
    let mut records: Vec<Vec<u8>> = (0..6).map(example).collect();
    records[2] = ExampleWriter::new().f32s("x", &[1.0]).encode();
    records[4] = b"no example".to_vec();
    let (_folder, path) = file(Compression::None, &records);
    let source = tfrecord(&*path).parse(features());
    let mut reader = source.open(0, PartPosition::START).unwrap();
    assert_eq!(reader.read(100).unwrap().unwrap().i64("y").unwrap(), [0, 1]);
    let mut again = source.open(0, reader.position()).unwrap();
    let error = reader.read(100).unwrap_err();
    assert_eq!(error.place().unwrap(), format!("{path}, record 2"));
    assert_eq!(again.read(100).unwrap_err().place(), error.place());
    assert!(error.to_string().contains("\"x\" has 1 values, not 2"), "{error}");

    let bad = BadRows::skip_at_most(5);
    let source = source.bad_rows(bad.clone());
    let mut reader = source.open(0, PartPosition::START).unwrap();
    assert_eq!(reader.read(100).unwrap().unwrap().i64("y").unwrap(), [0, 1, 3, 5]);
    assert_eq!(bad.skipped(), 2);
}

#[test]
fn a_file_that_is_cut_short_says_where() {
    let (_folder, path) = file(Compression::None, &(0..5).map(example).collect::<Vec<_>>());
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    for source in [Box::new(tfrecord(&*path)) as Box<dyn Source>, Box::new(tfrecord(&*path).parse(features()))] {
        let mut reader = source.open(0, PartPosition::START).unwrap();
        assert_eq!(reader.read(100).unwrap().unwrap().rows(), 4);
        let error = reader.read(100).unwrap_err();
        assert_eq!(error.code(), Code::DataFormat);
        assert!(error.to_string().contains("cut short") && error.place().unwrap().contains(&path), "{error}");
    }
}

#[test]
fn records_without_a_specification() {
    let (_folder, path) = file(Compression::Gzip, &[b"one".to_vec(), b"".to_vec(), b"three".to_vec()]);
    let mut reader = tfrecord(&*path).open(0, PartPosition::START).unwrap();
    let batch = reader.read(10).unwrap().unwrap();
    assert_eq!(batch.bytes("record").unwrap().iter().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
    assert!(reader.read(10).unwrap().is_none());
}

//! Record files and Examples that TensorFlow wrote, read and written.

use phalanx_formats::example::{ExampleParser, ExampleWriter, FeatureKind, FeatureSpec, FeatureValues};
use phalanx_formats::record::{Compression, ReadOptions, RecordReader, RecordWriter};

const PLAIN: &[u8] = include_bytes!("../fixtures/tensorflow.tfrecord");
const GZIP: &[u8] = include_bytes!("../fixtures/tensorflow.tfrecord.gzip");
const ZLIB: &[u8] = include_bytes!("../fixtures/tensorflow.tfrecord.zlib");

#[test]
fn finds_the_compression_and_reads_the_examples() {
    for (file, compression) in [(PLAIN, Compression::None), (GZIP, Compression::Gzip), (ZLIB, Compression::Zlib)] {
        let mut reader = RecordReader::with_options(file, &ReadOptions::default()).unwrap();
        assert_eq!(reader.compression(), compression);
        let specs = vec![
            FeatureSpec::fixed("point", FeatureKind::F32, 2),
            FeatureSpec::fixed("label", FeatureKind::I64, 1),
            FeatureSpec::variable("words", FeatureKind::Bytes),
        ];
        let mut parser = ExampleParser::new(specs).unwrap();
        while let Some(record) = reader.next_record().unwrap() {
            parser.push(record).unwrap();
        }
        let batch = parser.finish();
        assert_eq!(batch.rows, 4);
        assert_eq!(batch.columns[0].values, FeatureValues::F32(vec![0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]));
        assert_eq!(batch.columns[1].values, FeatureValues::I64(vec![0, -1, -2, -3]));
        assert_eq!(batch.columns[2].row_splits.as_deref(), Some(&[0, 0, 1, 3, 6][..]));
        assert_eq!(batch.columns[2].values.as_bytes().unwrap().get(5), b"w2");
    }
}

#[test]
fn writes_the_same_bytes() {
    let mut reader = RecordReader::new(PLAIN);
    let mut writer = RecordWriter::new(Vec::new());
    while let Some(record) = reader.next_record().unwrap() {
        writer.write_record(record).unwrap();
    }
    assert_eq!(reader.offset(), PLAIN.len() as u64);
    assert_eq!(writer.finish().unwrap(), PLAIN);
}

#[test]
fn notices_every_cut_of_tensorflows_files() {
    for file in [GZIP, ZLIB] {
        let compression = Compression::detect(file);
        for length in 1..file.len() {
            let options = ReadOptions { compression: Some(compression), ..ReadOptions::default() };
            let mut reader = RecordReader::with_options(&file[..length], &options).unwrap();
            let error = loop {
                match reader.next_record() {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{compression} cut after {length} bytes passes for whole"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.code(), phalanx_base::Code::DataFormat);
        }
    }
}

#[test]
fn writes_the_examples_that_tensorflow_wrote() {
    let mut writer = RecordWriter::new(Vec::new());
    let mut example = ExampleWriter::new();
    for i in 0..4_u8 {
        let words: Vec<String> = (0..i).map(|j| format!("w{j}")).collect();
        example.clear();
        example.bytes("words", &words).i64s("label", &[-i64::from(i)]);
        example.f32s("point", &[f32::from(i), f32::from(i) + 0.5]);
        writer.write_record(&example.encode()).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), PLAIN);
}

//! The same rows with the same dirt in every format: one rule for missing values, labels and numbers that are not finite.

use ::parquet::arrow::ArrowWriter;
use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use phalanx_base::{Code, Error};
use phalanx_data::{
    BadRows, Batch, DType, FeatureKind, FeatureSpec, NonFiniteValues, PartPosition, Source, csv, parquet, tfrecord,
};
use phalanx_formats::{example::ExampleWriter, record::RecordWriter};
use std::sync::Arc;

/// A float, an integer, a text and the label; `None` is missing.
type Row = (Option<f32>, Option<i64>, Option<&'static str>, Option<i64>);

/// What is set for a source.
#[derive(Clone, Default)]
struct Settings {
    default: Option<f32>,
    label_default: Option<i64>,
    bad_rows: BadRows,
    non_finite: NonFiniteValues,
}

struct Files {
    _folder: tempfile::TempDir,
    csv: String,
    parquet: String,
    records: String,
}

fn write(rows: &[Row]) -> Files {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (csv, parquet, records) = (path("a.csv"), path("a.parquet"), path("a.tfrecord"));
    let mut text = "x,n,s,y\n".to_owned();
    let mut writer = RecordWriter::new(Vec::new());
    for (x, n, s, y) in rows {
        let number = |value: Option<String>| value.unwrap_or_default();
        text += &format!(
            "{},{},{},{}\n",
            number(x.map(|x| x.to_string())),
            number(n.map(|n| n.to_string())),
            s.unwrap_or_default(),
            number(y.map(|y| y.to_string()))
        );
        let mut example = ExampleWriter::new();
        x.inspect(|x| {
            example.f32s("x", &[*x]);
        });
        n.inspect(|n| {
            example.i64s("n", &[*n]);
        });
        s.inspect(|s| {
            example.bytes("s", &[*s]);
        });
        y.inspect(|y| {
            example.i64s("y", &[*y]);
        });
        writer.write_record(example.encode().as_slice()).unwrap();
    }
    std::fs::write(&csv, text).unwrap();
    std::fs::write(&records, writer.finish().unwrap()).unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("x", Arc::new(rows.iter().map(|row| row.0).collect::<Float32Array>())),
        ("n", Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>())),
        ("s", Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>())),
        ("y", Arc::new(rows.iter().map(|row| row.3).collect::<Int64Array>())),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&parquet).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    Files { _folder: folder, csv, parquet, records }
}

impl Files {
    /// The three sources, each with the name of a row's place.
    fn sources(&self, settings: &Settings) -> [(Box<dyn Source>, String); 3] {
        let Settings { default, label_default, bad_rows, non_finite } = settings.clone();
        macro_rules! set {
            ($source:expr) => {{
                let mut source = $source.label("y").bad_rows(bad_rows.clone()).non_finite(non_finite.clone());
                if let Some(default) = default {
                    source = source.default_value("x", default);
                }
                if let Some(default) = label_default {
                    source = source.default_value("y", default);
                }
                Box::new(source) as Box<dyn Source>
            }};
        }
        let csv_rows = csv(&*self.csv).column("x", DType::F32).column("n", DType::I64).column("y", DType::I64);
        let features = [
            FeatureSpec::fixed("x", FeatureKind::F32, 1),
            FeatureSpec::variable("n", FeatureKind::I64),
            FeatureSpec::variable("s", FeatureKind::Bytes),
            FeatureSpec::fixed("y", FeatureKind::I64, 1),
        ];
        [
            (set!(csv_rows.column("s", DType::Bytes)), format!("{}, line ", self.csv)),
            (set!(parquet(&*self.parquet)), format!("{}, row ", self.parquet)),
            (set!(tfrecord(&*self.records).parse(features)), format!("{}, record ", self.records)),
        ]
    }
}

/// The batches before the first error, and the error.
fn read(source: &dyn Source, chunk: usize) -> (Vec<Batch>, Option<Error>) {
    let (mut reader, mut batches) = (source.open(0, PartPosition::START).unwrap(), Vec::new());
    loop {
        let position = reader.position();
        match reader.read(chunk) {
            Ok(Some(batch)) => batches.push(batch),
            Ok(None) => return (batches, None),
            Err(error) => {
                // A reader that resumes before the error finds it again.
                let again = source.open(0, position).unwrap().read(chunk).map(drop).unwrap_err();
                assert_eq!(again.place(), error.place());
                return (batches, Some(error));
            }
        }
    }
}

fn floats(batches: &[Batch]) -> Vec<f32> {
    batches.iter().flat_map(|batch| batch.f32("x").unwrap().to_vec()).collect()
}

fn labels(batches: &[Batch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.i64("y").unwrap().to_vec()).collect()
}

/// The number of the third row, as each format counts.
fn third_row(place: &str) -> String {
    format!("{place}{}", if place.ends_with("line ") { 4 } else { 2 })
}

const CLEAN: Row = (Some(1.0), Some(1), Some("a"), Some(1));

#[test]
fn a_missing_label_is_an_error_with_its_place() {
    let files = write(&[CLEAN, CLEAN, (Some(3.0), Some(3), Some("c"), None), CLEAN]);
    for (source, place) in files.sources(&Settings::default()) {
        let (batches, error) = read(&*source, 100);
        let error = error.unwrap();
        assert_eq!(floats(&batches).len(), 2, "the rows before it come first");
        assert!(matches!(error.code(), Code::DataRow | Code::DataFormat), "{error}");
        assert!(error.place().unwrap().starts_with(&third_row(&place)), "{error}");
    }
    for (source, _) in files.sources(&Settings { label_default: Some(7), ..Settings::default() }) {
        assert_eq!(labels(&read(&*source, 100).0), [1, 1, 7, 1], "{}", source.kind());
    }
    for index in 0..3 {
        let settings = Settings { bad_rows: BadRows::skip_at_most(1), ..Settings::default() };
        let (batches, error) = read(&*files.sources(&settings)[index].0, 100);
        assert!(error.is_none(), "{error:?}");
        assert_eq!((labels(&batches), settings.bad_rows.skipped()), (vec![1, 1, 1], 1));
    }
}

#[test]
fn a_missing_number_becomes_its_default_in_every_format() {
    let files = write(&[CLEAN, (None, None, None, Some(1)), (Some(3.0), Some(3), Some("c"), Some(1))]);
    for (source, _) in files.sources(&Settings { default: Some(38.5), ..Settings::default() }) {
        assert_eq!(floats(&read(&*source, 100).0), [1.0, 38.5, 3.0], "{}", source.kind());
    }
    // Without one: 0 in CSV and Parquet; an Example must have its features of fixed length, as in TensorFlow.
    let sources = files.sources(&Settings::default());
    for (source, _) in &sources[..2] {
        let (batches, error) = read(&**source, 100);
        assert!(error.is_none(), "{error:?}");
        assert_eq!((floats(&batches), batches[0].i64("n").unwrap()), (vec![1.0, 0.0, 3.0], [1, 0, 3].as_slice()));
        assert_eq!(batches[0].bytes("s").unwrap().get(1), b"");
    }
    let error = read(&*sources[2].0, 100).1.unwrap();
    assert!(error.place().unwrap().ends_with("a.tfrecord, record 1"), "{error}");
}

#[test]
fn numbers_that_are_not_finite_are_refused_skipped_or_zero() {
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let files = write(&[CLEAN, CLEAN, (Some(wrong), Some(3), Some("c"), Some(0)), CLEAN]);
        for chunk in [1, 2, 3, 100] {
            for (source, place) in files.sources(&Settings::default()) {
                let (batches, error) = read(&*source, chunk);
                let error = error.unwrap();
                assert_eq!((floats(&batches), error.code()), (vec![1.0, 1.0], Code::DataRow));
                assert_eq!(error.place().unwrap(), format!("{}, column \"x\"", third_row(&place)));
            }
            for index in 0..3 {
                let skip = NonFiniteValues::skip_rows();
                let settings = Settings { non_finite: skip.clone(), ..Settings::default() };
                for _epoch in 0..2 {
                    let (batches, error) = read(&*files.sources(&settings)[index].0, chunk);
                    assert!(error.is_none(), "{error:?}");
                    assert_eq!((labels(&batches), skip.rows()), (vec![1, 1, 1], 1));
                }
                let zero = NonFiniteValues::zero();
                let settings = Settings { non_finite: zero.clone(), ..Settings::default() };
                assert_eq!(floats(&read(&*files.sources(&settings)[index].0, chunk).0), [1.0, 1.0, 0.0, 1.0]);
                assert!(zero.rows() == 1 && zero.first().unwrap().what().contains("not a finite number"));
                let settings = Settings { non_finite: NonFiniteValues::keep(), ..Settings::default() };
                assert_eq!(floats(&read(&*files.sources(&settings)[index].0, chunk).0)[2].to_bits(), wrong.to_bits());
            }
        }
    }
}

#[test]
fn with_nan_as_the_default_nan_is_a_missing_value_and_infinity_is_not() {
    let rows = [CLEAN, (None, Some(2), Some("b"), Some(0)), (Some(f32::NAN), Some(3), Some("c"), Some(0))];
    let settings = Settings { default: Some(f32::NAN), ..Settings::default() };
    for (source, _) in write(&rows).sources(&settings) {
        let (batches, error) = read(&*source, 100);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(floats(&batches).iter().map(|x| x.is_nan()).collect::<Vec<_>>(), [false, true, true]);
    }
    let rows = [CLEAN, CLEAN, (Some(f32::INFINITY), Some(3), Some("c"), Some(0))];
    for (source, place) in write(&rows).sources(&settings) {
        assert!(read(&*source, 100).1.unwrap().place().unwrap().starts_with(&third_row(&place)));
    }
}

#[test]
fn a_csv_row_with_too_many_fields_is_an_error_also_where_columns_are_selected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "x,s,y\n1,a,0\n2,b,c,1\n3,d,1\n").unwrap();
    let rows = || csv(&path).select(["x"]);
    let error = read(&rows(), 100).1.unwrap();
    assert_eq!((error.code(), error.what()), (Code::DataRow, "a row has 4 fields, not 3"));
    assert_eq!(error.place().unwrap(), format!("{}, line 3", path.display()));
    let bad = BadRows::skip_at_most(5);
    assert_eq!(read(&rows().bad_rows(bad.clone()), 100).0[0].i64("x").unwrap(), [1, 3]);
    assert_eq!(bad.skipped(), 1);
}

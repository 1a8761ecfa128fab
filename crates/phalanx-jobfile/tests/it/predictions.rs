//! Ids that are carried through predictions, in every format of the data.

use crate::common::{JOB, write_data};
use crate::jobs::{job, rows, train, well, write_parquet, write_records};
use phalanx_base::{Code, Result};
use phalanx_formats::{example::ExampleWriter, record::RecordWriter};
use phalanx_jobfile::{Overrides, PredictOptions, TrainedJob};
use std::path::Path;
use std::sync::Arc;

/// The ids of the rows: the largest would be rounded as a float.
fn ids() -> Vec<i64> {
    (0..5).map(|row| i64::MAX - row).collect()
}

fn write_new_records(path: &Path) {
    let mut writer = RecordWriter::new(Vec::new());
    for id in ids() {
        let texts = |text: &str| [text.as_bytes().to_vec()];
        let example = ExampleWriter::new()
            .f32s("age", &[40.0])
            .f32s("pay", &[50.0])
            .bytes("city", &texts("oslo"))
            .bytes("job", &texts("cook"))
            .i64s("id", &[id])
            .i64s("ids", &[id, id])
            .encode();
        writer.write_record(example.as_slice()).unwrap();
    }
    std::fs::write(path, writer.finish().unwrap()).unwrap();
}

fn write_new_parquet(path: &Path) {
    use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
    let floats = |value: f32| Arc::new(Float32Array::from(vec![value; 5])) as ArrayRef;
    let texts = |text: &str| Arc::new(StringArray::from(vec![text; 5])) as ArrayRef;
    let id = Arc::new(Int64Array::from(ids())) as ArrayRef;
    let columns =
        [("id", id), ("age", floats(40.0)), ("pay", floats(50.0)), ("city", texts("oslo")), ("job", texts("cook"))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn carried(run: &Path, input: &Path, id: &str) -> Result<Vec<i64>> {
    let trained = well(TrainedJob::find(run));
    let job = well(trained.job(Overrides::default()));
    let mut found = Vec::new();
    let options = PredictOptions { id: Some(id.to_owned()), ..PredictOptions::default() };
    job.predict(&trained, &input.to_string_lossy(), &options, |batch| {
        assert_eq!(&**batch.names().first().unwrap(), id);
        found.extend(batch.i64(id)?);
        Ok(())
    })?;
    Ok(found)
}

#[test]
fn integers_are_carried_through_unchanged_from_parquet_and_tfrecord() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path());
    for format in ["parquet", "tfrecord"] {
        for name in ["train", "test"] {
            let read = rows(&folder.path().join(format!("{name}.csv")));
            let path = folder.path().join(format!("{name}.{format}"));
            if format == "parquet" { write_parquet(&read, &path) } else { write_records(&read, &path) }
        }
        let text = JOB.replace(".csv\"", &format!(".{format}\"")).replace("max_steps = 200", "max_steps = 2");
        let text = text.replace("[data]", &format!("[data]\nformat = {format:?}"));
        train(folder.path(), &text, format);
        let new = folder.path().join(format!("new.{format}"));
        if format == "parquet" {
            write_new_parquet(&new)
        } else {
            write_new_records(&new)
        }
        let run = folder.path().join(format);
        assert_eq!(well(carried(&run, &new, "id")), ids(), "{format}");
        // Floats would be rounded, lists are no ids, and a column that is not there is named.
        let code = |id: &str| carried(&run, &new, id).unwrap_err().code();
        assert_eq!(code("age"), Code::DataColumn);
        if format == "tfrecord" {
            assert!(carried(&run, &new, "ids").is_err());
        }
        assert_eq!(code("nid"), Code::DataColumn);
    }
    // The job still predicts without an id.
    well(job(folder.path(), JOB, "csv").dry_run());
}

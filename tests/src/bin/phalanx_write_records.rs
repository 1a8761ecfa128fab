//! Writes and reads record and event files as a test in another language says, line by line in JSON on standard input.
//!
//! ```text
//! examples FILE COMPRESSION    {"features": {NAME: [KIND, VALUES]}, "lists": {NAME: [KIND, [VALUES, …]]}} per line
//! parse FILE                   [[NAME, KIND, "fixed" | "variable" | "ragged", LENGTH, DEFAULT], …]; prints columns
//! parse-sequence FILE          [CONTEXT SPECS, LIST SPECS]; prints columns
//! events FILE                  [KIND, WALL_TIME, STEP, TAG, VALUE, …] per line
//! read-events FILE             prints an event per line
//! ```
//!
//! Kinds are float, int64 and bytes. Floats travel as their bits and bytes as hexadecimal digits, so nothing is lost.

#![allow(clippy::print_stdout)]

use std::fs::File;
use std::io::{BufRead, BufReader};

use phalanx_formats::event::{EventPayload, EventReader, EventTime, EventWriter, SessionStatus, SummaryData as Shown};
use phalanx_formats::example::{
    ExampleColumn, ExampleParser, ExampleWriter, FeatureKind, FeatureSpec, FeatureValues, SequenceParser,
    SequenceWriter,
};
use phalanx_formats::png;
use phalanx_formats::record::{Compression, ReadOptions, RecordReader, RecordWriter};
use serde_json::{Value, json};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Anyhow<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["examples", file, compression] => write_examples(file, compression),
        ["parse", file] => parse(file),
        ["parse-sequence", file] => parse_sequence(file),
        ["events", file] => write_events(file),
        ["read-events", file] => read_events(file),
        _ => Err("usage: phalanx_write_records examples | parse | parse-sequence | events | read-events FILE".into()),
    }
}

fn lines() -> impl Iterator<Item = Anyhow<Value>> {
    std::io::stdin().lock().lines().map(|line| Ok(serde_json::from_str(&line?)?))
}

fn write_examples(file: &str, compression: &str) -> Anyhow<()> {
    let compression = match compression {
        "GZIP" => Compression::Gzip,
        "ZLIB" => Compression::Zlib,
        _ => Compression::None,
    };
    let mut writer = RecordWriter::with_compression(File::create(file)?, compression);
    for line in lines() {
        let line = line?;
        let mut example = ExampleWriter::new();
        for (name, feature) in line["features"].as_object().into_iter().flatten() {
            set(&mut example, name, kind(&feature[0])?, &feature[1])?;
        }
        match line["lists"].as_object() {
            None => writer.write_record(&example.encode())?,
            Some(lists) => writer.write_record(&sequence(example, lists)?.encode())?,
        }
    }
    writer.finish()?;
    Ok(())
}

fn sequence(context: ExampleWriter, lists: &serde_json::Map<String, Value>) -> Anyhow<SequenceWriter> {
    let mut example = SequenceWriter::new();
    *example.context() = context;
    for (name, list) in lists {
        let steps = list[1].as_array().ok_or("steps are a list")?;
        match kind(&list[0])? {
            FeatureKind::F32 => example.f32s_list(name, &steps.iter().map(floats).collect::<Anyhow<Vec<_>>>()?),
            FeatureKind::I64 => example.i64s_list(name, &steps.iter().map(ints).collect::<Anyhow<Vec<_>>>()?),
            FeatureKind::Bytes => example.bytes_list(name, &steps.iter().map(strings).collect::<Anyhow<Vec<_>>>()?),
        };
    }
    Ok(example)
}

fn set(example: &mut ExampleWriter, name: &str, kind: FeatureKind, values: &Value) -> Anyhow<()> {
    match kind {
        FeatureKind::F32 => example.f32s(name, &floats(values)?),
        FeatureKind::I64 => example.i64s(name, &ints(values)?),
        FeatureKind::Bytes => example.bytes(name, &strings(values)?),
    };
    Ok(())
}

fn kind(value: &Value) -> Anyhow<FeatureKind> {
    match value.as_str() {
        Some("float") => Ok(FeatureKind::F32),
        Some("int64") => Ok(FeatureKind::I64),
        Some("bytes") => Ok(FeatureKind::Bytes),
        _ => Err(format!("no kind: {value}").into()),
    }
}

fn ints(value: &Value) -> Anyhow<Vec<i64>> {
    let list = value.as_array().ok_or("values are a list")?;
    list.iter().map(|value| value.as_i64().ok_or_else(|| format!("no integer: {value}").into())).collect()
}

fn floats(value: &Value) -> Anyhow<Vec<f32>> {
    Ok(ints(value)?.into_iter().map(|bits| f32::from_bits(bits as u32)).collect())
}

fn strings(value: &Value) -> Anyhow<Vec<Vec<u8>>> {
    let list = value.as_array().ok_or("values are a list")?;
    list.iter().map(|value| unhex(value.as_str().unwrap_or_default())).collect()
}

fn unhex(text: &str) -> Anyhow<Vec<u8>> {
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2).ok_or("half a byte"));
    pairs.map(|pair| Ok(u8::from_str_radix(pair?, 16)?)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn specs(list: &Value) -> Anyhow<Vec<FeatureSpec>> {
    let spec = |spec: &Value| {
        let (name, kind) = (spec[0].as_str().ok_or("a name")?, kind(&spec[1])?);
        let length = spec[3].as_u64().unwrap_or(0) as usize;
        let made = match spec[2].as_str() {
            Some("fixed") => FeatureSpec::fixed(name, kind, length),
            Some("variable") => FeatureSpec::variable(name, kind),
            _ => FeatureSpec::ragged(name, kind, length),
        };
        Ok(match (&spec[4], kind) {
            (Value::Null, _) => made,
            (Value::Bool(_), _) => made.allow_missing(),
            (default, FeatureKind::F32) => made.with_default(FeatureValues::F32(floats(default)?)),
            (default, FeatureKind::I64) => made.with_default(FeatureValues::I64(ints(default)?)),
            (default, FeatureKind::Bytes) => {
                made.with_default(FeatureValues::Bytes(strings(default)?.into_iter().collect()))
            }
        })
    };
    list.as_array().ok_or("specs are a list")?.iter().map(spec).collect()
}

fn column(column: &ExampleColumn) -> Value {
    let values = match &column.values {
        FeatureValues::F32(values) => values.iter().map(|value| json!(value.to_bits())).collect::<Vec<_>>(),
        FeatureValues::I64(values) => values.iter().map(|value| json!(value)).collect(),
        FeatureValues::Bytes(values) => values.iter().map(|value| json!(hex(value))).collect(),
    };
    json!({"values": values, "row_splits": column.row_splits, "step_splits": column.step_splits})
}

fn each_record(file: &str, mut push: impl FnMut(&[u8]) -> phalanx_base::Result<()>) -> Anyhow<Option<String>> {
    let mut reader = RecordReader::with_options(File::open(file)?, &ReadOptions::default())?;
    while let Some(record) = reader.next_record()? {
        if let Err(error) = push(record) {
            return Ok(Some(error.to_string()));
        }
    }
    Ok(None)
}

fn parse(file: &str) -> Anyhow<()> {
    let mut parser = ExampleParser::new(specs(&lines().next().ok_or("specs")??)?)?;
    let error = each_record(file, |record| parser.push(record))?;
    let batch = parser.finish();
    println!("{}", json!({"error": error, "columns": batch.columns.iter().map(column).collect::<Vec<_>>()}));
    Ok(())
}

fn parse_sequence(file: &str) -> Anyhow<()> {
    let line = lines().next().ok_or("specs")??;
    let mut parser = SequenceParser::new(specs(&line[0])?, specs(&line[1])?)?;
    let error = each_record(file, |record| parser.push(record))?;
    let batch = parser.finish();
    let columns = |columns: &[ExampleColumn]| columns.iter().map(column).collect::<Vec<_>>();
    println!("{}", json!({"error": error, "context": columns(&batch.context), "lists": columns(&batch.lists)}));
    Ok(())
}

fn write_events(file: &str) -> Anyhow<()> {
    let mut writer = EventWriter::new(File::create(file)?, 1_700_000_000.5)?;
    for line in lines() {
        let line = line?;
        let stamp =
            EventTime { wall_time: line[1].as_f64().ok_or("a wall time")?, step: line[2].as_i64().ok_or("a step")? };
        let tag = line[3].as_str().ok_or("a tag")?;
        let text = line[4].as_str().unwrap_or_default();
        let pixels = |at: usize| line[at].as_u64().unwrap_or(0) as u32;
        match line[0].as_str() {
            Some("scalar") => writer.scalar(stamp, tag, f32::from_bits(pixels(4)))?,
            Some("histogram") => writer.histogram(stamp, tag, &floats(&line[4])?)?,
            Some("text") => writer.text(stamp, tag, text)?,
            Some("image") => writer.image(stamp, tag, &unhex(text)?, pixels(5), pixels(6))?,
            Some("pixels") => {
                let (size, channels) = ((pixels(5), pixels(6)), u8::try_from(pixels(7))?);
                writer.image(stamp, tag, &png::encode(&unhex(text)?, size, channels)?, size.0, size.1)?
            }
            Some("start") => writer.session_log(stamp, &SessionStatus::Start)?,
            Some("stop") => writer.session_log(stamp, &SessionStatus::Stop)?,
            _ => writer.session_log(stamp, &SessionStatus::Checkpoint(text.to_owned()))?,
        }
    }
    writer.finish()?;
    Ok(())
}

fn read_events(file: &str) -> Anyhow<()> {
    let mut reader = EventReader::new(BufReader::new(File::open(file)?));
    while let Some(event) = reader.next_event()? {
        let what = match event.what {
            EventPayload::FileVersion(version) => json!({"version": version}),
            EventPayload::Session(status) => json!({"session": format!("{status:?}")}),
            EventPayload::Summary(values) => {
                let value = |value: &Shown| match value {
                    Shown::Scalar(number) => json!(number),
                    Shown::Histogram(buckets) => buckets.iter().map(|b| json!([b.left, b.right, b.count])).collect(),
                    Shown::Text(texts) => json!(texts),
                    Shown::Images { width, height, encoded } => {
                        json!([width, height, encoded.iter().map(|image| hex(image)).collect::<Vec<_>>()])
                    }
                    Shown::Other => Value::Null,
                };
                values.iter().map(|v| json!({"tag": v.tag, "plugin": v.plugin, "value": value(&v.value)})).collect()
            }
            EventPayload::Graph(_) | EventPayload::MetaGraph(_) | EventPayload::Other => Value::Null,
        };
        println!("{}", json!([event.stamp.wall_time, event.stamp.step, what]));
    }
    Ok(())
}

//! The first records of a TFRecord file.

use super::HeadArgs;
use crate::exit::ExitCode;
use crate::output::{eprint, print};
use crate::records::{error_json, named};
use phalanx::data::{Batch, Column};
use phalanx_base::{Code, Error, Result};
use phalanx_formats::example::{AnyExample, Feature, read_any_example};
use serde_json::{Value, json};
use std::path::Path;

/// A record and its position.
struct FirstRecord {
    offset: u64,
    bytes: Vec<u8>,
}

/// Returns whether these are the first twelve bytes of a record: a length and its checksum.
pub(super) fn is_header(bytes: &[u8]) -> bool {
    let (Some(length), Some(sum)) = (bytes.get(..8), bytes.get(8..12)) else { return false };
    sum == phalanx_formats::checksum::masked(length).to_le_bytes()
}

/// Shows the records before the first bad one, then the error. The exit code is 1 for a file that cannot be read so far.
pub(super) fn run(args: &HeadArgs) -> ExitCode {
    let (records, mut failed) = read(args);
    if args.json {
        let shown = records.iter().enumerate().map(|(index, record)| record_json(index, record));
        let mut object = json!({ "records": shown.collect::<Vec<Value>>() });
        if let Some(error) = &failed {
            object["error"] = error_json(error);
        }
        print(&format!("{object}\n"));
    } else {
        match table(&records) {
            Ok(batch) if !records.is_empty() => drop(print(&format!("{batch:#}"))),
            Ok(_) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
        if let Some(error) = &failed {
            eprint(&error.report());
        }
    }
    failed.map_or(ExitCode::SUCCESS, |error| ExitCode::from(error.exit_code()))
}

/// The first records, and the error that stopped it.
fn read(args: &HeadArgs) -> (Vec<FirstRecord>, Option<Error>) {
    let mut records = Vec::new();
    let mut read = || {
        let files = phalanx::data::Files::from(args.file.as_str()).list()?;
        for file in files {
            let path = Path::new(&file);
            let mut reader = args.compression.open(path)?;
            while records.len() < args.n as usize {
                let offset = reader.offset();
                let Some(record) = reader.next_record().map_err(|error| named(path, error))? else { break };
                records.push(FirstRecord { offset, bytes: record.to_vec() });
            }
        }
        if records.is_empty() {
            return Err(Error::new(Code::DataMissing, format!("{} has no records", args.file)));
        }
        Ok(())
    };
    let failed = read().err();
    (records, failed)
}

/// A column for every feature that occurs. What is no Example is shown as bytes.
fn table(records: &[FirstRecord]) -> Result<Batch> {
    let wholes: Vec<Option<AnyExample>> = records.iter().map(|record| read_any_example(&record.bytes).ok()).collect();
    let mut names: Vec<String> = Vec::new();
    for whole in wholes.iter().flatten() {
        let lists = whole.lists.iter().map(|(name, _)| name);
        let known = whole.features.iter().map(|(name, _)| name).chain(lists).cloned();
        known.for_each(|name| {
            if !names.contains(&name) {
                names.push(name)
            }
        });
    }
    // Beside a feature of the same name, ours has another one.
    let own = |name: &str| if names.iter().any(|known| known == name) { format!("({name})") } else { name.to_owned() };
    let mut columns = vec![(own("record"), Column::i64((0..records.len() as i64).collect()))];
    if wholes.iter().any(Option::is_none) {
        let cell = |(record, whole): (&FirstRecord, &Option<AnyExample>)| match whole {
            Some(_) => String::new(),
            None => bytes_text(&record.bytes),
        };
        columns.push((own("(no Example)"), Column::text(records.iter().zip(&wholes).map(cell))));
    }
    for name in names {
        let cells = wholes.iter().map(|whole| whole.as_ref().map_or_else(String::new, |whole| cell_of(whole, &name)));
        let column = Column::text(cells);
        columns.push((name, column));
    }
    Batch::new(columns)
}

fn cell_of(whole: &AnyExample, name: &str) -> String {
    if let Some((_, feature)) = whole.features.iter().find(|(known, _)| known == name) {
        return feature_text(feature);
    }
    let steps = whole.lists.iter().find(|(known, _)| known == name).map(|(_, steps)| steps.len());
    steps.map_or_else(String::new, |steps| format!("{steps} steps"))
}

fn record_json(index: usize, record: &FirstRecord) -> Value {
    let mut object = json!({ "index": index, "offset": record.offset, "bytes": record.bytes.len() });
    match read_any_example(&record.bytes) {
        Ok(whole) => {
            let features = whole.features.iter().map(|(name, feature)| (name.clone(), feature_json(feature)));
            object["features"] = Value::Object(features.collect());
            let steps = |steps: &[Feature]| steps.iter().map(feature_json).collect();
            let lists = whole.lists.iter().map(|(name, list)| (name.clone(), steps(list)));
            object["feature_lists"] = Value::Object(lists.collect());
        }
        Err(error) => object["error"] = error_json(&error),
    }
    object
}

/// Floats that are not finite are strings; bytes that are not UTF-8 are `{"hex": …}`.
fn feature_json(feature: &Feature) -> Value {
    // The shortest digits of an f32 have fewer digits than those of the same f64.
    let float = |value: &f32| match value.to_string().parse::<f64>() {
        Ok(number) if number.is_finite() => json!(number),
        _ => json!(value.to_string()),
    };
    let bytes = |value: &Vec<u8>| std::str::from_utf8(value).map_or_else(|_| json!({ "hex": hex(value) }), Value::from);
    let values: Vec<Value> = match feature {
        Feature::F32(values) => values.iter().map(float).collect(),
        Feature::I64(values) => values.iter().map(|&value| value.into()).collect(),
        Feature::Bytes(values) => values.iter().map(bytes).collect(),
        Feature::None => Vec::new(),
    };
    json!({ "type": feature.kind().map(|kind| kind.to_string()), "values": values })
}

/// One value as it is, several in brackets.
fn feature_text(feature: &Feature) -> String {
    const FIRST: usize = 6;
    let values: Vec<String> = match feature {
        Feature::F32(values) => values.iter().take(FIRST).map(f32::to_string).collect(),
        Feature::I64(values) => values.iter().take(FIRST).map(i64::to_string).collect(),
        Feature::Bytes(values) => values.iter().take(FIRST).map(|value| bytes_text(value)).collect(),
        Feature::None => return String::new(),
    };
    match values.as_slice() {
        [one] => one.clone(),
        values => format!("[{}{}]", values.join(", "), if feature.len() > FIRST { ", …" } else { "" }),
    }
}

/// Bytes as text, or as hexadecimal digits if they are not UTF-8.
fn bytes_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("0x{}{}", hex(&bytes[..bytes.len().min(16)]), if bytes.len() > 16 { "…" } else { "" }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

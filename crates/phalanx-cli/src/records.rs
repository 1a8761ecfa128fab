//! `phalanx records`: shows, counts or verifies the records of a TFRecord file.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use phalanx_base::{Code, Context, Error, Result};
use phalanx_formats::example::{AnyExample, Feature, read_any_example};
use phalanx_formats::record::{Compression, ReadOptions, RecordReader};
use serde_json::{Value, json};

/// Shows, counts or verifies the records of a TFRecord file.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Shows the first records, which should be Examples or SequenceExamples
    Head {
        #[command(flatten)]
        source: Source,
        /// Number of records
        #[arg(short, default_value_t = 5)]
        n: u64,
    },
    /// Counts the records
    Count(Source),
    /// Verifies every record; exits with 1 and reports the first bad one
    Verify(Source),
}

#[derive(Debug, clap::Args)]
struct Source {
    /// TFRecord file
    file: PathBuf,
    /// Compression of the file
    #[arg(long, value_enum, default_value_t = How::Auto)]
    compression: How,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The compression of a file; `auto` detects it from the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum How {
    Auto,
    None,
    Gzip,
    Zlib,
}

/// Runs the command. The exit code is 1 if the file cannot be read to its end.
pub(crate) fn run(args: &RecordsArgs) -> ExitCode {
    let mut out = io::stdout().lock();
    let (source, done) = match &args.action {
        Action::Head { source, n } => (source, head(source, *n, &mut out)),
        Action::Count(source) => (source, count(source, "records", &mut out)),
        Action::Verify(source) => (source, count(source, "good records", &mut out)),
    };
    // A closed pipe, as with `| head`, is not an error.
    let Ok(failed) = done.and_then(|failed| out.flush().map(|()| failed)) else { return ExitCode::SUCCESS };
    let Some(error) = failed else { return ExitCode::SUCCESS };
    if !source.json {
        let _gone = io::stderr().lock().write_all(error.report().as_bytes());
    }
    ExitCode::from(error.exit_code())
}

impl Source {
    fn open(&self) -> Result<RecordReader<File>> {
        let compression = match self.compression {
            How::Auto => None,
            How::None => Some(Compression::None),
            How::Gzip => Some(Compression::Gzip),
            How::Zlib => Some(Compression::Zlib),
        };
        let what = || format!("{} cannot be opened", self.file.display());
        let file = File::open(&self.file).context(Code::DataMissing, what())?;
        let options = ReadOptions { compression, ..ReadOptions::default() };
        RecordReader::with_options(file, &options).map_err(|error| self.named(error))
    }

    /// Adds the name of the file to the position of an error.
    fn named(&self, error: Error) -> Error {
        let place = error.place().map(|place| format!(": {place}")).unwrap_or_default();
        error.at(format!("{}{place}", self.file.display()))
    }
}

/// Writes the first records and returns the error that stopped it. `Err` is an error of the output.
fn head(source: &Source, n: u64, out: &mut impl Write) -> io::Result<Option<Error>> {
    let mut shown = 0;
    if source.json {
        out.write_all(b"{\"records\": [")?;
    }
    let failed = match source.open() {
        Err(error) => Some(error),
        Ok(mut reader) => loop {
            if shown == n {
                break None;
            }
            let offset = reader.offset();
            match reader.next_record() {
                Ok(None) => break None,
                Ok(Some(record)) if source.json => {
                    let comma = if shown == 0 { "" } else { ", " };
                    write!(out, "{comma}{}", record_json(shown, offset, record))?;
                }
                Ok(Some(record)) => {
                    writeln!(out, "record {shown} (byte {offset}, {} bytes)", record.len())?;
                    match read_any_example(record) {
                        Ok(whole) => write_whole(&whole, out)?,
                        Err(_) => writeln!(out, "  no Example: {}", bytes_text(record))?,
                    }
                }
                Err(error) => break Some(source.named(error)),
            }
            shown += 1;
        },
    };
    if source.json {
        let error = failed.as_ref().map(|error| format!(", \"error\": {}", error_json(error)));
        writeln!(out, "]{}}}", error.unwrap_or_default())?;
    }
    Ok(failed)
}

/// Reads everything and writes the number of records.
fn count(source: &Source, what: &str, out: &mut impl Write) -> io::Result<Option<Error>> {
    let (mut payload, mut records, mut compression) = (0_u64, 0, Compression::None);
    let mut read = || {
        let mut reader = source.open()?;
        compression = reader.compression();
        while let Some(record) = reader.next_record().map_err(|error| source.named(error))? {
            payload += record.len() as u64;
            records += 1;
        }
        Ok(())
    };
    let failed = read().err();
    if source.json {
        let (ok, compression) = (failed.is_none(), compression.to_string());
        let mut object = json!({ "ok": ok, "records": records, "payload_bytes": payload, "compression": compression });
        if let Some(error) = &failed {
            object["error"] = error_json(error);
        }
        writeln!(out, "{object}")?;
    } else if failed.is_none() {
        writeln!(out, "{records} {what}, {payload} bytes, compression {compression}")?;
    } else if records > 0 {
        writeln!(out, "{records} good records, {payload} bytes, before the first bad one")?;
    }
    Ok(failed)
}

fn error_json(error: &Error) -> Value {
    let mut object = crate::output::error_json(error);
    object["place"] = json!(error.place());
    object
}

fn record_json(index: u64, offset: u64, record: &[u8]) -> Value {
    let mut object = json!({ "index": index, "offset": offset, "bytes": record.len() });
    match read_any_example(record) {
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

/// Writes one line per feature: name, type, number of values and the first values.
fn write_whole(whole: &AnyExample, out: &mut impl Write) -> io::Result<()> {
    for (name, feature) in &whole.features {
        writeln!(out, "  {}: {}", name.escape_debug(), feature_text(feature))?;
    }
    for (name, steps) in &whole.lists {
        writeln!(out, "  {}: {} steps", name.escape_debug(), steps.len())?;
        for step in steps.iter().take(3) {
            writeln!(out, "    {}", feature_text(step))?;
        }
        if steps.len() > 3 {
            writeln!(out, "    …")?;
        }
    }
    Ok(())
}

fn feature_text(feature: &Feature) -> String {
    const FIRST: usize = 8;
    let values: Vec<String> = match feature {
        Feature::F32(values) => values.iter().take(FIRST).map(|value| format!("{value:?}")).collect(),
        Feature::I64(values) => values.iter().take(FIRST).map(i64::to_string).collect(),
        Feature::Bytes(values) => values.iter().take(FIRST).map(|value| bytes_text(value)).collect(),
        Feature::None => return "no values".to_owned(),
    };
    let kind = feature.kind().map(|kind| kind.to_string()).unwrap_or_default();
    let more = if feature.len() > FIRST { ", …" } else { "" };
    if values.is_empty() {
        return format!("{kind}[0]");
    }
    format!("{kind}[{}] = {}{more}", feature.len(), values.join(", "))
}

/// Bytes as quoted text, or as hexadecimal digits if they are not UTF-8, shortened.
fn bytes_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().count() > 60 => {
            let first: String = text.chars().take(60).collect();
            format!("{first:?}… ({} bytes)", bytes.len())
        }
        Ok(text) => format!("{text:?}"),
        Err(_) if bytes.len() > 24 => format!("0x{}… ({} bytes)", hex(&bytes[..24]), bytes.len()),
        Err(_) => format!("0x{}", hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

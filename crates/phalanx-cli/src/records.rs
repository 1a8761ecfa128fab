//! `phalanx records`: shows, counts or verifies the records of a TFRecord file.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use phalanx_base::{Code, Context, Error, Result};
use phalanx_cluster::Json;
use phalanx_formats::example::{Feature, Whole, read_whole};
use phalanx_formats::record::{Compression, ReadOptions, RecordReader};

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
        /// How many records
        #[arg(short, default_value_t = 5)]
        n: u64,
    },
    /// Counts the records
    Count(Source),
    /// Checks every record; exit code 1 names the first bad one
    Verify(Source),
}

#[derive(Debug, clap::Args)]
struct Source {
    /// The TFRecord file
    file: PathBuf,
    /// How the file is compressed
    #[arg(long, value_enum, default_value_t = How::Auto)]
    compression: How,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// `auto` looks at the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum How {
    Auto,
    None,
    Gzip,
    Zlib,
}

/// Runs the command; the exit code is 1 for a file that cannot be read to its end.
pub(crate) fn run(args: &RecordsArgs) -> ExitCode {
    let mut out = io::stdout().lock();
    let (source, done) = match &args.action {
        Action::Head { source, n } => (source, head(source, *n, &mut out)),
        Action::Count(source) => (source, count(source, "records", &mut out)),
        Action::Verify(source) => (source, count(source, "good records", &mut out)),
    };
    // A reader that has gone away, as behind `| head`, is no reason to fail.
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

    /// The error with the file's name before its place.
    fn named(&self, error: Error) -> Error {
        let place = error.place().map(|place| format!(": {place}")).unwrap_or_default();
        error.at(format!("{}{place}", self.file.display()))
    }
}

/// Writes the first records; the error that kept it from going on. `Err` is about the output.
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
                    match read_whole(record) {
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

/// Reads everything and writes how much that was.
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
        let number = |count: u64| Json::number(count);
        let mut entries = vec![
            ("ok", Json::Bool(failed.is_none())),
            ("records", number(records)),
            ("payload_bytes", number(payload)),
            ("compression", Json::text(compression.to_string())),
        ];
        entries.extend(failed.as_ref().map(|error| ("error", error_json(error))));
        writeln!(out, "{}", Json::object(entries))?;
    } else if failed.is_none() {
        writeln!(out, "{records} {what}, {payload} bytes, compression {compression}")?;
    } else if records > 0 {
        writeln!(out, "{records} good records, {payload} bytes, before the first bad one")?;
    }
    Ok(failed)
}

fn error_json(error: &Error) -> Json {
    let text = |text: Option<&str>| text.map_or(Json::Null, Json::text);
    Json::object([
        ("code", Json::text(error.code().to_string())),
        ("message", Json::text(error.to_string())),
        ("place", text(error.place())),
        ("help", text(error.next())),
    ])
}

fn record_json(index: u64, offset: u64, record: &[u8]) -> Json {
    let mut entries = vec![
        ("index", Json::number(index)),
        ("offset", Json::number(offset)),
        ("bytes", Json::number(record.len() as u64)),
    ];
    match read_whole(record) {
        Ok(whole) => {
            let features = whole.features.iter().map(|(name, feature)| (name.clone(), feature_json(feature)));
            entries.push(("features", Json::object(features)));
            let steps = |steps: &[Feature]| Json::List(steps.iter().map(feature_json).collect());
            let lists = whole.lists.iter().map(|(name, list)| (name.clone(), steps(list)));
            entries.push(("feature_lists", Json::object(lists)));
        }
        Err(error) => entries.push(("error", error_json(&error))),
    }
    Json::object(entries)
}

/// Floats that JSON cannot say are texts; bytes that are no text are `{"hex": …}`.
fn feature_json(feature: &Feature) -> Json {
    let float = |&value: &f32| match value.is_finite() {
        true => Json::Number(format!("{value:?}")),
        false => Json::text(value.to_string()),
    };
    let bytes = |value: &Vec<u8>| match std::str::from_utf8(value) {
        Ok(text) => Json::text(text),
        Err(_) => Json::object([("hex", Json::text(hex(value)))]),
    };
    let values = match feature {
        Feature::F32(values) => values.iter().map(float).collect(),
        Feature::I64(values) => values.iter().map(|&value| Json::number(value)).collect(),
        Feature::Bytes(values) => values.iter().map(bytes).collect(),
        Feature::None => Vec::new(),
    };
    let kind = feature.kind().map_or(Json::Null, |kind| Json::text(kind.to_string()));
    Json::object([("type", kind), ("values", Json::List(values))])
}

/// A feature a line: name, type, number of values, the first of them.
fn write_whole(whole: &Whole, out: &mut impl Write) -> io::Result<()> {
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

/// A text in quotes where it is one, hexadecimal digits where not; neither is long.
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

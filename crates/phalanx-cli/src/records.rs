//! `phalanx records`: counts or verifies the records of a TFRecord file. `phalanx head` shows them.

use crate::exit::ExitCode;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use phalanx_base::{Code, Context, Error, Result};
use phalanx_formats::record::{Compression, ReadOptions, RecordReader};
use serde_json::{Value, json};

/// Counts or verifies the records of a TFRecord file.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
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
pub(crate) enum How {
    Auto,
    None,
    Gzip,
    Zlib,
}

/// Runs the command. The exit code is 1 if the file cannot be read to its end.
pub(crate) fn run(args: &RecordsArgs) -> ExitCode {
    let mut out = io::stdout().lock();
    let (source, done) = match &args.action {
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

impl How {
    /// Opens a TFRecord file.
    pub(crate) fn open(self, path: &Path) -> Result<RecordReader<File>> {
        let compression = match self {
            Self::Auto => None,
            Self::None => Some(Compression::None),
            Self::Gzip => Some(Compression::Gzip),
            Self::Zlib => Some(Compression::Zlib),
        };
        let what = || format!("{} cannot be opened", path.display());
        let file = File::open(path).context(Code::DataMissing, what())?;
        let options = ReadOptions { compression, ..ReadOptions::default() };
        RecordReader::with_options(file, &options).map_err(|error| named(path, error))
    }
}

/// Adds the name of the file to the position of an error.
pub(crate) fn named(path: &Path, error: Error) -> Error {
    let place = error.place().map(|place| format!(": {place}")).unwrap_or_default();
    error.at(format!("{}{place}", path.display()))
}

/// Reads everything and writes the number of records.
fn count(source: &Source, what: &str, out: &mut impl Write) -> io::Result<Option<Error>> {
    let (mut payload, mut records, mut compression) = (0_u64, 0, Compression::None);
    let mut read = || {
        let mut reader = source.compression.open(&source.file)?;
        compression = reader.compression();
        while let Some(record) = reader.next_record().map_err(|error| named(&source.file, error))? {
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

/// An error with its position in the file.
pub(crate) fn error_json(error: &Error) -> Value {
    let mut object = crate::output::error_json(error);
    object["place"] = json!(error.place());
    object
}

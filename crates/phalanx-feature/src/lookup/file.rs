//! Vocabulary files: one token per line, or per record of a gzip TFRecord file.

use phalanx_base::{Code, Context, Error, Result};
use phalanx_data::Strings;
use phalanx_formats::record::{Compression, ReadOptions, RecordReader};
use std::path::Path;

/// Reads the tokens of a file, at most `limit` of them.
///
/// Lines end with `\n` or `\r\n`, and a byte order mark is skipped; an empty line is an error, as in TensorFlow. A name ending in `tfrecord.gz` denotes a
/// compressed record file.
pub(crate) fn read(path: &Path, limit: Option<usize>) -> Result<Strings> {
    let limit = limit.unwrap_or(usize::MAX);
    let place = |error: Error| error.at(path.display().to_string());
    let bytes =
        std::fs::read(path).context(Code::DataMissing, "a vocabulary file cannot be read").map_err(|error| {
            place(error)
                .help("give the path of a file with one token per line, relative to this task's working directory")
        })?;
    let records = path.to_str().is_some_and(|name| name.ends_with("tfrecord.gz"));
    let tokens = if records { from_records(&bytes, limit) } else { from_lines(&bytes, limit) };
    tokens.map_err(place)
}

fn from_lines(bytes: &[u8], limit: usize) -> Result<Strings> {
    // Editors on Windows write a byte order mark, which is no part of the first token.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut tokens = Strings::new();
    if bytes.is_empty() {
        return Ok(tokens);
    }
    for (number, line) in bytes.split(|&byte| byte == b'\n').take(limit).enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            let what = format!("line {} of a vocabulary file is empty", number + 1);
            return Err(Error::new(Code::DataFormat, what).help("remove empty lines: every line is a token"));
        }
        tokens.push(line);
    }
    Ok(tokens)
}

fn from_records(bytes: &[u8], limit: usize) -> Result<Strings> {
    let options = ReadOptions { compression: Some(Compression::Gzip), ..ReadOptions::default() };
    let mut reader = RecordReader::with_options(bytes, &options)?;
    let mut tokens = Strings::new();
    while tokens.len() < limit {
        match reader.next_record()? {
            Some(record) => tokens.push(record),
            None => break,
        }
    }
    Ok(tokens)
}

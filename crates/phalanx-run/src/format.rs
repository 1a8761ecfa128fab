//! The version of the files, and how values are spelled in them.

use phalanx_base::{Code, Error, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// The version of the files that this build writes, as `format_version`. Files without that key are older and still read.
pub const FORMAT_VERSION: u32 = 1;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Reads a JSON file; `None` if it is missing or damaged.
///
/// # Errors
/// [`Code::DataFormat`] if a newer version of Phalanx wrote the file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    read_up_to(path, MAX_BYTES)
}

/// As [`read`], for a file of another size at most.
pub(crate) fn read_up_to<T: DeserializeOwned>(path: &Path, max_bytes: u64) -> Result<Option<T>> {
    if std::fs::metadata(path).map_or(0, |about| about.len()) > max_bytes {
        return Ok(None);
    }
    let bytes = std::fs::read(path).unwrap_or_default();
    let Ok(object) = serde_json::from_slice::<Value>(&bytes) else { return Ok(None) };
    check(object["format_version"].as_u64().unwrap_or(0), path)?;
    Ok(serde_json::from_value(object).ok())
}

/// Refuses a version that this build does not know.
pub(crate) fn check(version: u64, path: &Path) -> Result<()> {
    if version <= u64::from(FORMAT_VERSION) {
        return Ok(());
    }
    Err(Error::new(Code::DataFormat, "a newer version of Phalanx wrote this run")
        .at(path.display().to_string())
        .because(format!("its format is version {version}; this build reads versions up to {FORMAT_VERSION}"))
        .help("use the version of phalanx that launched the run, or a newer one"))
}

/// Values as the text that [`Display`](std::fmt::Display) writes and [`FromStr`](std::str::FromStr) reads.
pub(crate) mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The same for values that may be missing.
pub(crate) mod as_optional_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

//! What people write to say where a run directory is.

use phalanx_base::{Code, Error, Result};

/// A location taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location<'a> {
    /// A path of the local file system.
    Local(&'a str),
    /// A place in a bucket or container.
    Object { scheme: Scheme, bucket: &'a str, prefix: &'a str },
}

/// The kinds of object stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    Gs,
    Az,
}

impl Scheme {
    const ALL: [Self; 3] = [Self::S3, Self::Gs, Self::Az];

    /// What is before `://`, and also what the cargo feature is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gs => "gs",
            Self::Az => "az",
        }
    }
}

impl<'a> Location<'a> {
    /// Takes `text` apart, without looking whether anything is there.
    pub(crate) fn parse(text: &'a str) -> Result<Self> {
        if text.is_empty() {
            return Err(malformed(text, "it is empty").help("name a directory or an object store, such as runs/census"));
        }
        if text.starts_with("memory:") {
            return Err(malformed(text, "memory is only for tests").help("name a directory, such as runs/census"));
        }
        let Some((scheme, rest)) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
            return Ok(Self::Local(text));
        };
        if scheme.eq_ignore_ascii_case("file") {
            return local(text, rest);
        }
        let known = Scheme::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(scheme));
        object(text, known.ok_or_else(|| unknown(text, scheme))?, rest)
    }
}

fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn local<'a>(text: &'a str, rest: &'a str) -> Result<Location<'a>> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if path.starts_with('/') {
        return Ok(Location::Local(path));
    }
    Err(malformed(text, "a file URL names no host, and its path is absolute").help("write it as file:///path"))
}

fn object<'a>(text: &'a str, scheme: Scheme, rest: &'a str) -> Result<Location<'a>> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let name = scheme.name();
    if bucket.is_empty() {
        return Err(malformed(text, "it names no bucket").help(format!("write it as {name}://bucket/directory")));
    }
    if !prefix.is_empty() {
        crate::name::check(prefix).map_err(|error| {
            let why = error.why().unwrap_or("it is malformed").to_owned();
            malformed(text, &why).help(format!("write it as {name}://bucket/directory"))
        })?;
    }
    Ok(Location::Object { scheme, bucket, prefix })
}

fn malformed(text: &str, why: &str) -> Error {
    Error::new(Code::StorageLocation, format!("{text:?} is no place for files")).because(why)
}

fn unknown(text: &str, scheme: &str) -> Error {
    let error = malformed(text, &format!("{scheme}:// is not known"));
    match scheme.to_ascii_lowercase().as_str() {
        "s3a" | "s3n" => error.help("write s3:// instead"),
        "gcs" => error.help("write gs:// instead"),
        "abfs" | "abfss" | "adl" | "azure" | "wasb" | "wasbs" => error.help("write az://container/directory instead"),
        "hdfs" | "viewfs" => error.help("mount it, and give the path where it is mounted"),
        _ => error.help("give a path, or a location that starts with file://, s3://, gs:// or az://"),
    }
}

/// The error for a store this program was built without.
#[cfg_attr(all(feature = "s3", feature = "gs", feature = "az"), expect(dead_code))]
pub(crate) fn not_built_in(text: &str, scheme: Scheme) -> Error {
    let name = scheme.name();
    let error = Error::new(Code::StorageLocation, format!("this program cannot reach {text:?}"));
    let error = error.because(format!("it was built without support for {name}://"));
    error.help(format!("build it with `cargo build --features {name}`, or give a local path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_taken_apart() {
        let object = |scheme, bucket, prefix| Location::Object { scheme, bucket, prefix };
        for (text, location) in [
            ("runs/census", Location::Local("runs/census")),
            ("../runs", Location::Local("../runs")),
            ("a b://c", Location::Local("a b://c")),
            ("file:///runs/100%", Location::Local("/runs/100%")),
            ("file://localhost/runs", Location::Local("/runs")),
            ("s3://bucket", object(Scheme::S3, "bucket", "")),
            ("s3://bucket/", object(Scheme::S3, "bucket", "")),
            ("GS://bucket/a/b/", object(Scheme::Gs, "bucket", "a/b")),
            ("az://container/a", object(Scheme::Az, "container", "a")),
        ] {
            assert_eq!(Location::parse(text).expect(text), location);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_a_way_out() {
        for (text, help) in [
            ("", "runs/census"),
            ("memory:", "runs/census"),
            ("memory://", "runs/census"),
            ("file://host/runs", "file:///path"),
            ("file://runs", "file:///path"),
            ("s3://", "s3://bucket/directory"),
            ("s3:///a", "s3://bucket/directory"),
            ("gs://b/a/../c", "gs://bucket/directory"),
            ("gs://b//c", "gs://bucket/directory"),
            ("s3a://b/c", "s3://"),
            ("hdfs://b/c", "mounted"),
            ("ftp://b/c", "az://"),
        ] {
            let error = Location::parse(text).expect_err(text);
            assert_eq!(error.code(), Code::StorageLocation);
            assert!(error.next().is_some_and(|next| next.contains(help)), "{text}: {error:?}");
        }
    }
}

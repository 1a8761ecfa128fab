//! Finds files by a pattern.

use crate::location::Location;
use crate::pattern::{Pattern, is_wild};
use crate::{Dir, name};
use phalanx_base::{Code, Error, Result};

/// The files that a pattern matches, in the order of their locations: each with its directory and its name there.
///
/// The pattern is a location in which parts of the path may have `*`, `?`, `[a-z]` and `[!a-z]`; a part `**` stands for
/// any directories, or none. A dot at the start of a name must be written out, as in a shell. A character that would
/// be special stands for itself in brackets: `[*]`. `**` does not follow symbolic links.
///
/// No match is no error: the list is empty.
///
/// # Errors
/// When the location is malformed, a directory cannot be listed, or a local name that matches is not UTF-8.
///
/// ```no_run
/// for (dir, name) in phalanx_storage::glob("data/**/train-*.csv")? {
///     let file = dir.open_read(&name)?;
/// }
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn glob(location_pattern: &str) -> Result<Vec<(Dir, String)>> {
    let (dir, pattern) = match Location::parse(location_pattern)? {
        Location::Local(path) => {
            let (base, pattern) = split(path);
            (Dir::local(base), pattern)
        }
        Location::Object { bucket, .. } if is_wild(bucket) => {
            let error = Error::new(Code::StorageLocation, format!("{location_pattern:?} is no pattern for files"));
            return Err(error.because("it has a wildcard in the bucket").help("name one bucket"));
        }
        Location::Object { .. } => {
            let (base, pattern) = split(location_pattern);
            (Dir::open(base)?, pattern)
        }
    };
    find(&dir, pattern)
}

/// The files below `dir` that a pattern matches.
pub(crate) fn find(dir: &Dir, pattern: &str) -> Result<Vec<(Dir, String)>> {
    let mut parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    if parts.iter().any(|part| matches!(*part, "." | "..")) {
        let error = Error::new(Code::StorageLocation, format!("{pattern:?} is no pattern for files"));
        return Err(error.because("`.` or `..` after a wildcard").help("write the path without them"));
    }
    if pattern.ends_with('/') {
        return Ok(Vec::new());
    }
    // Two of them in a row mean the same as one, and cost a walk more.
    parts.dedup_by(|a, b| *a == "**" && *b == "**");
    let mut found = Vec::new();
    walk(dir, &parts, &mut found)?;
    let mut found: Vec<(String, Dir, String)> =
        found.into_iter().map(|(dir, name): (Dir, String)| (dir.place(&name), dir, name)).collect();
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    // With two `**` there is more than one way to a file.
    found.dedup_by(|a, b| a.0 == b.0);
    Ok(found.into_iter().map(|(_, dir, name)| (dir, name)).collect())
}

/// The directories before the first part with a wildcard, and the rest.
fn split(text: &str) -> (&str, &str) {
    let wild = text.find(['*', '?', '[']).unwrap_or(text.len());
    match text[..wild].rfind('/') {
        None => (".", text),
        Some(0) => text.split_at(1),
        Some(slash) => (&text[..slash], &text[slash + 1..]),
    }
}

fn walk(dir: &Dir, parts: &[&str], found: &mut Vec<(Dir, String)>) -> Result<()> {
    match parts {
        [] => Ok(()),
        ["**", rest @ ..] => {
            walk(dir, if rest.is_empty() { &["*"] } else { rest }, found)?;
            let contents = dir.contents()?;
            for folder in contents.folders.iter().filter(|folder| !folder.link && !folder.name.starts_with('.')) {
                walk(&dir.child(&folder.name)?, parts, found)?;
            }
            Ok(())
        }
        [last] => files(dir, last, found),
        [part, rest @ ..] if !is_wild(part) => walk(&dir.child(part)?, rest, found),
        [part, rest @ ..] => {
            let (contents, pattern) = (dir.contents()?, Pattern::new(part));
            refuse_odd(dir, &pattern, &contents.odd)?;
            for folder in contents.folders.iter().filter(|folder| pattern.matches(&folder.name)) {
                walk(&dir.child(&folder.name)?, rest, found)?;
            }
            Ok(())
        }
    }
}

/// Adds the files directly in `dir` that match.
fn files(dir: &Dir, part: &str, found: &mut Vec<(Dir, String)>) -> Result<()> {
    if !is_wild(part) {
        if dir.size(part)?.is_some() {
            found.push((dir.clone(), part.to_owned()));
        }
        return Ok(());
    }
    let (contents, pattern) = (dir.contents()?, Pattern::new(part));
    refuse_odd(dir, &pattern, &contents.odd)?;
    let names = contents.files.into_iter().map(|entry| entry.name);
    let names = names.filter(|name| pattern.matches(name) && !name::is_staged(name));
    found.extend(names.map(|name| (dir.clone(), name)));
    Ok(())
}

/// Names that are not UTF-8 cannot be given back exactly; leaving them out would lose data without a word.
fn refuse_odd(dir: &Dir, pattern: &Pattern, odd: &[String]) -> Result<()> {
    let Some(name) = odd.iter().find(|name| pattern.matches(name)) else { return Ok(()) };
    let error = Error::new(Code::StorageRead, format!("cannot read {name:?}")).at(dir.location());
    Err(error.because("its name is not UTF-8").help("rename it, or write a pattern that does not match it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_part_is_found() {
        assert_eq!(split("*.csv"), (".", "*.csv"));
        assert_eq!(split("a.csv"), (".", "a.csv"));
        assert_eq!(split("/a*"), ("/", "a*"));
        assert_eq!(split("../data/x/a?/b.csv"), ("../data/x", "a?/b.csv"));
        assert_eq!(split("/data/a.csv"), ("/data", "a.csv"));
        assert_eq!(split("s3://bucket/a*"), ("s3://bucket", "a*"));
    }

    #[test]
    fn a_wildcard_in_the_bucket_is_refused() {
        let error = glob("s3://buck*/a").expect_err("no bucket");
        assert_eq!(error.code(), Code::StorageLocation);
        let error = glob("data/*/../x").expect_err("a way back");
        assert!(error.to_string().contains("after a wildcard"), "{error}");
    }
}

//! The public API names no foreign types but Burn's, and serde's traits.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The crates that `phalanx` re-exports. The others are internal; their documentation names the foreign types in their API.
const SHOWN: [&str; 10] =
    ["base", "cluster", "data", "estimator", "feature", "nn", "optim", "storage", "train", "ps/src/plan"];

/// Our crates, the standard library's, and Burn, with which a program writes its model.
const OURS: [&str; 8] = ["alloc", "burn", "core", "crate", "phalanx", "self", "std", "super"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the names that a file imports from foreign crates, and the names of these crates.
fn foreign(source: &str) -> BTreeSet<&str> {
    let uses = source.split(";\n").filter_map(|item| item.trim_start().strip_prefix("use "));
    // The arguments and results of steps are any types that serde can encode.
    let is_ours = |first: &str| {
        first == "serde" || OURS.iter().any(|own| first.starts_with(own)) || source.contains(&format!("mod {first};\n"))
    };
    uses.filter(|path| !words(path).next().is_some_and(is_ours)).flat_map(words).collect()
}

/// Returns the public items of a file up to their bodies: signatures, fields, names of types.
fn public(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let starts = (0..lines.len()).filter(|&at| lines[at].trim_start().starts_with("pub "));
    let whole = |at: usize| {
        let mut text = String::new();
        for line in &lines[at..] {
            text += line.trim();
            text.push(' ');
            if line.trim_end().ends_with(['{', ';', ',', '}']) && text.matches('(').count() == text.matches(')').count()
            {
                break;
            }
        }
        text
    };
    // The fields of a tuple are private unless they are marked.
    let is_seen = |item: &String| !item.starts_with("pub struct") || !item.contains('(') || item.contains("(pub ");
    starts.map(whole).filter(is_seen).collect()
}

#[test]
fn the_public_api_names_no_foreign_type_but_burns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut seen = 0;
    for shown in SHOWN {
        let folder = if shown.contains('/') { format!("phalanx-{shown}") } else { format!("phalanx-{shown}/src") };
        let mut files = Vec::new();
        sources(&root.join(folder), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a source");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let foreign = foreign(text);
            for item in public(text) {
                seen += 1;
                let found = words(&item).find(|word| foreign.contains(word));
                assert!(found.is_none(), "{}: {found:?} in `{item}`", file.display());
            }
        }
    }
    assert!(seen > 1000, "{seen} public items were looked at");
}

#[test]
fn a_foreign_type_is_noticed() {
    let source = "use bytes::{Bytes, BytesMut};\nuse phalanx_base::Result;\nuse std::sync::Arc;\n\npub struct Note {\n    pub text: Bytes,\n}\n\n\
                  pub fn read(\n    from: &[u8],\n) -> Result<Arc<BytesMut>> {\n    todo\n}\n";
    let foreign = foreign(source);
    let found: Vec<String> =
        public(source).into_iter().filter(|item| words(item).any(|word| foreign.contains(word))).collect();
    assert_eq!(found, ["pub text: Bytes, ", "pub fn read( from: &[u8], ) -> Result<Arc<BytesMut>> { "]);
}

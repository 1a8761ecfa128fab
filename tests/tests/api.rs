//! What a program sees of us: of other people's types, only Burn's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The crates that `phalanx` shows to programs. Others are rooms behind it, and say in their own documentation whose types they hand on.
const SHOWN: [&str; 10] =
    ["base", "cluster", "data", "estimator", "feature", "nn", "optim", "storage", "train", "ps/src/plan"];

/// Ours, the standard library's, and Burn's, which a program writes its model with.
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

/// The names that a file takes from crates of other people, those crates' own among them.
fn foreign(source: &str) -> BTreeSet<&str> {
    let uses = source.split(";\n").filter_map(|item| item.trim_start().strip_prefix("use "));
    let is_ours =
        |first: &str| OURS.iter().any(|own| first.starts_with(own)) || source.contains(&format!("mod {first};\n"));
    uses.filter(|path| !words(path).next().is_some_and(is_ours)).flat_map(words).collect()
}

/// Everything that is public in a file, up to the body: signatures, fields, names of types.
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
    // The fields of a tuple are private unless they say otherwise.
    let is_seen = |item: &String| !item.starts_with("pub struct") || !item.contains('(') || item.contains("(pub ");
    starts.map(whole).filter(is_seen).collect()
}

#[test]
fn programs_see_no_type_of_other_people_but_burns() {
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
                let strange = words(&item).find(|word| foreign.contains(word));
                assert!(strange.is_none(), "{}: {strange:?} in `{item}`", file.display());
            }
        }
    }
    assert!(seen > 1000, "{seen} public items were looked at");
}

#[test]
fn a_type_of_other_people_is_noticed() {
    let source = "use bytes::{Bytes, BytesMut};\nuse phalanx_base::Result;\nuse std::sync::Arc;\n\npub struct Note {\n    pub text: Bytes,\n}\n\n\
                  pub fn read(\n    from: &[u8],\n) -> Result<Arc<BytesMut>> {\n    todo\n}\n";
    let foreign = foreign(source);
    let strange: Vec<String> =
        public(source).into_iter().filter(|item| words(item).any(|word| foreign.contains(word))).collect();
    assert_eq!(strange, ["pub text: Bytes, ", "pub fn read( from: &[u8], ) -> Result<Arc<BytesMut>> { "]);
}

//! Rules of the source tree that a test can check.

use std::path::{Path, PathBuf};
use xtask::pages::root;

/// A longer file has more than one subject.
const MOST_LINES: usize = 500;

fn files(dir: &Path, name: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())).flatten() {
        let path = entry.path();
        let hidden = path.file_name().is_some_and(|name| name == "target" || name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !hidden {
            files(&path, name, found);
        } else if name(&path) {
            found.push(path);
        }
    }
}

fn found(name: impl Fn(&Path) -> bool) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    files(&root(), &name, &mut paths);
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read_to_string(&path).expect("a text"));
    paths.into_iter().map(read).collect()
}

#[test]
fn no_file_is_too_long() {
    let sources = found(|path| path.extension().is_some_and(|ending| ending == "rs"));
    assert!(sources.len() > 300, "the check itself finds nothing");
    for (path, text) in sources {
        let lines = text.lines().count();
        assert!(lines <= MOST_LINES, "{path} has {lines} lines");
    }
}

#[test]
fn every_crate_uses_the_lints_of_the_workspace() {
    let manifests = found(|path| path.file_name().is_some_and(|name| name == "Cargo.toml"));
    assert!(manifests.len() > 20, "the check itself finds nothing");
    // The targets of cargo-fuzz are a workspace of their own.
    let member = |text: &str| text.contains("[package]") && !text.contains("[workspace]");
    for (path, text) in manifests.iter().filter(|(_, text)| member(text)) {
        assert!(text.contains("[lints]\nworkspace = true"), "{path}");
        assert!(text.contains("rust-version.workspace = true"), "{path}");
    }
}

/// Ids that tell tasks, snapshots and jobs apart, and secrets, come from the operating system and nowhere else. The
/// standard library promises only that a hasher's keys are good for hashing.
#[test]
fn no_id_and_no_secret_is_made_from_a_hashers_keys() {
    let allowed = ["crates/phalanx-ps/src/client/rows.rs", "crates/phalanx-data/src/dataset/random.rs"];
    let random_state = concat!("Random", "State");
    let sources = found(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let users: Vec<_> = sources.iter().filter(|(_, text)| text.contains(random_state)).collect();
    for (path, _) in &users {
        assert!(allowed.iter().any(|allowed| path.ends_with(allowed)), "{path} uses {random_state}: use getrandom");
    }
    assert_eq!(users.len(), allowed.len(), "an exception is not needed any more");
}

#[test]
fn tf_config_is_read_from_the_environment_in_one_place() {
    let sources = found(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let product = sources.iter().filter(|(path, _)| path.contains("/crates/") && !path.contains("/tests/"));
    let reads = |text: &str| ["var", "var_os"].iter().any(|read| text.contains(&format!("env::{read}(\"TF_CONFIG\")")));
    let readers: Vec<&String> = product.filter(|(_, text)| reads(text)).map(|(path, _)| path).collect();
    assert_eq!(readers.len(), 1, "{readers:?}");
    assert!(readers[0].ends_with("crates/phalanx-train/src/resolver.rs"), "{readers:?}");
}

#[test]
fn the_oldest_compiler_is_the_same_everywhere() {
    let text = |name: &str| std::fs::read_to_string(root().join(name)).expect("a text");
    let manifest = text("Cargo.toml");
    let version = manifest.split_once("rust-version = \"").and_then(|(_, rest)| rest.split('"').next());
    let version = version.expect("the workspace names the oldest compiler that builds it");
    for page in ["README.md", "CONTRIBUTING.md"] {
        assert!(text(page).contains(version), "{page} does not name Rust {version}");
    }
}

#[test]
fn the_python_package_has_the_version_of_the_workspace() {
    let manifest = |name: &str| -> toml::Table {
        let text = std::fs::read_to_string(root().join(name)).expect("a manifest");
        text.parse().expect("a manifest is TOML")
    };
    let ours = &manifest("Cargo.toml")["workspace"]["package"];
    let python = &manifest("python/Cargo.toml")["package"];
    for key in ["version", "rust-version", "edition"] {
        assert_eq!(ours[key], python[key], "{key}");
    }
}

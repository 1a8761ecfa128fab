//! The rooms of the design: who may call whom.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Each crate and what it may name, from the table in the design; `*` is every crate above it in the list.
const ROOMS: [(&str, &[&str]); 22] = [
    ("phalanx-base", &[]),
    ("phalanx-cluster", &["phalanx-base"]),
    ("phalanx-optim", &["phalanx-base"]),
    ("phalanx-formats", &["phalanx-base"]),
    ("phalanx-wire", &["phalanx-base"]),
    ("phalanx-storage", &["phalanx-base"]),
    (
        "phalanx-ps",
        &["phalanx-base", "phalanx-optim", "phalanx-formats", "phalanx-wire", "phalanx-storage", "phalanx-cluster"],
    ),
    ("phalanx-collective", &["phalanx-base", "phalanx-wire", "phalanx-cluster"]),
    ("phalanx-data", &["phalanx-base", "phalanx-formats", "phalanx-storage"]),
    ("phalanx-matmul", &[]),
    ("phalanx-nn", &["phalanx-base", "phalanx-matmul"]),
    ("phalanx-feature", &["phalanx-base", "phalanx-data", "phalanx-formats"]),
    ("phalanx-train", &["*"]),
    ("phalanx-estimator", &["*"]),
    ("phalanx-job", &["*"]),
    ("phalanx-launch", &["phalanx-base", "phalanx-cluster", "phalanx-storage", "phalanx-formats"]),
    ("phalanx-page", &["phalanx-base", "phalanx-launch"]),
    ("phalanx", &["*"]),
    ("phalanx-cli", &["*"]),
    ("phalanx-bench-formats", &["phalanx-base", "phalanx-formats"]),
    ("phalanx-bench-data", &["phalanx-base", "phalanx-formats", "phalanx-storage", "phalanx-data"]),
    ("phalanx-bench", &["*"]),
];

/// Beside the crates, and free to name all of them.
const BESIDE: [&str; 5] = ["phalanx-fuzz", "phalanx-loom", "phalanx-sim", "phalanx-tests", "xtask"];

fn metadata(arguments: &[&str]) -> Value {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--manifest-path", manifest])
        .args(arguments)
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON")
}

fn host() -> String {
    let output = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned())).arg("-vV").output();
    let text = String::from_utf8(output.expect("rustc runs").stdout).expect("rustc writes text");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host").to_owned()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// What a crate of the list may name.
fn allowed(name: &str) -> Option<BTreeSet<&'static str>> {
    let at = ROOMS.iter().position(|(room, _)| *room == name)?;
    let all = ROOMS[at].1 == ["*"];
    Some(if all { ROOMS[..at].iter().map(|(room, _)| *room).collect() } else { ROOMS[at].1.iter().copied().collect() })
}

#[test]
fn arrows_between_crates_point_down_only() {
    let workspace = metadata(&["--no-deps"]);
    let packages = list(&workspace, "packages");
    assert!(packages.len() > 8, "the workspace was not found");
    for package in packages {
        let name = text(package, "name");
        if BESIDE.contains(&name) {
            continue;
        }
        let allowed = allowed(name).unwrap_or_else(|| panic!("{name} has no place in the table of rooms"));
        for dependency in list(package, "dependencies").iter().filter(|d| text(d, "kind") != "dev") {
            let other = text(dependency, "name");
            if other == "phalanx" || other.starts_with("phalanx-") {
                assert!(allowed.contains(other), "{name} may not depend on {other}");
            }
        }
    }
}

#[test]
fn the_table_itself_points_down() {
    for (at, (name, may)) in ROOMS.iter().enumerate() {
        for other in may.iter().filter(|other| **other != "*") {
            assert!(ROOMS[..at].iter().any(|(room, _)| room == other), "{name} is listed before {other}");
        }
    }
}

#[test]
fn a_parameter_server_links_no_tensor_library() {
    // Only what this machine builds: the rest may not have been fetched.
    let whole = metadata(&["--filter-platform", &host()]);
    let name = |id: &str| {
        let package = list(&whole, "packages").iter().find(|package| text(package, "id") == id);
        package.map_or_else(String::new, |package| text(package, "name").to_owned())
    };
    let arrows: BTreeMap<&str, Vec<&str>> = list(&whole["resolve"], "nodes")
        .iter()
        .map(|node| {
            let linked = |dep: &&Value| list(dep, "dep_kinds").iter().any(|kind| kind["kind"].is_null());
            let to = list(node, "deps").iter().filter(linked).map(|dep| text(dep, "pkg")).collect();
            (text(node, "id"), to)
        })
        .collect();
    let reach = |from: &str| {
        let mut open: Vec<&str> = arrows.keys().copied().filter(|id| name(id) == from).collect();
        assert_eq!(open.len(), 1, "{from} is one package");
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(arrows.get(id).into_iter().flatten());
            }
        }
        seen.into_iter().map(name).collect::<BTreeSet<String>>()
    };
    let burn = |names: &BTreeSet<String>| names.iter().find(|name| name.starts_with("burn")).cloned();
    assert!(burn(&reach("phalanx-train")).is_some(), "the check itself finds nothing");
    assert_eq!(burn(&reach("phalanx-ps")), None, "phalanx-ps must not link Burn");
    assert_eq!(burn(&reach("phalanx-wire")), None);
    assert_eq!(burn(&reach("phalanx-launch")), None, "the launcher knows nothing of models");
    assert_eq!(burn(&reach("phalanx-page")), None, "nor does its page");
}

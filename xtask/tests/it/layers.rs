//! The dependencies between crates are those of the table in `docs/architecture.md`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use xtask::pages::root;

/// Packages outside `crates/` that may depend on every crate.
const FREE: [&str; 6] = ["phalanx-bench", "phalanx-fuzz", "phalanx-loom", "phalanx-sim", "phalanx-tests", "xtask"];

/// Packages outside `crates/` that may depend on some crates only, so that they build without Burn.
const LIMITED: [(&str, &str); 2] =
    [("phalanx-bench-formats", "base formats"), ("phalanx-bench-data", "base data formats")];

fn metadata(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(arguments)
        .current_dir(root())
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

/// The name of a crate in the table: without `phalanx-`.
fn short(name: &str) -> &str {
    name.strip_prefix("phalanx-").unwrap_or(name)
}

/// The rows of the table, in their order: a crate and what it depends on.
fn table() -> Vec<(String, BTreeSet<String>)> {
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).expect("the architecture page");
    let (_, rows) =
        page.split_once("| crate | contents | depends on |\n| --- | --- | --- |\n").expect("the table of crates");
    let rows = rows.lines().take_while(|line| line.starts_with('|')).map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "a row has a crate, its contents and its dependencies: {row}");
        let calls = cells[2].split_whitespace().filter(|word| *word != "none").map(str::to_owned).collect();
        (short(cells[0].trim_matches('`')).to_owned(), calls)
    });
    rows.collect()
}

#[test]
fn the_table_of_the_architecture_page_lists_exactly_the_dependencies_of_every_crate() {
    let mut listed: BTreeMap<String, BTreeSet<String>> = table().into_iter().collect();
    let words = |list: &str| list.split(' ').map(str::to_owned).collect();
    listed.extend(LIMITED.map(|(name, calls)| (short(name).to_owned(), words(calls))));
    let workspace = metadata(&["--no-deps"]);
    let packages = list(&workspace, "packages");
    assert!(packages.len() > 8, "the workspace was not found");
    for package in packages {
        let name = text(package, "name");
        if FREE.contains(&name) {
            continue;
        }
        let calls: BTreeSet<String> = list(package, "dependencies")
            .iter()
            .filter(|dependency| text(dependency, "kind") != "dev")
            .map(|dependency| text(dependency, "name"))
            .filter(|other| *other == "phalanx" || other.starts_with("phalanx-"))
            .map(|other| short(other).to_owned())
            .collect();
        let listed = listed.remove(short(name)).unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(listed, calls, "the dependencies of {name}: the table, then Cargo.toml");
    }
    assert!(listed.is_empty(), "the table lists crates that do not exist: {listed:?}");
}

#[test]
fn every_crate_depends_only_on_those_above_it_in_the_table() {
    let mut above = BTreeSet::new();
    for (name, calls) in table() {
        let below: Vec<&String> = calls.difference(&above).collect();
        assert!(below.is_empty(), "{name} is listed above {below:?}");
        above.insert(name);
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
    let links_burn = |from: &str| {
        let mut open: Vec<&str> = arrows.keys().copied().filter(|id| name(id) == from).collect();
        assert_eq!(open.len(), 1, "{from} is one package");
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(arrows.get(id).into_iter().flatten());
            }
        }
        seen.into_iter().any(|id| name(id).starts_with("burn"))
    };
    assert!(links_burn("phalanx-train"), "the check itself finds nothing");
    for without in ["phalanx-ps", "phalanx-wire", "phalanx-launch", "phalanx-dashboard", "phalanx-bench-data"] {
        assert!(!links_burn(without), "{without} links Burn");
    }
}

/// The Python package is a workspace of its own, and is built with `--locked`: a new dependency of a crate has to reach its lock file,
/// too. `cargo metadata --manifest-path python/Cargo.toml` writes it there.
#[test]
fn the_lock_file_of_the_python_package_has_the_dependencies_of_every_crate() {
    let lock = std::fs::read_to_string(root().join("python/Cargo.lock")).expect("a lock file");
    let lock: toml::Table = lock.parse().expect("a lock file is TOML");
    let locked = lock["package"].as_array().expect("packages").iter().map(|package| {
        let name = package["name"].as_str().expect("a name").to_owned();
        let all = package.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
        let names = all.filter_map(|one| one.as_str()?.split(' ').next().map(str::to_owned)).collect();
        (name, names)
    });
    let locked: BTreeMap<String, BTreeSet<String>> = locked.collect();
    let whole = metadata(&["--no-deps"]);
    let mut compared = 0;
    for package in list(&whole, "packages") {
        let Some(locked) = locked.get(text(package, "name")) else { continue };
        let needed = list(package, "dependencies").iter().filter(|one| text(one, "kind") != "dev");
        let missing: Vec<&str> = needed
            .filter(|one| one["optional"] == false && !locked.contains(text(one, "name")))
            .map(|one| text(one, "name"))
            .collect();
        assert!(missing.is_empty(), "python/Cargo.lock has no {missing:?} for {}", text(package, "name"));
        compared += 1;
    }
    assert!(compared > 15, "the check itself finds nothing");
}

//! What a change can affect: from changed files to the cargo commands that check them.

use crate::{metadata, output, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A package of the workspace.
struct Package {
    name: String,
    /// Its folder, from the root.
    dir: String,
    /// The packages it is built with, and those that only its tests use.
    normal: BTreeSet<String>,
    dev: BTreeSet<String>,
}

/// What changed files belong to.
#[derive(Default)]
struct Changed {
    packages: BTreeSet<String>,
    /// Something that every package is built with.
    everything: bool,
    guide: bool,
    /// Folders of suites that need more than Rust.
    suites: BTreeSet<&'static str>,
}

/// Suites in folders of their own, and how to run each.
const SUITES: [(&str, &str); 6] = [
    ("tests/tf", "python -m pytest tests/tf"),
    ("tests/browser", "python -m pytest tests/browser"),
    ("tests/manifests", "python -m pytest tests/manifests"),
    ("tests/acceptance", "the changed scripts; each names its arguments"),
    (".ci", "cargo xtask check"),
    ("tests/loom", "RUSTFLAGS=\"--cfg loom\" CARGO_TARGET_DIR=target/loom cargo test --release -p phalanx-loom"),
];

/// Runs what `plan` lists for the files changed since `since`, or since the branch left main.
pub(crate) fn check(root: &Path, since: Option<&str>) -> Result<(), String> {
    let git = |arguments: &[&str]| output(Command::new("git").current_dir(root).args(arguments));
    let base = match since {
        Some(since) => since.to_owned(),
        None => git(&["merge-base", "HEAD", "main"])?.trim().to_owned(),
    };
    let tracked = git(&["diff", "--name-only", "--no-renames", &base])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard"])?;
    let paths: Vec<&str> = tracked.lines().chain(untracked.lines()).collect();
    let packages = packages(&metadata(root, &["--no-deps"])?);
    let (commands, suites) = plan(&paths, &packages);
    eprintln!("{} changed files since {base}", paths.len());
    for command in &commands {
        eprintln!("=== cargo {}", command.join(" "));
        run(Command::new(env!("CARGO")).current_dir(root).args(command))?;
    }
    suites.iter().for_each(|suite| eprintln!("not run: {suite}"));
    Ok(())
}

fn packages(metadata: &Value) -> Vec<Package> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let root = format!("{}/", text(&metadata["workspace_root"]));
    let read = |package: &Value| {
        let names = |dev: bool| {
            let dependencies = list(&package["dependencies"]).into_iter();
            dependencies.filter(|one| (one["kind"] == "dev") == dev).map(|one| text(&one["name"])).collect()
        };
        let manifest = text(&package["manifest_path"]);
        let dir = manifest.strip_prefix(&root).unwrap_or(&manifest).trim_end_matches("/Cargo.toml").to_owned();
        Package { name: text(&package["name"]), dir, normal: names(false), dev: names(true) }
    };
    list(&metadata["packages"]).iter().map(read).collect()
}

/// The cargo commands that check `paths`, and the suites that cover the rest of them.
fn plan(paths: &[&str], packages: &[Package]) -> (Vec<Vec<String>>, Vec<String>) {
    let mut changed = Changed::default();
    paths.iter().for_each(|path| changed.add(path, packages));
    let affected = if changed.everything {
        packages.iter().map(|package| package.name.as_str()).collect()
    } else {
        affected(&changed.packages, packages)
    };
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let mut commands = Vec::new();
    if !affected.is_empty() {
        let chosen = match affected.len() == packages.len() {
            true => words("--workspace"),
            false => affected.iter().flat_map(|name| ["-p".to_owned(), (*name).to_owned()]).collect(),
        };
        commands.push(words("fmt --all --check"));
        commands.push([words("clippy"), chosen.clone(), words("--all-targets -- -D warnings")].concat());
        commands.push([words("test --no-fail-fast"), chosen].concat());
    }
    if !paths.is_empty() && !affected.contains("xtask") {
        // Sizes of files, layers, links: a second once it is built.
        commands.push(words("test -p xtask"));
    }
    if changed.guide {
        let missing = |name: &str| !affected.contains(name) && packages.iter().any(|package| package.name == name);
        if missing("phalanx") {
            commands.push(words("test -p phalanx --doc guide"));
        }
        if missing("phalanx-cli") {
            commands.push(words("test -p phalanx-cli transcripts"));
        }
    }
    let suites = SUITES.iter().filter(|(folder, _)| changed.suites.contains(folder));
    (commands, suites.map(|(folder, how)| format!("{folder}: {how}")).collect())
}

impl Changed {
    fn add(&mut self, path: &str, packages: &[Package]) {
        let suite = SUITES.iter().map(|(folder, _)| *folder).find(|folder| is_below(path, folder));
        self.suites.extend(suite);
        // A suite lies in the folder of a package and is not part of it, unless it is a package itself.
        let least = suite.map_or(0, str::len);
        let owners = packages.iter().filter(|package| package.dir.len() >= least && is_below(path, &package.dir));
        let owner = owners.max_by_key(|package| package.dir.len());
        let owner = owner.map(|package| package.name.as_str()).or(match path.split('/').next() {
            Some("examples") => Some("phalanx"),
            Some("jobs") => Some("phalanx-cli"),
            Some("deny.toml") => Some("xtask"),
            _ => None,
        });
        match owner {
            Some(owner) => drop(self.packages.insert(owner.to_owned())),
            None if is_below(path, "docs") || path.ends_with(".md") => self.guide = true,
            None => {
                self.everything |=
                    ["Cargo.toml", "Cargo.lock", "rustfmt.toml"].contains(&path) || is_below(path, ".cargo")
            }
        }
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The changed packages, all that are built with them, and all whose tests are.
fn affected<'a>(changed: &BTreeSet<String>, packages: &'a [Package]) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = packages
        .iter()
        .filter(|package| changed.contains(&package.name))
        .map(|package| package.name.as_str())
        .collect();
    loop {
        let uses = |package: &&Package| package.normal.iter().any(|name| found.contains(name.as_str()));
        let more: Vec<&str> = packages.iter().filter(uses).map(|package| package.name.as_str()).collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            break;
        }
    }
    let tested = packages.iter().filter(|package| package.dev.iter().any(|name| found.contains(name.as_str())));
    let tested: Vec<&str> = tested.map(|package| package.name.as_str()).collect();
    found.extend(tested);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `top` is built with `middle`, `middle` with `base`; the tests of `side` use `middle`.
    fn workspace() -> Vec<Package> {
        let set = |names: &str| names.split_whitespace().map(str::to_owned).collect();
        let package = |name: &str, dir: &str, normal, dev| Package {
            name: name.to_owned(),
            dir: dir.to_owned(),
            normal: set(normal),
            dev: set(dev),
        };
        vec![
            package("base", "crates/base", "serde", ""),
            package("middle", "crates/middle", "base", ""),
            package("top", "crates/top", "middle", ""),
            package("side", "crates/side", "", "middle"),
            package("phalanx", "crates/phalanx", "side", ""),
            package("phalanx-cli", "crates/cli", "phalanx", "xtask"),
            package("phalanx-tests", "tests", "", ""),
            package("phalanx-loom", "tests/loom", "", ""),
            package("xtask", "xtask", "", ""),
        ]
    }

    fn planned(paths: &[&str]) -> Vec<String> {
        let (commands, suites) = plan(paths, &workspace());
        commands.iter().map(|words| words.join(" ")).chain(suites).collect()
    }

    #[test]
    fn a_change_reaches_what_is_built_or_tested_with_it() {
        let all = |packages: &str| {
            vec![
                "fmt --all --check".to_owned(),
                format!("clippy {packages} --all-targets -- -D warnings"),
                format!("test --no-fail-fast {packages}"),
                "test -p xtask".to_owned(),
            ]
        };
        assert_eq!(planned(&[]), [""; 0]);
        assert_eq!(planned(&["crates/top/src/lib.rs", "crates/top/Cargo.toml"]), all("-p top"));
        // Those built with `side` are not affected by what only its tests use.
        assert_eq!(planned(&["crates/base/src/a/b.rs"]), all("-p base -p middle -p side -p top"));
        assert_eq!(planned(&["examples/fit/main.rs"]), all("-p phalanx -p phalanx-cli"));
        assert_eq!(planned(&["jobs/census.toml"]), all("-p phalanx-cli"));
        assert_eq!(planned(&["tests/src/lib.rs"]), all("-p phalanx-tests"));
        assert_eq!(planned(&["deny.toml"])[2], "test --no-fail-fast -p phalanx-cli -p xtask");
        for shared in ["Cargo.toml", "Cargo.lock", "rustfmt.toml", ".cargo/config.toml"] {
            assert_eq!(planned(&[shared])[2..], ["test --no-fail-fast --workspace"]);
        }
    }

    #[test]
    fn pages_are_checked_by_the_tests_of_the_guide_and_suites_are_named() {
        let guide = ["test -p xtask", "test -p phalanx --doc guide", "test -p phalanx-cli transcripts"];
        assert_eq!(planned(&["README.md", "docs/how-to/fit.md"]), guide);
        assert_eq!(planned(&["CONTRIBUTING.md", "jobs/a.toml"])[3..], guide[..2]);
        let suites = planned(&["tests/tf/test_fit.py", ".ci/run"]);
        assert_eq!(suites, ["test -p xtask", "tests/tf: python -m pytest tests/tf", ".ci: cargo xtask check"]);
        let loom = planned(&["tests/loom/tests/ring.rs"]);
        assert!(loom[2].ends_with("-p phalanx-loom") && loom[4].contains("--cfg loom"), "{loom:?}");
    }

    #[test]
    fn the_packages_of_this_workspace_are_found() {
        let packages = packages(&metadata(&crate::root(), &["--no-deps"]).unwrap());
        let base = packages.iter().find(|package| package.name == "phalanx-base").unwrap();
        assert_eq!((base.dir.as_str(), base.normal.contains("phalanx-wire")), ("crates/phalanx-base", false));
        let all = affected(&["phalanx-base".to_owned()].into(), &packages);
        assert!(["phalanx-ps", "phalanx", "phalanx-cli", "xtask"].iter().all(|name| all.contains(name)), "{all:?}");
    }
}

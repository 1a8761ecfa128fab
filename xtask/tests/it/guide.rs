//! Checks README and guide: every code block is checked or has a reason, every link has a target, every page is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use xtask::pages::{Mark, Page, anchors, links, pages, root};

/// The reasons for which a transcript may not be run.
const REASONS: [&str; 11] = [
    "needs several machines",
    "needs Kubernetes",
    "needs Slurm",
    "needs a GPU",
    "needs TensorFlow",
    "needs data files",
    "needs the network",
    // Run by python/tests/test_guide.py.
    "needs the Python package",
    "builds for minutes",
    "a developer's command",
    "stays until it is stopped",
];

/// Returns whether blocks of a language are checked.
fn is_known(language: &str) -> bool {
    // rust: doc-tests of `phalanx::guide`. console: transcripts.rs of phalanx-cli, first_hour.sh. toml: transcripts, or the
    // schema's test. python: tests/tf/test_guide.py, and python/tests/test_guide.py for docs/python. text: no commands, see below.
    ["rust", "console", "toml", "python", "text"].contains(&language)
}

#[test]
fn every_block_is_compiled_or_run_or_has_a_reason() {
    let guide = std::fs::read_to_string(root().join("crates/phalanx/src/guide.rs")).expect("the list of doc-tests");
    let mut not_run: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for page in pages() {
        for block in page.blocks() {
            let place = &block.place;
            assert!(is_known(&block.language), "{place}: nothing checks blocks of {:?}", block.info);
            match block.language.as_str() {
                "rust" => {
                    assert!(
                        !block.info.contains("ignore"),
                        "{place}: a block of Rust compiles, or is no block of Rust"
                    );
                    assert!(guide.contains(&format!("/{}\")", page.path)), "{place}: {} is not in guide.rs", page.path);
                }
                "text" => {
                    let command = |line: &str| ["$ ", "cargo ", "phalanx "].iter().any(|word| line.starts_with(word));
                    let line = block.text.lines().find(|line| command(line));
                    assert!(line.is_none(), "{place}: a command in a block that is not run: {line:?}");
                }
                "toml" => {
                    let cared_for = matches!(block.mark, Some(Mark::File(_))) || page.path == "docs/job-toml.md";
                    assert!(cared_for, "{place}: nothing reads this file");
                }
                _ => {}
            }
            if let Some(Mark::NotRun(reason)) = &block.mark {
                assert!(
                    REASONS.contains(&reason.as_str()),
                    "{place}: {reason:?} is no reason; add it, or run the block"
                );
                not_run.entry(reason.clone()).or_default().push(place.clone());
            }
        }
    }
    for (reason, places) in not_run {
        eprintln!("not run ({reason}): {}", places.join(", "));
    }
}

/// A path without `..` and `.`, whether the file is there or not.
fn plain(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}

#[test]
fn every_link_has_a_target() {
    let pages = pages();
    let by_path: BTreeMap<&str, &Page> = pages.iter().map(|page| (page.path.as_str(), page)).collect();
    let mut seen = 0;
    for page in &pages {
        for link in links(page) {
            if link.target.contains("://") || link.target.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
            let here = Path::new(&page.path);
            let path = if file.is_empty() { here.to_owned() } else { plain(&here.parent().unwrap_or(here).join(file)) };
            assert!(root().join(&path).exists(), "{}: there is no {}", link.place, path.display());
            // The guide is also shown as a book, and a book has only its own pages.
            let page_of_guide = path.starts_with("docs") && root().join(&path).is_file();
            let fits = !page.path.starts_with("docs/") || page_of_guide;
            assert!(fits, "{}: {} is no page of the guide", link.place, path.display());
            if !anchor.is_empty() {
                let to = by_path.get(path.to_str().unwrap_or_default());
                let to = to.unwrap_or_else(|| panic!("{}: {} is no page", link.place, path.display()));
                let names = anchors(to);
                assert!(names.iter().any(|name| name == anchor), "{}: no heading {anchor:?} in {names:?}", link.place);
            }
        }
    }
    assert!(seen > 50, "the check itself finds nothing");
}

#[test]
fn every_page_is_in_the_summary() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.path == "docs/SUMMARY.md").expect("the guide has a list of pages");
    let listed: BTreeSet<String> = links(summary).into_iter().map(|link| format!("docs/{}", link.target)).collect();
    for page in pages.iter().filter(|page| page.path.starts_with("docs/") && page.path != "docs/SUMMARY.md") {
        assert!(listed.contains(&page.path), "docs/SUMMARY.md does not list {}", page.path);
    }
}

#[test]
fn the_table_of_codes_has_every_code_and_its_exit() {
    let page = std::fs::read_to_string(root().join("docs/errors.md")).expect("the table of codes");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| PX"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let codes = phalanx_base::Code::ALL;
    assert_eq!(rows.len(), codes.len(), "the table and the list of codes differ");
    for (row, code) in rows.iter().zip(codes) {
        assert_eq!(row[0], code.to_string());
        assert_eq!(row[2], code.fault().exit_code().to_string(), "{code}");
    }
}

/// Every file of the tree that a page names, in backticks and from the root, exists.
fn check_files(page: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).expect(page);
    for span in text.split('`').skip(1).step_by(2) {
        let path = ["benches/", "crates/", "examples/", "fuzz/", "jobs/", "tests/"]
            .iter()
            .any(|folder| span.len() > folder.len() && span.starts_with(folder) && !span.contains(char::is_whitespace));
        let file = span.split(':').next().unwrap_or(span);
        assert!(!path || root().join(file).exists(), "{page} names {file}, which is not there");
    }
    text
}

#[test]
fn the_map_and_the_walks_name_files_that_exist() {
    let map = check_files("docs/architecture.md");
    assert!(map.matches("`crates/").count() > 40, "the map names files");
    let walks = check_files("docs/explanation/walks.md");
    for walk in walks.split("\n## ").skip(1) {
        let steps = walk.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
        assert!((6..=12).contains(&steps), "a walk of {steps} steps: {:?}", walk.lines().next());
        assert!(walk.matches("`crates/").count() >= steps, "a walk names its files");
    }
}

#[test]
fn every_example_is_in_the_table_of_documents_and_every_file_it_names_exists() {
    let page = check_files("docs/examples.md");
    for entry in std::fs::read_dir(root().join("examples")).expect("the examples").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(page.contains(&format!("`examples/{name}`")), "docs/examples.md does not name examples/{name}");
    }
}

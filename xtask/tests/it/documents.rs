//! Checks `docs/documents.md`: what it says of the documents that set the goal, and of the programs that replace theirs, is so.

use std::collections::BTreeSet;
use std::path::Path;
use xtask::pages::{Page, pages, root};

const PAGE: &str = "docs/documents.md";
/// How many things the documents say.
const STATEMENTS: usize = 246;

fn page() -> Page {
    pages().into_iter().find(|page| page.path == PAGE).expect("the page")
}

/// The cells of every row of a table with this many columns, except its head.
fn rows(text: &str, columns: usize) -> Vec<Vec<&str>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix('|'));
    let rows = rows.map(|row| row.split(" | ").map(|cell| cell.trim_end_matches(" |").trim()).collect::<Vec<_>>());
    rows.filter(|row| row.len() == columns && row[0] != "#" && row[0] != "document" && !row[0].starts_with("---"))
        .collect()
}

/// The words in backticks.
fn code(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Adds the words of all Rust sources below a folder, without comments.
fn add_words(folder: &Path, words: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            add_words(&path, words);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            words.extend(
                lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).map(str::to_owned),
            );
        }
    }
}

/// The words of our libraries and examples, for names.
fn words() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        let src = entry.path().join("src");
        if src.is_dir() {
            add_words(&src, &mut words);
        }
    }
    add_words(&root().join("examples"), &mut words);
    words
}

/// Fails if a cell names a file, a flag, a command or an item that is not there.
fn check_names(place: &str, cell: &str, known: &BTreeSet<String>, commands: &str) {
    for span in code(cell) {
        let folder = ["benches/", "crates/", "docs/", "examples/", "jobs/", "tests/", "xtask/"];
        if folder.iter().any(|folder| span.starts_with(folder)) {
            assert!(root().join(span).exists(), "{place}: there is no {span}");
        } else if span.starts_with("phalanx ") || span.starts_with("--") {
            let mut words = span.split(' ').filter(|word| *word != "…").peekable();
            if words.next_if_eq(&"phalanx").is_some() {
                let name = words.next().expect("a command");
                assert!(commands.contains(&format!("`phalanx {name}")), "{place}: there is no command {name}");
            }
            for flag in words.filter(|word| word.starts_with("--")) {
                let name = flag.trim_start_matches("--");
                let is_known = commands.contains(&format!("`{flag}")) || known.contains(&name.replace('-', "_"));
                assert!(is_known, "{place}: nothing has the flag {flag}");
            }
        } else {
            let path: Vec<&str> = span.split("::").filter(|part| *part != "phalanx").collect();
            let is_item = path.len() > 1 || span.contains("::") || span.starts_with(|c: char| c.is_uppercase());
            let is_name = span.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')
                && span.chars().any(char::is_lowercase);
            for part in path.iter().filter(|_| is_item && is_name && span != "None") {
                assert!(known.contains(*part), "{place}: nothing is called {part} in {span}");
            }
        }
    }
}

#[test]
fn every_statement_has_a_verdict_and_what_it_names_exists() {
    let (page, known) = (page(), words());
    let commands = std::fs::read_to_string(root().join("docs/reference/cli.md")).expect("the commands");
    let rows = rows(&page.text, 4);
    assert_eq!(rows.len(), STATEMENTS);
    for (at, row) in rows.iter().enumerate() {
        let [number, says, verdict, here] = row[..] else { unreachable!("four columns") };
        assert_eq!(number, (at + 1).to_string(), "{row:?}");
        assert!(!says.is_empty() && !here.is_empty(), "{row:?}");
        let about = |words: &[&str]| words.iter().any(|word| says.contains(word) || here.contains(word));
        let prose: String = here.split('`').step_by(2).collect();
        match verdict {
            "W" => {}
            "D" => assert!(prose.len() > 10, "{row:?}: in what does it differ?"),
            "L" => assert!(about(&["GPU", "Python", "image"]), "{row:?}: not one of the things that are later work"),
            "M" => assert!(about(&["TPU"]), "{row:?}: nothing but TPUs is missing"),
            other => panic!("{row:?}: {other:?} is no verdict"),
        }
        check_names(&format!("{PAGE}, {number}"), here, &known, &commands);
    }
}

/// The lines of all files of an example.
fn lines_of(example: &str) -> usize {
    let files = std::fs::read_dir(root().join(example)).expect(example).flatten();
    files.map(|file| std::fs::read_to_string(file.path()).expect("a source").lines().count()).sum()
}

#[test]
fn every_program_of_the_documents_has_one_here_of_that_length() {
    let (page, known) = (page(), words());
    let cli = std::fs::read_to_string(root().join("docs/reference/cli.md")).expect("the commands");
    let typed: Vec<String> = page
        .blocks()
        .iter()
        .filter(|block| block.language == "console")
        .flat_map(|block| block.commands())
        .map(|(line, _)| line)
        .collect();
    let rows = rows(&page.text, 5);
    assert!(rows.len() > 40, "the table has lost its rows");
    for row in rows {
        let [document, block, theirs, here, ours] = row[..] else { unreachable!("five columns") };
        let place = format!("{PAGE}: {document}, {block}");
        assert!(theirs.parse::<usize>().is_ok(), "{place}: {theirs:?} is no length");
        check_names(&place, here, &known, &cli);
        let commands = code(here).filter(|span| ["phalanx ", "cargo "].iter().any(|program| span.starts_with(program)));
        let commands: Vec<&str> = commands.collect();
        for command in &commands {
            assert!(
                typed.iter().any(|line| line == command),
                "{place}: no block of the page has the command {command}"
            );
        }
        let example = code(here).find(|span| span.starts_with("examples/"));
        let link = here.split_once("](").and_then(|(_, rest)| rest.split_once(')')).map(|(target, _)| target);
        let found = match (example, link) {
            (Some(example), _) => lines_of(example),
            (None, Some(target)) => {
                let path = format!("docs/{}", target.split('#').next().unwrap_or(target));
                let lengths = pages().into_iter().filter(|page| page.path == path).flat_map(|page| page.blocks());
                let lengths = lengths.map(|block| block.text.lines().filter(|line| !line.trim().is_empty()).count());
                let lengths: Vec<usize> = lengths.collect();
                let said = ours.parse().unwrap_or(0);
                assert!(lengths.contains(&said), "{place}: {target} has blocks of {lengths:?} lines, none of {ours}");
                said
            }
            (None, None) if here.starts_with("later") => {
                assert_eq!(ours, "", "{place}");
                continue;
            }
            (None, None) => 1,
        };
        assert_eq!(ours, found.to_string(), "{place}: {here}");
    }
}

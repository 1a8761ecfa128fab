//! Runs the transcripts of the guide and compares their output.
//!
//! A page's blocks are one session in an empty folder: ```` ```console ```` blocks are commands with their output, a block under
//! `<!-- file: NAME -->` is written to that file first. `[..]` matches anything within a line, a line `...` any number of lines;
//! where nothing is shown, only success is required. A command whose failure is shown is followed by `$ echo $?`. README is
//! replayed by `tests/acceptance/first_hour.sh`.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use xtask::pages::{Block, Mark, Page, pages};

/// Seconds for one page; enough on a busy machine.
const LIMIT: &str = "300";
/// Separates the output of commands; no command prints it.
const END: char = '\u{1e}';

struct Typed {
    place: String,
    command: String,
    shown: Vec<String>,
}

fn session(page: &Page) -> (String, Vec<Typed>) {
    let (mut script, mut typed) = (String::new(), Vec::new());
    for block in page.blocks() {
        match &block.mark {
            Some(Mark::File(name)) => script += &write_file(&block, name),
            Some(Mark::NotRun(_)) => {}
            _ if block.language == "console" => {
                for (command, shown) in block.commands() {
                    script += &format!("{command}\nstatus=$?; printf '{END}%s{END}\\n' $status; (exit $status)\n");
                    typed.push(Typed { place: block.place.clone(), command, shown });
                }
            }
            _ => {}
        }
    }
    (script, typed)
}

fn write_file(block: &Block, name: &str) -> String {
    assert!(!block.text.contains("END_OF_FILE"), "{}", block.place);
    format!("mkdir -p \"$(dirname '{name}')\" && cat > '{name}' <<'END_OF_FILE'\n{}END_OF_FILE\n", block.text)
}

/// Whether a line is as shown.
fn is_as_shown(line: &str, shown: &str) -> bool {
    let parts: Vec<&str> = shown.split("[..]").collect();
    let Some(mut rest) = line.trim_end().strip_prefix(parts[0]) else { return false };
    for (at, part) in parts.iter().enumerate().skip(1) {
        let last = at + 1 == parts.len();
        let found = if last && !part.is_empty() { rest.strip_suffix(part).map(str::len) } else { rest.find(part) };
        let Some(found) = found else { return false };
        rest = if last { "" } else { &rest[found + part.len()..] };
    }
    rest.is_empty()
}

/// Whether lines are as shown, with `...` for any number of them.
fn are_as_shown(lines: &[&str], shown: &[String]) -> bool {
    match (shown.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((dots, rest)), _) if dots == "..." => (0..=lines.len()).any(|from| are_as_shown(&lines[from..], rest)),
        (Some((first, shown)), Some((line, lines))) => is_as_shown(line, first) && are_as_shown(lines, shown),
        _ => false,
    }
}

fn replay(page: &Page, bin: &Path) {
    let (script, typed) = session(page);
    if typed.is_empty() {
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join(".session");
    std::fs::write(&file, format!("exec 2>&1\n{script}")).expect("the session is written");
    let output = Command::new("timeout")
        .args(["--kill-after=5", LIMIT, "bash"])
        .arg(&file)
        .current_dir(home.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("HOME", home.path())
        .output()
        .expect("bash runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut parts = text.split(END);
    for (at, one) in typed.iter().enumerate() {
        let place = format!("{}: $ {}", one.place, one.command);
        let (Some(printed), Some(status)) = (parts.next(), parts.next()) else {
            panic!("{place}\nthe session ended here ({}):\n{text}", output.status);
        };
        let printed = if at == 0 { printed } else { printed.strip_prefix('\n').unwrap_or(printed) };
        let asked = typed.get(at + 1).is_some_and(|next| next.command == "echo $?");
        assert!(status == "0" || asked, "{place}\nended with code {status}:\n{printed}");
        let lines: Vec<&str> = printed.lines().collect();
        let good = one.shown.is_empty() || are_as_shown(&lines, &one.shown);
        assert!(good, "{place}\nis shown to print\n---\n{}\n---\nand prints\n---\n{printed}---", one.shown.join("\n"));
    }
}

#[test]
fn every_transcript_of_the_guide_is_right() {
    let bin = tempfile::tempdir().expect("a folder");
    symlink(env!("CARGO_BIN_EXE_phalanx"), bin.path().join("phalanx")).expect("a link");
    let only = std::env::var("PHALANX_PAGE").unwrap_or_default();
    for page in pages().iter().filter(|page| page.path != "README.md" && page.path.contains(&only)) {
        replay(page, bin.path());
    }
}

#[test]
fn wildcards_match_what_changes() {
    assert!(is_as_shown("step 800: loss 0.4", "step [..]: loss [..]"));
    assert!(is_as_shown("all", "[..]") && is_as_shown("ab", "a[..]b") && !is_as_shown("ab", "a[..]bb"));
    assert!(!is_as_shown("a b", "a") && !is_as_shown("a", "a b[..]"));
    let shown = ["a", "...", "z"].map(str::to_owned);
    assert!(are_as_shown(&["a", "b", "c", "z"], &shown) && are_as_shown(&["a", "z"], &shown));
    assert!(!are_as_shown(&["a", "z", "b"], &shown) && !are_as_shown(&["b", "z"], &shown));
}

#[test]
fn every_command_in_the_table_of_names_exists() {
    let page = pages().into_iter().find(|page| page.path == "docs/if-you-know-tensorflow.md").expect("the page");
    let spans: Vec<&str> =
        page.text.split('`').skip(1).step_by(2).filter(|span| span.starts_with("phalanx ")).collect();
    assert!(spans.len() > 3, "{spans:?}");
    for span in spans {
        let words: Vec<&str> = span.split(' ').skip(1).collect();
        let output = Command::new(env!("CARGO_BIN_EXE_phalanx")).args(&words).arg("--help").output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(&format!("Usage: {span}")), "there is no `{span}`: {text}");
    }
}

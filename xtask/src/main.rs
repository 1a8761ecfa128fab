//! What a developer does besides `cargo build`: `cargo xtask check`, `licences`, `docs`.

mod licences;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask COMMAND

  check             everything that must hold before a change is taken: .ci/run
  check --quick     what needs nothing but Rust: format, lints, documentation, tests, licences
  licences          whether every dependency may be used, as deny.toml says
  docs              writes the pages that are made from code anew
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check", rest @ ..] => run(Command::new(root().join(".ci/run")).args(rest)),
        ["licences"] => report(licences::check(&root())),
        ["docs"] => docs(),
        _ => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
    }
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The tests that hold pages against code write them anew where they differ, and fail once for that.
fn docs() -> ExitCode {
    let pages: [&[&str]; 3] = [
        &["-p", "phalanx-job", "--test", "schema"],
        &["-p", "phalanx-cli", "--bins"],
        &["-p", "phalanx-tests", "--test", "names"],
    ];
    for page in pages {
        let mut test = Command::new(env!("CARGO"));
        test.current_dir(root()).arg("test").arg("--quiet").args(page);
        let _written = run(test.env("PHALANX_WRITE_DOCS", "1"));
        if run(test.env_remove("PHALANX_WRITE_DOCS")) != ExitCode::SUCCESS {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => report(Err(format!("{command:?} does not start: {error}"))),
    }
}

fn report(result: Result<String, String>) -> ExitCode {
    match result {
        Ok(said) => {
            eprintln!("{said}");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

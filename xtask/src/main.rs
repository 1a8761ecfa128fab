//! `cargo xtask`: the gate, the checks that a change needs, licences, the wheel, and pages generated from code.

mod changed;
mod licences;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask COMMAND

  check                          runs every check that a change must pass: .ci/run
  check --quick                  runs those that need nothing but Rust: format, lints, documentation, tests
  check --changed [--since REV]  runs format, lints and tests of what has changed, and of what depends on it, since REV or
                                 since the branch left main, uncommitted files included
  licences                       checks that deny.toml allows every dependency
  wheel                          builds the Python package as a wheel into target/wheel/wheels, and tries it
  docs                           writes the pages that are generated from code
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["check", "--changed"] => changed::check(&root(), None),
        ["check", "--changed", "--since", since] => changed::check(&root(), Some(since)),
        ["check", rest @ ..] => run(Command::new(root().join(".ci/run")).args(rest)),
        ["licences"] => licences::check(&root()).map(|summary| eprintln!("{summary}")),
        ["wheel"] => wheel::build(&root()),
        ["docs"] => docs(),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    result.map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Writes the pages that tests compare with code. Each test writes its page where the two differ and fails once for that, so it
/// runs a second time.
fn docs() -> Result<(), String> {
    for page in
        ["-p phalanx-jobfile --test it schema::", "-p phalanx-cli --lib reference::", "-p xtask --test it names::"]
    {
        let mut test = Command::new(env!("CARGO"));
        test.current_dir(root()).args(["test", "--quiet"]).args(page.split(' '));
        let _differed = run(test.env("PHALANX_WRITE_DOCS", "1"));
        run(test.env_remove("PHALANX_WRITE_DOCS"))?;
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", shown(command))),
        Err(error) => Err(format!("{} does not start: {error}", shown(command))),
    }
}

/// The standard output of a command.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{} does not start: {error}", shown(command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", shown(command), String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", shown(command)))
}

/// The command as one types it, without the folder of its program.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = [program].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// `cargo metadata` of the workspace at `root`.
fn metadata(root: &Path, arguments: &[&str]) -> Result<serde_json::Value, String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args(["metadata", "--format-version", "1", "--offline"]).args(arguments);
    serde_json::from_str(&output(&mut command)?).map_err(|error| format!("cargo metadata: {error}"))
}

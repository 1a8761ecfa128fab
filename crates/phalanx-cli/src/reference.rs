//! `docs/reference/cli.md`: every command and flag, written from the definitions themselves.

use crate::Command;
use clap::{Arg, CommandFactory};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");

const HEAD: &str = "# Commands

<!-- Written by crates/phalanx-cli/src/reference.rs; `cargo xtask docs` rewrites it. -->

The output of `phalanx COMMAND --help`. Results go to standard output, messages to standard error; `--json` prints results for programs.
[Exit codes](../errors.md).

";

/// The page.
fn page() -> String {
    let mut root = Command::command();
    root.build();
    let mut text = HEAD.to_owned();
    let commands = visible(&root);
    text += "| command | does |\n| --- | --- |\n";
    for command in &commands {
        let name = command.get_name();
        text += &format!("| [`phalanx {name}`](#phalanx-{name}) | {} |\n", about(command));
    }
    commands.into_iter().for_each(|command| write(command, "phalanx", &mut text));
    text
}

fn visible(command: &clap::Command) -> Vec<&clap::Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help").collect()
}

fn about(command: &clap::Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn write(command: &clap::Command, path: &str, text: &mut String) {
    let path = format!("{path} {}", command.get_name());
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").split_whitespace().collect::<Vec<_>>().join(" ");
    *text += &format!("\n## {path}\n\n{}.\n\n`{usage}`\n", about(command).trim_end_matches('.'));
    let hidden = |arg: &&Arg| arg.is_hide_set() || ["help", "version"].contains(&arg.get_id().as_str());
    let args: Vec<&Arg> = command.get_arguments().filter(|arg| !hidden(arg)).collect();
    if !args.is_empty() {
        *text += "\n| | |\n| --- | --- |\n";
        args.into_iter().for_each(|arg| *text += &row(arg));
    }
    if let Some(after) = command.get_after_help() {
        let lines: Vec<String> = after.to_string().lines().map(|line| format!("- {}\n", example(line))).collect();
        *text += &format!("\n{}", lines.concat());
    }
    visible(command).into_iter().for_each(|below| write(below, &path, text));
}

/// `What for:   a command` with the command as code.
fn example(line: &str) -> String {
    let (what, command) = line.split_once(':').unwrap_or(("Example", line));
    format!("{what}: `{}`", command.trim())
}

fn row(arg: &Arg) -> String {
    let values: Vec<String> = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let takes = arg.get_action().takes_values();
    let name = match arg.get_long() {
        Some(long) if takes => format!("--{long} {}", values.join(" ")),
        Some(long) => format!("--{long}"),
        None => values.join(" "),
    };
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults: Vec<String> = arg.get_default_values().iter().map(|one| one.to_string_lossy().into_owned()).collect();
    if takes && !defaults.is_empty() {
        help += &format!(" [default: `{}`]", defaults.join(","));
    }
    let may: Vec<String> = arg.get_possible_values().iter().map(|one| format!("`{}`", one.get_name())).collect();
    if takes && !may.is_empty() {
        help += &format!(": {}", may.join(", "));
    }
    format!("| `{}` | {} |\n", name.replace('|', "\\|"), help.replace('|', "\\|"))
}

#[test]
fn the_reference_matches_the_commands() {
    let wanted = page();
    if std::fs::read_to_string(PAGE).unwrap_or_default() != wanted {
        let written = std::env::var_os("PHALANX_WRITE_DOCS").is_some();
        if written {
            std::fs::write(PAGE, wanted).expect("the page can be written");
        }
        panic!("docs/reference/cli.md is out of date (written: {written}); PHALANX_WRITE_DOCS=1 rewrites it");
    }
}

#[test]
fn every_command_and_flag_has_a_help_text() {
    let mut root = Command::command();
    root.build();
    let mut open = visible(&root);
    while let Some(command) = open.pop() {
        assert!(!about(command).is_empty(), "{} has no help text", command.get_name());
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{} of {} has no help text", arg.get_id(), command.get_name());
        }
        open.extend(visible(command));
    }
}

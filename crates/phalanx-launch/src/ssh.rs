//! A job on several machines from one terminal: a launcher on every node, each started over ssh.

use crate::Placed;
use crate::launch::Launch;
use crate::process::Program;
use std::ffi::OsString;
use std::path::PathBuf;

/// How to start launchers on other machines.
#[derive(Clone, Debug)]
pub struct Ssh {
    /// `ssh` and its options.
    pub command: Vec<String>,
    /// The command that starts `phalanx` on the nodes.
    pub launcher: Vec<String>,
    /// Flags for the launchers on the nodes, in addition to node, program and directory.
    pub options: Vec<String>,
    /// Files and folders that [`Launch::stage`] copies to the nodes.
    pub stage: Vec<PathBuf>,
}

impl Ssh {
    /// The command that starts the launcher on a task's node. The token goes to its standard input, where no process list shows it;
    /// when that closes, this launcher is gone and the one on the node stops.
    pub(crate) fn program(&self, launch: &Launch, placed: &Placed) -> Program {
        let directory = std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
        let launcher: Vec<String> = self.launcher.iter().map(|word| shell_quoted(word)).collect();
        let mut remote = format!("cd {} && exec ", shell_quoted(&directory));
        // Every task of a job must encrypt alike.
        if let Ok(encryption) = std::env::var("PHALANX_TLS") {
            remote += &format!("env PHALANX_TLS={} ", shell_quoted(&encryption));
        }
        remote += &format!("{} launch", launcher.join(" "));
        for word in self.options.iter().map(String::as_str) {
            remote += &format!(" {}", shell_quoted(word));
        }
        // Nodes may share a disk, so each has its own directory.
        let run = launch.run.root().join("nodes").join(placed.node.to_string());
        remote +=
            &format!(" --run-dir {} --node {} --remote --", shell_quoted(&run.display().to_string()), placed.node);
        for word in &launch.program {
            remote += &format!(" {}", shell_quoted(&word.to_string_lossy()));
        }
        let host = launch.layout.node_names().get(placed.node).cloned().unwrap_or_default();
        let words = self.command.iter().cloned().chain([host, remote]).map(OsString::from).collect();
        Program { words, env: Vec::new(), feed: Some(launch.token.clone().unwrap_or_default()) }
    }
}

/// Quotes a word for a POSIX shell.
#[must_use]
pub fn shell_quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_quoted_words_back() {
        for word in ["", "a b", "it's", "$HOME `x` \"q\" \\", "plain-1.2/x=y", "new\nline", "*"] {
            let output =
                std::process::Command::new("sh").args(["-c", &format!("printf %s {}", shell_quoted(word))]).output();
            assert_eq!(String::from_utf8(output.expect("sh runs").stdout).expect("text"), word);
        }
    }
}

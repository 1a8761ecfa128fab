//! A job over several machines from one terminal: a launcher on every node, at the end of an ssh connection each.

use crate::Placed;
use crate::launch::Launch;
use crate::process::Program;
use std::ffi::OsString;

/// How other machines are reached.
#[derive(Clone, Debug)]
pub struct Ssh {
    /// `ssh` and its options.
    pub command: Vec<String>,
    /// `phalanx` on the nodes.
    pub launcher: String,
    /// What the launchers on the nodes are told beside node, program and directory.
    pub options: Vec<String>,
}

impl Ssh {
    /// The connection to a task's node. The token goes over standard input, where no list of processes shows it, and the
    /// launcher there ends when that closes: when this one is gone.
    pub(crate) fn program(&self, launch: &Launch, placed: &Placed) -> Program {
        let directory = std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
        let mut remote = format!("cd {} && exec {} launch", quoted(&directory), quoted(&self.launcher));
        for word in self.options.iter().map(String::as_str) {
            remote += &format!(" {}", quoted(word));
        }
        // Nodes may share a disk.
        let run = launch.run.root().join("nodes").join(placed.node.to_string());
        remote += &format!(" --run-dir {} --node {} --remote --", quoted(&run.display().to_string()), placed.node);
        for word in &launch.program {
            remote += &format!(" {}", quoted(&word.to_string_lossy()));
        }
        let host = launch.layout.node_names().get(placed.node).cloned().unwrap_or_default();
        let words = self.command.iter().cloned().chain([host, remote]).map(OsString::from).collect();
        Program { words, env: Vec::new(), feed: Some(launch.token.clone().unwrap_or_default()) }
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
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
    fn a_shell_reads_words_back() {
        for word in ["", "a b", "it's", "$HOME `x` \"q\" \\", "plain-1.2/x=y", "new\nline", "*"] {
            let output = std::process::Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output();
            assert_eq!(String::from_utf8(output.expect("sh runs").stdout).expect("text"), word);
        }
    }
}

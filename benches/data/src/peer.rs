//! A peer in a process of its own: told to read the file once more, it answers with rows and seconds.

use phalanx_base::{Code, Context, Error, Result};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("../peer_data.py");

/// One peer's way of reading one file.
pub(crate) struct Peer {
    pub(crate) name: String,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts each of these ways; none where there is no interpreter.
    pub(crate) fn start_all(python: Option<&PathBuf>, ways: &[&str], file: &Path) -> Result<Vec<Self>> {
        let Some(python) = python else { return Ok(Vec::new()) };
        ways.iter().map(|way| Self::start(python, way, file)).collect()
    }

    fn start(python: &Path, way: &str, file: &Path) -> Result<Self> {
        let mut child = Command::new(python)
            .args(["-c", SCRIPT, way])
            .arg(file)
            .env("TF_CPP_MIN_LOG_LEVEL", "3")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context(Code::DataMissing, format!("{} cannot be started", python.display()))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(Code::Internal, "a peer has no pipes"));
        };
        let mut peer = Self { name: way.to_owned(), child, to, from: BufReader::new(from) };
        peer.line()?;
        Ok(peer)
    }

    /// Reads the file once; rows and seconds.
    pub(crate) fn read(&mut self) -> Result<(usize, f64)> {
        writeln!(self.to, "read").context(Code::DataMissing, format!("{} has ended", self.name))?;
        let line = self.line()?;
        let mut words = line.split_whitespace();
        let wrong = || Error::new(Code::DataFormat, format!("{} answered {line:?}", self.name));
        let rows = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
        let seconds = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
        Ok((rows, seconds))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let count = self.from.read_line(&mut line).context(Code::DataMissing, format!("{} has ended", self.name))?;
        if count == 0 {
            return Err(Error::new(Code::DataMissing, format!("{} has ended", self.name))
                .because("it printed why on stderr")
                .help("does the interpreter have TensorFlow, or pyarrow?"));
        }
        Ok(line)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It waits for a line; there is nothing to save in it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

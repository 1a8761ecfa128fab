//! TensorFlow in a process of its own, which measures itself when told to.

use phalanx_base::{Code, Context, Error, Result};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../peer_formats.py");

/// A running peer: one line in, one line with seconds out.
pub(crate) struct Peer {
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts TensorFlow; `mode` is what it will measure.
    pub(crate) fn start(python: &Path, mode: &str) -> Result<Self> {
        let mut child = Command::new(python)
            .args([SCRIPT, mode])
            .env("TF_CPP_MIN_LOG_LEVEL", "3")
            .env("CUDA_VISIBLE_DEVICES", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context(Code::BadSetting, "the Python interpreter does not start")
            .map_err(|error| error.at(python.display().to_string()))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (ask, answer) = pipes.ok_or_else(|| Error::new(Code::Internal, "the peer has no pipes"))?;
        let mut peer = Self { child, ask, answer: BufReader::new(answer) };
        peer.line()?;
        Ok(peer)
    }

    /// Has something done; gives the seconds it took.
    pub(crate) fn time(&mut self, request: &str) -> Result<f64> {
        writeln!(self.ask, "{request}").context(Code::Internal, "the peer does not listen")?;
        let line = self.line()?;
        line.parse().context(Code::Internal, format!("the peer says {line:?} and not how long it took"))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answer.read_line(&mut line).context(Code::Internal, "the peer does not answer")?;
        if line.is_empty() {
            return Err(Error::new(Code::BadSetting, "the peer ended").help("is TensorFlow installed beside it?"));
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Whatever it is doing, it holds nothing that anybody needs.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

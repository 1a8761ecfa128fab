//! One node: what it has, and the copy to it.

use super::Staging;
use super::paths::{Markers, StagedPath};
use super::watched::{Limit, Trouble, Watched, pipe, wait, words};
use crate::shell_quoted;
use phalanx_base::{Code, Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a node may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a copy may make no progress.
const SILENCE: Duration = Duration::from_secs(120);
/// How a node's answers begin, among what its login shell may print.
const ANSWERS: &str = "phalanx-stage:";

/// How files came to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopiedBy {
    /// The node sees the same disk, so nothing was copied.
    SharedDisk,
    /// rsync, which copied this many files; the others were there already.
    Rsync {
        /// How many files were copied.
        files: u64,
    },
    /// tar, which copies everything.
    Tar {
        /// How many bytes were sent.
        bytes: u64,
    },
}

/// What was copied to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCopy {
    /// The name of the node.
    pub node: String,
    /// How the files came there.
    pub by: CopiedBy,
}

impl std::fmt::Display for NodeCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.node)?;
        match self.by {
            CopiedBy::SharedDisk => f.write_str("the same disk, nothing to copy"),
            CopiedBy::Rsync { files: 0 } => f.write_str("unchanged (rsync)"),
            CopiedBy::Rsync { files: 1 } => f.write_str("1 file copied (rsync)"),
            CopiedBy::Rsync { files } => write!(f, "{files} files copied (rsync)"),
            CopiedBy::Tar { bytes } => write!(f, "{:.1} MB copied (tar)", bytes as f64 / 1e6),
        }
    }
}

/// What a node has.
pub(super) struct View {
    /// What is to be copied there.
    paths: Vec<StagedPath>,
    rsync: bool,
}

/// A node to copy to.
pub(super) struct Node<'a> {
    pub(super) staging: &'a Staging<'a>,
    pub(super) name: &'a str,
}

impl Node<'_> {
    /// Creates the working directory on the node, and finds out what it has.
    pub(super) fn look(&self, markers: &Markers) -> Result<View> {
        let Staging { ssh, here, paths, .. } = self.staging;
        let quoted = |path: &Path| shell_quoted(&path.to_string_lossy());
        let mut script = format!("mkdir -p {0} && cd {0} || exit 1", quoted(here));
        let mut ask = |what: &str, condition: String| script += &format!("; {condition} && echo {ANSWERS}{what}");
        ask("rsync", "command -v rsync >/dev/null 2>&1".to_owned());
        // A launcher of several words is a part of an installed program, which one file would not be.
        let launcher = ssh.launcher.first().filter(|_| ssh.launcher.len() == 1);
        if let Some(launcher) = launcher {
            ask("launcher", format!("test -x {}", shell_quoted(launcher)));
        }
        for (at, marker) in markers.files().enumerate() {
            if let Some(marker) = marker {
                ask(&format!("path-{at}"), format!("test -e {}", quoted(marker)));
            }
        }
        script += "; exit 0";
        let said = self
            .remote(&script, Stdio::null())
            .and_then(|command| wait(vec![command], &Limit::Total(ANSWER), self.staging.signals));
        let said = said.map_err(|why| self.failed(why, "did not answer"))?;
        let has = |what: &str| said.kept.iter().any(|line| line.strip_prefix(ANSWERS) == Some(what));
        let missing = |at: &usize| !has(&format!("path-{at}"));
        let mut wanted: Vec<StagedPath> = (0..paths.len()).filter(missing).map(|at| paths[at].clone()).collect();
        if let Some(launcher) = launcher.map(Path::new).filter(|path| path.is_absolute() && !has("launcher")) {
            // The node runs its tasks with it.
            let launcher = StagedPath::of(launcher, here)?;
            if !wanted.iter().any(|path| launcher.full().starts_with(path.full())) {
                wanted.push(launcher);
            }
        }
        Ok(View { paths: wanted, rsync: has("rsync") && rsync_is_here() })
    }

    /// Copies what the node lacks.
    pub(super) fn copy(&self, view: &View) -> Result<NodeCopy> {
        let node = self.name.to_owned();
        if view.paths.is_empty() {
            return Ok(NodeCopy { node, by: CopiedBy::SharedDisk });
        }
        let mut count = 0;
        for base in [self.staging.here.as_path(), Path::new("/")] {
            let names: Vec<PathBuf> =
                view.paths.iter().filter(|path| path.base == base).map(StagedPath::word).collect();
            if !names.is_empty() {
                let copied = if view.rsync { self.rsync(base, &names) } else { self.tar(base, &names) };
                count += copied.map_err(|why| self.failed(why, "did not get the files"))?;
            }
        }
        let by = if view.rsync { CopiedBy::Rsync { files: count } } else { CopiedBy::Tar { bytes: count } };
        Ok(NodeCopy { node, by })
    }

    /// Copies what has another size or time there, and returns the number of files.
    fn rsync(&self, base: &Path, names: &[PathBuf]) -> Result<u64, Trouble> {
        // The folder is in the command, because versions of rsync quote remote paths differently.
        let remote = format!("cd {} && rsync", shell_quoted(&base.to_string_lossy()));
        let host = if self.name.contains(':') && !self.name.starts_with('[') {
            format!("[{}]", self.name)
        } else {
            self.name.to_owned()
        };
        let timeout = format!("--timeout={}", SILENCE.as_secs());
        let shell = self.staging.ssh.command.join(" ");
        // Links are followed, as what they name need not be on the node; folders above the paths keep their settings.
        let options = ["rsync", "-rLptR", "--no-implied-dirs", &timeout, "--out-format=%n", "-e", &shell];
        let mut all = words(options);
        all.extend(words(["--rsync-path", &remote, "--"]));
        all.extend(names.iter().map(|name| name.as_os_str().to_owned()));
        all.push(format!("{host}:./").into());
        let command = Watched::start(&all, base, Stdio::null(), Stdio::piped()).map_err(Trouble::Failed)?;
        Ok(wait(vec![command.read_output()], &Limit::Own, self.staging.signals)?.files)
    }

    /// Copies everything, and returns the number of bytes.
    fn tar(&self, base: &Path, names: &[PathBuf]) -> Result<u64, Trouble> {
        let mut all = words(["tar", "-chf", "-", "--"]);
        all.extend(names.iter().map(|name| name.as_os_str().to_owned()));
        let mut pack = Watched::start(&all, base, Stdio::null(), Stdio::piped()).map_err(Trouble::Failed)?;
        let script = format!("cd {} && exec tar -xpof -", shell_quoted(&base.to_string_lossy()));
        let mut unpack = self.remote(&script, Stdio::piped())?;
        let bytes = Arc::new(AtomicU64::new(0));
        pipe(&mut pack, &mut unpack, &bytes);
        wait(vec![pack, unpack], &Limit::Silence(SILENCE, &bytes), self.staging.signals)?;
        Ok(bytes.load(Ordering::Relaxed))
    }

    /// Starts a script on the node.
    fn remote(&self, script: &str, input: Stdio) -> Result<Watched, Trouble> {
        let remote = [self.name.to_owned(), format!("exec sh -c {}", shell_quoted(script))];
        let all: Vec<OsString> = self.staging.ssh.command.iter().cloned().chain(remote).map(OsString::from).collect();
        let command = Watched::start(&all, &self.staging.here, input, Stdio::piped());
        command.map(Watched::read_output).map_err(Trouble::Failed)
    }

    fn failed(&self, trouble: Trouble, what: &str) -> Error {
        match trouble {
            Trouble::Stopped(error) => error,
            Trouble::Failed(why) => Error::new(Code::StagingFailed, format!("node {} {what}", self.name))
                .at(format!("{}:{}", self.name, self.staging.here.display()))
                .because(why)
                .help(format!(
                    "check it with: {} {} true; nothing was started",
                    self.staging.ssh.command.join(" "),
                    self.name
                )),
        }
    }
}

fn rsync_is_here() -> bool {
    let version = words(["rsync", "--version"]);
    let command = Watched::start(&version, Path::new("/"), Stdio::null(), Stdio::null());
    let wait = |command| wait(vec![command], &Limit::Total(ANSWER), &crate::Signals::default());
    command.is_ok_and(|command| wait(command).is_ok())
}

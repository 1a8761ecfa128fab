//! Commands that are watched while they run.

use crate::Signals;
use phalanx_base::{Code, Error};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most lines of output that are kept: the first ones of the output, the last ones of the errors.
const LINES: usize = 1024;

/// Why a command did not do what it should.
pub(super) enum Trouble {
    /// This process was asked to stop.
    Stopped(Error),
    /// Anything else.
    Failed(String),
}

/// A command that runs. Dropping it kills it and what it has started.
pub(super) struct Watched {
    name: String,
    child: Child,
    output: Option<JoinHandle<Lines>>,
    errors: Option<JoinHandle<Lines>>,
}

/// What a command printed.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) kept: VecDeque<String>,
    /// How many lines name a file: those that name a folder end in a slash.
    pub(super) files: u64,
}

impl Watched {
    /// Starts `words` in `folder`; its output is read unless it goes elsewhere.
    pub(super) fn start(words: &[OsString], folder: &Path, input: Stdio, output: Stdio) -> Result<Self, String> {
        let Some((program, arguments)) = words.split_first() else { return Err("the command is empty".to_owned()) };
        let name = program.to_string_lossy().into_owned();
        let mut command = Command::new(program);
        // Ctrl-C reaches this process alone, which then ends the command.
        command.args(arguments).current_dir(folder).process_group(0).stdin(input).stdout(output).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let errors = child.stderr.take().map(|stream| read(stream, true));
        Ok(Self { name, child, output: None, errors })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Reads the output on another thread.
    pub(super) fn read_output(mut self) -> Self {
        self.output = self.child.stdout.take().map(|stream| read(stream, false));
        self
    }

    /// Returns the exit status once the command has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, Trouble> {
        self.child.try_wait().map_err(|error| Trouble::Failed(format!("{} cannot be watched: {error}", self.name)))
    }

    /// Returns what the command printed, or why it failed. It has ended with `status`.
    pub(super) fn finish(mut self, status: ExitStatus) -> Result<Lines, Trouble> {
        let join = |thread: Option<JoinHandle<Lines>>| thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let (output, errors) = (join(self.output.take()), join(self.errors.take()));
        if status.success() {
            return Ok(output);
        }
        let said: Vec<String> = errors.kept.into_iter().filter(|line| !line.trim().is_empty()).collect();
        let said = said[said.len().saturating_sub(3)..].join("; ");
        let said = if said.is_empty() { "it printed no reason".to_owned() } else { said };
        Err(Trouble::Failed(format!("{} ended with {status}: {said}", self.name)))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

/// How long commands may take.
pub(super) enum Limit<'a> {
    /// In all.
    Total(Duration),
    /// Without progress, which this counts.
    Silence(Duration, &'a AtomicU64),
    /// The command has a limit of its own.
    Own,
}

/// Waits until all commands have ended, and returns what the last one printed. The first one that fails ends all, the last
/// one's reason first.
pub(super) fn wait(mut commands: Vec<Watched>, limit: &Limit<'_>, signals: &Signals) -> Result<Lines, Trouble> {
    let (mut since, mut seen) = (Instant::now(), 0);
    loop {
        let mut ends = Vec::with_capacity(commands.len());
        for command in &mut commands {
            ends.push(command.ended()?);
        }
        let failed = ends.iter().rposition(|end| end.is_some_and(|status| !status.success()));
        // One that lost its reader or writer fails too, a moment earlier or later than the other.
        let settled = failed.is_some_and(|at| at + 1 == ends.len() || ends[at + 1..].iter().all(Option::is_some));
        if let Some(at) = failed.filter(|_| settled)
            && let Some(status) = ends[at]
        {
            return commands.swap_remove(at).finish(status);
        }
        if ends.iter().all(Option::is_some)
            && let (Some(last), Some(Some(status))) = (commands.pop(), ends.pop())
        {
            return last.finish(status);
        }
        if let Some(error) = stop_reason(signals) {
            return Err(Trouble::Stopped(error));
        }
        if let Limit::Silence(_, progress) = limit {
            let now = progress.load(Ordering::Relaxed);
            if now != seen {
                (since, seen) = (Instant::now(), now);
            }
        }
        let longest = match limit {
            Limit::Total(longest) | Limit::Silence(longest, _) => Some(*longest),
            Limit::Own => None,
        };
        if let Some(longest) = longest.filter(|&longest| since.elapsed() > longest) {
            let name = commands.last().map_or_else(String::new, |command| command.name.clone());
            return Err(Trouble::Failed(format!("{name} did nothing for {} s", longest.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn stop_reason(signals: &Signals) -> Option<Error> {
    let code = match signals.received() {
        (0, 0) => return None,
        (0, _) => Code::Terminated,
        _ => Code::Interrupted,
    };
    Some(
        Error::new(code, "stopped while files were copied")
            .because("this process was asked to stop")
            .help("nothing was started; run the command again"),
    )
}

/// Reads a stream to its end; keeps its first lines, or its last ones.
fn read(stream: impl Read + Send + 'static, last: bool) -> JoinHandle<Lines> {
    std::thread::spawn(move || {
        let (mut lines, mut stream, mut line) = (Lines::default(), BufReader::new(stream), Vec::new());
        // A line without an end is read in pieces.
        while matches!((&mut stream).take(8192).read_until(b'\n', &mut line), Ok(read) if read > 0) {
            lines.files += u64::from(!line.ends_with(b"/\n"));
            if lines.kept.len() < LINES || last {
                lines.kept.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if lines.kept.len() > LINES {
                lines.kept.pop_front();
            }
            line.clear();
        }
        lines
    })
}

/// Copies what one command prints into the input of another, and counts the bytes.
pub(super) fn pipe(from: &mut Watched, to: &mut Watched, count: &Arc<AtomicU64>) {
    let (Some(mut output), Some(mut input)) = (from.child().stdout.take(), to.child().stdin.take()) else { return };
    let count = Arc::clone(count);
    // It ends with either command.
    std::thread::spawn(move || {
        let mut block = vec![0; 1 << 16];
        while let Ok(read @ 1..) = output.read(&mut block) {
            if std::io::Write::write_all(&mut input, &block[..read]).is_err() {
                return;
            }
            count.fetch_add(read as u64, Ordering::Relaxed);
        }
    });
}

/// Makes words of a command.
pub(super) fn words<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Vec<OsString> {
    words.into_iter().map(|word| word.as_ref().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: &Limit<'_>, signals: &Signals) -> Result<Lines, Trouble> {
        let words = words(["sh", "-c", script]);
        let command = Watched::start(&words, Path::new("/"), Stdio::null(), Stdio::piped());
        wait(vec![command.unwrap_or_else(|why| panic!("{why}")).read_output()], limit, signals)
    }

    fn reason(trouble: Result<Lines, Trouble>) -> String {
        match trouble {
            Err(Trouble::Failed(why)) => why,
            Err(Trouble::Stopped(error)) => error.code().to_string(),
            Ok(lines) => panic!("{:?}", lines.kept),
        }
    }

    #[test]
    fn a_command_ends_by_itself_or_with_a_reason() {
        let (signals, minute) = (Signals::default(), Limit::Total(Duration::from_secs(60)));
        let lines = run("echo a/; seq 5000", &minute, &signals).unwrap_or_else(|_| panic!("it succeeds"));
        assert_eq!((lines.files, lines.kept.len(), lines.kept[0].as_str()), (5000, LINES, "a/"));
        let why = reason(run("echo one >&2; echo two >&2; exit 3", &minute, &signals));
        assert!(why.starts_with("sh ended with exit status: 3") && why.ends_with("one; two"), "{why}");
        let why = reason(run("sleep 600", &Limit::Total(Duration::from_millis(20)), &signals));
        assert_eq!(why, "sh did nothing for 0 s");
        signals.stop(true);
        assert_eq!(reason(run("sleep 600", &minute, &signals)), "PX0801");
    }
}

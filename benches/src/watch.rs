//! A measuring program under observation: what it printed, and what all of its processes used meanwhile, seen from outside and
//! for every system in the same way.

use crate::usage::{self, Process};
use phalanx::{Code, Error, Result};
use phalanx_base::Context;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(50);

/// What a job of this program says on its error stream when the measurement is over and before it ends.
pub(crate) const MEASURED: &str = "measured";

/// What was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The line of JSON with `steps_per_s`.
    pub(crate) line: Value,
    /// CPU seconds per second, of all processes together, while it measured.
    pub(crate) cpu_per_s: f64,
    /// Bytes in a second over the loopback device meanwhile, of everybody on the machine.
    pub(crate) loopback_per_s: f64,
    /// The most memory of each process, the largest first.
    pub(crate) peaks: Vec<u64>,
}

impl Seen {
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.line[key].as_f64()
    }

    pub(crate) fn rate(&self) -> f64 {
        self.number("steps_per_s").unwrap_or(0.0)
    }
}

/// The totals at one moment.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    cpu: f64,
    loopback: u64,
}

/// Runs `command`, which measures `steps` several times over, until it has printed its line and ended.
pub(crate) fn run(mut command: Command, steps: u64, deadline: Duration) -> Result<Seen> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.env_remove("TF_CONFIG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context(Code::Internal, format!("{name} cannot be started"))?;
    let (said, lines) = channel();
    let readers = [
        child.stdout.take().map(|stream| listen(stream, said.clone())),
        child.stderr.take().map(|stream| listen(stream, said)),
    ];
    let mut watch = Watch::default();
    let ended = watch.until_end(&mut child, &lines, deadline);
    watch.clear_up(&mut child);
    readers.into_iter().flatten().for_each(|reader| drop(reader.join()));
    watch.heard(&lines);
    ended?;
    watch.seen(steps).map_err(|error| error.at(name))
}

fn listen(stream: impl Read + Send + 'static, said: Sender<(Instant, String)>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // Nobody listens any more only when we gave up.
            let _ = said.send((Instant::now(), line));
        }
    })
}

#[derive(Default)]
struct Watch {
    processes: BTreeMap<u32, Process>,
    samples: Vec<Sample>,
    line: Option<Value>,
    measured: Option<Instant>,
    last_words: String,
}

impl Watch {
    fn until_end(&mut self, child: &mut Child, lines: &Receiver<(Instant, String)>, deadline: Duration) -> Result<()> {
        let started = Instant::now();
        loop {
            self.look(child.id());
            self.heard(lines);
            if child.try_wait().context(Code::Internal, "a measurement cannot be watched")?.is_some() {
                return Ok(());
            }
            if started.elapsed() > deadline {
                return Err(Error::new(Code::JobFailed, "a measurement did not end in time")
                    .because(format!("{} s passed", deadline.as_secs())));
            }
            std::thread::sleep(EVERY);
        }
    }

    fn look(&mut self, root: u32) {
        for (pid, process) in usage::tree(root) {
            let known = self.processes.entry(pid).or_default();
            known.cpu = process.cpu.max(known.cpu);
            known.peak_bytes = process.peak_bytes.max(known.peak_bytes);
            known.started = process.started;
        }
        let cpu = self.processes.values().map(|process| process.cpu).sum();
        self.samples.push(Sample { at: Instant::now(), cpu, loopback: usage::loopback_bytes().unwrap_or(0) });
    }

    fn heard(&mut self, lines: &Receiver<(Instant, String)>) {
        for (at, line) in lines.try_iter() {
            if line == MEASURED {
                self.measured.get_or_insert(at);
            } else if line.starts_with('{') && line.contains("steps_per_s") {
                self.measured.get_or_insert(at);
                self.line = serde_json::from_str(&line).ok();
            } else if !line.trim().is_empty() {
                self.last_words = line.chars().take(300).collect();
            }
        }
    }

    /// Ends what is left: a process of the job that outlived it would disturb the next measurement.
    fn clear_up(&self, child: &mut Child) {
        // Already gone is as good as killed.
        let _ = child.kill();
        let _ = child.wait();
        let until = Instant::now() + Duration::from_secs(5);
        let left = || self.processes.iter().filter(|(pid, process)| usage::is_alive(**pid, process.started));
        while left().next().is_some() && Instant::now() < until {
            std::thread::sleep(EVERY);
        }
        left().for_each(|(&pid, _)| usage::kill(pid));
    }

    fn seen(self, steps: u64) -> Result<Seen> {
        let (Some(line), Some(end)) = (self.line, self.measured) else {
            return Err(Error::new(Code::Internal, "the program measured nothing").because(self.last_words));
        };
        let rate = line["steps_per_s"].as_f64().unwrap_or(0.0);
        // Two of the three measurements, so that the warm-up is certainly not among them.
        let window = Duration::from_secs_f64((2.0 * steps as f64 / rate.max(1e-3)).clamp(0.1, 600.0));
        let before = |at: Instant| self.samples.iter().rev().find(|sample| sample.at <= at).or(self.samples.first());
        let (cpu_per_s, loopback_per_s) = match (end.checked_sub(window).and_then(before), before(end)) {
            (Some(from), Some(to)) if to.at > from.at => {
                let time = (to.at - from.at).as_secs_f64();
                ((to.cpu - from.cpu) / time, (to.loopback - from.loopback) as f64 / time)
            }
            _ => (0.0, 0.0),
        };
        let mut peaks: Vec<u64> = self.processes.values().map(|process| process.peak_bytes).collect();
        peaks.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Seen { line, cpu_per_s, loopback_per_s, peaks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_line_is_found_among_other_words() {
        let seen = run(shell("echo hello; echo '{\"steps_per_s\": 4.5}'; echo bye >&2"), 9, Duration::from_secs(30));
        let seen = seen.unwrap();
        assert_eq!(seen.rate(), 4.5);
        assert!(!seen.peaks.is_empty());
    }

    #[test]
    fn one_that_says_nothing_or_never_ends_is_an_error() {
        let error = run(shell("echo sorry >&2"), 1, Duration::from_secs(30)).unwrap_err();
        assert!(error.to_string().contains("measured nothing"), "{error}");
        let error = run(shell("sleep 60 & sleep 60"), 1, Duration::from_millis(100)).unwrap_err();
        assert_eq!(error.code(), Code::JobFailed);
    }
}

//! Takes the classic flags out of a command line.

use crate::Flags;
use phalanx_base::{Code, Error, Result, Snippet};
use std::ffi::OsString;

/// The flags, as TensorFlow's programs spell them. Dashes are accepted in place of underscores.
const NAMES: [&str; 4] = ["ps_hosts", "worker_hosts", "job_name", "task_index"];

impl Flags {
    /// The four flags for the help of a program: `#[command(after_help = Flags::HELP)]` of `clap`.
    pub const HELP: &'static str = "\
The task of this process, instead of TF_CONFIG:
  --ps_hosts HOST:PORT,…      The parameter servers
  --worker_hosts HOST:PORT,…  The workers; the first is the chief
  --job_name JOB              ps, worker or evaluator
  --task_index N              The index of this task in its job";

    /// Takes the four flags out of the arguments of a program, and returns them and all other arguments in their order. The
    /// first argument is the name of the program, as in [`std::env::args_os`].
    ///
    /// Both `--task_index=0` and `--task_index 0` are understood, as is `--task-index`. An argument `--` ends the flags.
    /// Arguments that are not among the four are left to the program's own parser, which refuses those that it does not know.
    ///
    /// ```
    /// use phalanx_cluster::Flags;
    /// let line = "train --ps_hosts=a:1 --steps 5 --job_name worker --task_index 0 --worker_hosts b:1,c:1";
    /// let (flags, rest) = Flags::take_from(line.split(' '))?;
    /// assert_eq!(flags.worker_hosts.as_deref(), Some("b:1,c:1"));
    /// assert_eq!(rest, ["train", "--steps", "5"]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When one of the four is given twice, lacks its value, or has one that is not text or not a number.
    pub fn take_from<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Result<(Self, Vec<OsString>)> {
        let mut arguments = arguments.into_iter().map(Into::into);
        let mut values: [Option<String>; 4] = Default::default();
        let mut rest: Vec<OsString> = arguments.next().into_iter().collect();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                rest.push(argument);
                rest.extend(arguments);
                break;
            }
            let Some((flag, value)) = classic(&argument) else {
                rest.push(argument);
                continue;
            };
            let value = match value {
                Some(value) => value,
                None => next_value(flag, &mut arguments)?,
            };
            if let Some(first) = values[flag].replace(value.clone()) {
                let error = Error::new(Code::Flags, format!("--{} is given twice", NAMES[flag]));
                return Err(error.because(format!("first as {first:?}, then as {value:?}")).help("give it once"));
            }
        }
        let [ps_hosts, worker_hosts, job_name, task_index] = values;
        let task_index = task_index.map(|text| index(&text)).transpose()?;
        Ok((Self { ps_hosts, worker_hosts, job_name, task_index }, rest))
    }
}

/// Returns which of the four flags an argument is, and the value behind its equals sign.
fn classic(argument: &OsString) -> Option<(usize, Option<String>)> {
    // A value that is not Unicode is shown with replacement characters in the error about it.
    let text = argument.to_string_lossy();
    let text = text.strip_prefix("--")?;
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let name = name.replace('-', "_");
    Some((NAMES.iter().position(|known| *known == name)?, value.map(str::to_owned)))
}

fn next_value(flag: usize, arguments: &mut impl Iterator<Item = OsString>) -> Result<String> {
    let value = arguments.next().map(|value| value.to_string_lossy().into_owned());
    value.filter(|value| !value.starts_with("--")).ok_or_else(|| {
        let name = NAMES[flag];
        let error = Error::new(Code::Flags, format!("--{name} has no value"));
        error.help(format!("write --{name}={}", ["host:port,host:port", "host:port,host:port", "worker", "0"][flag]))
    })
}

fn index(text: &str) -> Result<i64> {
    text.trim().parse().map_err(|_| {
        Error::new(Code::Flags, format!("--task_index is {text:?}"))
            .snippet(Snippet::new("--task_index", text, 0..text.len(), "not a whole number"))
            .help("number the tasks of each job from 0")
    })
}

//! Takes flags out of a command line: the four classic ones, and those that a program defines.

use crate::Flags;
use phalanx_base::{Code, Error, Result, Snippet};
use std::ffi::{OsStr, OsString};

/// The classic flags, each with an example of its value.
const CLASSIC: [(&str, &str); 4] = [
    ("ps_hosts", "host:port,host:port"),
    ("worker_hosts", "host:port,host:port"),
    ("job_name", "worker"),
    ("task_index", "0"),
];

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
        let program = arguments.next();
        let mut rest: Vec<OsString> = arguments.collect();
        let mut values: [Option<String>; 4] = Default::default();
        for (value, (name, example)) in values.iter_mut().zip(CLASSIC) {
            *value = take(&mut rest, name, example)?;
        }
        let [ps_hosts, worker_hosts, job_name, task_index] = values;
        let task_index = task_index.map(|text| index(&text)).transpose()?;
        let rest = program.into_iter().chain(rest).collect();
        Ok((Self { ps_hosts, worker_hosts, job_name, task_index }, rest))
    }
}

/// Takes a flag with a value out of arguments. A dash is accepted in place of an underscore, and an argument `--` ends the flags.
pub(crate) fn take(arguments: &mut Vec<OsString>, name: &str, example: &str) -> Result<Option<String>> {
    let mut found: Option<String> = None;
    while let Some((at, value)) = find(arguments, name) {
        arguments.remove(at);
        let value = match value {
            Some(value) => value,
            None => take_next(arguments, at, name, example)?,
        };
        if let Some(first) = found.replace(value.clone()) {
            let error = Error::new(Code::Flags, format!("--{name} is given twice"));
            return Err(error.because(format!("first as {first:?}, then as {value:?}")).help("give it once"));
        }
    }
    Ok(found)
}

/// Returns where a flag is among arguments, and the text behind its equals sign.
pub(crate) fn find(arguments: &[OsString], name: &str) -> Option<(usize, Option<String>)> {
    let flags = arguments.iter().take_while(|argument| *argument != "--").enumerate();
    flags.filter_map(|(at, argument)| Some((at, assigned(argument, name)?))).next()
}

/// Returns what an argument assigns to a flag: `Some(None)` where it has no equals sign, `None` where it is another argument.
fn assigned(argument: &OsStr, name: &str) -> Option<Option<String>> {
    // A value that is not Unicode is shown with replacement characters in the error about it.
    let text = argument.to_string_lossy();
    let text = text.strip_prefix("--")?;
    let (found, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    (found.replace('-', "_") == name.replace('-', "_")).then(|| value.map(str::to_owned))
}

/// Takes the value that follows a flag.
fn take_next(arguments: &mut Vec<OsString>, at: usize, name: &str, example: &str) -> Result<String> {
    let value = arguments.get(at).map(|value| value.to_string_lossy().into_owned());
    let value = value.filter(|value| !value.starts_with("--")).ok_or_else(|| {
        let error = Error::new(Code::Flags, format!("--{name} has no value"));
        error.help(format!("write --{name}={example}"))
    })?;
    arguments.remove(at);
    Ok(value)
}

fn index(text: &str) -> Result<i64> {
    text.trim().parse().map_err(|_| {
        Error::new(Code::Flags, format!("--task_index is {text:?}"))
            .snippet(Snippet::new("--task_index", text, 0..text.len(), "not a whole number"))
            .help("number the tasks of each job from 0")
    })
}

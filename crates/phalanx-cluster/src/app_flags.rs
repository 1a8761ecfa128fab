//! The flags that a program defines, as with TensorFlow's `tf.app.flags`.

use crate::Flags;
use crate::arguments::{find, take};
use phalanx_base::{Code, Error, Result, nearest};
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

/// Defines the flags of a program, each with its default and a line of help, as `tf.app.flags.DEFINE_…` does.
///
/// A flag is `--name=value` or `--name value`, and a dash may stand for an underscore. Every call takes its flag out of the arguments
/// and returns the value; [`AppFlags::finish`] then reports the first mistake, such as an argument that no call has taken. Programs
/// with subcommands or completions use a parser such as `clap` instead.
///
/// ```
/// use phalanx_cluster::AppFlags;
/// let mut flags = AppFlags::new(["train", "--batch_size=64", "--sync"]);
/// let batch_size = flags.value("batch-size", 100, "Batch size of one worker");
/// let model_dir: Option<String> = flags.optional("model-dir", "Run directory");
/// let sync = flags.switch("sync", "Train synchronously");
/// assert_eq!((batch_size, model_dir, sync), (64, None, true));
/// assert_eq!(flags.finish("Trains a model")?, None);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct AppFlags {
    program: String,
    /// The arguments that no call has taken.
    rest: Vec<OsString>,
    /// The name of each flag, and its line of help.
    defined: Vec<(String, String)>,
    error: Option<Error>,
}

impl AppFlags {
    /// Begins with the arguments of a program; the first is its name, as in [`std::env::args_os`].
    #[must_use]
    pub fn new<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let mut arguments = arguments.into_iter().map(Into::into);
        let program = arguments.next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
        Self { program, rest: arguments.collect(), ..Self::default() }
    }

    /// Defines a flag with a default, and returns its value.
    pub fn value<T: FromStr<Err: Display> + Display>(&mut self, name: &str, default: T, help: &str) -> T {
        let help = format!("{help} [default: {default}]");
        self.optional(name, &help).unwrap_or(default)
    }

    /// Defines a flag that may be left out, and returns its value.
    pub fn optional<T: FromStr<Err: Display>>(&mut self, name: &str, help: &str) -> Option<T> {
        self.defined.push((format!("--{name} VALUE"), help.to_owned()));
        let parsed =
            take(&mut self.rest, name, "VALUE").and_then(|text| text.map(|text| parse(name, &text, help)).transpose());
        parsed.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            None
        })
    }

    /// Defines a flag without a value, and returns whether it is given. `--name=false` is the same as none.
    pub fn switch(&mut self, name: &str, help: &str) -> bool {
        self.defined.push((format!("--{name}"), help.to_owned()));
        let mut given = false;
        while let Some((at, value)) = find(&self.rest, name) {
            self.rest.remove(at);
            match value.as_deref().map_or(Ok(true), |text| parse(name, text, help)) {
                Ok(value) => given = value,
                Err(error) => drop(self.error.get_or_insert(error)),
            }
        }
        given
    }

    /// Ends the definitions. Returns the help of the program if `--help` or `-h` asks for it: `about`, and a line for each flag.
    ///
    /// # Errors
    /// When a flag is given twice, has no value or one that cannot be read, or when an argument is left that no call has taken.
    pub fn finish(self, about: &str) -> Result<Option<String>> {
        if self.rest.iter().any(|argument| argument == "--help" || argument == "-h") {
            return Ok(Some(self.help(about)));
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        let Some(argument) = self.rest.first() else { return Ok(None) };
        let argument = argument.to_string_lossy();
        let name = argument.split('=').next().unwrap_or_default().replace('-', "_");
        let known = self.defined.iter().map(|(flag, _)| flag.split(' ').next().unwrap_or_default());
        let known: Vec<&str> = known.chain(["--ps_hosts", "--worker_hosts", "--job_name", "--task_index"]).collect();
        let spelled: Vec<String> = known.iter().map(|name| name.replace('-', "_")).collect();
        let near = nearest(&name, spelled.iter().map(String::as_str));
        let near = near.and_then(|near| spelled.iter().position(|known| known == near)).map(|at| known[at]);
        let error = Error::new(Code::Flags, format!("nothing here understands the argument {argument:?}"));
        Err(error
            .help(near.map_or_else(|| "--help lists the flags".to_owned(), |near| format!("did you mean {near}?"))))
    }

    fn help(&self, about: &str) -> String {
        let width = self.defined.iter().map(|(flag, _)| flag.len()).max().unwrap_or(0);
        let lines = self.defined.iter().map(|(flag, help)| format!("  {flag:width$}  {help}\n"));
        let lines: String = lines.collect();
        format!("{about}\n\nUsage: {} [FLAGS]\n\n{lines}\n{}\n", self.program, Flags::HELP)
    }
}

fn parse<T: FromStr<Err: Display>>(name: &str, text: &str, help: &str) -> Result<T> {
    text.parse().map_err(|why| {
        Error::new(Code::Flags, format!("--{name} is {text:?}")).because(why).help(format!("--{name}: {help}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> AppFlags {
        AppFlags::new(line.split(' '))
    }

    #[test]
    fn a_flag_is_found_in_every_spelling() {
        for line in ["t --save_model_secs=7", "t --save-model-secs 7", "t --sync --save_model_secs 7"] {
            let mut flags = flags(line);
            assert_eq!(flags.value("save-model-secs", 600_u64, "Seconds"), 7, "{line}");
            assert_eq!(flags.switch("sync", "Synchronous"), line.contains("sync"), "{line}");
            assert_eq!(flags.finish("").unwrap(), None);
        }
        let mut flags = flags("t --rate -0.5 --sync=false");
        assert_eq!(
            (flags.value("rate", 1.0, ""), flags.switch("sync", ""), flags.value("epochs", 3, "")),
            (-0.5, false, 3)
        );
        flags.finish("").unwrap();
    }

    #[test]
    fn the_first_mistake_is_reported_with_the_help_of_its_flag() {
        for (line, said) in [
            ("t --steps=many", "--steps is \"many\": invalid digit"),
            ("t --steps", "--steps has no value"),
            ("t --steps --sync", "--steps has no value"),
            ("t --steps=1 --steps=2", "first as \"1\", then as \"2\""),
            ("t --sync=perhaps", "--sync is \"perhaps\""),
            ("t in.csv", "\"in.csv\""),
        ] {
            let mut flags = flags(line);
            flags.value("steps", 5, "Steps of all workers");
            flags.switch("sync", "Synchronous");
            let error = flags.finish("").unwrap_err();
            assert_eq!((error.code(), error.exit_code()), (Code::Flags, 2), "{line}");
            assert!(error.to_string().contains(said), "{line}: {error}");
        }
        for (line, near) in
            [("t --job_nam=ps", "--job_name"), ("t --save_step 3", "--save-steps"), ("t x", "--help lists")]
        {
            let mut flags = flags(line);
            flags.value("save-steps", 5, "");
            let error = flags.finish("").unwrap_err();
            assert!(error.next().unwrap().contains(near), "{line}: {error}");
        }
    }

    #[test]
    fn help_wins_over_mistakes_and_lists_every_flag() {
        let mut flags = flags("target/train --steps=many --help");
        flags.value("steps", 5, "Steps of all workers");
        let help = flags.finish("Trains a model").unwrap().unwrap();
        assert!(
            help.starts_with(
                "Trains a model\n\nUsage: train [FLAGS]\n\n  --steps VALUE  Steps of all workers [default: 5]\n"
            ),
            "{help}"
        );
        assert!(help.contains("--ps_hosts HOST:PORT"), "{help}");
    }
}

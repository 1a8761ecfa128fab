//! `phalanx checkpoint`: lists, verifies, compares and converts checkpoints.

mod convert;
mod diff;
mod files;
mod show;

use crate::exit::ExitCode;
use std::path::{Path, PathBuf};

use phalanx_base::{Error, Result};
use phalanx_formats::bundle::TensorInfo;
use serde_json::{Value, json};

use crate::output::{eprint, error_json, print};
use files::Checkpoint;

/// Inspects checkpoints of TensorFlow and of Phalanx, and converts them for TensorFlow.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    what: What,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Lists the checkpoints in a directory
    Ls {
        /// Directory, usually a model_dir
        dir: PathBuf,
    },
    /// Lists the tensors of a checkpoint, or prints the values of one
    Show {
        /// Checkpoint, such as model_dir/model.ckpt-1200, or a directory for its newest one
        prefix: PathBuf,
        /// Print the values of this tensor
        #[arg(long, value_name = "NAME")]
        values: Option<String>,
    },
    /// Verifies every checksum of a checkpoint; exits with 1 if it is damaged
    Verify {
        /// Checkpoint, or a directory for its newest one
        prefix: PathBuf,
    },
    /// Compares two checkpoints tensor by tensor; exits with 1 if they differ
    Diff {
        /// First checkpoint, or a directory for its newest one
        a: PathBuf,
        /// Second checkpoint, or a directory for its newest one
        b: PathBuf,
    },
    /// Writes the newest checkpoint of a job as a directory that TensorFlow's Estimator continues from
    Convert(convert::ConvertArgs),
}

/// The result of a command as JSON and as text.
struct Answer {
    json: Value,
    text: String,
    /// Whether the exit code is 0.
    good: bool,
    /// Text for standard error.
    warnings: String,
}

/// Runs the command. The exit code is 1 if a checkpoint is missing or damaged, or if two differ.
pub(crate) fn run(args: &CheckpointArgs) -> ExitCode {
    let answer = match &args.what {
        What::Ls { dir } => files::list(dir),
        What::Show { prefix, values } => Checkpoint::open(prefix).and_then(|found| match values {
            Some(name) => show::values(&found, name),
            None => Ok(show::tensors(&found)),
        }),
        What::Verify { prefix } => Checkpoint::open(prefix).map(|found| verify(&found)),
        What::Diff { a, b } => Checkpoint::open(a).and_then(|a| diff::diff(&a, &Checkpoint::open(b)?)),
        What::Convert(args) => convert::convert(args),
    };
    match answer {
        Ok(Answer { json, text, good, warnings }) => {
            eprint(&warnings);
            print(&if args.json { format!("{json}\n") } else { text });
            ExitCode::from(u8::from(!good))
        }
        Err(error) => {
            if args.json {
                print(&format!("{}\n", json!({ "error": error_json(&error) })));
            }
            eprint(&report(&error));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Reads everything and reports every damaged tensor, not only the first.
fn verify(found: &Checkpoint) -> Answer {
    let (mut bytes, mut problems) = (0_u64, Vec::new());
    let tensors = found.reader.index().tensors();
    for name in tensors.keys() {
        match found.reader.verify_tensor(name) {
            Ok(size) => bytes = bytes.saturating_add(size),
            Err(error) => problems.push(error),
        }
    }
    let shards = found.reader.index().shards();
    let good = problems.is_empty();
    let text = if good {
        let (count, shards) = (counted(tensors.len(), "tensor"), counted(shards as usize, "shard"));
        format!("sound: {count}, {} in {shards}, all checksums match\n", size(bytes))
    } else {
        format!("damaged: {} of {}\n", problems.len(), counted(tensors.len(), "tensor"))
    };
    let json = json!({
        "prefix": found.prefix,
        "sound": good,
        "tensors": tensors.len(),
        "shards": shards,
        "bytes": bytes,
        "problems": problems.iter().map(error_json).collect::<Vec<_>>(),
    });
    let warnings = problems.iter().map(report).collect();
    Answer { json, text, good, warnings }
}

/// Formats a number of bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        10_485_760..10_737_418_240 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// Formats a count, such as `2 tensors`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Escapes control characters, because a name from a file could contain terminal commands.
fn shown(name: &str) -> String {
    name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// The report of an error with escaped control characters.
fn report(error: &Error) -> String {
    error.report().lines().map(|line| shown(line) + "\n").collect()
}

fn kind(info: &TensorInfo) -> String {
    format!("{} {}", info.dtype, info.shape)
}

/// The text of a path.
fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new(phalanx_base::Code::DataMissing, format!("{} is not UTF-8", path.display())))
}

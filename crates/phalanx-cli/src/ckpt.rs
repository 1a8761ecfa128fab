//! `phalanx ckpt`: what is in a checkpoint, whether it is sound, and how two differ.

mod diff;
mod files;
mod show;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use phalanx_base::{Error, Result};
use phalanx_cluster::Json;
use phalanx_formats::bundle::TensorInfo;

use files::Checkpoint;

/// Looks into checkpoints, TensorFlow's or ours.
#[derive(Debug, clap::Args)]
pub(crate) struct CkptArgs {
    #[command(subcommand)]
    what: What,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Lists the checkpoints of a folder
    Ls {
        /// The folder, usually a model_dir
        dir: PathBuf,
    },
    /// Lists the tensors of a checkpoint, or prints the values of one
    Show {
        /// The checkpoint, as model_dir/model.ckpt-1200, or a folder for its newest one
        prefix: PathBuf,
        /// Print this tensor's values
        #[arg(long, value_name = "NAME")]
        values: Option<String>,
    },
    /// Reads a checkpoint to its last byte and checks every checksum; exit code 1 where something is wrong
    Verify {
        /// The checkpoint, or a folder for its newest one
        prefix: PathBuf,
    },
    /// Compares two checkpoints tensor by tensor; exit code 1 where they differ
    Diff {
        /// The one checkpoint, or a folder for its newest one
        a: PathBuf,
        /// The other
        b: PathBuf,
    },
}

/// What a command found out, for programs and for people.
struct Answer {
    json: Json,
    text: String,
    /// Whether all is as it should be.
    good: bool,
    /// What else there is to say on stderr.
    complaints: String,
}

/// Runs the command; the exit code is 1 for a checkpoint that is missing or damaged, and where two differ.
pub(crate) fn run(args: &CkptArgs) -> ExitCode {
    let answer = match &args.what {
        What::Ls { dir } => files::list(dir),
        What::Show { prefix, values } => Checkpoint::open(prefix).and_then(|found| match values {
            Some(name) => show::values(&found, name),
            None => Ok(show::tensors(&found)),
        }),
        What::Verify { prefix } => Checkpoint::open(prefix).map(|found| verify(&found)),
        What::Diff { a, b } => Checkpoint::open(a).and_then(|a| diff::diff(&a, &Checkpoint::open(b)?)),
    };
    match answer {
        Ok(Answer { json, text, good, complaints }) => {
            complain(&complaints);
            print(&if args.json { format!("{json}\n") } else { text });
            ExitCode::from(u8::from(!good))
        }
        Err(error) => {
            if args.json {
                print(&format!("{}\n", Json::object([("error", error_json(&error))])));
            }
            complain(&report(&error));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Reads everything; names all that is wrong, not only the first.
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
        format!("sound: {count}, {} in {shards}, all checksums right\n", size(bytes))
    } else {
        format!("damaged: {} of {}\n", problems.len(), counted(tensors.len(), "tensor"))
    };
    let json = Json::object([
        ("prefix", Json::text(found.prefix.clone())),
        ("sound", Json::Bool(good)),
        ("tensors", Json::number(tensors.len() as u64)),
        ("shards", Json::number(shards)),
        ("bytes", Json::number(bytes)),
        ("problems", Json::List(problems.iter().map(error_json).collect())),
    ]);
    let complaints = problems.iter().map(report).collect();
    Answer { json, text, good, complaints }
}

fn error_json(error: &Error) -> Json {
    let help = error.next().map_or(Json::Null, Json::text);
    let code = Json::text(error.code().to_string());
    Json::object([("code", code), ("message", Json::text(error.to_string())), ("help", help)])
}

/// Rows as columns, each as wide as its widest; the first row is the heading.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &[String], c: usize| row.get(c).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> = (0..columns).map(|c| rows.iter().map(|row| cell(row, c)).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let line: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        text += line.join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A number of bytes as people say it.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        10_485_760..10_737_418_240 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// So many of something, in words.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A name as a terminal may show it: one from a file could carry the terminal's own commands.
fn shown(name: &str) -> String {
    name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// A report, line by line as [`shown`].
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

/// Prints; a reader that has gone away, as behind `| head`, is no reason to fail.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn complain(text: &str) {
    let _gone = std::io::stderr().lock().write_all(text.as_bytes());
}

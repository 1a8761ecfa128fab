//! `phalanx predict`: predictions of a trained job, to a file or to standard output.

use crate::exit::ExitCode;
use crate::job::{OverrideArgs, finish, job_of};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_jobfile::{PredictOptions, PredictionFormat, PredictionWriter};
use std::path::{Path, PathBuf};

/// Predicts every row of a file with a trained job
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: phalanx predict runs/a --input new.csv --output scores.csv --id user\n          \
                        zcat new.csv.gz | phalanx predict runs/a --input - --json")]
pub(crate) struct PredictArgs {
    /// The model_dir of a job, a model that it exported, or a JOB.toml with a model_dir
    #[arg(value_name = "MODEL_DIR|EXPORT_DIR")]
    model: PathBuf,
    /// File of rows to predict, in the format of the training data, or - for standard input; labels may be missing
    #[arg(long, value_name = "FILE|-")]
    input: String,
    /// The rows of a CSV file without a header lack the label's field
    #[arg(long)]
    no_label: bool,
    /// Print one JSON object per row, with TensorFlow's names; the same as --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// File to write, which appears when it is complete [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Form of the predictions [default: that of the output's name, or text]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Column of the input, texts or integers, to carry through as the first column
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
}

/// The form of predictions.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// A line for people: the class and its probabilities, or the numbers
    Text,
    /// A heading and a line per row
    Csv,
    /// One JSON object per row
    Jsonl,
    /// A Parquet file; needs --output
    Parquet,
}

impl PredictArgs {
    fn prediction_format(&self) -> Result<PredictionFormat> {
        Ok(match (self.format, &self.output) {
            _ if self.json => PredictionFormat::JsonLines,
            (Some(Format::Text), _) | (None, None) => PredictionFormat::Text,
            (Some(Format::Csv), _) => PredictionFormat::Csv,
            (Some(Format::Jsonl), _) => PredictionFormat::JsonLines,
            (Some(Format::Parquet), _) => PredictionFormat::Parquet,
            (None, Some(path)) => PredictionFormat::of_file(path).ok_or_else(|| {
                Error::new(Code::Flags, format!("the format of {} is unknown", path.display()))
                    .because("its name ends in none of .csv, .jsonl, .parquet and .txt")
                    .help("add --format csv, jsonl, parquet or text")
            })?,
        })
    }
}

pub(crate) fn predict(args: &PredictArgs) -> ExitCode {
    let run = || {
        let format = args.prediction_format()?;
        let (place, job) = job_of(&args.model, &OverrideArgs { data_dir: None })?;
        let standard_input = (args.input == "-").then(copy_standard_input).transpose()?;
        let input = standard_input.as_ref().map_or(Path::new(&args.input), |(_, file)| file);
        if let Some(output) = &args.output
            && let (Ok(output), Ok(input)) = (output.canonicalize(), input.canonicalize())
            && output == input
        {
            return Err(Error::new(Code::Flags, "--input and --output are the same file")
                .because("the predictions would replace the rows")
                .help("name another file with --output"));
        }
        let mut writer = PredictionWriter::new(format, args.output.as_deref(), args.id.is_some())?;
        let options = PredictOptions { id: args.id.clone(), no_label: args.no_label };
        job.predict(&place, &input.to_string_lossy(), &options, |batch| writer.write(batch))?;
        writer.finish()
    };
    match run() {
        // A closed pipe, as with `| head`, is not an error.
        Err(error) if error.code() == Code::Terminated => ExitCode::SUCCESS,
        done => finish(args.json && args.output.is_none(), done),
    }
}

/// Copies standard input into a temporary file, since readers open their files several times.
fn copy_standard_input() -> Result<(tempfile::TempDir, PathBuf)> {
    const WHAT: &str = "standard input cannot be copied into a temporary file";
    let folder = tempfile::tempdir().context(Code::StorageWrite, WHAT)?;
    let path = folder.path().join("standard-input");
    let mut file = std::fs::File::create(&path).context(Code::StorageWrite, WHAT)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file)
        .context(Code::StorageWrite, WHAT)
        .map_err(|error| error.help("set TMPDIR to a folder with enough space"))?;
    Ok((folder, path))
}

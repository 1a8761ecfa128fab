//! `phalanx data`: what is in data files, and files to begin with.

mod make;

use crate::exit::ExitCode;
use crate::job::{OverrideArgs, finish};
use crate::output::{eprint, print};
use phalanx_base::{Code, Error, Result};
use phalanx_jobfile::{DataPart, DataStatistics, FileFormat, FileStatistics, Job, Overrides};
use std::path::Path;

/// Inspects data files, and fetches public or writes synthetic ones
#[derive(Debug, clap::Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DataCommand {
    /// Prints statistics of every column: missing, unknown and distinct values, minimum, mean, quantiles, maximum, label balance
    Stats(StatsArgs),
    /// Downloads a public data set and verifies its checksums: mnist, fashion-mnist or census
    Fetch(crate::fetch::FetchArgs),
    Make(make::MakeArgs),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples: phalanx data stats train.csv --label income\n          phalanx data stats job.toml --json"
)]
struct StatsArgs {
    /// CSV, Parquet or TFRecord file or pattern; or a job, whose inputs are also compared with its vocabularies
    #[arg(value_name = "FILE|JOB.toml")]
    source: String,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Count the evaluation files of a job instead of its training files
    #[arg(long)]
    eval: bool,
    /// Label column of a file, whose balance is shown
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Format of the file [default: that of its name]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Character between the fields of a CSV file [default: a comma, or a tab for .tsv]
    #[arg(long, value_name = "CHAR")]
    delimiter: Option<char>,
    /// Number of rows to read, from the first [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rows: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The format of data files.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// Text with a heading
    Csv,
    /// Parquet
    Parquet,
    /// TFRecords of Examples
    Tfrecord,
}

pub(crate) fn run(args: &DataArgs) -> ExitCode {
    let args = match &args.command {
        DataCommand::Stats(args) => args,
        DataCommand::Fetch(args) => return crate::fetch::run(args),
        DataCommand::Make(args) => return crate::output::finish(make::run(args)),
    };
    let run = || {
        let found = args.read()?;
        if args.json {
            print(&format!("{}\n", found.to_json()));
            return Ok(());
        }
        let rows = if found.complete { "rows" } else { "rows, there are more" };
        print(&format!("{} {rows}\n{}", found.rows, found.table()));
        found.warnings().iter().for_each(|warning| eprint(&format!("warning: {warning}\n")));
        Ok(())
    };
    finish(args.json, run())
}

impl StatsArgs {
    fn read(&self) -> Result<DataStatistics> {
        if self.source.ends_with(".toml") {
            let overrides = Overrides { data_dir: self.overrides.data_dir.clone(), ..Overrides::default() };
            let part = if self.eval { DataPart::Eval } else { DataPart::Train };
            return Job::read(Path::new(&self.source), overrides)?.statistics(part, self.rows);
        }
        let format = match self.format {
            Some(Format::Csv) => FileFormat::Csv,
            Some(Format::Parquet) => FileFormat::Parquet,
            Some(Format::Tfrecord) => FileFormat::TfRecord,
            None => FileFormat::of_file(&self.source).ok_or_else(|| {
                Error::new(Code::Flags, format!("the format of {} is unknown", self.source))
                    .because("its name ends in none of .csv, .tsv, .parquet, .tfrecord and .toml")
                    .help("add --format csv, parquet or tfrecord")
            })?,
        };
        let usual = if self.source.trim_end_matches(".gz").ends_with(".tsv") { '\t' } else { ',' };
        let Some(delimiter) =
            Some(self.delimiter.unwrap_or(usual)).filter(char::is_ascii).map(|delimiter| delimiter as u8)
        else {
            return Err(Error::new(Code::Flags, "the delimiter is not an ASCII character")
                .help("give one, such as --delimiter ';'"));
        };
        let (files, label) = (self.source.clone(), self.label.clone());
        FileStatistics { files, format, delimiter, label, most: self.rows }.read()
    }
}

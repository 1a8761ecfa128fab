//! `phalanx head`: the first rows of a data file as a table.

mod records;

use crate::exit::ExitCode;
use crate::job::finish;
use crate::output::print;
use phalanx::data::{
    Batch, Column, DType, Dataset, NonFiniteValues, SourceExt, csv, idx, npy, npz, parquet, text_lines,
};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_cluster::Json;
use phalanx_jobfile::rows_json;
use std::io::Read;
use std::path::Path;

/// Shows the first rows of a data file as a table
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples: phalanx head train.csv\n          phalanx head -n 3 train-images-idx3-ubyte.gz --json"
)]
pub(crate) struct HeadArgs {
    /// CSV, TFRecord, Parquet, npz, npy or IDX file, or a pattern of CSV, TFRecord or Parquet files
    file: String,
    /// Number of rows
    #[arg(short, long = "rows", value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    n: u32,
    /// Format of the file [default: that of its name, or of its first bytes]
    #[arg(long, value_name = "FORMAT")]
    format: Option<HeadFormat>,
    /// Character between the fields of a CSV file [default: a comma, or a tab for .tsv]
    #[arg(long, value_name = "CHAR")]
    delimiter: Option<char>,
    /// The CSV file has no heading
    #[arg(long)]
    no_header: bool,
    /// Compression of a TFRecord file
    #[arg(long, value_enum, default_value_t = crate::records::How::Auto)]
    compression: crate::records::How,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HeadFormat {
    /// Text with a delimiter
    Csv,
    /// TFRecords
    Tfrecord,
    /// Parquet
    Parquet,
    /// Several NumPy arrays
    Npz,
    /// One NumPy array
    Npy,
    /// The format of MNIST
    Idx,
}

pub(crate) fn run(args: &HeadArgs) -> ExitCode {
    let format = args.format.or_else(|| HeadFormat::of_name(&args.file));
    let file = args.file.as_str();
    let batch = match format.map_or_else(|| HeadFormat::of_content(file), Ok) {
        Ok(HeadFormat::Tfrecord) => return records::run(args),
        Ok(HeadFormat::Csv) => args.csv(),
        Ok(HeadFormat::Npz) => args.npz(),
        Ok(HeadFormat::Parquet) => args.first(&parquet(file).non_finite(NonFiniteValues::keep()).dataset()),
        Ok(HeadFormat::Npy) => args.first(&npy("array", file).dataset()),
        Ok(HeadFormat::Idx) => args.first(&idx("array", file).dataset()),
        Err(error) => Err(error),
    };
    finish(args.json, batch.map(|batch| args.show(&batch)))
}

impl HeadFormat {
    /// Returns the format that a name or a pattern suggests.
    fn of_name(path: &str) -> Option<Self> {
        let name = path.strip_suffix(".gz").unwrap_or(path);
        let ends = |all: &[&str]| all.iter().any(|end| name.ends_with(end));
        match () {
            () if ends(&[".csv", ".tsv", ".txt", ".data"]) => Some(Self::Csv),
            () if ends(&[".parquet"]) => Some(Self::Parquet),
            () if ends(&[".tfrecord", ".tfrecords"]) || name.contains(".tfrecord-") => Some(Self::Tfrecord),
            () if ends(&[".npz"]) => Some(Self::Npz),
            () if ends(&[".npy"]) => Some(Self::Npy),
            () if ends(&["-ubyte", ".idx"]) => Some(Self::Idx),
            () => None,
        }
    }

    /// Returns the format that the first bytes suggest.
    fn of_content(path: &str) -> Result<Self> {
        let what = || format!("{path} cannot be read");
        if Path::new(path).is_dir() {
            return Err(Error::new(Code::DataMissing, what()).because("it is a folder").help("name a file in it"));
        }
        let mut bytes = [0; 12];
        let file = std::fs::File::open(path).context(Code::DataMissing, what())?;
        let mut read = 0;
        let mut file = file.take(bytes.len() as u64);
        while read < bytes.len() {
            match file.read(&mut bytes[read..]).context(Code::DataMissing, what())? {
                0 => break,
                count => read += count,
            }
        }
        Ok(match &bytes[..read] {
            [b'P', b'A', b'R', b'1', ..] => Self::Parquet,
            [b'P', b'K', 3, 4, ..] => Self::Npz,
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Self::Npy,
            [0, 0, 8 | 9 | 11..=14, 1..=8, ..] => Self::Idx,
            whole @ [_, _, _, _, _, _, _, _, _, _, _, _] if records::is_header(whole) => Self::Tfrecord,
            _ => {
                return Err(Error::new(Code::DataFormat, format!("the format of {path} is unknown"))
                    .because("neither its name nor its first bytes tell")
                    .help("add --format csv, tfrecord, parquet, npz, npy or idx"));
            }
        })
    }
}

impl HeadArgs {
    fn show(&self, batch: &Batch) {
        let rows = || Json::object([("rows", Json::List(rows_json(batch).collect()))]);
        print(&if self.json { format!("{}\n", rows()) } else { format!("{batch:#}") });
    }

    /// The first rows; an empty input has no columns to show.
    fn first(&self, data: &Dataset) -> Result<Batch> {
        match data.clone().batch(self.n as usize).iter()?.next() {
            Some(batch) => batch,
            None => Err(Error::new(Code::DataMissing, format!("{} has no rows", self.file))),
        }
    }

    /// The fields as they are in the file.
    fn csv(&self) -> Result<Batch> {
        let usual = if self.file.trim_end_matches(".gz").ends_with(".tsv") { '\t' } else { ',' };
        let delimiter = self.delimiter.unwrap_or(usual);
        let Some(delimiter) = Some(delimiter).filter(char::is_ascii).map(|delimiter| delimiter as u8) else {
            return Err(Error::new(Code::Flags, "the delimiter is not an ASCII character")
                .help("give one, such as --delimiter ';'"));
        };
        let mut read = csv(self.file.as_str()).delimiter(delimiter).header(!self.no_header).trim(true);
        if self.no_header {
            let line = self.first(&text_lines(self.file.as_str()).dataset())?;
            let line =
                line.columns().first().and_then(|lines| lines.as_bytes().ok()?.iter().next()).unwrap_or_default();
            read = read.names((0..fields(line, delimiter)).map(|field| field.to_string()));
        }
        let names: Vec<String> = read.columns()?.into_iter().map(|(name, _)| name).collect();
        self.first(&names.iter().fold(read, |read, name| read.column(name, DType::Bytes)).dataset())
    }

    /// Every array by itself: arrays of one file may have different numbers of rows.
    fn npz(&self) -> Result<Batch> {
        let read = npz(self.file.as_str());
        let arrays = read.names()?.into_iter().map(|name| {
            let batch = self.first(&read.clone().select([name.clone()]).dataset())?;
            Ok((name.clone(), batch.column(&name)?.clone()))
        });
        let arrays: Vec<(String, Column)> = arrays.collect::<Result<_>>()?;
        let rows = arrays.iter().map(|(_, array)| array.rows()).min().unwrap_or(0);
        Batch::new(arrays.into_iter().map(|(name, array)| (name, array.slice(0..rows))))
    }
}

/// The number of fields of a line of a CSV file.
fn fields(line: &[u8], delimiter: u8) -> usize {
    let mut quoted = false;
    let separates = |byte: &&u8| {
        quoted ^= **byte == b'"';
        !quoted && **byte == delimiter
    };
    1 + line.iter().filter(separates).count()
}

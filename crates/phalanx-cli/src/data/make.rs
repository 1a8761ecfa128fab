//! `phalanx data make`: writes synthetic files that jobs of public data sets train on.

use crate::output::eprint;
use phalanx::data::{Batch, Column, Dataset, SourceExt, ValuesView, census, synthetic_clicks};
use phalanx_base::{Code, Context, Error, Result};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes synthetic files with the columns of a public data set: census (jobs/census.toml) or criteo (jobs/criteo.toml)
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: phalanx data make census --dir data/census")]
pub(super) struct MakeArgs {
    /// Data set
    #[arg(value_enum)]
    name: Synthetic,
    /// Directory for its files
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Synthetic {
    /// adult.data and adult.test
    Census,
    /// criteo.tsv
    Criteo,
}

const CLICKS: u64 = 20_000;

pub(super) fn run(args: &MakeArgs) -> Result<()> {
    match args.name {
        Synthetic::Census => {
            for (file, rows) in ["adult.data", "adult.test"].iter().zip(census(None)) {
                write(&args.dir.join(file), rows, ", ")?;
            }
        }
        Synthetic::Criteo => write(&args.dir.join("criteo.tsv"), clicks(), "\t")?,
    }
    Ok(())
}

/// Returns clicks as in Criteo's files: the label first, ids as eight hexadecimal digits.
fn clicks() -> Dataset {
    synthetic_clicks(1, CLICKS).max_ids(1000).map_batches(phalanx::data::Parallel::default(), |rows| {
        let mut names = vec!["label".to_owned()];
        let (mut out, columns) = (rows.clone(), rows.names().to_vec());
        for name in columns.iter().filter(|name| &***name != "label") {
            if name.starts_with('C') {
                let ids = rows.i64(name)?.iter().map(|id| format!("{id:08x}"));
                out = out.with_column(name, Column::text(ids))?;
            }
            names.push(name.to_string());
        }
        out.select(&names.iter().map(String::as_str).collect::<Vec<_>>())
    })
}

/// Writes rows as lines, to a file that appears when it is complete. A file that is there is not replaced.
fn write(path: &Path, rows: Dataset, separator: &str) -> Result<()> {
    let what = || format!("{} cannot be written", path.display());
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).context(Code::StorageWrite, what())?;
    let part = tempfile::Builder::new().prefix(".phalanx-").suffix(".part").tempfile_in(dir);
    let part = part.context(Code::StorageWrite, what())?;
    let mut out = BufWriter::new(part.as_file());
    for batch in rows.batch(1000).iter()? {
        let batch = batch?;
        for row in 0..batch.rows() {
            let line = line(&batch, row, separator);
            writeln!(out, "{line}").context(Code::StorageWrite, what())?;
        }
    }
    out.flush().context(Code::StorageWrite, what())?;
    drop(out);
    part.persist_noclobber(path).map_err(|error| {
        Error::new(Code::StorageWrite, what()).because(error.error).help("delete the file, or choose another --dir")
    })?;
    eprint(&format!("{:>12} {}\n", "Wrote", path.display()));
    Ok(())
}

fn line(batch: &Batch, row: usize, separator: &str) -> String {
    let fields = batch.columns().iter().map(|column| match column.row(row) {
        ValuesView::F32(values) => format!("{:.0}", values[0]),
        ValuesView::I64(values) => values[0].to_string(),
        ValuesView::U8(values) => values[0].to_string(),
        ValuesView::Bytes(values) => String::from_utf8_lossy(values.get(0)).into_owned(),
    });
    fields.collect::<Vec<_>>().join(separator)
}

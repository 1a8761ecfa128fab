//! The statistics that columns take from the training data: computed once by the chief, kept in the run directory and in
//! exports, and the same for restarts, evaluations and predictions.

use crate::Job;
use crate::copy::{TrainedJob, quoted};
use crate::schema::{STATISTIC, STATISTICS};
use crate::section::Section;
use crate::source::Source;
use crate::tree;
use phalanx_base::{Code, Error, Result, fnv1a};
use phalanx_data::Files;
use phalanx_feature::{FeatureColumn, FeatureStatistic, FeatureStatistics};
use phalanx_storage::Dir;
use std::time::{Duration, Instant};

/// The file name, in a run directory and in `assets.extra/` of an export.
pub(crate) const FILE: &str = "column_statistics.toml";

/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The number of rows that checks and trial runs compute statistics of.
const TRIAL_ROWS: usize = 10_000;

/// The interval between two looks for the chief's file.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The content of the file.
#[derive(Clone, Debug, PartialEq)]
struct Stored {
    /// A hash of the names and sizes of the files that were read.
    data: String,
    statistics: FeatureStatistics,
}

impl Job {
    fn model_columns(&self) -> Vec<FeatureColumn> {
        self.model.columns().flat_map(|(named, _, _)| named.columns.iter().cloned()).collect()
    }

    /// The names of the statistics that the model's columns need.
    fn needed_statistics(&self) -> Result<Vec<String>> {
        let all = self.model_columns().iter().map(FeatureStatistics::needed_by).collect::<Result<Vec<_>>>()?;
        Ok(all.into_iter().flatten().collect())
    }

    fn has_all(&self, statistics: &FeatureStatistics) -> Result<bool> {
        Ok(self.needed_statistics()?.iter().all(|name| statistics.get(name).is_some()))
    }

    /// The job with these statistics in its columns.
    fn adapted(&self, statistics: FeatureStatistics) -> Result<Self> {
        let mut job = self.clone();
        job.model = self.model.adapted(&statistics)?;
        // Columns that the model does not use stay as they are.
        job.columns = self.columns.adapted(&statistics).unwrap_or_else(|_| self.columns.clone());
        job.statistics = statistics;
        Ok(job)
    }

    /// The job with the statistics of its first rows, for checks.
    pub(crate) fn trial(&self) -> Result<Self> {
        if !self.needed_statistics()?.is_empty() {
            // Files without rows are reported as such.
            self.first(self.inputs.train_files()).map_err(|error| self.explain(error))?;
        }
        self.with_trial_statistics()
    }

    /// The same, without a check of the rows.
    pub(crate) fn with_trial_statistics(&self) -> Result<Self> {
        if self.needed_statistics()?.is_empty() {
            return Ok(self.clone());
        }
        let rows = self.inputs.statistics(&self.model_columns())?.take(TRIAL_ROWS as u64);
        self.adapted(FeatureStatistics::of(&self.model_columns(), &rows)?)
    }

    /// The job with the statistics of the training data: the stored ones of the run, or new ones. Only the chief
    /// computes them; other tasks wait for its file.
    pub(crate) fn with_statistics(&self, location: &str, has_checkpoint: bool, is_chief: bool) -> Result<Self> {
        if self.needed_statistics()?.is_empty() {
            return Ok(self.clone());
        }
        let (dir, data) = (Dir::open(location)?, self.data_hash()?);
        if !is_chief {
            return self.wait_for_statistics(&dir, &data);
        }
        let usable = |stored: &Stored| stored.data == data || has_checkpoint;
        let stored = read(&dir)?.filter(usable).map(|stored| stored.statistics).unwrap_or_default();
        if self.has_all(&stored)? {
            return self.adapted(stored);
        }
        let start = Instant::now();
        let found = match self.forked_statistics()? {
            Some(statistics) => statistics,
            None => self.compute()?,
        };
        // What the run was trained with stays.
        let kept = |(name, new): (&str, &FeatureStatistic)| (name.to_owned(), stored.get(name).unwrap_or(new).clone());
        let statistics: FeatureStatistics = found.iter().map(kept).collect();
        let text = text(&Stored { data, statistics: statistics.clone() });
        dir.create_all()
            .and_then(|()| dir.write(FILE, text.as_bytes()))
            .map_err(|error| self.unusable(location, error))?;
        tracing::info!("statistics of the training data are in {FILE} of {location}, after {:.1?}", start.elapsed());
        self.adapted(statistics)
    }

    fn compute(&self) -> Result<FeatureStatistics> {
        let columns = self.model_columns();
        tracing::info!("computing the statistics that columns need, in one pass over the training data");
        FeatureStatistics::of(&columns, &self.inputs.statistics(&columns)?)
    }

    /// The statistics of the run that `resume` starts from: its weights belong to them.
    fn forked_statistics(&self) -> Result<Option<FeatureStatistics>> {
        let crate::job::Resume::From(path) = &self.resume.value else { return Ok(None) };
        for folder in [Some(path.as_str()), path.rsplit_once('/').map(|(folder, _)| folder)].into_iter().flatten() {
            if let Some(stored) = read(&Dir::open(folder)?)?
                && self.has_all(&stored.statistics)?
            {
                return Ok(Some(stored.statistics));
            }
        }
        Ok(None)
    }

    /// Waits for the chief's statistics as long as for the model that it creates.
    fn wait_for_statistics(&self, dir: &Dir, data: &str) -> Result<Self> {
        let start = Instant::now();
        let mut logged = false;
        loop {
            if let Some(stored) = read(dir)?
                && (stored.data == data || crate::run::newest(dir)?.is_some())
                && self.has_all(&stored.statistics)?
            {
                return self.adapted(stored.statistics);
            }
            if start.elapsed() > self.train.session_timeout() {
                let what = format!("the chief has not written {FILE} into {} yet", dir.location());
                return Err(Error::new(Code::DataMissing, what)
                    .because(format!(
                        "this task waited {:.0?} for the statistics of the training data",
                        start.elapsed()
                    ))
                    .help("see the chief's log; all tasks must reach the same model_dir"));
            }
            if !logged && start.elapsed() > Duration::from_secs(5) {
                logged = true;
                tracing::info!("waiting for the statistics of the training data, which the chief computes");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The job with the statistics that a trained job was trained with.
    pub(crate) fn as_trained(&self, trained: &TrainedJob) -> Result<Self> {
        if self.needed_statistics()?.is_empty() {
            return Ok(self.clone());
        }
        let folder = match trained {
            TrainedJob::ModelDir(folder) => folder.clone(),
            TrainedJob::Export(folder) => folder.join("assets.extra"),
        };
        match read(&Dir::local(&folder))? {
            Some(stored) if self.has_all(&stored.statistics)? => self.adapted(stored.statistics),
            found => {
                let what = format!("{} has not the statistics that the job's columns need", folder.display());
                let why = match found {
                    Some(_) => format!("its {FILE} is of other columns"),
                    None => format!("it has no {FILE}"),
                };
                Err(Error::new(Code::DataMissing, what).because(why).help("give the folder that `phalanx train` wrote"))
            }
        }
    }

    /// The file for an export; `None` if no column needs statistics.
    pub(crate) fn statistics_asset(&self) -> Option<(String, Vec<u8>)> {
        let stored = Stored { data: String::new(), statistics: self.statistics.clone() };
        stored.statistics.iter().next()?;
        Some((FILE.to_owned(), text(&stored).into_bytes()))
    }

    /// A hash of what the statistics are computed of: names and sizes of files, filter and split.
    fn data_hash(&self) -> Result<String> {
        let mut all = self.inputs.selection();
        for file in Files::from(self.inputs.train_files()).list()? {
            let (folder, name) = file.rsplit_once('/').unwrap_or((".", &file));
            let size = Dir::open(if folder.is_empty() { "/" } else { folder })?.size(name)?;
            all += &format!("\n{name} {}", size.unwrap_or_default());
        }
        Ok(format!("{:016x}", fnv1a(all.bytes())))
    }
}

fn text(stored: &Stored) -> String {
    let mut text = format!(
        "# Written by phalanx before training: what the columns of the job take from its data.\ndata = \"{}\"\n",
        stored.data
    );
    for (name, statistic) in stored.statistics.iter() {
        text += &format!("\n[statistics.{}]\n", quoted(name));
        text += &match statistic {
            FeatureStatistic::Moments { mean, deviation } => format!("mean = {mean:?}\ndeviation = {deviation:?}\n"),
            FeatureStatistic::Quantiles(quantiles) => format!("quantiles = {quantiles:?}\n"),
        };
    }
    text
}

/// The statistics of a folder; `None` if it has none.
fn read(dir: &Dir) -> Result<Option<Stored>> {
    let Some(bytes) = dir.try_read(FILE, MAX_BYTES)? else { return Ok(None) };
    let name = format!("{}/{FILE}", dir.location());
    let source = Source::new(&name, &String::from_utf8_lossy(&bytes));
    let root = tree::parse(&source)?;
    let own = Section::open(&source, FILE, STATISTICS, &root)?;
    let data = own.need_text("data")?.value;
    let mut all = Vec::new();
    for entry in own.table("statistics")?.unwrap_or_default() {
        let one = Section::open(&source, "a statistic", STATISTIC, &entry.node)?;
        let (mean, deviation) = (one.number("mean")?, one.number("deviation")?);
        let statistic = match (mean, deviation, one.numbers("quantiles")?) {
            (Some(mean), Some(deviation), None) => {
                FeatureStatistic::Moments { mean: mean.value, deviation: deviation.value }
            }
            (None, None, Some(list)) => {
                FeatureStatistic::Quantiles(list.value.iter().map(|number| number.value).collect())
            }
            _ => return Err(one.missing("mean").because("a statistic has mean and deviation, or quantiles")),
        };
        one.close();
        all.push((entry.key.clone(), statistic));
    }
    own.close();
    Ok(Some(Stored { data, statistics: all.into_iter().collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_statistics_are_read_back_to_the_bit() {
        let statistics = [
            ("pay \"net\" | log1p | moments", FeatureStatistic::Moments { mean: 0.1 + 0.2, deviation: 1e-300 }),
            ("age | 4 quantiles", FeatureStatistic::Quantiles(vec![-0.5, 1.0 / 3.0, 1e21])),
        ];
        let statistics = statistics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let (dir, stored) = (Dir::in_memory(), Stored { data: "0123".to_owned(), statistics });
        assert_eq!(read(&dir).unwrap(), None);
        dir.write(FILE, text(&stored).as_bytes()).unwrap();
        assert_eq!(read(&dir).unwrap(), Some(stored));
    }

    #[test]
    fn a_damaged_file_is_an_error_at_its_place() {
        let dir = Dir::in_memory();
        dir.write(FILE, b"data = \"\"\n[statistics.x]\nmean = \"high\"\n").unwrap();
        assert!(read(&dir).unwrap_err().pointed_at().unwrap().ends_with("column_statistics.toml:3:8"));
    }
}

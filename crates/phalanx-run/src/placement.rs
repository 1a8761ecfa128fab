//! `status/TASK.placement`: where the shards of variables and tables lie.

use crate::format::{self, FORMAT_VERSION, as_text};
use crate::run_dir::write_atomically;
use crate::{RunState, StatusDir};
use phalanx_base::{Result, TaskId};
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// The size of a number: all variables are of `float32`.
const NUMBER_BYTES: u64 = 4;

/// The variables and tables that a task has created, and the tasks that hold their shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Placement {
    /// The version of the format.
    #[serde(default)]
    pub format_version: u32,
    /// In the order of the model.
    pub variables: Vec<PlacedVariable>,
}

/// A variable or a table, and where its shards lie.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PlacedVariable {
    /// Its name, as in checkpoints.
    pub name: String,
    /// Whether it is a table, whose rows are created when they are first used.
    pub table: bool,
    /// Its shape; of a table, the shape of a row.
    pub shape: Vec<u64>,
    /// The type of its numbers: `float32`.
    pub dtype: String,
    /// Its shards by ascending row.
    pub shards: Vec<PlacedShard>,
}

/// The part of a variable or table that one task holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PlacedShard {
    /// The task.
    #[serde(with = "as_text")]
    pub task: TaskId,
    /// Its rows of a variable, from the first up to but not including the second; `None` for a table, whose rows are placed by
    /// their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<(u64, u64)>,
    /// The rows of a table that exist now. Read from the task's status, never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The size of its values, without optimizer slots; `None` for a table of which no rows were reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Placement {
    /// A placement of these variables.
    #[must_use]
    pub fn new(variables: Vec<PlacedVariable>) -> Self {
        Self { format_version: FORMAT_VERSION, variables }
    }
}

impl StatusDir {
    fn placement_file(&self, task: TaskId) -> std::path::PathBuf {
        self.path().join(format!("{}-{}.placement", task.role, task.index))
    }

    /// Records where the variables lie that a task has created.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_placement(&self, task: TaskId, placement: &Placement) -> std::io::Result<()> {
        write_atomically(&self.placement_file(task), &serde_json::to_string(placement)?)
    }

    /// When a task has recorded where its variables lie; `None` if it has not.
    pub(crate) fn placement_written(&self, task: TaskId) -> Option<SystemTime> {
        std::fs::metadata(self.placement_file(task)).and_then(|about| about.modified()).ok()
    }

    /// Reads where the variables lie that a task has created; `None` if it has created none or the file is damaged.
    ///
    /// # Errors
    /// [`phalanx_base::Code::DataFormat`] if a newer version of Phalanx wrote it.
    pub fn read_placement(&self, task: TaskId) -> Result<Option<Placement>> {
        format::read_up_to(&self.placement_file(task), MAX_BYTES)
    }
}

impl RunState {
    /// The variables and tables of the job with the tasks that hold their shards. Mirrored variables have a shard, which is all
    /// of them, in every trainer.
    #[must_use]
    pub fn variables(&self) -> Vec<PlacedVariable> {
        let mut all: Vec<PlacedVariable> = Vec::new();
        let mut at = std::collections::HashMap::new();
        for variable in self.placements.values().flat_map(|placement| &placement.variables) {
            let index = *at.entry(variable.name.as_str()).or_insert(all.len());
            match all.get_mut(index) {
                Some(known) => known.shards.extend(variable.shards.iter().cloned()),
                None => all.push(variable.clone()),
            }
        }
        for table in all.iter_mut().filter(|variable| variable.table) {
            let row_bytes = NUMBER_BYTES * table.shape.iter().product::<u64>();
            for shard in &mut table.shards {
                shard.count = self.rows_on(shard.task, &table.name);
                shard.bytes = shard.count.map(|count| count.saturating_mul(row_bytes));
            }
        }
        all
    }

    /// The rows of a table that a task has reported.
    fn rows_on(&self, task: TaskId, table: &str) -> Option<u64> {
        let status = self.tasks.iter().find(|view| view.task == task)?.status.as_ref()?;
        status.tables.as_ref()?.iter().find(|held| held.name == table)?.rows
    }
}

impl PlacedVariable {
    /// Whether each of several tasks holds all of it, as mirrored workers do.
    #[must_use]
    pub fn is_mirrored(&self) -> bool {
        let whole = self.shards.first().and_then(|shard| shard.rows);
        self.shards.len() > 1 && whole.is_some() && self.shards.iter().all(|shard| shard.rows == whole)
    }
}

impl PlacedShard {
    /// A shard of a variable whose rows have this many numbers.
    #[must_use]
    pub fn of_variable(task: TaskId, rows: std::ops::Range<u64>, row_elements: u64) -> Self {
        let bytes = (rows.end - rows.start).saturating_mul(row_elements).saturating_mul(NUMBER_BYTES);
        Self { task, rows: Some((rows.start, rows.end)), count: None, bytes: Some(bytes) }
    }

    /// A task's part of a table.
    #[must_use]
    pub fn of_table(task: TaskId) -> Self {
        Self { task, rows: None, count: None, bytes: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Holding, RunDir, RunTailer, TaskStatus};
    use phalanx_base::Code;

    #[test]
    fn shards_of_all_files_are_merged_and_tables_have_the_rows_that_servers_report() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path());
        run.create().unwrap();
        let [chief, worker, ps0, ps1]: [TaskId; 4] =
            ["chief/0", "worker/0", "ps/0", "ps/1"].map(|task| task.parse().unwrap());
        let job = r#"{"tasks":[{"task":"chief/0"},{"task":"worker/0"},{"task":"ps/0"},{"task":"ps/1"}]}"#;
        std::fs::write(run.job_file(), job).unwrap();
        let variable = |name: &str, table, shape: &[u64], shards| PlacedVariable {
            name: name.to_owned(),
            table,
            shape: shape.to_vec(),
            dtype: "float32".to_owned(),
            shards,
        };
        let kernel = vec![PlacedShard::of_variable(ps0, 0..5, 20), PlacedShard::of_variable(ps1, 5..9, 20)];
        let words = vec![PlacedShard::of_table(ps0), PlacedShard::of_table(ps1)];
        let whole = |task| vec![PlacedShard::of_variable(task, 0..3, 1)];
        let of_chief = Placement::new(vec![
            variable("kernel", false, &[9, 20], kernel),
            variable("words", true, &[16], words),
            variable("mirrored", false, &[3], whole(chief)),
        ]);
        run.status().write_placement(chief, &of_chief).unwrap();
        let of_worker = Placement::new(vec![variable("mirrored", false, &[3], whole(worker))]);
        run.status().write_placement(worker, &of_worker).unwrap();
        let tables = vec![Holding { name: "words".to_owned(), elements: None, rows: Some(7), bytes: 1000 }];
        let status = TaskStatus { tables: Some(tables), ..TaskStatus::new(ps1) };
        run.status().write(ps1, &status).unwrap();

        let mut tailer = RunTailer::new(&run, false);
        tailer.poll();
        let seen = tailer.state().variables();
        let shards = |at: usize| {
            let shard = |shard: &PlacedShard| (shard.task.to_string(), shard.rows, shard.count, shard.bytes);
            seen[at].shards.iter().map(shard).collect::<Vec<_>>()
        };
        assert_eq!(seen.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["kernel", "words", "mirrored"]);
        let rows = |task: &str, from, to, bytes| (task.to_owned(), Some((from, to)), None, Some(bytes));
        assert_eq!(shards(0), [rows("ps/0", 0, 5, 400), rows("ps/1", 5, 9, 320)]);
        assert_eq!(shards(1), [("ps/0".to_owned(), None, None, None), ("ps/1".to_owned(), None, Some(7), Some(448))]);
        assert_eq!(seen.iter().map(PlacedVariable::is_mirrored).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(shards(2), [rows("chief/0", 0, 3, 12), rows("worker/0", 0, 3, 12)]);

        let newer = Placement { format_version: FORMAT_VERSION + 1, ..Placement::default() };
        run.status().write_placement(chief, &newer).unwrap();
        assert_eq!(run.status().read_placement(chief).unwrap_err().code(), Code::DataFormat);
    }
}

//! The settings of a run, to compare runs by.

use crate::JobFile;
use phalanx_base::Role;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The copy of the job that `phalanx train` leaves in the run directory.
const JOB_COPY: &str = "job.toml";
/// The largest copy that is read, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// The table of the copy with what the command line changed.
const ORIGIN: &str = "origin";

/// A setting: its name and its value as text.
pub type Setting = (String, String);

/// The settings that a job was started with: its command line, the keys of its job file with the changes of the command line,
/// and the number of its tasks. Names of the run's own directories are left out, because they differ in every run.
pub(crate) fn read(job: Option<&JobFile>, root: &Path, model_dir: &Path) -> Vec<Setting> {
    let own = own_directories(job, root);
    let mut settings = Vec::new();
    if let Some(job) = job {
        of_command(&job.program, &mut settings);
        let task_count = |role: Role| job.tasks.iter().filter(|task| task.task.role == role).count();
        let counts = Role::ALL.into_iter().map(|role| (format!("tasks: {role}"), task_count(role)));
        settings.extend(counts.filter(|(_, count)| *count > 0).map(|(name, count)| (name, count.to_string())));
        let facts = [("machine", &job.host), ("working directory", &job.directory), ("phalanx", &job.version)];
        settings.extend(facts.into_iter().map(|(name, value)| (name.to_owned(), value.clone())));
    }
    let path = model_dir.join(JOB_COPY);
    let small = std::fs::metadata(&path).is_ok_and(|about| about.is_file() && about.len() <= MAX_BYTES);
    if small && let Ok(text) = std::fs::read_to_string(&path) {
        of_job_file(&text, &mut settings);
    }
    settings.retain(|(_, value)| !own.contains(value) && !value.is_empty());
    settings
}

/// The ways to name the directories of this run.
fn own_directories(job: Option<&JobFile>, root: &Path) -> Vec<String> {
    let base = job.map(|job| Path::new(&job.directory)).unwrap_or(Path::new(""));
    let given = job.map(|job| job.model_dir.clone()).unwrap_or_default();
    let absolute = |path: &Path| base.join(path).display().to_string();
    let root_given = root.display().to_string();
    let mut names = vec![given.clone(), absolute(Path::new(&given)), absolute(root), root_given];
    names.extend(std::fs::canonicalize(root).ok().map(|path| path.display().to_string()));
    names
}

/// The words of a command line: `--name value` and `--name=value` by name, others by their number.
fn of_command(words: &[String], settings: &mut Vec<Setting>) {
    let mut words = words.iter().peekable();
    if let Some(program) = words.next() {
        settings.push(("program".to_owned(), program.clone()));
    }
    let mut arguments = 0;
    while let Some(word) = words.next() {
        let (name, value) = match word.strip_prefix("--").map(|flag| flag.split_once('=')) {
            Some(Some((name, value))) => (format!("--{name}"), value.to_owned()),
            Some(None) => {
                let value = words.next_if(|next| !next.starts_with("--"));
                (word.clone(), value.cloned().unwrap_or_else(|| "given".to_owned()))
            }
            None => {
                arguments += 1;
                (format!("argument {arguments}"), word.clone())
            }
        };
        match settings.iter_mut().find(|(known, _)| *known == name) {
            // `--set` and its like may be repeated.
            Some((_, known)) => *known = format!("{known}, {value}"),
            None => settings.push((name, value)),
        }
    }
}

/// The keys of a job file; a file that cannot be parsed has none.
fn of_job_file(text: &str, settings: &mut Vec<Setting>) {
    let Ok(parsed) = DeTable::parse(text) else { return };
    let mut keys = Vec::new();
    flatten(text, "", parsed.get_ref(), &mut keys);
    let changes = changes(parsed.get_ref());
    keys.retain(|(name, _)| name != "model_dir" && name.split('.').next() != Some(ORIGIN));
    for (name, value) in changes {
        match keys.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => keys.push((name, value)),
        }
    }
    settings.extend(keys);
}

/// Adds the keys of a table with their values as they are written, in the order of the text.
fn flatten(text: &str, prefix: &str, table: &DeTable<'_>, keys: &mut Vec<Setting>) {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let name = format!("{prefix}{}", key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => flatten(text, &format!("{name}."), inner, keys),
            DeValue::String(words) => keys.push((name, words.to_string())),
            _ => keys.push((name, text.get(value.span()).unwrap_or_default().to_owned())),
        }
    }
}

/// What the command line changed: the `--set` flags in their order, the number of steps, the seed.
fn changes(table: &DeTable<'_>) -> Vec<Setting> {
    let Some(DeValue::Table(origin)) = table.get(ORIGIN).map(|origin| origin.get_ref()) else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(DeValue::Array(flags)) = origin.get("set").map(|flags| flags.get_ref()) {
        let flags = flags.iter().filter_map(|flag| flag.get_ref().as_str()?.split_once('='));
        found.extend(
            flags.map(|(key, value)| (key.trim().to_owned(), value.trim().trim_matches(['"', '\'']).to_owned())),
        );
    }
    for (key, name) in [("max_steps", "train.max_steps"), ("seed", "seed")] {
        if let Some(DeValue::Integer(number)) = origin.get(key).map(|number| number.get_ref()) {
            found.push((name.to_owned(), number.to_string()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(root: &Path, program: &[&str], job_toml: &str) -> Vec<Setting> {
        std::fs::create_dir_all(root).unwrap();
        std::fs::write(root.join(JOB_COPY), job_toml).unwrap();
        let tasks = ["chief/0", "worker/0", "worker/1", "ps/0"].map(|task| json!({ "task": task }));
        let job = json!({ "program": program, "directory": "/work", "host": "h", "version": "1", "tasks": tasks,
            "model_dir": root });
        read(serde_json::from_value(job).ok().as_ref(), root, root)
    }

    #[test]
    fn settings_are_flags_keys_and_tasks_without_the_names_of_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("fast");
        let own = root.display().to_string();
        let program = [
            "train",
            "job.toml",
            "--model-dir",
            &own,
            "--rate=0.1",
            "--name",
            "fast",
            "--quiet",
            "--tag",
            "a",
            "--tag",
            "fast",
        ];
        let toml = "model_dir = \"runs/line\"\nseed = 1\n[train]\nmax_steps = 300\nbatch_size = 1_0\n[columns]\nx = { kind = \"numeric\" }\n\
                    [origin]\nfolder = \"/x\"\nset = [\"train.batch_size=64\", \"model.kind='dnn'\"]\nmax_steps = 20\nseed = 7\n";
        let found = settings(&root, &program, toml);
        let wanted = [
            ("program", "train"),
            ("argument 1", "job.toml"),
            ("--rate", "0.1"),
            ("--name", "fast"),
            ("--quiet", "given"),
            ("--tag", "a, fast"),
            ("tasks: chief", "1"),
            ("tasks: worker", "2"),
            ("tasks: ps", "1"),
            ("machine", "h"),
            ("working directory", "/work"),
            ("phalanx", "1"),
            ("seed", "7"),
            ("train.max_steps", "20"),
            ("train.batch_size", "64"),
            ("columns.x.kind", "numeric"),
            ("model.kind", "dnn"),
        ];
        let mut found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut wanted = wanted.to_vec();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_damaged_job_file_leaves_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let found = settings(dir.path(), &["train"], "[train\n");
        assert!(found.contains(&("program".to_owned(), "train".to_owned())), "{found:?}");
        assert!(found.iter().all(|(name, _)| !name.contains('.')), "{found:?}");
    }
}

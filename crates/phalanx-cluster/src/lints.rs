//! Warnings about what TensorFlow silently accepts, by either of its rule sets.

use std::collections::HashMap;

use phalanx_base::{Code, Error, Result, nearest};

use crate::Warning;
use crate::document::{Document, brief, path};
use crate::estimator::Purpose;
use crate::node::{Entry, JsonValue, Node, Span};
use crate::python;

/// The top-level keys that TensorFlow reads.
const KEYS: [&str; 8] =
    ["cluster", "task", "session_master", "eval_session_master", "rpc_layer", "service", "model_dir", "environment"];
/// The job names that the Estimator knows.
const JOBS: [&str; 5] = ["chief", "worker", "ps", "evaluator", "master"];
/// Common mistakes for the two keys of `task`.
const MEANT: [(&str, &str); 7] = [
    ("id", "index"),
    ("task_id", "index"),
    ("task_index", "index"),
    ("job", "type"),
    ("job_name", "type"),
    ("name", "type"),
    ("role", "type"),
];
/// A hostile text could cause millions of warnings.
const MAX_WARNINGS: usize = 32;

/// The warnings of one document.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Vec<Warning>);

impl Warnings {
    /// Adds a warning, up to the limit.
    pub(crate) fn add(&mut self, warning: impl FnOnce() -> Error) {
        if self.0.len() < MAX_WARNINGS {
            self.0.push(Warning::new(warning()));
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Warning> {
        self.0
    }
}

/// Returns the warnings that are common to both rule sets.
pub(crate) fn find(doc: &Document<'_>, why: Purpose) -> Warnings {
    let mut found = Warnings::default();
    for (span, key) in &doc.repeated {
        let what = || format!("the key {:?} is written twice", brief(key));
        found.add(|| doc.error(Code::ConfigIgnored, span, what(), "has no effect").help("only the last one counts"));
    }
    unknown_keys(doc, &mut found);
    environment(doc, why, &mut found);
    job_names(doc, &mut found);
    addresses(doc, &mut found);
    found
}

fn unknown_keys(doc: &Document<'_>, found: &mut Warnings) {
    for entry in doc.root.entries().iter().filter(|entry| !KEYS.contains(&entry.key.text.as_str())) {
        let what = || format!("nothing reads the key {:?}", brief(&entry.key.text));
        let error = || doc.error(Code::ConfigIgnored, &entry.key_span, what(), "has no effect");
        found.add(|| did_you_mean(error(), nearest(&entry.key.text, KEYS)));
    }
    for entry in doc.root.get("task").map_or(&[][..], Node::entries) {
        let key = entry.key.text.as_str();
        if !["type", "index"].contains(&key) {
            let meant = MEANT.iter().find(|(wrong, _)| *wrong == key).map(|(_, right)| *right);
            let what = || format!("nothing reads the key \"task.{}\"", brief(key));
            let error = || doc.error(Code::ConfigIgnored, &entry.key_span, what(), "has no effect");
            found.add(|| did_you_mean(error(), meant.or_else(|| nearest(key, ["type", "index"]))));
        }
    }
}

fn environment(doc: &Document<'_>, why: Purpose, found: &mut Warnings) {
    // Platforms and `phalanx launch` write "cloud" into every task's text; a task that runs has no use for the warning.
    let expected = |node: &&Node| why == Purpose::Run && node.as_str() == Some("cloud");
    if let Some(node) = doc.root.get("environment").filter(|node| !expected(node)) {
        let why = match node.as_str() {
            Some("google") => "it kept TensorFlow from starting its own server; Phalanx always starts one",
            _ => "since TensorFlow 2 only \"google\" did anything",
        };
        let what = "`environment` has no effect";
        found.add(|| doc.error(Code::ConfigIgnored, &node.span, what, "has no effect").because(why));
    }
}

fn job_names(doc: &Document<'_>, found: &mut Warnings) {
    let jobs = doc.root.get("cluster").map_or(&[][..], Node::entries);
    for entry in jobs {
        let job = entry.key.text.as_str();
        if job == "evaluator" && jobs.len() > 1 {
            let what = "the evaluator is listed in the cluster";
            let error = || doc.error(Code::ConfigEvaluator, &entry.key_span, what, "not part of the training cluster");
            let why = "others may wait for it, and it shifts the workers' global ids";
            found.add(|| error().because(why).help("leave it out of `cluster`; its own task needs no address"));
        } else if !JOBS.contains(&job) {
            let what = || format!("no task of job {:?} will do anything", brief(job));
            let error = || doc.error(Code::ConfigJobName, &entry.key_span, what(), "not a job that trains");
            found.add(|| did_you_mean(error(), nearest(job, JOBS)));
        }
    }
}

fn addresses(doc: &Document<'_>, found: &mut Warnings) {
    let mut seen: HashMap<&str, String> = HashMap::new();
    for job in doc.root.get("cluster").map_or(&[][..], Node::entries) {
        for (index, node) in tasks(&job.value) {
            let Some(address) = node.as_str() else { continue };
            let place = path(&job.key.text, Some(index));
            if let Err(error) = doc.read_address(&job.key.text, index, node) {
                found.add(|| error);
            } else if let Some(first) = seen.get(address) {
                let what = || format!("two tasks have the address {address}");
                let error = || doc.error(Code::ConfigAddress, &node.span, what(), format!("also {first}"));
                found.add(|| error().at(place.clone()).help("give every task a port of its own"));
            }
            seen.entry(address).or_insert(place);
        }
    }
}

/// Fails if a task that listens has an invalid address, which TensorFlow finds out later.
pub(crate) fn check_addresses(doc: &Document<'_>) -> Result<()> {
    let listens = |job: &&Entry| ["chief", "master", "worker", "ps"].contains(&job.key.text.as_str());
    for job in doc.root.get("cluster").map_or(&[][..], Node::entries).iter().filter(listens) {
        for (index, node) in tasks(&job.value) {
            doc.read_address(&job.key.text, index, node)?;
        }
    }
    Ok(())
}

/// Returns the tasks of a job in either notation. Skips what is not a task.
fn tasks(job: &Node) -> Vec<(u32, &Node)> {
    match &job.value {
        JsonValue::List(items) => (0..).zip(items).collect(),
        JsonValue::Object(entries) => entries
            .iter()
            .filter_map(|task| Some((u32::try_from(python::int_of_text(&task.key.text).ok()?).ok()?, &task.value)))
            .collect(),
        _ => Vec::new(),
    }
}

/// Adds a suggestion if there is one.
pub(crate) fn did_you_mean(error: Error, near: Option<&str>) -> Error {
    match near {
        Some(near) => error.help(format!("did you mean {near:?}?")),
        None => error,
    }
}

/// Warns if the value of a key is not a string.
pub(crate) fn not_text(doc: &Document<'_>, key: &str, node: &Node, found: &mut Warnings) {
    if node.as_str().is_none() {
        let span: &Span = &node.span;
        let what = || format!("`{key}` is {}, not a string", node.kind());
        found.add(|| doc.error(Code::ConfigType, span, what(), "TensorFlow hands it on as it is"));
    }
}

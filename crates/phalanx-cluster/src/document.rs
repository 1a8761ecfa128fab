//! A `TF_CONFIG` document: its tree, errors that point into it, and its cluster.

use std::collections::BTreeMap;

use phalanx_base::{Address, Code, Error, Result, Snippet};

use crate::ClusterSpec;
use crate::node::{Entry, JsonValue, Node, Span};
use crate::parse;
use crate::python::{self, NoInt};

/// The name of the text in error messages.
const SOURCE: &str = "TF_CONFIG";

/// The user's text and its parsed tree.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    text: &'a str,
    pub(crate) root: Node,
    /// Keys that a later one of the same name overrides.
    pub(crate) repeated: Vec<(Span, String)>,
}

impl<'a> Document<'a> {
    /// Parses the text. An unset variable is an empty object; an empty text is an error.
    pub(crate) fn parse(text: Option<&'a str>) -> Result<Self> {
        let text = text.unwrap_or("{}");
        let parsed = parse::parse(text).map_err(|syntax| {
            let snippet = Snippet::new(SOURCE, text, syntax.span, syntax.label.clone());
            let error = Error::new(Code::ConfigSyntax, "TF_CONFIG is not JSON").because(syntax.label).snippet(snippet);
            match syntax.help {
                Some(help) => error.help(help),
                None if text.trim().is_empty() => error.help("unset TF_CONFIG, or set it to {}, to train locally"),
                None => error,
            }
        })?;
        Ok(Self { text, root: parsed.root, repeated: parsed.repeated })
    }

    /// Creates an error that points into the text.
    pub(crate) fn error(&self, code: Code, span: &Span, what: impl Into<String>, label: impl Into<String>) -> Error {
        Error::new(code, what).snippet(Snippet::new(SOURCE, self.text, span.clone(), label))
    }

    /// Returns the span of the `task` object, or of the root if there is none.
    pub(crate) fn task_span(&self) -> Span {
        self.root.get("task").map_or(self.root.span.clone(), |task| task.span.clone())
    }

    /// Returns the span of the task's type or index, or of where it is missing.
    pub(crate) fn task_value_span(&self, key: &str) -> Span {
        self.root.get("task").and_then(|task| task.get(key)).map_or_else(|| self.task_span(), |node| node.span.clone())
    }

    /// Returns a job's name and tasks, as written.
    pub(crate) fn job_entry(&self, job: &str) -> Option<&Entry> {
        self.root.get("cluster")?.entries().iter().find(|entry| entry.key.text == job)
    }

    /// Returns the span of the job's name, or of the root if there is none.
    pub(crate) fn job_span(&self, job: &str) -> Span {
        self.job_entry(job).map_or_else(|| self.root.span.clone(), |entry| entry.key_span.clone())
    }

    /// Reads `cluster` as TensorFlow's `ClusterSpec` does.
    pub(crate) fn cluster(&self) -> Result<ClusterSpec> {
        let Some(cluster) = self.root.get("cluster") else { return Ok(ClusterSpec::new()) };
        let JsonValue::Object(jobs) = &cluster.value else {
            let what = format!("`cluster` is {}, not an object", cluster.kind());
            let error = self.error(Code::ConfigType, &cluster.span, what, "expected an object");
            return Err(error.help("write job names and their addresses: {\"worker\": [\"host:port\"]}"));
        };
        jobs.iter()
            .map(|job| Ok((job.key.text.clone(), self.job(job)?)))
            .collect::<Result<_>>()
            .map(ClusterSpec::from_unique)
    }

    fn job(&self, job: &Entry) -> Result<BTreeMap<u32, String>> {
        let name = &job.key.text;
        if job.key.broken {
            let what = format!("the job name {name:?} holds half of a surrogate pair");
            return Err(self.error(Code::ConfigJobName, &job.key_span, what, "not text"));
        }
        match &job.value.value {
            JsonValue::List(addresses) => {
                (0..).zip(addresses).map(|(i, a)| Ok((i, self.address(name, i, a)?))).collect()
            }
            JsonValue::Object(tasks) => tasks
                .iter()
                .map(|task| {
                    let index = self.sparse_index(name, task)?;
                    Ok((index, self.address(name, index, &task.value)?))
                })
                .collect(),
            _ => {
                let what = format!("the tasks of job {name:?} are {}, not a list of addresses", job.value.kind());
                let error = self.error(Code::ConfigType, &job.value.span, what, "expected a list").at(path(name, None));
                Err(match job.value.as_str() {
                    Some(_) => error.help("put the address into brackets: [\"host:port\"]"),
                    None => error.help("write a list of addresses, or an object from index to address"),
                })
            }
        }
    }

    fn sparse_index(&self, job: &str, task: &Entry) -> Result<u32> {
        let index = if task.key.broken { Err(NoInt::NotANumber) } else { python::int_of_text(&task.key.text) };
        let refuse = |why: String| {
            let what = format!("{:?} is not an index of job {job:?}", brief(&task.key.text));
            self.error(Code::ConfigTaskIndex, &task.key_span, what, why).at(path(job, None))
        };
        let index = index.map_err(|why| refuse(why.to_string()))?;
        // TensorFlow accepts negative indices and lists their tasks from the end, on top of others.
        u32::try_from(index)
            .ok()
            .filter(|&index| index <= ClusterSpec::MAX_INDEX)
            .ok_or_else(|| refuse(format!("indices run from 0 to {}", ClusterSpec::MAX_INDEX)))
    }

    /// Parses the address of a task. The error points at it.
    pub(crate) fn read_address(&self, job: &str, index: u32, node: &Node) -> Result<Address> {
        let point = |why| Snippet::new(SOURCE, self.text, node.span.clone(), why);
        Address::read(&self.address(job, index, node)?, point).map_err(|error| error.at(path(job, Some(index))))
    }

    fn address(&self, job: &str, index: u32, node: &Node) -> Result<String> {
        node.as_str().map(str::to_owned).ok_or_else(|| {
            let what = match &node.value {
                JsonValue::Text(_) => format!("the address of {job}/{index} holds half of a surrogate pair"),
                _ => format!("the address of {job}/{index} is {}, not a string", node.kind()),
            };
            self.error(Code::ConfigType, &node.span, what, "expected \"host:port\"").at(path(job, Some(index)))
        })
    }
}

/// Returns a path in the cluster, such as `cluster.worker[1]`.
pub(crate) fn path(job: &str, index: Option<u32>) -> String {
    match index {
        Some(index) => format!("cluster.{job}[{index}]"),
        None => format!("cluster.{job}"),
    }
}

/// Shortens a user's word for a message.
pub(crate) fn brief(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

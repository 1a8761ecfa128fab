//! `TF_CONFIG` by the rules of `tf.distribute`: TensorFlow's `TFConfigClusterResolver` and `multi_worker_util`.

use phalanx_base::{Code, Result, nearest};

use crate::document::{Document, brief};
use crate::estimator::Purpose;
use crate::lints::{self, Warnings, did_you_mean};
use crate::node::{JsonValue, Node};
use crate::{ClusterSpec, Json, Warning, python};

/// The job names that these rules accept, which exclude `master`.
const JOBS: [&str; 4] = ["chief", "worker", "evaluator", "ps"];

/// A `TF_CONFIG` as a `tf.distribute` strategy interprets it. A value is `None` where TensorFlow raises an error when
/// it is accessed.
///
/// ```
/// use phalanx_cluster::DistributeConfig;
/// let text = r#"{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}"#;
/// let config = DistributeConfig::read(Some(text)).unwrap();
/// assert!(config.is_chief);
/// assert_eq!(config.collective_leader.as_deref(), Some("/job:worker/replica:0/task:0"));
/// ```
#[derive(Clone, Debug)]
pub struct DistributeConfig {
    /// The job of this task.
    pub task_type: Option<String>,
    /// Its index in the job. These rules accept a negative one.
    pub task_id: Option<i64>,
    /// Whether this task is the chief: the job `chief`, an evaluator, or worker 0 if there is no chief.
    pub is_chief: bool,
    /// The number of tasks that train, the chief included; for an evaluator, the number of listed evaluators.
    pub worker_count: Option<usize>,
    /// The number of listed parameter servers.
    pub ps_count: usize,
    /// The number of this task among those that train, the chief first.
    pub id_in_cluster: Option<i64>,
    /// The leader of collective operations; empty if none is needed.
    pub collective_leader: Option<String>,
    /// The leader of the coordination service; empty if none is needed.
    pub coordination_leader: Option<String>,
    /// The target of a TensorFlow session.
    pub master: Option<Json>,
    /// `rpc_layer`, as given.
    pub rpc_layer: Option<Json>,
    /// The cluster.
    pub cluster_spec: ClusterSpec,
    /// Warnings about likely mistakes.
    pub warnings: Vec<Warning>,
}

impl DistributeConfig {
    /// Parses the text of `TF_CONFIG` (`None`: the variable is not set).
    ///
    /// # Errors
    /// When TensorFlow's resolver cannot read it, or `multi_worker_util` finds the cluster invalid.
    pub fn read(text: Option<&str>) -> Result<Self> {
        let doc = Document::parse(text)?;
        let mut warnings = lints::find(&doc, Purpose::Explain);
        not_an_object(&doc, &doc.root, "TF_CONFIG", &mut warnings);
        let spec = match lookup(&doc, &doc.root, "cluster")? {
            Some(_) => doc.cluster()?,
            None => ClusterSpec::new(),
        };
        let (task_type, task_id) = read_task(&doc, &mut warnings)?;
        let task = Task { spec: &spec, job: task_type.as_deref(), index: task_id };
        if !spec.is_empty() {
            task.validate(&doc)?;
            task.warn(&doc, &mut warnings);
        }
        let session_master = lookup(&doc, &doc.root, "session_master")?.filter(|node| !node.is_null());
        let rpc_layer = lookup(&doc, &doc.root, "rpc_layer")?.filter(|node| !node.is_null());
        let master = match session_master {
            Some(node) => Some(node.to_json()),
            None => task.master(rpc_layer).map(Json::Text),
        };
        Ok(Self {
            is_chief: task.is_chief(),
            worker_count: task.worker_count(),
            ps_count: spec.count("ps"),
            id_in_cluster: task.id_in_cluster(),
            collective_leader: match task.job {
                Some("evaluator") => Some(String::new()),
                _ => task.leader(&["chief", "worker"]),
            },
            coordination_leader: task.leader(&["ps", "chief", "worker"]),
            master,
            rpc_layer: rpc_layer.map(Node::to_json),
            warnings: warnings.into_vec(),
            task_type,
            task_id,
            cluster_spec: spec,
        })
    }

    /// Returns all values as one JSON object, under the Estimator's names.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let text = |text: &Option<String>| text.as_ref().map_or(Json::Null, Json::text);
        Json::object([
            ("task_type", text(&self.task_type)),
            ("task_id", self.task_id.map_or(Json::Null, Json::number)),
            ("is_chief", Json::Bool(self.is_chief)),
            ("num_worker_replicas", self.worker_count.map_or(Json::Null, |count| Json::number(count as u64))),
            ("num_ps_replicas", Json::number(self.ps_count as u64)),
            ("global_id_in_cluster", self.id_in_cluster.map_or(Json::Null, Json::number)),
            ("master", self.master.clone().unwrap_or(Json::Null)),
            ("cluster_spec", self.cluster_spec.to_json()),
            ("collective_leader", text(&self.collective_leader)),
            ("coordination_leader", text(&self.coordination_leader)),
            ("rpc_layer", self.rpc_layer.clone().unwrap_or(Json::Null)),
        ])
    }
}

/// One task in its cluster.
struct Task<'a> {
    spec: &'a ClusterSpec,
    job: Option<&'a str>,
    index: Option<i64>,
}

impl Task<'_> {
    fn validate(&self, doc: &Document<'_>) -> Result<()> {
        if let Some(job) = self.spec.jobs().into_iter().find(|job| !JOBS.contains(job)) {
            let what = format!("tf.distribute knows no job {:?}", brief(job));
            let error = doc.error(Code::ConfigJobName, &doc.job_span(job), what, "not a job");
            return Err(match job {
                "master" => error.help("call it \"chief\""),
                _ => did_you_mean(error, nearest(job, JOBS)),
            });
        }
        if let Some(job) = self.job.filter(|job| *job != "evaluator" && !self.spec.has_job(job)) {
            let unknown = !JOBS.contains(&job);
            let what = if unknown { "tf.distribute knows no task type" } else { "the cluster has no job" };
            let what = format!("{what} {:?}", brief(job));
            let error =
                doc.error(Code::ConfigTaskType, &doc.task_value_span("type"), what, "no such job").at("task.type");
            return Err(did_you_mean(error, nearest(job, self.spec.jobs())));
        }
        for (job, code) in [("chief", Code::ConfigChief), ("evaluator", Code::ConfigEvaluator)] {
            if self.spec.count(job) > 1 {
                let what = format!("the cluster has more than one {job:?}");
                return Err(doc.error(code, &doc.job_span(job), what, "one task at most"));
            }
        }
        let Some(job) = self.job.filter(|job| self.spec.has_job(job)) else { return Ok(()) };
        let error =
            |what: String| doc.error(Code::ConfigTaskIndex, &doc.task_value_span("index"), what, "no such task");
        match self.index {
            None => Err(error("the task's index is missing".to_owned()).help("set this process's index: \"index\": 0")),
            Some(index) if index >= self.spec.count(job) as i64 => {
                let count = self.spec.count(job);
                Err(error(format!("job {job:?} has no task {index}")).because(format!("it lists {count}")))
            }
            Some(_) => Ok(()),
        }
    }

    fn is_chief(&self) -> bool {
        match self.job {
            _ if self.spec.is_empty() => true,
            Some("chief" | "evaluator") => true,
            Some("worker") => self.index == Some(0) && !self.spec.has_job("chief"),
            _ => false,
        }
    }

    fn worker_count(&self) -> Option<usize> {
        match self.job {
            _ if self.spec.is_empty() => Some(1),
            Some("evaluator") => Some(self.spec.count("evaluator")).filter(|&count| count > 0),
            Some(job @ ("chief" | "worker")) if self.spec.count(job) > 0 => {
                Some(self.spec.count("chief") + self.spec.count("worker"))
            }
            _ => None,
        }
    }

    fn id_in_cluster(&self) -> Option<i64> {
        match self.job {
            _ if self.spec.is_empty() => Some(0),
            Some("chief") => Some(0),
            Some("worker") => self.index?.checked_add(self.spec.count("chief") as i64),
            Some("evaluator") => self.index,
            _ => None,
        }
    }

    /// Returns task 0 of the first of these jobs that the cluster has; empty without a cluster.
    fn leader(&self, jobs: &[&str]) -> Option<String> {
        if self.spec.is_empty() {
            return Some(String::new());
        }
        let job = jobs.iter().find(|job| self.spec.has_job(job))?;
        Some(format!("/job:{job}/replica:0/task:0"))
    }

    fn address(&self) -> Option<&str> {
        self.spec.task_address(self.job?, u32::try_from(self.index?).ok()?).ok()
    }

    fn master(&self, rpc_layer: Option<&Node>) -> Option<String> {
        if self.spec.is_empty() || self.spec.is_single() {
            return Some(String::new());
        }
        // TensorFlow raises for a single job without tasks before it looks for the address.
        let address = self.address()?;
        Some(match rpc_layer.filter(|node| node.truthy()) {
            Some(layer) => format!("{}://{address}", python_str(layer)),
            None => address.to_owned(),
        })
    }

    fn warn(&self, doc: &Document<'_>, found: &mut Warnings) {
        let Some(job) = self.job else {
            let what = "the task is not given";
            found.add(|| doc.error(Code::ConfigTaskType, &doc.task_span(), what, "`task` is missing").at("task.type"));
            return;
        };
        let span = doc.task_value_span("index");
        if self.index.is_some_and(|index| index < 0) {
            found.add(|| doc.error(Code::ConfigTaskIndex, &span, "the task's index is negative", "no such task"));
        } else if job != "evaluator" && self.address().is_none() {
            let what = || format!("{job}/{} has no address", self.index.unwrap_or_default());
            found.add(|| doc.error(Code::ConfigTaskIndex, &span, what(), "left out of the cluster"));
        }
    }
}

/// Returns the task's type and index, if given.
fn read_task(doc: &Document<'_>, found: &mut Warnings) -> Result<(Option<String>, Option<i64>)> {
    let Some(task) = lookup(doc, &doc.root, "task")? else { return Ok((None, None)) };
    not_an_object(doc, task, "`task`", found);
    let task_type = lookup(doc, task, "type")?.map(python_str);
    let task_id = match lookup(doc, task, "index")? {
        Some(node) => Some(python::int(node).map_err(|why| {
            let what = format!("the task's index is {why}");
            doc.error(Code::ConfigTaskIndex, &node.span, what, "expected a number").at("task.index")
        })?),
        None => None,
    };
    Ok((task_type, task_id))
}

/// Python's `value[key] if key in value`: a list or a string that contains the key is an error, one that does not has
/// no value.
fn lookup<'n>(doc: &Document<'_>, node: &'n Node, key: &str) -> Result<Option<&'n Node>> {
    let fine = match &node.value {
        JsonValue::Object(_) => return Ok(node.get(key)),
        JsonValue::List(items) => !items.iter().any(|item| item.as_str() == Some(key)),
        JsonValue::Text(text) => !text.text.contains(key),
        _ => false,
    };
    if fine {
        return Ok(None);
    }
    let what = format!("{} where an object with {key:?} should be", node.kind());
    Err(doc.error(Code::ConfigType, &node.span, what, "expected an object"))
}

fn not_an_object(doc: &Document<'_>, node: &Node, name: &str, found: &mut Warnings) {
    if !node.is_object() {
        let what = || format!("{name} is {}, so it has no effect", node.kind());
        found.add(|| doc.error(Code::ConfigType, &node.span, what(), "expected an object"));
    }
}

/// Python's `str(value)`, except for fractions, lists and objects, which have no meaning here.
fn python_str(node: &Node) -> String {
    match &node.value {
        JsonValue::Null => "None".to_owned(),
        JsonValue::Bool(true) => "True".to_owned(),
        JsonValue::Bool(false) => "False".to_owned(),
        JsonValue::Text(text) => text.text.clone(),
        _ => node.to_json().to_string(),
    }
}

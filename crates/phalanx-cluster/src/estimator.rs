//! `TF_CONFIG` under the rules of TensorFlow's Estimator (`RunConfig`): the checks, in their order.

use phalanx_base::{Code, Error, Result, Role, nearest};

use crate::derive::{self, Who};
use crate::document::{Document, brief, path};
use crate::node::{Node, Value};
use crate::traps::{self, Warnings, did_you_mean, not_text};
use crate::{ClusterSpec, Json, Warning, python};

/// What the Estimator makes of a `TF_CONFIG`; the names are those of TensorFlow's `RunConfig`.
///
/// ```
/// use phalanx_cluster::EstimatorConfig;
/// let text = r#"{"cluster": {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1", "d:1"]},
///                "task": {"type": "worker", "index": 1}}"#;
/// let config = EstimatorConfig::read(Some(text), None).unwrap();
/// assert_eq!(config.master.as_str(), Some("grpc://d:1"));
/// assert_eq!((config.num_worker_replicas, config.global_id_in_cluster), (3, Some(2)));
/// assert_eq!(config.device_filters, ["/job:ps", "/job:worker/task:1"]);
/// ```
#[derive(Clone, Debug)]
pub struct EstimatorConfig {
    /// The job of this task; `worker` where there is no cluster.
    pub task_type: String,
    /// Its index in the job.
    pub task_id: u64,
    /// Whether this task looks after the job; so is a task without cluster.
    pub is_chief: bool,
    /// How many tasks train, the chief included; 0 for an evaluator.
    pub num_worker_replicas: usize,
    /// How many parameter servers there are; 0 for an evaluator.
    pub num_ps_replicas: usize,
    /// Numbers all tasks: chief, then the others by job name, then ps. None for an evaluator.
    pub global_id_in_cluster: Option<u64>,
    /// Where a TensorFlow session would go: `session_master` as it is given, or this task's own address.
    pub master: Json,
    /// Where an evaluator's session would go.
    pub evaluation_master: Json,
    /// The cluster; emptied for an evaluator, which is not part of it.
    pub cluster_spec: ClusterSpec,
    /// `service` as it is given.
    pub service: Option<Json>,
    /// The program's `model_dir`, or the one of `TF_CONFIG` as it is given.
    pub model_dir: Option<Json>,
    /// The devices that a session of this task would see; empty where all.
    pub device_filters: Vec<String>,
    /// What is allowed and probably not meant.
    pub warnings: Vec<Warning>,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Says what `RunConfig` does: accepts what it accepts.
    Explain,
    /// Is going to run the task: worker 0 may be the chief, and what fails later in TensorFlow fails here.
    Run,
}

impl EstimatorConfig {
    /// Reads the text of `TF_CONFIG` (`None`: the variable is not set); `model_dir` is what the program itself asks for.
    ///
    /// # Errors
    /// Where TensorFlow's `RunConfig` raises.
    pub fn read(text: Option<&str>, model_dir: Option<&str>) -> Result<Self> {
        read(text, model_dir, Purpose::Explain).map(|(config, _)| config)
    }

    /// All values as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Json {
        Json::object([
            ("task_type", Json::text(&self.task_type)),
            ("task_id", Json::number(self.task_id)),
            ("is_chief", Json::Bool(self.is_chief)),
            ("num_worker_replicas", Json::number(self.num_worker_replicas as u64)),
            ("num_ps_replicas", Json::number(self.num_ps_replicas as u64)),
            ("global_id_in_cluster", self.global_id_in_cluster.map_or(Json::Null, Json::number)),
            ("master", self.master.clone()),
            ("evaluation_master", self.evaluation_master.clone()),
            ("cluster_spec", self.cluster_spec.to_json()),
            ("service", self.service.clone().unwrap_or(Json::Null)),
            ("model_dir", self.model_dir.clone().unwrap_or(Json::Null)),
            ("device_filters", Json::List(self.device_filters.iter().map(Json::text).collect())),
        ])
    }
}

/// Reads under the Estimator's rules; also returns the cluster as it is written, which an evaluator's config hides.
pub(crate) fn read(
    text: Option<&str>,
    model_dir: Option<&str>,
    why: Purpose,
) -> Result<(EstimatorConfig, ClusterSpec)> {
    let doc = Document::parse(text)?;
    if !doc.root.is_object() {
        let what = format!("TF_CONFIG is {}, not an object", doc.root.kind());
        return Err(doc.error(Code::ConfigType, &doc.root.span, what, "expected {\"cluster\": …, \"task\": …}"));
    }
    let mut warnings = traps::find(&doc);
    let model_dir = read_model_dir(&doc, model_dir, why, &mut warnings)?;
    let service = read_service(&doc)?;
    let spec = doc.cluster()?;
    let who = if spec.is_empty() { local(&doc)? } else { clustered(&doc, &spec, why)? };
    let mut config = derive::estimator(&doc, &spec, &who, &mut warnings)?;
    (config.service, config.model_dir, config.warnings) = (service, model_dir, warnings.into_vec());
    Ok((config, spec))
}

fn read_model_dir(doc: &Document<'_>, own: Option<&str>, why: Purpose, found: &mut Warnings) -> Result<Option<Json>> {
    let help = "name a directory, or leave it out";
    if own == Some("") {
        return Err(Error::new(Code::ConfigModelDir, "model_dir is empty").help(help));
    }
    let given = doc.root.get("model_dir").filter(|node| !node.is_null());
    let Some(given) = given else { return Ok(own.map(Json::text)) };
    let error = |what: String, label| doc.error(Code::ConfigModelDir, &given.span, what, label);
    let empty = matches!(&given.value, Value::Text(text) if text.text.is_empty());
    match own {
        // The program's own wins over what Python takes for nothing, except for the empty string.
        Some(own) if !given.truthy() && !empty => Ok(Some(Json::text(own))),
        _ if !given.truthy() => Err(error("`model_dir` is empty".to_owned(), "names no directory").help(help)),
        Some(own) if given.as_str() != Some(own) => {
            let what = format!("`model_dir` is not the program's own, {own:?}");
            Err(error(what, "another directory").help("give it in one place, or the same in both"))
        }
        _ if why == Purpose::Run && given.as_str().is_none() => {
            Err(error(format!("`model_dir` is {}, not a string", given.kind()), "names no directory").help(help))
        }
        _ => {
            not_text(doc, "model_dir", given, found);
            Ok(Some(given.to_json()))
        }
    }
}

fn read_service(doc: &Document<'_>) -> Result<Option<Json>> {
    match doc.root.get("service").filter(|node| !node.is_null()) {
        Some(node) if !node.is_object() => {
            let what = format!("`service` is {}, not an object", node.kind());
            Err(doc.error(Code::ConfigType, &node.span, what, "expected an object"))
        }
        service => Ok(service.map(Node::to_json)),
    }
}

/// The `task` object; absent is empty, anything else is wrong.
fn task<'d>(doc: &'d Document<'_>) -> Result<Option<&'d Node>> {
    match doc.root.get("task") {
        Some(node) if !node.is_object() => {
            let what = format!("`task` is {}, not an object", node.kind());
            let error = doc.error(Code::ConfigType, &node.span, what, "expected an object");
            Err(error.help("write {\"type\": \"worker\", \"index\": 0}"))
        }
        task => Ok(task),
    }
}

fn index_of(doc: &Document<'_>, node: &Node) -> Result<i64> {
    python::int(node).map_err(|why| {
        let what = format!("the task's index is {why}");
        doc.error(Code::ConfigTaskIndex, &node.span, what, "expected a number").at("task.index")
    })
}

/// Without a cluster a task can only be the one worker there is.
fn local(doc: &Document<'_>) -> Result<Who> {
    let task = task(doc)?;
    let index = task.and_then(|task| task.get("index")).map_or(Ok(0), |node| index_of(doc, node))?;
    let no_cluster = "TF_CONFIG has no cluster";
    if let Some(node) = task.and_then(|task| task.get("type")).filter(|node| node.as_str() != Some("worker")) {
        let what = "without a cluster the task's type must be \"worker\"";
        let error = doc.error(Code::ConfigTaskType, &node.span, what, "there is nobody else").because(no_cluster);
        let misspelt = doc.root.entries().iter().find(|entry| nearest(&entry.key.text, ["cluster"]).is_some());
        return Err(match misspelt {
            Some(entry) => did_you_mean(error, (entry.key.text != "cluster").then_some("cluster")),
            None => error.help("add `cluster`, or leave `task` out"),
        });
    }
    if index != 0 {
        let what = "without a cluster the task's index must be 0";
        let error = doc.error(Code::ConfigTaskIndex, &doc.task_value_span("index"), what, "there is nobody else");
        return Err(error.because(no_cluster).help("add `cluster`, or leave `task` out"));
    }
    Ok(Who { chief_job: "worker", task_type: "worker".to_owned(), task_id: 0 })
}

/// In a cluster there is one chief, and the task says who it is.
fn clustered(doc: &Document<'_>, spec: &ClusterSpec, why: Purpose) -> Result<Who> {
    let chief_job = match (spec.has_job("master"), spec.has_job("chief")) {
        (true, true) => {
            let what = "the cluster has a \"chief\" and a \"master\"";
            let error = doc.error(Code::ConfigChief, &doc.job_span("master"), what, "the old name of the chief");
            return Err(error.help("keep \"chief\""));
        }
        (true, false) => "master",
        (false, false) if why == Purpose::Run && spec.count("worker") > 0 => "worker",
        _ => "chief",
    };
    one_chief(doc, spec, chief_job)?;

    let task = task(doc)?;
    let task_type = task.and_then(|task| task.get("type")).filter(|node| node.truthy()).ok_or_else(|| {
        let error =
            doc.error(Code::ConfigTaskType, &doc.task_value_span("type"), "the task's type is missing", "who is this?");
        error.at("task.type").help("say who this process is: \"task\": {\"type\": \"worker\", \"index\": 0}")
    })?;
    let index = task.and_then(|task| task.get("index")).filter(|node| !node.is_null()).ok_or_else(|| {
        let error = doc.error(
            Code::ConfigTaskIndex,
            &doc.task_value_span("index"),
            "the task's index is missing",
            "which one is this?",
        );
        error.at("task.index").help("say which one this process is: \"index\": 0")
    })?;
    let task_id = index_of(doc, index)?;
    let task_id = u64::try_from(task_id).map_err(|_| {
        let error = doc.error(Code::ConfigTaskIndex, &index.span, "the task's index is negative", "expected 0 or more");
        error.at("task.index")
    })?;
    let task_type = task_type.as_str().ok_or_else(|| {
        let what = format!("the task's type is {}, not a job's name", task_type.kind());
        doc.error(Code::ConfigTaskType, &task_type.span, what, "no such job").at("task.type")
    })?;
    let who = Who { chief_job, task_type: task_type.to_owned(), task_id };
    if who.is_evaluator() {
        evaluator(doc, &who, why)?;
    } else {
        member(doc, spec, &who, why)?;
    }
    Ok(who)
}

fn one_chief(doc: &Document<'_>, spec: &ClusterSpec, chief_job: &str) -> Result<()> {
    let error = |what: String, label| doc.error(Code::ConfigChief, &doc.job_span(chief_job), what, label);
    match spec.slots(chief_job) {
        _ if !spec.has_job(chief_job) => {
            let span = doc.root.get("cluster").map_or(&doc.root.span, |cluster| &cluster.span);
            let error = doc.error(Code::ConfigChief, span, "the cluster has no chief", "one \"chief\" is missing");
            Err(match nearest(chief_job, spec.jobs()) {
                Some(near) => error.help(format!("did you mean \"chief\" where you wrote {near:?}?")),
                None if spec.has_job("worker") => {
                    error.help("call the first worker \"chief\"; under tf.distribute's rules it is one as it stands")
                }
                None => error.help("add \"chief\": [\"host:port\"]"),
            })
        }
        None => Err(error(format!("job {chief_job:?} has no task"), "no address")),
        Some(slots) if chief_job != "worker" && slots > 1 => {
            let why = match spec.count(chief_job) {
                1 => "its index is not 0".to_owned(),
                count => format!("it lists {count}"),
            };
            Err(error(format!("the cluster must have exactly one {chief_job:?}"), "one task, index 0").because(why))
        }
        Some(_) if spec.task_address(chief_job, 0).is_err() => {
            Err(error("the cluster has no chief".to_owned(), "worker 0 is not listed").help("add a chief or worker 0"))
        }
        Some(_) => Ok(()),
    }
}

fn evaluator(doc: &Document<'_>, who: &Who, why: Purpose) -> Result<()> {
    if who.chief_job == "master" {
        let what = "a cluster with a \"master\" has no evaluator";
        let error = doc.error(Code::ConfigEvaluator, &doc.task_value_span("type"), what, "the master evaluates");
        return Err(error.help("call the master \"chief\", or do not start an evaluator"));
    }
    if why == Purpose::Run && who.task_id > 0 {
        let what = "there is only one evaluator, with index 0";
        return Err(doc
            .error(Code::ConfigEvaluator, &doc.task_value_span("index"), what, "expected 0")
            .at("task.index"));
    }
    Ok(())
}

/// The task must be one of the cluster's.
fn member(doc: &Document<'_>, spec: &ClusterSpec, who: &Who, why: Purpose) -> Result<()> {
    let name = brief(&who.task_type);
    let span = doc.task_value_span("type");
    let known = spec.jobs().into_iter().chain(["evaluator"]);
    if !spec.has_job(&who.task_type) {
        let what = format!("the cluster has no job {name:?}");
        let error = doc.error(Code::ConfigTaskType, &span, what, "no such job").at("task.type");
        let near = nearest(&who.task_type, known).map(str::to_owned);
        let error = if near.is_none() {
            error.because(format!("its jobs are {}", brief(&spec.jobs().join(", "))))
        } else {
            error
        };
        return Err(did_you_mean(error, near.as_deref()));
    }
    if why == Purpose::Run && who.task_type.parse::<Role>().is_err() {
        let error =
            doc.error(Code::ConfigTaskType, &span, format!("a task of type {name:?} has nothing to do"), "not a role");
        let error = error.at("task.type").because("roles are chief, worker, ps and evaluator");
        return Err(did_you_mean(error, nearest(&who.task_type, Role::ALL.map(Role::as_str))));
    }
    let span = doc.task_value_span("index");
    let beyond = |why: String| doc.error(Code::ConfigTaskIndex, &span, why, "no such task").at("task.index");
    match spec.slots(&who.task_type) {
        None => Err(beyond(format!("job {name:?} has no tasks"))),
        Some(slots) if who.task_id >= slots as u64 => {
            let last = slots - 1;
            let range =
                if last == 0 { "its only index is 0".to_owned() } else { format!("its indices are 0 to {last}") };
            let error = beyond(format!("job {name:?} has no task {}", who.task_id)).because(range);
            Err(if who.task_id == slots as u64 { error.help("indices start at 0") } else { error })
        }
        // TensorFlow dies here too, unless a session master makes the address needless.
        Some(_) if who.address(spec).is_none() && (why == Purpose::Run || doc.root.get("session_master").is_none()) => {
            let error = beyond(format!("{name}/{} has no address", who.task_id));
            Err(error
                .because(format!("{} leaves this index out", path(&name, None)))
                .help("list this task's own address"))
        }
        Some(_) => Ok(()),
    }
}

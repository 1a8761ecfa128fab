//! `TF_CONFIG` by the rules of TensorFlow's Estimator (`RunConfig`): the checks, in their order.

use phalanx_base::{Code, Error, Result};

use crate::document::Document;
use crate::lints::{self, Warnings, not_text};
use crate::node::{JsonValue, Node};
use crate::{ClusterSpec, Json, Warning, checks, derive};

/// A `TF_CONFIG` as the Estimator interprets it. The names are those of TensorFlow's `RunConfig`.
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
    /// The job of this task; `worker` if there is no cluster.
    pub task_type: String,
    /// Its index in the job.
    pub task_id: u64,
    /// Whether this task is the chief, as a task without a cluster is.
    pub is_chief: bool,
    /// The number of tasks that train, the chief included; 0 for an evaluator.
    pub num_worker_replicas: usize,
    /// The number of parameter servers; 0 for an evaluator.
    pub num_ps_replicas: usize,
    /// The number of this task among all: the chief first, then the others by job name, then ps. `None` for an
    /// evaluator.
    pub global_id_in_cluster: Option<u64>,
    /// The target of a TensorFlow session: `session_master` as given, or this task's own address.
    pub master: Json,
    /// The target of an evaluator's session.
    pub evaluation_master: Json,
    /// The cluster; empty for an evaluator, which is not part of it.
    pub cluster_spec: ClusterSpec,
    /// `service`, as given.
    pub service: Option<Json>,
    /// The program's `model_dir`, or the one of `TF_CONFIG`, as given.
    pub model_dir: Option<Json>,
    /// The devices that a session of this task would see; empty for all.
    pub device_filters: Vec<String>,
    /// Warnings about likely mistakes.
    pub warnings: Vec<Warning>,
}

/// The purpose of reading a `TF_CONFIG`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To explain what `RunConfig` does: accepts what it accepts.
    Explain,
    /// To run the task: worker 0 may be the chief, an evaluator need not know the cluster, and what fails later in TensorFlow
    /// fails here.
    Run,
}

impl EstimatorConfig {
    /// Parses the text of `TF_CONFIG` (`None`: the variable is not set). `model_dir` is the program's own.
    ///
    /// # Errors
    /// When TensorFlow's `RunConfig` raises.
    pub fn read(text: Option<&str>, model_dir: Option<&str>) -> Result<Self> {
        read(text, model_dir, Purpose::Explain).map(|(config, _)| config)
    }

    /// Returns all values as one JSON object.
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

/// Reads by the Estimator's rules. Also returns the cluster as given, which is hidden in an evaluator's config.
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
    let mut warnings = lints::find(&doc, why);
    let model_dir = read_model_dir(&doc, model_dir, why, &mut warnings)?;
    let service = read_service(&doc)?;
    let spec = doc.cluster()?;
    let identity = if spec.is_empty() { checks::local(&doc, why)? } else { checks::clustered(&doc, &spec, why)? };
    let mut config = derive::estimator(&doc, &spec, &identity, &mut warnings)?;
    if why == Purpose::Run {
        lints::check_addresses(&doc)?;
    }
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
    let empty = matches!(&given.value, JsonValue::Text(text) if text.text.is_empty());
    match own {
        // The program's own value overrides a falsy one, except for the empty string.
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

//! The values that the Estimator derives from a valid `TF_CONFIG`.

use phalanx_base::{Code, Result};

use crate::document::{Document, brief};
use crate::lints::{Warnings, not_text};
use crate::node::Node;
use crate::{ClusterSpec, EstimatorConfig, Json};

/// The identity of this task, after the checks.
pub(crate) struct TaskIdentity {
    /// The chief's job: `chief`, the legacy `master`, or `worker` if worker 0 is the chief.
    pub(crate) chief_job: &'static str,
    pub(crate) task_type: String,
    pub(crate) task_id: u64,
}

impl TaskIdentity {
    pub(crate) fn is_evaluator(&self) -> bool {
        self.task_type == "evaluator"
    }

    /// Returns the task's own address, if the cluster lists it.
    pub(crate) fn address<'s>(&self, spec: &'s ClusterSpec) -> Option<&'s str> {
        spec.task_address(&self.task_type, u32::try_from(self.task_id).ok()?).ok()
    }

    fn is_chief(&self) -> bool {
        self.task_type == self.chief_job && self.task_id == 0
    }
}

/// Returns the derived values. The caller fills in `service`, `model_dir` and `warnings`.
pub(crate) fn estimator(
    doc: &Document<'_>,
    spec: &ClusterSpec,
    identity: &TaskIdentity,
    found: &mut Warnings,
) -> Result<EstimatorConfig> {
    let (local, alone) = (spec.is_empty(), identity.is_evaluator());
    let given = |key: &str| doc.root.get(key).map(Node::to_json);
    let none = || Json::text("");
    let trainers = |spec: &ClusterSpec| match identity.chief_job {
        "worker" => spec.count("worker"),
        chief => spec.count("worker") + spec.count(chief),
    };
    lints(doc, spec, identity, found);
    Ok(EstimatorConfig {
        task_type: identity.task_type.clone(),
        task_id: identity.task_id,
        is_chief: (local && !alone) || identity.is_chief(),
        num_worker_replicas: if local {
            1
        } else if alone {
            0
        } else {
            trainers(spec)
        },
        num_ps_replicas: if alone { 0 } else { spec.count("ps") },
        global_id_in_cluster: if alone { None } else { Some(global_id(doc, spec, identity)?) },
        master: if alone {
            none()
        } else {
            given("session_master").unwrap_or_else(|| Json::text(own_master(spec, identity)))
        },
        evaluation_master: if alone || local { given("eval_session_master").unwrap_or_else(none) } else { none() },
        cluster_spec: if alone { ClusterSpec::new() } else { spec.clone() },
        service: None,
        model_dir: None,
        device_filters: if local { Vec::new() } else { device_filters(identity) },
        warnings: Vec::new(),
    })
}

/// Returns the task's own address; empty for a cluster of one task, which needs no server.
fn own_master(spec: &ClusterSpec, identity: &TaskIdentity) -> String {
    match identity.address(spec) {
        Some(address) if !spec.is_single() => format!("grpc://{address}"),
        _ => String::new(),
    }
}

/// Returns the task's number: the chief's job first, then the others by name, ps last. A job takes as many ids as its
/// list is long.
fn global_id(doc: &Document<'_>, spec: &ClusterSpec, identity: &TaskIdentity) -> Result<u64> {
    if spec.is_empty() {
        return Ok(0);
    }
    let mut jobs = spec.jobs();
    jobs.sort_unstable_by_key(|&job| (job != identity.chief_job, job == "ps", job));
    let mut next = 0;
    for job in jobs.into_iter().take_while(|&job| job != identity.task_type) {
        next += spec.slots(job).ok_or_else(|| {
            let what = format!("job {:?} has no tasks", brief(job));
            let error = doc.error(Code::ConfigAddress, &doc.job_span(job), what, "no address");
            error.because("the tasks that come after it cannot be numbered").help("leave the job out")
        })?;
    }
    Ok(next as u64 + identity.task_id)
}

/// Returns the devices that a session of this task may see. Workers never see each other, so none waits for another.
fn device_filters(identity: &TaskIdentity) -> Vec<String> {
    match identity.task_type.as_str() {
        chief @ ("chief" | "master") => vec!["/job:ps".to_owned(), format!("/job:{chief}")],
        "worker" => vec!["/job:ps".to_owned(), format!("/job:worker/task:{}", identity.task_id)],
        "ps" => ["/job:ps", "/job:worker", "/job:chief", "/job:master"].map(str::to_owned).to_vec(),
        _ => Vec::new(),
    }
}

/// Adds warnings about what the Estimator silently accepts.
fn lints(doc: &Document<'_>, spec: &ClusterSpec, identity: &TaskIdentity, found: &mut Warnings) {
    let (local, alone) = (spec.is_empty(), identity.is_evaluator());
    for key in ["session_master", "eval_session_master"] {
        if let Some(node) = doc.root.get(key) {
            not_text(doc, key, node, found);
        }
    }
    if let Some(node) = doc.root.get("eval_session_master").filter(|_| !local && !alone) {
        let what = "`eval_session_master` has no effect";
        let why = "only an evaluator, or a task without cluster, reads it";
        found.add(|| doc.error(Code::ConfigIgnored, &node.span, what, "has no effect").because(why));
    }
    if let Some(node) = doc.root.get("session_master").filter(|_| alone) {
        let what = "`session_master` has no effect";
        let why = "an evaluator does not read it";
        found.add(|| doc.error(Code::ConfigIgnored, &node.span, what, "has no effect").because(why));
    }
    if alone && identity.task_id > 0 {
        let what = "there is only one evaluator, with index 0";
        let span = doc.task_value_span("index");
        found.add(|| doc.error(Code::ConfigEvaluator, &span, what, "this one will not start").at("task.index"));
    }
    if !local && !alone && identity.address(spec).is_none() {
        let what = format!("{}/{} has no address", brief(&identity.task_type), identity.task_id);
        let span = doc.task_value_span("index");
        found.add(|| doc.error(Code::ConfigTaskIndex, &span, what, "left out of the cluster").at("task.index"));
    }
    if spec.is_single() && identity.task_type == "chief" {
        let what = "a chief alone never evaluates";
        let error = || doc.error(Code::ConfigEvaluator, &doc.job_span("chief"), what, "the only task");
        found.add(|| error().help("leave TF_CONFIG out to train and evaluate in one process, or start an evaluator"));
    }
}

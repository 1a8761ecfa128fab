//! The identity of this task by the Estimator's rules: TensorFlow's checks, in TensorFlow's order.

use phalanx_base::{Code, Error, Result, Role, nearest};

use crate::derive::TaskIdentity;
use crate::document::{Document, brief, path};
use crate::estimator::Purpose;
use crate::lints::did_you_mean;
use crate::node::Node;
use crate::{ClusterSpec, python};

/// The advice for an evaluator that `RunConfig` refuses and that runs here.
const STANDALONE: &str = "Phalanx and tf.distribute accept this evaluator; for the Estimator add the training cluster";

/// Returns the `task` object, if there is one. Fails for any other value.
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

/// Checks a task without a cluster. `RunConfig` only knows the single worker; an evaluator also runs here, because it needs no
/// addresses.
pub(crate) fn local(doc: &Document<'_>, why: Purpose) -> Result<TaskIdentity> {
    let task = task(doc)?;
    let index = task.and_then(|task| task.get("index")).map_or(Ok(0), |node| index_of(doc, node))?;
    let no_cluster = "TF_CONFIG has no cluster";
    let given = task.and_then(|task| task.get("type"));
    let is_evaluator = given.and_then(Node::as_str) == Some("evaluator");
    if is_evaluator && why == Purpose::Run {
        let task_id = u64::try_from(index).map_err(|_| only_evaluator(doc))?;
        let identity = TaskIdentity { chief_job: "chief", task_type: "evaluator".to_owned(), task_id };
        return evaluator(doc, &identity, why).map(|()| identity);
    }
    if let Some(node) = given.filter(|node| node.as_str() != Some("worker")) {
        let what = "without a cluster the task's type must be \"worker\"";
        let error = doc.error(Code::ConfigTaskType, &node.span, what, "there is no other task").because(no_cluster);
        let misspelt = doc.root.entries().iter().find(|entry| nearest(&entry.key.text, ["cluster"]).is_some());
        return Err(match misspelt {
            Some(entry) => did_you_mean(error, (entry.key.text != "cluster").then_some("cluster")),
            None if is_evaluator => error.help(STANDALONE),
            None => error.help("add `cluster`, or leave `task` out"),
        });
    }
    if index != 0 {
        let what = "without a cluster the task's index must be 0";
        let error = doc.error(Code::ConfigTaskIndex, &doc.task_value_span("index"), what, "there is no other task");
        return Err(error.because(no_cluster).help("add `cluster`, or leave `task` out"));
    }
    Ok(TaskIdentity { chief_job: "worker", task_type: "worker".to_owned(), task_id: 0 })
}

/// Checks a task of a cluster, which must have one chief.
pub(crate) fn clustered(doc: &Document<'_>, spec: &ClusterSpec, why: Purpose) -> Result<TaskIdentity> {
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
    let task = task(doc)?;
    let is_evaluator = task.and_then(|task| task.get("type")).and_then(Node::as_str) == Some("evaluator");
    if !(is_evaluator && why == Purpose::Run && spec.jobs() == ["evaluator"]) {
        one_chief(doc, spec, chief_job)?;
    }
    let task_type = task.and_then(|task| task.get("type")).filter(|node| node.truthy()).ok_or_else(|| {
        let error = doc.error(
            Code::ConfigTaskType,
            &doc.task_value_span("type"),
            "the task's type is missing",
            "which job is this?",
        );
        error.at("task.type").help("set this process's task: \"task\": {\"type\": \"worker\", \"index\": 0}")
    })?;
    let index = task.and_then(|task| task.get("index")).filter(|node| !node.is_null()).ok_or_else(|| {
        let error = doc.error(
            Code::ConfigTaskIndex,
            &doc.task_value_span("index"),
            "the task's index is missing",
            "which one is this?",
        );
        error.at("task.index").help("set this process's index: \"index\": 0")
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
    let identity = TaskIdentity { chief_job, task_type: task_type.to_owned(), task_id };
    if identity.is_evaluator() {
        evaluator(doc, &identity, why)?;
    } else {
        member(doc, spec, &identity, why)?;
    }
    Ok(identity)
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
                    error.help("call the first worker \"chief\"; tf.distribute's rules accept the cluster as it is")
                }
                None if spec.jobs() == ["evaluator"] => error.help(STANDALONE),
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

fn evaluator(doc: &Document<'_>, identity: &TaskIdentity, why: Purpose) -> Result<()> {
    if identity.chief_job == "master" {
        let what = "a cluster with a \"master\" has no evaluator";
        let error = doc.error(Code::ConfigEvaluator, &doc.task_value_span("type"), what, "the master evaluates");
        return Err(error.help("call the master \"chief\", or do not start an evaluator"));
    }
    if why == Purpose::Run && identity.task_id > 0 {
        return Err(only_evaluator(doc));
    }
    Ok(())
}

fn only_evaluator(doc: &Document<'_>) -> Error {
    let what = "there is only one evaluator, with index 0";
    doc.error(Code::ConfigEvaluator, &doc.task_value_span("index"), what, "expected 0").at("task.index")
}

/// Checks that the cluster lists the task.
fn member(doc: &Document<'_>, spec: &ClusterSpec, identity: &TaskIdentity, why: Purpose) -> Result<()> {
    let name = brief(&identity.task_type);
    let span = doc.task_value_span("type");
    let known = spec.jobs().into_iter().chain(["evaluator"]);
    if !spec.has_job(&identity.task_type) {
        let what = format!("the cluster has no job {name:?}");
        let error = doc.error(Code::ConfigTaskType, &span, what, "no such job").at("task.type");
        let near = nearest(&identity.task_type, known).map(str::to_owned);
        let error = if near.is_none() {
            error.because(format!("its jobs are {}", brief(&spec.jobs().join(", "))))
        } else {
            error
        };
        return Err(did_you_mean(error, near.as_deref()));
    }
    if why == Purpose::Run && identity.task_type.parse::<Role>().is_err() {
        let error =
            doc.error(Code::ConfigTaskType, &span, format!("a task of type {name:?} has nothing to do"), "not a role");
        let error = error.at("task.type").because("roles are chief, worker, ps and evaluator");
        return Err(did_you_mean(error, nearest(&identity.task_type, Role::ALL.map(Role::as_str))));
    }
    let span = doc.task_value_span("index");
    let beyond = |why: String| doc.error(Code::ConfigTaskIndex, &span, why, "no such task").at("task.index");
    match spec.slots(&identity.task_type) {
        None => Err(beyond(format!("job {name:?} has no tasks"))),
        Some(slots) if identity.task_id >= slots as u64 => {
            let last = slots - 1;
            let range =
                if last == 0 { "its only index is 0".to_owned() } else { format!("its indices are 0 to {last}") };
            let error = beyond(format!("job {name:?} has no task {}", identity.task_id)).because(range);
            Err(if identity.task_id == slots as u64 { error.help("indices start at 0") } else { error })
        }
        // TensorFlow fails here too, unless a session master makes the address unnecessary.
        Some(_)
            if identity.address(spec).is_none()
                && (why == Purpose::Run || doc.root.get("session_master").is_none()) =>
        {
            let error = beyond(format!("{name}/{} has no address", identity.task_id));
            Err(error
                .because(format!("{} leaves this index out", path(&name, None)))
                .help("list this task's own address"))
        }
        Some(_) => Ok(()),
    }
}

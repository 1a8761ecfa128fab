//! Refuses a strategy that would ignore the cluster of `TF_CONFIG`.

use phalanx_base::{Code, Error, Result, Role};
use phalanx_cluster::TaskConfig;

/// Fails if `config` names a cluster of several tasks that the strategy ignores: every task would train a separate model,
/// and the job would seem to succeed. An evaluator does not train, so it may.
pub(super) fn check(strategy: &str, config: &TaskConfig) -> Result<()> {
    let Some(task) = config.task().filter(|task| task.role != Role::Evaluator) else { return Ok(()) };
    let tasks = config.tasks().len();
    if tasks < 2 {
        return Ok(());
    }
    let error = Error::new(Code::ConfigIgnored, format!("{strategy} would ignore the cluster of TF_CONFIG"))
        .at(format!("{task} of a cluster of {tasks} tasks"))
        .because("it trains within one process, so every task would train a separate model");
    let fits = if config.ps_addresses().is_empty() {
        "use Strategy::multi_worker_mirrored"
    } else {
        "use Strategy::parameter_server, or start the job without parameter servers and use Strategy::multi_worker_mirrored"
    };
    Err(error.help(format!("{fits}; if you want separate models, call Strategy::ignoring_tf_config")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::TaskId;
    use phalanx_cluster::ClusterSpec;

    fn config(ps: &[&str], workers: &[&str], role: Role) -> TaskConfig {
        let cluster = ClusterSpec::new().job("chief", ["a:1"]);
        let cluster = if ps.is_empty() { cluster } else { cluster.job("ps", ps.to_vec()) };
        let cluster = if workers.is_empty() { cluster } else { cluster.job("worker", workers.to_vec()) };
        TaskConfig::from_cluster(cluster, TaskId::new(role, 0)).unwrap()
    }

    #[test]
    fn a_cluster_of_several_tasks_is_not_ignored() {
        let error = check("MirroredStrategy", &config(&["b:1"], &["c:1"], Role::Ps)).unwrap_err();
        assert_eq!(error.code(), Code::ConfigIgnored);
        assert_eq!(error.what(), "MirroredStrategy would ignore the cluster of TF_CONFIG");
        assert_eq!(error.place(), Some("ps/0 of a cluster of 3 tasks"));
        assert!(error.next().unwrap().starts_with("use Strategy::parameter_server"), "{error}");
        let error = check("OneDeviceStrategy", &config(&[], &["c:1"], Role::Chief)).unwrap_err();
        assert!(error.next().unwrap().starts_with("use Strategy::multi_worker_mirrored;"), "{error}");
        assert!(check("MirroredStrategy", &config(&["b:1"], &[], Role::Chief)).is_err(), "a server beside it");
    }

    #[test]
    fn a_task_that_has_nobody_to_train_with_may_train_alone() {
        check("MirroredStrategy", &TaskConfig::local()).unwrap();
        check("MirroredStrategy", &config(&[], &[], Role::Chief)).unwrap();
        check("MirroredStrategy", &config(&["b:1"], &["c:1"], Role::Evaluator)).unwrap();
    }
}

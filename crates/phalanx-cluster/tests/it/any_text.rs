//! Any TF_CONFIG and any flags are either read or refused; nothing panics.

use phalanx_cluster::{DistributeConfig, EstimatorConfig, Flags, TaskConfig};
use proptest::prelude::*;

/// Text that resembles a TF_CONFIG.
fn nearly_tf_config() -> impl Strategy<Value = String> {
    let words = r#"{ } [ ] : , " \ \u d800 null true NaN -Infinity 0 -1 1e400 "cluster": "task": "type": "index": "chief":
        "worker": "ps": "a:1" ["a:1"] {"0":"a:1"} "worker" "chief" "model_dir": "service": é"#;
    let words = words.split_whitespace().chain([" ", "\n", "\u{661}"]).collect::<Vec<_>>();
    let word = prop::sample::select(words);
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

/// A cluster and a task with arbitrary parts.
fn plausible() -> impl Strategy<Value = String> {
    let tasks =
        prop::sample::select(vec!["[]", "[\"a:1\"]", "[\"a:1\", \"b:1\"]", "{\"2\": \"a:1\"}", "{}", "\"a\"", "[5]"]);
    let job = prop::sample::select(vec!["chief", "master", "worker", "ps", "evaluator", "gpu"]);
    let index = prop::sample::select(vec!["0", "1", "2", "\"0\"", "-1", "null", "1.9", "1e300", "true", "[]"]);
    (prop::collection::vec((job.clone(), tasks), 0..4), job, index).prop_map(|(jobs, job, index)| {
        let jobs: Vec<String> = jobs.into_iter().map(|(job, tasks)| format!("\"{job}\": {tasks}")).collect();
        format!(r#"{{"cluster": {{{}}}, "task": {{"type": "{job}", "index": {index}}}}}"#, jobs.join(", "))
    })
}

fn read_all(text: &str) {
    let config = EstimatorConfig::read(Some(text), Some("/m"));
    let _report = config.map(|config| config.to_json().to_string()).map_err(|error| error.report());
    let config = DistributeConfig::read(Some(text));
    let _report = config.map(|config| config.to_json().to_string()).map_err(|error| error.report());
    if let Ok(config) = TaskConfig::from_tf_config(Some(text)) {
        // What a task relies on: a chief that listens, and an address of its own, unless it evaluates.
        let evaluates = config.task().is_some_and(|task| task.to_string() == "evaluator/0");
        assert!(config.is_local() == config.chief().is_none() || evaluates, "{text}");
        assert_eq!(config.warnings().iter().filter(|warning| warning.report().is_empty()).count(), 0);
        let known = config.task().is_none_or(|task| config.address_of(task).is_ok() || evaluates);
        assert!(known, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        read_all(&text);
    }

    #[test]
    fn text_like_a_tf_config_is_answered(text in nearly_tf_config()) {
        read_all(&text);
    }

    #[test]
    fn plausible_configs_are_answered(text in plausible()) {
        read_all(&text);
    }

    #[test]
    fn json_comes_back_as_it_was(text in any::<String>(), number in any::<i64>()) {
        let json = phalanx_cluster::Json::object([("service", phalanx_cluster::Json::object([
            ("text", phalanx_cluster::Json::text(&*text)), ("number", phalanx_cluster::Json::number(number)),
        ]))]);
        let read = EstimatorConfig::read(Some(&json.to_string()), None).unwrap().service;
        prop_assert_eq!(phalanx_cluster::Json::object([("service", read.unwrap())]), json);
    }

    #[test]
    fn any_flags_are_answered(ps: Option<String>, workers: Option<String>, job: Option<String>, index: Option<i64>) {
        let flags = Flags { ps_hosts: ps, worker_hosts: workers, job_name: job, task_index: index };
        let _answer = TaskConfig::from_flags(&flags).map_err(|error| error.report());
    }
}

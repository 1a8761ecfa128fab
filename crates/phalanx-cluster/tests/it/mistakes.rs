//! Every common mistake in a TF_CONFIG gets a code, a caret in the right place, and help.

use phalanx_base::Code;
use phalanx_cluster::{DistributeConfig, EstimatorConfig};

const JOBS: &str = r#""chief": ["c:1"], "ps": ["p:1"], "worker": ["w0:1", "w1:1"]"#;

fn with(cluster: &str, task: &str) -> String {
    format!(r#"{{"cluster": {{{cluster}}}, "task": {task}}}"#)
}

/// Checks that the text is refused with this code, that the caret marks exactly `marked`, and that the report contains
/// `said`.
fn refused(text: &str, code: Code, marked: &str, said: &str) {
    let error = EstimatorConfig::read(Some(text), None).expect_err(text);
    let report = error.report();
    assert_eq!(error.code(), code, "{report}");
    assert!(report.contains(said), "{report}");
    assert_eq!(under_the_caret(&report), marked, "{report}");
}

fn under_the_caret(report: &str) -> String {
    let lines: Vec<&str> = report.lines().collect();
    let caret = lines.iter().position(|line| line.contains('^')).expect(report);
    let from = lines[caret].chars().position(|c| c == '^').unwrap_or_default();
    let width = lines[caret].chars().filter(|&c| c == '^').count();
    lines[caret - 1].chars().skip(from).take(width).collect()
}

#[test]
fn texts_that_are_not_json_say_where_and_why() {
    refused("{\"cluster\": {\"chief\": [\"a:1\"],}}", Code::ConfigSyntax, "}", "no comma after the last item");
    refused("{'cluster': {}}", Code::ConfigSyntax, "'", "double quotes");
    refused("{cluster: {}}", Code::ConfigSyntax, "c", "keys need double quotes");
    refused(r#"{"task": None}"#, Code::ConfigSyntax, "N", "null");
    refused(r#"{"task": {"type": "worker}}"#, Code::ConfigSyntax, "\"", "no end");
    refused("", Code::ConfigSyntax, "", "unset TF_CONFIG");
    refused(&"[".repeat(100), Code::ConfigSyntax, "[", "nested more than 64 deep");
    let long = format!("{{\"service\": \"{}\"}}", "x".repeat(1 << 20));
    refused(&long, Code::ConfigSyntax, "{", "more than 1048576 bytes");
}

#[test]
fn values_of_the_wrong_type_are_marked() {
    refused("[1]", Code::ConfigType, "[1]", "a list, not an object");
    refused(r#"{"service": "s"}"#, Code::ConfigType, "\"s\"", "`service`");
    refused(r#"{"cluster": ["a:1"]}"#, Code::ConfigType, "[\"a:1\"]", "`cluster`");
    refused(&with(r#""chief": "a:1""#, "{}"), Code::ConfigType, "\"a:1\"", "into brackets");
    refused(&with(r#""chief": ["a:1"], "worker": ["w:1", 5]"#, "{}"), Code::ConfigType, "5", "cluster.worker[1]");
    refused(&with(JOBS, "[]"), Code::ConfigType, "[]", "`task`");
}

/// `RunConfig` refuses evaluators that run here; its error tells.
#[test]
fn an_evaluator_alone_is_refused_for_the_estimator_only() {
    let task = r#"{"type": "evaluator", "index": 0}"#;
    let accept = "Phalanx and tf.distribute accept this evaluator";
    refused(&with(r#""evaluator": ["e:1"]"#, task), Code::ConfigChief, r#"{"evaluator": ["e:1"]}"#, accept);
    let alone = format!(r#"{{"task": {task}}}"#);
    refused(&alone, Code::ConfigTaskType, "\"evaluator\"", accept);
    assert!(DistributeConfig::read(Some(&alone)).is_ok());
}

#[test]
fn a_cluster_has_one_chief() {
    refused(&with(r#""worker": ["a:1"]"#, "{}"), Code::ConfigChief, r#"{"worker": ["a:1"]}"#, "no chief");
    refused(&with(r#""cheif": ["a:1"]"#, "{}"), Code::ConfigChief, r#"{"cheif": ["a:1"]}"#, "you wrote \"cheif\"");
    refused(&with(r#""chief": ["a:1", "b:1"]"#, "{}"), Code::ConfigChief, "\"chief\"", "exactly one");
    refused(&with(r#""chief": {"1": "a:1"}"#, "{}"), Code::ConfigChief, "\"chief\"", "its index is not 0");
    refused(&with(r#""chief": ["a:1"], "master": ["b:1"]"#, "{}"), Code::ConfigChief, "\"master\"", "keep \"chief\"");
}

#[test]
fn the_task_must_be_somebody() {
    let task = |job: &str, index: &str| with(JOBS, &format!(r#"{{"type": {job}, "index": {index}}}"#));
    refused(&task("\"wroker\"", "0"), Code::ConfigTaskType, "\"wroker\"", "did you mean \"worker\"?");
    refused(&task("\"\"", "0"), Code::ConfigTaskType, "\"\"", "type is missing");
    refused(&task("5", "0"), Code::ConfigTaskType, "5", "a number, not a job's name");
    refused(&task("\"worker\"", "2"), Code::ConfigTaskIndex, "2", "indices start at 0");
    refused(&task("\"worker\"", "-1"), Code::ConfigTaskIndex, "-1", "negative");
    refused(&task("\"worker\"", "\"one\""), Code::ConfigTaskIndex, "\"one\"", "not a whole number");
    refused(&task("\"worker\"", "null"), Code::ConfigTaskIndex, "null", "index is missing");
    refused(r#"{"task": {"type": "chief"}}"#, Code::ConfigTaskType, "\"chief\"", "no cluster");
    refused(r#"{"task": {"index": 1}}"#, Code::ConfigTaskIndex, "1", "must be 0");
    let hole = with(r#""chief": ["c:1"], "worker": {"0": "a:1", "2": "b:1"}"#, r#"{"type": "worker", "index": 1}"#);
    refused(&hole, Code::ConfigTaskIndex, "1", "leaves this index out");
}

#[test]
fn model_dir_names_one_directory() {
    refused(r#"{"model_dir": ""}"#, Code::ConfigModelDir, "\"\"", "empty");
    let error = EstimatorConfig::read(Some(r#"{"model_dir": "/a"}"#), Some("/b")).unwrap_err();
    assert_eq!(error.code(), Code::ConfigModelDir);
    let config = EstimatorConfig::read(Some(r#"{"model_dir": "/a"}"#), Some("/a")).unwrap();
    assert_eq!(config.model_dir.unwrap().as_str(), Some("/a"));
}

#[test]
fn the_text_may_have_many_lines() {
    let text = "{\n  \"cluster\": {\"chief\": [\"c:1\"]},\n  \"task\": {\n    \"type\": \"boss\", \"index\": 0}\n}";
    let report = EstimatorConfig::read(Some(text), None).unwrap_err().report();
    assert!(report.contains("TF_CONFIG:4:13"), "{report}");
}

#[test]
fn tf_distribute_refuses_what_the_estimator_takes_and_the_other_way_round() {
    let legacy = with(r#""master": ["m:1"], "worker": ["w:1"]"#, r#"{"type": "worker", "index": 0}"#);
    assert!(EstimatorConfig::read(Some(&legacy), None).is_ok());
    let error = DistributeConfig::read(Some(&legacy)).unwrap_err();
    assert_eq!((error.code(), error.next()), (Code::ConfigJobName, Some("call it \"chief\"")));
    let headless = with(r#""worker": ["a:1", "b:1"]"#, r#"{"type": "worker", "index": 0}"#);
    assert!(EstimatorConfig::read(Some(&headless), None).is_err());
    assert!(DistributeConfig::read(Some(&headless)).unwrap().is_chief);
}

#[test]
fn what_tensorflow_takes_in_silence_is_a_warning() {
    let chief = r#"{"type": "chief", "index": 0}"#;
    for (text, code, said) in [
        (with(r#""chief": ["c:1"]"#, chief), Code::ConfigEvaluator, "never evaluates"),
        (with(&format!("{JOBS}, \"evaluator\": [\"e:1\"]"), chief), Code::ConfigEvaluator, "listed in the cluster"),
        (with(&format!("{JOBS}, \"worker2\": [\"e:1\"]"), chief), Code::ConfigJobName, "did you mean \"worker\"?"),
        (with(r#""chief": ["c:1"], "ps": ["c:1"]"#, chief), Code::ConfigAddress, "also cluster.chief[0]"),
        (with(r#""chief": ["c:1"], "ps": ["grpc://d:1"]"#, chief), Code::ConfigAddress, "no scheme"),
        (with(JOBS, r#"{"type": "chief", "index": 0, "id": 1}"#), Code::ConfigIgnored, "did you mean \"index\"?"),
        (r#"{"environment": "cloud"}"#.to_owned(), Code::ConfigIgnored, "only \"google\""),
        (r#"{"sevice": {}}"#.to_owned(), Code::ConfigIgnored, "did you mean \"service\"?"),
        (r#"{"task": {}, "task": {}}"#.to_owned(), Code::ConfigIgnored, "written twice"),
    ] {
        let warnings = EstimatorConfig::read(Some(&text), None).expect(&text).warnings;
        let reports: Vec<String> = warnings.iter().map(|warning| warning.report()).collect();
        let [warning] = &warnings[..] else { panic!("{text}: {reports:?}") };
        assert_eq!(warning.code(), code, "{text}");
        assert!(reports[0].starts_with("warning[") && reports[0].contains(said), "{}", reports[0]);
    }
    let sound = with(JOBS, r#"{"type": "worker", "index": 1}"#);
    assert!(EstimatorConfig::read(Some(&sound), None).unwrap().warnings.is_empty());
}

#[test]
fn warnings_have_an_end() {
    let keys: Vec<String> = (0..5000).map(|i| format!("\"key{i}\": 1")).collect();
    let text = format!("{{{}}}", keys.join(", "));
    assert_eq!(EstimatorConfig::read(Some(&text), None).unwrap().warnings.len(), 32);
}

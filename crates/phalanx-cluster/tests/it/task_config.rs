//! The configuration of a task, from TF_CONFIG and from flags.

use phalanx_base::{Address, Code, Role, TaskId};
use phalanx_cluster::{ClusterSpec, Flags, TaskConfig};

fn read(cluster: &str, job: &str, index: u32) -> phalanx_base::Result<TaskConfig> {
    let task = format!(r#"{{"type": "{job}", "index": {index}}}"#);
    TaskConfig::from_tf_config(Some(&format!(r#"{{"cluster": {cluster}, "task": {task}}}"#)))
}

fn names(tasks: &[(TaskId, Address)]) -> String {
    tasks.iter().map(|(task, address)| format!("{task}={address}")).collect::<Vec<_>>().join(" ")
}

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

const FULL: &str = r#"{"ps": ["p0:1", "p1:1"], "worker": ["w0:1"], "chief": ["c:1"], "evaluator": ["e:1"]}"#;

#[test]
fn without_a_cluster_one_process_does_everything() {
    for config in [TaskConfig::from_tf_config(None), TaskConfig::from_tf_config(Some("{}"))] {
        let config = config.unwrap();
        assert!(config.is_local() && config.is_chief() && config.tasks().is_empty());
        assert_eq!((config.task(), config.chief(), config.trainer_index()), (None, None, Some(0)));
        assert_eq!(config.job_id(), "local");
    }
    assert!(TaskConfig::from_flags(&Flags::default()).unwrap().is_local());
}

#[test]
fn every_task_finds_the_others() {
    let config = read(FULL, "worker", 0).unwrap();
    assert_eq!(config.task(), Some(TaskId::new(Role::Worker, 0)));
    assert_eq!(config.chief(), Some((TaskId::new(Role::Chief, 0), &address("c:1"))));
    assert_eq!(names(&config.ps_addresses()), "ps/0=p0:1 ps/1=p1:1");
    assert_eq!(names(&config.workers()), "worker/0=w0:1");
    assert_eq!(names(&config.trainers()), "chief/0=c:1 worker/0=w0:1");
    assert_eq!(names(&config.tasks()), "chief/0=c:1 worker/0=w0:1 ps/0=p0:1 ps/1=p1:1");
    assert_eq!(config.address_of(TaskId::new(Role::Ps, 1)).unwrap(), &address("p1:1"));
    assert_eq!(config.address_of(TaskId::new(Role::Ps, 2)).unwrap_err().code(), Code::NoSuchTask);
    assert_eq!((config.is_chief(), config.trainer_index()), (false, Some(1)));
    assert_eq!(read(FULL, "ps", 0).unwrap().trainer_index(), None);
}

#[test]
fn all_tasks_agree_on_the_job_and_other_jobs_differ() {
    let id = read(FULL, "worker", 0).unwrap().job_id();
    assert!(id.starts_with("c:1/") && id.len() == 12, "{id}");
    for (job, index) in [("chief", 0), ("ps", 0), ("ps", 1), ("evaluator", 0)] {
        assert_eq!(read(FULL, job, index).unwrap().job_id(), id);
    }
    let other = r#"{"ps": ["p1:1", "p0:1"], "chief": ["c:1"]}"#;
    assert_ne!(read(other, "chief", 0).unwrap().job_id(), id);
}

#[test]
fn the_chief_is_chief_or_master_or_worker_0() {
    let legacy = read(r#"{"master": ["m:1"], "worker": ["w:1"]}"#, "master", 0).unwrap();
    assert_eq!(legacy.chief(), Some((TaskId::new(Role::Chief, 0), &address("m:1"))));
    assert_eq!(legacy.address_of(TaskId::new(Role::Chief, 0)).unwrap(), &address("m:1"));
    assert!(legacy.is_chief());

    let headless = r#"{"worker": ["a:1", "b:1"], "ps": ["p:1"]}"#;
    let first = read(headless, "worker", 0).unwrap();
    assert_eq!(first.chief(), Some((TaskId::new(Role::Worker, 0), &address("a:1"))));
    assert!(first.is_chief());
    assert_eq!(names(&first.trainers()), "worker/0=a:1 worker/1=b:1");
    let second = read(headless, "worker", 1).unwrap();
    assert_eq!((second.is_chief(), second.trainer_index()), (false, Some(1)));
    assert_eq!(read(r#"{"ps": ["p:1"]}"#, "ps", 0).unwrap_err().code(), Code::ConfigChief);
    assert_eq!(read(r#"{"worker": {"1": "p:1"}}"#, "worker", 1).unwrap_err().code(), Code::ConfigChief);
}

#[test]
fn an_evaluator_knows_the_job_and_is_nobodys_peer() {
    let config = read(FULL, "evaluator", 0).unwrap();
    assert_eq!(config.task(), Some(TaskId::new(Role::Evaluator, 0)));
    assert!(!config.is_chief() && !config.is_local());
    assert_eq!(read(FULL, "evaluator", 1).unwrap_err().code(), Code::ConfigEvaluator);
}

/// The two texts of TensorFlow's guide to parameter servers: the cluster of its evaluator is the evaluator, or nothing.
#[test]
fn an_evaluator_need_not_know_the_cluster() {
    let task = r#""task": {"type": "evaluator", "index": 0}"#;
    let texts = [
        format!(r#"{{"cluster": {{"evaluator": ["host7:1"]}}, {task}}}"#),
        format!(r#"{{{task}, "model_dir": "/m"}}"#),
        format!(r#"{{"cluster": {{}}, {task}}}"#),
        r#"{"task": {"type": "evaluator"}}"#.to_owned(),
    ];
    for text in texts {
        let config = TaskConfig::from_tf_config(Some(&text)).expect(&text);
        assert_eq!(config.task(), Some(TaskId::new(Role::Evaluator, 0)), "{text}");
        assert!(!config.is_local() && !config.is_chief() && config.trainer_index().is_none());
        assert!(config.tasks().is_empty() && config.chief().is_none() && config.warnings().is_empty());
    }
    let spec = ClusterSpec::new().job("evaluator", ["e:1"]);
    assert!(TaskConfig::from_cluster(spec.clone(), TaskId::new(Role::Evaluator, 0)).is_ok());
    assert!(TaskConfig::from_cluster(ClusterSpec::new(), TaskId::new(Role::Evaluator, 0)).is_ok());
    // Others need their cluster, and there is one evaluator.
    assert_eq!(TaskConfig::from_cluster(spec, TaskId::new(Role::Worker, 0)).unwrap_err().code(), Code::ConfigChief);
    let refused = [
        (r#"{"cluster": {"evaluator": ["e:1"]}, "task": {"type": "chief", "index": 0}}"#, Code::ConfigChief),
        (r#"{"cluster": {"ps": ["p:1"]}, "task": {"type": "evaluator", "index": 0}}"#, Code::ConfigChief),
        (r#"{"cluster": {"evaluator": ["e:1"]}, "task": {"type": "evaluator", "index": 1}}"#, Code::ConfigEvaluator),
        (r#"{"task": {"type": "evaluator", "index": 1}}"#, Code::ConfigEvaluator),
        (r#"{"task": {"type": "evaluator", "index": -1}}"#, Code::ConfigEvaluator),
        (r#"{"task": {"type": "chief", "index": 0}}"#, Code::ConfigTaskType),
    ];
    for (text, code) in refused {
        assert_eq!(TaskConfig::from_tf_config(Some(text)).expect_err(text).code(), code, "{text}");
    }
}

/// The text of a training platform has `environment`, which a running task need not hear about; any other value is a mistake.
#[test]
fn the_environment_of_platforms_is_expected() {
    let text = |environment: &str| {
        format!(
            r#"{{"cluster": {{"master": ["m:1"], "worker": ["w:1"]}}, "task": {{"type": "worker", "index": 0}},
                "environment": "{environment}"}}"#
        )
    };
    let warnings = |environment| TaskConfig::from_tf_config(Some(&text(environment))).unwrap().warnings().len();
    assert_eq!((warnings("cloud"), warnings("google"), warnings("clowd")), (0, 1, 1));
}

#[test]
fn tasks_that_could_not_run_are_refused_at_once() {
    let odd = r#"{"chief": ["c:1"], "gpu": ["g:1"]}"#;
    assert_eq!(read(odd, "gpu", 0).unwrap_err().code(), Code::ConfigTaskType);
    let hole = r#"{"session_master": "x", "cluster": {"chief": ["c:1"], "worker": {"1": "w:1"}},
                   "task": {"type": "worker", "index": 0}}"#;
    assert_eq!(TaskConfig::from_tf_config(Some(hole)).unwrap_err().code(), Code::ConfigTaskIndex);
    let spec = ClusterSpec::new().job("chief", ["c:1"]);
    let error = TaskConfig::from_cluster(spec.clone(), TaskId::new(Role::Ps, 0)).unwrap_err();
    assert_eq!(error.code(), Code::NoSuchTask);
    assert!(TaskConfig::from_cluster(spec, TaskId::new(Role::Evaluator, 0)).is_ok());
    let two = ClusterSpec::new().job("chief", ["c:1", "d:1"]);
    assert_eq!(TaskConfig::from_cluster(two, TaskId::new(Role::Chief, 0)).unwrap_err().code(), Code::ConfigChief);
}

fn flags(ps: &str, workers: &str, job: &str, index: i64) -> phalanx_base::Result<TaskConfig> {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let task_index = (index != i64::MAX).then_some(index);
    let flags = Flags { ps_hosts: some(ps), worker_hosts: some(workers), job_name: some(job), task_index };
    TaskConfig::from_flags(&flags)
}

#[test]
fn flags_make_the_first_worker_the_chief() {
    let task = |job, index| flags("p0:1,p1:1", "w0:1, w1:1,w2:1", job, index).unwrap();
    assert_eq!(names(&task("ps", 1).tasks()), "chief/0=w0:1 worker/0=w1:1 worker/1=w2:1 ps/0=p0:1 ps/1=p1:1");
    assert_eq!(task("worker", 0).task(), Some(TaskId::new(Role::Chief, 0)));
    assert_eq!(task("worker", 2).task(), Some(TaskId::new(Role::Worker, 1)));
    assert_eq!(task("ps", 1).task(), Some(TaskId::new(Role::Ps, 1)));
    assert_eq!(task("evaluator", i64::MAX).task(), Some(TaskId::new(Role::Evaluator, 0)));
    assert_eq!(task("worker", 2).trainer_index(), Some(2));
    let same = read(r#"{"chief": ["w0:1"], "worker": ["w1:1", "w2:1"], "ps": ["p0:1", "p1:1"]}"#, "ps", 0).unwrap();
    assert_eq!(task("ps", 0).cluster(), same.cluster());
    assert_eq!(task("ps", 0).job_id(), same.job_id());
}

#[test]
fn flags_that_make_no_sense_say_why() {
    for (ps, workers, job, index, said) in [
        ("p:1", "w:1", "", 0, "--job_name is missing"),
        ("p:1", "", "worker", 0, "--worker_hosts is missing"),
        ("", "w:1", "ps", 0, "--ps_hosts"),
        ("p:1", "w:1", "wroker", 0, "did you mean \"worker\"?"),
        ("p:1", "w:1", "chief", 0, "--job_name=worker --task_index=0"),
        ("p:1", "w:1,x:1", "worker", i64::MAX, "--task_index is missing"),
        ("p:1", "w:1,x:1", "worker", 2, "0 to 1"),
        ("p:1", "w:1", "ps", -1, "only 0"),
        ("p:1", "w:1,,x:1", "worker", 0, "an address is missing here"),
    ] {
        let error = flags(ps, workers, job, index).unwrap_err();
        assert_eq!(error.code(), Code::Flags);
        assert!(error.report().contains(said), "{}", error.report());
    }
}

/// Splits a line at its spaces and takes the flags out of it.
fn take(line: &str) -> phalanx_base::Result<(Flags, Vec<std::ffi::OsString>)> {
    Flags::take_from(line.split(' '))
}

#[test]
fn flags_are_taken_out_of_a_command_line_and_the_rest_stays() {
    let whole = Flags {
        ps_hosts: Some("p:1,q:1".into()),
        worker_hosts: Some("w:1".into()),
        job_name: Some("ps".into()),
        task_index: Some(1),
    };
    for line in [
        "train --ps_hosts=p:1,q:1 --worker_hosts=w:1 --job_name=ps --task_index=1",
        "train --ps_hosts p:1,q:1 --worker_hosts w:1 --job_name ps --task_index 1",
        "train --task-index=1 --job-name ps --worker-hosts w:1 --ps-hosts=p:1,q:1",
    ] {
        let (flags, rest) = take(line).unwrap();
        assert_eq!((flags, rest), (whole.clone(), vec!["train".into()]), "{line}");
    }
    let (flags, rest) = take("train -v --job_names=ps in.csv --job_name= -- --task_index=7").unwrap();
    assert_eq!(flags, Flags { job_name: Some(String::new()), ..Flags::default() });
    assert_eq!(rest, ["train", "-v", "--job_names=ps", "in.csv", "--", "--task_index=7"]);
    assert_eq!(take("--job_name=ps").unwrap().0, Flags::default(), "the first argument is the program");
    assert!(Flags::take_from([""; 0]).unwrap().1.is_empty());
}

#[test]
fn a_command_line_that_makes_no_sense_says_where() {
    for (line, said) in [
        ("train --task_index=first", "^^^^^ not a whole number"),
        ("train --task_index", "--task_index has no value"),
        ("train --ps_hosts --job_name=ps", "write --ps_hosts=host:port,host:port"),
        ("train --job_name=ps --job-name worker", "first as \"ps\", then as \"worker\""),
    ] {
        let error = take(line).unwrap_err();
        assert_eq!(error.code(), Code::Flags);
        assert!(error.report().contains(said), "{}", error.report());
    }
    let (flags, _) = take("train --worker_hosts=w:1 --job_name=worker --task_index -1").unwrap();
    assert!(TaskConfig::from_flags(&flags).unwrap_err().report().contains("job worker has no task -1"));
}

#[test]
fn flags_win_over_tf_config_and_say_so() {
    let (flags, _) = take("train --worker_hosts=w:1,x:1 --ps_hosts=p:1 --job_name=worker --task_index=1").unwrap();
    let config = TaskConfig::from_flags_or_tf_config(&flags, Some("not even JSON")).unwrap();
    assert_eq!(config.task(), Some(TaskId::new(Role::Worker, 0)));
    assert!(config.warnings()[0].report().contains("the flags of the command line make this process worker/0"));
    assert!(TaskConfig::from_flags_or_tf_config(&flags, None).unwrap().warnings().is_empty());
    assert!(TaskConfig::from_flags_or_tf_config(&Flags::default(), Some("not even JSON")).is_err());
    assert!(TaskConfig::from_flags_or_tf_config(&Flags::default(), None).unwrap().is_local());
}

#[test]
fn a_cluster_of_one_trainer_is_a_local_job() {
    let text = |cluster: &str| {
        format!(r#"{{"cluster": {cluster}, "task": {{"type": "worker", "index": 0}}, "model_dir": "m"}}"#)
    };
    let config = |cluster: &str| TaskConfig::from_tf_config(Some(&text(cluster))).unwrap().or_local_if_alone();
    let alone = config(r#"{"worker": ["w:1"]}"#);
    assert_eq!((alone.is_local(), alone.model_dir()), (true, Some("m")));
    assert!(!config(r#"{"worker": ["w:1"], "ps": ["p:1"]}"#).is_local());
    assert!(!config(r#"{"worker": ["w:1", "x:1"]}"#).is_local());
}

#[test]
fn an_address_that_nobody_can_dial_is_refused_where_it_stands() {
    let text = r#"{"cluster": {"chief": ["c:1"], "worker": ["w:1", "w"]}, "task": {"type": "chief", "index": 0}}"#;
    let error = TaskConfig::from_tf_config(Some(text)).unwrap_err();
    assert_eq!((error.code(), error.place()), (Code::ConfigAddress, Some("cluster.worker[1]")));
    let report = error.report();
    assert!(report.contains("\"w\" is not an address") && report.contains("^^^ the port is missing"), "{report}");
    let why = error.why().unwrap().to_owned();

    let flags = Flags { worker_hosts: Some("c:1, w".into()), job_name: Some("worker".into()), ..Flags::default() };
    let error = TaskConfig::from_flags(&Flags { task_index: Some(0), ..flags }).unwrap_err();
    assert_eq!((error.code(), error.why()), (Code::ConfigAddress, Some(why.as_str())), "{error}");
    assert!(error.report().contains("--worker_hosts"), "{}", error.report());

    let cluster = ClusterSpec::new().job("chief", ["c:1"]).job("ps", ["p"]);
    let error = TaskConfig::from_cluster(cluster, TaskId::new(Role::Chief, 0)).unwrap_err();
    assert_eq!((error.code(), error.place()), (Code::ConfigAddress, Some("ps/0")));
    assert_eq!(error.why(), Some(why.as_str()));

    // These are never dialled.
    let text =
        r#"{"cluster": {"chief": ["c:1"], "evaluator": ["e"], "other": [""]}, "task": {"type": "chief", "index": 0}}"#;
    let config = TaskConfig::from_tf_config(Some(text)).unwrap();
    let reports: Vec<String> = config.warnings().iter().map(|warning| warning.report()).collect();
    assert!(reports.iter().any(|report| report.contains("\"e\" is not an address")), "{reports:?}");
}

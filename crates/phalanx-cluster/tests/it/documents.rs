//! The flags and `TF_CONFIG` texts of TensorFlow's own documents, as they stand there; `port` in an address is a number here.

use phalanx_cluster::{Flags, TaskConfig};

/// The cluster of the guides to `train_and_evaluate`.
const ESTIMATOR: &str = r#"{
    "cluster": {
        "chief": ["host0:2222"],
        "worker": ["host1:2222", "host2:2222", "host3:2222"],
        "ps": ["host4:2222", "host5:2222"]
    },
    "task": {"type": "TYPE", "index": INDEX}
}"#;

/// A worker of TensorFlow 2's guide to parameter servers.
const COORDINATED: &str = r#"{
    "cluster": {
        "worker": ["host1:2222", "host2:2222", "host3:2222"],
        "ps": ["host4:2222", "host5:2222"],
        "chief": ["host6:2222"]
    },
   "task": {"type": "TYPE", "index": INDEX}
}"#;

/// A training platform with four nodes, each of which has a parameter server and a trainer.
const PLATFORM: &str = r#"{
    "cluster": {
        "master": ["ip0:2223"],
        "ps": ["ip0:2222", "ip1:2222", "ip2:2222", "ip3:2222"],
        "worker": ["ip1:2223", "ip2:2223", "ip3:2223"]
    },
    "task": {"type": "TYPE", "index": INDEX},
    "environment": "cloud"
}"#;

fn read(text: &str, job: &str, index: usize) -> TaskConfig {
    let text = text.replace("TYPE", job).replace("INDEX", &index.to_string());
    TaskConfig::from_tf_config(Some(&text)).unwrap_or_else(|error| panic!("{text}\n{}", error.report()))
}

fn task(config: &TaskConfig) -> String {
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    config.task().unwrap().to_string()
}

#[test]
fn every_text_starts_its_task() {
    let all = [("chief", 1), ("worker", 3), ("ps", 2), ("evaluator", 1)];
    for text in [ESTIMATOR, COORDINATED] {
        for (job, count) in all {
            for index in 0..count {
                let config = read(text, job, index);
                assert_eq!(task(&config), format!("{job}/{index}"));
                assert_eq!(
                    (config.is_chief(), config.trainers().len(), config.ps_addresses().len()),
                    (job == "chief", 4, 2)
                );
            }
        }
    }
    for (job, count, named) in [("master", 1, "chief"), ("worker", 3, "worker"), ("ps", 4, "ps")] {
        for index in 0..count {
            let config = read(PLATFORM, job, index);
            assert_eq!(task(&config), format!("{named}/{index}"));
            assert_eq!((config.trainers().len(), config.ps_addresses().len()), (4, 4));
        }
    }
}

#[test]
fn an_evaluator_may_be_all_that_its_text_knows() {
    for text in [
        r#"{"cluster": {"evaluator": ["host7:2222"]}, "task": {"type": "evaluator", "index": 0}}"#,
        r#"{"task": {"type": "evaluator", "index": 0}}"#,
    ] {
        let config = TaskConfig::from_tf_config(Some(text)).unwrap();
        assert_eq!((task(&config), config.tasks().len()), ("evaluator/0".to_owned(), 0));
    }
}

#[test]
fn the_four_terminals_are_four_tasks() {
    let hosts = "--ps_hosts=localhost:2221,localhost:2222 --worker_hosts=localhost:2223,localhost:2224";
    for (flags, wanted) in [
        ("--job_name=ps --task_index=0", "ps/0"),
        ("--job_name=ps --task_index=1", "ps/1"),
        ("--job_name=worker --task_index=0", "chief/0"),
        ("--job_name=worker --task_index=1", "worker/0"),
    ] {
        let (flags, rest) = Flags::take_from(format!("mnist_dist.py {hosts} {flags}").split(' ')).unwrap();
        let config = TaskConfig::from_flags(&flags).unwrap();
        assert_eq!((task(&config), rest.len()), (wanted.to_owned(), 1));
        assert_eq!((config.trainers().len(), config.ps_addresses().len()), (2, 2));
    }
}

/// A document shows how to make a `TF_CONFIG` of the flags: the first worker becomes the chief, and the others count from 0.
#[test]
fn flags_and_the_tf_config_that_is_made_of_them_are_the_same_task() {
    for (job, index, made, made_index) in
        [("ps", 1, "ps", 1), ("worker", 0, "chief", 0), ("worker", 1, "worker", 0), ("worker", 3, "worker", 2)]
    {
        let hosts = "--ps_hosts=host4:2222,host5:2222 --worker_hosts=host0:2222,host1:2222,host2:2222,host3:2222";
        let line = format!("train {hosts} --job_name={job} --task_index={index}");
        let by_flags = TaskConfig::from_flags(&Flags::take_from(line.split(' ')).unwrap().0).unwrap();
        let by_text = read(ESTIMATOR, made, made_index);
        assert_eq!(
            (by_flags.task(), by_flags.tasks(), by_flags.job_id()),
            (by_text.task(), by_text.tasks(), by_text.job_id())
        );
    }
}

//! The commands and `TF_CONFIG` texts of TensorFlow's own documents as real processes: each starts the task that it names, and all of
//! them are one job that trains and ends by itself. Only the addresses are those of free ports.

use phalanx_tests::job::LONG;
use phalanx_tests::ports;
use phalanx_tests::process::Task;
use std::path::Path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_phalanx_estimator_task");

/// A text of a document, and the task that it starts.
type Started<'a> = (String, &'a str);

/// Starts a process for each text, a command line of flags or a `TF_CONFIG`, with the `addresses` in it replaced; waits for the end of
/// each, and returns what they printed.
fn run(addresses: &[&str], tasks: &[Started<'_>]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let ports: Vec<String> = addresses.iter().map(|_| format!("127.0.0.1:{}", ports::free())).collect();
    let here = |text: &str| {
        addresses.iter().zip(&ports).fold(text.to_owned(), |text, (address, port)| text.replace(address, port))
    };
    let start = |(text, name): &Started<'_>| {
        let mut arguments = vec![format!("--model-dir={}", folder.path().display()), "--max-steps=200".to_owned()];
        // Variables that the programs of the documents set; they change nothing here.
        let mut environment =
            vec![("GRPC_FAIL_FAST", "use_caller".to_owned()), ("CUDA_VISIBLE_DEVICES", "0,1".to_owned())];
        if text.starts_with('{') {
            environment.push(("TF_CONFIG", here(text)));
        } else {
            arguments.extend(here(text).split(' ').map(str::to_owned));
        }
        Task::start(name, Path::new(PROGRAM), &arguments, &environment)
    };
    let mut running: Vec<Task> = tasks.iter().map(start).collect();
    let texts: Vec<String> = running.iter_mut().map(|task| task.expect(0, LONG).text).collect();
    for (text, (_, name)) in texts.iter().zip(tasks) {
        assert!(text.contains(&format!("this is {name}\n")), "not {name}:\n{text}");
    }
    let chief = texts.iter().find(|text| text.contains("this is chief/0\n")).expect("a chief");
    assert!(chief.contains("chief/0 is done: 20"), "{chief}");
    texts
}

#[test]
fn the_four_terminals_are_one_job() {
    let hosts = "--ps_hosts=localhost:2221,localhost:2222 --worker_hosts=localhost:2223,localhost:2224";
    let tasks = [
        (format!("{hosts} --job_name=ps --task_index=0"), "ps/0"),
        (format!("{hosts} --job_name=ps --task_index=1"), "ps/1"),
        (format!("{hosts} --job_name=worker --task_index=0"), "chief/0"),
        (format!("{hosts} --job_name=worker --task_index=1"), "worker/0"),
    ];
    run(&["localhost:2221", "localhost:2222", "localhost:2223", "localhost:2224"], &tasks);
}

/// Three workers, two parameter servers, a chief, and an evaluator whose text names the cluster, itself only, or no cluster.
#[test]
fn every_evaluator_evaluates_the_job_of_the_guides() {
    let cluster = r#"{"chief": ["host0:2222"], "worker": ["host1:2222", "host2:2222", "host3:2222"], "ps": ["host4:2222", "host5:2222"]}"#;
    let text =
        |job: &str, index: usize| format!(r#"{{"cluster": {cluster}, "task": {{"type": "{job}", "index": {index}}}}}"#);
    for evaluator in [
        text("evaluator", 0),
        r#"{"cluster": {"evaluator": ["host7:2222"]}, "task": {"type": "evaluator", "index": 0}}"#.to_owned(),
        r#"{"task": {"type": "evaluator", "index": 0}}"#.to_owned(),
    ] {
        let tasks = [
            (evaluator, "evaluator/0"),
            (text("ps", 0), "ps/0"),
            (text("ps", 1), "ps/1"),
            (text("worker", 0), "worker/0"),
            (text("worker", 1), "worker/1"),
            (text("worker", 2), "worker/2"),
            (text("chief", 0), "chief/0"),
        ];
        let addresses: Vec<String> = (0..8).map(|host| format!("host{host}:2222")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let texts = run(&addresses, &tasks);
        assert!(texts[0].contains("evaluator/0 is done; average_loss = 0."), "{}", texts[0]);
    }
}

/// A training platform starts a parameter server and a trainer on each of four nodes; the trainer of the first is the master, which
/// also evaluates.
#[test]
fn a_platform_with_four_nodes_is_one_job_of_eight_tasks() {
    let cluster = r#"{"master": ["ip0:port-worker"],
        "ps": ["ip0:port-ps", "ip1:port-ps", "ip2:port-ps", "ip3:port-ps"],
        "worker": ["ip1:port-worker", "ip2:port-worker", "ip3:port-worker"]}"#;
    let text = |job: &str, index: usize| {
        let task = format!(r#"{{"type": "{job}", "index": {index}}}"#);
        format!(r#"{{"cluster": {cluster}, "task": {task}, "environment": "cloud"}}"#)
    };
    let ps = (0..4).map(|index| (text("ps", index), ["ps/0", "ps/1", "ps/2", "ps/3"][index]));
    let workers = (0..3).map(|index| (text("worker", index), ["worker/0", "worker/1", "worker/2"][index]));
    let tasks: Vec<Started<'_>> = ps.chain(workers).chain([(text("master", 0), "chief/0")]).collect();
    let addresses: Vec<String> =
        (0..4).flat_map(|node| [format!("ip{node}:port-worker"), format!("ip{node}:port-ps")]).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let texts = run(&addresses, &tasks);
    let master = texts.last().expect("the master");
    assert!(master.contains("average_loss = 0."), "the master evaluates: {master}");
}

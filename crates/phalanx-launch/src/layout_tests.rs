use super::*;

fn plan(nodes: &[&str]) -> NodePlan {
    let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
    NodePlan { nodes, worker_port: 2223, ps_port: 2222, ..NodePlan::default() }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

fn tasks(placed: &[Placed]) -> Vec<String> {
    placed.iter().map(|placed| placed.task.to_string()).collect()
}

/// Reads every task's `TF_CONFIG` back.
fn each_task_is_itself(layout: &Layout) {
    for placed in layout.tasks() {
        let config = TaskConfig::from_tf_config(Some(&layout.tf_config(placed))).unwrap();
        assert_eq!(config.task(), Some(placed.task));
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    }
}

#[test]
fn a_local_job_lists_every_task_once_and_the_evaluator_outside_the_cluster() {
    let shape = JobShape { ps: 2, workers: 1, evaluator: true, chief: "chief" };
    let layout = Layout::local(&shape).unwrap();
    assert_eq!(tasks(layout.tasks()), ["chief/0", "worker/0", "ps/0", "ps/1", "evaluator/0"]);
    assert_eq!(layout.cluster().jobs(), ["chief", "worker", "ps"]);
    assert_eq!(layout.in_words(), "chief, 1 worker, 2 ps, evaluator");
    each_task_is_itself(&layout);
    assert!(!layout.tf_config(&layout.tasks()[0]).contains("environment"));
}

#[test]
fn nodes_have_a_server_and_a_trainer_each() {
    let layout = Layout::nodes(&plan(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"])).unwrap();
    assert_eq!(layout.tasks().len(), 8);
    assert_eq!(tasks(&layout.on_node(1).unwrap()), ["worker/0", "ps/1"]);
    assert_eq!(layout.cluster().task_address("ps", 3).unwrap(), "10.0.0.4:2222");
    assert_eq!(layout.on_node(4).unwrap_err().code(), Code::Flags);
    each_task_is_itself(&layout);
    assert!(layout.tf_config(&layout.tasks()[0]).ends_with(r#""environment": "cloud"}"#));
}

#[test]
fn an_evaluator_beside_nodes_can_start() {
    let layout = Layout::nodes(&NodePlan { evaluator: true, ..plan(&["10.0.0.1", "10.0.0.2"]) }).unwrap();
    assert_eq!(tasks(&layout.on_node(0).unwrap()), ["chief/0", "ps/0", "evaluator/0"]);
    assert_eq!(layout.cluster().jobs(), ["chief", "worker", "ps"]);
    each_task_is_itself(&layout);
}

#[test]
fn roles_go_to_the_nodes_that_were_named() {
    let roles =
        NodePlan { workers_on: names(&["c", "a"]), ps_on: names(&["b"]), evaluator: true, ..plan(&["a", "b", "c"]) };
    let layout = Layout::nodes(&roles).unwrap();
    assert_eq!(tasks(&layout.on_node(0).unwrap()), ["worker/0"]);
    assert_eq!(tasks(&layout.on_node(1).unwrap()), ["ps/0"]);
    assert_eq!(tasks(&layout.on_node(2).unwrap()), ["chief/0", "evaluator/0"]);
    assert_eq!(layout.cluster().task_address("chief", 0).unwrap(), "c:2223");
    each_task_is_itself(&layout);

    let unknown = NodePlan { ps_on: names(&["x"]), ..plan(&["a", "b"]) };
    assert!(Layout::nodes(&unknown).unwrap_err().report().contains("--ps-on names \"x\""));
    let twice = NodePlan { workers_on: names(&["a", "a"]), ..plan(&["a", "b"]) };
    assert!(Layout::nodes(&twice).unwrap_err().report().contains("twice"));
    let idle = NodePlan { workers_on: names(&["a"]), ps_on: names(&["a"]), ..plan(&["a", "b"]) };
    assert!(Layout::nodes(&idle).unwrap_err().report().contains("node b has no task"));
}

#[test]
fn the_classic_flags_make_the_first_worker_the_chief() {
    let layout = Layout::hosts("p0:1,p1:1", "w0:1,w1:1,w2:1", true).unwrap();
    assert_eq!(tasks(layout.tasks()), ["chief/0", "worker/0", "worker/1", "ps/0", "ps/1", "evaluator/0"]);
    assert_eq!(layout.cluster().task_address("chief", 0).unwrap(), "w0:1");
    each_task_is_itself(&layout);
    assert_eq!(Layout::hosts("p0:1", "", false).unwrap_err().code(), Code::Flags);
    assert_eq!(Layout::hosts("p0", "w:1", false).unwrap_err().code(), Code::ConfigAddress);
}

#[test]
fn the_run_directory_reaches_every_task() {
    let layout = Layout::local(&JobShape { ps: 1, workers: 1, evaluator: true, chief: "chief" }).unwrap();
    let layout = layout.model_dir(Some("runs/a".to_owned()));
    for placed in layout.tasks() {
        let config = TaskConfig::from_tf_config(Some(&layout.tf_config(placed))).unwrap();
        assert_eq!(config.model_dir(), Some("runs/a"));
    }
}

#[test]
fn mistakes_are_reported() {
    assert!(Layout::nodes(&plan(&["a", "a"])).unwrap_err().to_string().contains("twice"));
    let same = NodePlan { worker_port: 2, ps_port: 2, ..plan(&["a"]) };
    assert!(Layout::nodes(&same).unwrap_err().to_string().contains("port 2"));
    assert_eq!(Layout::nodes(&plan(&[])).unwrap_err().code(), Code::Flags);
    let layout = Layout::nodes(&plan(&["::1"])).unwrap();
    assert_eq!(layout.cluster().task_address("master", 0).unwrap(), "[::1]:2223");
}

//! What the launcher tells its tasks: their cluster, their run directory.

use crate::support::{Job, text};

#[test]
fn the_model_dir_reaches_the_program_through_tf_config() {
    let job = Job::new();
    let script = r#"echo "$TF_CONFIG"; echo "out $PHALANX_OUTPUT_DIR""#;
    let output = job.run(&["--ps", "1", "--workers", "0", "--model-dir", "runs/given"], script);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(out.matches(r#""model_dir": "runs/given""#).count(), 2, "{out}");
    let absolute = std::env::current_dir().unwrap().join("runs/given");
    assert_eq!(out.matches(&format!("out {}", absolute.display())).count(), 2, "{out}");
}

/// Without `--model-dir` the program may choose: `TF_CONFIG` names no directory, with which its own would have to agree.
#[test]
fn the_run_directory_is_offered_to_programs_that_choose_none() {
    let job = Job::new();
    let output = job.run(&["--ps", "0", "--workers", "0"], r#"echo "$TF_CONFIG"; echo "out $PHALANX_OUTPUT_DIR""#);
    let out = text(&output.stdout);
    assert!(!out.contains("model_dir"), "{out}");
    assert!(out.contains(&format!("out {}", job.dir.path().display())), "{out}");
}

#[test]
fn an_evaluator_beside_nodes_is_no_masters_evaluator() {
    let job = Job::new();
    let flags = ["--nodes", "127.0.0.1", "--worker-port", "2223", "--ps-port", "2222", "--node", "0", "--evaluator"];
    let script = r#"echo "I am $role/$index of $TF_CONFIG"; echo "out $PHALANX_OUTPUT_DIR.""#;
    let output = job.run(&flags, script);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for task in ["chief/0", "ps/0", "evaluator/0"] {
        assert!(out.contains(&format!("I am {task}")), "{out}");
    }
    assert!(!out.contains("master"), "{out}");
    assert_eq!(out.matches("out .").count(), 3, "nodes have no directory in common: {out}");
}

//! Jobs of small shell programs.

use crate::support::{Job, text};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn the_success_of_the_chief_ends_servers_that_never_exit() {
    let job = Job::new();
    let script = r#"echo "I am $role/$index"; [ "$role" = ps ] && sleep 600; [ "$role" = chief ] && sleep 2; exit 0"#;
    let output = job.run(&["--ps", "2", "--workers", "1", "--evaluator", "--ps-grace", "0.2"], script);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    for task in ["chief/0", "worker/0", "ps/0", "ps/1", "evaluator/0"] {
        assert!(out.contains(&format!("{task:<11} | I am {task}")), "{out}");
    }
    assert!(err.contains("Stopping ps/0") && err.contains("nothing left running"), "{err}");
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "no colours without a terminal");
    job.none_left_within(LIMIT);
    let log = std::fs::read_to_string(job.dir.path().join("logs/worker-0.log")).unwrap();
    assert!(log.ends_with("Z I am worker/0\n"), "{log}");
    let job_file = std::fs::read_to_string(job.dir.path().join("logs/job.json")).unwrap();
    assert!(!job_file.contains("TOKEN"), "{job_file}");
}

#[test]
fn the_first_failure_is_the_headline_with_its_last_lines() {
    let job = Job::new();
    let script = r#"if [ $role$index = worker1 ]; then echo "labels contain NaN" >&2; exit 1; fi; sleep 600"#;
    let output = job.run(&["--ps", "1", "--workers", "2"], script);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let report = err.split_once("job FAILED").expect("a headline").1;
    assert!(report.contains("root cause    worker/1: exit code 1\n    labels contain NaN\n"), "{err}");
    assert!(report.contains("also stopped  chief/0 (signal 15 (terminated)), worker/0"), "{err}");
    job.none_left_within(LIMIT);
}

#[test]
fn a_killed_worker_comes_back_and_the_job_continues() {
    let job = Job::new();
    let script = r#"if [ $role$index = worker0 ]; then [ $PHALANX_ATTEMPT = 1 ] && kill -9 $$; echo back; exit 0; fi
        [ $role = chief ] && sleep 2; exit 0"#;
    let output = job.run(&["--ps", "0"], script);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(out.contains("worker/0 | back"), "{out}");
    assert!(err.contains("worker/0 ended: signal 9 (killed)") && err.contains("Restarting worker/0"), "{err}");
}

#[test]
fn restarts_are_limited_and_a_missing_program_is_not_restarted() {
    let job = Job::new();
    let script = r#"[ $role = worker ] && exit 138; sleep 600"#;
    let output = job.run(&["--ps", "0", "--max-restarts", "1"], script);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(138), "{err}");
    assert!(err.contains("root cause    worker/0, attempt 2: exit code 138"), "{err}");

    let mut command = job.command(&["--ps", "0", "--workers", "0"], "");
    let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let at = words.iter().position(|word| word == "--").expect("a program");
    let output = std::process::Command::new(command.get_program()).args(&words[..=at]).arg("/no/such/program").output();
    let output = output.expect("the launcher runs");
    assert_eq!(output.status.code(), Some(127), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not started: No such file"), "{}", text(&output.stderr));
    command.env_clear();
}

#[test]
fn a_task_takes_all_of_its_processes_with_it() {
    let job = Job::new();
    // A child in the background, one in its own session, and one whose parent is gone.
    let script = r#"sleep 600 & setsid sleep 600 & (setsid sh -c 'sleep 600 & exit 0' &) ; sleep 0.3; exit 0"#;
    let output = job.run(&["--ps", "0", "--workers", "0"], script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    job.none_left_within(LIMIT);
}

#[test]
fn a_token_goes_to_every_task_and_into_no_file() {
    let job = Job::new();
    let output = job.run(&["--ps", "1"], r#"[ ${#PHALANX_TOKEN} = 32 ] && echo has one"#);
    let out = text(&output.stdout);
    assert_eq!(out.matches("| has one").count(), 3, "{out} {}", text(&output.stderr));
}

#[test]
fn a_token_that_is_not_utf8_starts_nothing() {
    use std::os::unix::ffi::OsStrExt;
    let job = Job::new();
    let token = std::ffi::OsStr::from_bytes(b"s\xffecret");
    let refused =
        job.command(&["--ps", "1"], "echo ran").env("PHALANX_TOKEN", token).output().expect("the launcher runs");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("PX0205") && !text(&refused.stdout).contains("ran"));
}

#[test]
fn printed_configurations_are_those_of_the_nodes() {
    let job = Job::new();
    let mut command =
        job.command(&["--nodes", "10.0.0.1,10.0.0.2", "--worker-port", "2223", "--ps-port", "2222"], "true");
    let refused = command.output().expect("the launcher runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--node 0"), "{}", text(&refused.stderr));
}

#[test]
fn json_lines_contain_everything() {
    let job = Job::new();
    let output = job.run(&["--ps", "0", "--workers", "0", "--progress", "json"], "echo hello");
    let out = text(&output.stdout);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["kind"].as_str()).collect();
    for kind in ["launched", "started", "line", "exited", "finished", "end"] {
        assert!(kinds.contains(&kind), "{kind} is missing: {out}");
    }
    assert_eq!(lines.last().expect("an end")["exit_codes"]["chief/0"], 0);
}

#[test]
fn a_full_disk_stops_no_job() {
    let job = Job::new();
    std::fs::create_dir_all(job.dir.path().join("logs")).unwrap();
    std::os::unix::fs::symlink("/dev/full", job.dir.path().join("logs/chief-0.log")).unwrap();
    let output = job.run(&["--ps", "0", "--workers", "0"], "echo one; sleep 0.3; echo two");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(out.contains("| one") && out.contains("| two"), "{out}");
    assert_eq!(err.matches("not all of its logs are kept").count(), 1, "{err}");
}

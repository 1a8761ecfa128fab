//! The commands around a job, as a user types them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn phalanx(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(words).env_remove("TF_CONFIG").env_remove("PHALANX_TOKEN");
    command
}

fn run(command: &mut Command) -> (Output, String, String) {
    let output = command.output().expect("phalanx runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout).into(), String::from_utf8_lossy(&output.stderr).into());
    (output, out, err)
}

#[test]
fn a_launched_job_has_a_dashboard_and_later_a_status() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let flags = ["launch", "--ps", "1", "--workers", "1", "--run-dir", path, "--", "sh", "-c", "echo here"];
    let (output, out, err) = run(&mut phalanx(&flags));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(out.matches("| here").count(), 3, "{out}");
    assert!(err.contains("Dashboard http://127.0.0.1:"), "{err}");

    let (output, out, err) = run(&mut phalanx(&["status", path]));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(out.starts_with(&format!("{path}: succeeded")), "{out}");
    assert!(out.contains("\nworker/0  done "), "{out}");
    let (_, out, _) = run(&mut phalanx(&["status", path, "--json"]));
    let state: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((state["state"].as_str(), state["tasks"].as_array().map(Vec::len)), (Some("succeeded"), Some(3)));
}

#[test]
fn a_dashboard_needs_a_run_or_a_folder_of_runs() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    for (name, what) in [("nowhere", "there is no directory nowhere"), ("empty", "there is no run in empty")] {
        let (output, _, err) = run(phalanx(&["dashboard", name]).current_dir(dir.path()));
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("PX0401") && err.contains(what) && err.contains("pass a run directory"), "{err}");
    }
}

/// The dashboard's state.
fn state_at(host: &str, token: &str) -> serde_json::Value {
    let mut stream = std::net::TcpStream::connect(host).expect("the dashboard listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /api/state?t={token} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn two_thousand_silent_connections_to_the_dashboard_stop_neither_it_nor_a_restart() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    // The worker dies once; the chief waits for its second attempt.
    let script = r#"cd "$0"
        case $TF_CONFIG in *'"type": "chief"'*) while [ ! -e back ]; do sleep 0.05; done; exit 0 ;; esac
        [ $PHALANX_ATTEMPT = 2 ] && { echo > back; exit 0; }
        while [ ! -e die ]; do sleep 0.05; done; kill -9 $$"#;
    let mut child = Command::new("bash")
        .args(["-c", r#"ulimit -n 1024; exec "$@""#, "bash", env!("CARGO_BIN_EXE_phalanx"), "launch", "--ps", "0"])
        .args(["--workers", "1", "--progress", "plain", "--run-dir", path, "--", "sh", "-c", script, path])
        .env_remove("PHALANX_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash runs");
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let url = lines.find_map(|line| Some(line.split_once("Dashboard http://")?.1.to_owned())).expect("an address");
    let (host, token) = url.split_once("/?t=").expect("a token");
    let silent: Vec<std::net::TcpStream> = (0..2000)
        .map(|number| {
            let mut stream = std::net::TcpStream::connect(host).expect("the dashboard listens");
            if number % 2 == 0 {
                let _closed = stream.write_all(b"GET /api/state HTTP/1.1\r\nHost: ");
            }
            stream
        })
        .collect();
    // The dashboard answers at once, and knows the job as soon as it has read the run's first event.
    let known = (0..200).map(|_| state_at(host, token)["state"].clone()).find(|state| {
        let known = *state != "unknown";
        if !known {
            std::thread::sleep(Duration::from_millis(50));
        }
        known
    });
    assert_eq!(known.expect("the job's state"), "running");
    std::fs::write(dir.path().join("die"), "").unwrap();
    let rest: Vec<String> = lines.collect();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{rest:#?}");
    assert!(rest.iter().any(|line| line.contains("Restarting worker/0")), "{rest:#?}");
    drop(silent);
}

#[test]
fn the_status_of_a_directory_without_a_run_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (output, _, err) = run(phalanx(&["status", "."]).current_dir(dir.path()));
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("not a run directory"), "{err}");
    let (output, _, err) = run(phalanx(&["status"]).current_dir(dir.path()));
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("phalanx status DIR"), "{err}");
}

#[test]
fn generated_configurations_are_read_back() {
    let (output, out, err) = run(&mut phalanx(&[
        "tf-config",
        "make",
        "--nodes",
        "10.0.0.1,10.0.0.2",
        "--worker-port",
        "2223",
        "--ps-port",
        "2222",
    ]));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert_eq!(out.lines().count(), 4);
    for (line, task) in out.lines().zip(["master", "worker", "ps", "ps"]) {
        let text =
            line.split_once("TF_CONFIG='").and_then(|(_, text)| text.strip_suffix('\'')).expect("a configuration");
        let (output, out, err) = run(phalanx(&["tf-config", "--json"]).env("TF_CONFIG", text));
        assert_eq!(output.status.code(), Some(0), "{err}");
        assert!(out.contains(&format!(r#""task_type": "{task}""#)), "{out}");
    }
}

/// The four terminals of the classic flags, as TF_CONFIGs.
#[test]
fn host_lists_become_configurations_whose_first_worker_is_the_chief() {
    let flags = ["tf-config", "make", "--ps_hosts", "a:2222,b:2222", "--worker_hosts", "c:2222,d:2222", "--evaluator"];
    let (output, out, err) = run(&mut phalanx(&flags));
    assert_eq!(output.status.code(), Some(0), "{err}");
    let cluster = r#"{"chief": ["c:2222"], "worker": ["d:2222"], "ps": ["a:2222", "b:2222"]}"#;
    let tasks = ["chief/0", "worker/0", "ps/0", "ps/1", "evaluator/0"];
    assert_eq!(out.lines().count(), tasks.len(), "{out}");
    for (line, task) in out.lines().zip(tasks) {
        assert!(line.starts_with(&format!("{task} ")) && line.contains(cluster), "{line}");
    }
    for (flags, says) in [
        (&["--ps_hosts", "a:1"][..], "--worker_hosts"),
        (&["--ps_hosts", "a:1", "--worker_hosts", "b:1,,c:1"], "an address is missing here"),
        (&["--ps_hosts", "a", "--worker_hosts", "b:1"], "the port is missing"),
        (&["--worker_hosts", "b:1", "--workers", "2"], "cannot be used with"),
    ] {
        let (output, _, err) = run(&mut phalanx(&[&["tf-config", "make"], flags].concat()));
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {err}");
        assert!(err.contains(says), "{flags:?}: {err}");
    }
}

#[test]
fn the_doctor_finds_problems_and_their_fixes() {
    let dir = tempfile::tempdir().unwrap();
    let (output, out, _) = run(phalanx(&["doctor"]).current_dir(dir.path()));
    assert_eq!(output.status.code(), Some(0), "{out}");
    for what in ["CPUs", "memory", "open files", "ports", "clock", "disk", "TF_CONFIG"] {
        assert!(out.contains(what), "{what} is missing: {out}");
    }
    let (output, out, _) = run(phalanx(&["doctor", "--dir", "/no/such/directory"]).env("TF_CONFIG", "{"));
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("fail  disk") && out.contains("fail  TF_CONFIG") && out.contains("fix: "), "{out}");
    // A port that is in use, and a task that does not run.
    let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let (own, free) = (taken.local_addr().unwrap().port(), phalanx_launch::free_ports(1).unwrap()[0]);
    let config = format!(
        r#"{{"cluster": {{"chief": ["127.0.0.1:{own}"], "ps": ["127.0.0.1:{free}"]}}, "task": {{"type": "chief", "index": 0}}}}"#
    );
    let (output, out, _) = run(phalanx(&["doctor", "--connect", "--json"]).env("TF_CONFIG", config));
    assert_eq!(output.status.code(), Some(1), "{out}");
    let found: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let failed: Vec<&str> = found["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|one| one["grade"] == "fail")
        .filter_map(|one| one["what"].as_str())
        .collect();
    assert_eq!(failed, ["own port", "peer"], "{out}");
}

#[test]
fn every_target_has_its_files() {
    for (target, part) in [
        ("tfjob", "kind: TFJob"),
        ("trainjob", "kind: TrainJob"),
        ("slurm", "#SBATCH --nodes=3"),
        ("compose", "services:"),
        ("systemd", "[Service]"),
        ("dockerfile", "USER 65532"),
    ] {
        let (output, out, err) = run(&mut phalanx(&["manifest", target, "--", "./train"]));
        assert_eq!(output.status.code(), Some(0), "{err}");
        assert!(out.contains(part), "{target}: {out}");
    }
    let (output, _, err) = run(&mut phalanx(&["manifest", "tfjob", "--name", "Not a name"]));
    assert_eq!(output.status.code(), Some(2), "{err}");
}

#[test]
fn the_dockerfile_copies_what_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (_, out, _) = run(&mut phalanx(&["manifest", "dockerfile"]));
    let copied = out.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|line| !line.starts_with("--from"));
    let sources: Vec<&str> =
        copied.flat_map(|line| line.rsplit_once(' ').expect("a source and a destination").0.split(' ')).collect();
    for source in &sources {
        assert!(root.join(source).exists(), "{source}");
    }
    // A workspace does not build without one of its members.
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).expect("a list of members");
    let folders = members.split('"').filter(|word| word.starts_with(char::is_alphabetic));
    for folder in folders.map(|member| member.split('/').next().expect("a folder")) {
        assert!(sources.contains(&folder), "{folder} is not in the image");
    }
}

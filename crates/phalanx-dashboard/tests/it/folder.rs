//! The dashboard of a folder of runs, and stopping a run.

use crate::client::{Client, status};
use phalanx_base::Code;
use phalanx_dashboard::Dashboard;
use phalanx_run::{JobFile, JobTask, ProcessIdentity, RunDir, Runs};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};

const LAUNCHED: &str =
    "{\"at\":1000,\"kind\":\"launched\"}\n{\"at\":1001,\"kind\":\"started\",\"task\":\"chief/0\",\"attempt\":1}\n";
const FINISHED: &str = "{\"at\":2000,\"kind\":\"finished\",\"outcome\":\"succeeded\"}\n";

/// A run with this program; `launcher` is the process that launched it.
fn write_run(dir: &Path, program: &[&str], launcher: Option<&Child>, events: &str) -> RunDir {
    let run = RunDir::at(dir);
    run.create().unwrap();
    let task = JobTask { task: "chief/0".parse().unwrap(), node: String::new(), address: String::new() };
    let program = program.iter().map(|&word| word.to_owned()).collect();
    let mut job = JobFile::now(program, String::new(), Value::Null, vec![task]);
    if let Some(launcher) = launcher {
        (job.launcher_pid, job.launcher) = (Some(launcher.id()), ProcessIdentity::of(launcher.id()));
    }
    std::fs::write(run.job_file(), serde_json::to_string(&job).unwrap()).unwrap();
    std::fs::write(run.events_file(), events).unwrap();
    run
}

fn serve(dir: &Path) -> Dashboard {
    Dashboard::of(Runs::find(dir).unwrap(), "127.0.0.1:0".parse().unwrap()).unwrap()
}

/// A process that stands for a launcher: it ends when it is asked to.
fn launcher() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}

#[test]
fn the_runs_of_a_folder_are_listed_and_each_is_served_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    write_run(&dir.path().join("slow run"), &["train", "--rate", "0.1"], None, &format!("{LAUNCHED}{FINISHED}"));
    write_run(&dir.path().join("fast"), &["train", "--rate=0.5"], None, LAUNCHED);
    std::fs::create_dir(dir.path().join("notes")).unwrap();
    let dashboard = serve(dir.path());
    let client = Client::of(&dashboard);
    let list = client.until("/api/runs", "", |list| list["runs"].as_array().is_some_and(|runs| runs.len() == 2));
    let mut states: Vec<(&str, &str)> = list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["name"].as_str().unwrap(), run["state"].as_str().unwrap()))
        .collect();
    states.sort_unstable();
    assert_eq!(states, [("fast", "running"), ("slow run", "succeeded")]);
    assert_eq!(client.json("/api/state", "&run=slow%20run")["state"], "succeeded");
    assert_eq!(client.json("/api/state", "&run=fast")["state"], "running");
    let settings = client.json("/api/settings", "&run=fast");
    assert!(settings.as_array().unwrap().contains(&serde_json::json!(["--rate", "0.5"])), "{settings}");
    // Other folders are not reached, whatever the name.
    for name in
        ["", "&run=notes", "&run=nowhere", "&run=..", "&run=.", "&run=%2Fetc", "&run=%ff", "&run=fast%2F..%2Ffast"]
    {
        let answer = client.get(&format!("/api/state?t={}{name}", client.token));
        assert!(matches!(status(&answer), "400" | "404"), "{name}: {answer}");
    }
    assert_eq!(status(&client.get("/api/runs")), "401");
    assert!(client.get("/").contains("id=\"runs-table\""), "the list is the first page");
    assert!(client.get("/run").contains("id=\"tab-overview\""));
}

#[test]
fn a_run_is_stopped_once_and_only_by_a_post_with_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, mut second) = (launcher(), launcher());
    write_run(&dir.path().join("first"), &["train"], Some(&first), LAUNCHED);
    write_run(&dir.path().join("second"), &["train"], Some(&second), LAUNCHED);
    let dashboard = serve(dir.path());
    let client = Client::of(&dashboard);
    let path = format!("/api/stop?t={}&run=first", client.token);
    let own = client.own();
    assert_eq!(status(&client.get(&path)), "405");
    assert_eq!(status(&client.send("POST", "/api/stop?run=first", &own)), "401");
    assert_eq!(status(&client.send("POST", &path, &format!("{own}Origin: http://evil.example\r\n"))), "403");
    assert!(first.try_wait().unwrap().is_none());
    assert_eq!(client.json("/api/state", "&run=first")["can_be_stopped"], true);
    assert_eq!(status(&client.send("POST", &path, &own)), "202");
    assert_eq!(first.wait().unwrap().signal(), Some(rustix::process::Signal::TERM.as_raw()));
    assert!(second.try_wait().unwrap().is_none(), "the other run goes on");
    // The same request again is answered, and reaches nobody.
    assert_eq!(status(&client.send("POST", &path, &own)), "202");
    second.kill().unwrap();
    second.wait().unwrap();
    let answer = client.send("POST", &format!("/api/stop?t={}&run=second", client.token), &own);
    assert!(status(&answer) == "409" && answer.contains("PX0118") && answer.contains("has ended"), "{answer}");
}

#[test]
fn a_single_run_has_the_same_page_as_before_and_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = launcher();
    write_run(dir.path(), &["train"], Some(&process), LAUNCHED);
    let dashboard = serve(dir.path());
    let client = Client::of(&dashboard);
    assert!(client.get("/").contains("id=\"tab-overview\""));
    client.until("/api/state", "", |state| state["state"] == "running" && state["can_be_stopped"] == true);
    assert_eq!(status(&client.get(&format!("/api/runs?t={}", client.token))), "404");
    assert_eq!(status(&client.get(&format!("/api/state?t={}&run=a", client.token))), "404");
    assert_eq!(status(&client.send("POST", &format!("/api/stop?t={}", client.token), &client.own())), "202");
    process.wait().unwrap();
    client.until("/api/state", "", |state| state["state"] == "abandoned" && state["can_be_stopped"] == false);
}

#[test]
fn a_folder_without_runs_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = Runs::find(dir.path()).unwrap_err();
    assert_eq!(error.code(), Code::DataMissing);
    assert!(error.to_string().contains("there is no run in"), "{error}");
}

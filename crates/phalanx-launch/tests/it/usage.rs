//! What a job used.

use crate::support::{Job, text};
use phalanx_base::Role;
use phalanx_run::{JobUsage, RunDir};

/// Burns CPU time in a child of the task's shell, and fills 60 MiB of memory, whatever the speed of this machine.
const WORK: &str = r#"if [ $role = worker ]; then
        head -c 60000000 /dev/zero | (cat; sleep 0) | tail -c 60000000 > /dev/null
        sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done'
    fi; exit 0"#;

#[test]
fn cpu_time_and_peak_memory_are_reported_by_role_and_kept_in_the_run() {
    let job = Job::new();
    let output = job.run(&["--ps", "0", "--workers", "2"], WORK);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("Used chief: ") && err.contains("Used 2 workers: "), "{err}");

    let usage = JobUsage::read(&RunDir::at(job.dir.path())).unwrap().expect("usage.json");
    let of = |role| usage.roles.iter().find(|one| one.role == role).expect("a role");
    let (chief, workers) = (of(Role::Chief), of(Role::Worker));
    assert_eq!((chief.tasks, workers.tasks), (1, 2));
    assert!(workers.cpu_seconds > chief.cpu_seconds && workers.cpu_seconds > 0.0, "{usage:?}");
    // `tail` holds all of it; the chief's shell and `sed` are small.
    assert!(workers.peak_bytes > 60_000_000 && chief.peak_bytes < 60_000_000, "{usage:?}");
    assert!(chief.peak_bytes > 0, "{usage:?}");
}

#[test]
fn all_attempts_of_a_task_count() {
    let job = Job::new();
    let script = r#"if [ $role = worker ]; then
            [ $PHALANX_ATTEMPT = 1 ] && { head -c 60000000 /dev/zero | tail -c 60000000 > /dev/null; exit 138; }
            echo > "$0.back"; exit 0
        fi
        while [ ! -e "$0.back" ]; do sleep 0.05; done; exit 0"#;
    let mark = job.dir.path().join("mark");
    let script = script.replace("$0", &mark.display().to_string());
    let output = job.run(&["--ps", "0", "--progress", "json"], &script);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    let usage = JobUsage::read(&RunDir::at(job.dir.path())).unwrap().expect("usage.json");
    let worker = usage.roles.iter().find(|one| one.role == Role::Worker).expect("a worker");
    assert!(worker.peak_bytes > 60_000_000, "the first attempt needed more: {usage:?}");
    let end = out.lines().find(|line| line.contains(r#""kind":"end""#)).expect("an end");
    assert!(end.contains(r#""usage":[{"role":"chief""#), "{end}");
}

//! `phalanx doctor`: problems of this machine and its configuration, and how to fix them.

use crate::exit::ExitCode;
use phalanx::coordinator::{ClusterResolver, TfConfigClusterResolver, misplaced_task};
use phalanx_base::{Address, TaskId};
use phalanx_launch::free_ports;
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Checks this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Directory for runs
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Try to connect to every task of the cluster in TF_CONFIG
    #[arg(long)]
    connect: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Grade {
    Ok,
    Warn,
    Fail,
}

struct Finding {
    grade: Grade,
    what: &'static str,
    found: String,
    fix: Option<String>,
}

fn finding(grade: Grade, what: &'static str, found: impl Into<String>, fix: Option<&str>) -> Finding {
    Finding { grade, what, found: found.into(), fix: fix.map(str::to_owned) }
}

/// Runs the command. The exit code is 1 if a check fails.
pub(crate) fn run(args: &DoctorArgs) -> ExitCode {
    let mut findings = vec![cpus(), memory(), open_files(), processes(), ports(), clock(), disk(args)];
    findings.extend(task(args));
    let failed = findings.iter().any(|one| one.grade == Grade::Fail);
    crate::output::print(&if args.json { to_json(&findings) } else { to_text(&findings) });
    ExitCode::from(u8::from(failed))
}

fn cpus() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    match count {
        0 | 1 => finding(Grade::Warn, "CPUs", "1", Some("the tasks of a local job will share one CPU")),
        count => finding(Grade::Ok, "CPUs", count.to_string(), None),
    }
}

fn memory() -> Finding {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    match of("MemAvailable") {
        Some(free) if free < 1 << 20 => {
            let fix = "stop other programs, or run parameter servers on another machine";
            finding(Grade::Warn, "memory", format!("{} MiB available", free >> 10), Some(fix))
        }
        Some(free) => finding(Grade::Ok, "memory", format!("{:.1} GiB available", free as f64 / 1_048_576.0), None),
        None => finding(Grade::Warn, "memory", "unknown: /proc/meminfo cannot be read", None),
    }
}

fn limit(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let soft = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.to_owned();
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

fn open_files() -> Finding {
    let fix = "raise it: ulimit -n 65536, or LimitNOFILE=65536 in a systemd unit";
    limited("open files", "Max open files", (512, 4096), fix)
}

fn processes() -> Finding {
    let fix = "raise it: ulimit -u 4096; every task has about twenty threads";
    limited("processes", "Max processes", (0, 1024), fix)
}

/// Fails if a limit of this process is below the first bound, and warns if it is below the second.
fn limited(what: &'static str, name: &str, (fail, warn): (u64, u64), fix: &str) -> Finding {
    match limit(name) {
        Some(count) if count < fail => finding(Grade::Fail, what, count.to_string(), Some(fix)),
        Some(count) if count < warn => finding(Grade::Warn, what, count.to_string(), Some(fix)),
        Some(u64::MAX) => finding(Grade::Ok, what, "unlimited", None),
        Some(count) => finding(Grade::Ok, what, count.to_string(), None),
        None => finding(Grade::Warn, what, "unknown", None),
    }
}

fn ports() -> Finding {
    match free_ports(32) {
        Ok(_) => finding(Grade::Ok, "ports", "32 free on loopback", None),
        Err(error) => {
            finding(Grade::Fail, "ports", error.to_string(), Some("check that 127.0.0.1 is up: ip addr show lo"))
        }
    }
}

/// Checks the clock against the time at which this program was built.
fn clock() -> Finding {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let built = std::env::current_exe().and_then(std::fs::metadata).and_then(|about| about.modified());
    let built = built.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |at| at.as_secs());
    if now + 86_400 < built {
        finding(Grade::Fail, "clock", "before this program was built", Some("set it: timedatectl set-ntp true"))
    } else {
        finding(Grade::Ok, "clock", phalanx_run::timestamp(now * 1000), None)
    }
}

fn disk(args: &DoctorArgs) -> Finding {
    let path = args.dir.join(format!(".phalanx-doctor-{}", std::process::id()));
    let written = std::fs::write(&path, vec![0; 1 << 20]).and_then(|()| std::fs::remove_file(&path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&path);
        let found = format!("{} cannot be written: {error}", args.dir.display());
        return finding(
            Grade::Fail,
            "disk",
            found,
            Some("choose another directory with --dir, free some space, or change its owner"),
        );
    }
    match phalanx_launch::free_bytes(&args.dir) {
        Some(free) if free < 1 << 30 => {
            let found = format!("{} MiB free in {}", free >> 20, args.dir.display());
            finding(Grade::Warn, "disk", found, Some("free some space: checkpoints of a large model do not fit"))
        }
        Some(free) => finding(
            Grade::Ok,
            "disk",
            format!("{:.1} GiB free in {}", free as f64 / 1_073_741_824.0, args.dir.display()),
            None,
        ),
        None => finding(Grade::Ok, "disk", format!("{} can be written", args.dir.display()), None),
    }
}

/// Checks TF_CONFIG, this task's port and the other tasks.
fn task(args: &DoctorArgs) -> Vec<Finding> {
    let config = match TfConfigClusterResolver.resolve() {
        Ok(config) => config,
        Err(error) => {
            let fix = error.next().unwrap_or("see phalanx tf-config").to_owned();
            return vec![finding(Grade::Fail, "TF_CONFIG", error.to_string(), Some(&fix))];
        }
    };
    let Some(own) = config.task() else {
        return vec![finding(Grade::Ok, "TF_CONFIG", "not set: this process would run the job alone", None)];
    };
    let mut found =
        vec![finding(Grade::Ok, "TF_CONFIG", format!("this is {own} of {} tasks", config.tasks().len()), None)];
    for warning in config.warnings().iter().chain(&misplaced_task(&config)) {
        found.push(finding(Grade::Warn, "TF_CONFIG", warning.to_string(), warning.help()));
    }
    if std::env::var_os("PHALANX_TOKEN").is_none() {
        let fix = "set PHALANX_TOKEN to the same secret on every task";
        found.push(finding(
            Grade::Warn,
            "token",
            "not set: tasks listen on loopback only, or to anybody with PHALANX_INSECURE=1",
            Some(fix),
        ));
    }
    if let Ok(address) = config.address_of(own) {
        found.push(own_port(address));
    }
    if args.connect {
        found.extend(
            config.tasks().into_iter().filter(|(task, _)| *task != own).map(|(task, address)| peer(task, &address)),
        );
    }
    found
}

fn own_port(address: &Address) -> Finding {
    let port = address.port();
    match TcpListener::bind(address.listen_on()) {
        Ok(_) => finding(Grade::Ok, "own port", format!("{port} is free"), None),
        Err(error) => {
            let fix = format!("find the process that uses it: ss -ltnp sport = :{port}");
            finding(Grade::Fail, "own port", format!("{port}: {error}"), Some(&fix))
        }
    }
}

fn peer(task: TaskId, address: &Address) -> Finding {
    let reached = (address.host(), address.port()).to_socket_addrs().and_then(|mut list| {
        let first = list.next().ok_or_else(|| std::io::Error::other("the host name has no address"))?;
        TcpStream::connect_timeout(&first, Duration::from_secs(2))
    });
    match reached {
        Ok(_) => finding(Grade::Ok, "peer", format!("{task} at {address} answers"), None),
        Err(error) => {
            let fix = "start it, correct its address, or open the port in the firewall";
            finding(Grade::Fail, "peer", format!("{task} at {address}: {error}"), Some(fix))
        }
    }
}

fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Ok => "ok",
        Grade::Warn => "warn",
        Grade::Fail => "fail",
    }
}

fn to_text(findings: &[Finding]) -> String {
    let line = |one: &Finding| {
        let fix = one.fix.as_ref().map_or_else(String::new, |fix| format!("\n{:18}fix: {fix}", ""));
        format!("{:<6}{:<12}{}{fix}\n", word(one.grade), one.what, one.found)
    };
    findings.iter().map(line).collect()
}

fn to_json(findings: &[Finding]) -> String {
    let finding =
        |one: &Finding| json!({ "grade": word(one.grade), "what": one.what, "found": one.found, "fix": one.fix });
    format!("{}\n", json!({ "findings": findings.iter().map(finding).collect::<Vec<Value>>() }))
}

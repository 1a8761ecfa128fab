//! Whether this machine is the one that the cluster lists for this task.

use phalanx_base::{Code, Error, Role};
use phalanx_cluster::{TaskConfig, Warning};
use std::net::{IpAddr, UdpSocket};

/// Returns a warning if the cluster lists this worker on another machine, and lists another trainer on this machine.
///
/// Some platforms give the trainer on the master's machine the task `worker` 0. Then two processes are `worker/0`, nobody is the
/// chief, and the job waits for it. Only addresses, and names that equal this machine's name, are compared: nothing is resolved.
#[must_use]
pub fn misplaced_task(config: &TaskConfig) -> Option<Warning> {
    misplaced(config, &is_this_machine)
}

fn misplaced(config: &TaskConfig, is_here: &dyn Fn(&str) -> bool) -> Option<Warning> {
    let own = config.task().filter(|task| task.role == Role::Worker)?;
    let address = config.address_of(own).ok()?;
    if is_here(address.host()) {
        return None;
    }
    let trainers = config.trainers();
    let (meant, meant_address) = trainers.iter().find(|(_, address)| is_here(address.host()))?;
    let job = match meant.role {
        Role::Chief if config.cluster().has_job("master") => "master",
        role => role.as_str(),
    };
    Some(Warning::new(
        Error::new(Code::ConfigTaskType, format!("this machine is not the one of {own}"))
            .at("task.type")
            .because(format!(
                "{own} is listed at {address}, and this machine's own address is that of {job} {meant_address}"
            ))
            .help(format!("did you mean {{\"type\": \"{job}\", \"index\": {}}}?", meant.index)),
    ))
}

/// Returns whether a host is this machine. A UDP socket can be bound to the addresses of this machine only, and sends nothing.
fn is_this_machine(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        return UdpSocket::bind((address, 0)).is_ok();
    }
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = own.trim();
    host == "localhost" || !own.is_empty() && (host == own || host.split('.').next() == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of a training platform, with the literal task that it gives to the trainer of its first machine.
    fn task(job: &str, index: u32) -> TaskConfig {
        let text = format!(
            r#"{{"cluster": {{"master": ["ip0:2223"], "ps": ["ip0:2222", "ip1:2222"], "worker": ["ip1:2223"]}},
                "task": {{"type": "{job}", "index": {index}}}, "environment": "cloud"}}"#
        );
        TaskConfig::from_tf_config(Some(&text)).unwrap()
    }

    #[test]
    fn a_worker_on_the_masters_machine_is_asked_whether_it_is_the_master() {
        let warning = misplaced(&task("worker", 0), &|host| host == "ip0").expect("ip0 is the master's");
        assert_eq!(warning.help(), Some(r#"did you mean {"type": "master", "index": 0}?"#));
        let text = warning.to_string();
        assert!(text.contains("listed at ip1:2223") && text.contains("master ip0:2223"), "{text}");
    }

    #[test]
    fn tasks_in_their_place_and_tasks_of_unknown_machines_are_left_alone() {
        assert!(misplaced(&task("worker", 0), &|host| host == "ip1").is_none());
        assert!(misplaced(&task("worker", 0), &|_| true).is_none(), "all on one machine");
        assert!(misplaced(&task("worker", 0), &|_| false).is_none());
        for job in ["master", "ps"] {
            assert!(misplaced(&task(job, 0), &|host| host == "ip0").is_none());
        }
        assert!(misplaced_task(&TaskConfig::local()).is_none());
    }

    #[test]
    fn this_machine_knows_its_addresses() {
        assert!(is_this_machine("127.0.0.1") && is_this_machine("localhost"));
        // An address for documentation, which no machine has.
        assert!(!is_this_machine("192.0.2.1") && !is_this_machine("no-such-host.invalid"));
    }
}

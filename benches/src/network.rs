//! Machines that are network namespaces of this program's own: one for each task, joined by a bridge, each link with a limit.

use phalanx::{ClusterSpec, Code, Error, Result};
use phalanx_base::{Context, TaskId};
use std::process::Command;
use std::str::FromStr;

/// How fast the link of each machine is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Link {
    /// As fast as the kernel copies.
    Unlimited,
    /// Gigabits per second, in each direction.
    Gigabits(f64),
}

impl FromStr for Link {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let limit = text.parse().ok().filter(|gigabits: &f64| (0.01..=400.0).contains(gigabits));
        match text {
            "unlimited" => Ok(Self::Unlimited),
            _ => limit.map(Self::Gigabits).ok_or_else(|| {
                Error::new(Code::BadSetting, format!("{text:?} is no speed of a link"))
                    .help("unlimited, or gigabits per second from 0.01 to 400")
            }),
        }
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Gigabits(limit) => write!(f, "{limit}"),
        }
    }
}

/// The machines. They vanish with this value.
pub(crate) struct Network {
    id: String,
    machines: usize,
}

impl Network {
    /// Makes `machines` machines.
    ///
    /// # Errors
    /// If this process may not make namespaces, or ip(8) or tc(8) is missing.
    pub(crate) fn new(machines: usize, link: Link) -> Result<Self> {
        if machines > 200 {
            return Err(Error::new(Code::BadSetting, format!("{machines} machines are too many")).help("at most 200"));
        }
        let network = Self { id: format!("pb{}", std::process::id()), machines };
        let (bridge, id) = (network.bridge(), &network.id);
        // The bridge lives in a namespace too, so that this machine's own network is not touched.
        ip(&format!("netns add {bridge}"))?;
        ip(&format!("-n {bridge} link add bridge type bridge"))?;
        ip(&format!("-n {bridge} link set bridge up"))?;
        for machine in 0..machines {
            let (name, address) = (format!("{id}-{machine}"), network.address(machine));
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {bridge} link add port{machine} type veth peer name eth0 netns {name}"))?;
            ip(&format!("-n {bridge} link set port{machine} master bridge up"))?;
            ip(&format!("-n {name} addr add {address}/24 dev eth0"))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
            if let Link::Gigabits(limit) = link {
                let limit = format!("root tbf rate {:.0}mbit burst 512kb latency 100ms", 1000.0 * limit);
                run("tc", &format!("-n {name} qdisc add dev eth0 {limit}"))?;
                run("tc", &format!("-n {bridge} qdisc add dev port{machine} {limit}"))?;
            }
        }
        Ok(network)
    }

    fn bridge(&self) -> String {
        format!("{}-x", self.id)
    }

    pub(crate) fn address(&self, machine: usize) -> String {
        format!("10.99.0.{}", machine + 1)
    }

    /// Wraps a command so that it runs on a machine.
    pub(crate) fn on(&self, machine: usize, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &format!("{}-{machine}", self.id)]);
        inside.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(key, value),
                None => inside.env_remove(key),
            };
        }
        inside
    }

    /// All machines in the form that the peers' scripts take: `NAMESPACE@ADDRESS,…`.
    pub(crate) fn list(&self) -> String {
        let each = (0..self.machines).map(|machine| format!("{}-{machine}@{}", self.id, self.address(machine)));
        each.collect::<Vec<_>>().join(",")
    }

    /// A cluster with one task on each machine: parameter servers first, then trainers, of which the first is the chief.
    pub(crate) fn cluster(&self, ps: usize) -> ClusterSpec {
        let all: Vec<String> = (0..self.machines).map(|machine| format!("{}:2222", self.address(machine))).collect();
        let (servers, trainers) = all.split_at(ps.min(all.len()));
        let (chief, workers) = trainers.split_at(1.min(trainers.len()));
        let cluster = ClusterSpec::new().job("chief", chief).job("ps", servers);
        if workers.is_empty() { cluster } else { cluster.job("worker", workers) }
    }

    /// Returns the machine of a task of [`Self::cluster`].
    pub(crate) fn machine(&self, ps: usize, task: TaskId) -> usize {
        match task.role {
            phalanx::Role::Ps => task.index as usize,
            phalanx::Role::Chief => ps,
            _ => ps + 1 + task.index as usize,
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in 0..self.machines {
            // Some may not have been made.
            let _ = ip(&format!("netns del {}-{machine}", self.id));
        }
        let _ = ip(&format!("netns del {}", self.bridge()));
    }
}

fn ip(arguments: &str) -> Result<()> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &str) -> Result<()> {
    let help = "run as root on a machine with iproute2, or leave --network out";
    let output = Command::new(program).args(arguments.split_whitespace()).output();
    let output =
        output.context(Code::Internal, format!("{program} cannot be started")).map_err(|error| error.help(help))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::new(Code::Internal, format!("`{program} {arguments}` failed")).because(why).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read() {
        let link = |text: &str| text.parse::<Link>().ok();
        assert_eq!((link("unlimited"), link("2.5")), (Some(Link::Unlimited), Some(Link::Gigabits(2.5))));
        assert!(["", "0", "-1", "fast", "1e9", "nan"].iter().all(|text| link(text).is_none()));
    }
}

//! The names of strategies, in programs, on command lines and in job files.

use crate::TaskConfig;
use crate::schedule::Consistency;
use phalanx_base::{Code, Error, Result, Role, nearest};

const NAMES: [&str; 7] =
    ["auto", "default", "one_device", "mirrored", "central_storage", "multi_worker_mirrored", "parameter_server"];

/// The most replicas of a process.
const MOST_REPLICAS: usize = 1024;

/// A strategy, as its name tells it.
///
/// | name | strategy |
/// | --- | --- |
/// | `auto` | what the cluster needs |
/// | `default` | one replica on the CPU |
/// | `one_device`, `one_device:cuda:0` | one replica on that device |
/// | `mirrored:2`, `mirrored:cuda:2` | as many replicas, in one process |
/// | `central_storage:2` | as many replicas, variables in CPU memory |
/// | `multi_worker_mirrored` | a replica, or as many as a number says, in every worker |
/// | `parameter_server:async`, `…:ssp:3`, `…:sync:1` | variables on parameter servers, with this [`Consistency`] |
///
/// ```
/// use phalanx_cluster::{ReplicaDevices, StrategyName, TaskConfig};
/// let two = ReplicaDevices { device: "cpu".into(), count: 2 };
/// assert_eq!(StrategyName::parse("mirrored:2")?, StrategyName::Mirrored(two));
/// assert_eq!(StrategyName::parse("auto")?.for_cluster(&TaskConfig::local())?, StrategyName::Default);
/// assert_eq!(StrategyName::parse("mirored").unwrap_err().next(), Some("did you mean mirrored?"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyName {
    /// What the cluster needs.
    Auto,
    /// One replica on the CPU.
    Default,
    /// One replica on this device.
    OneDevice(String),
    /// Replicas in one process.
    Mirrored(ReplicaDevices),
    /// Replicas in one process, with variables in CPU memory.
    CentralStorage(ReplicaDevices),
    /// Replicas in every worker.
    MultiWorkerMirrored(ReplicaDevices),
    /// Variables on parameter servers, with this text of a [`Consistency`].
    ParameterServer(String),
}

/// The devices of a process's replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaDevices {
    /// The kind of device: `cpu`, `cuda`.
    pub device: String,
    /// How many of them, numbered from 0.
    pub count: usize,
}

impl ReplicaDevices {
    /// Returns the name of each device: `cpu:0`, `cpu:1`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        (0..self.count).map(|number| format!("{}:{number}", self.device)).collect()
    }

    /// Reads `2`, `cuda` or `cuda:2`.
    fn parse(name: &str, rest: Option<&str>) -> Result<Self> {
        let rest = rest.unwrap_or("1");
        let (device, count) = match rest.rsplit_once(':') {
            Some((device, count)) => (device, count),
            None if rest.starts_with(|c: char| c.is_ascii_digit()) => ("cpu", rest),
            None => (rest, "1"),
        };
        let is_device = device.starts_with(|c: char| c.is_ascii_alphabetic());
        let count = count.parse().ok().filter(|count| is_device && (1..=MOST_REPLICAS).contains(count));
        let count = count.ok_or_else(|| {
            Error::new(Code::BadSetting, format!("the strategy {name:?} has no number of replicas"))
                .help("write it after the colon, for example mirrored:2")
        })?;
        Ok(Self { device: device.to_owned(), count })
    }
}

impl StrategyName {
    /// Reads a name. Whether the strategy fits a cluster, [`Self::for_cluster`] tells.
    ///
    /// # Errors
    /// Fails if there is no such strategy.
    pub fn parse(name: &str) -> Result<Self> {
        let (kind, rest) = name.split_once(':').map_or((name, None), |(kind, rest)| (kind, Some(rest)));
        Ok(match (kind, rest) {
            ("auto", None) => Self::Auto,
            ("default", None) => Self::Default,
            ("one_device", device) => Self::OneDevice(device.unwrap_or("cpu").to_owned()),
            ("mirrored", rest) => Self::Mirrored(ReplicaDevices::parse(name, rest)?),
            ("central_storage", rest) => Self::CentralStorage(ReplicaDevices::parse(name, rest)?),
            ("multi_worker_mirrored", rest) => Self::MultiWorkerMirrored(ReplicaDevices::parse(name, rest)?),
            ("parameter_server", rest) => {
                let consistency = rest.unwrap_or("async");
                // Of a cluster, only the number of trainers counts: fewer backups than trainers.
                Consistency::parse(consistency, u64::MAX)?;
                Self::ParameterServer(consistency.to_owned())
            }
            _ => {
                let error = Error::new(Code::BadSetting, format!("there is no strategy {name:?}"));
                return Err(match nearest(kind, NAMES).filter(|near| *near != kind) {
                    Some(near) => error.help(format!("did you mean {near}?")),
                    None => error.help(format!("choose one of {}", NAMES.join(", "))),
                });
            }
        })
    }

    /// Returns the strategy for the cluster of this task; `auto` becomes what the cluster needs.
    ///
    /// # Errors
    /// Fails if the strategy would ignore a part of the cluster, because the job would seem to succeed. An evaluator does not
    /// train, so it may.
    pub fn for_cluster(self, task: &TaskConfig) -> Result<Self> {
        let (servers, tasks) = (!task.ps_addresses().is_empty(), task.tasks().len());
        let Some(own) = task.task().filter(|own| own.role != Role::Evaluator && self != Self::Auto) else {
            return Ok(match self {
                Self::Auto if servers => Self::ParameterServer("async".to_owned()),
                Self::Auto if task.trainers().len() > 1 => {
                    Self::MultiWorkerMirrored(ReplicaDevices::parse("auto", None)?)
                }
                Self::Auto => Self::Default,
                name => name,
            });
        };
        let why = match self {
            Self::ParameterServer(_) if !servers && tasks > 1 => "the cluster has no parameter servers",
            Self::MultiWorkerMirrored(_) if servers => {
                "its workers hold the model themselves, so parameter servers have nothing to do"
            }
            Self::ParameterServer(_) | Self::MultiWorkerMirrored(_) => return Ok(self),
            _ if tasks > 1 => "it trains within one process, so every task would train a separate model",
            _ => return Ok(self),
        };
        let fits = if servers { "parameter_server:async" } else { "multi_worker_mirrored" };
        Err(Error::new(Code::ConfigIgnored, format!("the strategy {self} does not fit the cluster of TF_CONFIG"))
            .at(format!("{own} of a cluster of {tasks} tasks"))
            .because(why)
            .help(format!("use {fits}, or start the job with the tasks that {self} needs")))
    }
}

impl std::fmt::Display for StrategyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut replicas = |kind: &str, devices: &ReplicaDevices| match (devices.device.as_str(), devices.count) {
            ("cpu", count) => write!(f, "{kind}:{count}"),
            (device, count) => write!(f, "{kind}:{device}:{count}"),
        };
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Default => f.write_str("default"),
            Self::OneDevice(device) => write!(f, "one_device:{device}"),
            Self::Mirrored(devices) => replicas("mirrored", devices),
            Self::CentralStorage(devices) => replicas("central_storage", devices),
            Self::MultiWorkerMirrored(devices) => replicas("multi_worker_mirrored", devices),
            Self::ParameterServer(consistency) => write!(f, "parameter_server:{consistency}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterSpec;
    use phalanx_base::TaskId;

    fn config(ps: usize, workers: usize, role: Role) -> TaskConfig {
        let addresses =
            |base: usize, count: usize| (0..count).map(move |at| format!("h:{}", base + at)).collect::<Vec<_>>();
        let cluster = ClusterSpec::new().job("chief", ["h:1".to_owned()]);
        let cluster = if workers > 0 { cluster.job("worker", addresses(10, workers)) } else { cluster };
        let cluster = if ps > 0 { cluster.job("ps", addresses(20, ps)) } else { cluster };
        TaskConfig::from_cluster(cluster, TaskId::new(role, 0)).unwrap()
    }

    #[test]
    fn a_name_is_printed_as_it_is_read() {
        for name in [
            "auto",
            "default",
            "one_device:cuda:0",
            "mirrored:2",
            "mirrored:cuda:2",
            "central_storage:3",
            "multi_worker_mirrored:1",
            "parameter_server:async",
            "parameter_server:ssp:2",
            "parameter_server:sync:1",
        ] {
            assert_eq!(StrategyName::parse(name).unwrap().to_string(), name);
        }
        for (short, long) in [
            ("one_device", "one_device:cpu"),
            ("mirrored", "mirrored:1"),
            ("mirrored:cuda", "mirrored:cuda:1"),
            ("multi_worker_mirrored", "multi_worker_mirrored:1"),
            ("parameter_server", "parameter_server:async"),
        ] {
            assert_eq!(StrategyName::parse(short).unwrap().to_string(), long);
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_the_nearest_one() {
        for wrong in [
            "",
            "auto:2",
            "default:2",
            "mirrored:0",
            "mirrored:-1",
            "mirrored:2:x",
            "mirrored:1025",
            "mirrored::",
            "mirrored::2",
            "parameter_server:often",
            "parameter_server:ssp",
        ] {
            assert_eq!(StrategyName::parse(wrong).unwrap_err().code(), Code::BadSetting, "{wrong}");
        }
        let error = StrategyName::parse("mirored:2").unwrap_err();
        assert_eq!(
            (error.what(), error.next()),
            ("there is no strategy \"mirored:2\"", Some("did you mean mirrored?"))
        );
        assert!(StrategyName::parse("xyzzy").unwrap_err().next().unwrap().starts_with("choose one of auto, default"));
    }

    #[test]
    fn auto_is_what_the_cluster_needs() {
        let of = |task: &TaskConfig| StrategyName::Auto.for_cluster(task).unwrap().to_string();
        assert_eq!(of(&TaskConfig::local()), "default");
        assert_eq!(of(&config(1, 2, Role::Ps)), "parameter_server:async");
        assert_eq!(of(&config(0, 2, Role::Chief)), "multi_worker_mirrored:1");
        assert_eq!(of(&config(0, 0, Role::Chief)), "default");
    }

    #[test]
    fn a_strategy_that_ignores_a_part_of_the_cluster_is_refused() {
        let of = |name: &str, task: &TaskConfig| StrategyName::parse(name).unwrap().for_cluster(task);
        for name in ["default", "one_device", "mirrored:2", "central_storage:2", "multi_worker_mirrored"] {
            let error = of(name, &config(1, 1, Role::Ps)).unwrap_err();
            assert_eq!(error.code(), Code::ConfigIgnored, "{name}");
            assert_eq!(error.place(), Some("ps/0 of a cluster of 3 tasks"));
            assert!(error.next().unwrap().starts_with("use parameter_server:async"), "{error}");
            of(name, &TaskConfig::local()).unwrap();
            of(name, &config(0, 0, Role::Chief)).unwrap();
            of(name, &config(1, 1, Role::Evaluator)).unwrap();
        }
        of("multi_worker_mirrored", &config(0, 2, Role::Worker)).unwrap();
        of("parameter_server:sync", &config(2, 2, Role::Worker)).unwrap();
        assert_eq!(of("parameter_server", &config(0, 1, Role::Chief)).unwrap_err().code(), Code::ConfigIgnored);
    }
}

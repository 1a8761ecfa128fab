//! The strategy of a training, by its name.

use phalanx_base::{Code, Error, Result, Role, nearest};
use phalanx_cluster::TaskConfig;
use phalanx_cluster::schedule::Consistency;

const NAMES: [&str; 6] =
    ["default", "one_device", "mirrored", "central_storage", "multi_worker_mirrored", "parameter_server"];

/// The most replicas of a process.
const MOST_REPLICAS: usize = 1024;

/// How the trainers of a job work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Each trainer exchanges gradients and values with parameter servers, or with the store of a job of one process.
    Servers(Consistency),
    /// The replicas of one process share each batch; their gradients make one update.
    Replicas(usize),
    /// The workers of a cluster step together, each with a store and this many replicas of its own.
    Workers(usize),
}

impl Distribution {
    /// Returns the distribution of this name for the cluster of `task`, or the one that fits the cluster.
    pub(crate) fn of(name: Option<&str>, task: &TaskConfig) -> Result<Self> {
        let several = task.trainers().len() > 1;
        let Some(name) = name.filter(|name| *name != "auto") else {
            let alone = task.is_local() || !several || !task.ps_addresses().is_empty();
            return Ok(if alone { Self::Servers(Consistency::Async) } else { Self::Workers(1) });
        };
        let distribution = Self::parse(name, task.trainers().len().max(1) as u64)?;
        distribution.check(name, task)?;
        Ok(distribution)
    }

    /// Returns the distribution of this name for a job of this many trainers.
    pub(crate) fn parse(name: &str, trainers: u64) -> Result<Self> {
        let (kind, rest) = name.split_once(':').map_or((name, None), |(kind, rest)| (kind, Some(rest)));
        Ok(match kind {
            "parameter_server" => Self::Servers(Consistency::parse(rest.unwrap_or("async"), trainers)?),
            "multi_worker_mirrored" => Self::Workers(replicas(name, rest)?),
            // The only device is the CPU.
            "default" | "one_device" if rest.is_none_or(|device| kind == "one_device" && device.starts_with("cpu")) => {
                Self::Replicas(1)
            }
            "mirrored" | "central_storage" => Self::Replicas(replicas(name, rest)?),
            _ => {
                let error = Error::new(Code::BadSetting, format!("there is no strategy {name:?} for estimators"));
                return Err(match nearest(kind, NAMES).filter(|near| *near != kind) {
                    Some(near) => error.help(format!("did you mean {near}?")),
                    None => error.help(format!("choose one of {}", NAMES.join(", "))),
                });
            }
        })
    }

    /// Returns the number of replicas that evaluate a batch.
    pub(crate) fn of_evaluation(name: Option<&str>) -> Result<usize> {
        match Self::of(Some(name.unwrap_or("default")), &TaskConfig::local())? {
            Self::Replicas(replicas) => Ok(replicas),
            Self::Servers(_) | Self::Workers(_) => {
                let what = format!("the strategy {:?} does not evaluate", name.unwrap_or_default());
                Err(Error::new(Code::BadSetting, what)
                    .because("an evaluation is done by one process")
                    .help("use default, or mirrored:2"))
            }
        }
    }

    /// Fails if the strategy would ignore a part of the cluster: the job would seem to succeed.
    fn check(self, name: &str, task: &TaskConfig) -> Result<()> {
        let Some(own) = task.task().filter(|task| task.role != Role::Evaluator) else { return Ok(()) };
        let (servers, tasks) = (!task.ps_addresses().is_empty(), task.tasks().len());
        let why = match self {
            Self::Servers(_) if !servers && tasks > 1 => "the cluster has no parameter servers",
            Self::Replicas(_) if tasks > 1 => {
                "it trains within one process, so every task would train a separate model"
            }
            Self::Workers(_) if servers => {
                "its workers hold the model themselves, so parameter servers have nothing to do"
            }
            _ => return Ok(()),
        };
        let fits = if servers { "parameter_server:async" } else { "multi_worker_mirrored" };
        Err(Error::new(Code::ConfigIgnored, format!("the strategy {name} does not fit the cluster of TF_CONFIG"))
            .at(format!("{own} of a cluster of {tasks} tasks"))
            .because(why)
            .help(format!("use {fits}, or start the job with the tasks that {name} needs")))
    }

    /// Returns the number of replicas that share a batch.
    pub(crate) fn replicas(self) -> usize {
        match self {
            Self::Servers(_) => 1,
            Self::Replicas(replicas) | Self::Workers(replicas) => replicas,
        }
    }
}

fn replicas(name: &str, count: Option<&str>) -> Result<usize> {
    let Some(count) = count else { return Ok(1) };
    count.parse().ok().filter(|count| (1..=MOST_REPLICAS).contains(count)).ok_or_else(|| {
        Error::new(Code::BadSetting, format!("the strategy {name:?} has no number of replicas"))
            .help("write it after the colon, for example mirrored:2")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::TaskId;
    use phalanx_cluster::ClusterSpec;

    fn config(ps: usize, workers: usize) -> TaskConfig {
        let addresses =
            |base: usize, count: usize| (0..count).map(move |at| format!("h:{}", base + at)).collect::<Vec<_>>();
        let cluster = ClusterSpec::new().job("chief", ["h:1".to_owned()]).job("worker", addresses(10, workers));
        let cluster = if ps > 0 { cluster.job("ps", addresses(20, ps)) } else { cluster };
        TaskConfig::from_cluster(cluster, TaskId::new(Role::Chief, 0)).unwrap()
    }

    #[test]
    fn without_a_name_the_cluster_decides() {
        let of = |task: &TaskConfig| Distribution::of(None, task).unwrap();
        assert_eq!(of(&TaskConfig::local()), Distribution::Servers(Consistency::Async));
        assert_eq!(of(&config(1, 2)), Distribution::Servers(Consistency::Async));
        assert_eq!(of(&config(0, 2)), Distribution::Workers(1));
    }

    #[test]
    fn names_are_parsed_and_checked_against_the_cluster() {
        let of = |name: &str, task: &TaskConfig| Distribution::of(Some(name), task);
        let local = TaskConfig::local();
        for (name, expected) in [
            ("default", Distribution::Replicas(1)),
            ("one_device", Distribution::Replicas(1)),
            ("one_device:cpu", Distribution::Replicas(1)),
            ("mirrored:2", Distribution::Replicas(2)),
            ("central_storage:3", Distribution::Replicas(3)),
            ("multi_worker_mirrored", Distribution::Workers(1)),
            ("parameter_server", Distribution::Servers(Consistency::Async)),
            ("parameter_server:ssp:2", Distribution::Servers(Consistency::Bounded(2))),
        ] {
            assert_eq!(of(name, &local).unwrap(), expected, "{name}");
        }
        let sync = Distribution::Servers(Consistency::Rounds { size: 3, backups: 1 });
        assert_eq!(of("parameter_server:sync:1", &config(1, 2)).unwrap(), sync);
        for (name, task) in [("mirrored:2", config(1, 1)), ("multi_worker_mirrored", config(1, 1))] {
            let error = of(name, &task).unwrap_err();
            assert_eq!(error.code(), Code::ConfigIgnored, "{name}");
            assert!(error.next().unwrap().starts_with("use parameter_server:async"), "{error}");
        }
        assert_eq!(of("parameter_server:async", &config(0, 1)).unwrap_err().code(), Code::ConfigIgnored);
        assert_eq!(of("mirored:2", &local).unwrap_err().next(), Some("did you mean mirrored?"));
        for wrong in ["mirrored:0", "mirrored:x", "default:2", "one_device:cuda", "parameter_server:ssp"] {
            assert_eq!(of(wrong, &local).unwrap_err().code(), Code::BadSetting, "{wrong}");
        }
    }
}

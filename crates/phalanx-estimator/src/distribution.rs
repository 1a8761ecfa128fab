//! The strategy of an estimator.

use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::Consistency;
use phalanx_cluster::{ReplicaDevices, StrategyName, TaskConfig};
use phalanx_train::StrategyChoice;

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
    /// Returns the distribution of this name for the cluster of `task`; `auto` is the one that fits the cluster.
    pub(crate) fn named(name: &str, task: &TaskConfig) -> Result<Self> {
        let on_cpu = |device: &str| {
            if device == "cpu" || device.starts_with("cpu:") {
                return Ok(());
            }
            Err(Error::new(Code::BadSetting, format!("the strategy {name:?} computes on {device}"))
                .because("estimators compute on the CPU")
                .help("leave the device out, for example mirrored:2"))
        };
        let replicas = |devices: ReplicaDevices| on_cpu(&devices.device).map(|()| devices.count);
        Ok(match StrategyName::parse(name)?.for_cluster(task)? {
            StrategyName::ParameterServer(consistency) => {
                Self::Servers(Consistency::parse(&consistency, task.trainers().len().max(1) as u64)?)
            }
            StrategyName::MultiWorkerMirrored(devices) => Self::Workers(replicas(devices)?),
            StrategyName::Mirrored(devices) | StrategyName::CentralStorage(devices) => {
                Self::Replicas(replicas(devices)?)
            }
            StrategyName::OneDevice(device) => {
                on_cpu(&device)?;
                Self::Replicas(1)
            }
            StrategyName::Auto | StrategyName::Default => Self::Replicas(1),
        })
    }

    /// Returns the number of replicas that evaluate a batch.
    pub(crate) fn of_evaluation(choice: Option<&StrategyChoice>) -> Result<usize> {
        let (name, distribution) = match choice {
            None => return Ok(1),
            Some(StrategyChoice::Named(name)) => (name.as_str(), Self::named(name, &TaskConfig::local())?),
            Some(StrategyChoice::Given(strategy)) => {
                let replicas = strategy.num_replicas_in_sync();
                let alone = strategy.is_within_process();
                (strategy.name(), if alone { Self::Replicas(replicas) } else { Self::Workers(replicas) })
            }
        };
        match distribution {
            Self::Replicas(replicas) => Ok(replicas),
            Self::Servers(_) | Self::Workers(_) => {
                Err(Error::new(Code::BadSetting, format!("the strategy {name:?} does not evaluate"))
                    .because("an evaluation is done by one process")
                    .help("use default, or mirrored:2"))
            }
        }
    }

    /// Returns the number of replicas that share a batch.
    pub(crate) fn replicas(self) -> usize {
        match self {
            Self::Servers(_) => 1,
            Self::Replicas(replicas) | Self::Workers(replicas) => replicas,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::{Role, TaskId};
    use phalanx_cluster::ClusterSpec;
    use phalanx_train::Strategy;

    #[test]
    fn names_are_distributions_on_the_cpu() {
        let cluster = ClusterSpec::new().job("chief", ["h:1"]).job("worker", ["h:2", "h:3"]).job("ps", ["h:4"]);
        let cluster = TaskConfig::from_cluster(cluster, TaskId::new(Role::Chief, 0)).unwrap();
        let of = |name: &str| Distribution::named(name, &TaskConfig::local());
        for (name, expected) in [
            ("auto", Distribution::Replicas(1)),
            ("one_device:cpu:0", Distribution::Replicas(1)),
            ("mirrored:2", Distribution::Replicas(2)),
            ("central_storage:3", Distribution::Replicas(3)),
            ("multi_worker_mirrored", Distribution::Workers(1)),
            ("parameter_server:ssp:2", Distribution::Servers(Consistency::Bounded(2))),
        ] {
            assert_eq!(of(name).unwrap(), expected, "{name}");
        }
        let sync = Distribution::Servers(Consistency::Rounds { size: 3, backups: 1 });
        assert_eq!(Distribution::named("parameter_server:sync:1", &cluster).unwrap(), sync);
        for wrong in ["one_device:cuda", "mirrored:cuda:2", "mirrored:0", "parameter_server:sync:1"] {
            assert_eq!(of(wrong).unwrap_err().code(), Code::BadSetting, "{wrong}");
        }
    }

    #[test]
    fn one_process_evaluates() {
        let of = |choice: StrategyChoice| Distribution::of_evaluation(Some(&choice));
        assert_eq!(of("mirrored:2".into()).unwrap(), 2);
        assert_eq!(of(Strategy::mirrored(["cpu:0", "cpu:1"]).unwrap().into()).unwrap(), 2);
        assert_eq!(of("parameter_server".into()).unwrap_err().code(), Code::BadSetting);
    }
}

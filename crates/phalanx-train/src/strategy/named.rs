//! Strategies by name, for command lines.

use super::{Strategy, ignored};
use crate::ServerOptions;
use phalanx_base::{Code, Error, Result, nearest};
use phalanx_cluster::TaskConfig;

const NAMES: [&str; 5] = ["default", "one_device", "mirrored", "central_storage", "multi_worker_mirrored"];

impl Strategy {
    /// Creates the strategy of this name on devices of this kind: `default`, `one_device`, `mirrored:2`,
    /// `central_storage:2`, `multi_worker_mirrored`. The number is the replicas in this process. `auto` mirrors over the
    /// workers of the cluster, if there is one.
    ///
    /// ```
    /// use phalanx_cluster::TaskConfig;
    /// use phalanx_train::{ServerOptions, Strategy};
    /// let (alone, options) = (TaskConfig::from_tf_config(None)?, ServerOptions::default());
    /// assert_eq!(Strategy::named("mirrored:3", "cpu", &alone, &options)?.num_replicas_in_sync(), 3);
    /// assert_eq!(Strategy::named("auto", "cpu", &alone, &options)?.name(), "DefaultStrategy");
    /// let error = Strategy::named("mirored", "cpu", &alone, &options).unwrap_err();
    /// assert_eq!(error.next(), Some("did you mean mirrored?"));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the name is unknown, the strategy would ignore the cluster of `config`, or it cannot be created.
    pub fn named(name: &str, device: &str, config: &TaskConfig, options: &ServerOptions) -> Result<Self> {
        let (kind, count) = name.split_once(':').unwrap_or((name, "1"));
        let count: usize = count.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or_else(|| {
            Error::new(Code::BadSetting, format!("strategy {name:?} has no number of replicas"))
                .help("write it after the colon, for example mirrored:2")
        })?;
        // CPU slots are numbered from 0, GPUs from the one that was named.
        let (device, first) = device.split_once(':').unwrap_or((device, "0"));
        let first: usize = first.parse().unwrap_or(0);
        let devices: Vec<String> = (first..first + count).map(|number| format!("{device}:{number}")).collect();
        let devices = devices.iter().map(String::as_str);
        let strategy = match kind {
            "auto" if config.trainers().len() > 1 => Self::multi_worker_mirrored_on(devices, config, options),
            "auto" | "default" if device == "cpu" && count == 1 => Ok(Self::default()),
            "auto" | "default" | "one_device" if count == 1 => Self::one_device(&format!("{device}:{first}")),
            "auto" | "mirrored" => Self::mirrored(devices),
            "central_storage" => Self::central_storage(devices),
            "multi_worker_mirrored" => Self::multi_worker_mirrored_on(devices, config, options),
            _ => {
                let error = Error::new(Code::BadSetting, format!("there is no strategy {name:?}"));
                Err(match nearest(kind, NAMES) {
                    Some(near) => error.help(format!("did you mean {near}?")),
                    None => error.help(format!("choose one of auto, {}", NAMES.join(", "))),
                })
            }
        }?;
        if strategy.workers().is_none() {
            ignored::check(strategy.name(), config)?;
        }
        Ok(Self { interrupt: options.interrupt.clone(), ..strategy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interrupt;
    use crate::fit::{Compile, Fit, Verbose};
    use phalanx_base::{Role, TaskId};
    use phalanx_cluster::ClusterSpec;
    use phalanx_data::Column;
    use phalanx_nn::model::{Dense, Sequential};
    use phalanx_optim::Sgd;

    #[test]
    fn a_strategy_stops_when_its_process_is_asked_to() {
        let options = ServerOptions { interrupt: Interrupt::terminated(), ..ServerOptions::default() };
        let strategy = Strategy::named("mirrored:2", "cpu", &TaskConfig::local(), &options).unwrap();
        let model = || strategy.scope(|| Sequential::new().add(Dense::new(1)).build([1])).unwrap();
        let mut custom_loop = model().optimizer(Sgd::new(0.1)).unwrap();
        let inputs = strategy.values_from_function(Ok).unwrap();
        let error = strategy.run(&mut custom_loop, inputs, |_, _| Ok(())).err().unwrap();
        assert_eq!(error.code(), Code::Terminated);
        let mut fitted = model().compile(Sgd::new(0.1), "mse", [""; 0]).unwrap();
        let x = Column::f32(vec![1.0; 64]).with_row_shape([1]).unwrap();
        let fit = Fit::epochs(1000).batch_size(8).verbose(Verbose::Silent);
        let error = fitted.fit((x, Column::f32(vec![1.0; 64])), fit).err().unwrap();
        assert_eq!((error.code(), fitted.iterations()), (Code::Terminated, 1));
    }

    #[test]
    fn a_name_that_ignores_the_cluster_is_refused() {
        let cluster = ClusterSpec::new().job("chief", ["127.0.0.1:1"]).job("ps", ["127.0.0.1:2"]);
        let config = TaskConfig::from_cluster(cluster, TaskId::new(Role::Ps, 0)).unwrap();
        for name in ["auto", "default", "one_device", "mirrored:2", "central_storage:2"] {
            let error = Strategy::named(name, "cpu", &config, &ServerOptions::default()).err().unwrap();
            assert_eq!(error.code(), Code::ConfigIgnored, "{name}");
        }
    }
}

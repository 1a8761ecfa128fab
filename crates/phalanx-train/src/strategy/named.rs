//! Strategies by name, for command lines and job files.

use super::{ParameterServerOptions, Strategy, ignored};
use crate::{ClusterResolver, ServerOptions, TfConfigClusterResolver};
use phalanx_base::{Code, Error, Result, nearest};
use phalanx_cluster::TaskConfig;

const NAMES: [&str; 6] =
    ["default", "one_device", "mirrored", "central_storage", "multi_worker_mirrored", "parameter_server"];

impl Strategy {
    /// Creates the strategy of this name for the task of `TF_CONFIG`:
    ///
    /// | name | strategy |
    /// | --- | --- |
    /// | `default` | one replica on the CPU |
    /// | `one_device:cuda:0` | one replica on that device |
    /// | `mirrored:2`, `mirrored:cuda:2` | as many replicas, in one process |
    /// | `central_storage:2` | as many replicas, variables in CPU memory |
    /// | `multi_worker_mirrored` | a replica, or as many as a number says, in every worker |
    /// | `parameter_server:async`, `…:ssp:3`, `…:sync:1` | variables on parameter servers, with this [consistency](ParameterServerOptions::consistency) |
    /// | `auto` | what the cluster needs, as [`Strategy::from_env`] |
    ///
    /// # Errors
    /// Fails if the name is unknown, `TF_CONFIG` is invalid, the strategy would ignore its cluster, or it cannot be
    /// created.
    pub fn named(name: &str) -> Result<Self> {
        crate::logging::init();
        Self::named_for(name, &TfConfigClusterResolver.resolve()?, &ServerOptions::from_env()?)
    }

    /// Creates the strategy that the cluster of `TF_CONFIG` needs: parameter servers if it has them, mirrored workers if
    /// it has only workers, and the default without a cluster.
    ///
    /// # Errors
    /// As [`Strategy::named`].
    pub fn from_env() -> Result<Self> {
        Self::named("auto")
    }

    /// As [`Strategy::named`], for this task and with these settings instead of those of the environment.
    ///
    /// ```
    /// use phalanx_cluster::TaskConfig;
    /// use phalanx_train::{ServerOptions, Strategy};
    /// let (alone, options) = (TaskConfig::local(), ServerOptions::default());
    /// assert_eq!(Strategy::named_for("mirrored:3", &alone, &options)?.num_replicas_in_sync(), 3);
    /// assert_eq!(Strategy::named_for("auto", &alone, &options)?.name(), "DefaultStrategy");
    /// let error = Strategy::named_for("mirored", &alone, &options).unwrap_err();
    /// assert_eq!(error.next(), Some("did you mean mirrored?"));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Strategy::named`].
    pub fn named_for(name: &str, config: &TaskConfig, options: &ServerOptions) -> Result<Self> {
        let (kind, rest) = name.split_once(':').map_or((name, None), |(kind, rest)| (kind, Some(rest)));
        let kind = match (kind, rest) {
            ("auto", None) if !config.ps_addresses().is_empty() => "parameter_server",
            ("auto", None) if config.trainers().len() > 1 => "multi_worker_mirrored",
            ("auto", None) => "default",
            _ => kind,
        };
        let strategy = match kind {
            "default" if rest.is_none() => Self::default(),
            "one_device" => Self::one_device(rest.unwrap_or("cpu"))?,
            "mirrored" => Self::mirrored(devices(name, rest)?.iter().map(String::as_str))?,
            "central_storage" => Self::central_storage(devices(name, rest)?.iter().map(String::as_str))?,
            "multi_worker_mirrored" => {
                let devices = devices(name, rest)?;
                Self::multi_worker_mirrored_on(devices.iter().map(String::as_str), config, options)?
            }
            "parameter_server" => {
                let consistency = rest.unwrap_or("async").to_owned();
                let settings = ParameterServerOptions { consistency, ..ParameterServerOptions::default() };
                Self::parameter_server(config, options, settings)?
            }
            _ => return Err(unknown(name, kind)),
        };
        if strategy.workers().is_none() && strategy.servers().is_none() {
            ignored::check(strategy.name(), config)?;
        }
        Ok(Self { interrupt: options.interrupt.clone(), ..strategy })
    }
}

/// Returns the devices of `2`, `cuda` or `cuda:2`: CPU slots and GPUs are numbered from 0.
fn devices(name: &str, rest: Option<&str>) -> Result<Vec<String>> {
    let rest = rest.unwrap_or("1");
    let (device, count) = match rest.rsplit_once(':') {
        Some((device, count)) => (device, count),
        None if rest.starts_with(|c: char| c.is_ascii_digit()) => ("cpu", rest),
        None => (rest, "1"),
    };
    let count: usize = count.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or_else(|| {
        Error::new(Code::BadSetting, format!("strategy {name:?} has no number of replicas"))
            .help("write it after the colon, for example mirrored:2")
    })?;
    Ok((0..count).map(|number| format!("{device}:{number}")).collect())
}

fn unknown(name: &str, kind: &str) -> Error {
    let error = Error::new(Code::BadSetting, format!("there is no strategy {name:?}"));
    match nearest(kind, NAMES).filter(|near| *near != kind) {
        Some(near) => error.help(format!("did you mean {near}?")),
        None => error.help(format!("choose one of auto, {}", NAMES.join(", "))),
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
        let strategy = Strategy::named_for("mirrored:2", &TaskConfig::local(), &options).unwrap();
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
        for name in ["default", "one_device", "mirrored:2", "central_storage:2"] {
            let error = Strategy::named_for(name, &config, &ServerOptions::default()).err().unwrap();
            assert_eq!(error.code(), Code::ConfigIgnored, "{name}");
        }
    }

    #[test]
    fn a_name_says_how_many_replicas_on_which_devices() {
        assert_eq!(devices("mirrored", None).unwrap(), ["cpu:0"]);
        assert_eq!(devices("mirrored:2", Some("2")).unwrap(), ["cpu:0", "cpu:1"]);
        assert_eq!(devices("mirrored:cuda", Some("cuda")).unwrap(), ["cuda:0"]);
        assert_eq!(devices("mirrored:cuda:2", Some("cuda:2")).unwrap(), ["cuda:0", "cuda:1"]);
        for wrong in ["0", "2:x", "cuda:0", "1025", ":"] {
            assert!(devices(wrong, Some(wrong)).is_err(), "{wrong}");
        }
        let options = ServerOptions::default();
        for wrong in ["default:2", "parameter_server:often", "parameter_server:ssp", "auto:2", "mirrored:-1", ""] {
            assert_eq!(
                Strategy::named_for(wrong, &TaskConfig::local(), &options).err().unwrap().code(),
                Code::BadSetting,
                "{wrong}"
            );
        }
    }
}

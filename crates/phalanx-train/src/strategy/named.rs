//! Strategies by name, for command lines and job files.

use super::{ParameterServerOptions, Strategy};
use crate::{ClusterResolver, ServerOptions, TfConfigClusterResolver};
use phalanx_base::Result;
use phalanx_cluster::{StrategyName, TaskConfig};

impl Strategy {
    /// Creates the strategy of this [name](StrategyName) for the task of `TF_CONFIG`: `default`, `one_device:cuda:0`,
    /// `mirrored:2`, `central_storage:2`, `multi_worker_mirrored`, `parameter_server:async`, `parameter_server:ssp:3`,
    /// `parameter_server:sync:1`, or `auto` for what the cluster needs.
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
        let strategy = match StrategyName::parse(name)?.for_cluster(config)? {
            StrategyName::Default | StrategyName::Auto => Self::default(),
            StrategyName::OneDevice(device) => Self::one_device(&device)?,
            StrategyName::Mirrored(replicas) => Self::mirrored(replicas.names().iter().map(String::as_str))?,
            StrategyName::CentralStorage(replicas) => {
                Self::central_storage(replicas.names().iter().map(String::as_str))?
            }
            StrategyName::MultiWorkerMirrored(replicas) => {
                Self::multi_worker_mirrored_on(replicas.names().iter().map(String::as_str), config, options)?
            }
            StrategyName::ParameterServer(consistency) => {
                let settings = ParameterServerOptions { consistency, ..ParameterServerOptions::default() };
                Self::parameter_server(config, options, settings)?
            }
        };
        strategy.report_to(options, config);
        Ok(Self { interrupt: options.interrupt.clone(), ..strategy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interrupt;
    use crate::fit::{Compile, Fit, Verbose};
    use phalanx_base::{Code, Role, TaskId};
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
        let rows = || (x.clone(), Column::f32(vec![1.0; 64]));
        let error = fitted.fit(rows(), fit).err().unwrap();
        assert_eq!((error.code(), fitted.iterations()), (Code::Terminated, 1));
        let error = fitted.evaluate(rows(), Fit::default().verbose(Verbose::Silent)).err().unwrap();
        assert_eq!(error.code(), Code::Terminated);
        assert_eq!(fitted.predict(x.clone()).err().unwrap().code(), Code::Terminated);
        // A notebook makes further calls.
        options.interrupt.clear();
        assert!(fitted.predict(x).is_ok());
    }

    #[test]
    fn a_name_that_cannot_be_used_is_refused() {
        let cluster = ClusterSpec::new().job("chief", ["127.0.0.1:1"]).job("ps", ["127.0.0.1:2"]);
        let config = TaskConfig::from_cluster(cluster, TaskId::new(Role::Ps, 0)).unwrap();
        let of = |name: &str, config: &TaskConfig| {
            Strategy::named_for(name, config, &ServerOptions::default()).err().unwrap().code()
        };
        assert_eq!(of("mirrored:2", &config), Code::ConfigIgnored);
        assert_eq!(of("mirrored:0", &TaskConfig::local()), Code::BadSetting);
        assert_eq!(of("one_device:abacus", &TaskConfig::local()), Code::BadSetting);
    }
}

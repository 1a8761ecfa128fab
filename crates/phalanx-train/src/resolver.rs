//! Cluster resolvers, under TensorFlow's names: which task of which cluster this process is.

use crate::logging;
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_cluster::{ClusterSpec, Flags, TaskConfig};
use std::ffi::OsString;

/// Knows the cluster and which task of it this process is. [`Server::resolved`](crate::Server::resolved) starts the task.
pub trait ClusterResolver {
    /// Returns the cluster, and which task of it this process is.
    ///
    /// # Errors
    /// When the configuration is wrong.
    fn resolve(&self) -> Result<TaskConfig>;
}

/// Resolves `TF_CONFIG`; without it, this process is the whole job. `PHALANX_OUTPUT_DIR`, which `phalanx launch` sets, is the
/// run directory of a program that chooses none.
///
/// ```
/// use phalanx_train::{ClusterResolver, Server, ServerOptions, TfConfigClusterResolver};
/// if std::env::var_os("TF_CONFIG").is_none() {
///     assert!(TfConfigClusterResolver.resolve()?.is_local());
/// }
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TfConfigClusterResolver;

impl TfConfigClusterResolver {
    /// Returns the text of `TF_CONFIG`; `None` where the variable is not set. Nothing else reads the variable.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn text() -> Result<Option<String>> {
        let not_text = |_| Error::new(Code::ConfigSyntax, "TF_CONFIG is not JSON").because("it is not UTF-8");
        std::env::var_os("TF_CONFIG").map(|text| text.into_string().map_err(not_text)).transpose()
    }
}

impl ClusterResolver for TfConfigClusterResolver {
    fn resolve(&self) -> Result<TaskConfig> {
        Ok(TaskConfig::from_tf_config(Self::text()?.as_deref())?.with_output_dir(offered_dir()))
    }
}

/// Resolves to a cluster that the program knows.
///
/// ```
/// use phalanx_base::{Role, TaskId};
/// use phalanx_cluster::ClusterSpec;
/// use phalanx_train::{ClusterResolver, SimpleClusterResolver};
/// let cluster = ClusterSpec::new()
///     .job("chief", ["10.0.0.1:2222"])
///     .job("ps", ["10.0.0.2:2222"])
///     .job("worker", ["10.0.0.3:2222"]);
/// let resolver = SimpleClusterResolver::new(cluster, TaskId::new(Role::Worker, 0));
/// assert_eq!(resolver.resolve()?.trainers().len(), 2);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimpleClusterResolver {
    cluster: ClusterSpec,
    task: TaskId,
}

impl SimpleClusterResolver {
    /// Resolves to this task of that cluster.
    #[must_use]
    pub fn new(cluster: ClusterSpec, task: TaskId) -> Self {
        Self { cluster, task }
    }
}

impl ClusterResolver for SimpleClusterResolver {
    fn resolve(&self) -> Result<TaskConfig> {
        TaskConfig::from_cluster(self.cluster.clone(), self.task)
    }
}

/// Returns which task of which cluster this process is, and the arguments that are left for the program's own parser.
///
/// The flags `--ps_hosts --worker_hosts --job_name --task_index` name the task; without them `TF_CONFIG` does, and without both
/// this process is the whole job. Where both are given, the flags win, and a warning is logged. The returned arguments begin with
/// the name of the program, so that `Args::parse_from(rest)` of `clap` takes them.
///
/// ```no_run
/// let (task, rest) = phalanx_train::task_from_args_or_env()?;
/// # let _ = (task, rest);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When flags or `TF_CONFIG` are not valid.
pub fn task_from_args_or_env() -> Result<(TaskConfig, Vec<OsString>)> {
    let (flags, rest) = Flags::take_from(std::env::args_os())?;
    let config = TaskConfig::from_flags_or_tf_config(&flags, TfConfigClusterResolver::text()?.as_deref())?;
    let config = config.with_output_dir(offered_dir());
    logging::log_warnings(&config);
    Ok((config, rest))
}

/// Returns the run directory that a launcher offers to programs that choose none.
fn offered_dir() -> Option<String> {
    std::env::var(phalanx_run::OUTPUT_DIR_VAR).ok().filter(|dir| !dir.is_empty())
}

//! Distributed training: tasks and their membership, the worker's loop, the supervisor, the coordinator, checkpoints.
//!
//! | read | for |
//! | --- | --- |
//! | [`Server`] | a task: it listens, joins the job, and ends with it |
//! | [`Trainer`] | a training in a few calls: a model, its tables, a loss, a metric |
//! | [`Session`] | the worker's loop: pull values, compute, push gradients |
//! | [`Supervisor`] | initialising the model, waiting for it, stopping |
//! | [`Strategy::coordinate`], [`Coordinator`] | steps that a chief hands to whichever worker is free |
//! | [`Strategy`], [`fit`] | replicas that learn together; Keras' four verbs |
//! | [`SidecarEvaluator`] | a task that evaluates checkpoints beside a job |
//! | [`checkpoint`] | saving, keeping and restoring a job |
//! | [`SummaryWriter`] | what TensorBoard shows |
//! | [`saved_model`] | models as TensorFlow loads them |
//! | [`MiniCluster`] | a job inside one process, for tests and first steps |
//! | [`logging`] | the log of a task |

mod batch_tensors;
pub mod checkpoint;
mod checkpoint_options;
mod coordinator;
mod durability;
pub mod fit;
mod heartbeat;
mod host_tensor;
mod identity;
mod interrupt;
mod job;
pub mod job_state;
mod local;
pub mod logging;
mod membership;
mod mini_cluster;
mod options;
mod own_host;
mod placement;
mod preprocessing;
mod resolver;
mod run_dir;
pub mod saved_model;
mod server;
mod services;
mod session;
mod sidecar;
mod status;
mod strategy;
mod summary;
mod supervisor;
mod table_id;
mod tables;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trainer;

pub use batch_tensors::BatchTensors;
pub use coordinator::{
    Coordinator, DatasetHandle, DatasetPart, Handle, MetricHandle, PerWorker, RemoteValue, ResourceHandle,
    ShardedVariable, Staleness, StepContext, StepFunctions, StepHandle, VariableShard,
};
pub use host_tensor::HostTensor;
pub use identity::build_fingerprint;
pub use interrupt::Interrupt;
pub use mini_cluster::MiniCluster;
pub use options::ServerOptions;
pub use own_host::misplaced_task;
pub use preprocessing::{Preprocess, Preprocessing};
pub use resolver::{ClusterResolver, SimpleClusterResolver, TfConfigClusterResolver, task_from_args_or_env};
pub use run_dir::open_run_dir;
pub use server::Server;
pub use session::{
    BoundedStaleness, IntoLoss, IntoStep, NonFinite, RowValues, Session, Step, StepGradients, SyncReplicas,
};
pub use sidecar::SidecarEvaluator;
pub use strategy::{
    Coordinated, DistributedDataset, DistributedSteps, Gradient, IntoSupervisor, ParameterServerOptions, PerReplica,
    Reducible, Replica, Replicated, Strategy, StrategyChoice, StrategyTask, WorkerGroup,
};
pub use summary::{Picture, SummaryWriter};

pub use phalanx_collective::Reduce;
pub use phalanx_wal::Durability;
pub use phalanx_wire::Token;
pub use supervisor::Supervisor;
pub use table_id::TableId;
pub use tables::RowReader;
pub use trainer::{BatchRows, IntoPredictions, Table, Trained, Trainer};

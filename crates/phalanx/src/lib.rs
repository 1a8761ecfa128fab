//! Phalanx trains one model with many processes. This is the crate that programs depend on.
//!
//! The same program can be any task of a job: `TF_CONFIG` or flags name the task. Without them the process is the whole job.
//! [`job`] runs it: parameter servers serve, the chief and the workers train, signals save, and an error reaches every task.
//!
//! ```no_run
//! use phalanx::burn::{nn::LinearConfig, tensor::Tensor};
//! use phalanx::metrics::SparseCategoricalAccuracy;
//! use phalanx::prelude::*;
//!
//! fn main() -> std::process::ExitCode {
//!     phalanx::job(|task| {
//!         let model = LinearConfig::new(784, 10).init(&default_device());
//!         let mut trainer = task.trainer(model, Sgd::new(0.5)).model_dir("runs/mnist")?;
//!         let images = |batch: &Batch| -> phalanx::Result<Tensor<2>> {
//!             Ok(batch.tensor::<3>("image", &default_device())?.flatten(1, 2))
//!         };
//!         let loss = Loss::sparse_categorical_crossentropy().from_logits();
//!         let train = phalanx::data::mnist_train("mnist").scaled("image").shuffle(60_000).repeat().batch(100);
//!         trainer.train(train, 2000, |model, _, batch| {
//!             let logits = model.forward(images(batch)?);
//!             Ok(loss.forward(batch.labels("label", &logits)?, logits)?.mean())
//!         })?;
//!         let test = phalanx::data::mnist_test("mnist").scaled("image").batch(1000);
//!         let accuracy = SparseCategoricalAccuracy::new();
//!         let accuracy = trainer.evaluate(test, accuracy, |model, _, batch| Ok(model.forward(images(batch)?)))?;
//!         eprintln!("{}: accuracy {accuracy:.4}", task.task()); // the same in every task
//!         Ok(())
//!     })
//! }
//! ```
//!
//! The loop can be written out, as programs with `tf.train.Supervisor` do:
//!
//! ```no_run
//! use phalanx::prelude::*;
//! # use phalanx::burn::{nn::{Linear, LinearConfig}, tensor::Tensor};
//! # fn model() -> Linear { LinearConfig::new(2, 1).init(&default_device()) }
//! # fn loss(model: &Linear) -> Tensor<1> { model.forward(Tensor::<2>::ones([4, 2], &default_device())).mean() }
//!
//! fn main() -> std::process::ExitCode {
//!     phalanx::job(|task| {
//!         let supervisor = Supervisor::new(task, Sgd::new(0.5));
//!         let mut session = supervisor.prepare_or_wait_for_session(model())?;
//!         session.stop_at(1000);
//!         while session.step(|model| loss(model))?.is_some() {}
//!         supervisor.stop(session)
//!     })
//! }
//! ```
//!
//! Input comes from files, in named columns ([`data`]):
//!
//! ```no_run
//! use phalanx::data::{csv, mnist_train};
//! use phalanx::prelude::*;
//! # fn train() -> phalanx::Result<()> {
//! # let server = Server::local()?;
//! let people = csv("census/adult.data")
//!     .header(false)
//!     .names(["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
//!         "race", "gender", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"])
//!     .trim(true)
//!     .label("income");
//! let share = server.share(&people.shuffle(10_000))?; // every row goes to exactly one trainer
//! for batch in share.batch(128).iter()? {
//!     let batch = batch?;
//!     let (ages, incomes) = (batch.i64("age")?, batch.bytes("income")?);
//!     # let _ = (ages, incomes);
//! }
//! let digits = mnist_train("mnist").repeat().batch(100); // "image" and "label"
//! # let _ = digits;
//! # Ok(())
//! # }
//! ```

mod exit;
#[cfg(doctest)]
mod guide;
mod job;

pub use exit::exit;
pub use job::{check_no_arguments, job, job_with_args, job_with_flags};
pub use phalanx_base::{Address, Code, Error, Fault, Incarnation, Result, Role, Shape, TaskId};
pub use phalanx_cluster::{AppFlags, ClusterSpec, Flags, TaskConfig};
pub use phalanx_data as data;
pub use phalanx_estimator as estimator;
pub use phalanx_feature as feature_column;
pub use phalanx_nn::{
    HostBuffer, Network, Precision, all_finite, burn, default_device, device, fused_dense, losses, matmul, metrics,
    model, scalar, with_threads,
};
pub use phalanx_storage as storage;
pub use phalanx_train::fit::{self, callbacks};
pub use phalanx_train::{
    BatchRows, DistributedDataset, Gradient, HostTensor, IntoLoss, IntoPredictions, IntoStep, MiniCluster,
    ParameterServerOptions, PerReplica, Picture, Replica, Replicated, RowValues, Server, ServerOptions, Session,
    Strategy, SummaryWriter, Supervisor, Table, TableId, Token, Trained, Trainer, checkpoint, logging,
    task_from_args_or_env,
};

/// The coordinator of a job with parameter servers, which schedules steps on workers ([`Strategy::coordinate`](crate::Strategy::coordinate)).
pub mod coordinator {
    pub use phalanx_train::{
        ClusterResolver, Coordinated, Coordinator, DatasetHandle, DatasetPart, Handle, IntoSupervisor, MetricHandle,
        PerWorker, RemoteValue, ResourceHandle, ShardedVariable, SidecarEvaluator, SimpleClusterResolver, Staleness,
        StepContext, StepFunctions, StepHandle, TfConfigClusterResolver, VariableShard, misplaced_task,
    };
}

#[doc = include_str!("from_tensorflow.md")]
pub mod from_tensorflow {}

/// Layers with Keras' names and defaults.
pub mod layers {
    pub use phalanx_train::{Preprocess, Preprocessing};

    pub use phalanx_nn::model::{
        Activation, Add, Average, AveragePooling2D, BatchNormalization, Concatenate, Conv2D, Dense, Dot, Dropout,
        Embedding, Flatten, Function, GlobalAveragePooling2D, Initializer, Input, Layer, LayerNormalization,
        MaxPooling2D, Maximum, Minimum, Multiply, Padding, Reshape, Subtract,
    };
}

/// Optimizers, learning-rate schedules and gradient clipping.
pub mod optimizers {
    pub use phalanx_optim::{Adagrad, Adam, AdamW, Ftrl, Momentum, Optimizer, OptimizerChoice, RmsProp, Sgd};
    pub use phalanx_optim::{Clip, CosineDecay, ExponentialDecay, PiecewiseConstantDecay, PolynomialDecay, Schedule};
}

/// The items that most programs need.
pub mod prelude {
    pub use crate::{default_device, losses, task_from_args_or_env, task_from_env, with_threads};
    pub use phalanx_base::{Code, Error, Role, TaskId};
    pub use phalanx_cluster::{ClusterSpec, Flags, TaskConfig};
    pub use phalanx_data::{Batch, Column, Dataset, SourceExt, csv};
    pub use phalanx_estimator::{
        BaselineClassifier, BaselineRegressor, DeepFmClassifier, DlrmClassifier, DnnClassifier, DnnRegressor,
        Estimator, EstimatorSpec, EvalMetric, EvalSpec, Evaluation, Exporter, FmClassifier, FmRegressor, Head,
        LinearClassifier, LinearRegressor, MfRegressor, ModelFn, ModelInput, RunConfig, TrainSpec, TrainSteps,
        WarmStart, WideDeepClassifier, WideDeepRegressor, train_and_evaluate,
    };
    pub use phalanx_feature::{
        Combiner, CrossKey, FeatureColumn, bucketized_column, categorical_column_with_hash_bucket,
        categorical_column_with_identity, categorical_column_with_vocabulary_file,
        categorical_column_with_vocabulary_list, crossed_column, embedding_column, indicator_column, numeric_column,
        shared_embeddings, weighted_categorical_column,
    };
    pub use phalanx_nn::losses::Loss;
    pub use phalanx_nn::model::{Function, Mode, Model, Sequential};
    pub use phalanx_nn::{Network, Rows};
    pub use phalanx_optim::{Adagrad, Adam, AdamW, Ftrl, Momentum, Optimizer, RmsProp, Sgd};
    pub use phalanx_optim::{Clip, CosineDecay, ExponentialDecay, PiecewiseConstantDecay, PolynomialDecay, Schedule};
    pub use phalanx_ps::plan::RowInitializer;
    pub use phalanx_ps::{Partitioner, Placement, TableSpec};
    pub use phalanx_train::fit::{Compile, Compiled, Fit, History, Verbose};
    pub use phalanx_train::{
        BatchTensors, HostTensor, Interrupt, MiniCluster, NonFinite, ParameterServerOptions, Reduce, Server,
        ServerOptions, Session, Step, Strategy, Supervisor, SyncReplicas, Table, Trained, Trainer,
    };
}

/// Returns the task that `TF_CONFIG` names, or a local job without it.
///
/// # Errors
/// Fails if `TF_CONFIG` is not valid.
pub fn task_from_env() -> Result<TaskConfig> {
    let config = coordinator::ClusterResolver::resolve(&coordinator::TfConfigClusterResolver)?;
    phalanx_train::logging::log_warnings(&config);
    Ok(config)
}

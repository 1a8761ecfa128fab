//! TensorFlow's Estimators: describe columns, choose a model, train it in every role of a job.
//!
//! | read | for |
//! | --- | --- |
//! | [`Estimator`] | `train`, `evaluate`, `predict`, `export_saved_model` |
//! | [`LinearClassifier`], [`DnnClassifier`], [`WideDeepClassifier`], [`BaselineClassifier`] and their regressors | TensorFlow's canned models |
//! | [`DeepFmClassifier`], [`DlrmClassifier`] | click models that TensorFlow's Estimator does not have |
//! | [`Head`] | losses, metrics and predictions from logits |
//! | [`ModelFn`], [`EstimatorSpec`] | your own model, loss, metrics, predictions and tables |
//! | [`train_and_evaluate`] with [`TrainSpec`] and [`EvalSpec`] | the same program in every role of a job |
//! | [`Exporter`], [`EarlyStopping`], [`WarmStart`], [`Hook`] | exports, early stopping, warm starts, hooks |
//! | [`RunConfig`] | the run directory, checkpoint settings, and the identity of this task |
//!
//! Defaults, names of variables, losses and metrics are those of TensorFlow 2.15's `tf.estimator`. Categorical columns
//! are embedding tables on the parameter servers (also in a single process): a step exchanges only the rows that its
//! batch contains.

mod canned;
mod compatibility;
mod conversion;
mod distribution;
mod early_stopping;
mod estimator;
mod evaluation;
mod evaluator;
mod export;
mod exporter;
mod fork;
mod head;
mod hook;
mod importance;
mod input;
mod model;
mod model_fn;
mod model_summary;
mod replicas;
mod run_config;
mod specs;
mod train_and_evaluate;
mod trained;
mod training;
mod training_task;
mod variables;
mod warm_start;

pub use canned::{
    BaselineClassifier, BaselineRegressor, Canned, CannedInput, DeepFmClassifier, DlrmClassifier, DnnClassifier,
    DnnRegressor, FmClassifier, FmRegressor, LinearClassifier, LinearRegressor, MfRegressor, WideDeepClassifier,
    WideDeepRegressor,
};
pub use conversion::{Converted, EstimatorNames};
pub use early_stopping::EarlyStopping;
pub use estimator::{Estimator, Predictions};
pub use evaluation::Evaluation;
pub use export::{Exported, Served, ServingInput};
pub use exporter::Exporter;
pub use head::{Evaluated, Head};
pub use hook::{Control, Hook, HookContext};
pub use importance::{Importance, Importances, Permutation};
pub use model::{IntoModel, StepPart, Table, Trainable};
pub use model_fn::{CustomInput, CustomModel, EstimatorSpec, ModelFn, ModelInput};
pub use model_summary::{ColumnSummary, ColumnWidth, ModelSummary, VariableSummary};
pub use phalanx_nn::metrics::{EvalMetric, Reduction};
pub use phalanx_ps::{Partitioner, Placement};
pub use phalanx_train::StrategyChoice;
pub use run_config::RunConfig;
pub use specs::{EvalSpec, EvalSpecs, TrainSpec};
pub use train_and_evaluate::{Report, train_and_evaluate};
pub use training::{Ended, TrainSteps, Training};
pub use warm_start::WarmStart;

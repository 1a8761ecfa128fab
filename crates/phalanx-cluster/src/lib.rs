//! Cluster configuration from `TF_CONFIG` or flags, the roster of tasks, and the coordinator's scheduler.
//!
//! Pure: texts are passed in, nothing is read from the environment, nothing is dialled. Read [`TaskConfig`] first, the
//! configuration of a task. [`EstimatorConfig`] and [`DistributeConfig`] return what TensorFlow's two readers of `TF_CONFIG`
//! make of the same text. They accept what TensorFlow accepts, and add a [`Warning`] where it silently accepts a likely
//! mistake. [`ClusterSpec`] is the map of jobs that all of them share.
//!
//! Deliberately stricter than TensorFlow: a text of more than 1 MiB or 64 levels; an index beyond 64 bits; in a sparse
//! job a negative index, or one beyond [`ClusterSpec::MAX_INDEX`].
//!
//! Inside: `parse` builds a tree of `node`s with spans, `document` points errors into the text, `estimator` (with its
//! `checks` and `derive`d values) and `distribute` hold the rules, `lints` the warnings, `python` Python's conversions.

mod app_flags;
mod arguments;
mod awake;
mod checks;
mod derive;
mod distribute;
mod document;
mod estimator;
mod flags;
mod json;
mod lints;
mod node;
mod parse;
mod python;
mod roster;
pub mod schedule;
mod spec;
mod strategy_name;
mod task_config;
mod warning;

pub use app_flags::AppFlags;
pub use awake::AwakeClock;
pub use distribute::DistributeConfig;
pub use estimator::EstimatorConfig;
pub use flags::Flags;
pub use json::Json;
pub use roster::{MemberState, Phase, Roster, RosterEvent};
pub use spec::{ClusterSpec, JobTasks};
pub use strategy_name::{ReplicaDevices, StrategyName};
pub use task_config::TaskConfig;
pub use warning::Warning;

//! Who is in the job and who am I: `TF_CONFIG`, flags, and what follows from them.
//!
//! Pure: texts are passed in, nothing is read from the environment, nothing is dialled. Read [`TaskConfig`] first, which
//! is what a task runs with. [`EstimatorConfig`] and [`DistributeConfig`] say what TensorFlow's two readers of
//! `TF_CONFIG` make of the same text; they accept what TensorFlow accepts, and say as a [`Warning`] what it keeps
//! silent about. [`ClusterSpec`] is the map of jobs that all of them share.
//!
//! Where these are narrower than TensorFlow, on purpose: a text of more than 1 MiB or 64 levels; an index beyond 64
//! bits; in a sparse job a negative index, or one beyond [`ClusterSpec::MAX_INDEX`].
//!
//! Inside: `parse` makes a tree of `node`s that know their place, `document` points errors into the text, `estimator`
//! (with its `checks` and what it can `derive`) and `distribute` hold the rules, `traps` what deserves a warning,
//! `python` how Python converts.

mod awake;
mod checks;
mod derive;
mod distribute;
mod document;
mod estimator;
mod flags;
mod json;
mod node;
mod parse;
mod python;
mod roster;
pub mod schedule;
mod spec;
mod task_config;
mod traps;
mod warning;

pub use awake::AwakeClock;
pub use distribute::DistributeConfig;
pub use estimator::EstimatorConfig;
pub use flags::Flags;
pub use json::Json;
pub use roster::{Mood, Phase, Roster, RosterEvent};
pub use spec::{ClusterSpec, JobTasks};
pub use task_config::TaskConfig;
pub use warning::Warning;

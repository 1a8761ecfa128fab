//! Keras' `compile`, `fit`, `evaluate` and `predict`, under any [`Strategy`](crate::Strategy).
//!
//! ```
//! use phalanx_data::Column;
//! use phalanx_nn::model::{Dense, Sequential};
//! use phalanx_optim::Sgd;
//! use phalanx_train::fit::{Compile, Fit, Verbose};
//! let x = Column::f32((0..100).map(|i| i as f32 / 100.0).collect()).with_row_shape([1])?;
//! let y = Column::f32((0..100).map(|i| 3.0 * i as f32 / 100.0 + 1.0).collect());
//! let mut model = Sequential::new().add(Dense::new(1)).build([1])?.compile(Sgd::new(0.3), "mse", ["mae"])?;
//! let history = model.fit((x.clone(), y.clone()), Fit::epochs(20).verbose(Verbose::Silent))?;
//! assert!(history.last("loss")? < 0.01);
//! let logs = model.evaluate((x.clone(), y), Fit::default().verbose(Verbose::Silent))?;
//! assert!(logs.get("mae").unwrap() < 0.1);
//! assert_eq!(model.predict(x)?.rows(), 100);
//! # Ok::<(), phalanx_base::Error>(())
//! ```
//!
//! | read | for |
//! | --- | --- |
//! | [`Compile`], [`Compiled`] | a model with optimizer, losses and metrics |
//! | [`Data`], [`DatasetCreator`], [`Fit`] | training data and settings |
//! | [`callbacks`] | code that runs between steps and epochs |
//! | [`History`], [`Logs`] | losses and metrics |
//! | [`progress`] | the progress display |

mod accumulators;
pub mod callbacks;
mod compiled;
mod coordinated;
mod data;
mod dataset_creator;
mod evaluate;
mod executor;
mod history;
mod input_mapping;
mod logs;
mod looping;
mod objective;
mod options;
mod predict;
pub mod progress;
mod replicas;
mod setters;
mod state;
mod step;
mod step_metadata;
mod trained_state;
mod weights;

pub use compiled::{Compile, Compiled};
pub(crate) use coordinated::WorkerProgress;
pub use data::Data;
pub use dataset_creator::DatasetCreator;
pub use history::History;
pub use logs::Logs;
pub use objective::{LossChoice, LossChoices, MetricChoice};
pub use options::Fit;
pub use progress::Verbose;
pub use weights::Weight;

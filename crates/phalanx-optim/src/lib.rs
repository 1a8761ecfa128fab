//! Update rules: how a gradient changes a value and its slots.
//!
//! Pure arithmetic on slices of `f32`, as TensorFlow's server-side kernels do it: no IO, no clock, no allocation
//! while applying. A parameter server lays out a chunk of a variable, or one row of a table, as
//! `[value][slot 0][slot 1]…`, each part of the same length, and hands that buffer to a [`Rule`]:
//!
//! ```
//! use phalanx_optim::{Adagrad, Optimizer};
//! let optimizer: Optimizer = Adagrad::new(0.5).into();
//! optimizer.validate()?;
//!
//! let mut row = [1.0, 2.0, 0.0, 0.0]; // two values, then their two accumulators
//! optimizer.init_slots(&mut row);
//! optimizer.at_step(1).apply(&mut row, &[0.0, 1.0])?;
//! assert_eq!(row[0], 1.0);
//! assert!((row[1] - (2.0 - 0.5 / 1.1_f32.sqrt())).abs() < 1e-6);
//! # Ok::<(), phalanx_base::Error>(())
//! ```
//!
//! | what | where |
//! | --- | --- |
//! | the choice of an optimizer, its slots, its encoding for the wire | [`Optimizer`] |
//! | one step's arithmetic, ready to run | [`Rule`] |
//! | the rules, one file each | [`Sgd`], [`Momentum`], [`Adagrad`], [`RmsProp`], [`Adam`], [`AdamW`], [`Ftrl`] |
//! | learning rates that follow the step | [`Schedule`] |
//! | gradient clipping | [`Clip`] |
//! | gradients of repeated ids | [`sum_duplicates`] |
//!
//! # Rows are updated lazily
//!
//! A rule touches the elements it is given and nothing else. For a table this is the *lazy* form: only rows that
//! have a gradient in a step change, and so do only their slots. TensorFlow's sparse kernels (SGD, momentum, Adagrad,
//! FTRL, RMSprop with momentum) do the same; Keras' sparse Adam and its RMSprop without momentum also let the slots of
//! untouched rows decay at every step, which costs a pass over the table per step and is why users of TensorFlow choose
//! `LazyAdam`. The step number is the variable's, not the row's, as it is there.

mod adagrad;
mod adam;
mod adamw;
mod choice;
mod clip;
mod duplicates;
mod ftrl;
mod kernel;
mod momentum;
mod optimizer;
mod rmsprop;
mod rule;
mod schedule;
mod setting;
mod sgd;
mod simd;

pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adamw::AdamW;
pub use choice::OptimizerChoice;
pub use clip::{Clip, norm};
pub use duplicates::sum_duplicates;
pub use ftrl::Ftrl;
pub use momentum::Momentum;
pub use optimizer::{Optimizer, Slot};
pub use rmsprop::RmsProp;
pub use rule::Rule;
pub use schedule::{CosineDecay, ExponentialDecay, MOST_BOUNDARIES, PiecewiseConstantDecay, PolynomialDecay, Schedule};
pub use sgd::Sgd;

//! Shared by tests over several processes or crates.
//!
//! | where | what |
//! | --- | --- |
//! | [`job`] | a job of processes on loopback |
//! | [`process`] | one process: its lines, its end, its signals |
//! | [`ports`] | ports on loopback that no other test uses |
//! | [`faults`] | a transport that repeats, delays and loses messages, by a seed |
//! | [`ledger`] | a model whose every gradient is exactly one, so that values count steps |
//! | [`optimizer`] | optimizers of cases in Keras' words |
//! | [`raw`] | bytes that no honest client sends |
//! | [`within`], [`wait_until`] | a deadline around anything; polling |

pub mod faults;
pub mod job;
pub mod ledger;
mod optimizers;
pub mod ports;
pub mod process;
pub mod raw;
mod within;

pub use optimizers::optimizer;
pub use within::{wait_until, within};

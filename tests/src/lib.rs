//! What tests over several processes or crates share.
//!
//! | where | what |
//! | --- | --- |
//! | [`job`] | a job of processes on loopback |
//! | [`process`] | one process: its lines, its end, its signals |
//! | [`ports`] | ports on loopback that no other test uses |
//! | [`faults`] | a transport that repeats, delays, loses and cuts, by a seed |
//! | [`ledger`] | a model whose every update is exactly one, so that values count steps |
//! | [`raw`] | bytes that no honest client sends |
//! | [`pages`] | README and guide: blocks of code, links, headings |
//! | [`within`] | a deadline around anything |

pub mod faults;
pub mod job;
pub mod ledger;
pub mod pages;
pub mod ports;
pub mod process;
pub mod raw;
mod within;

pub use within::within;

//! What tests over several processes or crates share.
//!
//! | where | what |
//! | --- | --- |
//! | [`process`] | tasks as processes: their lines, their ends, their signals |
//! | [`ports`] | ports on loopback that no other test uses |
//! | [`faults`] | a transport that repeats, delays, loses and cuts, by a seed |
//! | [`ledger`] | a model whose every update is exactly one, so that values count steps |
//! | [`raw`] | bytes that no honest client sends |
//! | [`within`] | a deadline around anything |

pub mod job;
pub mod ports;
pub mod process;

//! The bulk lane between tasks on the same host: frames in shared memory, and messages over a Unix socket that tell where
//! they are (decision 018).

mod half;
mod server;
mod shared;
mod shared_slot;

use std::io;

pub(crate) use server::serve;
pub(crate) use shared::Connection;
pub(crate) use shared_slot::BorrowedHalf;

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

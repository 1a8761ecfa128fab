//! A TLS connection for blocking use.

use rustix::net::{SendFlags, send};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of a TLS connection, whose records go through a socket. One thread uses it at a time.
#[derive(Debug)]
pub(crate) struct TlsRecords(Mutex<Connection>);

impl TlsRecords {
    pub(crate) fn new(connection: impl Into<Connection>) -> Self {
        Self(Mutex::new(connection.into()))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic in the middle of a record ends the connection at its next use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self, socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
        let mut connection = self.connection();
        loop {
            match connection.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            connection.read_tls(&mut Socket(socket))?;
            let processed = connection.process_new_packets();
            // An alert tells the peer what is wrong.
            flush(&mut connection, socket)?;
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    pub(crate) fn write(&self, socket: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut connection = self.connection();
        let count = connection.writer().write_vectored(parts)?;
        flush(&mut connection, socket)?;
        Ok(count)
    }
}

fn flush(connection: &mut Connection, socket: BorrowedFd<'_>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(&mut Socket(socket))?;
    }
    Ok(())
}

struct Socket<'a>(BorrowedFd<'a>);

impl Read for Socket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, into)?)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        super::peer_stream::send_parts(self.0, parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

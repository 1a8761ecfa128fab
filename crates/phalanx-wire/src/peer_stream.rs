//! A byte stream to a peer, for blocking use.

use crate::connect::Stream;
use crate::tls_records::TlsRecords;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, send, sendmsg};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio_rustls::TlsStream;

/// A byte stream to a peer: a Unix socket on the same host, a TCP connection otherwise.
#[derive(Debug)]
pub struct PeerStream {
    socket: OwnedFd,
    is_same_host: bool,
    /// Set if the connection is encrypted.
    tls: Option<TlsRecords>,
}

impl PeerStream {
    /// Takes over an asynchronous stream. Its calls block.
    pub(crate) fn from_tokio(stream: Stream) -> io::Result<Self> {
        let (socket, is_same_host, tls) = match stream {
            Stream::Tcp(stream) => (OwnedFd::from(stream.into_std()?), false, None),
            Stream::Unix(stream) => (OwnedFd::from(stream.into_std()?), true, None),
            Stream::Tls(stream) => {
                let (tcp, tls) = match *stream {
                    TlsStream::Client(stream) => {
                        let (tcp, connection) = stream.into_inner();
                        (tcp, TlsRecords::new(connection))
                    }
                    TlsStream::Server(stream) => {
                        let (tcp, connection) = stream.into_inner();
                        (tcp, TlsRecords::new(connection))
                    }
                };
                (OwnedFd::from(tcp.into_std()?), false, Some(tls))
            }
        };
        let stream = Self { socket, is_same_host, tls };
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Takes over the local end of a connection to another host.
    pub(crate) fn bridged(socket: UnixStream) -> Self {
        Self { socket: socket.into(), is_same_host: false, tls: None }
    }

    /// Returns whether the stream is a Unix socket, through which memory can be shared.
    #[must_use]
    pub fn is_same_host(&self) -> bool {
        self.is_same_host
    }

    /// Sets whether calls return at once if they would have to wait.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.socket, nonblocking)?)
    }

    /// Limits how long a read may wait.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, timeout)?)
    }

    /// Limits how long a write may wait.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        Ok(set_socket_timeout(&self.socket, Timeout::Send, timeout)?)
    }

    /// Ends one direction of the stream, or both. Bytes that were written are still delivered.
    ///
    /// # Errors
    /// When the stream has ended already.
    pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        let how = match how {
            std::net::Shutdown::Read => Shutdown::Read,
            std::net::Shutdown::Write => Shutdown::Write,
            std::net::Shutdown::Both => Shutdown::Both,
        };
        Ok(rustix::net::shutdown(&self.socket, how)?)
    }

    /// Writes all parts in order.
    pub(crate) fn write_all_parts(&self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut parts = parts;
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match (&mut &*self).write_vectored(parts) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut parts, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for PeerStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Read for &PeerStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => tls.read(self.socket.as_fd(), into),
            None => Ok(rustix::io::read(&self.socket, into)?),
        }
    }
}

impl Write for &PeerStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            Some(_) => self.write_vectored(&[IoSlice::new(bytes)]),
            None => Ok(send(&self.socket, bytes, SendFlags::NOSIGNAL)?),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => tls.write(self.socket.as_fd(), parts),
            None => send_parts(self.socket.as_fd(), parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends as much of the parts as fits.
pub(crate) fn send_parts(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut none = SendAncillaryBuffer::default();
    // The kernel takes no more parts in one call.
    let parts = &parts[..parts.len().min(1024)];
    match sendmsg(socket, parts, &mut none, SendFlags::NOSIGNAL) {
        // The kernel has no memory for this many bytes right now.
        Err(Errno::NOBUFS) => Err(io::ErrorKind::WouldBlock.into()),
        sent => Ok(sent?),
    }
}

//! Reaching a peer: by Unix socket when it is this machine, else by TCP.

use crate::{Address, limits};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::{Channel, Endpoint, Uri};

/// What a connection is for; each lane has a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Small messages that must not wait.
    Control,
    /// Frames of numbers.
    Bulk,
}

/// A channel to `address` that connects when first used, and again whenever it must. Call inside of a tokio runtime.
#[must_use]
pub fn connect(address: &Address, lane: Lane) -> Channel {
    let mut endpoint = Endpoint::from_static("http://phalanx")
        .connect_timeout(limits::CONNECT)
        .initial_stream_window_size(limits::WINDOW)
        .initial_connection_window_size(limits::WINDOW)
        .max_frame_size(limits::HTTP2_FRAME)
        .tcp_nodelay(true);
    if lane == Lane::Control {
        // Without these a channel does not get over a partition. The bulk lane has none: its connection is driven by
        // the thread that computes, which cannot answer pings during a long step.
        endpoint = endpoint
            .http2_keep_alive_interval(Duration::from_secs(2))
            .keep_alive_timeout(Duration::from_secs(4))
            .keep_alive_while_idle(true);
    }
    let address = address.clone();
    endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let address = address.clone();
        async move { open(&address).await.map(TokioIo::new) }
    }))
}

async fn open(address: &Address) -> io::Result<Stream> {
    if address.is_loopback()
        && let Ok(stream) = open_local(GRPC, address.port())
    {
        return Ok(Stream::Unix(stream));
    }
    let stream = TcpStream::connect((address.host(), address.port())).await?;
    stream.set_nodelay(true)?;
    Ok(Stream::Tcp(stream))
}

/// The local twin of a port for gRPC.
pub(crate) const GRPC: &str = "phalanx";
/// The local twin of a port for frames of [`crate::neighbour`].
pub(crate) const BULK: &str = "phalanx-bulk";

#[cfg(target_os = "linux")]
pub(crate) fn open_blocking(kind: &str, port: u16) -> io::Result<std::os::unix::net::UnixStream> {
    std::os::unix::net::UnixStream::connect_addr(&local_name(kind, port)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_blocking(_kind: &str, _port: u16) -> io::Result<std::os::unix::net::UnixStream> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn open_local(kind: &str, port: u16) -> io::Result<UnixStream> {
    let stream = open_blocking(kind, port)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// The local twin of a TCP port, in Linux' abstract namespace: it leaves no file behind, and is gone with its process.
#[cfg(target_os = "linux")]
pub(crate) fn local_name(kind: &str, port: u16) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(format!("{kind}:{port}"))
}

/// A connection of either kind.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(cx, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }
}

//! Connecting to a peer: by Unix socket on the same host, else by TCP.

use crate::handshake::{self, ConnectionKind};
use crate::{Address, Token, fault, limits, tls};
use hyper_util::rt::TokioIo;
use phalanx_base::{Code, Error};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// Returns a channel for the control lane of `address` that connects when first used, and reconnects when necessary. Call
/// inside of a tokio runtime.
pub(crate) fn channel(address: &Address, token: Option<&Token>) -> Channel {
    // Without these pings a channel does not recover from a partition.
    let endpoint = Endpoint::from_static("http://phalanx")
        .http2_keep_alive_interval(Duration::from_secs(2))
        .keep_alive_timeout(Duration::from_secs(4))
        .keep_alive_while_idle(true);
    let (address, token) = (address.clone(), token.cloned());
    endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let (address, token) = (address.clone(), token.clone());
        async move {
            let stream = open(&address, token.as_ref(), ConnectionKind::Calls).await;
            stream.map(TokioIo::new).map_err(|error| fault::wrap(fault::unreachable(error)))
        }
    }))
}

/// Opens a connection by Unix socket if the peer is on this host and accepts it there, else by TCP.
pub(crate) async fn open(address: &Address, token: Option<&Token>, kind: ConnectionKind) -> io::Result<Stream> {
    match open_local(address, token, kind).await {
        Ok(stream) => Ok(Stream::Unix(stream)),
        Err(error) if refused(&error) => Err(error),
        Err(_) => open_remote(address, token, kind).await,
    }
}

/// Opens a connection by TCP, and completes its handshake.
pub(crate) async fn open_remote(address: &Address, token: Option<&Token>, kind: ConnectionKind) -> io::Result<Stream> {
    let connecting = TcpStream::connect((address.host(), address.port()));
    let stream = tokio::time::timeout(limits::CONNECT, connecting).await.map_err(|_| late("no connection"))??;
    tune(&stream)?;
    let is_encrypted = encrypts(token, address.is_loopback());
    let greeting = async {
        let (mut stream, binding) =
            if is_encrypted { tls::connect(stream).await? } else { (Stream::Tcp(stream), None) };
        handshake::greet(&mut stream, token, kind, address.port(), binding).await?;
        Ok(stream)
    };
    tokio::time::timeout(limits::HANDSHAKE, greeting).await.unwrap_or_else(|_| Err(late("no handshake")))
}

/// Whether a connection is encrypted: without a token nobody could tell who is at the other end.
pub(crate) fn encrypts(token: Option<&Token>, is_loopback: bool) -> bool {
    token.is_some_and(|token| token.encryption().covers(is_loopback))
}

/// Whether the peer was reached and refused the connection, so that another transport would not help.
pub(crate) fn refused(error: &io::Error) -> bool {
    fault::unwrap(error).is_some()
}

/// Returns the error for a peer that accepts connections and sends nothing. Another transport is not tried: it would
/// take as long.
fn late(what: &str) -> io::Error {
    let error = Error::new(Code::PeerUnreachable, "the connection failed");
    fault::wrap(
        error
            .because(format!("{what} in time"))
            .help("check whether the task is stopped or another program listens there"),
    )
}

/// Disables Nagle's algorithm, and has the kernel end a connection whose other end is gone.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    let third = limits::UNACKNOWLEDGED / 3;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, third)?;
    sockopt::set_tcp_keepintvl(stream, third)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    sockopt::set_tcp_user_timeout(stream, limits::UNACKNOWLEDGED.as_millis() as u32)?;
    Ok(())
}

/// Opens a connection to a task of this user on this machine, and completes its handshake.
///
/// # Errors
/// When there is no such task, or it refuses the connection (see [`refused`]).
pub(crate) async fn open_local(
    address: &Address,
    token: Option<&Token>,
    kind: ConnectionKind,
) -> io::Result<UnixStream> {
    if !address.is_loopback() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut stream = connect_local(address.listen_on())?;
    if !is_ours(&stream)? {
        // Another user has taken the name. The task itself, if it runs, is reached at its port.
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let greeting = handshake::greet(&mut stream, token, kind, address.port(), None);
    tokio::time::timeout(limits::HANDSHAKE, greeting).await.unwrap_or_else(|_| Err(late("no handshake")))?;
    Ok(stream)
}

/// Whether the process at the other end runs as this user, or as root. Abstract sockets have no permissions.
pub(crate) fn is_ours(stream: &UnixStream) -> io::Result<bool> {
    let uid = stream.peer_cred()?.uid();
    Ok(uid == 0 || uid == rustix::process::geteuid().as_raw())
}

/// Describes the process that listens on the Unix socket of a port.
pub(crate) fn holder(address: SocketAddr) -> Option<String> {
    let who = connect_local(address).ok()?.peer_cred().ok()?;
    let pid = who.pid().map_or_else(String::new, |pid| format!(", process {pid}"));
    Some(format!("a process of user {}{pid} has taken the name", who.uid()))
}

/// Returns the name of the Unix socket of a TCP port, in Linux' abstract namespace: it leaves no file behind, and
/// vanishes with its process.
pub(crate) fn local_name(address: SocketAddr) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(format!("phalanx:{address}"))
}

/// Connects to the Unix socket of a port without blocking: a process that has taken the name might never accept.
fn connect_local(address: SocketAddr) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(format!("phalanx:{address}").as_bytes())?)?;
    UnixStream::from_std(socket.into())
}

/// A TCP or Unix stream.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

impl Stream {
    /// Waits until something can be read.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Tls(stream) => stream.get_ref().0.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp($stream) => $call,
            Stream::Tls($stream) => {
                let $stream = &mut **$stream;
                $call
            }
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
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }
}

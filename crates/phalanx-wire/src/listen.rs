//! A task's listening end: one port for both lanes, and a Unix socket for tasks on the same host.

use crate::body_timeout::BodyTimeout;
use crate::buffer_pool::BufferPool;
use crate::connect::{self, Stream};
use crate::connections::Activity;
use crate::guarded::GuardedStream;
use crate::handshake::{self, ConnectionKind};
use crate::{Address, Token, bulk, connections, control, framed, limits, opened_stream, same_host, tls};
use phalanx_base::{Code, Context, Error, Result};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// What a task serves.
#[derive(Clone)]
pub struct Endpoint {
    /// Answers on the control lane.
    pub control: Arc<dyn control::Handler>,
    /// Answers on the bulk lane, if the task holds parameters.
    pub bulk: Option<Arc<dyn bulk::Handler>>,
    /// The token that clients must know.
    pub token: Option<Token>,
}

/// A bound port, which may not serve yet: a task learns its port before it serves its identity.
pub struct Listening {
    runtime: Runtime,
    tcp: Option<std::net::TcpListener>,
    address: SocketAddr,
}

impl Listening {
    /// Binds the port of `address`, to be served by `threads` threads. Port 0 binds a free one.
    ///
    /// # Errors
    /// When the port is taken or may not be used.
    pub fn bind(address: &Address, threads: usize) -> Result<Self> {
        // Raises the limit on open files before anything is opened.
        connections::all();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("phalanx-serve")
            .enable_all()
            .build()
            .context(Code::Internal, "the server's threads cannot be started")?;
        let tcp = std::net::TcpListener::bind(address.listen_on()).map_err(|error| cannot_bind(address, &error))?;
        let address = tcp.local_addr().context(Code::Internal, "the listening port is unknown")?;
        Ok(Self { runtime, tcp: Some(tcp), address })
    }

    /// Returns the bound port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the runtime that serves this task.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Starts serving in the background, until this value is dropped. Returns a warning if the Unix socket's name is taken, so
    /// that tasks on the same host have to use TCP.
    ///
    /// # Errors
    /// When the socket cannot be used.
    pub fn serve(&mut self, endpoint: Endpoint) -> Result<Option<Error>> {
        let Some(tcp) = self.tcp.take() else { return Ok(None) };
        tcp.set_nonblocking(true).context(Code::Internal, "the listening socket cannot be used")?;
        let _inside = self.runtime.enter();
        let tcp = TcpListener::from_std(tcp).context(Code::Internal, "the listening socket cannot be used")?;
        let (calls, incoming) = mpsc::channel(64);
        let (bulk, token, port) = (endpoint.bulk, endpoint.token, self.port());
        let tls = token.as_ref().map(|_| tls::Acceptor::new()).transpose()?;
        let acceptor = Arc::new(Acceptor { bulk, token, port, calls, pool: Arc::default(), tls });
        self.runtime.spawn(accept(Listener::Tcp(tcp), Arc::clone(&acceptor)));
        let router = tonic::transport::Server::builder()
            .max_concurrent_streams(limits::STREAMS)
            .http2_keepalive_interval(Some(limits::IDLE / 3))
            .http2_keepalive_timeout(Some(limits::IDLE * 2 / 3))
            .layer(tower::layer::layer_fn(|inner| BodyTimeout { inner, after: limits::BODY }))
            .add_service(control::server(endpoint.control));
        self.runtime.spawn(router.serve_with_incoming(ReceiverStream::new(incoming).map(Ok::<_, io::Error>)));
        if !self.address.ip().is_loopback() {
            // Clients use the Unix socket for loopback addresses only.
            return Ok(None);
        }
        match bind_local(self.address) {
            Ok(local) => {
                self.runtime.spawn(accept(Listener::Unix(local), acceptor));
                Ok(None)
            }
            Err(error) => Ok(Some(name_taken(self.address, &error))),
        }
    }

    /// Stops serving without waiting for requests to finish.
    pub fn stop(self) {
        self.runtime.shutdown_background();
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => Ok(Stream::Tcp(listener.accept().await?.0)),
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

/// Accepts connections until dropped.
async fn accept(listener: Listener, acceptor: Arc<Acceptor>) {
    /// The wait after a failure, which most likely is a lack of file descriptors.
    const PAUSE: Duration = Duration::from_millis(100);
    let exhausted = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    loop {
        match listener.accept().await {
            // Only the peer can handle a broken connection: it knows which call had no answer.
            Ok(stream) => {
                if let Some(permit) = connections::all().enter() {
                    tokio::spawn(Arc::clone(&acceptor).receive(stream, permit));
                }
            }
            // The client closed the connection before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if error.raw_os_error().is_some_and(|code| exhausted.contains(&code)) {
                    connections::all().close_one();
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Handles new connections.
struct Acceptor {
    bulk: Option<Arc<dyn bulk::Handler>>,
    token: Option<Token>,
    port: u16,
    /// Receives the connections of the control lane.
    calls: mpsc::Sender<GuardedStream>,
    /// The memory of requests and replies that come and go over byte streams.
    pool: Arc<BufferPool>,
    /// Encrypts connections from other hosts, if there is a token.
    tls: Option<tls::Acceptor>,
}

impl Acceptor {
    async fn receive(self: Arc<Self>, stream: Stream, mut permit: connections::Permit) -> io::Result<()> {
        if let Stream::Tcp(stream) = &stream {
            connect::tune(stream)?;
        }
        if let Stream::Unix(stream) = &stream
            && !connect::is_ours(stream)?
        {
            return Ok(());
        }
        let (stream, kind) = tokio::select! {
            _ = &mut permit.closed => return Ok(()),
            shaken = tokio::time::timeout(limits::HANDSHAKE, self.handshake(stream)) => {
                shaken.map_err(|_| io::ErrorKind::TimedOut)??
            }
        };
        permit.admit();
        if kind == ConnectionKind::Calls {
            // Fails once serving has stopped.
            let _ = self.calls.send(GuardedStream::new(stream, permit)).await;
            return Ok(());
        }
        let activity = permit.activity();
        tokio::select! {
            _ = &mut permit.closed => Ok(()),
            served = self.serve_bulk(stream, kind, activity) => served,
        }
    }

    /// Completes the handshake of a connection, and the one of TLS before it where the client begins with that.
    async fn handshake(&self, stream: Stream) -> io::Result<(Stream, ConnectionKind)> {
        let is_local = matches!(stream, Stream::Unix(_));
        let (mut stream, binding, is_private) = match stream {
            Stream::Tcp(stream) => {
                let is_private = !connect::encrypts(self.token.as_ref(), stream.peer_addr()?.ip().is_loopback());
                let mut first = [0];
                stream.peek(&mut first).await?;
                match &self.tls {
                    Some(tls) if first == [tls::FIRST_BYTE] => {
                        let (stream, binding) = tls.accept(stream).await?;
                        (stream, binding, true)
                    }
                    _ => (Stream::Tcp(stream), None, is_private),
                }
            }
            other => (other, None, true),
        };
        let is_bulk = self.bulk.is_some();
        let refuses = |kind| match kind {
            _ if !is_private => Some(not_encrypted()),
            ConnectionKind::Calls => None,
            ConnectionKind::Frames | ConnectionKind::Stream if is_bulk => None,
            ConnectionKind::Memory if is_bulk && is_local => None,
            _ => Some(Error::new(Code::BadMessage, "this task accepts no frames").help("check the address")),
        };
        let kind = handshake::receive(&mut stream, self.token.as_ref(), self.port, binding, refuses).await?;
        Ok((stream, kind))
    }

    /// Serves a connection of the bulk lane until its client closes it.
    async fn serve_bulk(&self, stream: Stream, kind: ConnectionKind, activity: Activity) -> io::Result<()> {
        let Some(handler) = self.bulk.clone() else { return Ok(()) };
        match (kind, stream) {
            (ConnectionKind::Memory, Stream::Unix(stream)) => same_host::serve(stream, handler, activity).await,
            (ConnectionKind::Stream, stream) => opened_stream::serve(stream, handler).await,
            (_, stream) => framed::serve(stream, handler, Arc::clone(&self.pool), activity).await,
        }
    }
}

fn bind_local(address: SocketAddr) -> io::Result<UnixListener> {
    let listener = std::os::unix::net::UnixListener::bind_addr(&connect::local_name(address)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Returns the warning that the Unix socket's name is taken.
fn name_taken(address: SocketAddr, error: &io::Error) -> Error {
    let holder = connect::holder(address).unwrap_or_else(|| error.to_string());
    Error::new(Code::PortInUse, "tasks on this machine must use TCP to reach this one, which is slower")
        .at(format!("the abstract socket phalanx:{address}"))
        .because(holder)
        .help("stop that process, or give the task another port; no task sends it the token or parameters")
}

fn not_encrypted() -> Error {
    Error::new(Code::BadSetting, "this task takes encrypted connections only")
        .because("the client's PHALANX_TLS is off, and this task's is not")
        .help("set PHALANX_TLS alike on every task of the job")
}

fn cannot_bind(address: &Address, error: &io::Error) -> Error {
    let what = format!("this task cannot listen on port {}", address.port());
    match error.kind() {
        io::ErrorKind::AddrInUse => Error::new(Code::PortInUse, what)
            .at(address.to_string())
            .because("another process listens there")
            .help(format!(
                "stop it (`ss -ltnp 'sport = :{}'` shows which it is), or give the task another port",
                address.port()
            )),
        _ => Error::new(Code::PortInUse, what)
            .at(address.to_string())
            .because(error)
            .help("choose a port above 1023 on an address of this machine"),
    }
}

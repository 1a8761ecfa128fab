//! A task's listening end: one port, both lanes, and a Unix socket for neighbours.

use crate::{Address, Token, bulk, connect, control, limits, neighbour};
use phalanx_base::{Code, Context, Error, Result};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpIncoming};

/// What a task serves.
#[derive(Clone)]
pub struct Endpoint {
    /// Answers on the control lane.
    pub control: Arc<dyn control::Handler>,
    /// Answers on the bulk lane, if the task holds parameters.
    pub bulk: Option<Arc<dyn bulk::Handler>>,
    /// What every call must carry.
    pub token: Option<Token>,
}

/// A bound port that does not serve yet: a task learns its port before it says who it is.
pub struct Listening {
    runtime: Runtime,
    tcp: Option<std::net::TcpListener>,
    port: u16,
}

impl Listening {
    /// Binds the port of `address`; port 0 takes a free one. `threads` serve it.
    ///
    /// # Errors
    /// When the port is taken or may not be used.
    pub fn bind(address: &Address, threads: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("phalanx-serve")
            .enable_all()
            .build()
            .context(Code::Internal, "the server's threads cannot be started")?;
        let tcp = std::net::TcpListener::bind(address.listen_on()).map_err(|error| cannot_bind(address, &error))?;
        let port = tcp.local_addr().context(Code::Internal, "the listening port is unknown")?.port();
        Ok(Self { runtime, tcp: Some(tcp), port })
    }

    /// The port that was bound.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What works for this task in the background.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Starts serving, in the background, until this value is dropped.
    ///
    /// # Errors
    /// When the socket cannot be used.
    pub fn serve(&mut self, endpoint: Endpoint) -> Result<()> {
        let Some(tcp) = self.tcp.take() else { return Ok(()) };
        tcp.set_nonblocking(true).context(Code::Internal, "the listening socket cannot be used")?;
        let _inside = self.runtime.enter();
        let tcp =
            tokio::net::TcpListener::from_std(tcp).context(Code::Internal, "the listening socket cannot be used")?;
        // Set on each accepted socket: the server builder's own setting does not reach an incoming stream, and with
        // Nagle's algorithm a small call takes 45 ms.
        self.spawn(endpoint.clone(), TcpIncoming::from(tcp).with_nodelay(Some(true)));
        #[cfg(target_os = "linux")]
        self.serve_neighbours(endpoint);
        Ok(())
    }

    /// Neighbours reach the task over Unix sockets; where those cannot be had, TCP does.
    #[cfg(target_os = "linux")]
    fn serve_neighbours(&self, endpoint: Endpoint) {
        if let (Some(handler), Ok(local)) = (&endpoint.bulk, bind_local(connect::BULK, self.port)) {
            self.runtime.spawn(neighbour::serve(local, Arc::clone(handler), endpoint.token.clone()));
        }
        if let Ok(local) = bind_local(connect::GRPC, self.port) {
            self.spawn(endpoint, tokio_stream::wrappers::UnixListenerStream::new(local));
        }
    }

    fn spawn<I, S>(&self, endpoint: Endpoint, incoming: I)
    where
        I: Stream<Item = io::Result<S>> + Send + 'static,
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let router = tonic::transport::Server::builder()
            .initial_stream_window_size(limits::WINDOW)
            .initial_connection_window_size(limits::WINDOW)
            .max_frame_size(limits::HTTP2_FRAME)
            .max_concurrent_streams(limits::STREAMS)
            .http2_keepalive_interval(Some(Duration::from_secs(30)))
            .http2_keepalive_timeout(Some(Duration::from_secs(60)))
            .add_service(control::server(endpoint.control, endpoint.token.clone()))
            .add_optional_service(endpoint.bulk.map(|handler| bulk::Server::new(handler, endpoint.token)));
        self.runtime.spawn(router.serve_with_incoming(incoming));
    }

    /// Stops serving without waiting for anybody.
    pub fn stop(self) {
        self.runtime.shutdown_background();
    }
}

#[cfg(target_os = "linux")]
fn bind_local(kind: &str, port: u16) -> io::Result<tokio::net::UnixListener> {
    let listener = std::os::unix::net::UnixListener::bind_addr(&connect::local_name(kind, port)?)?;
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
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

//! The bulk lane: a frame is sent, a frame comes back.

use crate::buffer_pool::BufferPool;
use crate::frame::FrameCodec;
use crate::{
    Address, InFrame, Lane, OutFrame, Outcome, Token, connect, error_from_status, error_to_status, fault, limits,
    may_have_happened, same_host,
};
use http::uri::PathAndQuery;
use phalanx_base::{Code, Error, Result};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Handles the frames and streams that a task receives.
pub trait Handler: Send + Sync + 'static {
    /// Answers one frame.
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>>;

    /// Decides by its `hello` whether a same-host peer may open a stream, and returns the stream's handler. Must not block.
    ///
    /// # Errors
    /// When the peer is refused. The default implementation always refuses.
    fn accept_stream(&self, hello: &[u8]) -> Result<StreamHandler> {
        let _ = hello;
        Err(Error::new(Code::BadMessage, "this task accepts no streams").help("check the address"))
    }
}

/// Takes over a stream that a same-host peer opened.
pub type StreamHandler = Box<dyn FnOnce(UnixStream) + Send>;

const PATH: &str = "/phalanx.Bulk/Call";

/// The server's end of the lane.
#[derive(Clone)]
pub(crate) struct Server {
    handler: Arc<dyn Handler>,
}

impl Server {
    pub(crate) fn new(handler: Arc<dyn Handler>) -> Self {
        Self { handler }
    }
}

impl NamedService for Server {
    const NAME: &'static str = "phalanx.Bulk";
}

impl UnaryService<InFrame> for Server {
    type Response = OutFrame;
    type Future = Pending<'static, Result<Response<OutFrame>, Status>>;

    fn call(&mut self, request: Request<InFrame>) -> Self::Future {
        let answer = Arc::clone(&self.handler).call(request.into_inner());
        Box::pin(async move { answer.await.map(Response::new).map_err(|error| error_to_status(&error)) })
    }
}

impl tower_service::Service<http::Request<Body>> for Server {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pending<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            let mut grpc = tonic::server::Grpc::new(FrameCodec).max_decoding_message_size(limits::FRAME_BYTES);
            Ok(grpc.unary(server, request).await)
        })
    }
}

/// A connection that sends frames to a peer. Tests replace it.
pub trait Transport: Send + Sync {
    /// Sends one frame and waits for the answer.
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>>;

    /// Returns the name of the peer, for messages.
    fn peer(&self) -> &str;
}

/// Returns the fastest transport to `address`: shared memory or a Unix socket for a loopback address, else gRPC. `peer` is
/// its name in messages. Call inside of a tokio runtime.
#[must_use]
pub fn reach(address: &Address, peer: String, token: Option<Token>) -> Box<dyn Transport> {
    let grpc = Client::new(address, peer, token.clone());
    if address.is_loopback() { Box::new(same_host::Client::new(address, token, grpc)) } else { Box::new(grpc) }
}

/// Opens a byte stream to a same-host peer, whose [`Handler::accept_stream`] decides by `hello`. Blocks for at most
/// `patience`.
///
/// # Errors
/// [`Code::PeerUnreachable`] if nothing accepts streams at this address, because it is another machine or has not started;
/// else the error with which the peer refuses the stream.
pub fn stream(address: &Address, token: Option<&Token>, hello: &[u8], patience: Duration) -> Result<UnixStream> {
    let unreachable = |error: io::Error| {
        Error::new(Code::PeerUnreachable, "no stream can be opened").at(address.to_string()).because(error)
    };
    same_host::stream(address, token, hello, patience)
        .map_err(|error| fault::unwrap(&error).cloned().unwrap_or_else(|| unreachable(error)))
}

/// Returns the transport to a server in this process. Frames are not copied, and the caller's thread answers them. Work that
/// a request leaves for later runs on `runtime`, the server's own.
#[must_use]
pub fn in_process(handler: Arc<dyn Handler>, runtime: Handle, peer: String) -> Box<dyn Transport> {
    Box::new(InProcess { handler, runtime, peer, pool: Arc::default() })
}

struct InProcess {
    handler: Arc<dyn Handler>,
    runtime: Handle,
    peer: String,
    pool: Arc<BufferPool>,
}

impl Transport for InProcess {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        let mut answer = Arc::clone(&self.handler).call(frame.hand_over(&self.pool));
        Box::pin(async move {
            let answer = std::future::poll_fn(|context| {
                let _inside = self.runtime.enter();
                answer.as_mut().poll(context)
            });
            match tokio::time::timeout(deadline, answer).await {
                Ok(Ok(frame)) => Outcome::Done(frame.hand_over(&self.pool)),
                Ok(Err(error)) => Outcome::Failed(error),
                Err(_) => Outcome::Unknown(
                    Error::new(Code::OutcomeUnknown, "no answer arrived")
                        .at(self.peer.clone())
                        .because(format!("{} s passed", deadline.as_secs_f32())),
                ),
            }
        })
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

/// The client's end of the lane over gRPC.
pub struct Client {
    address: Address,
    token: Option<Token>,
    peer: String,
    channel: Mutex<Channel>,
}

impl Client {
    /// Creates a lane to `address`. `peer` is its name in messages. Call inside of a tokio runtime.
    #[must_use]
    pub fn new(address: &Address, peer: String, token: Option<Token>) -> Self {
        let channel = Mutex::new(connect(address, Lane::Bulk, token.as_ref()));
        Self { address: address.clone(), token, peer, channel }
    }

    fn channel(&self) -> MutexGuard<'_, Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Client {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        let mut request = Request::new(frame);
        request.set_timeout(deadline);
        let channel = self.channel().clone();
        let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(limits::FRAME_BYTES);
        Box::pin(async move {
            let call = async {
                grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
                grpc.unary(request, PathAndQuery::from_static(PATH), FrameCodec).await
            };
            // The request carries the deadline for the server; this side's clock decides.
            let answer = tokio::time::timeout(deadline, call)
                .await
                .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("{} s passed", deadline.as_secs_f32()))));
            if let Err(status) = &answer
                && matches!(status.code(), tonic::Code::DeadlineExceeded | tonic::Code::Cancelled)
            {
                // The connection may be half open: the next call uses another one.
                *self.channel() = connect(&self.address, Lane::Bulk, self.token.as_ref());
            }
            match answer {
                Ok(response) => Outcome::Done(response.into_inner()),
                Err(status) if may_have_happened(&status) => Outcome::Unknown(error_from_status(&status, &self.peer)),
                Err(status) => Outcome::Failed(error_from_status(&status, &self.peer)),
            }
        })
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

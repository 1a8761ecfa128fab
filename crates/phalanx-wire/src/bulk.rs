//! The bulk lane: frames there, frames back.

use crate::frame::FrameCodec;
use crate::spares::Spares;
use crate::{
    Address, InFrame, Lane, OutFrame, Outcome, Token, connect, fault, from_status, limits, may_have_happened,
    neighbour, to_status,
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

/// A future without a name.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a server does with a frame.
pub trait Handler: Send + Sync + 'static {
    /// Answers one frame.
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>>;

    /// Whether a neighbour that introduces itself with `hello` may have a stream of its own, and what takes it.
    /// Must not block.
    ///
    /// # Errors
    /// When the neighbour is refused; without an implementation everybody is.
    fn welcome(&self, hello: &[u8]) -> Result<Taker> {
        let _ = hello;
        Err(Error::new(Code::BadMessage, "this task takes no streams").help("see whether the address is right"))
    }
}

/// Takes a stream that was opened by a neighbour.
pub type Taker = Box<dyn FnOnce(UnixStream) + Send>;

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
        Box::pin(async move { answer.await.map(Response::new).map_err(|error| to_status(&error)) })
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

/// Where frames go: a network, or whatever a test puts in its place.
pub trait Transport: Send + Sync {
    /// Sends one frame and waits for the answer.
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>>;

    /// Who is at the other end, for messages.
    fn peer(&self) -> &str;
}

/// The fastest way to `address`: straight over a Unix socket where it is this machine, else gRPC. Call inside of a
/// tokio runtime. `peer` names it in messages.
#[must_use]
pub fn reach(address: &Address, peer: String, token: Option<Token>) -> Box<dyn Transport> {
    let grpc = Client::new(address, peer, token.clone());
    if address.is_loopback() { Box::new(neighbour::Client::new(address, token, grpc)) } else { Box::new(grpc) }
}

/// A stream of bytes to a neighbour, whose [`Handler::welcome`] sees `hello` first. Blocks for at most `patience`.
///
/// # Errors
/// [`Code::PeerUnreachable`] when nobody takes streams at this address: another machine, or not started yet; else what
/// the neighbour refuses the stream with.
pub fn stream(address: &Address, token: Option<&Token>, hello: &[u8], patience: Duration) -> Result<UnixStream> {
    let nobody = |error: io::Error| {
        Error::new(Code::PeerUnreachable, "no stream can be opened").at(address.to_string()).because(error)
    };
    neighbour::stream(address, token, hello, patience)
        .map_err(|error| fault::inside(&error).cloned().unwrap_or_else(|| nobody(error)))
}

/// The way to a server in this same process: its frames are not copied, and it is the caller's thread that answers them.
/// What a request leaves to be done later is done by `runtime`, the server's own.
#[must_use]
pub fn inside(handler: Arc<dyn Handler>, runtime: Handle, peer: String) -> Box<dyn Transport> {
    Box::new(Inside { handler, runtime, peer, spares: Arc::default() })
}

struct Inside {
    handler: Arc<dyn Handler>,
    runtime: Handle,
    peer: String,
    spares: Arc<Spares>,
}

impl Transport for Inside {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        let mut answer = Arc::clone(&self.handler).call(frame.hand_over(&self.spares));
        Box::pin(async move {
            let answer = std::future::poll_fn(|context| {
                let _inside = self.runtime.enter();
                answer.as_mut().poll(context)
            });
            match tokio::time::timeout(deadline, answer).await {
                Ok(Ok(frame)) => Outcome::Done(frame.hand_over(&self.spares)),
                Ok(Err(error)) => Outcome::Failed(error),
                Err(_) => Outcome::Unknown(
                    Error::new(Code::OutcomeUnknown, "no answer came")
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
    /// A lane to `address`. Call inside of a tokio runtime. `peer` names it in messages.
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
            // The request carries the deadline for the server's sake; the clock that counts is ours.
            let answer = tokio::time::timeout(deadline, call)
                .await
                .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("{} s passed", deadline.as_secs_f32()))));
            if let Err(status) = &answer
                && matches!(status.code(), tonic::Code::DeadlineExceeded | tonic::Code::Cancelled)
            {
                // The connection may be half open: the next call gets another one.
                *self.channel() = connect(&self.address, Lane::Bulk, self.token.as_ref());
            }
            match answer {
                Ok(response) => Outcome::Done(response.into_inner()),
                Err(status) if may_have_happened(&status) => Outcome::Unknown(from_status(&status, &self.peer)),
                Err(status) => Outcome::Failed(from_status(&status, &self.peer)),
            }
        })
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

//! The bulk lane: a frame is sent, a frame comes back.

use crate::buffer_pool::BufferPool;
use crate::opened_stream::Opening;
use crate::{Address, InFrame, OutFrame, Outcome, PeerStream, Token, fault, opened_stream, peer};
use phalanx_base::{Code, Error, Result};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Handles the frames and streams that a task receives.
pub trait Handler: Send + Sync + 'static {
    /// Answers one frame.
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>>;

    /// Decides by its `hello` whether a peer may open a stream, and returns the stream's handler. Must not block.
    ///
    /// # Errors
    /// When the peer is refused. The default implementation always refuses.
    fn accept_stream(&self, hello: &[u8]) -> Result<StreamHandler> {
        let _ = hello;
        Err(Error::new(Code::BadMessage, "this task accepts no streams").help("check the address"))
    }
}

/// Takes over a stream that a peer opened.
pub type StreamHandler = Box<dyn FnOnce(PeerStream) + Send>;

/// A connection that sends frames to a peer. Tests replace it.
pub trait Transport: Send + Sync {
    /// Sends one frame and waits for the answer.
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>>;

    /// Returns the name of the peer, for messages.
    fn peer(&self) -> &str;
}

/// Returns the fastest transport to `address`: shared memory or a Unix socket for a loopback address, else TCP. `peer` is
/// its name in messages. Call inside of a tokio runtime.
#[must_use]
pub fn reach(address: &Address, peer: String, token: Option<Token>) -> Box<dyn Transport> {
    Box::new(peer::Client::new(address, peer, token, true))
}

/// As [`reach`], but always over TCP, as to another host.
#[must_use]
pub fn reach_over_network(address: &Address, peer: String, token: Option<Token>) -> Box<dyn Transport> {
    Box::new(peer::Client::new(address, peer, token, false))
}

/// Opens a byte stream to a same-host peer, whose [`Handler::accept_stream`] decides by `hello`. Blocks for at most
/// `patience`.
///
/// # Errors
/// [`Code::PeerUnreachable`] if nothing accepts streams at this address, because it is another machine or has not started;
/// else the error with which the peer refuses the stream.
pub fn stream(address: &Address, token: Option<&Token>, hello: &[u8], patience: Duration) -> Result<PeerStream> {
    let opening = Opening { address, token, hello, over_network: false };
    opened_stream::open(&opening, patience).map_err(|error| no_stream(address, &error))
}

/// As [`stream`], over TCP.
///
/// # Errors
/// As [`stream`].
pub fn stream_over_network(
    address: &Address,
    token: Option<&Token>,
    hello: &[u8],
    patience: Duration,
) -> Result<PeerStream> {
    let opening = Opening { address, token, hello, over_network: true };
    opened_stream::open(&opening, patience).map_err(|error| no_stream(address, &error))
}

fn no_stream(address: &Address, error: &io::Error) -> Error {
    fault::unwrap(error).cloned().unwrap_or_else(|| {
        Error::new(Code::PeerUnreachable, "no stream can be opened").at(address.to_string()).because(error)
    })
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

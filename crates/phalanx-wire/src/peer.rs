//! The client's end of the bulk lane: frames in shared memory, or over a byte stream.

use crate::bulk::{Pending, Transport};
use crate::connect::{self, Stream, refused};
use crate::frame::{InFrame, OutFrame};
use crate::handshake::ConnectionKind;
use crate::{Address, Outcome, Token, fault, framed, same_host};
use phalanx_base::{Code, Error, Result};
use std::io;
use std::time::Duration;
use tokio::sync::Mutex;

/// A lane to one peer. It connects when first used, and again after a failure.
pub(crate) struct Client {
    address: Address,
    token: Option<Token>,
    peer: String,
    /// Whether a peer at a loopback address is reached without the network.
    same_host: bool,
    shared: Mutex<Option<same_host::Connection>>,
    framed: Mutex<Option<framed::Connection>>,
}

impl Client {
    pub(crate) fn new(address: &Address, peer: String, token: Option<Token>, same_host: bool) -> Self {
        let same_host = same_host && address.is_loopback();
        let (shared, framed) = (Mutex::new(None), Mutex::new(None));
        Self { address: address.clone(), token, peer, same_host, shared, framed }
    }

    /// Opens a stream for frames, with its handshake.
    async fn open(&self) -> io::Result<Stream> {
        let token = self.token.as_ref();
        if self.same_host {
            connect::open(&self.address, token, ConnectionKind::Frames).await
        } else {
            connect::open_remote(&self.address, token, ConnectionKind::Frames).await
        }
    }

    /// Calls through shared memory. Returns the frame if that is not possible.
    async fn call_shared(&self, frame: OutFrame, deadline: Duration) -> Result<Outcome<InFrame>, OutFrame> {
        if !self.same_host {
            return Err(frame);
        }
        let mut shared = self.shared.lock().await;
        if shared.is_none() {
            let open = connect::open_local(&self.address, self.token.as_ref(), ConnectionKind::Memory);
            let stream = match tokio::time::timeout(deadline, open).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) if refused(&error) => return Ok(Outcome::Failed(self.unreachable(error))),
                Ok(Err(_)) => return Err(frame),
                Err(_) => return Ok(Outcome::Failed(self.no_handshake(deadline))),
            };
            match same_host::Connection::offer(stream).await {
                Ok(connection) => *shared = Some(connection),
                Err(_) => return Err(frame),
            }
        }
        let Some(entered) = shared.as_ref().and_then(|connection| connection.enter(&frame)) else { return Err(frame) };
        let Some(mut connection) = shared.take() else { return Err(frame) };
        let answer = tokio::time::timeout(deadline, connection.exchange(entered)).await;
        Ok(self.outcome(answer, deadline, || *shared = Some(connection)))
    }

    async fn call_framed(&self, frame: OutFrame, deadline: Duration) -> Outcome<InFrame> {
        let mut framed = self.framed.lock().await;
        let mut connection = match framed.take() {
            Some(connection) => connection,
            None => match tokio::time::timeout(deadline, self.open()).await {
                Ok(Ok(stream)) => framed::Connection::new(stream),
                Ok(Err(error)) => return Outcome::Failed(self.unreachable(error)),
                Err(_) => return Outcome::Failed(self.no_handshake(deadline)),
            },
        };
        let answer = tokio::time::timeout(deadline, connection.exchange(frame)).await;
        self.outcome(answer, deadline, || *framed = Some(connection))
    }

    /// Returns the outcome of a call. After a failure the connection is dropped, so that a late answer is not taken for the
    /// next one.
    fn outcome(
        &self,
        answer: Result<io::Result<Result<InFrame>>, tokio::time::error::Elapsed>,
        deadline: Duration,
        keep: impl FnOnce(),
    ) -> Outcome<InFrame> {
        let unknown = |why: String| {
            let error = Error::new(Code::OutcomeUnknown, "no answer arrived");
            Outcome::Unknown(error.at(self.peer.clone()).because(why))
        };
        match answer {
            Ok(Ok(answer)) => {
                keep();
                answer.map_or_else(Outcome::Failed, Outcome::Done)
            }
            Ok(Err(error)) => unknown(fault::plain(&error.to_string())),
            Err(_) => unknown(format!("{} s passed", deadline.as_secs_f32())),
        }
    }

    fn unreachable(&self, error: io::Error) -> Error {
        fault::unreachable(error).at(self.peer.clone())
    }

    fn no_handshake(&self, deadline: Duration) -> Error {
        Error::new(Code::PeerUnreachable, "the connection failed")
            .at(self.peer.clone())
            .because(format!("no handshake in {} s", deadline.as_secs_f32()))
    }
}

impl Transport for Client {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        Box::pin(async move {
            match self.call_shared(frame, deadline).await {
                Ok(outcome) => outcome,
                Err(frame) => self.call_framed(frame, deadline).await,
            }
        })
    }

    fn peer(&self) -> &str {
        &self.peer
    }
}

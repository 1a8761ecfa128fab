//! The bulk lane between tasks on the same host: frames in shared memory, or over a Unix socket if memory cannot be shared.
//! Other machines are reached over gRPC, which copies a frame twice on either side (docs/performance.md has the cost).
//!
//! The handshake of a connection states its kind (`handshake.rs`).

mod connection_thread;
mod half;
mod shared;
mod shared_slot;
mod socket;

use crate::bulk::{Handler, Pending, Transport};
use crate::connect::{open_local, refused};
use crate::connections::Permit;
use crate::frame::{InFrame, OutFrame};
use crate::handshake::{self, ConnectionKind};
use crate::{Address, Outcome, Token, bulk, fault, limits};
use connection_thread::ConnectionThread;
use phalanx_base::{Code, Error, Result};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

pub(crate) use shared_slot::BorrowedHalf;

const LONGEST_HELLO: usize = 4096;

const FRAME: u8 = 0;
const FAULT: u8 = 1;

/// Serves one connection after its handshake, until its client closes it or another connection displaces it.
pub(crate) async fn serve(
    mut stream: UnixStream,
    kind: ConnectionKind,
    handler: Arc<dyn Handler>,
    mut permit: Permit,
) -> io::Result<()> {
    let activity = permit.activity();
    let serve = async {
        match kind {
            ConnectionKind::Frames => socket::Connection::new(stream).serve(&handler, &activity).await,
            ConnectionKind::Memory => {
                let connection_thread =
                    tokio::time::timeout(limits::HANDSHAKE, ConnectionThread::accept(stream, handler, activity)).await;
                connection_thread.map_err(|_| invalid("no memory arrived".into()))??.run().await
            }
            ConnectionKind::Stream => {
                let hello = tokio::time::timeout(limits::HANDSHAKE, hello(&mut stream)).await;
                let hello = hello.map_err(|_| invalid("no hello arrived".into()))??;
                hand_over(stream, handler.accept_stream(&hello)).await
            }
            ConnectionKind::Calls => Err(invalid("gRPC is served elsewhere".into())),
        }
    };
    tokio::select! {
        _ = &mut permit.closed => Ok(()),
        served = serve => served,
    }
}

/// Reads the hello of a stream's client.
async fn hello(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32_le().await? as usize;
    if length > LONGEST_HELLO {
        return Err(invalid(format!("a hello of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Tells the client whether its stream is accepted, and passes it to its handler.
async fn hand_over(mut stream: UnixStream, accepted: Result<bulk::StreamHandler>) -> io::Result<()> {
    match accepted {
        Ok(handle) => {
            stream.write_u8(FRAME).await?;
            handle(stream.into_std()?);
            Ok(())
        }
        Err(error) => handshake::refuse(&mut stream, &error).await,
    }
}

/// Opens a stream. If the peer refuses it, [`fault::unwrap`] returns the peer's error.
pub(crate) fn stream(
    address: &Address,
    token: Option<&Token>,
    hello: &[u8],
    patience: Duration,
) -> io::Result<std::os::unix::net::UnixStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let open = async {
        let mut stream = open_local(address, token, ConnectionKind::Stream).await?;
        stream.write_all(&[&(hello.len() as u32).to_le_bytes(), hello].concat()).await?;
        match stream.read_u8().await? {
            FRAME => stream.into_std(),
            _ => Err(fault::wrap(handshake::refusal(&mut stream).await?)),
        }
    };
    let stream = runtime.block_on(async { tokio::time::timeout(patience, open).await });
    let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// The client's end. If nothing listens on the socket, frames go over gRPC.
pub(crate) struct Client {
    address: Address,
    token: Option<Token>,
    shared: Mutex<Option<shared::Connection>>,
    socket: Mutex<Option<socket::Connection>>,
    grpc: bulk::Client,
}

impl Client {
    pub(crate) fn new(address: &Address, token: Option<Token>, grpc: bulk::Client) -> Self {
        Self { address: address.clone(), token, shared: Mutex::new(None), socket: Mutex::new(None), grpc }
    }

    /// Opens a connection. Returns an error if the peer refuses it, `None` if there is no such socket.
    async fn open(&self, kind: ConnectionKind, deadline: Duration) -> Option<Result<UnixStream>> {
        let open = open_local(&self.address, self.token.as_ref(), kind);
        match tokio::time::timeout(deadline, open).await {
            Ok(Ok(stream)) => Some(Ok(stream)),
            Ok(Err(error)) if refused(&error) => Some(Err(fault::unreachable(error).at(self.peer().to_owned()))),
            Ok(Err(_)) => None,
            Err(_) => Some(Err(Error::new(Code::PeerUnreachable, "the connection failed")
                .at(self.peer().to_owned())
                .because(format!("no handshake in {} s", deadline.as_secs_f32())))),
        }
    }

    /// Calls through shared memory. Returns the frame if that is not possible.
    async fn call_shared(&self, frame: OutFrame, deadline: Duration) -> Result<Outcome<InFrame>, OutFrame> {
        let mut shared = self.shared.lock().await;
        if shared.is_none() {
            let stream = match self.open(ConnectionKind::Memory, deadline).await {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => return Ok(Outcome::Failed(error)),
                None => return Err(frame),
            };
            match shared::Connection::offer(stream).await {
                Ok(connection) => *shared = Some(connection),
                Err(_) => return Err(frame),
            }
        }
        let Some(entered) = shared.as_ref().and_then(|connection| connection.enter(&frame)) else { return Err(frame) };
        let Some(mut connection) = shared.take() else { return Err(frame) };
        let answer = tokio::time::timeout(deadline, connection.exchange(entered)).await;
        Ok(self.outcome(answer, deadline, || *shared = Some(connection)))
    }

    async fn call_socket(&self, frame: OutFrame, deadline: Duration) -> Outcome<InFrame> {
        let mut socket = self.socket.lock().await;
        let mut connection = match socket.take() {
            Some(connection) => connection,
            None => match self.open(ConnectionKind::Frames, deadline).await {
                Some(Ok(stream)) => socket::Connection::new(stream),
                Some(Err(error)) => return Outcome::Failed(error),
                None => return self.grpc.call(frame, deadline).await,
            },
        };
        let answer = tokio::time::timeout(deadline, connection.exchange(frame)).await;
        self.outcome(answer, deadline, || *socket = Some(connection))
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
            Outcome::Unknown(error.at(self.peer().to_owned()).because(why))
        };
        match answer {
            Ok(Ok(answer)) => {
                keep();
                answer.map_or_else(Outcome::Failed, Outcome::Done)
            }
            Ok(Err(error)) => unknown(error.to_string()),
            Err(_) => unknown(format!("{} s passed", deadline.as_secs_f32())),
        }
    }
}

impl Transport for Client {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        Box::pin(async move {
            match self.call_shared(frame, deadline).await {
                Ok(outcome) => outcome,
                Err(frame) => self.call_socket(frame, deadline).await,
            }
        })
    }

    fn peer(&self) -> &str {
        self.grpc.peer()
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

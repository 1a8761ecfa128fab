//! The bulk lane between tasks of one machine: the same frames, in memory that both share, or straight over a Unix socket
//! where there is none to be had. Other machines are reached over gRPC, which copies a frame twice on its way out and
//! twice on its way in (docs/performance.md has what that costs).
//!
//! The handshake of a connection says which of these it is for (`handshake.rs`).

mod attendant;
mod room;
mod shared;
mod slot;
mod socket;

use crate::bulk::{Handler, Pending, Transport};
use crate::connect::{open_local, refused};
use crate::connections::Permit;
use crate::frame::{InFrame, OutFrame};
use crate::handshake::{self, Purpose};
use crate::{Address, Outcome, Token, bulk, fault, limits};
use attendant::Attendant;
use phalanx_base::{Code, Error, Result};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

pub(crate) use room::AnswerHalf;

const LONGEST_HELLO: usize = 4096;

const FRAME: u8 = 0;
const FAULT: u8 = 1;

/// Serves one connection, past its handshake, until its client goes or its place is wanted.
pub(crate) async fn attend(
    mut stream: UnixStream,
    purpose: Purpose,
    handler: Arc<dyn Handler>,
    mut permit: Permit,
) -> io::Result<()> {
    let activity = permit.activity();
    let serve = async {
        match purpose {
            Purpose::Frames => socket::Connection::new(stream).attend(&handler, &activity).await,
            Purpose::Memory => {
                let attendant =
                    tokio::time::timeout(limits::HANDSHAKE, Attendant::accept(stream, handler, activity)).await;
                attendant.map_err(|_| invalid("no memory came".into()))??.attend().await
            }
            Purpose::Stream => {
                let hello = tokio::time::timeout(limits::HANDSHAKE, hello(&mut stream)).await;
                let hello = hello.map_err(|_| invalid("no introduction came".into()))??;
                hand_over(stream, handler.welcome(&hello)).await
            }
            Purpose::Calls => Err(invalid("gRPC is served elsewhere".into())),
        }
    };
    tokio::select! {
        _ = &mut permit.closed => Ok(()),
        served = serve => served,
    }
}

/// How the client of a stream introduces itself.
async fn hello(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32_le().await? as usize;
    if length > LONGEST_HELLO {
        return Err(invalid(format!("an introduction of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Gives the stream to whoever takes it, once the neighbour knows.
async fn hand_over(mut stream: UnixStream, welcome: Result<bulk::Taker>) -> io::Result<()> {
    match welcome {
        Ok(take) => {
            stream.write_u8(FRAME).await?;
            take(stream.into_std()?);
            Ok(())
        }
        Err(error) => handshake::refuse(&mut stream, &error).await,
    }
}

/// Opens a stream. A neighbour that refuses it does so by an error that [`fault::inside`] finds.
pub(crate) fn stream(
    address: &Address,
    token: Option<&Token>,
    introduction: &[u8],
    patience: Duration,
) -> io::Result<std::os::unix::net::UnixStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let open = async {
        let mut stream = open_local(address, token, Purpose::Stream).await?;
        stream.write_all(&[&(introduction.len() as u32).to_le_bytes(), introduction].concat()).await?;
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

/// The client's end. Where nobody listens on the socket, frames go over gRPC instead.
pub(crate) struct Client {
    address: Address,
    token: Option<Token>,
    shared: Mutex<Option<shared::Connection>>,
    socket: Mutex<Option<socket::Connection>>,
    otherwise: bulk::Client,
}

impl Client {
    pub(crate) fn new(address: &Address, token: Option<Token>, otherwise: bulk::Client) -> Self {
        Self { address: address.clone(), token, shared: Mutex::new(None), socket: Mutex::new(None), otherwise }
    }

    /// A new connection, or why it is refused; `None` where it cannot be had.
    async fn open(&self, purpose: Purpose, deadline: Duration) -> Option<Result<UnixStream>> {
        let open = open_local(&self.address, self.token.as_ref(), purpose);
        match tokio::time::timeout(deadline, open).await {
            Ok(Ok(stream)) => Some(Ok(stream)),
            Ok(Err(error)) if refused(&error) => Some(Err(fault::unreachable(error).at(self.peer().to_owned()))),
            Ok(Err(_)) => None,
            Err(_) => Some(Err(Error::new(Code::PeerUnreachable, "the connection failed")
                .at(self.peer().to_owned())
                .because(format!("no handshake in {} s", deadline.as_secs_f32())))),
        }
    }

    /// Through shared memory; gives the frame back where that cannot be.
    async fn call_shared(&self, frame: OutFrame, deadline: Duration) -> Result<Outcome<InFrame>, OutFrame> {
        let mut place = self.shared.lock().await;
        if place.is_none() {
            let stream = match self.open(Purpose::Memory, deadline).await {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => return Ok(Outcome::Failed(error)),
                None => return Err(frame),
            };
            match shared::Connection::offer(stream).await {
                Ok(connection) => *place = Some(connection),
                Err(_) => return Err(frame),
            }
        }
        let Some(entered) = place.as_ref().and_then(|connection| connection.enter(&frame)) else { return Err(frame) };
        let Some(mut connection) = place.take() else { return Err(frame) };
        let answer = tokio::time::timeout(deadline, connection.exchange(entered)).await;
        Ok(self.outcome(answer, deadline, || *place = Some(connection)))
    }

    async fn call_socket(&self, frame: OutFrame, deadline: Duration) -> Outcome<InFrame> {
        let mut place = self.socket.lock().await;
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => match self.open(Purpose::Frames, deadline).await {
                Some(Ok(stream)) => socket::Connection::new(stream),
                Some(Err(error)) => return Outcome::Failed(error),
                None => return self.otherwise.call(frame, deadline).await,
            },
        };
        let answer = tokio::time::timeout(deadline, connection.exchange(frame)).await;
        self.outcome(answer, deadline, || *place = Some(connection))
    }

    /// After a failure the connection is dropped: an answer that comes too late must not be taken for the next.
    fn outcome(
        &self,
        answer: Result<io::Result<Result<InFrame>>, tokio::time::error::Elapsed>,
        deadline: Duration,
        keep: impl FnOnce(),
    ) -> Outcome<InFrame> {
        let unknown = |why: String| {
            Outcome::Unknown(Error::new(Code::OutcomeUnknown, "no answer came").at(self.peer().to_owned()).because(why))
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
        self.otherwise.peer()
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

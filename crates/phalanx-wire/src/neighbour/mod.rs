//! The bulk lane between tasks of one machine: the same frames, in memory that both share, or straight over a Unix socket
//! where there is none to be had. Other machines are reached over gRPC, which copies a frame twice on its way out and
//! twice on its way in (docs/performance.md has what that costs).
//!
//! A connection starts with a greeting that says which of these it is for and carries the token.

mod attendant;
mod room;
mod shared;
mod socket;

use crate::bulk::{Handler, Pending, Transport};
use crate::frame::{InFrame, OutFrame};
use crate::proto::params::Fault;
use crate::{Outcome, Token, bulk, fault, limits};
use attendant::Attendant;
use bytes::Buf;
use phalanx_base::{Code, Error, Result};
use prost::Message;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Semaphore};

pub(crate) use room::{AnswerHalf, Room};

/// Starts frames through the socket.
const GREETING: &[u8; 8] = b"PHALANX1";
/// Starts frames in shared memory.
const MEMORY: &[u8; 8] = b"PHALANXM";
/// Starts a stream that is handed to the task, instead of frames.
const STREAM: &[u8; 8] = b"PHALANXS";
const LONGEST_TOKEN: usize = 4096;
const LONGEST_HELLO: usize = 4096;
/// How many neighbours may be connected at once.
const CONNECTIONS: usize = 4096;
/// How long a greeting, or the rest of a frame that has begun, may take.
const PATIENCE: Duration = Duration::from_secs(30);

const FRAME: u8 = 0;
const FAULT: u8 = 1;

/// Serves neighbours until dropped.
pub(crate) async fn serve(listener: UnixListener, handler: Arc<dyn Handler>, token: Option<Token>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (handler, token) = (Arc::clone(&handler), token.clone());
                tokio::spawn(async move {
                    // A connection that breaks is the peer's to notice: it knows which call had no answer.
                    let _ = attend(stream, handler, token).await;
                    drop(permit);
                });
            }
            // Out of file descriptors, most likely: let some be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn attend(mut stream: UnixStream, handler: Arc<dyn Handler>, token: Option<Token>) -> io::Result<()> {
    let greeted = tokio::time::timeout(PATIENCE, greeted(&mut stream)).await;
    let (wish, given) = greeted.map_err(|_| invalid("no greeting came".into()))??;
    let refused = Token::check_secret(token.as_ref(), &given).err();
    match wish {
        Wish::Frames => socket::Connection::new(stream).attend(&handler, refused.as_ref()).await,
        Wish::Memory => match refused {
            // A stranger's memory is not touched.
            Some(error) => socket::refuse(stream, &error).await,
            None => {
                stream.write_u8(FRAME).await?;
                let attendant = tokio::time::timeout(PATIENCE, Attendant::accept(stream, handler)).await;
                attendant.map_err(|_| invalid("no memory came".into()))??.attend().await
            }
        },
        Wish::Stream(hello) => hand_over(stream, refused.map_or_else(|| handler.welcome(&hello), Err)).await,
    }
}

/// What a neighbour wants a connection for.
enum Wish {
    Frames,
    Memory,
    /// A stream of its own; this is how it introduces itself.
    Stream(Vec<u8>),
}

/// What the neighbour wants, and its token.
async fn greeted(stream: &mut UnixStream) -> io::Result<(Wish, Vec<u8>)> {
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting).await?;
    if ![GREETING, MEMORY, STREAM].contains(&&greeting) {
        return Err(invalid("not a greeting of this protocol".into()));
    }
    let token = short(stream, LONGEST_TOKEN).await?;
    let wish = match &greeting {
        STREAM => Wish::Stream(short(stream, LONGEST_HELLO).await?),
        MEMORY => Wish::Memory,
        _ => Wish::Frames,
    };
    Ok((wish, token))
}

async fn short(stream: &mut UnixStream, longest: usize) -> io::Result<Vec<u8>> {
    let length = stream.read_u32_le().await? as usize;
    if length > longest {
        return Err(invalid(format!("a greeting of {length} bytes")));
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
        Err(error) => socket::refuse(stream, &error).await,
    }
}

/// Opens a stream, or says why the neighbour refuses it.
pub(crate) fn stream(
    port: u16,
    token: Option<&Token>,
    hello: &[u8],
    patience: Duration,
) -> io::Result<Result<std::os::unix::net::UnixStream>> {
    let mut stream = crate::connect::open_blocking(crate::connect::BULK, port)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let part = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    stream.write_all(&[&STREAM[..], &part(Token::secret(token)), &part(hello)].concat())?;
    let mut kind = [0];
    stream.read_exact(&mut kind)?;
    if kind[0] == FRAME {
        return Ok(Ok(stream));
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > limits::CONTROL_BYTES {
        return Err(invalid(format!("a refusal of {length} bytes")));
    }
    let mut fault = vec![0; length];
    stream.read_exact(&mut fault)?;
    Ok(Err(refusal(&fault[..])?))
}

/// The error that a peer answers with.
fn refusal(bytes: impl Buf) -> io::Result<Error> {
    let fault = Fault::decode(bytes).map_err(|_| invalid("an answer is malformed".into()))?;
    let unknown = || Error::new(Code::BadMessage, "the peer reports an error this build does not know");
    Ok(fault::from_wire(fault).unwrap_or_else(unknown))
}

/// The client's end. Where nobody listens on the socket, frames go over gRPC instead.
pub(crate) struct Client {
    port: u16,
    token: Option<Token>,
    shared: Mutex<Option<shared::Connection>>,
    socket: Mutex<Option<socket::Connection>>,
    otherwise: bulk::Client,
}

impl Client {
    pub(crate) fn new(port: u16, token: Option<Token>, otherwise: bulk::Client) -> Self {
        Self { port, token, shared: Mutex::new(None), socket: Mutex::new(None), otherwise }
    }

    async fn greet(&self, greeting: &[u8; 8]) -> io::Result<UnixStream> {
        let mut stream = crate::connect::open_local(crate::connect::BULK, self.port)?;
        let secret = Token::secret(self.token.as_ref());
        let greeting = [&greeting[..], &(secret.len() as u32).to_le_bytes(), secret].concat();
        stream.write_all(&greeting).await?;
        Ok(stream)
    }

    /// A connection with memory, or why the server refuses it.
    async fn open_shared(&self) -> io::Result<Result<shared::Connection>> {
        let mut stream = self.greet(MEMORY).await?;
        if stream.read_u8().await? == FRAME {
            return Ok(Ok(shared::Connection::offer(stream).await?));
        }
        let fault = short(&mut stream, limits::CONTROL_BYTES).await?;
        Ok(Err(refusal(&fault[..])?))
    }

    /// Through shared memory; gives the frame back where that cannot be.
    async fn call_shared(&self, frame: OutFrame, deadline: Duration) -> Result<Outcome<InFrame>, OutFrame> {
        let mut place = self.shared.lock().await;
        if place.is_none() {
            match tokio::time::timeout(deadline, self.open_shared()).await {
                Ok(Ok(Ok(connection))) => *place = Some(connection),
                Ok(Ok(Err(error))) => return Ok(Outcome::Failed(error)),
                Ok(Err(_)) | Err(_) => return Err(frame),
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
            None => match self.greet(GREETING).await {
                Ok(stream) => socket::Connection::new(stream),
                Err(_) => return self.otherwise.call(frame, deadline).await,
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

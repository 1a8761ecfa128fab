//! The bulk lane between tasks of one machine: the same frames, straight over a Unix socket.
//!
//! gRPC copies a frame twice on its way out and twice on its way in; here a frame is written from where its parts lie
//! and read into one buffer that is used again: 1.2 to 1.6 times the steps per second (docs/performance.md). Other
//! machines are reached over gRPC.
//!
//! A connection starts with a greeting that carries the token. Then, in turns: a request `[u32 length][u32 header
//! length][header][body]`, and an answer of the same form behind one byte that tells frames from errors.

use crate::bulk::{Handler, Pending, Transport};
use crate::frame::{InFrame, OutFrame};
use crate::proto::params::Fault;
use crate::{Outcome, Token, bulk, fault, limits};
use bytes::{Buf, Bytes, BytesMut};
use phalanx_base::{Code, Error, Result};
use prost::Message;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Semaphore};

const GREETING: &[u8; 8] = b"PHALANX1";
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

/// One end of a connection, with the buffer that frames are read into.
struct Connection {
    stream: UnixStream,
    buffer: BytesMut,
}

impl Connection {
    fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    async fn write(&mut self, first: &[u8], parts: &mut (impl Buf + ?Sized)) -> io::Result<()> {
        let mut all = Buf::chain(first, parts);
        self.stream.write_all_buf(&mut all).await
    }

    async fn refuse(&mut self, error: &Error) -> io::Result<()> {
        let fault = fault::to_wire(error).encode_to_vec();
        let mut start = vec![FAULT];
        start.extend((fault.len() as u32).to_le_bytes());
        self.write(&start, &mut &fault[..]).await
    }

    /// Reads `[u32 length]` and that many bytes; the length is checked first.
    async fn read(&mut self) -> io::Result<Bytes> {
        let length = self.stream.read_u32_le().await? as usize;
        if length > limits::FRAME_BYTES {
            return Err(invalid(format!("a frame of {length} bytes, at most {} are accepted", limits::FRAME_BYTES)));
        }
        self.buffer.clear();
        // Takes the old memory again when the last frame's reader is done with it.
        self.buffer.reserve(length);
        let rest = async {
            let mut stream = (&mut self.stream).take(length as u64);
            while self.buffer.len() < length {
                if stream.read_buf(&mut self.buffer).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, rest)
            .await
            .map_err(|_| invalid("the rest of a frame did not come".into()))??;
        Ok(self.buffer.split().freeze())
    }
}

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
                    let _ = attend(Connection::new(stream), handler, token).await;
                    drop(permit);
                });
            }
            // Out of file descriptors, most likely: let some be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn attend(mut peer: Connection, handler: Arc<dyn Handler>, token: Option<Token>) -> io::Result<()> {
    let greeted = tokio::time::timeout(PATIENCE, greeted(&mut peer.stream)).await;
    let (given, hello) = greeted.map_err(|_| invalid("no greeting came".into()))??;
    let refused = Token::check_secret(token.as_ref(), &given).err();
    if let Some(hello) = hello {
        let welcome = refused.map_or_else(|| handler.welcome(&hello), Err);
        return hand_over(peer, welcome).await;
    }
    loop {
        let frame = peer.read().await?;
        let answer = match &refused {
            Some(error) => Err(error.clone()),
            None => match InFrame::read(frame) {
                Ok(frame) => Arc::clone(&handler).call(frame).await,
                Err(error) => Err(error),
            },
        };
        match answer {
            Ok(frame) => {
                let mut start = vec![FRAME];
                frame.put_prefix(&mut start);
                peer.write(&start, &mut frame.into_body()).await?;
            }
            Err(error) => peer.refuse(&error).await?,
        }
    }
}

/// The token, and the hello of a neighbour that wants a stream.
async fn greeted(stream: &mut UnixStream) -> io::Result<(Vec<u8>, Option<Vec<u8>>)> {
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting).await?;
    if &greeting != GREETING && &greeting != STREAM {
        return Err(invalid("not a greeting of this protocol".into()));
    }
    let token = short(stream, LONGEST_TOKEN).await?;
    let hello = if &greeting == STREAM { Some(short(stream, LONGEST_HELLO).await?) } else { None };
    Ok((token, hello))
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
async fn hand_over(mut peer: Connection, welcome: Result<bulk::Taker>) -> io::Result<()> {
    match welcome {
        Ok(take) => {
            peer.stream.write_u8(FRAME).await?;
            take(peer.stream.into_std()?);
            Ok(())
        }
        Err(error) => peer.refuse(&error).await,
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
    connection: Mutex<Option<Connection>>,
    otherwise: bulk::Client,
}

impl Client {
    pub(crate) fn new(port: u16, token: Option<Token>, otherwise: bulk::Client) -> Self {
        Self { port, token, connection: Mutex::new(None), otherwise }
    }

    async fn connect(&self) -> io::Result<Connection> {
        let mut stream = crate::connect::open_local(crate::connect::BULK, self.port)?;
        let secret = Token::secret(self.token.as_ref());
        let greeting = [&GREETING[..], &(secret.len() as u32).to_le_bytes(), secret].concat();
        stream.write_all(&greeting).await?;
        Ok(Connection::new(stream))
    }

    async fn exchange(connection: &mut Connection, frame: OutFrame) -> io::Result<Result<InFrame>> {
        let mut start = Vec::with_capacity(256);
        frame.put_prefix(&mut start);
        connection.write(&start, &mut frame.into_body()).await?;
        let kind = connection.stream.read_u8().await?;
        let bytes = connection.read().await?;
        match kind {
            FRAME => Ok(InFrame::read(bytes)),
            _ => Ok(Err(refusal(bytes)?)),
        }
    }
}

impl Transport for Client {
    fn call(&self, frame: OutFrame, deadline: Duration) -> Pending<'_, Outcome<InFrame>> {
        Box::pin(async move {
            let mut place = self.connection.lock().await;
            let mut connection = match place.take() {
                Some(connection) => connection,
                None => match self.connect().await {
                    Ok(connection) => connection,
                    Err(_) => return self.otherwise.call(frame, deadline).await,
                },
            };
            let unknown = |why: String| {
                Outcome::Unknown(
                    Error::new(Code::OutcomeUnknown, "no answer came").at(self.peer().to_owned()).because(why),
                )
            };
            // After a failure the connection is dropped: an answer that comes too late must not be taken for the next.
            match tokio::time::timeout(deadline, Self::exchange(&mut connection, frame)).await {
                Ok(Ok(answer)) => {
                    *place = Some(connection);
                    answer.map_or_else(Outcome::Failed, Outcome::Done)
                }
                Ok(Err(error)) => unknown(error.to_string()),
                Err(_) => unknown(format!("{} s passed", deadline.as_secs_f32())),
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

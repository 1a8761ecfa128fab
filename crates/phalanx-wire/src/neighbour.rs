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
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, Semaphore};

const GREETING: &[u8; 8] = b"PHALANX1";
const LONGEST_TOKEN: usize = 4096;
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
    let given = greeted.map_err(|_| invalid("no greeting came".into()))??;
    let refused = Token::check_secret(token.as_ref(), &given).err();
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
            Err(error) => {
                let fault = fault::to_wire(&error).encode_to_vec();
                let mut start = vec![FAULT];
                start.extend((fault.len() as u32).to_le_bytes());
                peer.write(&start, &mut &fault[..]).await?;
            }
        }
    }
}

async fn greeted(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting).await?;
    let length = stream.read_u32_le().await? as usize;
    if &greeting != GREETING || length > LONGEST_TOKEN {
        return Err(invalid("not a greeting of this protocol".into()));
    }
    let mut token = vec![0; length];
    stream.read_exact(&mut token).await?;
    Ok(token)
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
            _ => {
                let fault = Fault::decode(bytes).map_err(|_| invalid("an answer is malformed".into()))?;
                let unknown = || Error::new(Code::BadMessage, "the peer reports an error this build does not know");
                Ok(Err(fault::from_wire(fault).unwrap_or_else(unknown)))
            }
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

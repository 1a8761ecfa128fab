//! Byte streams for a task's own use: the client sends a hello, and the server accepts or refuses it.

use crate::bulk::{Handler, StreamHandler};
use crate::connect::{self, Stream};
use crate::framed::FRAME;
use crate::handshake::{self, ConnectionKind};
use crate::{Address, PeerStream, Token, fault, limits};
use phalanx_base::Result;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

const LONGEST_HELLO: usize = 4096;
/// The bytes of an encrypted stream that are carried at once.
const CARRIED: usize = 256 << 10;

/// Where a stream is to be opened, and with which hello.
pub(crate) struct Opening<'a> {
    pub(crate) address: &'a Address,
    pub(crate) token: Option<&'a Token>,
    pub(crate) hello: &'a [u8],
    pub(crate) over_network: bool,
}

/// Opens a stream. If the peer refuses it, [`fault::unwrap`] returns the peer's error.
pub(crate) fn open(opening: &Opening<'_>, patience: Duration) -> io::Result<PeerStream> {
    let is_encrypted = opening.over_network && connect::encrypts(opening.token, opening.address.is_loopback());
    let stream = if is_encrypted {
        open_bridged(opening, patience)?
    } else {
        runtime()?.block_on(in_time(patience, async { PeerStream::from_tokio(opening.open().await?) }))?
    };
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// Opens an encrypted stream on a thread that then carries its bytes to and from a local socket. So its user can poll it, and
/// read on one thread while another one writes.
fn open_bridged(opening: &Opening<'_>, patience: Duration) -> io::Result<PeerStream> {
    let (opened, result) = std::sync::mpsc::sync_channel(1);
    let (address, token) = (opening.address.clone(), opening.token.cloned());
    let (hello, over_network) = (opening.hello.to_vec(), opening.over_network);
    let carry_bytes = move || {
        let opening = Opening { address: &address, token: token.as_ref(), hello: &hello, over_network };
        let open = async {
            let stream = in_time(patience, opening.open()).await?;
            let (near, far) = pair()?;
            io::Result::Ok((stream, near, far))
        };
        let carrying = runtime().and_then(|runtime| {
            let (stream, near, far) = runtime.block_on(open)?;
            Ok((runtime, stream, near, far))
        });
        match carrying {
            Ok((runtime, stream, near, far)) => {
                if opened.send(Ok(near)).is_ok() {
                    runtime.block_on(carry(stream, far));
                }
            }
            Err(error) => drop(opened.send(Err(error))),
        }
    };
    std::thread::Builder::new().name("phalanx-tls".into()).spawn(carry_bytes)?;
    result.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of the stream ended")))
}

/// Makes a local socket, whose far end a task on the current runtime carries bytes to.
fn pair() -> io::Result<(PeerStream, UnixStream)> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    far.set_nonblocking(true)?;
    Ok((PeerStream::bridged(near), UnixStream::from_std(far)?))
}

/// Carries bytes both ways until both have ended, or one fails.
async fn carry(mut stream: Stream, mut far: UnixStream) {
    // Both ends see how it ended.
    let _ = tokio::io::copy_bidirectional_with_sizes(&mut stream, &mut far, CARRIED, CARRIED).await;
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

async fn in_time<T>(patience: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

impl Opening<'_> {
    async fn open(&self) -> io::Result<Stream> {
        let kind = ConnectionKind::Stream;
        let mut stream = if self.over_network {
            connect::open_remote(self.address, self.token, kind).await?
        } else {
            connect::open_local(self.address, self.token, kind).await?.into()
        };
        stream.write_all(&[&(self.hello.len() as u32).to_le_bytes(), self.hello].concat()).await?;
        stream.flush().await?;
        match stream.read_u8().await? {
            FRAME => Ok(stream),
            _ => Err(fault::wrap(handshake::refusal(&mut stream).await?)),
        }
    }
}

/// Serves the client of a stream: reads its hello, and passes the stream to its handler.
pub(crate) async fn serve(mut stream: Stream, handler: Arc<dyn Handler>) -> io::Result<()> {
    let hello = tokio::time::timeout(limits::HANDSHAKE, hello(&mut stream)).await;
    let hello = hello.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no hello arrived"))??;
    hand_over(stream, handler.accept_stream(&hello)).await
}

async fn hello(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32_le().await? as usize;
    if length > LONGEST_HELLO {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a hello of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Tells the client whether its stream is accepted, and passes it to its handler.
async fn hand_over(mut stream: Stream, accepted: Result<StreamHandler>) -> io::Result<()> {
    match accepted {
        Ok(handle) => {
            stream.write_u8(FRAME).await?;
            stream.flush().await?;
            match stream {
                Stream::Tls(_) => {
                    let (near, far) = pair()?;
                    tokio::spawn(carry(stream, far));
                    handle(near);
                }
                plain => handle(PeerStream::from_tokio(plain)?),
            }
            Ok(())
        }
        Err(error) => handshake::refuse(&mut stream, &error).await,
    }
}

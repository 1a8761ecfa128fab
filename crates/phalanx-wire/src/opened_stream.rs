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

const LONGEST_HELLO: usize = 4096;

/// Opens a stream, on the same host or over the network. If the peer refuses it, [`fault::unwrap`] returns the peer's error.
pub(crate) fn open(
    address: &Address,
    token: Option<&Token>,
    hello: &[u8],
    patience: Duration,
    over_network: bool,
) -> io::Result<PeerStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let open = async {
        let kind = ConnectionKind::Stream;
        let mut stream = if over_network {
            connect::open_remote(address, token, kind).await?
        } else {
            connect::open_local(address, token, kind).await?.into()
        };
        stream.write_all(&[&(hello.len() as u32).to_le_bytes(), hello].concat()).await?;
        match stream.read_u8().await? {
            FRAME => PeerStream::from_tokio(stream),
            _ => Err(fault::wrap(handshake::refusal(&mut stream).await?)),
        }
    };
    let stream = runtime.block_on(async { tokio::time::timeout(patience, open).await });
    let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
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
            handle(PeerStream::from_tokio(stream)?);
            Ok(())
        }
        Err(error) => handshake::refuse(&mut stream, &error).await,
    }
}

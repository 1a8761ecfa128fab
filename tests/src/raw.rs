//! Sends bytes that no honest client sends, over both transports of a parameter server.

use hmac::{Hmac, Mac};
use phalanx_base::{Code, Error};
use phalanx_ps::proto::Request;
use phalanx_wire::proto::common::Fault;
use phalanx_wire::{Address, Lane, Token, connect, error_from_status};
use prost::Message;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// How a server received some bytes.
#[derive(Debug)]
pub enum Received {
    /// It answered.
    Answer,
    /// It refused, with an error of ours.
    Refused(Error),
    /// It closed the connection.
    Closed,
}

impl Received {
    /// The code of the refusal.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(error) => Some(error.code()),
            _ => None,
        }
    }
}

/// A frame's bytes: header length, header, body.
#[must_use]
pub fn frame(request: &Request, body: &[u8]) -> Vec<u8> {
    let header = request.encode_to_vec();
    [&(header.len() as u32).to_le_bytes()[..], &header, body].concat()
}

/// A connection to the socket for tasks on the same host.
pub struct SameHostPeer {
    stream: UnixStream,
    port: u16,
}

impl SameHostPeer {
    /// Connects without a handshake.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn connect(port: u16) -> Self {
        let name = SocketAddr::from_abstract_name(format!("phalanx:127.0.0.1:{port}")).expect("a socket's name");
        let stream = UnixStream::connect_addr(&name).expect("the server listens for tasks on its host");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        stream.set_write_timeout(Some(PATIENCE)).expect("a deadline");
        Self { stream, port }
    }

    /// The handshake of a client that wants to send frames, as decision 023 describes it.
    ///
    /// # Errors
    /// What the server does instead of accepting.
    ///
    /// # Panics
    /// When the server accepts and does not prove that it knows the token.
    pub fn greet(mut self, token: Option<&str>) -> Result<Self, Received> {
        let (mine, mut theirs) = ([42; 32], [0; 32]);
        self.send(&[&b"PHALANX2F"[..], &[u8::from(token.is_some())], &mine].concat());
        if self.stream.read_exact(&mut theirs).is_err() {
            return Err(Received::Closed);
        }
        let mut key = [0; 64];
        if let Some(token) = token {
            key[..32].copy_from_slice(&Sha256::digest(token));
        }
        let proof = |side: &[u8; 6]| {
            let mac = Hmac::<Sha256>::new(&key.into()).chain_update(side).chain_update(b"F");
            mac.chain_update(self.port.to_le_bytes()).chain_update(mine).chain_update(theirs).finalize().into_bytes()
        };
        let (client, server) = (proof(b"client"), proof(b"server"));
        self.send(&client);
        let mut kind = [0];
        match self.stream.read_exact(&mut kind) {
            Err(_) => Err(Received::Closed),
            Ok(()) if kind == [0] => {
                let mut proof = [0; 32];
                self.stream.read_exact(&mut proof).expect("the server's proof");
                assert_eq!(proof[..], server[..], "the server knows the token");
                Ok(self)
            }
            Ok(()) => Err(self.rest(kind[0])),
        }
    }

    /// Sends bytes as they are; a server that has closed the connection is seen when the answer is read.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends a frame and waits for what comes of it.
    pub fn call(&mut self, frame: &[u8]) -> Received {
        self.send(&(frame.len() as u32).to_le_bytes());
        self.send(frame);
        self.receive()
    }

    /// Waits for an answer.
    ///
    /// # Panics
    /// When neither an answer nor an end comes in time.
    pub fn receive(&mut self) -> Received {
        let mut kind = [0];
        match self.stream.read_exact(&mut kind) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the server neither answers nor closes")
            }
            Err(_) => Received::Closed,
            Ok(()) => self.rest(kind[0]),
        }
    }

    /// What follows the byte that tells answers from refusals.
    fn rest(&mut self, kind: u8) -> Received {
        let mut length = [0; 4];
        if self.stream.read_exact(&mut length).is_err() {
            return Received::Closed;
        }
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        if self.stream.read_exact(&mut bytes).is_err() {
            return Received::Closed;
        }
        if kind == 0 {
            return Received::Answer;
        }
        let fault = Fault::decode(&*bytes).expect("a refusal is a fault");
        Received::Refused(Error::new(Code::from_number(fault.code).expect("a known code"), fault.what))
    }
}

/// Sends `bytes` as the whole body of a gRPC call, with no regard to what gRPC wants there.
///
/// # Panics
/// When neither an answer nor an end comes in time.
pub async fn grpc(address: &Address, token: Option<&Token>, bytes: Vec<u8>) -> Received {
    let mut channel = connect(address, Lane::Bulk, token);
    let request = http::Request::post("http://phalanx/phalanx.Bulk/Call")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(Once(Some(bytes.into()))))
        .expect("a request");
    let call = async {
        std::future::poll_fn(|cx| tower_service::Service::poll_ready(&mut channel, cx)).await?;
        tower_service::Service::call(&mut channel, request).await
    };
    let answer = tokio::time::timeout(PATIENCE, call).await.expect("the server neither answers nor closes");
    match answer {
        Err(error) => {
            let status = tonic::Status::from_error(error.into());
            let error = error_from_status(&status, "the server");
            if error.code() == Code::WrongToken { Received::Refused(error) } else { Received::Closed }
        }
        Ok(answer) => match tonic::Status::from_header_map(answer.headers()) {
            Some(status) if status.code() != tonic::Code::Ok => {
                Received::Refused(error_from_status(&status, "the server"))
            }
            _ => Received::Answer,
        },
    }
}

/// A message of gRPC: a flag, the length, the bytes.
#[must_use]
pub fn grpc_message(frame: &[u8]) -> Vec<u8> {
    [&[0][..], &(frame.len() as u32).to_be_bytes(), frame].concat()
}

/// A body of one piece.
struct Once(Option<bytes::Bytes>);

impl http_body::Body for Once {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}

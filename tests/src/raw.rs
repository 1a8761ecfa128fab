//! Sends bytes that no honest client sends to a task, over both of its sockets.

use hmac::{Hmac, Mac};
use phalanx_base::{Code, Error};
use phalanx_ps::proto::Request;
use phalanx_wire::proto::common::Fault;
use prost::Message;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
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

trait ByteStream: Read + Write {}

impl<S: Read + Write> ByteStream for S {}

/// A connection to a task.
pub struct RawPeer {
    stream: Box<dyn ByteStream>,
    port: u16,
}

impl RawPeer {
    /// Connects to both sockets of a task without a handshake: that for tasks on the same host, and its port.
    #[must_use]
    pub fn both(port: u16) -> [Self; 2] {
        [Self::same_host(port), Self::over_network(port)]
    }

    /// Connects to the socket for tasks on the same host without a handshake.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn same_host(port: u16) -> Self {
        let name = SocketAddr::from_abstract_name(format!("phalanx:127.0.0.1:{port}")).expect("a socket's name");
        let stream = UnixStream::connect_addr(&name).expect("the server listens for tasks on its host");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        stream.set_write_timeout(Some(PATIENCE)).expect("a deadline");
        Self { stream: Box::new(stream), port }
    }

    /// Connects to the task's port without a handshake.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn over_network(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens at its port");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        stream.set_write_timeout(Some(PATIENCE)).expect("a deadline");
        Self { stream: Box::new(stream), port }
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

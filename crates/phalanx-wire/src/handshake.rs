//! The handshake of every connection: both ends prove that they know the job's token, without revealing it.
//!
//! ```text
//! client  PHALANX2, kind, whether it has a token, 32 random bytes
//! server  32 random bytes
//! client  HMAC-SHA256(token, "client", kind, port, both random numbers)
//! server  0, HMAC-SHA256(token, "server", kind, port, both random numbers)    or 1, length, error
//! ```
//!
//! The client proves itself first, so a server reveals nothing that depends on the token; the client sends nothing more
//! before the server has proved itself. The port is part of the proof, so that a listener at one port cannot relay the
//! proof to a task at another, and so is a secret of the TLS connection around it, if there is one, so that nobody can relay
//! it from one connection to another. Without a token the key is a constant: the exchange then only keeps out other
//! protocols. Decisions 023 and 035 have the reasons.

use crate::tls::Binding;
use crate::{Token, fault, limits};
use hmac::Mac;
use phalanx_base::{Code, Error};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAGIC: &[u8; 8] = b"PHALANX2";
const NONCE: usize = 32;
const PROOF: usize = 32;
const HELLO: usize = MAGIC.len() + 2 + NONCE;
const ACCEPTED: u8 = 0;
const REFUSED: u8 = 1;

/// The kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionKind {
    /// gRPC: the control lane.
    Calls,
    /// Frames over the connection itself.
    Frames,
    /// Frames in shared memory.
    Memory,
    /// A byte stream for the task's own use.
    Stream,
}

impl ConnectionKind {
    const ALL: [Self; 4] = [Self::Calls, Self::Frames, Self::Memory, Self::Stream];

    fn byte(self) -> u8 {
        match self {
            Self::Calls => b'C',
            Self::Frames => b'F',
            Self::Memory => b'M',
            Self::Stream => b'S',
        }
    }
}

/// The inputs of the proofs, known to both ends.
struct Transcript {
    kind: ConnectionKind,
    port: u16,
    client: [u8; NONCE],
    server: [u8; NONCE],
    binding: Binding,
}

impl Transcript {
    fn mac(&self, token: Option<&Token>, side: &[u8; 6]) -> hmac::Hmac<sha2::Sha256> {
        let mut mac = Token::mac(token);
        mac.update(side);
        mac.update(&[self.kind.byte()]);
        mac.update(&self.port.to_le_bytes());
        mac.update(&self.client);
        mac.update(&self.server);
        self.binding.iter().for_each(|secret| mac.update(secret));
        mac
    }

    fn proof(&self, token: Option<&Token>, side: &[u8; 6]) -> [u8; PROOF] {
        self.mac(token, side).finalize().into_bytes().into()
    }

    fn proves(&self, token: Option<&Token>, side: &[u8; 6], proof: &[u8; PROOF]) -> bool {
        self.mac(token, side).verify_slice(proof).is_ok()
    }
}

/// Performs the client's side. If either end refuses, [`fault::unwrap`] returns the error.
pub(crate) async fn greet<S>(
    stream: &mut S,
    token: Option<&Token>,
    kind: ConnectionKind,
    port: u16,
    binding: Binding,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let client = nonce()?;
    let mut hello = MAGIC.to_vec();
    hello.extend([kind.byte(), u8::from(token.is_some())]);
    hello.extend(client);
    send(stream, &hello).await?;
    let mut server = [0; NONCE];
    stream.read_exact(&mut server).await?;
    let transcript = Transcript { kind, port, client, server, binding };
    send(stream, &transcript.proof(token, b"client")).await?;
    if stream.read_u8().await? != ACCEPTED {
        return Err(fault::wrap(refusal(stream).await?));
    }
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    if transcript.proves(token, b"server", &proof) {
        return Ok(());
    }
    Err(fault::wrap(
        Error::new(Code::WrongToken, "the task at this address does not know the job token")
            .because("it is not a task of this job")
            .help("give every task of the job the same PHALANX_TOKEN, and check what listens there"),
    ))
}

/// Performs the server's side, and returns the kind of the connection. A refused client is told why.
pub(crate) async fn receive<S>(
    stream: &mut S,
    token: Option<&Token>,
    port: u16,
    binding: Binding,
    refuses: impl FnOnce(ConnectionKind) -> Option<Error>,
) -> io::Result<ConnectionKind>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut hello = [0; HELLO];
    stream.read_exact(&mut hello).await?;
    let (magic, rest) = hello.split_at(MAGIC.len());
    let kind = ConnectionKind::ALL.into_iter().find(|kind| kind.byte() == rest[0]);
    let (Some(kind), true) = (kind, magic == MAGIC) else { return Err(io::ErrorKind::InvalidData.into()) };
    let (mut client, server) = ([0; NONCE], nonce()?);
    client.copy_from_slice(&rest[2..]);
    send(stream, &server).await?;
    let transcript = Transcript { kind, port, client, server, binding };
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof).await?;
    let refused = if !transcript.proves(token, b"client", &proof) {
        Some(wrong_token(token.is_some(), rest[1] != 0))
    } else {
        refuses(kind)
    };
    if let Some(error) = refused {
        refuse(stream, &error).await?;
        return Err(fault::wrap(error));
    }
    let mut accepted = vec![ACCEPTED];
    accepted.extend(transcript.proof(token, b"server"));
    send(stream, &accepted).await?;
    Ok(kind)
}

/// Writes bytes and makes sure that they leave: an encrypted stream may hold them.
async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

fn wrong_token(wanted: bool, given: bool) -> Error {
    let why = match (wanted, given) {
        (true, false) => "the client has none",
        (false, true) => "this task has none",
        _ => "it is not the token of this job, or the client meant another port",
    };
    Error::new(Code::WrongToken, "the job token is refused")
        .because(why)
        .help("give every task of the job the same PHALANX_TOKEN")
}

/// Sends an error instead of an answer.
pub(crate) async fn refuse(stream: &mut (impl AsyncWrite + Unpin), error: &Error) -> io::Result<()> {
    let fault = fault::error_to_bytes(error);
    let start = [&[REFUSED][..], &(fault.len() as u32).to_le_bytes()].concat();
    send(stream, &[&start[..], &fault].concat()).await
}

/// Reads what [`refuse`] sent after its first byte.
pub(crate) async fn refusal(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Error> {
    let length = stream.read_u32_le().await? as usize;
    if length > limits::REFUSAL_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    fault::decode(&bytes[..])
}

fn nonce() -> io::Result<[u8; NONCE]> {
    let mut bytes = [0; NONCE];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    fn token(text: &str) -> Option<Token> {
        Some(Token::new(text).unwrap())
    }

    fn meet(
        client: Option<Token>,
        server: Option<Token>,
        ports: (u16, u16),
    ) -> (io::Result<()>, io::Result<ConnectionKind>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut near, mut far) = duplex(1024);
            tokio::join!(
                greet(&mut near, client.as_ref(), ConnectionKind::Memory, ports.0, None),
                receive(&mut far, server.as_ref(), ports.1, None, |_| None)
            )
        })
    }

    fn code<T>(result: io::Result<T>) -> Option<Code> {
        fault::unwrap(&result.err()?).map(Error::code)
    }

    #[test]
    fn two_who_know_the_same_token_accept_each_other() {
        for token in [None, token("secret")] {
            let (client, server) = meet(token.clone(), token, (7, 7));
            assert_eq!((client.unwrap(), server.unwrap()), ((), ConnectionKind::Memory));
        }
    }

    #[test]
    fn whoever_lacks_the_token_is_refused() {
        let cases = [(None, token("secret")), (token("secret"), None), (token("other"), token("secret"))];
        for (client, server) in cases {
            let (client, server) = meet(client, server, (7, 7));
            assert_eq!((code(client), code(server)), (Some(Code::WrongToken), Some(Code::WrongToken)));
        }
        let (client, server) = meet(token("secret"), token("secret"), (7, 8));
        assert_eq!(
            (code(client), code(server)),
            (Some(Code::WrongToken), Some(Code::WrongToken)),
            "a proof for another port"
        );
    }

    /// Records everything that a client with a token sends to a server that accepts anything.
    #[test]
    fn an_impostor_hears_nothing_that_it_can_use_and_no_more_once_it_cannot_prove_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let heard = runtime.block_on(async {
            let (mut near, mut far) = duplex(1024);
            let impostor = async {
                let mut heard = vec![0; HELLO + PROOF];
                far.read_exact(&mut heard[..HELLO]).await.unwrap();
                far.write_all(&[7; NONCE]).await.unwrap();
                far.read_exact(&mut heard[HELLO..]).await.unwrap();
                // The client's own proof, reflected.
                let echo = [&[ACCEPTED][..], &heard[HELLO..]].concat();
                far.write_all(&echo).await.unwrap();
                far.read_to_end(&mut heard).await.unwrap();
                heard
            };
            let client = async {
                let met = greet(&mut near, token("secret").as_ref(), ConnectionKind::Calls, 7, None).await;
                drop(near);
                met
            };
            let (met, heard) = tokio::join!(client, impostor);
            assert_eq!(code(met), Some(Code::WrongToken));
            heard
        });
        assert_eq!(heard.len(), HELLO + PROOF);
        assert!(!heard.windows(6).any(|window| window == b"secret"));
    }

    #[test]
    fn other_protocols_and_purposes_are_not_answered() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for start in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], b"PHALANX1", b"PHALANX2?"] {
            let mut bytes = start.to_vec();
            bytes.resize(HELLO, 0);
            let seen = runtime.block_on(async {
                let (mut near, mut far) = duplex(1024);
                near.write_all(&bytes).await.unwrap();
                receive(&mut far, None, 7, None, |_| None).await
            });
            assert_eq!(seen.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}

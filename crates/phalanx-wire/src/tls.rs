//! Encryption of connections to other hosts: TLS 1.3 with keys that are made for the connection and prove nothing.
//!
//! Who the peers are is proved by the handshake inside (`handshake.rs`), whose proofs contain a secret of this TLS connection:
//! whoever stands between two tasks has two TLS connections, and a proof for one is not a proof for the other. So no
//! certificates have to be made and distributed (decision 035).

use crate::connect::Stream;
use phalanx_base::{Code, Context, Error, Result};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// The first byte of a TLS connection: a handshake record.
pub(crate) const FIRST_BYTE: u8 = 22;
/// A secret of a TLS connection that only its two ends know, for the proofs inside of it (RFC 9266).
const BINDING: &[u8] = b"EXPORTER-Channel-Binding";

/// What a proof is bound to: the TLS connection that it is sent on, or nothing.
pub(crate) type Binding = Option<[u8; 32]>;

/// Encrypts a connection as its client.
pub(crate) async fn connect(stream: TcpStream) -> io::Result<(Stream, Binding)> {
    let provider = Arc::new(ring::default_provider());
    let any_key = Arc::new(AnyKey(provider.signature_verification_algorithms));
    let config =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]).map_err(io::Error::other)?;
    let mut config = config.dangerous().with_custom_certificate_verifier(any_key).with_no_client_auth();
    (config.resumption, config.enable_sni) = (Resumption::disabled(), false);
    // Not sent, and not compared with anything.
    let nobody = ServerName::IpAddress(Ipv4Addr::UNSPECIFIED.into());
    let stream = TlsConnector::from(Arc::new(config)).connect(nobody, stream).await?;
    let binding = stream.get_ref().1.export_keying_material([0; 32], BINDING, Some(&[])).map_err(io::Error::other)?;
    Ok((Stream::Tls(Box::new(TlsStream::from(stream))), Some(binding)))
}

/// Encrypts connections as their server.
#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// Makes the key.
    pub(crate) fn new() -> Result<Self> {
        let unusable = "the key of encrypted connections cannot be made";
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
        let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::new(key()?));
        let mut config =
            config.context(Code::Internal, unusable)?.with_no_client_auth().with_cert_resolver(Arc::new(resolver));
        config.send_tls13_tickets = 0;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<(Stream, Binding)> {
        let stream = self.0.accept(stream).await?;
        let binding =
            stream.get_ref().1.export_keying_material([0; 32], BINDING, Some(&[])).map_err(io::Error::other)?;
        Ok((Stream::Tls(Box::new(TlsStream::from(stream))), Some(binding)))
    }
}

/// Makes a random Ed25519 key.
fn key() -> Result<CertifiedKey> {
    /// A PKCS #8 document up to its 32 secret bytes.
    const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let unusable = "the key of encrypted connections cannot be made";
    let mut document = [&PKCS8[..], &[0; 32]].concat();
    getrandom::fill(&mut document[PKCS8.len()..]).context(Code::Internal, unusable)?;
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(document)).context(Code::Internal, unusable)?;
    let public = key.public_key().ok_or_else(|| Error::new(Code::Internal, unusable))?;
    Ok(CertifiedKey::new(vec![CertificateDer::from(public.as_ref().to_vec())], key))
}

/// Accepts every key whose owner is at the other end.
#[derive(Debug)]
struct AnyKey(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature_with_raw_key(message, &SubjectPublicKeyInfoDer::from(key.as_ref()), signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{ConnectionKind, greet, receive};
    use crate::{Token, fault};
    use std::time::Duration;
    use tokio::net::TcpListener;

    const PORT: u16 = 7;

    fn token() -> Option<Token> {
        Some(Token::new("secret").unwrap())
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap());
        let (near, accepted) = tokio::join!(near, listener.accept());
        (near.unwrap(), accepted.unwrap().0)
    }

    async fn client(stream: TcpStream) -> io::Result<()> {
        let (mut stream, binding) = connect(stream).await?;
        greet(&mut stream, token().as_ref(), ConnectionKind::Frames, PORT, binding).await
    }

    async fn server(stream: TcpStream) -> io::Result<ConnectionKind> {
        let (mut stream, binding) = Acceptor::new().unwrap().accept(stream).await?;
        receive(&mut stream, token().as_ref(), PORT, binding, |_| None).await
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), work).await.expect("an end") })
    }

    #[test]
    fn two_who_know_the_token_accept_each_other_inside_of_one_connection() {
        let (client, server) = block_on(async {
            let (near, far) = pair().await;
            tokio::join!(client(near), server(far))
        });
        assert_eq!((client.unwrap(), server.unwrap()), ((), ConnectionKind::Frames));
    }

    /// Somebody in between has a TLS connection with either side, and passes on what is said inside.
    #[test]
    fn somebody_in_between_is_noticed_by_both() {
        let (client, server) = block_on(async {
            let ((near, bait), (lure, far)) = (pair().await, pair().await);
            let relay = async {
                let (mut near, _) = Acceptor::new().unwrap().accept(bait).await.unwrap();
                let (mut far, _) = connect(lure).await.unwrap();
                // Either side ends it.
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            };
            let (client, server, ()) = tokio::join!(client(near), server(far), relay);
            (client, server)
        });
        let code = |error: &io::Error| fault::unwrap(error).map(Error::code);
        assert_eq!(code(&client.unwrap_err()), Some(Code::WrongToken));
        assert_eq!(code(&server.unwrap_err()), Some(Code::WrongToken));
    }
}

//! Encrypted connections: the lanes over them, and what somebody else sees of them.

use crate::support::{Echo, EchoHeader, SECONDS, block_on, frame, serve, serve_at};
use phalanx_base::{Code, Result};
use phalanx_wire::bulk::{self, Handler, Pending, StreamHandler};
use phalanx_wire::{Address, Encryption, InFrame, OutFrame, Outcome, PeerStream, Token, control, limits};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

fn token(encryption: Encryption) -> Option<Token> {
    Some(Token::new("secret").unwrap().with_encryption(encryption))
}

#[test]
fn frames_of_every_size_come_back_and_so_do_errors() {
    let (_listening, address) = serve(token(Encryption::Everywhere));
    block_on(async {
        let lane = bulk::reach_over_network(&address, "ps/0".into(), token(Encryption::Everywhere));
        for size in [0, 1, 5, 70_000, 3_000_000, limits::PART_BYTES, 17] {
            let answer = lane.call(frame(3, size), SECONDS).await.ok().unwrap();
            assert_eq!((answer.header::<EchoHeader>().unwrap().number, answer.body().len()), (3, size));
            assert!(answer.body().iter().enumerate().all(|(i, &b)| b == if i < size / 2 { 7 } else { 8 }));
        }
        let refused = lane.call(frame(404, 10), SECONDS).await;
        assert!(matches!(&refused, Outcome::Failed(error) if error.code() == Code::NoSuchVariable), "{refused:?}");
    });
}

#[test]
fn the_control_lane_is_encrypted_too() {
    // Not a loopback address for the client, which therefore encrypts; the task itself listens on loopback.
    let (_listening, address) = serve(token(Encryption::Everywhere));
    let proxy = Recorder::to(&address);
    block_on(async {
        let mut client = control::Client::new(&proxy.address, token(Encryption::Everywhere));
        assert_eq!(client.identify().await.unwrap().task, "ps/0");
    });
    assert!(!proxy.heard(b"ps/0"), "the reply was seen");
}

#[test]
fn a_client_that_does_not_encrypt_is_refused_and_hears_why() {
    let (_listening, address) = serve(token(Encryption::Everywhere));
    block_on(async {
        let lane = bulk::reach_over_network(&address, "ps/0".into(), token(Encryption::Off));
        let refused = lane.call(frame(3, 10), SECONDS).await;
        let Outcome::Failed(error) = refused else { panic!("{refused:?}") };
        assert_eq!(error.code(), Code::BadSetting);
        assert!(error.to_string().contains("PHALANX_TLS"), "{error}");
    });
    let error = bulk::stream_over_network(&address, token(Encryption::Off).as_ref(), b"", SECONDS).unwrap_err();
    assert_eq!(error.code(), Code::BadSetting);
}

/// Forwards a connection to a task, at another address of this machine with its port, and keeps what passes.
struct Recorder {
    address: Address,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    fn to(task: &Address) -> Self {
        let listener = TcpListener::bind(("127.0.0.3", task.port())).unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let (to, seen) = (task.to_string(), Arc::new(Mutex::new(Vec::new())));
        let all = Arc::clone(&seen);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(&to).unwrap());
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let seen = Arc::clone(&all);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            seen.lock().unwrap().extend_from_slice(&bytes[..count]);
                            if to.write_all(&bytes[..count]).is_err() {
                                return;
                            }
                        }
                    });
                }
            }
        });
        Self { address, seen }
    }

    fn heard(&self, what: &[u8]) -> bool {
        self.seen.lock().unwrap().windows(what.len()).any(|bytes| bytes == what)
    }
}

#[test]
fn somebody_who_listens_in_sees_numbers_only_where_encryption_is_off() {
    for (encryption, is_seen) in [(Encryption::Everywhere, false), (Encryption::Off, true)] {
        let (_listening, address) = serve(token(encryption));
        let proxy = Recorder::to(&address);
        block_on(async {
            let lane = bulk::reach_over_network(&proxy.address, "ps/0".into(), token(encryption));
            assert!(lane.call(frame(3, 10_000), SECONDS).await.ok().is_ok());
        });
        assert_eq!(proxy.heard(&[7; 64]), is_seen, "{encryption:?}");
    }
}

/// Takes streams and answers every byte with its successor.
struct Successor;

impl Handler for Successor {
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Arc::new(Echo).call(frame)
    }

    fn accept_stream(&self, _: &[u8]) -> Result<StreamHandler> {
        Ok(Box::new(|stream: PeerStream| {
            let answer = move || {
                let mut byte = [0];
                while (&stream).read(&mut byte).is_ok_and(|count| count == 1) {
                    (&stream).write_all(&[byte[0] + 1]).unwrap();
                }
            };
            std::thread::spawn(answer);
        }))
    }
}

#[test]
fn streams_carry_bytes_both_ways_and_end() {
    for encryption in [Encryption::Everywhere, Encryption::Off] {
        let (_listening, address) = serve_at("127.0.0.1:0", Arc::new(Successor), token(encryption));
        let stream = bulk::stream_over_network(&address, token(encryption).as_ref(), b"hello", SECONDS).unwrap();
        assert!(!stream.is_same_host());
        (&stream).write_all(&[1, 2, 3]).unwrap();
        let mut answer = [0; 3];
        (&stream).read_exact(&mut answer).unwrap();
        assert_eq!(answer, [2, 3, 4], "{encryption:?}");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!((&stream).read(&mut answer).unwrap(), 0, "{encryption:?}");
    }
}

//! Tasks to connect to, and frames to send to them.

use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_wire::bulk::{self, Handler, Pending, Transport};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity};
use phalanx_wire::{Address, Endpoint, InFrame, Listening, OutFrame, ReplyBuffer, Token, control};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bounds a wait that would otherwise hang.
pub(crate) const SECONDS: Duration = Duration::from_secs(20);

/// The header of every frame: what [`Echo`] does with it.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EchoHeader {
    #[prost(uint32, tag = "1")]
    pub(crate) number: u32,
}

pub(crate) struct Echo;

/// A reply buffer that a handler did not send.
pub(crate) static KEPT: Mutex<Option<ReplyBuffer>> = Mutex::new(None);

impl Handler for Echo {
    fn call(self: Arc<Self>, mut frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move {
            let header: EchoHeader = frame.header()?;
            match header.number {
                500 => panic!("as requested"),
                501 => {
                    let mut buffer = frame.reply(100);
                    buffer.fill(1);
                    *KEPT.lock().unwrap() = Some(buffer);
                    Ok(OutFrame::new(&header))
                }
                200 => {
                    let mut buffer = frame.reply(frame.body().len());
                    buffer.copy_from_slice(&frame.body());
                    Ok(OutFrame::reply(&header, buffer))
                }
                201 => {
                    let mut buffer = frame.reply(3);
                    buffer.copy_from_slice(b"abc");
                    let mut answer = OutFrame::reply(&header, buffer);
                    answer.push(frame.body());
                    Ok(answer)
                }
                202 => {
                    let buffer = KEPT.lock().unwrap().take().unwrap();
                    Ok(OutFrame::reply(&header, buffer))
                }
                404 => Err(Error::new(Code::NoSuchVariable, "no such thing").at("here").help("ask for another")),
                ms @ 1000.. => {
                    tokio::time::sleep(Duration::from_millis(ms.into())).await;
                    Ok(OutFrame::new(&header))
                }
                _ => {
                    let mut answer = OutFrame::new(&header);
                    answer.push(frame.body());
                    Ok(answer)
                }
            }
        })
    }
}

impl control::Handler for Echo {
    fn identify(&self) -> Identity {
        Identity { task: "ps/0".into(), ..Identity::default() }
    }

    fn beat(&self, _: BeatRequest) -> Result<BeatReply> {
        Err(Error::new(Code::WrongJob, "not the chief"))
    }
}

/// Never answers. Reports the arrival of a request, and when it is dropped.
pub(crate) struct Hanging {
    pub(crate) called: tokio::sync::Notify,
    pub(crate) dropped: Sender<()>,
}

impl Handler for Hanging {
    fn call(self: Arc<Self>, _: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move {
            self.called.notify_one();
            std::future::pending().await
        })
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = self.dropped.send(());
    }
}

pub(crate) fn serve(token: Option<Token>) -> (Listening, Address) {
    serve_at("127.0.0.1:0", Arc::new(Echo), token)
}

pub(crate) fn serve_at(address: &str, bulk: Arc<dyn Handler>, token: Option<Token>) -> (Listening, Address) {
    let address: Address = address.parse().unwrap();
    let mut listening = Listening::bind(&address, 1).unwrap();
    let warning = listening.serve(Endpoint { control: Arc::new(Echo), bulk: Some(bulk), token }).unwrap();
    assert!(warning.is_none(), "{warning:?}");
    let address = format!("{}:{}", address.host(), listening.port()).parse().unwrap();
    (listening, address)
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs a claim over the same-host transport and over TCP, to a loopback address and to one that need not be this machine's.
pub(crate) fn over_all_transports(token: Option<&Token>, given: Option<&Token>, claim: impl AsyncFn(&dyn Transport)) {
    let (_listening, address) = serve(token.cloned());
    // An address that need not be this machine's has no Unix socket.
    let (_elsewhere, elsewhere) = serve_at("0.0.0.0:0", Arc::new(Echo), token.cloned());
    over_transports_to(&[&address, &elsewhere], given, claim);
}

pub(crate) fn over_transports_to(addresses: &[&Address], token: Option<&Token>, claim: impl AsyncFn(&dyn Transport)) {
    block_on(async {
        for address in addresses {
            claim(&*bulk::reach_over_network(address, "ps/0".into(), token.cloned())).await;
            claim(&*bulk::reach(address, "ps/0".into(), token.cloned())).await;
        }
    });
}

pub(crate) fn frame(number: u32, body: usize) -> OutFrame {
    let mut frame = OutFrame::new(&EchoHeader { number });
    frame.push(Bytes::from(vec![7; body / 2]));
    frame.push(Bytes::from(vec![8; body - body / 2]));
    frame
}

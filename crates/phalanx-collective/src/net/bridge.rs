//! Members on other machines: what is written into a local socket is carried there in frames.
//!
//! So there is one way to exchange numbers, and only this file knows of gRPC. It costs a copy through a local socket,
//! which is many times faster than a network.

use super::door::{CLOSE, Door, Guest, IN_FLIGHT, KNOCK, Key};
use bytes::BytesMut;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use phalanx_base::{Code, Context, Result};
use phalanx_wire::bulk::{Client, Transport};
use phalanx_wire::proto::collective::{Carry, Hello};
use phalanx_wire::{Address, OutFrame, Outcome, Token};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// The most bytes of one frame.
const FRAME: usize = 1 << 20;
/// A frame waits for as long as the other side computes; that it lives is known from its signs of life.
const LONG: Duration = Duration::from_secs(24 * 3600);
/// How long the last words may take.
const PARTING: Duration = Duration::from_secs(1);

/// Carries bytes to other machines; starts its thread when the first one is there.
#[derive(Default)]
pub(super) struct Bridge {
    runtime: Option<Runtime>,
    pumps: Vec<JoinHandle<()>>,
}

/// The other end of a lane.
pub(super) struct Far<'a> {
    pub(super) address: &'a Address,
    pub(super) name: String,
    pub(super) token: Option<Token>,
    /// What this side says.
    pub(super) hello: Hello,
    /// Where the other side's frames land here.
    pub(super) key: Key,
}

impl Bridge {
    fn runtime(&mut self) -> Result<&Runtime> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                let runtime = builder.worker_threads(1).thread_name("phalanx-bridge").enable_all().build();
                runtime.context(Code::Internal, "the bridge's thread cannot be started")?
            }
        };
        Ok(self.runtime.insert(runtime))
    }

    /// Opens a lane.
    pub(super) fn open(&mut self, door: &Arc<Door>, far: Far<'_>) -> Result<UnixStream> {
        let runtime = self.runtime()?;
        let inside = runtime.enter();
        let guest = door.land(far.key)?;
        let client = Client::new(far.address, far.name.clone(), far.token.clone());
        let opened = runtime.block_on(client.call(OutFrame::new(&Carry { hello: Some(far.hello), frame: 0 }), KNOCK));
        drop(inside);
        if let Err(error) = opened.ok() {
            door.close(far.key);
            return Err(error);
        }
        self.start(door, client, far, guest)
    }

    /// Completes a lane that the other side opened.
    pub(super) fn complete(&mut self, door: &Arc<Door>, far: Far<'_>, guest: Guest) -> Result<UnixStream> {
        let runtime = self.runtime()?;
        let inside = runtime.enter();
        let client = Client::new(far.address, far.name.clone(), far.token.clone());
        drop(inside);
        self.start(door, client, far, guest)
    }

    fn start(&mut self, door: &Arc<Door>, client: Client, far: Far<'_>, guest: Guest) -> Result<UnixStream> {
        if let Some(outgoing) = guest.outgoing {
            let (door, hello, key) = (Arc::clone(door), far.hello, far.key);
            let pump = self.runtime()?.spawn(async move {
                pump(outgoing, &client, hello).await;
                door.close(key);
            });
            self.pumps.push(pump);
        }
        Ok(guest.stream)
    }

    /// Lets the last bytes go out, for a moment, and stops.
    pub(super) fn finish(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let pumps = std::mem::take(&mut self.pumps);
        let all = async {
            for pump in pumps {
                // Aborted or panicked: there is nothing left to send.
                let _ = pump.await;
            }
        };
        // After this the other side sees the connection end.
        let _ = runtime.block_on(async { tokio::time::timeout(PARTING, all).await });
        runtime.shutdown_background();
    }
}

/// Carries what comes out of `from` until either side ends. Several frames are under way at once, so that the network
/// carries one while the other side takes in another.
async fn pump(mut from: OwnedReadHalf, to: &Client, hello: Hello) {
    let mut buffer = BytesMut::new();
    let mut number = 1;
    let mut calls = FuturesUnordered::new();
    loop {
        buffer.reserve(FRAME);
        tokio::select! {
            answer = calls.next(), if !calls.is_empty() => {
                if !matches!(answer, Some(Outcome::Done(_))) {
                    return;
                }
                continue;
            }
            read = from.read_buf(&mut buffer), if calls.len() < IN_FLIGHT as usize => {
                if !matches!(read, Ok(1..)) {
                    break;
                }
            }
        }
        while buffer.len() < FRAME && from.try_read_buf(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        let mut frame = OutFrame::new(&Carry { hello: Some(hello), frame: number });
        frame.push(buffer.split().freeze());
        calls.push(to.call(frame, LONG));
        number += 1;
    }
    while calls.next().await.is_some_and(|answer| matches!(answer, Outcome::Done(_))) {}
    // The other side may be gone by now.
    let _ = to.call(OutFrame::new(&Carry { hello: Some(hello), frame: CLOSE }), PARTING).await;
}

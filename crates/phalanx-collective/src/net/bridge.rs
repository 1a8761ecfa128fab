//! Members on other machines: bytes written into a local socket are carried there in frames.
//!
//! So all exchanges use sockets, and only this file knows of gRPC. It costs a copy through a local socket, which is many
//! times faster than a network.

use super::listener::{DIAL_TIMEOUT, GroupListener, IN_FLIGHT, Key, PendingConnection};
use crate::proto::{Carry, Close, Hello, Open, carry::Action};
use bytes::BytesMut;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use phalanx_base::{Code, Context, Result};
use phalanx_wire::bulk::{Client, Transport};
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
/// A frame waits as long as the other side computes; heartbeats show that it is alive.
const LONG: Duration = Duration::from_secs(24 * 3600);
/// How long closing may take.
const PARTING: Duration = Duration::from_secs(1);

/// Carries bytes to other machines. Its thread starts with the first lane.
#[derive(Default)]
pub(super) struct Bridge {
    runtime: Option<Runtime>,
    pumps: Vec<JoinHandle<()>>,
}

/// The other end of a lane.
pub(super) struct RemoteLane<'a> {
    pub(super) address: &'a Address,
    pub(super) name: String,
    pub(super) token: Option<Token>,
    /// The hello that this side sends.
    pub(super) hello: Hello,
    /// The key of the buffer for the other side's frames.
    pub(super) key: Key,
}

fn carry(hello: Hello, action: Action) -> OutFrame {
    OutFrame::new(&Carry { hello: Some(hello), action: Some(action) })
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
    pub(super) fn open(&mut self, listener: &Arc<GroupListener>, far: RemoteLane<'_>) -> Result<UnixStream> {
        let runtime = self.runtime()?;
        let inside = runtime.enter();
        let pending = listener.open_buffer(far.key)?;
        let client = Client::new(far.address, far.name.clone(), far.token.clone());
        let opened = runtime.block_on(client.call(carry(far.hello, Action::Open(Open {})), DIAL_TIMEOUT));
        drop(inside);
        if let Err(error) = opened.ok() {
            listener.close(far.key);
            return Err(error);
        }
        self.start(listener, client, far, pending)
    }

    /// Completes a lane that the other side opened.
    pub(super) fn complete(
        &mut self,
        listener: &Arc<GroupListener>,
        far: RemoteLane<'_>,
        pending: PendingConnection,
    ) -> Result<UnixStream> {
        let runtime = self.runtime()?;
        let inside = runtime.enter();
        let client = Client::new(far.address, far.name.clone(), far.token.clone());
        drop(inside);
        self.start(listener, client, far, pending)
    }

    fn start(
        &mut self,
        listener: &Arc<GroupListener>,
        client: Client,
        far: RemoteLane<'_>,
        pending: PendingConnection,
    ) -> Result<UnixStream> {
        if let Some(outgoing) = pending.outgoing {
            let (listener, hello, key) = (Arc::clone(listener), far.hello, far.key);
            let pump = self.runtime()?.spawn(async move {
                if !pump(outgoing, &client, hello).await {
                    // A member that leaves takes no more frames, while its own last ones, with its goodbye, are on their way.
                    let _ = tokio::time::timeout(PARTING, listener.closed(key)).await;
                }
                listener.close(key);
            });
            self.pumps.push(pump);
        }
        Ok(pending.stream)
    }

    /// Sends the remaining bytes, for a limited time, and stops.
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

/// Carries the bytes read from `from` until either side ends; false if the other side took no more. Several frames are in
/// flight, so that the network carries one while the other side writes another.
async fn pump(mut from: OwnedReadHalf, to: &Client, hello: Hello) -> bool {
    let mut buffer = BytesMut::new();
    let mut number = 1;
    let mut calls = FuturesUnordered::new();
    loop {
        buffer.reserve(FRAME);
        tokio::select! {
            answer = calls.next(), if !calls.is_empty() => {
                if !matches!(answer, Some(Outcome::Done(_))) {
                    return false;
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
        let mut frame = carry(hello, Action::Data(number));
        frame.push(buffer.split().freeze());
        calls.push(to.call(frame, LONG));
        number += 1;
    }
    while calls.next().await.is_some_and(|answer| matches!(answer, Outcome::Done(_))) {}
    // The other side may be gone by now.
    let _ = to.call(carry(hello, Action::Close(Close {})), PARTING).await;
    true
}

//! The thread that serves one connection.
//!
//! With one thread per connection, a request wakes one thread and its reply another. In a pool, a peer would wait while
//! another is served, or every request would wake a second thread that watches the sockets (decision 022).

use crate::bulk::Handler;
use crate::connections::Activity;
use crate::frame::{InFrame, OutFrame};
use crate::{PeerStream, limits};
use phalanx_base::Result;
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Answers the requests of one connection.
pub(crate) struct Calls {
    handler: Arc<dyn Handler>,
    activity: Activity,
    runtime: Handle,
    stopped: oneshot::Receiver<()>,
}

impl Calls {
    /// Answers a request; `None` once serving has stopped.
    pub(crate) fn answer(&mut self, frame: InFrame) -> Option<Result<OutFrame>> {
        let call = Arc::clone(&self.handler).call(frame);
        let stopped = &mut self.stopped;
        self.runtime.block_on(async {
            tokio::select! {
                // First: once the runtime has stopped, the call must not be polled.
                biased;
                _ = stopped => None,
                answer = call => Some(answer),
            }
        })
    }

    /// Records that the peer is there.
    pub(crate) fn heard(&self) {
        self.activity.heard();
    }
}

/// Runs `serve` on a thread of its own until it returns or this future is dropped. Call inside of a tokio runtime.
pub(crate) async fn run(
    stream: PeerStream,
    handler: Arc<dyn Handler>,
    activity: Activity,
    serve: impl FnOnce(&PeerStream, &mut Calls) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    stream.set_write_timeout(Some(limits::BODY))?;
    let stream = Arc::new(stream);
    let shutdown = ShutdownOnDrop(Arc::clone(&stream));
    let (stop, stopped) = oneshot::channel::<()>();
    let (end, ended) = oneshot::channel();
    let mut calls = Calls { handler, activity, runtime: Handle::current(), stopped };
    let work = move || {
        // Nobody waits for it once serving has stopped.
        let _ = end.send(serve(&stream, &mut calls));
    };
    std::thread::Builder::new().name("phalanx-serve".into()).spawn(work)?;
    let result = ended.await;
    drop((stop, shutdown));
    result.unwrap_or_else(|_| Err(io::Error::other("a request could not be served")))
}

/// Ends the thread's wait for a request when [`run`] is dropped, as it is when serving stops.
struct ShutdownOnDrop(Arc<PeerStream>);

impl Drop for ShutdownOnDrop {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

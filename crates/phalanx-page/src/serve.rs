//! Connections to the dashboard: a few at a time, so that strangers cannot use up the launcher's descriptors.

use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Connections at a time. One more closes the oldest that has not shown the token.
const MOST: usize = 64;
/// How long a connection may take to say what it wants, and stay open after an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Before the next try where the operating system has no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a request of this connection has shown the token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Arc<AtomicBool>);

impl Known {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Those that are open, oldest first.
#[derive(Default)]
struct Open {
    connections: BTreeMap<u64, (AbortHandle, Known)>,
    next: u64,
}

impl Open {
    /// Closes one connection if there are as many as there may be.
    fn make_place(&mut self) {
        if self.connections.len() < MOST {
            return;
        }
        let strange = self.connections.iter().find(|(_, (_, known))| !known.get()).map(|(id, _)| *id);
        let oldest = strange.or_else(|| self.connections.keys().next().copied());
        if let Some((task, _)) = oldest.and_then(|id| self.connections.remove(&id)) {
            task.abort();
        }
    }
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let open = Arc::new(Mutex::new(Open::default()));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => start(&open, stream, &router),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn start(open: &Arc<Mutex<Open>>, stream: TcpStream, router: &Router) {
    let known = Known::default();
    let service = TowerToHyperService::new(router.clone().layer(Extension(known.clone())));
    let mut list = lock(open);
    list.make_place();
    let id = list.next;
    list.next += 1;
    let all = Arc::clone(open);
    let task = tokio::spawn(async move {
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        // Whatever a peer does wrong ends its connection and nothing else.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
        lock(&all).connections.remove(&id);
    });
    list.connections.insert(id, (task.abort_handle(), known));
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Connections to the dashboard, bounded so that clients without the token cannot exhaust the launcher's descriptors.

use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// The most open connections. A further one closes the oldest that has not shown the token.
const MAX_OPEN: usize = 64;
/// How long a connection may take to send a request, and stay idle after a response.
const IDLE: Duration = Duration::from_secs(10);
/// The pause before the next accept if the operating system has no descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a request of this connection has shown the token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authenticated(Arc<AtomicBool>);

impl Authenticated {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The open connections, oldest first.
#[derive(Default)]
struct Open {
    connections: BTreeMap<u64, (AbortHandle, Authenticated)>,
    next: u64,
}

impl Open {
    /// Closes one connection if the limit is reached.
    fn make_room(&mut self) {
        if self.connections.len() < MAX_OPEN {
            return;
        }
        let stranger = self.connections.iter().find(|(_, (_, known))| !known.get()).map(|(id, _)| *id);
        let oldest = stranger.or_else(|| self.connections.keys().next().copied());
        if let Some((task, _)) = oldest.and_then(|id| self.connections.remove(&id)) {
            task.abort();
        }
    }
}

/// Serves until the future is dropped.
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
    let known = Authenticated::default();
    let service = TowerToHyperService::new(router.clone().layer(Extension(known.clone())));
    let mut list = lock(open);
    list.make_room();
    let id = list.next;
    list.next += 1;
    let all = Arc::clone(open);
    let task = tokio::spawn(async move {
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(IDLE);
        // An error of the client ends only its connection.
        let _ = http.serve_connection(TokioIo::new(stream), service).await;
        lock(&all).connections.remove(&id);
    });
    list.connections.insert(id, (task.abort_handle(), known));
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

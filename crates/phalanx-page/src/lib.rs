//! The web page of a run: what a launcher and its tasks wrote, in a browser, while it happens or long after.
//!
//! The server reads the files of a run directory ([`phalanx_launch::Follower`]) and nothing else; it changes nothing. The page is
//! plain HTML, CSS and JavaScript inside the executable and asks no other host for anything.
//!
//! Who may look: whoever has the token, which stands in the address. Requests must name this server as their host and, if they
//! come from a page, that page must be ours; so no other page in the same browser can read a run.

mod assets;
mod gate;
mod metrics;
mod routes;
mod serve;
mod stream;

use gate::Gate;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_launch::{Follower, RunDir, new_token};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the files are looked at.
const ROUND: Duration = Duration::from_millis(200);
/// How long the end of the server may take.
const LAST: Duration = Duration::from_secs(1);

/// What all requests share.
pub(crate) struct Shared {
    follower: Mutex<Follower>,
    gate: Gate,
    over: AtomicBool,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Follower> {
        self.follower.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A page that is being served. Dropping it ends the server.
///
/// ```
/// use phalanx_launch::RunDir;
/// use phalanx_page::Page;
/// let page = Page::start(&RunDir::at("runs/none"), "127.0.0.1:0".parse().unwrap())?;
/// assert!(page.url().starts_with("http://127.0.0.1:"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Page {
    url: String,
    shared: Arc<Shared>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Page {
    /// Serves the run at `run` on `listen`; port 0 is any free one.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn start(run: &RunDir, listen: SocketAddr) -> Result<Self> {
        let wrong = || format!("the page cannot be served at {listen}");
        let listener = TcpListener::bind(listen).map_err(|error| {
            Error::new(Code::PortInUse, wrong())
                .because(error)
                .help("choose another with --listen; port 0 is any that is free")
        })?;
        let address = listener.local_addr().context(Code::PortInUse, wrong())?;
        listener.set_nonblocking(true).context(Code::Internal, wrong())?;
        let token = new_token()?;
        let url = format!("http://{address}/?t={token}");
        let gate = Gate::new(address, &token);
        let follower = Mutex::new(Follower::new(run, true));
        let shared = Arc::new(Shared { follower, gate, over: AtomicBool::new(false) });
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(Code::Internal, wrong())?;
        let looking = Arc::clone(&shared);
        let look = move || {
            while !looking.over.load(Ordering::Acquire) {
                looking.lock().poll();
                std::thread::sleep(ROUND);
            }
        };
        let serving = Arc::clone(&shared);
        let serve = move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let server = serve::serve(listener, routes::router(serving));
                // Streams have no end of their own: whoever stops does not wait for them.
                tokio::select! { () = server => {}, _ = stopped => {} }
            });
        };
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let threads = vec![
            named("phalanx-look").spawn(look).context(Code::Internal, wrong())?,
            named("phalanx-page").spawn(serve).context(Code::Internal, wrong())?,
        ];
        Ok(Self { url, shared, stop: Some(stop), threads })
    }

    /// The address with the token, for a browser.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        let _gone = self.stop.take().map(|stop| stop.send(()));
        // A thread that a disk holds is left behind: the launcher's end does not wait for it.
        let until = Instant::now() + LAST;
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

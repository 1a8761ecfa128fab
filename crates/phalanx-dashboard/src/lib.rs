//! The dashboard: shows a run, or the runs of a folder, in a browser, while they run or after they have ended.
//!
//! The server reads the files of a run directory through [`SharedTailer`], and those of a folder of runs through [`RunIndex`]. It
//! changes no file; on request it asks the launcher of a run to stop. The dashboard is plain HTML, CSS and JavaScript inside the
//! executable and makes no requests to other hosts.
//!
//! Requests need the token, which is part of the URL. They must name this server as their host and, if they come from a web page,
//! that page must be the dashboard, so no other page in the same browser can read a run.

mod assets;
mod chosen;
mod gate;
mod metrics;
mod routes;
mod runs;
mod serve;
mod stream;

use gate::Gate;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_run::{RunIndex, Runs, SharedTailer, new_token};
use runs::{FollowedRun, POLL, Source};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the server may take to stop.
const STOP: Duration = Duration::from_secs(1);

/// How often a folder is searched for runs.
const LIST: Duration = Duration::from_secs(1);

/// What all requests share.
pub(crate) struct Shared {
    source: Source,
    gate: Gate,
}

/// A dashboard that is being served. Dropping it stops the server.
///
/// ```
/// use phalanx_dashboard::Dashboard;
/// use phalanx_run::{RunDir, SharedTailer};
/// let tailer = SharedTailer::start(&RunDir::at("runs/none"), true, std::time::Duration::from_millis(200))?;
/// let dashboard = Dashboard::start(tailer, "127.0.0.1:0".parse().unwrap())?;
/// assert!(dashboard.url().starts_with("http://127.0.0.1:"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Dashboard {
    url: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: JoinHandle<()>,
}

impl Dashboard {
    /// Serves what `tailer` reads on `listen`; port 0 is any free port.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn start(tailer: SharedTailer, listen: SocketAddr) -> Result<Self> {
        tailer.follow_lines();
        Self::serve(Source::One(FollowedRun::new(tailer)), listen)
    }

    /// Serves a run, or the list of the runs in a folder and each of them.
    ///
    /// # Errors
    /// If the address cannot be used, or a newer version of Phalanx wrote the run.
    pub fn of(runs: Runs, listen: SocketAddr) -> Result<Self> {
        match runs {
            Runs::One(run) => {
                run.read_job()?;
                Self::start(SharedTailer::start(&run, true, POLL)?, listen)
            }
            Runs::Many(folder) => Self::serve(Source::of_folder(RunIndex::start(folder, LIST)?), listen),
        }
    }

    fn serve(source: Source, listen: SocketAddr) -> Result<Self> {
        let what = || format!("the dashboard cannot listen on {listen}");
        let listener = TcpListener::bind(listen).map_err(|error| {
            Error::new(Code::PortInUse, what())
                .because(error)
                .help("choose another address with --listen; port 0 is any free port")
        })?;
        let address = listener.local_addr().context(Code::PortInUse, what())?;
        listener.set_nonblocking(true).context(Code::Internal, what())?;
        let token = new_token()?;
        let url = format!("http://{address}/?t={token}");
        let shared = Arc::new(Shared { source, gate: Gate::new(address, &token) });
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(Code::Internal, what())?;
        let serve = move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let server = serve::serve(listener, routes::router(shared));
                // Streams never end, so stopping does not wait for them.
                tokio::select! { () = server => {}, _ = stopped => {} }
            });
        };
        let thread = std::thread::Builder::new().name("phalanx-http".into()).spawn(serve);
        Ok(Self { url, stop: Some(stop), thread: thread.context(Code::Internal, what())? })
    }

    /// The URL with the token, for a browser.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _gone = self.stop.take().map(|stop| stop.send(()));
        // A thread that waits for a disk is left behind, so that the launcher can end.
        let until = Instant::now() + STOP;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

//! `phalanx dashboard`: the dashboard of a run that another process launched, or that has ended.

use phalanx_base::{Code, Error, Result};
use phalanx_dashboard::Dashboard;
use phalanx_launch::Signals;
use phalanx_run::{RunDir, SharedTailer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How often the files of the run are read.
const POLL: Duration = Duration::from_millis(200);

/// Serves the dashboard of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct DashboardArgs {
    /// Run directory, or any model_dir with event files
    dir: PathBuf,
    /// Address to listen on; other machines can reach it only if it is not loopback
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until Ctrl-C.
pub(crate) fn run(args: &DashboardArgs) -> Result<()> {
    if !args.dir.is_dir() {
        return Err(Error::new(Code::DataMissing, format!("there is no directory {}", args.dir.display()))
            .help("pass a run directory, such as runs/train-20260102-030405, or a model_dir"));
    }
    let signals = Signals::listen()?;
    let run = RunDir::at(&args.dir);
    run.read_job()?;
    let dashboard = Dashboard::start(SharedTailer::start(&run, true, POLL)?, args.listen)?;
    crate::output::print(&format!("   Dashboard {}\n", dashboard.url()));
    while signals.received() == (0, 0) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

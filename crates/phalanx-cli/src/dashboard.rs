//! `phalanx dashboard`: the dashboard of a run that another process launched or that has ended, or of all runs in a folder.

use phalanx_base::Result;
use phalanx_dashboard::Dashboard;
use phalanx_launch::Signals;
use phalanx_run::Runs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Serves the dashboard of a run, or of the runs in a folder.
#[derive(Debug, clap::Args)]
pub(crate) struct DashboardArgs {
    /// Run directory, any model_dir with event files, or a folder with several of them, such as runs
    dir: PathBuf,
    /// Address to listen on; other machines can reach it only if it is not loopback
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until Ctrl-C.
pub(crate) fn run(args: &DashboardArgs) -> Result<()> {
    let runs = Runs::find(&args.dir)?;
    let signals = Signals::listen()?;
    let dashboard = Dashboard::of(runs, args.listen)?;
    crate::output::print(&format!("   Dashboard {}\n", dashboard.url()));
    while signals.received() == (0, 0) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

//! `phalanx dashboard`: the page of a run that goes on elsewhere, or has long ended.

use phalanx_base::{Code, Error, Result};
use phalanx_launch::{RunDir, Signals};
use phalanx_page::Page;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Shows a run in the browser.
#[derive(Debug, clap::Args)]
pub(crate) struct DashboardArgs {
    /// The run directory, or any model_dir with event files
    dir: PathBuf,
    /// Where to listen; another machine can only reach an address that is not loopback
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until Ctrl-C.
pub(crate) fn run(args: &DashboardArgs) -> Result<()> {
    if !args.dir.is_dir() {
        return Err(Error::new(Code::DataMissing, format!("there is no directory {}", args.dir.display()))
            .help("name a run directory, as runs/train-20260102-030405, or a model_dir"));
    }
    let signals = Signals::listen()?;
    let page = Page::start(&RunDir::at(&args.dir), args.listen)?;
    crate::status::print(&format!("   Dashboard {}\n", page.url()));
    while signals.seen() == (0, 0) {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

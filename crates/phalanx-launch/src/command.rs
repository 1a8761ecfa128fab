//! `phalanx launch` from flags to exit code.

use crate::{Launch, LaunchArgs, Progress, Report, Signals, TerminalUi};
use phalanx_base::{Code, Context, Result};
use phalanx_run::SharedTailer;
use std::io::{BufRead, Read};
use std::time::Duration;

/// How often the run's files are read for a dashboard, a bottom line or fault injection, and for plain progress.
const LIVE: Duration = Duration::from_millis(200);
const PLAIN: Duration = Duration::from_secs(1);

/// Starts the one reader of the run's files in this process; `None` if nothing needs it.
///
/// # Errors
/// If its thread cannot be started.
pub fn tailer(launch: &Launch, progress: Progress, dashboard: bool) -> Result<Option<SharedTailer>> {
    let interval = match progress.resolve() {
        Progress::Bar => LIVE,
        _ if dashboard || !launch.kills.is_empty() => LIVE,
        Progress::None => return Ok(None),
        _ => PLAIN,
    };
    SharedTailer::start(&launch.run, dashboard, interval).map(Some)
}

/// Starts a dashboard and returns its URL.
pub type StartDashboard<'a> = &'a mut dyn FnMut(&SharedTailer) -> Result<String>;

/// Runs the command. `dashboard` is called unless the flags forbid it.
///
/// # Errors
/// If the flags contradict each other or the job cannot be started. A job that fails is a [`Report`].
pub fn launch(args: &LaunchArgs, dashboard: Option<StartDashboard<'_>>) -> Result<Report> {
    let signals = Signals::listen()?;
    let token = if args.remote { Some(token_from_stdin(&signals)?) } else { None };
    let launch = args.launch(token)?;
    let dashboard = dashboard.filter(|_| !args.no_dashboard);
    let tailer = tailer(&launch, args.progress, dashboard.is_some())?;
    let mut ui = TerminalUi::new(args.progress, tailer.clone(), &launch.tasks());
    let nodes = launch.layout.node_names().len();
    let place = match (args.ssh, args.node) {
        (true, _) => format!("on {nodes} nodes over ssh"),
        (_, Some(node)) => format!("on {nodes} nodes, of which node {node} is started here"),
        _ => "on this machine".to_owned(),
    };
    ui.status("Cluster", &format!("{} {place}", launch.layout.in_words()));
    for copy in launch.stage(&signals)? {
        ui.status("Staged", &copy.to_string());
    }
    ui.status("Run", &launch.run.root().display().to_string());
    if let (Some(start), Some(tailer)) = (dashboard, &tailer) {
        ui.status("Dashboard", &start(tailer)?);
    }
    let report = launch.run(&signals, tailer.as_ref(), &mut ui)?;
    ui.finish(&report);
    Ok(report)
}

/// Reads the token from the first line of standard input. When the stream ends, the launcher that started this one is gone, and
/// the job stops.
fn token_from_stdin(signals: &Signals) -> Result<String> {
    let mut line = String::new();
    let what = "the token cannot be read from standard input";
    std::io::stdin().lock().take(1024).read_line(&mut line).context(Code::Flags, what)?;
    let signals = signals.clone();
    let wait = move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        signals.stop(false);
    };
    std::thread::Builder::new().name("phalanx-stdin".into()).spawn(wait).context(Code::Internal, what)?;
    Ok(line.trim().to_owned())
}

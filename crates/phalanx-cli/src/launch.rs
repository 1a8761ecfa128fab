//! `phalanx launch`: a job of any program that reads TF_CONFIG, with a dashboard.

use crate::exit::ExitCode;
use phalanx_dashboard::Dashboard;
use phalanx_launch::LaunchArgs;
use phalanx_run::SharedTailer;

/// Runs the command; the exit code is the job's.
pub(crate) fn run(args: LaunchArgs) -> ExitCode {
    if args.print {
        return crate::output::finish(args.printed().map(|text| crate::output::print(&text)));
    }
    // Served until the job has ended.
    let mut dashboard = None;
    let mut start = |tailer: &SharedTailer| {
        let dashboard = dashboard.insert(Dashboard::start(tailer.clone(), args.listen)?);
        Ok(dashboard.url().to_owned())
    };
    match phalanx_launch::launch(&args, Some(&mut start)) {
        Ok(report) => ExitCode::from(report.exit_code()),
        Err(error) => crate::output::finish(Err::<(), _>(error)),
    }
}

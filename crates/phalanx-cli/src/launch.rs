//! `phalanx launch`: a job of any program that reads TF_CONFIG, with a page to watch it.

use phalanx_base::Result;
use phalanx_launch::{LaunchArgs, Report};
use phalanx_page::Page;
use std::io::Write;
use std::process::ExitCode;

/// Runs the command; the exit code is the job's.
pub(crate) fn run(args: &LaunchArgs) -> ExitCode {
    if args.print {
        return crate::status::finish(args.printed().map(|text| crate::status::print(&text)));
    }
    match launch(args) {
        Ok(report) => ExitCode::from(report.exit_code()),
        Err(error) => {
            let _gone = std::io::stderr().lock().write_all(error.report().as_bytes());
            ExitCode::from(error.exit_code())
        }
    }
}

fn launch(args: &LaunchArgs) -> Result<Report> {
    // Held until the job has ended; the page goes with the launcher.
    let mut held = None;
    phalanx_launch::launch(args, |launch| {
        let page = held.insert(Page::start(&launch.run, args.listen)?);
        Ok(Some(page.url().to_owned()))
    })
}

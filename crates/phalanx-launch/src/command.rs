//! `phalanx launch` from flags to exit code.

use crate::{Launch, LaunchArgs, Report, Screen, Signals};
use phalanx_base::{Code, Context, Error, Result, TaskId};
use std::io::{BufRead, Read};

/// Runs the command. `page` is asked for a web page's address once the run directory is known; `None`: there is none.
///
/// # Errors
/// When the flags contradict each other or the job cannot be started; a job that fails is a [`Report`].
pub fn launch(args: &LaunchArgs, page: impl FnOnce(&Launch) -> Result<Option<String>>) -> Result<Report> {
    let signals = Signals::listen()?;
    let token = if args.remote { Some(token_from_stdin(&signals)?) } else { None };
    let launch = args.launch(token)?;
    let tasks: Vec<TaskId> = launch.here.iter().map(|placed| placed.task).collect();
    let mut screen = Screen::new(args.progress, &launch.run, &tasks);
    let place = match (args.ssh, args.node) {
        (true, _) => format!("on {} nodes over ssh", launch.layout.node_names().len()),
        (_, Some(node)) => format!("on {} nodes, those of node {node} here", launch.layout.node_names().len()),
        _ => "on this machine".to_owned(),
    };
    screen.say("Cluster", &format!("{} {place}", launch.layout.in_words()));
    screen.say("Run", &launch.run.root().display().to_string());
    if !args.no_page
        && let Some(url) = page(&launch)?
    {
        screen.say("Dashboard", &url);
    }
    if let Some((task, _)) = args.kill.iter().find(|(task, _)| !tasks.contains(task)) {
        return Err(Error::new(Code::NoSuchTask, format!("--kill names {task}, which is not started here")));
    }
    screen.kill_at(&args.kill);
    let report = launch.run(&signals, &mut screen)?;
    screen.finish(&report);
    Ok(report)
}

/// The first line is the token; the end of the stream is the end of whoever launched this launcher.
fn token_from_stdin(signals: &Signals) -> Result<String> {
    let mut line = String::new();
    let wrong = "the token cannot be read from standard input";
    std::io::stdin().lock().take(1024).read_line(&mut line).context(Code::Flags, wrong)?;
    let signals = signals.clone();
    let wait = move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        signals.ask(false);
    };
    std::thread::Builder::new().name("phalanx-stdin".into()).spawn(wait).context(Code::Internal, wrong)?;
    Ok(line.trim().to_owned())
}

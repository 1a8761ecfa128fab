//! `phalanx demo`: a whole job on this machine, on data made here, with nothing left behind.

use crate::demo_model::{BEST, Batches, Classifier};
use phalanx::prelude::*;
use phalanx::{Code, Error, Result};
use phalanx_launch::{LocalJob, die_with_parent, local_cluster};
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVERS: usize = 2;
const TRAINERS: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Steps of all workers together
    #[arg(long, default_value_t = 4000)]
    steps: u64,
}

/// Starts the job and shows what its tasks say.
pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let cluster = local_cluster(SERVERS, TRAINERS)?;
    say(&format!("a chief, a worker and two parameter servers, {} steps, on made data", args.steps));
    for job in cluster.jobs() {
        let addresses: Vec<&str> = cluster.job_tasks(job)?.into_iter().flatten().collect();
        say(&format!("  {job} at {}", addresses.join(", ")));
    }
    let executable =
        std::env::current_exe().map_err(|error| Error::new(Code::Internal, "no executable").because(error))?;
    let command = |_| {
        let mut command = Command::new(&executable);
        command.args(["demo-task", "--steps", &args.steps.to_string()]);
        command
    };
    let mut job = LocalJob::start(&cluster, command, Arc::new(|task, line| say(&format!("{task} | {line}"))))?;
    let ended = job.wait(Duration::from_secs(600))?;
    if let Some(ended) = ended.iter().find(|ended| !ended.status.success()) {
        return Err(Error::new(Code::JobFailed, format!("{} failed", ended.task)).because(ended.status));
    }
    say(&format!("all {} processes ended by themselves, after {:.1} s", ended.len(), started.elapsed().as_secs_f32()));
    Ok(())
}

/// One task of the job.
pub(crate) fn task(args: &Args) -> Result<()> {
    die_with_parent()?;
    let options = ServerOptions { interrupt: Interrupt::listen()?, ..ServerOptions::from_env()? };
    let server = Server::start_with(task_from_env()?, options)?;
    if server.task().role == Role::Ps {
        return server.join();
    }
    with_threads(1, || train(args, &server)).and_then(|result| result)
}

fn train(args: &Args, server: &Server) -> Result<()> {
    let mut batches = Batches::new(1 + server.config().trainer_index().unwrap_or(0) as u64);
    let supervisor = Supervisor::new(server, Adagrad::new(0.1));
    let mut session = supervisor.prepare_or_wait_for_session(Classifier::new())?;
    let started = Instant::now();
    let mut next_line = 0;
    let mut steps = 0_u64;
    loop {
        let (input, labels) = batches.next_batch(100);
        let Some(step) = session.step(|model| model.loss(input, labels))? else { break };
        steps += 1;
        if server.is_chief() && step.global_step >= next_line {
            say(&format!("step {:>5}  loss {:.4}", step.global_step, step.loss));
            next_line += args.steps.div_ceil(10).max(1);
        }
        if step.global_step >= args.steps {
            break;
        }
    }
    say(&format!("computed {steps} steps"));
    if server.is_chief() {
        session.refresh()?;
        let rate = session.global_step() as f32 / started.elapsed().as_secs_f32();
        let accuracy = session.model()?.accuracy(&mut Batches::new(0));
        say(&format!(
            "{} steps, {rate:.0} steps/s, accuracy {accuracy:.3} (best attainable {BEST:.3})",
            session.global_step()
        ));
    }
    supervisor.stop(session)
}

/// A line on standard output; a closed pipe is no reason to fail.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

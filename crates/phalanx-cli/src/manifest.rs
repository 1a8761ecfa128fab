//! `phalanx manifest`: deployment files for jobs on several machines.
//!
//! All of them follow the same contract: the same program in every role, which `TF_CONFIG` sets; the exit codes of
//! `phalanx_base::Fault`; SIGTERM as a request to save and stop; a token from a secret; one shared directory.

mod compose;
mod kubernetes;
mod resources;
mod slurm;
mod systemd;

use crate::exit::ExitCode;
use crate::output::print;
use phalanx_base::{Code, Error, Result};
use std::path::PathBuf;

/// Writes deployment files.
#[derive(Debug, clap::Args)]
pub(crate) struct ManifestArgs {
    /// Target platform
    target: Target,
    /// Name of the job: lowercase letters, digits and dashes
    #[arg(long, default_value = "phalanx-job", value_parser = job_name)]
    name: String,
    /// Image that contains the program
    #[arg(long, default_value = "example/phalanx-job:1")]
    image: String,
    /// Number of workers in addition to the chief
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Number of parameter servers
    #[arg(long, default_value_t = 1)]
    ps: u32,
    /// Add an evaluator
    #[arg(long)]
    evaluator: bool,
    /// Directory for checkpoints, shared by all tasks
    #[arg(long, default_value = "/model")]
    model_dir: String,
    #[command(flatten)]
    resources: resources::ResourceArgs,
    /// Port of every task
    #[arg(long, default_value_t = 2222)]
    port: u16,
    /// Write the files into this directory instead of printing them
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// Kubeflow's TFJob v1
    Tfjob,
    /// Kubeflow Trainer v2: a runtime and a job
    Trainjob,
    /// A batch script for Slurm
    Slurm,
    /// Docker compose
    Compose,
    /// systemd units
    Systemd,
    /// A Dockerfile for a small image without a shell
    Dockerfile,
}

/// A file to write.
struct Written {
    name: String,
    text: String,
}

/// Runs the command.
pub(crate) fn run(args: &ManifestArgs) -> ExitCode {
    crate::output::finish(write(args))
}

fn write(args: &ManifestArgs) -> Result<()> {
    let files = match args.target {
        Target::Tfjob => kubernetes::tfjob(args),
        Target::Trainjob => kubernetes::trainjob(args),
        Target::Slurm => slurm::files(args),
        Target::Compose => compose::files(args),
        Target::Systemd => systemd::files(args),
        Target::Dockerfile => vec![Written { name: "Dockerfile".to_owned(), text: DOCKERFILE.to_owned() }],
    };
    let Some(dir) = &args.out else {
        let several = files.len() > 1;
        let head = |name: &str| if several { format!("# --- {name}\n") } else { String::new() };
        for file in &files {
            print(&(head(&file.name) + &file.text));
        }
        return Ok(());
    };
    for file in files {
        let path = dir.join(&file.name);
        std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&path, file.text)).map_err(|error| {
            Error::new(Code::StorageWrite, format!("{} cannot be written", path.display())).because(error)
        })?;
        print(&format!("     Written {}\n", path.display()));
    }
    Ok(())
}

impl ManifestArgs {
    /// Program and arguments; empty for the entry point of the image.
    fn words(&self) -> &[String] {
        &self.program
    }

    /// The roles and their numbers of tasks, the chief first.
    fn roles(&self) -> Vec<(&'static str, u32)> {
        let all = [("chief", 1), ("worker", self.workers), ("ps", self.ps), ("evaluator", u32::from(self.evaluator))];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// The `cluster` of `TF_CONFIG`; `host` returns the address of a task.
    fn cluster(&self, host: impl Fn(&str, u32) -> String) -> String {
        let listed = self.roles().into_iter().filter(|(role, _)| *role != "evaluator").map(|(role, count)| {
            let hosts: Vec<String> = (0..count).map(|index| format!("\"{}\"", host(role, index))).collect();
            format!("\"{role}\":[{}]", hosts.join(","))
        });
        format!("{{{}}}", listed.collect::<Vec<_>>().join(","))
    }
}

/// Quotes a string for YAML and JSON.
fn quoted(text: &str) -> String {
    phalanx_cluster::Json::text(text).to_string()
}

fn job_name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    if starts && !text.ends_with('-') && text.len() <= 40 && text.chars().all(good) {
        Ok(text.to_owned())
    } else {
        Err("at most 40 lowercase letters, digits and dashes, beginning with a letter".to_owned())
    }
}

const DOCKERFILE: &str = "\
# A static program in an image without a shell, run without privileges.
#   docker build -t example/phalanx-job:1 .        in the root of Phalanx's sources
FROM rust:1-alpine AS build
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY crates crates
COPY examples examples
COPY fuzz fuzz
COPY jobs jobs
COPY tests tests
COPY xtask xtask
RUN cargo build --release --locked --bin phalanx && cp target/release/phalanx /phalanx

FROM scratch
COPY --from=build /phalanx /phalanx
USER 65532:65532
# SIGTERM asks a task to save and stop; give it time: docker stop --time 30.
STOPSIGNAL SIGTERM
ENTRYPOINT [\"/phalanx\"]
";

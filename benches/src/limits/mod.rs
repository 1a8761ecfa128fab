//! What this machine allows, whatever the program.

mod matmul;
mod memory;
mod sockets;

pub(crate) use matmul::Shapes;

use crate::model::{Kind, Sizes};
use phalanx::Result;
use serde_json::{Value, json};
use sockets::Socket;
use std::time::Duration;

/// One measurement.
pub(crate) const TIME: Duration = Duration::from_millis(300);

#[derive(Clone, clap::Args)]
pub(crate) struct Args {
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) cores: usize,
    /// GFLOP/s of the best square product, and its size.
    one_core: (f64, usize),
    pub(crate) all_cores: (f64, usize),
    /// Steps per second if nothing but the models' own matrix products were computed, on all cores.
    pub(crate) steps: Vec<(Kind, f64)>,
    copy: (f64, f64),
    gather: f64,
    tcp: Socket,
    unix: Socket,
}

impl Limits {
    pub(crate) fn measure(models: &[Kind]) -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut steps = Vec::new();
        for &kind in models {
            let sizes = Sizes::new(kind);
            let shapes = Shapes::step(&sizes.layers, kind.batch(), sizes.table.is_some());
            steps.push((kind, shapes.rate(cores, TIME)?));
        }
        Ok(Self {
            cores,
            one_core: matmul::best(1, TIME)?,
            all_cores: matmul::best(cores, TIME)?,
            steps,
            copy: (memory::copy(1, TIME), memory::copy(cores, TIME)),
            gather: memory::gather(TIME),
            tcp: sockets::tcp(TIME)?,
            unix: sockets::unix(TIME)?,
        })
    }

    /// Returns the fraction of the best square matmuls' speed that a model needs for this many steps per second.
    pub(crate) fn share(&self, flops: f64, steps_per_s: f64) -> f64 {
        flops * steps_per_s / (1e9 * self.all_cores.0)
    }

    /// Steps per second of a model's products alone.
    pub(crate) fn steps_of(&self, kind: Kind) -> Option<f64> {
        self.steps.iter().find(|(of, _)| *of == kind).map(|(_, rate)| *rate)
    }

    /// What a byte costs one end more over TCP than over a Unix socket; each end works on its own core here.
    pub(crate) fn tcp_s_per_byte(&self) -> f64 {
        (1e-9 / self.tcp.gigabytes - 1e-9 / self.unix.gigabytes).max(0.0)
    }

    pub(crate) fn to_json(&self) -> Value {
        let steps: serde_json::Map<_, _> =
            self.steps.iter().map(|(kind, rate)| (kind.to_string(), json!(rate))).collect();
        json!({
            "cores": self.cores, "matmul_gflops_one_core": self.one_core.0, "matmul_gflops": self.all_cores.0,
            "matmul_steps_per_s": steps, "copy_gb_per_s_one_core": self.copy.0, "copy_gb_per_s": self.copy.1,
            "gather_rows_per_s": self.gather, "tcp_gb_per_s": self.tcp.gigabytes, "tcp_round_trip_us": self.tcp.round_trip,
            "unix_gb_per_s": self.unix.gigabytes, "unix_round_trip_us": self.unix.round_trip,
        })
    }

    /// A table for people.
    pub(crate) fn table(&self) -> String {
        let cores = self.cores;
        let mut lines = vec![
            format!("| what this machine allows | one core | {cores} cores |"),
            "| --- | --- | --- |".to_owned(),
            format!(
                "| f32 matrix products, best square ({}, {}), GFLOP/s | {:.0} | {:.0} |",
                self.one_core.1, self.all_cores.1, self.one_core.0, self.all_cores.0
            ),
        ];
        for &(kind, rate) in &self.steps {
            let flops = Sizes::new(kind).flops(kind.batch()) * rate / 1e9;
            lines.push(format!("| {kind}: its own products alone, steps/s (GFLOP/s) | | {rate:.1} ({flops:.0}) |"));
        }
        lines.push(format!("| memory copied, GB/s | {:.1} | {:.1} |", self.copy.0, self.copy.1));
        lines.push(format!("| rows of 64 bytes from random places of 1 GiB, million/s | {:.1} | |", self.gather / 1e6));
        let socket = |name: &str, of: Socket| {
            format!("| {name}: GB/s one way; a word and its answer, µs | | {:.1}; {:.1} |", of.gigabytes, of.round_trip)
        };
        lines.extend([socket("TCP over loopback", self.tcp), socket("Unix socket", self.unix)]);
        lines.join("\n")
    }
}

/// Measures and prints.
pub(crate) fn measure(args: &Args) -> Result<()> {
    let limits = Limits::measure(&Kind::ALL)?;
    println!("{}", if args.json { limits.to_json().to_string() } else { limits.table() });
    Ok(())
}

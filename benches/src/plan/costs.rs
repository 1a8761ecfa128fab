//! What one step of a model costs, measured on this machine.

use crate::limits::Limits;
use crate::model::{Kind, Sizes};
use crate::stats::median;
use crate::watch::{self, Seen};
use phalanx::prelude::*;
use phalanx::{Code, Error, Result, Shape};
use phalanx_base::Context;
use phalanx_ps::{Layout, VariableSpec};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

/// Seconds of processor time and bytes of one step of one worker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Costs {
    pub(crate) model: Kind,
    pub(crate) batch: usize,
    /// The worker's, whatever the servers, and for each of them.
    pub(crate) worker_s: f64,
    pub(crate) worker_per_server_s: f64,
    /// The servers': for each message, and for the work of a step, which they share.
    pub(crate) server_message_s: f64,
    pub(crate) server_work_s: f64,
    /// Time in which nobody computes, threads that wake each other: for a step, and for each server.
    pub(crate) latency: f64,
    pub(crate) latency_per_server: f64,
    /// Bytes to and from all servers.
    pub(crate) bytes: f64,
    /// How much longer a computation takes when all cores compute.
    pub(crate) contention: f64,
    /// What a byte costs a server more over TCP than between tasks of one machine.
    pub(crate) tcp_s_per_byte: f64,
    /// Whether a worker computes while it exchanges.
    pub(crate) overlap: bool,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            model: Kind::Click,
            batch: Kind::Click.batch(),
            worker_s: 0.0,
            worker_per_server_s: 0.0,
            server_message_s: 0.0,
            server_work_s: 0.0,
            latency: 0.0,
            latency_per_server: 0.0,
            bytes: 0.0,
            contention: 1.0,
            tcp_s_per_byte: 0.0,
            overlap: false,
        }
    }
}

/// One configuration, as it was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) steps_per_s: f64,
    worker_s: f64,
    server_s: f64,
    bytes: f64,
}

impl Costs {
    /// Returns a worker's seconds for a step with this number of servers.
    pub(crate) fn worker(&self, servers: usize) -> f64 {
        self.worker_s + self.worker_per_server_s * servers as f64
    }

    /// Seconds of a server that has this share of a step's bytes.
    pub(crate) fn server(&self, share: f64) -> f64 {
        self.server_message_s + self.server_work_s * share
    }

    /// Each server's share of a step's bytes, as variables and rows are placed: rows evenly, variables whole.
    pub(crate) fn shares(&self, servers: usize) -> Vec<f64> {
        let even = vec![1.0 / servers.max(1) as f64; servers];
        let sizes = Sizes::new(self.model);
        let Ok(layout) = layout(&sizes, servers) else { return even };
        let mut dense = vec![0.0; servers];
        layout.shards().iter().for_each(|shard| dense[shard.server] += 8.0 * shard.elements.len() as f64);
        let all: f64 = dense.iter().sum();
        let bytes = self.bytes.max(all);
        dense.iter().map(|own| (own + (bytes - all) / servers as f64) / bytes).collect()
    }

    /// Seconds of a step in which its worker waits for nobody's work.
    pub(crate) fn waiting(&self, servers: usize) -> f64 {
        self.latency + self.latency_per_server * servers as f64
    }

    /// From jobs of one worker with one server and with two; `crowd` is a worker's processor time when others compute too.
    pub(crate) fn fit(model: Kind, one: Measured, two: Measured, crowd: f64, tcp_s_per_byte: f64) -> Self {
        let message = (two.server_s - one.server_s).clamp(0.0, one.server_s / 2.0);
        let per_server = (two.worker_s - one.worker_s).max(0.0).min(one.worker_s / 2.0);
        // A step that is shorter than its parts has them at the same time.
        let overlap = 1.0 / one.steps_per_s < one.worker_s + one.server_s / 2.0;
        let mut costs = Self {
            model,
            batch: model.batch(),
            worker_s: one.worker_s - per_server,
            worker_per_server_s: per_server,
            server_message_s: message,
            server_work_s: one.server_s - message,
            bytes: one.bytes,
            contention: (crowd / one.worker_s).clamp(1.0, 2.0),
            tcp_s_per_byte,
            overlap,
            ..Self::default()
        };
        // What is left of the measured time, once the work is taken away.
        let left = |servers: usize, measured: Measured| {
            let busiest = costs.shares(servers).into_iter().fold(0.0, f64::max);
            let served = if overlap { 0.0 } else { costs.server(busiest) };
            (1.0 / measured.steps_per_s - costs.worker(servers) - served).max(0.0)
        };
        let (first, second) = (left(1, one), left(2, two));
        costs.latency_per_server = (second - first).clamp(0.0, first);
        costs.latency = first - costs.latency_per_server;
        costs
    }

    /// Measures what [`Self::fit`] needs.
    pub(crate) fn measure(model: Kind, limits: &Limits, rounds: usize) -> Result<Self> {
        let (one, two) = (measure(model, 1, 1, rounds)?, measure(model, 2, 1, rounds)?);
        let crowd = measure(model, 1, limits.cores, rounds)?.worker_s;
        Ok(Self::fit(model, one, two, crowd, limits.tcp_s_per_byte()))
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "model": self.model.to_string(), "batch": self.batch, "worker_s": self.worker_s,
            "worker_per_server_s": self.worker_per_server_s, "server_message_s": self.server_message_s,
            "server_work_s": self.server_work_s, "latency_s": self.latency, "latency_per_server_s": self.latency_per_server, "bytes": self.bytes,
            "contention": self.contention, "tcp_s_per_byte": self.tcp_s_per_byte, "overlap": self.overlap,
        })
    }

    /// What [`Self::to_json`] wrote.
    pub(crate) fn from_json(text: &str) -> Result<Self> {
        let bad = |why: String| Error::new(Code::DataFormat, "the file has no costs of a step").because(why);
        let value: Value = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let number = |key: &str| {
            let found = value[key].as_f64().filter(|number| number.is_finite() && *number >= 0.0);
            found.ok_or_else(|| bad(format!("{key:?} is not a number of 0 or more")))
        };
        let name = value["model"].as_str().unwrap_or_default();
        let model = Kind::ALL.into_iter().find(|kind| kind.to_string() == name);
        Ok(Self {
            model: model.ok_or_else(|| bad(format!("there is no model {name:?}")))?,
            batch: number("batch")? as usize,
            worker_s: number("worker_s")?,
            worker_per_server_s: number("worker_per_server_s")?,
            server_message_s: number("server_message_s")?,
            server_work_s: number("server_work_s")?,
            latency: number("latency_s")?,
            latency_per_server: number("latency_per_server_s")?,
            bytes: number("bytes")?,
            contention: number("contention")?.max(1.0),
            tcp_s_per_byte: number("tcp_s_per_byte")?,
            overlap: value["overlap"].as_bool().unwrap_or(false),
        })
    }
}

fn layout(sizes: &Sizes, servers: usize) -> Result<Layout> {
    let variable = |(name, shape): (String, Vec<usize>)| -> Result<VariableSpec> {
        let optimizer = Sgd::new(0.1).into();
        Ok(VariableSpec { name, shape: Shape::new(shape)?, optimizer, partitioner: Partitioner::default() })
    };
    let both = |(at, pair): (usize, &[usize])| {
        [(format!("{at}/weight"), pair.to_vec()), (format!("{at}/bias"), vec![pair[1]])]
    };
    let variables = sizes.layers.windows(2).enumerate().flat_map(both).map(variable).collect::<Result<_>>()?;
    Layout::new(variables, Vec::new(), servers, Placement::greedy_by_bytes())
}

/// Measures a configuration on this machine: medians.
pub(crate) fn measure(model: Kind, servers: usize, workers: usize, rounds: usize) -> Result<Measured> {
    let steps: u64 = match model {
        Kind::Softmax => 6000,
        Kind::Dnn => 150,
        Kind::Embed => 400,
        Kind::Click => 60,
        Kind::WideDeep => 8,
    };
    let mut seen = Vec::new();
    for _ in 0..rounds {
        let mut command = Command::new(std::env::current_exe().context(Code::Internal, "no executable")?);
        command.args(["ps", "--json", "--model", &model.to_string(), "--ps", &servers.to_string()]);
        command.args(["--workers", &workers.to_string(), "--steps", &steps.to_string()]);
        seen.push(watch::run(command, steps, Duration::from_secs(300))?);
    }
    let of = |key: &str| {
        let numbers: Vec<f64> = seen.iter().filter_map(|seen| seen.number(key)).collect();
        median(&numbers)
    };
    Ok(Measured {
        steps_per_s: median(&seen.iter().map(Seen::rate).collect::<Vec<_>>()),
        worker_s: of("worker_cpu_ms_per_step") / 1e3,
        server_s: of("server_cpu_ms_per_step") / 1e3,
        bytes: of("bytes_per_step"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_that_explain_both_jobs() {
        let one = Measured { steps_per_s: 1.0 / 0.0125, worker_s: 0.010, server_s: 0.002, bytes: 1e6 };
        let two = Measured { steps_per_s: 80.0, worker_s: 0.0101, server_s: 0.0023, bytes: 1e6 };
        let costs = Costs::fit(Kind::Click, one, two, 0.011, 0.0);
        let near = |is: f64, should: f64| (is - should).abs() < 1e-9;
        assert!(near(costs.server_message_s, 0.0003) && near(costs.server_work_s, 0.0017) && !costs.overlap);
        assert!(near(costs.worker(1), 0.010) && near(costs.worker(2), 0.0101) && near(costs.waiting(1), 0.0005));
        assert!(near(costs.contention, 1.1));
        let overlapped = Measured { steps_per_s: 100.0, ..one };
        assert!(Costs::fit(Kind::Click, overlapped, two, 0.011, 0.0).overlap);
        let exact = Costs { worker_s: 0.25, server_work_s: 0.5, bytes: 7.0, overlap: true, ..Costs::default() };
        assert_eq!(Costs::from_json(&exact.to_json().to_string()).unwrap(), exact);
        assert!(Costs::from_json("{\"model\": \"dnn\"}").is_err());
    }

    #[test]
    fn a_variable_stays_whole_and_rows_are_spread() {
        let dense = Costs { model: Kind::Softmax, bytes: 62_800.0, ..Costs::default() };
        let shares = dense.shares(4);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares.iter().any(|share| *share > 0.99), "{shares:?}");
        let rows = Costs { bytes: 1e9, ..Costs::default() };
        assert!(rows.shares(4).iter().all(|share| (share - 0.25).abs() < 0.01));
    }
}

//! Machines that are not here, and what a job on them comes to.

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cluster {
    pub(crate) workers: usize,
    pub(crate) servers: usize,
    /// Cores of each machine.
    pub(crate) cores: usize,
    /// Everything on one machine, or each task on one of its own.
    pub(crate) together: bool,
    /// Threads of each server.
    pub(crate) threads: usize,
    /// Bytes per second of each machine's network, in and out.
    pub(crate) bytes_per_s: f64,
    /// Seconds for a word and its answer over the network.
    pub(crate) round_trip: f64,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prediction {
    pub(crate) steps_per_s: f64,
    /// How busy the workers' processors are, that of the busiest server, and the busiest way into the network: 0 to 1.
    pub(crate) workers: f64,
    pub(crate) server: f64,
    pub(crate) network: f64,
}

impl Prediction {
    /// What would have to be faster.
    pub(crate) fn limit(&self) -> &'static str {
        let most = self.workers.max(self.server).max(self.network);
        match most {
            waiting if waiting < 0.7 => "waiting",
            most if most == self.workers => "workers",
            most if most == self.server => "servers",
            _ => "network",
        }
    }
}

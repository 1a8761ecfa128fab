//! The figures, as a table or as JSON.

use crate::peer::Peer;
use phalanx_base::{Code, Error, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

struct Figure {
    what: String,
    rows: usize,
    seconds: f64,
    /// Name and seconds of every way that a peer has.
    peers: Vec<(String, f64)>,
}

/// Everything that was measured.
pub(crate) struct Report {
    figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores > 1 {
            println!("{cores} cores may be used: start it under `taskset -c 0` to measure on one");
        }
        Self { figures: Vec::new() }
    }

    /// Measures ours and every peer in turn, so often, and keeps the best of each.
    pub(crate) fn measure(
        &mut self,
        what: &str,
        rounds: usize,
        ours: impl Fn() -> Result<usize>,
        mut peers: Vec<Peer>,
    ) -> Result<()> {
        let mut best = f64::INFINITY;
        let mut best_peers: Vec<(String, f64)> = peers.iter().map(|peer| (peer.name.clone(), f64::INFINITY)).collect();
        let mut rows = 0;
        for _ in 0..rounds {
            let started = cpu_seconds();
            rows = ours()?;
            best = best.min(cpu_seconds() - started);
            for (peer, (name, seconds)) in peers.iter_mut().zip(&mut best_peers) {
                let (read, took) = peer.read()?;
                if read != rows {
                    return Err(Error::new(Code::Internal, format!("{name} read {read} rows, we {rows}")));
                }
                *seconds = seconds.min(took);
            }
        }
        self.figures.push(Figure { what: what.to_owned(), rows, seconds: best, peers: best_peers });
        Ok(())
    }

    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            let figures: Vec<_> = self.figures.iter().map(Figure::json).collect();
            println!("{:#}", json!(figures));
            return;
        }
        for figure in &self.figures {
            println!("{}", figure.line());
        }
    }
}

/// The processor's time that this process has used, all its threads together.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

impl Figure {
    fn best_peer(&self) -> Option<&(String, f64)> {
        self.peers.iter().min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn line(&self) -> String {
        let millions = |seconds: f64| self.rows as f64 / seconds / 1e6;
        let mut line = format!("{:28} {:>9} rows  ours {:7.3} M rows/s", self.what, self.rows, millions(self.seconds));
        for (name, seconds) in &self.peers {
            line += &format!("  {name} {:7.3}", millions(*seconds));
        }
        if let Some((_, seconds)) = self.best_peer() {
            line += &format!("  = {:.1} times", seconds / self.seconds);
        }
        line
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "what": self.what,
            "rows": self.rows,
            "rows_per_s": self.rows as f64 / self.seconds,
            "peers": self.peers.iter().map(|(name, seconds)| json!({
                "name": name,
                "rows_per_s": self.rows as f64 / seconds,
            })).collect::<Vec<_>>(),
            "times_the_best_peer": self.best_peer().map(|(_, seconds)| seconds / self.seconds),
        })
    }
}

//! Addresses for a job on this machine.

use phalanx_base::{Code, Context, Result};
use phalanx_cluster::ClusterSpec;
use std::net::TcpListener;

/// Ports on loopback that nobody uses now.
///
/// # Errors
/// When the operating system has none.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    let bind = |_| TcpListener::bind("127.0.0.1:0").context(Code::PortInUse, "no free port on loopback");
    let listeners = (0..count).map(bind).collect::<Result<Vec<_>>>()?;
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    listeners.iter().map(port).collect::<Result<_, _>>().context(Code::PortInUse, "no free port on loopback")
}

/// A cluster on loopback: `ps` parameter servers and `trainers` trainers, the first of which is the chief.
///
/// # Errors
/// When the operating system has no ports.
pub fn local_cluster(ps: usize, trainers: usize) -> Result<ClusterSpec> {
    let ports = free_ports(ps + trainers)?;
    let addresses = |ports: &[u16]| ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>();
    let (servers, trainers) = ports.split_at(ps);
    let (chief, workers) = trainers.split_at(1.min(trainers.len()));
    let mut cluster = ClusterSpec::new().job("chief", addresses(chief)).job("ps", addresses(servers));
    if !workers.is_empty() {
        cluster = cluster.job("worker", addresses(workers));
    }
    Ok(cluster)
}

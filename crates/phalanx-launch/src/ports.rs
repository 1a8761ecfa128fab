//! Addresses for a job on this machine.

use phalanx_base::{Code, Context, Result};
use phalanx_cluster::ClusterSpec;
use rustix::net::{AddressFamily, SocketAddrV4, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

/// Ports on loopback that stay reserved until this value is dropped.
///
/// Each port is held by a socket that is bound and does not listen. The kernel then gives the port to nobody who asks for
/// any free one, neither by `bind` nor by `connect`; a task that sets `SO_REUSEADDR`, as servers do, binds it by its number
/// and listens; and a connection to a port whose task does not listen is refused, as if nothing were there.
#[derive(Debug)]
pub struct ReservedPorts {
    ports: Vec<(u16, OwnedFd)>,
}

impl ReservedPorts {
    /// Reserves `count` ports that nobody uses now.
    ///
    /// # Errors
    /// When the operating system has none, or no sockets.
    pub fn new(count: usize) -> Result<Self> {
        let ports = (0..count).map(|_| reserve()).collect::<Result<_, _>>();
        Ok(Self { ports: ports.context(Code::PortInUse, format!("{count} ports on loopback cannot be reserved"))? })
    }

    /// The ports, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().map(|(port, _)| *port)
    }
}

fn reserve() -> rustix::io::Result<(u16, OwnedFd)> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let port = SocketAddrV4::try_from(getsockname(&socket)?)?.port();
    Ok((port, socket))
}

/// Ports on loopback that nobody uses now. Nothing keeps them free: see [`ReservedPorts`].
///
/// # Errors
/// When the operating system has none.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    Ok(ReservedPorts::new(count)?.iter().collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_reserved_port_is_a_task_s_again_and_again_and_nobody_else_s() {
        let reserved = ReservedPorts::new(1).unwrap();
        let port = reserved.iter().next().unwrap();
        for _ in 0..3 {
            let refused = TcpStream::connect(("127.0.0.1", port)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "nobody listens there");
            // As a task does; connections of its former life do not keep it out.
            let task = TcpListener::bind(("127.0.0.1", port)).unwrap();
            let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            drop(task.accept().unwrap());
            let second = TcpListener::bind(("127.0.0.1", port)).unwrap_err();
            assert_eq!(second.kind(), ErrorKind::AddrInUse, "a task that listens is alone");
            drop((client, task));
        }
        drop(reserved);
    }
}

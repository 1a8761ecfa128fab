//! Addresses for a job on this machine.

use phalanx_base::{Code, Context, Result};
use rustix::net::{AddressFamily, SocketAddrV4, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

/// Ports on loopback that stay reserved until this value is dropped.
///
/// Each port is held by a socket that is bound and does not listen. The kernel then assigns the port to no other socket, neither in
/// `bind` nor in `connect`. A task that sets `SO_REUSEADDR`, as servers do, can bind the port by its number and listen. Connections to
/// a port whose task does not listen are refused.
#[derive(Debug)]
pub struct ReservedPorts {
    ports: Vec<(u16, OwnedFd)>,
}

impl ReservedPorts {
    /// Reserves `count` free ports.
    ///
    /// # Errors
    /// If the operating system has no free ports or sockets.
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

/// Returns `count` ports on loopback that are free now. They are not reserved: see [`ReservedPorts`].
///
/// # Errors
/// If the operating system has no free ports.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    Ok(ReservedPorts::new(count)?.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn only_a_task_can_bind_a_reserved_port_and_repeatedly() {
        let reserved = ReservedPorts::new(1).unwrap();
        let port = reserved.iter().next().unwrap();
        for _ in 0..3 {
            let refused = TcpStream::connect(("127.0.0.1", port)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "nobody listens there");
            // As a task does; connections of its earlier incarnation do not prevent it.
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

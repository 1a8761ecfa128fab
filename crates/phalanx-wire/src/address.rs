//! `host:port`, and whether it is this machine.

use phalanx_base::{Code, Error, Result};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where a task serves, as the cluster writes it.
///
/// ```
/// use phalanx_wire::Address;
/// let address: Address = "localhost:2222".parse().unwrap();
/// assert!(address.is_loopback());
/// assert_eq!(address.port(), 2222);
/// assert!("localhost".parse::<Address>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// The host without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the host can only be this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost") || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Where a server of this address listens: on loopback if that is all it names, else on every interface, because
    /// the name a cluster uses for a machine need not be the name of one of its interfaces.
    #[must_use]
    pub fn listen_on(&self) -> SocketAddr {
        let ip = match self.host.parse::<IpAddr>() {
            Ok(ip) if ip.is_loopback() => ip,
            _ if self.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(ip, self.port)
    }
}

impl std::str::FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::new(Code::ConfigAddress, format!("{text:?} is not an address"))
                .because(why)
                .help("write host:port, for example 10.0.0.4:2222")
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("it has no port"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(wrong("its host is empty or contains blanks"));
        }
        if host.contains(['[', ']']) {
            return Err(wrong("its brackets are not one pair around the host"));
        }
        let port = port.parse().map_err(|_| wrong("its port is not a number from 0 to 65535"))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_back() {
        for text in ["10.0.0.4:2222", "[::1]:80", "ps-0.train.svc:0"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", ":1", "host", "host:", "host:66000", "ho st:1", "host:-1", "[[]:655", "[:1", "a]:1", "[]]:1"] {
            assert_eq!(text.parse::<Address>().unwrap_err().code(), Code::ConfigAddress, "{text}");
        }
    }

    #[test]
    fn loopback_names_listen_on_loopback_only() {
        assert!("localhost:1".parse::<Address>().unwrap().listen_on().ip().is_loopback());
        assert!("[::1]:1".parse::<Address>().unwrap().listen_on().ip().is_loopback());
        assert!("10.0.0.4:1".parse::<Address>().unwrap().listen_on().ip().is_unspecified());
    }
}

//! The address of a task, `host:port`.

use crate::{Code, Error, Result, Snippet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address at which a task listens, as the cluster spec writes it.
///
/// ```
/// use phalanx_base::Address;
/// let address: Address = "localhost:2222".parse()?;
/// assert!(address.is_loopback());
/// assert_eq!(address.port(), 2222);
/// let error = "localhost".parse::<Address>().unwrap_err();
/// assert!(error.report().contains("^^^^^^^^^ the port is missing"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Returns the host without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the host can only be this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost") || self.ip().is_some_and(|ip| ip.is_loopback())
    }

    /// Returns where a task with this address listens: on loopback for a loopback address, else on every interface of its
    /// family, because the cluster's name for a machine need not belong to one of its interfaces.
    #[must_use]
    pub fn listen_on(&self) -> SocketAddr {
        let ip = match self.ip() {
            Some(ip) if ip.is_loopback() => ip,
            None if self.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            // Rust cannot parse an address with a zone, such as fe80::1%eth0.
            Some(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
            None if self.host.contains(':') => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(ip, self.port)
    }

    /// Parses an address that is part of a larger text. `point` marks it there with a label.
    ///
    /// # Errors
    /// When it is not `host:port`; the error has the mark.
    pub fn read(text: &str, point: impl FnOnce(&'static str) -> Snippet) -> Result<Self> {
        parts(text).map_err(|why| {
            let short: String = text.chars().take(40).collect();
            let more = if short.len() < text.len() { "…" } else { "" };
            Error::new(Code::ConfigAddress, format!("{:?} is not an address", format!("{short}{more}")))
                .because(why)
                .snippet(point(why))
                .help("write host:port, for example 10.0.0.4:2222 or [fd00::4]:2222")
        })
    }

    /// Returns the host as an IP address, if it is one. An IPv4-mapped IPv6 address is returned as IPv4.
    fn ip(&self) -> Option<IpAddr> {
        self.host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
    }
}

/// The only definition of a valid address: one that can be dialled by host name and port.
fn parts(text: &str) -> std::result::Result<Address, &'static str> {
    if text.contains("://") {
        return Err("an address has no scheme");
    }
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err("it is empty, or has a space in it");
    }
    let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let bare = inside.unwrap_or(host);
    if bare.is_empty() {
        return Err("the host is missing");
    }
    if bare.contains(['[', ']']) {
        return Err("its brackets are not one pair around the host");
    }
    if inside.is_none() && bare.contains(':') && bare.parse::<Ipv6Addr>().is_err() {
        return Err("the host has a colon in it, and is no IPv6 address in brackets");
    }
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| digits).ok_or("the port is not a number up to 65535")?;
    Ok(Address { host: bare.to_owned(), port })
}

impl std::str::FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::read(text, |why| Snippet::new("address", text, 0..text.len().min(60), why))
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
        for text in ["10.0.0.4:2222", "[::1]:80", "[fe80::1%eth0]:80", "ps-0.train.svc:0"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("fd00::4:2222".parse::<Address>().unwrap().to_string(), "[fd00::4]:2222");
    }

    #[test]
    fn what_cannot_be_dialled_is_pointed_at() {
        for (text, why) in [
            ("", "empty"),
            (":1", "the host is missing"),
            ("[]:1", "the host is missing"),
            ("host", "the port is missing"),
            ("host:", "not a number"),
            ("host:66000", "not a number"),
            ("host:-1", "not a number"),
            ("host:+1", "not a number"),
            ("ho st:1", "a space"),
            ("grpc://host:1", "no scheme"),
            ("a:b:1", "a colon"),
            ("[[]:655", "brackets"),
            ("[:1", "brackets"),
            ("a]:1", "brackets"),
            ("[]]:1", "brackets"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.code(), Code::ConfigAddress, "{text}");
            assert!(error.why().unwrap().contains(why), "{text}: {error}");
            assert!(error.report().contains(&"^".repeat(text.chars().count().max(1))), "{}", error.report());
        }
        let long = "x".repeat(100_000).parse::<Address>().unwrap_err();
        assert!(long.report().len() < 1000, "{}", long.report().len());
    }

    #[test]
    fn a_task_listens_on_loopback_only_or_on_its_family() {
        for (text, ip) in [
            ("localhost:1", "127.0.0.1"),
            ("127.0.0.2:1", "127.0.0.2"),
            ("[::1]:1", "::1"),
            ("[::ffff:127.0.0.1]:1", "127.0.0.1"),
            ("10.0.0.4:1", "0.0.0.0"),
            ("ps-0.train.svc:1", "0.0.0.0"),
            ("[::ffff:10.0.0.4]:1", "0.0.0.0"),
            ("[2001:db8::4]:1", "::"),
            ("fd00::4:1", "::"),
            ("[fe80::1%eth0]:1", "::"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.listen_on().ip().to_string(), ip, "{text}");
            assert_eq!(address.is_loopback(), address.listen_on().ip().is_loopback(), "{text}");
        }
    }
}

//! Requests to a dashboard.

use phalanx_dashboard::Dashboard;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A client that knows a dashboard's address and token.
pub(crate) struct Client {
    pub(crate) host: String,
    pub(crate) token: String,
}

impl Client {
    pub(crate) fn of(dashboard: &Dashboard) -> Self {
        let (host, token) = dashboard.url().strip_prefix("http://").unwrap().split_once("/?t=").unwrap();
        Self { host: host.to_owned(), token: token.to_owned() }
    }

    pub(crate) fn connect(&self, method: &str, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").unwrap();
        stream
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &str) -> String {
        let mut text = String::new();
        self.connect(method, path, headers).read_to_string(&mut text).unwrap();
        text
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.send("GET", path, &self.own())
    }

    /// The header that names this server.
    pub(crate) fn own(&self) -> String {
        format!("Host: {}\r\n", self.host)
    }

    /// Returns the object at `path`; `more` is the rest of the query.
    pub(crate) fn json(&self, path: &str, more: &str) -> Value {
        let answer = self.get(&format!("{path}?t={}{more}", self.token));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(status(head), "200", "{answer}");
        serde_json::from_str(body).unwrap()
    }

    /// Waits until the object at `path` is as wanted.
    pub(crate) fn until(&self, path: &str, more: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let found = self.json(path, more);
            if wanted(&found) {
                return found;
            }
            assert!(Instant::now() < end, "{found}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The status code of a response.
pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("")
}

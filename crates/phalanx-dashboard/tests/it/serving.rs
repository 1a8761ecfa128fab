//! The dashboard's server, with requests from browsers and from strangers.

use crate::client::{Client, status};
use phalanx_dashboard::Dashboard;
use phalanx_run::{RunDir, SharedTailer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const EVENTS: &str = r#"{"at":1000,"kind":"launched","text":"chief"}
{"at":1001,"kind":"started","task":"chief/0","attempt":1,"pid":1,"text":"process 1"}
{"at":2000,"kind":"exited","task":"chief/0","attempt":1,"exit":0,"text":"exit code 0"}
{"at":2001,"kind":"finished","outcome":"succeeded","text":"an end"}
"#;

struct Served {
    _dir: tempfile::TempDir,
    _dashboard: Dashboard,
    client: Client,
}

impl Served {
    /// A run that has ended, with one line of a log that looks like markup.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path());
        std::fs::create_dir_all(run.logs()).unwrap();
        std::fs::write(run.events_file(), EVENTS).unwrap();
        let job =
            r#"{"program":["train"],"started":1000,"tasks":[{"task":"chief/0","node":"","address":"127.0.0.1:1"}]}"#;
        std::fs::write(run.job_file(), job).unwrap();
        std::fs::write(run.logs().join("chief-0.log"), "1970-01-01T00:00:01.500Z <script>alert(1)</script>\n").unwrap();
        let tailer = SharedTailer::start(&run, true, Duration::from_millis(200)).unwrap();
        let dashboard = Dashboard::start(tailer, "127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Client::of(&dashboard);
        Self { _dir: dir, _dashboard: dashboard, client }
    }
}

#[test]
fn the_state_needs_the_token() {
    let served = Served::new();
    let path = format!("/api/state?t={}", served.client.token);
    let until = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let answer = served.client.send("GET", &path, &served.client.own());
        assert_eq!(status(&answer), "200", "{answer}");
        if answer.contains(r#""state":"succeeded""#) {
            assert!(
                answer.contains(r#""task":"chief/0""#)
                    && answer.contains("content-security-policy: default-src 'none'")
            );
            break;
        }
        assert!(std::time::Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn strangers_get_nothing() {
    let served = Served::new();
    let (own, path) = (served.client.own(), format!("/api/state?t={}", served.client.token));
    assert_eq!(status(&served.client.send("GET", "/api/state", &own)), "401");
    assert_eq!(status(&served.client.send("GET", "/api/stream?t=0", &own)), "401");
    assert_eq!(status(&served.client.send("GET", "/metrics", &own)), "401");
    assert_eq!(status(&served.client.send("GET", &path, "Host: evil.example\r\n")), "403");
    assert_eq!(status(&served.client.send("GET", &path, &format!("{own}Origin: http://evil.example\r\n"))), "403");
    assert_eq!(status(&served.client.send("GET", "/", &own)), "200");
    assert_eq!(status(&served.client.send("GET", "/../Cargo.toml", &own)), "404");
    let metrics = served.client.send("GET", &format!("/metrics?t={}", served.client.token), &own);
    assert_eq!(status(&metrics), "200", "{metrics}");
}

#[test]
fn a_stream_sends_everything_from_the_beginning() {
    let served = Served::new();
    let stream = served.client.connect("GET", &format!("/api/stream?t={}", served.client.token), &served.client.own());
    let mut seen = String::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        seen += &line;
        seen.push('\n');
        if seen.contains("event: lines") && line.starts_with("data:") && line.contains("alert") {
            break;
        }
    }
    for part in ["event: state", "event: events", r#""kind":"finished""#, r#"[1500,0,"<script>alert(1)</script>"]"#] {
        assert!(seen.contains(part), "{part} is missing: {seen}");
    }
}

/// Connects without ever sending a complete request.
fn strangers(served: &Served, count: usize) -> Vec<TcpStream> {
    let connect = |number: usize| {
        let mut stream = TcpStream::connect(&served.client.host).unwrap();
        if number.is_multiple_of(2) {
            write!(stream, "GET /api/state HTTP/1.1\r\nHost: ").unwrap();
        }
        stream
    };
    (0..count).map(connect).collect()
}

#[test]
fn idle_connections_keep_no_client_out_and_take_few_descriptors() {
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: most.maximum, maximum: most.maximum }).unwrap();
    let served = Served::new();
    let mut stream =
        served.client.connect("GET", &format!("/api/stream?t={}", served.client.token), &served.client.own());
    let mut first = [0; 64];
    stream.read_exact(&mut first).unwrap();
    let mut idle = strangers(&served, 2000);
    let answer = served.client.send("GET", &format!("/api/state?t={}", served.client.token), &served.client.own());
    assert_eq!(status(&answer), "200", "{answer}");
    // The server's side of a connection is a descriptor too; ours are known.
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < idle.len() + 300, "{open} descriptors beside {} connections", idle.len());
    // The newest of them is closed when its time is over; a stream that has shown the token stays open.
    let mut newest = idle.pop().unwrap();
    newest.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    let mut rest = Vec::new();
    let closed = newest.read_to_end(&mut rest);
    assert!(closed.is_ok() || closed.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
    let mut lines = BufReader::new(stream).lines();
    let until = std::time::Instant::now() + Duration::from_secs(40);
    let mut alive = 0;
    while alive < 2 {
        assert!(std::time::Instant::now() < until, "the stream is silent");
        alive += usize::from(lines.next().unwrap().unwrap().starts_with(':'));
    }
}

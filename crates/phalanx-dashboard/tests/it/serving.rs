//! The dashboard's server, with requests from browsers and from strangers.

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
    dashboard: Dashboard,
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
        Self { _dir: dir, dashboard }
    }

    fn host(&self) -> &str {
        self.dashboard.url().strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    fn token(&self) -> &str {
        self.dashboard.url().split("t=").nth(1).unwrap()
    }

    fn connect(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.host()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").unwrap();
        stream
    }

    fn get(&self, path: &str, headers: &str) -> String {
        let mut text = String::new();
        self.connect(path, headers).read_to_string(&mut text).unwrap();
        text
    }

    fn own(&self) -> String {
        format!("Host: {}\r\n", self.host())
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("")
}

#[test]
fn the_state_needs_the_token() {
    let served = Served::new();
    let path = format!("/api/state?t={}", served.token());
    let until = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let answer = served.get(&path, &served.own());
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
    let (own, path) = (served.own(), format!("/api/state?t={}", served.token()));
    assert_eq!(status(&served.get("/api/state", &own)), "401");
    assert_eq!(status(&served.get("/api/stream?t=0", &own)), "401");
    assert_eq!(status(&served.get("/metrics", &own)), "401");
    assert_eq!(status(&served.get(&path, "Host: evil.example\r\n")), "403");
    assert_eq!(status(&served.get(&path, &format!("{own}Origin: http://evil.example\r\n"))), "403");
    assert_eq!(status(&served.get("/", &own)), "200");
    assert_eq!(status(&served.get("/../Cargo.toml", &own)), "404");
    let metrics = served.get(&format!("/metrics?t={}", served.token()), &own);
    assert_eq!(status(&metrics), "200", "{metrics}");
}

#[test]
fn a_stream_sends_everything_from_the_beginning() {
    let served = Served::new();
    let stream = served.connect(&format!("/api/stream?t={}", served.token()), &served.own());
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
        let mut stream = TcpStream::connect(served.host()).unwrap();
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
    let mut stream = served.connect(&format!("/api/stream?t={}", served.token()), &served.own());
    let mut first = [0; 64];
    stream.read_exact(&mut first).unwrap();
    let mut idle = strangers(&served, 2000);
    let answer = served.get(&format!("/api/state?t={}", served.token()), &served.own());
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

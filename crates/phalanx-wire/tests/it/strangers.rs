//! Processes that do not belong to the job: of other users, without the token, or too many of them.

// A process of this program prints what the test that started it reads.
#![allow(clippy::print_stdout)]

use crate::support::{Echo, EchoHeader, SECONDS, block_on, frame, serve, serve_at};
use hmac::{Hmac, Mac};
use phalanx_base::Code;
use phalanx_wire::bulk::{self, Transport};
use phalanx_wire::{Address, Endpoint, Listening, Outcome, Token, control};
use sha2::Sha256;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
const ROLE: &str = "PHALANX_LANES_ROLE";

/// This test binary in another process, in one of the roles of [`another_process`].
struct Other {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Other {
    fn start(role: &str, configure: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", "strangers::another_process", "--nocapture"]).env(ROLE, role);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        configure(&mut command);
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, stdin, lines }
    }

    /// Starts a process of another user; `None`, with a message, if this process may not.
    fn of_another_user(role: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can start a process of another user");
            return None;
        }
        Some(Self::start(role, |command| {
            command.uid(NOBODY).gid(NOBODY);
        }))
    }

    /// Waits for a line that contains `start`, and returns the rest of it.
    fn line(&self, start: &str) -> String {
        let end = Instant::now() + 3 * SECONDS;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())).expect("a line");
            if let Some((_, rest)) = line.split_once(start) {
                return rest.trim().to_owned();
            }
        }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The roles for which [`Other`] starts this binary. As a test it does nothing.
#[test]
fn another_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split_once(' ').unwrap() {
        ("take", name) => take_the_name(name),
        ("block", name) => block_the_name(name),
        ("connect", address) => dial(address),
        ("token", _) => println!("token {:?}", Token::from_env().map_err(|error| error.code())),
        ("serve", files) => serve_with_few_files(files.parse().unwrap()),
        other => panic!("{other:?}"),
    }
}

/// A job that was given a token never runs without one.
#[test]
fn a_token_that_is_not_utf8_is_an_error_and_no_token_is_none() {
    use std::os::unix::ffi::OsStrExt;
    let token = |bytes: Option<&[u8]>| {
        let other = Other::start("token of the environment", |command| {
            command.env_remove("PHALANX_TOKEN");
            if let Some(bytes) = bytes {
                command.env("PHALANX_TOKEN", std::ffi::OsStr::from_bytes(bytes));
            }
        });
        other.line("token ")
    };
    assert_eq!(token(None), "Ok(None)");
    assert_eq!(token(Some(b"secret")), "Ok(Some(Token(…)))");
    assert_eq!([token(Some(b"s\xffecret")), token(Some(b""))], ["Err(WrongToken)", "Err(WrongToken)"]);
}

fn local(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).unwrap()
}

/// Listens where a task would, and prints how many bytes it received.
fn take_the_name(name: &str) {
    let listener = UnixListener::bind_addr(&local(name)).unwrap();
    println!("taken");
    let (send, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, send) = (stream.unwrap(), send.clone());
            std::thread::spawn(move || {
                // Whatever the greeting was, it is answered.
                let _ = stream.write_all(&[0; 64]);
                stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes);
                let _ = send.send(bytes.len());
            });
        }
    });
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    // The first connection is the task's, which looks up the holder of the name.
    let all: Vec<usize> = std::iter::from_fn(|| heard.recv_timeout(Duration::from_secs(3)).ok()).collect();
    println!("connections {} bytes {}", all.len(), all.iter().sum::<usize>());
}

/// Listens where a task would, and accepts no connection.
fn block_the_name(name: &str) {
    use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let socket = || net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
    let listener = socket();
    net::bind(&listener, &name).unwrap();
    net::listen(&listener, 1).unwrap();
    let waiting: Vec<_> =
        std::iter::repeat_with(socket).take_while(|socket| net::connect(socket, &name).is_ok()).collect();
    println!("taken {}", waiting.len());
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Connects to a task's sockets without its token, and prints what it received.
fn dial(address: &str) {
    let hello = [b"PHALANX2C\0", &[7; 32][..], &[0; 32]].concat();
    let mut got = Vec::new();
    let mut stream = UnixStream::connect_addr(&local(&format!("phalanx:{address}"))).unwrap();
    stream.set_read_timeout(Some(SECONDS)).unwrap();
    let _ = stream.write_all(&hello);
    let _ = stream.read_to_end(&mut got);
    println!("unix {got:?}");
    got.clear();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SECONDS)).unwrap();
    stream.write_all(&hello).unwrap();
    let _ = stream.read_to_end(&mut got);
    println!("tcp {}", String::from_utf8_lossy(&got).escape_debug());
}

/// A task without a token and with few file descriptors. Opens files on request.
fn serve_with_few_files(files: u64) {
    let limit = Some(files);
    let limit = rustix::process::Rlimit { current: limit, maximum: limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let (_listening, address) = serve(None);
    println!("serves {}", address.port());
    for line in std::io::stdin().lines() {
        let count: usize = line.unwrap().parse().unwrap();
        let opened: Vec<_> = (0..count).map_while(|_| std::fs::File::open("/proc/self/exe").ok()).collect();
        println!("opened {}", opened.len());
    }
}

/// Serves a task whose Unix socket's name a process of another user has taken, in this role. `None` if this process may
/// not start such a process.
fn serve_without_name(role: &str, token: Option<Token>) -> Option<(Other, Listening, Address)> {
    let mut listening = Listening::bind(&"127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let address: Address = format!("127.0.0.1:{}", listening.port()).parse().unwrap();
    let stranger = Other::of_another_user(&format!("{role} phalanx:{address}"))?;
    stranger.line("taken");
    let endpoint = Endpoint { control: Arc::new(Echo), bulk: Some(Arc::new(Echo)), token: token.clone() };
    let warning = listening.serve(endpoint).unwrap().expect("a warning that the name is taken");
    assert_eq!(warning.code(), Code::PortInUse);
    let why = warning.why().unwrap().to_owned();
    // The holder of a name that accepts nobody cannot be identified.
    let identified = why.contains(&format!("user {NOBODY}")) && why.contains(&stranger.child.id().to_string());
    assert!(identified || role == "block", "{why}");
    block_on(async {
        let lane = bulk::reach(&address, "ps/0".into(), token.clone());
        for _ in 0..3 {
            assert_eq!(lane.call(frame(3, 1000), SECONDS).await.ok().unwrap().body().len(), 1000);
        }
        assert_eq!(control::Client::new(&address, token).identify().await.unwrap().task, "ps/0");
    });
    Some((stranger, listening, address))
}

#[test]
fn whoever_takes_a_tasks_name_first_receives_nothing_and_the_task_is_reached_at_its_port() {
    let token = Token::new("secret").unwrap();
    let Some((mut stranger, _listening, address)) = serve_without_name("take", Some(token.clone())) else { return };
    assert!(bulk::stream(&address, Some(&token), b"hello", SECONDS).is_err());
    stranger.tell("enough");
    let heard = stranger.line("connections ");
    let (connections, bytes) = heard.split_once(" bytes ").unwrap();
    assert!(connections.parse::<usize>().unwrap() > 1, "no client connected: {heard}");
    assert_eq!(bytes, "0", "a process of another user received bytes");
}

#[test]
fn whoever_takes_a_tasks_name_and_accepts_nobody_holds_nobody_up() {
    serve_without_name("block", None);
}

#[test]
fn a_process_of_another_user_gets_nothing_from_a_task() {
    for token in [None, Some(Token::new("secret").unwrap())] {
        let (_listening, address) = serve(token.clone());
        let Some(stranger) = Other::of_another_user(&format!("connect {address}")) else { return };
        assert_eq!(stranger.line("unix "), "[]", "its user is enough to be refused");
        let refusal = stranger.line("tcp ");
        assert!(refusal.contains("the job token is refused") && !refusal.contains("secret"), "{refusal}");
        block_on(async {
            let lane = bulk::reach(&address, "ps/0".into(), token.clone());
            assert!(lane.call(frame(3, 10), SECONDS).await.ok().is_ok());
        });
    }
}

/// An impostor listens at an address of the job, accepts everything, and records what it receives.
#[test]
fn an_impostor_at_a_port_hears_neither_the_token_nor_a_frame() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let impostor = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&[0; 32 + 1 + 32]).unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        heard
    });
    block_on(async {
        let lane = bulk::reach_over_network(&address, "ps/0".into(), Some(Token::new("secret").unwrap()));
        let outcome = lane.call(frame(3, 1000), SECONDS).await;
        assert!(matches!(&outcome, Outcome::Failed(error) if error.code() == Code::WrongToken), "{outcome:?}");
    });
    let heard = impostor.join().unwrap();
    assert_eq!(heard.len(), 42 + 32, "a greeting and a proof");
    assert!(!heard.windows(6).any(|bytes| bytes == b"secret"));
}

/// Two tasks with one port on two addresses of this machine are two tasks.
#[test]
fn tasks_at_two_addresses_do_not_get_each_others_calls() {
    let (listening, address) = serve(None);
    let twin: Address = format!("127.0.0.2:{}", address.port()).parse().unwrap();
    block_on(async {
        let outcome = bulk::reach(&twin, "ps/1".into(), None).call(frame(3, 10), SECONDS).await;
        assert!(matches!(&outcome, Outcome::Failed(error) if error.code() == Code::PeerUnreachable), "{outcome:?}");
    });
    let _twin = serve_at(&twin.to_string(), Arc::new(Echo), Some(Token::new("of the other job").unwrap()));
    block_on(async {
        let call = async |address, token| bulk::reach(address, "ps".into(), token).call(frame(3, 10), SECONDS).await;
        assert!(matches!(call(&address, None).await, Outcome::Done(_)));
        let other = Some(Token::new("of the other job").unwrap());
        assert!(matches!(call(&twin, other).await, Outcome::Done(_)));
        assert!(matches!(call(&twin, None).await, Outcome::Failed(_)));
    });
    drop(listening);
}

/// A client without a token that completes the handshake and then sends nothing.
fn silent_member(address: &str, port: u16) -> TcpStream {
    let (mine, mut theirs) = ([7; 32], [0; 32]);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[b"PHALANX2C\0", &mine[..]].concat()).unwrap();
    stream.read_exact(&mut theirs).unwrap();
    let mac = Hmac::<Sha256>::new(&[0; 64].into()).chain_update(b"clientC").chain_update(port.to_le_bytes());
    stream.write_all(&mac.chain_update(mine).chain_update(theirs).finalize().into_bytes()).unwrap();
    let mut accepted = [1; 33];
    stream.read_exact(&mut accepted).unwrap();
    assert_eq!(accepted[0], 0);
    stream
}

/// Whether the other end closes the connection, in time.
fn is_closed(stream: &mut (impl Read + ?Sized)) -> bool {
    loop {
        match stream.read(&mut [0; 1024]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

#[test]
fn two_thousand_idle_and_half_connections_keep_nobody_out_and_are_closed() {
    // This process has to have as many connections open as the other one would like to.
    let _raised = Listening::bind(&"127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let mut task = Other::start("serve 1024", |_| {});
    let port: u16 = task.line("serves ").parse().unwrap();
    let text = format!("127.0.0.1:{port}");
    let address: Address = text.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (early, mut control) = {
        let _inside = runtime.enter();
        (bulk::reach(&address, "ps/0".into(), None), control::Client::new(&address, None))
    };
    let call = |lane: &dyn Transport| {
        let answer = runtime.block_on(lane.call(frame(3, 1000), SECONDS)).ok();
        assert_eq!(answer.expect("an honest call").header::<EchoHeader>().unwrap().number, 3);
    };
    call(&*early);
    runtime.block_on(control.identify()).unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut strangers: Vec<Box<dyn Read>> = Vec::new();
    for i in 0..2000_usize {
        if i % 4 == 3 {
            let mut stream = UnixStream::connect_addr(&local(&format!("phalanx:{text}"))).unwrap();
            let _ = stream.write_all(&b"PHALANX2M\0 and half of a greeting"[..i % 30]);
            stream.set_read_timeout(Some(SECONDS)).unwrap();
            strangers.push(Box::new(stream));
        } else {
            let mut stream = TcpStream::connect(&text).unwrap();
            let _ = stream.write_all(&preface[..if i % 4 == 0 { 0 } else { i % 24 }]);
            stream.set_read_timeout(Some(SECONDS)).unwrap();
            strangers.push(Box::new(stream));
        }
        if i % 100 == 0 {
            call(&*early);
            let _inside = runtime.enter();
            call(&*bulk::reach(&address, "ps/0".into(), None));
            call(&*bulk::reach_over_network(&address, "ps/0".into(), None));
        }
    }
    // Some that complete the handshake, which needs no secret in a job without a token.
    strangers.extend((0..20).map(|_| {
        let stream = silent_member(&text, port);
        stream.set_read_timeout(Some(SECONDS)).unwrap();
        Box::new(stream) as Box<dyn Read>
    }));
    task.tell("100");
    assert_eq!(task.line("opened "), "100", "files can be opened");
    call(&*early);
    runtime.block_on(control.identify()).unwrap();
    let open = strangers.iter_mut().filter_map(|stream| (!is_closed(stream)).then_some(())).count();
    assert_eq!(open, 0, "of {} are still open", strangers.len());
    call(&*early);
    runtime.block_on(control.identify()).unwrap();
}

/// Forwards bytes between a client and a task, until its open connections are frozen.
struct Proxy {
    address: Address,
    freeze: Arc<std::sync::atomic::AtomicUsize>,
}

impl Proxy {
    /// At another address of this machine with the task's port, as a proof is for a port.
    fn to(task: &Address) -> Self {
        let freeze = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let listener = TcpListener::bind(("127.0.0.3", task.port())).unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let (to, frozen) = (task.to_string(), Arc::clone(&freeze));
        std::thread::spawn(move || {
            for (number, near) in listener.incoming().enumerate() {
                let (near, far) = (near.unwrap(), TcpStream::connect(&to).unwrap());
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let frozen = Arc::clone(&frozen);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            if number < frozen.load(std::sync::atomic::Ordering::SeqCst) {
                                // Keeps both ends open and passes nothing on.
                                std::thread::park();
                            }
                            if to.write_all(&bytes[..count]).is_err() {
                                return;
                            }
                        }
                    });
                }
            }
        });
        Self { address, freeze }
    }
}

#[test]
fn a_connection_that_went_silent_is_replaced_after_the_call_that_found_out() {
    let (_listening, task) = serve(None);
    let proxy = Proxy::to(&task);
    block_on(async {
        let lane = bulk::reach_over_network(&proxy.address, "ps/0".into(), None);
        assert!(lane.call(frame(3, 10), SECONDS).await.ok().is_ok());
        proxy.freeze.store(1, std::sync::atomic::Ordering::SeqCst);
        let silent = lane.call(frame(3, 10), Duration::from_millis(500)).await;
        assert!(matches!(silent, Outcome::Unknown(_)), "{silent:?}");
        assert!(lane.call(frame(3, 10), SECONDS).await.ok().is_ok(), "over a new connection");
    });
}

#[test]
fn a_listener_that_never_answers_is_known_to_have_done_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    block_on(async {
        let lane = bulk::reach(&address, "ps/0".into(), None);
        let outcome = lane.call(frame(3, 10), 2 * SECONDS).await;
        assert!(matches!(&outcome, Outcome::Failed(error) if error.code() == Code::PeerUnreachable), "{outcome:?}");
    });
    drop(listener);
}

//! Hostile input to a parameter server: each message is refused with its code, or the connection is closed; nothing panics, and
//! honest clients are served as before.

use bytes::Bytes;
use phalanx::prelude::*;
use phalanx::{Incarnation, Shape};
use phalanx_base::{SplitMix, UpdateId};
use phalanx_ps::client::{Push, RemoteModel, UpdateMode};
use phalanx_ps::proto::{
    self, CloseRound, Create, Describe, Exchange, Find, Range, Request, Rows, Spec, UpdatePart, request,
};
use phalanx_ps::{Client, Layout, VariableSpec};
use phalanx_tests::raw::{self, RawPeer, Received};
use phalanx_tests::within;
use phalanx_train::testing::{LogRecorder, connections};
use phalanx_wire::proto::common::TaskIncarnation;
use phalanx_wire::{Address, Token};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The token of the job.
const SECRET: &str = "known to those who lie too";

/// Panics on the threads that serve.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// A server with a variable `w` of four numbers, and an honest client that trains it.
struct TestServer {
    cluster: MiniCluster,
    address: Address,
    client: Client,
    remote: RemoteModel,
    steps: u64,
    job: u64,
}

impl TestServer {
    fn start() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if std::thread::current().name() == Some("phalanx-serve") {
                    PANICS.fetch_add(1, Ordering::SeqCst);
                }
                before(panic);
            }));
        });
        let token = Some(Token::new(SECRET).unwrap());
        let (beat, build) = (Duration::from_millis(10), Some("test".to_owned()));
        let options = ServerOptions { beat, build, token, ..ServerOptions::default() };
        let cluster = MiniCluster::start_with(1, 0, options).unwrap();
        let chief = &cluster.trainers()[0];
        chief.wait_until_formed().unwrap();
        let (client, address) = (connections::client(chief).unwrap(), connections::servers(chief).unwrap().remove(0).1);
        let (name, shape, partitioner) = ("w".to_owned(), Shape::new([4]).unwrap(), Partitioner::Whole);
        let variable = VariableSpec { name, shape, optimizer: Sgd::new(1.0).into(), partitioner };
        let layout = Layout::new(vec![variable], vec![], 1, Placement::default()).unwrap();
        let remote = RemoteModel::create(&client, layout, &[Bytes::from(vec![0; 16])]).unwrap();
        client.set_ready(&remote).unwrap();
        let job = client.options().job;
        Self { cluster, address, client, remote, steps: 0, job }
    }

    /// An honest step, whose effect is seen exactly.
    fn good_exchange(&mut self) {
        self.steps += 1;
        let options = self.client.options();
        let name = UpdateId { task: options.task, incarnation: options.incarnation, sequence: self.steps };
        let push = Push {
            id: name,
            dense: vec![Some(Bytes::from(1.0_f32.to_le_bytes().repeat(4)))],
            rows: vec![],
            input_position: Bytes::new(),
            base_version: None,
            clock: 0,
            learning_rate: None,
        };
        let pulled = self.client.exchange(&mut self.remote, Some(&push), &[], UpdateMode::Asynchronous).unwrap();
        assert_eq!(pulled.dense[0].as_deref(), Some(&[-(self.steps as f32); 4][..]));
        assert_eq!(pulled.global_step, self.steps);
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "a serving thread panicked");
    }

    fn request(&self, op: request::Op) -> Request {
        let client = TaskIncarnation { role: 1, index: 3, incarnation: 3 };
        Request { job: self.job, client: Some(client), op: Some(op), server_incarnation: None }
    }

    /// Sends a frame over both sockets, each of which must refuse it with this code.
    fn refuses(&mut self, what: &str, frame: &[u8], code: Code) {
        for (mut peer, socket) in self.peers().into_iter().zip(["on the same host", "over the network"]) {
            let seen = peer.call(frame);
            assert_eq!(seen.code(), Some(code), "{what}, {socket}: {seen:?}");
        }
    }

    /// Connections over both sockets that have shown that they know the token.
    fn peers(&self) -> [RawPeer; 2] {
        RawPeer::both(self.address.port())
            .map(|peer| peer.greet(Some(SECRET)).unwrap_or_else(|refused| panic!("it knows the token: {refused:?}")))
    }

    /// The first of [`Self::peers`].
    fn same_host_peer(&self) -> RawPeer {
        let [peer, _] = self.peers();
        peer
    }

    fn end(mut self) {
        self.good_exchange();
        self.cluster.trainers()[0].leave(None);
        self.cluster.servers()[0].join().unwrap();
    }
}

/// Runs with a deadline: a server that does not answer must not hang the tests.
fn against(work: impl FnOnce(&mut TestServer) + Send + 'static) {
    within(Duration::from_secs(30), "the server hangs", move || {
        let mut server = TestServer::start();
        server.good_exchange();
        work(&mut server);
        server.end();
    });
}

fn push(handle: u32, start: u64, count: u64) -> Exchange {
    let dense_push = vec![Range { handle, start, count, held: 0, slot: 0 }];
    Exchange { dense_push, ..update(1, 0, 1) }
}

fn update(step: u64, part: u32, parts: u32) -> Exchange {
    Exchange { update: Some(UpdatePart { step, part, parts }), ..Exchange::default() }
}

#[test]
fn frames_that_are_no_frames_are_refused() {
    against(|server| {
        let mut random = SplitMix::new(1);
        let noise: Vec<u8> = (0..1000).map(|_| random.below(256) as u8).collect();
        let garbage = [&[200, 0, 0, 0][..], &noise].concat();
        let cases = [b"".to_vec(), b"abc".to_vec(), vec![255; 64], vec![9, 0, 0, 0, 1, 2], garbage];
        for frame in cases {
            server.refuses(&format!("{:?}…", &frame[..frame.len().min(8)]), &frame, Code::BadMessage);
        }
        server.refuses(
            "a request for nothing",
            &raw::frame(&Request { job: server.job, ..Request::default() }, &[]),
            Code::BadMessage,
        );
        let mut stranger = server.request(request::Op::Exchange(Exchange::default()));
        stranger.client = None;
        server.refuses("a request of nobody", &raw::frame(&stranger, &[]), Code::BadMessage);
        stranger.client = Some(TaskIncarnation { role: 99, ..TaskIncarnation::default() });
        server.refuses("a role that is none", &raw::frame(&stranger, &[]), Code::BadMessage);
    });
}

#[test]
fn a_frame_of_another_job_is_refused() {
    against(|server| {
        let mut other = server.request(request::Op::Describe(Describe {}));
        other.job ^= 1;
        server.refuses("another job", &raw::frame(&other, &[]), Code::WrongJob);
    });
}

#[test]
fn pushes_that_do_not_fit_are_refused_and_change_nothing() {
    against(|server| {
        let numbers = |n: usize| 5.0_f32.to_le_bytes().repeat(n);
        let rows = |count| Exchange { row_push: vec![Rows { handle: 0, count, ..Rows::default() }], ..update(1, 0, 1) };
        let push_part = |step, part, parts| Exchange { update: update(step, part, parts).update, ..push(0, 0, 4) };
        let pull = |start, count| Exchange {
            dense_pull: vec![Range { handle: 0, start, count, held: 0, slot: 0 }],
            ..Exchange::default()
        };
        let cases = [
            ("an unknown handle", push(77, 0, 4), numbers(4), Code::NoSuchVariable),
            ("a range past the end", push(0, 3, 2), numbers(2), Code::ShapeMismatch),
            ("a range that overflows", push(0, u64::MAX, 2), numbers(2), Code::ShapeMismatch),
            ("a pull past the end", pull(4, 1), vec![], Code::ShapeMismatch),
            ("a pull of everything there could be", pull(0, u64::MAX), vec![], Code::ShapeMismatch),
            ("a body that is too short", push(0, 0, 4), numbers(3), Code::BadMessage),
            ("a truncated body", push(0, 0, 4), numbers(4)[..15].to_vec(), Code::BadMessage),
            ("a body that is too long", push(0, 0, 4), numbers(5), Code::BadMessage),
            ("rows of what is no table", rows(1), numbers(4), Code::ShapeMismatch),
            ("a part beyond the parts", push_part(1, 1, 1), numbers(4), Code::BadMessage),
            ("a step without its forerunner", push_part(9, 0, 1), numbers(4), Code::UpdateGap),
            (
                "a part at the end of numbers",
                Exchange { counts: true, ..push_part(1, u32::MAX, 1) },
                numbers(4),
                Code::BadMessage,
            ),
            ("no parts at all", push_part(1, 0, 0), numbers(4), Code::BadMessage),
        ];
        for (what, ask, body, code) in cases {
            let frame = raw::frame(&server.request(request::Op::Exchange(ask)), &body);
            server.refuses(what, &frame, code);
            server.good_exchange();
        }
    });
}

#[test]
fn absurd_variables_are_refused_before_memory_is_taken() {
    against(|server| {
        let sgd = Optimizer::from(Sgd::new(1.0)).to_words();
        let spec = |shape: &[u64], rows: u64| {
            let (name, shape, optimizer) = ("absurd".to_owned(), shape.to_vec(), sgd.clone());
            Spec { name, shape, rows, optimizer, ..Spec::default() }
        };
        let table = |width| Spec { initializer: Some(proto::Initializer::default()), ..spec(&[width], 0) };
        let cases = [
            ("more numbers than there are", spec(&[1 << 63, 4], 1 << 63)),
            ("more than a machine has", spec(&[1 << 40], 1 << 40)),
            ("nothing times too much", spec(&[0, 1 << 63, 1 << 63], 0)),
            ("too many dimensions", spec(&[1; 9], 1)),
            ("rows it does not have", spec(&[4], 5)),
            ("rows that overflow", Spec { first_row: u64::MAX, ..spec(&[4], 2) }),
            ("a table without width", table(0)),
            ("a table of great width", table(1 << 40)),
        ];
        for (what, spec) in cases {
            let create = request::Op::Create(Create { specs: vec![spec.clone()] });
            server.refuses(what, &raw::frame(&server.request(create), &[]), Code::ShapeMismatch);
            // A shape that is only too large for this server is a valid name for nothing that is here.
            let code =
                if spec.shape == [1 << 40] && spec.rows > 0 { Code::NoSuchVariable } else { Code::ShapeMismatch };
            let find = request::Op::Find(Find { specs: vec![spec] });
            server.refuses(what, &raw::frame(&server.request(find), &[]), code);
        }
        let words = [vec![], vec![1e300; 20], vec![f64::NAN, f64::NAN], vec![-1.0]];
        for optimizer in words {
            let create = request::Op::Create(Create { specs: vec![Spec { optimizer, ..spec(&[4], 4) }] });
            let frame = raw::frame(&server.request(create), &[]);
            let seen = server.same_host_peer().call(&frame);
            assert!(matches!(seen, Received::Refused(_)), "{seen:?}");
        }
    });
}

#[test]
fn a_server_is_not_declared_ready_without_its_incarnation() {
    against(|server| {
        // The message may reach a server that was restarted and holds nothing.
        let frame = raw::frame(&server.request(request::Op::SetReady(proto::SetReady {})), &[]);
        server.refuses("no incarnation", &frame, Code::BadMessage);
    });
}

#[test]
fn rounds_at_the_end_of_numbers_do_not_panic() {
    against(|server| {
        let words = Optimizer::from(Sgd::new(1.0)).to_words();
        let spec = Spec { name: "far".into(), shape: vec![4], rows: 4, optimizer: words, ..Spec::default() };
        let create = raw::frame(&server.request(request::Op::Create(Create { specs: vec![spec] })), &[]);
        let mut peer = server.same_host_peer();
        assert!(matches!(peer.call(&create), Received::Answer));
        for (round, closed) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX)] {
            let dense_pull = vec![Range { handle: 1, start: 0, count: 4, held: 0, slot: 0 }];
            let ask = Exchange { round: Some(round), closed, dense_pull, ..push(1, 0, 4) };
            let frame = raw::frame(&server.request(request::Op::Exchange(ask)), &[0; 16]);
            assert!(!matches!(peer.call(&frame), Received::Closed), "round {round}, closed {closed}");
        }
        let close = request::Op::CloseRound(CloseRound { round: u64::MAX });
        assert!(matches!(peer.call(&raw::frame(&server.request(close), &[])), Received::Answer));
        for (clock, most_ahead) in [(Some(u64::MAX), 0), (Some(0), u64::MAX), (None, u64::MAX)] {
            let advance = request::Op::Advance(proto::Advance { clock, most_ahead, wait_ms: 0 });
            let seen = peer.call(&raw::frame(&server.request(advance), &[]));
            assert!(!matches!(seen, Received::Closed), "clock {clock:?}");
        }
    });
}

#[test]
fn lengths_over_the_limit_close_the_connection_before_memory_is_taken() {
    against(|server| {
        let port = server.address.port();
        for length in [u32::MAX, 17 << 20] {
            for mut peer in server.peers() {
                peer.send(&length.to_le_bytes());
                assert!(matches!(peer.receive(), Received::Closed), "{length}");
            }
        }
        for mut peer in RawPeer::both(port) {
            peer.send(b"GET / HTTP/1.1\r\nhost: x\r\nuser-agent: something\r\n\r\n");
            assert!(matches!(peer.receive(), Received::Closed), "not a greeting");
        }
    });
}

/// Requests and replies alternate: whoever sends two at once is no client of ours.
#[test]
fn a_second_request_before_the_reply_closes_the_connection() {
    against(|server| {
        let frame = raw::frame(&server.request(request::Op::Describe(Describe {})), &[]);
        let request = [&(frame.len() as u32).to_le_bytes()[..], &frame].concat();
        for mut peer in server.peers() {
            peer.send(&[&request[..], &request].concat());
            assert!(matches!(peer.receive(), Received::Closed));
        }
    });
}

#[test]
fn connections_that_break_off_or_stay_silent_hold_nobody_up() {
    against(|server| {
        let port = server.address.port();
        let mut silent = Vec::new();
        for i in 0..30_usize {
            let mut peer = RawPeer::same_host(port);
            peer.send(&b"PHALANX2F\x01 and here it stops, half way"[..i.min(28)]);
            let tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
            // Some stay, the others are closed in the middle of a word.
            if i % 3 == 0 {
                silent.push((peer, tcp));
            }
        }
        server.good_exchange();
    });
}

#[test]
fn random_bytes_on_the_port_hold_nobody_up() {
    against(|server| {
        let mut random = SplitMix::new(7);
        for round in 0..40 {
            let mut tcp = TcpStream::connect(("127.0.0.1", server.address.port())).unwrap();
            tcp.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            // Half of them look like HTTP/2 at first.
            let mut bytes = if round % 2 == 0 { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec() } else { Vec::new() };
            bytes.extend((0..random.below(3000)).map(|_| random.below(256) as u8));
            let _ = tcp.write_all(&bytes);
            let _ = tcp.read(&mut [0; 64]);
        }
        server.good_exchange();
    });
}

#[test]
fn without_the_token_nothing_is_done() {
    within(Duration::from_secs(30), "the server hangs", || {
        let mut server = TestServer::start();
        server.good_exchange();
        for token in [None, Some(""), Some("known to those who lie"), Some("known to those who lie too ")] {
            for peer in RawPeer::both(server.address.port()) {
                let seen = peer.greet(token).err().expect("it is refused");
                assert_eq!(seen.code(), Some(Code::WrongToken), "{token:?}: {seen:?}");
            }
        }
        let mut options = server.client.options().clone();
        (options.token, options.incarnation) = (None, Incarnation(1));
        let addresses = connections::servers(&server.cluster.trainers()[0]).unwrap();
        let refused = Client::connect(&addresses, options).unwrap().set_global_step(Incarnation(1), 9).unwrap_err();
        assert_eq!(refused.code(), Code::WrongToken);
        server.end();
    });
}

/// A job of one process has a token of its own, which nobody else knows.
#[test]
fn a_job_of_one_process_takes_no_strangers() {
    within(Duration::from_secs(30), "the job hangs", || {
        let cluster = MiniCluster::start(1, 0).unwrap();
        let local = Server::local().unwrap();
        for chief in [&cluster.trainers()[0], &local] {
            let (_, address) = connections::servers(chief).unwrap().remove(0);
            for peer in RawPeer::both(address.port()) {
                let seen = peer.greet(None).err().expect("it is refused");
                assert_eq!(seen.code(), Some(Code::WrongToken), "{seen:?}");
            }
        }
        cluster.trainers()[0].leave(None);
        local.leave(None);
        cluster.servers()[0].join().unwrap();
    });
}

/// A server that accepts connections and never answers is given up after the patience, tries included, and that is logged.
#[test]
fn a_black_hole_is_given_up_when_patience_ends() {
    within(Duration::from_secs(25), "the client is more patient than it was told to be", || {
        let hole = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = hole.local_addr().unwrap().to_string().parse().unwrap();
        let task = |role| phalanx_base::TaskId::new(role, 0);
        let log = LogRecorder::default();
        let worker = task(phalanx_base::Role::Worker);
        let mut options = log.record(|| phalanx_ps::client::ClientOptions::new(1, worker, Incarnation(1)));
        // One try alone may take longer than all of them together.
        (options.deadline, options.patience) = (Duration::from_secs(6), Duration::from_secs(9));
        let client = Client::connect(&[(task(phalanx_base::Role::Ps), address)], options).unwrap();
        let error = client.global_step().unwrap_err();
        // Without a handshake nothing was sent.
        assert_eq!(error.code(), Code::PeerUnreachable, "{error}");
        let lines = log.lines();
        assert!(matches!(&lines[..], [line] if line.starts_with("worker/0: no answer from ps/0")), "{lines:?}");
    });
}

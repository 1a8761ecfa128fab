//! Both ways of the bulk lane, against a server that answers with what it got.

use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_wire::bulk::{self, Handler, Pending, Transport};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity};
use phalanx_wire::proto::params::Handles;
use phalanx_wire::{Address, Endpoint, InFrame, Listening, OutFrame, Outcome, ReplyBuffer, Token, control, limits};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(target_os = "linux")]
#[path = "lanes/strangers.rs"]
mod strangers;

struct Echo;

/// A reply buffer that a handler did not send.
static KEPT: Mutex<Option<ReplyBuffer>> = Mutex::new(None);

impl Handler for Echo {
    fn call(self: Arc<Self>, mut frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move {
            let handles: Handles = frame.header()?;
            match handles.handles.first() {
                Some(500) => panic!("as it was asked to"),
                Some(501) => {
                    let mut buffer = frame.reply(100);
                    buffer.fill(1);
                    *KEPT.lock().unwrap() = Some(buffer);
                    Ok(OutFrame::new(&handles))
                }
                Some(200) => {
                    let mut buffer = frame.reply(frame.body().len());
                    buffer.copy_from_slice(&frame.body());
                    Ok(OutFrame::reply(&handles, buffer))
                }
                Some(201) => {
                    let mut buffer = frame.reply(3);
                    buffer.copy_from_slice(b"abc");
                    let mut answer = OutFrame::reply(&handles, buffer);
                    answer.push(frame.body());
                    Ok(answer)
                }
                Some(202) => {
                    let buffer = KEPT.lock().unwrap().take().unwrap();
                    Ok(OutFrame::reply(&handles, buffer))
                }
                Some(404) => Err(Error::new(Code::NoSuchVariable, "no such thing").at("here").help("ask for another")),
                Some(&ms @ 1000..) => {
                    tokio::time::sleep(Duration::from_millis(ms.into())).await;
                    Ok(OutFrame::new(&handles))
                }
                _ => {
                    let mut answer = OutFrame::new(&handles);
                    answer.push(frame.body());
                    Ok(answer)
                }
            }
        })
    }
}

impl control::Handler for Echo {
    fn identify(&self) -> Identity {
        Identity { task: "ps/0".into(), ..Identity::default() }
    }

    fn beat(&self, _: BeatRequest) -> Result<BeatReply> {
        Err(Error::new(Code::WrongJob, "not the chief"))
    }
}

fn serve(token: Option<Token>) -> (Listening, Address) {
    serve_by(Arc::new(Echo), token)
}

fn serve_at(address: &str, token: Option<Token>) -> (Listening, Address) {
    bind_and_serve(address, Arc::new(Echo), token)
}

fn serve_by(echo: Arc<Echo>, token: Option<Token>) -> (Listening, Address) {
    bind_and_serve("127.0.0.1:0", echo, token)
}

fn bind_and_serve(address: &str, echo: Arc<Echo>, token: Option<Token>) -> (Listening, Address) {
    let address: Address = address.parse().unwrap();
    let mut listening = Listening::bind(&address, 1).unwrap();
    let warning = listening.serve(Endpoint { control: Arc::clone(&echo) as _, bulk: Some(echo), token }).unwrap();
    assert!(warning.is_none(), "{warning:?}");
    let address = format!("{}:{}", address.host(), listening.port()).parse().unwrap();
    (listening, address)
}

/// Runs a claim over gRPC on a Unix socket and on TCP, and over the neighbours' socket.
fn over_all_ways(token: Option<&Token>, given: Option<&Token>, claim: impl AsyncFn(&dyn Transport)) {
    let (_listening, address) = serve(token.cloned());
    // An address that need not be this machine's has no Unix socket.
    let (_elsewhere, elsewhere) = serve_at("0.0.0.0:0", token.cloned());
    over_ways_to(&[&address, &elsewhere], given, claim);
}

fn over_ways_to(addresses: &[&Address], token: Option<&Token>, claim: impl AsyncFn(&dyn Transport)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for address in addresses {
            claim(&bulk::Client::new(address, "ps/0".into(), token.cloned())).await;
            claim(&*bulk::reach(address, "ps/0".into(), token.cloned())).await;
        }
    });
}

fn frame(number: u32, body: usize) -> OutFrame {
    let mut frame = OutFrame::new(&Handles { handles: vec![number] });
    frame.push(Bytes::from(vec![7; body / 2]));
    frame.push(Bytes::from(vec![8; body - body / 2]));
    frame
}

const SECONDS: Duration = Duration::from_secs(20);

/// Answers may be kept; what they hold stays, whatever is asked next.
#[test]
fn answers_that_are_kept_do_not_change() {
    over_all_ways(None, None, async |lane| {
        let mut kept = Vec::new();
        for i in 0..12_u8 {
            let mut frame = OutFrame::new(&Handles { handles: vec![i.into()] });
            frame.push(Bytes::from(vec![i; 100_000]));
            kept.push(lane.call(frame, SECONDS).await.ok().unwrap());
        }
        for (i, answer) in kept.iter().enumerate() {
            assert_eq!(answer.header::<Handles>().unwrap().handles, [i as u32]);
            assert!(answer.body().len() == 100_000 && answer.body().iter().all(|&b| usize::from(b) == i));
        }
    });
}

/// A reply is sent from where it was written, whatever else becomes of its buffer.
#[test]
fn a_reply_buffer_is_the_body_of_its_answer_and_of_no_other() {
    over_all_ways(None, None, async |lane| {
        for size in [0, 1, 70_000, limits::PART_BYTES] {
            let answer = lane.call(frame(200, size), SECONDS).await.ok().unwrap();
            assert_eq!(answer.header::<Handles>().unwrap().handles, [200]);
            assert!(answer.body().len() == size && answer.body().iter().all(|&byte| byte == 7 || byte == 8));
        }
        let answer = lane.call(frame(201, 4), SECONDS).await.ok().unwrap();
        assert_eq!(&answer.body()[..], b"abc\x07\x07\x08\x08");
        let (large, limit) = (frame(200, limits::FRAME_BYTES - 100), limits::FRAME_BYTES);
        assert_eq!(lane.call(large, SECONDS).await.ok().unwrap().body().len(), limit - 100);
    });
}

/// A buffer that outlives its request still belongs to whoever has it: no other answer is written there.
#[test]
fn a_reply_buffer_that_is_kept_is_not_written_over() {
    let (_listening, address) = serve(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let lane = bulk::reach(&address, "ps/0".into(), None);
        let outcome = lane.call(frame(501, 100), SECONDS).await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "the slot was used again: {outcome:?}");
        assert!(KEPT.lock().unwrap().as_ref().unwrap().iter().all(|&byte| byte == 1));
        // It can still answer a request of another connection.
        let answer = lane.call(frame(202, 0), SECONDS).await.ok().unwrap();
        assert_eq!(&answer.body()[..], [1; 100]);
    });
}

#[test]
fn frames_of_every_size_come_back() {
    over_all_ways(None, None, async |lane| {
        for size in [0, 1, 5, 70_000, 3_000_000, limits::PART_BYTES, 17] {
            let answer = lane.call(frame(3, size), SECONDS).await.ok().unwrap();
            assert_eq!(answer.header::<Handles>().unwrap().handles, [3]);
            assert_eq!(answer.body().len(), size);
            assert!(answer.body().iter().enumerate().all(|(i, &b)| b == if i < size / 2 { 7 } else { 8 }));
        }
    });
}

#[test]
fn errors_arrive_with_all_their_parts_and_are_known_to_have_had_no_effect() {
    over_all_ways(None, None, async |lane| match lane.call(frame(404, 10), SECONDS).await {
        Outcome::Failed(error) => {
            assert_eq!(
                (error.code(), error.place(), error.next()),
                (Code::NoSuchVariable, Some("here"), Some("ask for another"))
            );
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn an_answer_that_does_not_come_in_time_is_unknown_and_the_lane_works_afterwards() {
    over_all_ways(None, None, async |lane| {
        let late = lane.call(frame(3000, 0), Duration::from_millis(50)).await;
        assert!(matches!(&late, Outcome::Unknown(error) if error.code() == Code::OutcomeUnknown), "{late:?}");
        let answer = lane.call(frame(5, 100), SECONDS).await.ok().unwrap();
        assert_eq!(answer.header::<Handles>().unwrap().handles, [5], "not the late answer");
    });
}

#[test]
fn a_server_that_stops_lets_go_of_neighbours_whose_requests_wait() {
    let echo = Arc::new(Echo);
    let held = Arc::downgrade(&echo);
    let (listening, address) = serve_by(echo, None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let lane = bulk::reach(&address, "ps/0".into(), None);
        assert!(lane.call(frame(3, 10), SECONDS).await.ok().is_ok());
        let asked = lane.call(frame(60_000, 10), 3 * SECONDS);
        let stop = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            listening.stop();
        };
        tokio::time::timeout(SECONDS, async { tokio::join!(asked, stop).0 }).await.expect("it heard of the stop")
    });
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    for _ in 0..200 {
        if held.upgrade().is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("somebody still serves");
}

#[test]
fn a_handler_that_panics_takes_its_connection_with_it_and_no_other() {
    let (_listening, address) = serve(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let [one, other] = [0, 1].map(|_| bulk::reach(&address, "ps/0".into(), None));
        assert!(other.call(frame(3, 10), SECONDS).await.ok().is_ok());
        let outcome = one.call(frame(500, 10), SECONDS).await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
        assert!(other.call(frame(3, 10), SECONDS).await.ok().is_ok());
        assert!(one.call(frame(3, 10), SECONDS).await.ok().is_ok());
    });
}

#[test]
fn a_wrong_or_missing_token_reaches_no_handler() {
    let (token, other) = (Token::new("right").unwrap(), Token::new("wrong").unwrap());
    for given in [None, Some(&other)] {
        over_all_ways(Some(&token), given, async |lane| match lane.call(frame(1, 10), SECONDS).await {
            Outcome::Failed(error) => assert_eq!(error.code(), Code::WrongToken),
            other => panic!("{other:?}"),
        });
    }
    over_all_ways(Some(&token), Some(&token), async |lane| {
        assert!(lane.call(frame(1, 10), SECONDS).await.ok().is_ok())
    });
}

#[test]
fn a_frame_over_the_limit_is_refused_and_the_server_goes_on() {
    over_all_ways(None, None, async |lane| {
        assert!(lane.call(frame(1, limits::FRAME_BYTES), SECONDS).await.ok().is_err());
        assert!(lane.call(frame(1, 10), SECONDS).await.ok().is_ok());
    });
}

#[test]
fn nobody_there_is_known_to_have_had_no_effect_and_says_why() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    over_ways_to(&[&address], None, async |lane| match lane.call(frame(1, 10), SECONDS).await {
        Outcome::Failed(error) => {
            assert_eq!((error.code(), error.why()), (Code::PeerUnreachable, Some("connection refused")));
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn the_control_lane_says_who_listens() {
    let (_listening, address) = serve(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = control::Client::new(&address, None);
        assert_eq!(client.identify().await.unwrap().task, "ps/0");
        assert_eq!(client.beat(BeatRequest::default()).await.unwrap_err().code(), Code::WrongJob);
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_stream_is_refused_where_nobody_takes_it() {
    let (listening, address) = serve(Some(Token::new("secret").unwrap()));
    let token = Token::new("secret").unwrap();
    let code = |token: Option<&Token>| bulk::stream(&address, token, b"hello", SECONDS).unwrap_err().code();
    assert_eq!(code(Some(&token)), Code::BadMessage);
    assert_eq!(code(None), Code::WrongToken);
    drop(listening);
    assert_eq!(code(Some(&token)), Code::PeerUnreachable);
}

/// A server whose address is no loopback address listens on every interface of its family.
#[test]
fn a_server_of_an_ipv6_address_is_reached_over_ipv6() {
    for own in ["[::1]:0", "[2001:db8::4]:0"] {
        let mut listening = Listening::bind(&own.parse().unwrap(), 1).unwrap();
        let echo = Arc::new(Echo);
        listening.serve(Endpoint { control: Arc::clone(&echo) as _, bulk: Some(echo), token: None }).unwrap();
        let tcp = std::net::TcpStream::connect((std::net::Ipv6Addr::LOCALHOST, listening.port()));
        assert!(tcp.is_ok(), "{own}: {tcp:?}");
        let address: Address = format!("[::1]:{}", listening.port()).parse().unwrap();
        over_ways_to(&[&address], None, async |lane| {
            let answer = lane.call(frame(5, 100), SECONDS).await.ok().unwrap();
            assert_eq!(answer.header::<Handles>().unwrap().handles, [5]);
        });
    }
}

//! The bulk lane over every transport, against a task that answers with what it got.

use crate::support::{
    Echo, EchoHeader, Hanging, KEPT, SECONDS, block_on, frame, over_all_transports, over_transports_to, serve, serve_at,
};
use bytes::Bytes;
use phalanx_base::Code;
use phalanx_wire::proto::control::BeatRequest;
use phalanx_wire::{Address, Endpoint, Listening, OutFrame, Outcome, Token, bulk, control, limits};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A kept answer does not change with the next call.
#[test]
fn answers_that_are_kept_do_not_change() {
    over_all_transports(None, None, async |lane| {
        let mut kept = Vec::new();
        for i in 0..12_u8 {
            let mut frame = OutFrame::new(&EchoHeader { number: i.into() });
            frame.push(Bytes::from(vec![i; 100_000]));
            kept.push(lane.call(frame, SECONDS).await.ok().unwrap());
        }
        for (i, answer) in kept.iter().enumerate() {
            assert_eq!(answer.header::<EchoHeader>().unwrap().number, i as u32);
            assert!(answer.body().len() == 100_000 && answer.body().iter().all(|&b| usize::from(b) == i));
        }
    });
}

/// A reply is sent from its buffer without a copy, unless the buffer belongs to another request.
#[test]
fn a_reply_buffer_is_the_body_of_its_answer_and_of_no_other() {
    over_all_transports(None, None, async |lane| {
        for size in [0, 1, 70_000, limits::PART_BYTES] {
            let answer = lane.call(frame(200, size), SECONDS).await.ok().unwrap();
            assert_eq!(answer.header::<EchoHeader>().unwrap().number, 200);
            assert!(answer.body().len() == size && answer.body().iter().all(|&byte| byte == 7 || byte == 8));
        }
        let answer = lane.call(frame(201, 4), SECONDS).await.ok().unwrap();
        assert_eq!(&answer.body()[..], b"abc\x07\x07\x08\x08");
        let (large, limit) = (frame(200, limits::FRAME_BYTES - 100), limits::FRAME_BYTES);
        assert_eq!(lane.call(large, SECONDS).await.ok().unwrap().body().len(), limit - 100);
    });
}

/// A buffer that outlives its request stays with its holder: no other answer is written there.
#[test]
fn a_reply_buffer_that_is_kept_is_not_written_over() {
    let (_listening, address) = serve(None);
    block_on(async {
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
    over_all_transports(None, None, async |lane| {
        for size in [0, 1, 5, 70_000, 3_000_000, limits::PART_BYTES, 17] {
            let answer = lane.call(frame(3, size), SECONDS).await.ok().unwrap();
            assert_eq!(answer.header::<EchoHeader>().unwrap().number, 3);
            assert_eq!(answer.body().len(), size);
            assert!(answer.body().iter().enumerate().all(|(i, &b)| b == if i < size / 2 { 7 } else { 8 }));
        }
    });
}

#[test]
fn errors_arrive_with_all_their_parts_and_are_known_to_have_had_no_effect() {
    over_all_transports(None, None, async |lane| match lane.call(frame(404, 10), SECONDS).await {
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
    over_all_transports(None, None, async |lane| {
        let late = lane.call(frame(3000, 0), Duration::from_millis(50)).await;
        assert!(matches!(&late, Outcome::Unknown(error) if error.code() == Code::OutcomeUnknown), "{late:?}");
        let answer = lane.call(frame(5, 100), SECONDS).await.ok().unwrap();
        assert_eq!(answer.header::<EchoHeader>().unwrap().number, 5, "not the late answer");
    });
}

#[test]
fn a_task_that_stops_closes_connections_whose_requests_wait() {
    let (dropped, handler_dropped) = channel();
    let hanging = Arc::new(Hanging { called: tokio::sync::Notify::new(), dropped });
    let (listening, address) = serve_at("127.0.0.1:0", Arc::clone(&hanging) as _, None);
    let outcome = block_on(async {
        let lane = bulk::reach(&address, "ps/0".into(), None);
        let stop = async {
            hanging.called.notified().await;
            listening.stop();
        };
        let both = async { tokio::join!(lane.call(frame(3, 10), 3 * SECONDS), stop).0 };
        tokio::time::timeout(SECONDS, both).await.expect("the call ends")
    });
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    drop(hanging);
    handler_dropped.recv_timeout(3 * SECONDS).expect("nothing serves any more");
}

#[test]
fn a_handler_that_panics_takes_its_connection_with_it_and_no_other() {
    let (_listening, address) = serve(None);
    block_on(async {
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
        over_all_transports(Some(&token), given, async |lane| match lane.call(frame(1, 10), SECONDS).await {
            Outcome::Failed(error) => assert_eq!(error.code(), Code::WrongToken),
            other => panic!("{other:?}"),
        });
    }
    over_all_transports(Some(&token), Some(&token), async |lane| {
        assert!(lane.call(frame(1, 10), SECONDS).await.ok().is_ok())
    });
}

#[test]
fn a_frame_over_the_limit_is_refused_and_the_server_goes_on() {
    over_all_transports(None, None, async |lane| {
        assert!(lane.call(frame(1, limits::FRAME_BYTES), SECONDS).await.ok().is_err());
        assert!(lane.call(frame(1, 10), SECONDS).await.ok().is_ok());
    });
}

#[test]
fn nobody_there_is_known_to_have_had_no_effect_and_says_why() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    over_transports_to(&[&address], None, async |lane| match lane.call(frame(1, 10), SECONDS).await {
        Outcome::Failed(error) => {
            assert_eq!((error.code(), error.why()), (Code::PeerUnreachable, Some("connection refused")));
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn the_control_lane_says_who_listens() {
    let (_listening, address) = serve(None);
    block_on(async {
        let mut client = control::Client::new(&address, None);
        assert_eq!(client.identify().await.unwrap().task, "ps/0");
        assert_eq!(client.beat(BeatRequest::default()).await.unwrap_err().code(), Code::WrongJob);
    });
}

#[test]
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
        over_transports_to(&[&address], None, async |lane| {
            let answer = lane.call(frame(5, 100), SECONDS).await.ok().unwrap();
            assert_eq!(answer.header::<EchoHeader>().unwrap().number, 5);
        });
    }
}

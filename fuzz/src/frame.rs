//! Frames of the bulk lane and messages of the control lane.

use crate::mutate::{self, halves, join};
use crate::{Rng, proto};
use phalanx_base::{Code, Context, Result};
use phalanx_ps::proto::{Reply, Request};
use phalanx_wire::InFrame;
use phalanx_wire::proto::control;
use prost::Message;

/// The input is a frame as the network delivers it: the length of the header in four bytes, the header, the body.
pub(crate) fn frame(input: &[u8]) -> Result<()> {
    let frame = InFrame::read(input)?;
    let (header, body) = halves(input);
    assert_eq!(&frame.body()[..], body);
    // A receiver expects one of these messages; here all are tried.
    let broken = "a message of the control lane is malformed";
    let beat = control::BeatRequest::decode(header).map(drop).context(Code::BadMessage, broken);
    let answer = control::BeatReply::decode(header).map(drop).context(Code::BadMessage, broken);
    frame.header::<Request>().map(drop).or(frame.header::<Reply>().map(drop)).or(beat).or(answer)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let message = |number: u8, inner: &[u8]| [&[number << 3 | 2, inner.len() as u8], inner].concat();
    let client = message(2, &[8, 1, 16, 2]);
    let spec = [message(1, b"dense/kernel"), message(2, &[4, 6]), vec![32, 4], message(5, &[8, 1])].concat();
    let range = message(8, &[8, 1, 24, 6]);
    let rows = message(9, &[8, 2, 16, 3]);
    let requests = [
        [client.clone(), message(3, &message(1, &spec))].concat(),
        [client.clone(), message(5, &[message(1, &[8, 7]), range, rows].concat())].concat(),
        [client, message(6, &message(1, &[8, 1, 24, 6]))].concat(),
        [vec![8, 5], message(2, &message(1, &[1, 2, 3]))].concat(),
        [vec![8, 5], message(3, &message(3, &[1, 2, 3]))].concat(),
        message(1, &[message(1, b"job"), message(2, b"worker/1"), vec![40, 1]].concat()),
    ];
    let mut all: Vec<Vec<u8>> = requests.iter().map(|header| join(header, &[0; 24])).collect();
    all.push([255; 8].to_vec());
    all
}

/// Mutates the header as a message, the body as bytes, or all of it as bytes.
pub(crate) fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if rng.one_in(5) {
        return mutate::bytes(rng, input, other);
    }
    let (header, body) = halves(input);
    let (mut header, mut body) = (header.to_vec(), body.to_vec());
    proto::mutate(rng, &mut header, halves(other).0);
    if rng.one_in(4) {
        mutate::bytes(rng, &mut body, other);
    }
    *input = join(&header, &body);
}

//! Frames of the bulk lane and messages of the control lane.

use crate::{Rng, mutate, proto};
use phalanx_base::{Code, Context, Result};
use phalanx_wire::InFrame;
use phalanx_wire::proto::{control, params};
use prost::Message;

/// The input is a frame as it comes off the network: the header's length in four bytes, the header, the body.
pub(crate) fn frame(input: &[u8]) -> Result<()> {
    let frame = InFrame::read(input)?;
    let (header, body) = halves(input);
    assert_eq!(&frame.body()[..], body);
    // Each side decodes as what it waits for; here as all of them.
    let broken = "a message of the control lane is malformed";
    let beat = control::BeatRequest::decode(header).map(drop).context(Code::BadMessage, broken);
    let answer = control::BeatReply::decode(header).map(drop).context(Code::BadMessage, broken);
    frame.header::<params::Request>().map(drop).or(frame.header::<params::Reply>().map(drop)).or(beat).or(answer)
}

fn halves(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return (input, &[]) };
    rest.split_at((u32::from_le_bytes(*length) as usize).min(rest.len()))
}

fn join(header: &[u8], body: &[u8]) -> Vec<u8> {
    [&(header.len() as u32).to_le_bytes(), header, body].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let message = |number: u8, inner: &[u8]| [&[number << 3 | 2, inner.len() as u8], inner].concat();
    let client = message(2, &[8, 1, 16, 2]);
    let spec = [message(1, b"dense/kernel"), message(2, &[4, 6]), vec![32, 4], message(5, &[8, 1])].concat();
    let range = message(8, &[8, 1, 24, 6]);
    let rows = message(9, &[8, 2, 16, 3]);
    let requests = [
        [client.clone(), message(3, &message(1, &spec))].concat(),
        [client.clone(), message(5, &[vec![8, 7], range, rows].concat())].concat(),
        [client, message(6, &message(1, &[8, 1, 24, 6]))].concat(),
        [vec![8, 5], message(2, &message(1, &[1, 2, 3]))].concat(),
        [vec![8, 5], message(3, &message(3, &[1, 2, 3]))].concat(),
        message(1, &[message(1, b"job"), message(2, b"worker/1"), vec![40, 1]].concat()),
    ];
    let mut all: Vec<Vec<u8>> = requests.iter().map(|header| join(header, &[0; 24])).collect();
    all.push([255; 8].to_vec());
    all
}

/// Changes the header as a message, the body as bytes, or the whole.
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

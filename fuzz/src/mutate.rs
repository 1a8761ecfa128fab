//! Mutations that know nothing of the format.

use crate::{MAX_INPUT, Rng};

/// Mutates some bytes; takes pieces from `other`.
pub(crate) fn bytes(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    with_words(rng, input, other, "");
}

/// Mutates as [`bytes`] does, and also inserts the format's own words, which are separated by spaces.
pub(crate) fn with_words(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8], words: &str) {
    let words: Vec<&str> = words.split_terminator(' ').collect();
    for _ in 0..=rng.below(4) {
        once(rng, input, other, &words);
    }
}

fn once(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8], words: &[&str]) {
    let at = rng.below(input.len() + 1);
    let end = at + rng.below((input.len() - at).min(64) + 1);
    match rng.below(if words.is_empty() { 11 } else { 14 }) {
        0 | 1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff, b'"', b'{', rng.clone().next() as u8]);
            }
        }
        3 => input.truncate(at),
        4 => drop(input.drain(at..end)),
        5 => {
            let copy = input[at..end].to_vec();
            let to = rng.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        6 => {
            let from = rng.below(other.len() + 1);
            let piece = &other[from..from + rng.below((other.len() - from).min(256) + 1)];
            input.splice(at..end, piece.iter().copied());
        }
        7 => drop(input.splice(at..at, varint(rng.edge()))),
        8 => {
            // Overwrite what may be a length of four or eight bytes.
            let number = rng.edge().to_le_bytes();
            let width = if rng.one_in(2) { 4 } else { 8 };
            for (byte, new) in input[at..].iter_mut().zip(&number[..width]) {
                *byte = *new;
            }
        }
        9 => {
            let count = rng.below(16);
            let some: Vec<u8> = (0..count).map(|_| rng.next() as u8).collect();
            input.splice(at..end, some);
        }
        10 => repeat(rng, input, at, end),
        _ => drop(input.splice(at..end.min(at + rng.below(4)), rng.pick(words).bytes())),
    }
}

/// Repeats a few bytes many times, which makes parsers take memory.
fn repeat(rng: &mut Rng, input: &mut Vec<u8>, at: usize, end: usize) {
    let most = if rng.one_in(100) { MAX_INPUT } else { 512 };
    let fit = most.saturating_sub(input.len()) / (end - at).max(1);
    let copies = input[at..end].repeat(rng.below(fit + 1));
    input.splice(end..end, copies);
}

/// Splits an input of two parts: the first one's length in four bytes, the first part, the second part.
pub(crate) fn halves(input: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return (input, &[]) };
    rest.split_at((u32::from_le_bytes(*length) as usize).min(rest.len()))
}

/// Joins what [`halves`] splits.
pub(crate) fn join(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u32).to_le_bytes(), first, second].concat()
}

/// Encodes a number as a varint of protobuf.
#[must_use]
pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

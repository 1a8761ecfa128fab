//! Mutations of protobuf messages that keep them well-formed: fields are removed, repeated and altered, and all lengths
//! around them are corrected.

use crate::mutate::{bytes, varint};
use crate::{MAX_INPUT, Rng};

/// The fields of a message, or of bytes that parse as one.
pub(crate) type Message = Vec<Field>;

/// One field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) value: FieldValue,
}

impl Field {
    pub(crate) fn varint(number: u64, value: u64) -> Self {
        Self { number, value: FieldValue::Varint(value) }
    }

    pub(crate) fn bytes(number: u64, value: &[u8]) -> Self {
        Self { number, value: FieldValue::Bytes(value.to_vec()) }
    }

    pub(crate) fn message(number: u64, value: Message) -> Self {
        Self { number, value: FieldValue::Message(value) }
    }

    /// Returns the value of a varint field with the number `wanted`.
    pub(crate) fn as_varint(&self, wanted: u64) -> Option<u64> {
        match self.value {
            FieldValue::Varint(number) if self.number == wanted => Some(number),
            _ => None,
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum FieldValue {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Message(Message),
    Fixed32([u8; 4]),
}

/// Mutates a message; bytes that are not a message are mutated as bytes.
pub(crate) fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    if let Some(mut message) = parse(input, 0).filter(|_| !rng.one_in(4)) {
        for _ in 0..=rng.below(3) {
            change(rng, &mut message, other);
        }
        *input = encode(&message);
    }
    if rng.one_in(3) {
        bytes(rng, input, other);
    }
    input.truncate(MAX_INPUT);
}

/// Mutates one field at any depth.
fn change(rng: &mut Rng, message: &mut Message, other: &[u8]) {
    if message.is_empty() || rng.one_in(30) {
        message.push(Field { number: 1 + rng.below(12) as u64, value: any(rng) });
        return;
    }
    let at = rng.below(message.len());
    if let FieldValue::Message(inner) = &mut message[at].value
        && !rng.one_in(6)
    {
        return change(rng, inner, other);
    }
    match rng.below(8) {
        0 => drop(message.remove(at)),
        1 => {
            let copies = if rng.one_in(200) { rng.below(5000) } else { 1 + rng.below(4) };
            let field = message[at].clone();
            if encode(std::slice::from_ref(&field)).len() * copies < MAX_INPUT / 2 {
                message.extend(std::iter::repeat_n(field, copies));
            }
        }
        2 => message[at].number = rng.edge() >> 3,
        3 => message[at].number = 1 + rng.below(12) as u64,
        4 => message[at].value = any(rng),
        5 => {
            let to = rng.below(message.len());
            message.swap(at, to);
        }
        _ => match &mut message[at].value {
            FieldValue::Varint(number) => *number = rng.edge(),
            FieldValue::Fixed64(word) => *word = rng.edge().to_le_bytes(),
            FieldValue::Fixed32(word) => *word = (rng.edge() as u32).to_le_bytes(),
            FieldValue::Bytes(content) => bytes(rng, content, other),
            FieldValue::Message(inner) => inner.clear(),
        },
    }
}

fn any(rng: &mut Rng) -> FieldValue {
    match rng.below(5) {
        0 => FieldValue::Varint(rng.edge()),
        1 => FieldValue::Fixed64(rng.edge().to_le_bytes()),
        2 => FieldValue::Bytes((0..rng.below(12)).map(|_| rng.next() as u8).collect()),
        3 => FieldValue::Message(Vec::new()),
        _ => FieldValue::Fixed32((rng.edge() as u32).to_le_bytes()),
    }
}

/// Parses a message; every field that parses as a message becomes one.
pub(crate) fn parse(mut input: &[u8], depth: usize) -> Option<Message> {
    let mut fields = Vec::new();
    while !input.is_empty() {
        let tag = take_varint(&mut input)?;
        let value = match tag & 7 {
            0 => FieldValue::Varint(take_varint(&mut input)?),
            1 => FieldValue::Fixed64(take(&mut input, 8)?.try_into().ok()?),
            2 => {
                let length = usize::try_from(take_varint(&mut input)?).ok()?;
                let content = take(&mut input, length)?;
                let inner = if depth < 8 && !content.is_empty() { parse(content, depth + 1) } else { None };
                inner.map_or_else(|| FieldValue::Bytes(content.to_vec()), FieldValue::Message)
            }
            5 => FieldValue::Fixed32(take(&mut input, 4)?.try_into().ok()?),
            _ => return None,
        };
        fields.push(Field { number: Some(tag >> 3).filter(|&number| number > 0)?, value });
    }
    Some(fields)
}

/// Encodes a message.
pub(crate) fn encode(message: &[Field]) -> Vec<u8> {
    let mut output = Vec::new();
    for Field { number, value } in message {
        let mut put = |wire_type: u64, content: &[u8]| {
            output.extend(varint(number << 3 | wire_type));
            output.extend_from_slice(content);
        };
        match value {
            FieldValue::Varint(number) => put(0, &varint(*number)),
            FieldValue::Fixed64(word) => put(1, word),
            FieldValue::Bytes(content) => put(2, &[varint(content.len() as u64), content.clone()].concat()),
            FieldValue::Message(inner) => {
                let content = encode(inner);
                put(2, &[varint(content.len() as u64), content].concat());
            }
            FieldValue::Fixed32(word) => put(5, word),
        }
    }
    output
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = input.split_at_checked(count)?;
    *input = tail;
    Some(head)
}

/// Removes a varint from the front of `input`.
pub(crate) fn take_varint(input: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(input, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

//! Writes an object graph as TensorFlow's message `TrackableObjectGraph`.

use super::{ObjectGraph, ObjectNode};
use crate::wire::{put_bytes, put_varint};

impl ObjectGraph {
    /// The bytes of TensorFlow's message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for node in self.nodes() {
            put_bytes(1, &encode(node), &mut out);
        }
        out
    }
}

fn encode(node: &ObjectNode) -> Vec<u8> {
    let mut out = Vec::new();
    for child in &node.children {
        let mut message = Vec::new();
        put_number(1, child.node as u64, &mut message);
        put_text(2, &child.name, &mut message);
        put_bytes(1, &message, &mut out);
    }
    for attribute in &node.attributes {
        let mut message = Vec::new();
        put_text(1, &attribute.name, &mut message);
        put_text(2, &attribute.full_name, &mut message);
        put_text(3, &attribute.key, &mut message);
        put_bytes(2, &message, &mut out);
    }
    for slot in &node.slots {
        let mut message = Vec::new();
        put_number(1, slot.variable as u64, &mut message);
        put_text(2, &slot.name, &mut message);
        put_number(3, slot.slot as u64, &mut message);
        put_bytes(3, &message, &mut out);
    }
    if let Some(saver) = &node.saver {
        let mut message = Vec::new();
        put_text(1, &saver.name, &mut message);
        put_text(2, &saver.object, &mut message);
        put_bytes(4, &message, &mut out);
    }
    if let Some(has_values) = node.has_values {
        // A message of its own, so that nothing and false are two things.
        let mut message = Vec::new();
        put_number(1, has_values.into(), &mut message);
        put_bytes(5, &message, &mut out);
    }
    out
}

/// As protobuf 3 has it: what is zero is left out.
fn put_number(field: u32, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        put_varint(u64::from(field << 3), out);
        put_varint(value, out);
    }
}

fn put_text(field: u32, text: &str, out: &mut Vec<u8>) {
    if !text.is_empty() {
        put_bytes(field, text.as_bytes(), out);
    }
}

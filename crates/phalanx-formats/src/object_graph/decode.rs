//! Reads TensorFlow's message `TrackableObjectGraph`. By hand: a generated message takes a hundred times the memory of
//! an empty object, and a file can have many.

use super::{Attribute, Child, ObjectGraph, ObjectNode, Saver, SlotVariable, malformed};
use crate::wire::{Field, Wire};
use phalanx_base::Result;

/// More objects than this are no model. An object takes some hundred bytes of memory and may take two of the file.
const MAX_NODES: usize = 1 << 20;

impl ObjectGraph {
    /// Reads TensorFlow's message. Any bytes may be given: those that are no such message are an error.
    ///
    /// # Errors
    /// When the bytes are no object graph, or an object refers to one that does not exist.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut nodes = Vec::new();
        each(bytes, |field| {
            if let (1, Field::Bytes(message)) = field {
                if nodes.len() == MAX_NODES {
                    return Err(malformed(format!("it has more than {MAX_NODES} objects")));
                }
                let node = node(message).map_err(|error| error.at(format!("object {}", nodes.len())))?;
                nodes.push(node);
            }
            Ok(())
        })?;
        Self::new(nodes)
    }
}

fn node(message: &[u8]) -> Result<ObjectNode> {
    let mut node = ObjectNode::default();
    each(message, |field| {
        match field {
            (1, Field::Bytes(message)) => {
                let [id, _, _] = numbers(message)?;
                let [_, name, _] = texts(message)?;
                node.children.push(Child { name, node: id });
            }
            (2, Field::Bytes(message)) => {
                let [name, full_name, key] = texts(message)?;
                node.attributes.push(Attribute { name, full_name, key });
            }
            (3, Field::Bytes(message)) => {
                let [variable, _, slot] = numbers(message)?;
                let [_, name, _] = texts(message)?;
                node.slots.push(SlotVariable { name, variable, slot });
            }
            (4, Field::Bytes(message)) => {
                let [name, object, _] = texts(message)?;
                node.saver = Some(Saver { name, object });
            }
            (5, Field::Bytes(message)) => node.has_values = Some(numbers(message)?[0] != 0),
            (1..=5, _) => return Err(malformed("a field has the wrong type")),
            _ => {}
        }
        Ok(())
    })?;
    Ok(node)
}

/// The numbers of the fields 1 to 3, zero where there are none.
fn numbers(message: &[u8]) -> Result<[usize; 3]> {
    let mut found = [0; 3];
    each(message, |field| {
        if let (number @ 1..=3, Field::Varint(value)) = field {
            // An object's number is an int32.
            let id = i32::try_from(value.cast_signed()).ok().and_then(|id| usize::try_from(id).ok());
            found[number as usize - 1] = id.ok_or_else(|| malformed(format!("{value} is no object")))?;
        }
        Ok(())
    })?;
    Ok(found)
}

/// The texts of the fields 1 to 3, empty where there are none.
fn texts(message: &[u8]) -> Result<[String; 3]> {
    let mut found = [const { String::new() }; 3];
    each(message, |field| {
        if let (number @ 1..=3, Field::Bytes(bytes)) = field {
            let text = std::str::from_utf8(bytes).map_err(|_| malformed("a name is not text"))?;
            found[number as usize - 1] = text.to_owned();
        }
        Ok(())
    })?;
    Ok(found)
}

fn each<'a>(message: &'a [u8], mut take: impl FnMut((u32, Field<'a>)) -> Result<()>) -> Result<()> {
    let mut wire = Wire(message);
    while let Some(field) = wire.next().map_err(malformed)? {
        take(field)?;
    }
    Ok(())
}

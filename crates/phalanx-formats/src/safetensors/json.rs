//! The header's JSON. Read with visitors and not as a tree: a tree forgets names that come twice, and takes sixteen
//! times the memory of its text.

use super::METADATA;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// No tensor of ours has more dimensions; checked again, with the extents, when the shape is made.
const MAX_RANK: usize = 8;

/// What the header says, word for word.
#[derive(Default)]
pub(super) struct RawHeader {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) tensors: BTreeMap<String, RawTensor>,
}

/// What the header says about one tensor.
pub(super) struct RawTensor {
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) offsets: [u64; 2],
}

/// Reads a header.
pub(super) fn parse(text: &[u8]) -> Result<RawHeader, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let header = Root.deserialize(&mut json)?;
    // Only spaces may follow, which the writers add to align the numbers.
    json.end().map(|()| header)
}

/// Implements [`DeserializeSeed`] for a visitor.
macro_rules! seeds {
    ($($name:ident => $value:ty, $method:ident;)*) => {$(
        struct $name;

        impl<'de> DeserializeSeed<'de> for $name {
            type Value = $value;

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<$value, D::Error> {
                from.$method(self)
            }
        }
    )*};
}

seeds! {
    Root => RawHeader, deserialize_map;
    Metadata => BTreeMap<String, String>, deserialize_map;
    Tensor => RawTensor, deserialize_map;
    Text => String, deserialize_str;
    Extents => Vec<u64>, deserialize_seq;
}

impl<'de> Visitor<'de> for Root {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RawHeader, M::Error> {
        let (mut header, mut metadata) = (RawHeader::default(), None);
        while let Some(name) = map.next_key_seed(Text)? {
            let twice = if name == METADATA {
                metadata.replace(map.next_value_seed(Metadata)?).is_some()
            } else {
                let tensor = map.next_value_seed(Tensor).map_err(|error| named(&name, error))?;
                header.tensors.insert(name.clone(), tensor).is_some()
            };
            if twice {
                return Err(M::Error::custom(format_args!("{:?} comes twice", short(&name))));
            }
        }
        header.metadata = metadata.unwrap_or_default();
        Ok(header)
    }
}

impl<'de> Visitor<'de> for Metadata {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts as metadata")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut metadata = BTreeMap::new();
        while let Some(key) = map.next_key_seed(Text)? {
            let value = map.next_value_seed(Text)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(M::Error::custom(format_args!("metadata {:?} comes twice", short(&key))));
            }
        }
        Ok(metadata)
    }
}

impl<'de> Visitor<'de> for Tensor {
    type Value = RawTensor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RawTensor, M::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(key) = map.next_key_seed(Text)? {
            let twice = match &*key {
                "dtype" => dtype.replace(map.next_value_seed(Text)?).is_some(),
                "shape" => shape.replace(map.next_value_seed(Extents)?).is_some(),
                "data_offsets" => offsets.replace(map.next_value_seed(Extents)?).is_some(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if twice {
                return Err(M::Error::custom(format_args!("{key} comes twice")));
            }
        }
        let missing = M::Error::missing_field;
        let offsets = offsets.ok_or_else(|| missing("data_offsets"))?;
        let offsets = offsets.try_into().map_err(|_| M::Error::custom("data_offsets are not two numbers"))?;
        Ok(RawTensor {
            dtype: dtype.ok_or_else(|| missing("dtype"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
            offsets,
        })
    }
}

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

impl<'de> Visitor<'de> for Extents {
    type Value = Vec<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a few numbers that are not negative")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Vec<u64>, S::Error> {
        let mut numbers = Vec::new();
        while let Some(number) = seq.next_element()? {
            if numbers.len() == MAX_RANK {
                return Err(S::Error::custom(format_args!("more than {MAX_RANK} dimensions")));
            }
            numbers.push(number);
        }
        Ok(numbers)
    }
}

/// Says which tensor an error is about.
fn named<E: serde::de::Error>(name: &str, error: E) -> E {
    E::custom(format_args!("tensor {:?}: {error}", short(name)))
}

/// Enough of a name to recognise it by.
fn short(name: &str) -> String {
    name.chars().take(60).collect()
}

//! The arguments and results of steps as bytes.

use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_wire::limits::{FRAME_BYTES, HEADER_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes that one step may take or return: they go into one frame, beside the largest header.
pub(super) const LARGEST: usize = FRAME_BYTES - HEADER_BYTES;

/// Encodes a value that is sent; `what` names it in errors.
pub(super) fn encode<T: Serialize>(what: &str, value: &T) -> Result<Bytes> {
    let bytes = postcard::to_stdvec(value).map_err(|error| {
        Error::new(Code::BadSetting, format!("{what} of type {} cannot be sent", std::any::type_name::<T>()))
            .because(error)
            .help("use a type whose serde implementation does not depend on the format")
    })?;
    check_size(what, bytes.len())?;
    Ok(bytes.into())
}

pub(super) fn check_size(what: &str, bytes: usize) -> Result<()> {
    if bytes <= LARGEST {
        return Ok(());
    }
    Err(Error::new(Code::BadSetting, format!("{what} takes {bytes} bytes"))
        .because(format!("at most {LARGEST} fit into a message"))
        .help("send less: read data from files, and values from the servers"))
}

/// Decodes all of `bytes`.
pub(super) fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T> {
    let wrong = |why: String| {
        Error::new(Code::BadSetting, format!("{what} is no {}", std::any::type_name::<T>()))
            .because(why)
            .help("use a type whose serde implementation reads what it writes, without knowing the format")
    };
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(wrong(format!("{} bytes are left over", rest.len()))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostTensor;
    use serde::Deserialize;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Ask {
        noise: f32,
        rows: Option<HostTensor>,
        names: Vec<String>,
    }

    #[test]
    fn any_serde_type_comes_back_and_tensors_take_their_own_size() {
        let rows = HostTensor::floats([250, 4], (0..1000_u16).map(f32::from).collect()).unwrap();
        let ask = Ask { noise: f32::NEG_INFINITY, rows: Some(rows), names: vec!["a".into(), String::new()] };
        let bytes = encode("an argument", &ask).unwrap();
        assert!(bytes.len() < 4 * 1000 + 30, "{} bytes", bytes.len());
        assert_eq!(decode::<Ask>("an argument", &bytes).unwrap(), ask);
        let ids = HostTensor::from(vec![i64::MIN, -1, i64::MAX]);
        assert_eq!(decode::<HostTensor>("a result", &encode("a result", &ids).unwrap()).unwrap(), ids);
        decode::<()>("a result", &encode("a result", &()).unwrap()).unwrap();
    }

    #[test]
    fn bytes_of_another_type_are_refused() {
        let bytes = encode("a result", &(1_u8, 2_u8)).unwrap();
        let error = decode::<u8>("the result", &bytes).unwrap_err();
        assert_eq!((error.what(), error.why()), ("the result is no u8", Some("1 bytes are left over")));
        let tensor = encode("a result", &HostTensor::from(vec![1.0_f32; 8])).unwrap();
        for length in 0..tensor.len() {
            assert!(decode::<HostTensor>("a result", &tensor[..length]).is_err(), "{length}");
        }
        // A tensor of many elements, and no numbers.
        let lies = encode("a result", &(vec![u64::MAX, 2], false, Vec::<u8>::new())).unwrap();
        assert!(decode::<HostTensor>("a result", &lies).is_err());
        assert!(encode("an argument", &HostTensor::from(vec![0.0_f32; LARGEST / 4])).is_err());
    }
}

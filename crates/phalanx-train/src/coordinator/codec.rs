//! The arguments and results of steps as bytes.

use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_wire::limits::{FRAME_BYTES, HEADER_BYTES};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes that one step may take or return: they go into one frame, beside the largest header.
pub(super) const LARGEST: usize = FRAME_BYTES - HEADER_BYTES;

/// The most bytes that a call of the program may return: every task keeps the outcomes of all calls.
const LARGEST_OUTCOME: usize = 1 << 20;

/// Encodes the outcome of a call: the committed steps at its end, and the value that every task returns.
pub(super) fn encode_outcome<T: Serialize>(steps: u64, value: &T) -> Result<Bytes> {
    let bytes = encode("the outcome of a call", &(steps, value))?;
    check_within(LARGEST_OUTCOME, "the outcome of a call", bytes.len())?;
    Ok(bytes)
}

/// Returns the committed steps at the end of a call.
pub(super) fn steps_of_outcome(outcome: &[u8]) -> Result<u64> {
    let steps = postcard::take_from_bytes(outcome).map(|(steps, _)| steps);
    steps.map_err(|error| Error::new(Code::BadMessage, "the outcome of a call is malformed").because(error))
}

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
    check_within(LARGEST, what, bytes)
}

fn check_within(most: usize, what: &str, bytes: usize) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    Err(Error::new(Code::BadSetting, format!("{what} takes {bytes} bytes"))
        .because(format!("at most {most} fit into a message"))
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
    use crate::fit::{History, Logs};
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
    fn an_outcome_has_the_steps_of_its_call_and_any_value() {
        let mut history = History::default();
        history.push(3, [("loss", 0.25), ("accuracy", f64::INFINITY)].into_iter().collect());
        history.push(4, Logs::default());
        let bytes = encode_outcome(300, &history).unwrap();
        assert_eq!(steps_of_outcome(&bytes).unwrap(), 300);
        assert_eq!(decode::<(u64, History)>("the outcome", &bytes).unwrap(), (300, history));
        assert!(steps_of_outcome(&[0xff; 3]).is_err() && decode::<(u64, Logs)>("the outcome", &[]).is_err());
        let error = encode_outcome(1, &vec![0.0_f32; LARGEST_OUTCOME]).unwrap_err();
        assert_eq!(error.what(), "the outcome of a call takes 4194308 bytes");
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

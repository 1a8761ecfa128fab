//! Conversions of errors to and from the wire.

use crate::proto::common::Fault;
use phalanx_base::{Code, Error};
use prost::Message;
use std::io;
use tonic::{Code as Grpc, Status};

/// Converts an error to a gRPC status that keeps all of its parts.
#[must_use]
pub fn error_to_status(error: &Error) -> Status {
    Status::with_details(grpc_code(error.code()), error.to_string(), error_to_bytes(error).into())
}

/// Converts an error to a message.
#[must_use]
pub fn error_to_fault(error: &Error) -> Fault {
    let text = |part: Option<&str>| part.map(str::to_owned);
    Fault {
        code: error.code().number(),
        what: error.what().to_owned(),
        place: text(error.place()),
        why: text(error.why()),
        help: text(error.next()),
    }
}

/// Encodes an error as the bytes of a [`Fault`].
#[must_use]
pub fn error_to_bytes(error: &Error) -> Vec<u8> {
    error_to_fault(error).encode_to_vec()
}

/// Converts a status to an error: the peer's own error if it sent one, else a failure of the connection to `peer`.
#[must_use]
pub fn error_from_status(status: &Status, peer: &str) -> Error {
    if let Some(error) = sent_by_peer(status) {
        return error;
    }
    if let Some(error) = while_connecting(status) {
        return error.clone().at(peer);
    }
    let why = root_cause(status);
    match status.code() {
        Grpc::DeadlineExceeded | Grpc::Cancelled => {
            Error::new(Code::OutcomeUnknown, "no answer before the deadline").at(peer).because(why)
        }
        Grpc::Unavailable | Grpc::Unknown => Error::new(Code::PeerUnreachable, "the connection failed")
            .at(peer)
            .because(why)
            .help("see whether the task is running and its address is right"),
        _ => Error::new(Code::BadMessage, "the peer and this task do not understand each other")
            .at(peer)
            .because(why)
            .help("see whether something else listens at this address"),
    }
}

fn sent_by_peer(status: &Status) -> Option<Error> {
    error_from_bytes(status.details())
}

/// Decodes what [`error_to_bytes`] encoded; `None` if it is malformed or has a code that this build does not know.
#[must_use]
pub fn error_from_bytes(bytes: impl bytes::Buf) -> Option<Error> {
    error_from_fault(Fault::decode(bytes).ok()?)
}

/// Converts a message to an error; `None` for a code that this build does not know.
#[must_use]
pub fn error_from_fault(fault: Fault) -> Option<Error> {
    let error = Error::new(Code::from_number(fault.code)?, fault.what);
    let error = fault.place.into_iter().fold(error, Error::at);
    let error = fault.why.into_iter().fold(error, Error::because);
    Some(fault.help.into_iter().fold(error, Error::help))
}

/// Returns why a connection could not be made, if that is what the status is about.
fn while_connecting(status: &Status) -> Option<&Error> {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<io::Error>().and_then(unwrap) {
            return Some(found);
        }
        source = error.source();
    }
    None
}

/// Wraps an error in an I/O error.
pub(crate) fn wrap(error: Error) -> io::Error {
    io::Error::other(error)
}

/// Returns the error that [`wrap`] put into an I/O error, if there is one.
pub(crate) fn unwrap(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Converts the I/O error of a connection that could not be made.
pub(crate) fn unreachable(error: io::Error) -> Error {
    unwrap(&error).cloned().unwrap_or_else(|| {
        Error::new(Code::PeerUnreachable, "the connection failed")
            .because(plain(&error.to_string()))
            .help("see whether the task is running and its address is right")
    })
}

/// Decodes an error that a peer sent; one that this build does not know becomes a [`Code::BadMessage`].
pub(crate) fn decode(bytes: impl bytes::Buf) -> io::Result<Error> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "an answer is malformed");
    let fault = Fault::decode(bytes).map_err(|_| malformed())?;
    let unknown = || Error::new(Code::BadMessage, "the peer reports an error that this build does not know");
    Ok(error_from_fault(fault).unwrap_or_else(unknown))
}

/// Returns the innermost cause in the operating system's words: "connection refused" rather than "transport error".
fn root_cause(status: &Status) -> String {
    let mut cause = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        cause = error.to_string();
        source = error.source();
    }
    if cause.is_empty() { status.code().to_string() } else { plain(&cause) }
}

/// Returns the operating system's words without its error number, in lower case.
pub(crate) fn plain(cause: &str) -> String {
    let cause = cause.split(" (os error").next().unwrap_or_default();
    let mut letters = cause.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn grpc_code(code: Code) -> Grpc {
    match code {
        Code::WrongToken => Grpc::Unauthenticated,
        Code::NoSuchVariable | Code::NoSuchTask => Grpc::NotFound,
        Code::VariableConflict => Grpc::AlreadyExists,
        Code::ShapeMismatch | Code::BadMessage | Code::BadSetting => Grpc::InvalidArgument,
        Code::Internal => Grpc::Internal,
        _ => Grpc::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_cross_the_wire_with_all_their_parts() {
        let error =
            Error::new(Code::VariableConflict, "w exists").at("ps/0").because("[2] is not [3]").help("rename it");
        let back = error_from_status(&error_to_status(&error), "elsewhere");
        assert_eq!(back.report(), error.report());
    }

    #[test]
    fn a_lost_answer_leaves_the_outcome_unknown() {
        let status = Status::deadline_exceeded("late");
        assert_eq!(error_from_status(&status, "ps/0").code(), Code::OutcomeUnknown);
    }
}

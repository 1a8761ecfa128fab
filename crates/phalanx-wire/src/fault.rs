//! Our errors across the wire and back, typed.

use crate::proto::params::Fault;
use phalanx_base::{Code, Error};
use prost::Message;
use std::io;
use tonic::{Code as Grpc, Status};

/// Packs an error into a gRPC status that keeps all of its parts.
#[must_use]
pub fn to_status(error: &Error) -> Status {
    Status::with_details(grpc_code(error.code()), error.to_string(), to_wire(error).encode_to_vec().into())
}

/// An error as a message.
#[must_use]
pub fn to_wire(error: &Error) -> Fault {
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    Fault {
        code: error.code().number(),
        what: error.what().to_owned(),
        place: text(error.place()),
        why: text(error.why()),
        help: text(error.next()),
    }
}

/// Unpacks a status: an error that a peer sent as it was, anything else as a failure of the connection to `peer`.
#[must_use]
pub fn from_status(status: &Status, peer: &str) -> Error {
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
    from_wire(Fault::decode(status.details()).ok()?)
}

/// The error of a message; `None` for a code that this build does not know.
#[must_use]
pub fn from_wire(fault: Fault) -> Option<Error> {
    let mut error = Error::new(Code::from_number(fault.code)?, fault.what);
    if !fault.place.is_empty() {
        error = error.at(fault.place);
    }
    if !fault.why.is_empty() {
        error = error.because(fault.why);
    }
    if !fault.help.is_empty() {
        error = error.help(fault.help);
    }
    Some(error)
}

/// Whether the request behind a failed call may have taken effect: not when the peer refused it, nor when no
/// connection could be made.
#[must_use]
pub fn may_have_happened(status: &Status) -> bool {
    sent_by_peer(status).is_none() && while_connecting(status).is_none()
}

/// The error that a connection could not be made with.
fn while_connecting(status: &Status) -> Option<&Error> {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<io::Error>().and_then(inside) {
            return Some(found);
        }
        source = error.source();
    }
    None
}

/// An error of ours where an I/O error is wanted; [`inside`] gets it back.
pub(crate) fn wrap(error: Error) -> io::Error {
    io::Error::other(error)
}

/// The error of ours inside of an I/O error.
pub(crate) fn inside(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Why a connection could not be made, as an error of ours.
pub(crate) fn unreachable(error: io::Error) -> Error {
    inside(&error).cloned().unwrap_or_else(|| {
        Error::new(Code::PeerUnreachable, "the connection failed")
            .because(plain(&error.to_string()))
            .help("see whether the task is running and its address is right")
    })
}

/// Reads an error that a peer sent as a message.
pub(crate) fn decode(bytes: impl bytes::Buf) -> io::Result<Error> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "an answer is malformed");
    let fault = Fault::decode(bytes).map_err(|_| malformed())?;
    let unknown = || Error::new(Code::BadMessage, "the peer reports an error this build does not know");
    Ok(from_wire(fault).unwrap_or_else(unknown))
}

/// The innermost cause, in the operating system's words: "connection refused" rather than "transport error".
fn root_cause(status: &Status) -> String {
    let mut cause = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        cause = error.to_string();
        source = error.source();
    }
    if cause.is_empty() { status.code().to_string() } else { plain(&cause) }
}

/// The operating system's words without its number, in lower case.
fn plain(cause: &str) -> String {
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
        let back = from_status(&to_status(&error), "elsewhere");
        assert_eq!(back.report(), error.report());
        assert!(!may_have_happened(&to_status(&error)));
    }

    #[test]
    fn a_lost_answer_may_have_happened() {
        let status = Status::deadline_exceeded("late");
        assert_eq!(from_status(&status, "ps/0").code(), Code::OutcomeUnknown);
        assert!(may_have_happened(&status));
    }
}

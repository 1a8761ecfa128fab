//! What an error of an object store means to the one who reads it.

use super::bridge::NoAnswer;
use object_store::Error as StoreError;
use phalanx_base::{Code, Error};

/// What could not be done, where, why, and what to do: `doing` completes "cannot …".
pub(crate) fn fault(code: Code, doing: &str, place: &str, error: &StoreError) -> Error {
    let help = match error {
        StoreError::NotFound { .. } => "check the bucket, the location and the name".to_owned(),
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => credentials(place),
        StoreError::Precondition { .. } => "the file was replaced while it was read: open it again".to_owned(),
        StoreError::InvalidPath { .. } => "choose a name without control characters".to_owned(),
        _ => "check that the store can be reached from this machine, then try again".to_owned(),
    };
    Error::new(code, format!("cannot {doing}")).at(place).because(reason(error)).help(help)
}

/// The error with its first cause: the layers between often say no more than that a request failed.
fn reason(error: &StoreError) -> String {
    let text = error.to_string();
    let chain = std::iter::successors(std::error::Error::source(error), |error| error.source());
    match chain.last().map(ToString::to_string) {
        Some(root) if !text.contains(&root) => format!("{text}: {root}"),
        _ => text,
    }
}

/// The error when there was no answer at all.
pub(crate) fn no_answer(code: Code, doing: &str, place: &str, why: &NoAnswer) -> Error {
    let error = Error::new(code, format!("cannot {doing}")).at(place);
    match why {
        NoAnswer::Late(limit) => error
            .because(format!("the store did not answer within {} seconds", limit.as_secs_f32()))
            .help("check that the store can be reached from this machine, then try again"),
        NoAnswer::Lost => Error::new(Code::Internal, format!("cannot {doing}"))
            .at(place)
            .because("the object store's client broke down")
            .help("please report this, with what is on the screen"),
    }
}

/// Where the credentials for a location come from.
pub(crate) fn credentials(place: &str) -> String {
    let variables = match place.split_once("://").map(|(scheme, _)| scheme) {
        Some("s3") => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT if it is not Amazon's",
        Some("gs") => "GOOGLE_APPLICATION_CREDENTIALS, or give the machine's service account the rights",
        Some("az") => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        _ => "the credentials of the store",
    };
    format!("set {variables}, and check the rights to the bucket")
}

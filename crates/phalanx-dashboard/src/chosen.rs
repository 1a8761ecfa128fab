//! Which run a request is about.

use crate::Shared;
use crate::runs::FollowedRun;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use std::sync::Arc;

/// The run that a request names with `run` in its URL; without it, the only one.
pub(crate) struct ChosenRun(pub(crate) Arc<FollowedRun>);

impl FromRequestParts<Arc<Shared>> for ChosenRun {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let query = parts.uri.query().into_iter().flat_map(|query| query.split('&'));
        let name = query.filter_map(|pair| pair.strip_prefix("run=")).next().map(decode);
        let name =
            name.map(|name| name.ok_or_else(|| refuse(StatusCode::BAD_REQUEST, "the name of the run is not UTF-8")));
        let name = name.transpose()?;
        let shared = Arc::clone(shared);
        let found = tokio::task::spawn_blocking(move || shared.source.run(name.as_deref())).await;
        match found {
            Ok(Ok(run)) => Ok(Self(run)),
            Ok(Err(error)) => Err(refuse(StatusCode::NOT_FOUND, &error.report())),
            Err(_) => Err(refuse(StatusCode::INTERNAL_SERVER_ERROR, "the run cannot be read")),
        }
    }
}

/// The response to a request that cannot be carried out.
pub(crate) type Refusal = (StatusCode, String);

pub(crate) fn refuse(status: StatusCode, text: &str) -> Refusal {
    (status, format!("{text}\n"))
}

/// Decodes `%41` and the like; `None` if the result is no UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded() {
        for (given, name) in [
            ("run-1", Some("run-1")),
            ("a%20b%2Fc", Some("a b/c")),
            ("gr%C3%BCn", Some("grün")),
            ("50%", Some("50%")),
            ("%zz", Some("%zz")),
            ("%ff", None),
        ] {
            assert_eq!(decode(given).as_deref(), name, "{given}");
        }
    }
}

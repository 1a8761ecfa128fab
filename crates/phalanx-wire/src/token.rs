//! The job token: a shared secret that every call carries when one is set.

use phalanx_base::{Code, Error, Result};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

const HEADER: &str = "authorization";

/// The secret of a job. Never printed.
#[derive(Clone)]
pub struct Token(MetadataValue<Ascii>);

impl Token {
    /// Makes a token of its text.
    ///
    /// # Errors
    /// When the text is empty or has characters that a header cannot carry.
    pub fn new(text: &str) -> Result<Self> {
        let value = (!text.is_empty()).then(|| format!("Bearer {text}").parse::<MetadataValue<Ascii>>());
        match value {
            Some(Ok(mut value)) => {
                value.set_sensitive(true);
                Ok(Self(value))
            }
            _ => Err(Error::new(Code::WrongToken, "the job token cannot be used")
                .at("PHALANX_TOKEN")
                .because("it is empty or has characters other than visible ASCII")),
        }
    }

    pub(crate) fn put(token: Option<&Self>, metadata: &mut MetadataMap) {
        if let Some(token) = token {
            metadata.insert(HEADER, token.0.clone());
        }
    }

    /// Whether a request carries what this server wants. A server without a token takes every request.
    pub(crate) fn check(token: Option<&Self>, metadata: &MetadataMap) -> Result<()> {
        Self::check_secret(token, metadata.get(HEADER).map_or(&[], |given| given.as_bytes()))
    }

    /// The same for what [`Self::secret`] gave the peer.
    pub(crate) fn check_secret(token: Option<&Self>, given: &[u8]) -> Result<()> {
        match token {
            Some(wanted) if !same(given, wanted.0.as_bytes()) => {
                Err(Error::new(Code::WrongToken, "the job token is refused")
                    .because(if given.is_empty() {
                        "the request carries none"
                    } else {
                        "it is not the token of this job"
                    })
                    .help("give every task of the job the same PHALANX_TOKEN"))
            }
            _ => Ok(()),
        }
    }

    /// What a peer is shown; nothing without a token.
    pub(crate) fn secret(token: Option<&Self>) -> &[u8] {
        token.map_or(&[], |token| token.0.as_bytes())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Compares without stopping at the first difference, so that the time taken tells nothing about the secret.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_token_is_required_and_compared() {
        let token = Token::new("secret").unwrap();
        let mut metadata = MetadataMap::new();
        assert_eq!(Token::check(Some(&token), &metadata).unwrap_err().code(), Code::WrongToken);
        Token::put(Some(&Token::new("other").unwrap()), &mut metadata);
        assert!(Token::check(Some(&token), &metadata).is_err());
        Token::put(Some(&token), &mut metadata);
        assert!(Token::check(Some(&token), &metadata).is_ok());
        assert!(Token::check(None, &metadata).is_ok());
    }

    #[test]
    fn a_token_is_never_printed() {
        assert!(!format!("{:?}", Token::new("secret").unwrap()).contains("secret"));
        assert!(Token::new("").is_err() && Token::new("a\nb").is_err());
    }
}

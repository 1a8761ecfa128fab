//! The job token: a shared secret that both ends of a connection prove to know. It is never sent.

use hmac::{Hmac, Mac};
use phalanx_base::{Code, Context, Error, Result};
use sha2::{Digest, Sha256};

/// The environment variable with the token.
const VARIABLE: &str = "PHALANX_TOKEN";
/// The block size of SHA-256, which is the longest key that HMAC uses unchanged.
const BLOCK: usize = 64;

/// The secret of a job. Never printed.
#[derive(Clone)]
pub struct Token {
    /// The digest of the text, padded to a block.
    key: [u8; BLOCK],
}

impl Token {
    /// Creates a token from its text.
    ///
    /// # Errors
    /// When the text is empty or has characters other than visible ASCII.
    pub fn new(text: &str) -> Result<Self> {
        if text.is_empty() || !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(unusable("it is empty or has characters other than visible ASCII"));
        }
        let mut key = [0; BLOCK];
        key[..32].copy_from_slice(&Sha256::digest(text));
        Ok(Self { key })
    }

    /// Returns the token in `PHALANX_TOKEN`; `None` if the variable is not set.
    ///
    /// # Errors
    /// As [`Self::new`], and when the variable is not UTF-8: a job with a token must not run without it.
    pub fn from_env() -> Result<Option<Self>> {
        match std::env::var(VARIABLE) {
            Ok(text) => Self::new(&text).map(Some),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(unusable("it is not UTF-8")),
        }
    }

    /// Returns a random token, for a job whose tasks are all in this process.
    ///
    /// # Errors
    /// When the operating system provides no random bytes.
    pub fn random() -> Result<Self> {
        let mut key = [0; BLOCK];
        getrandom::fill(&mut key).context(Code::Internal, "the operating system gives no random bytes")?;
        Ok(Self { key })
    }

    /// Returns a keyed digest. All jobs without a token share one key.
    pub(crate) fn mac(token: Option<&Self>) -> Hmac<Sha256> {
        Hmac::new(token.map_or(&[0; BLOCK], |token| &token.key).into())
    }
}

fn unusable(why: &str) -> Error {
    Error::new(Code::WrongToken, "the job token cannot be used")
        .at(VARIABLE)
        .because(why)
        .help("set it to a long random text of visible ASCII characters, the same for every task")
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_never_printed() {
        assert!(!format!("{:?}", Token::new("secret").unwrap()).contains("secret"));
        assert!(Token::new("").is_err() && Token::new("a\nb").is_err());
    }

    #[test]
    fn tokens_differ_by_their_text_and_random_ones_always() {
        let digest = |token: &Token| Token::mac(Some(token)).finalize().into_bytes();
        let token = |text| Token::new(text).unwrap();
        assert_eq!(digest(&token("secret")), digest(&token("secret")));
        assert_ne!(digest(&token("secret")), digest(&token("secret ")));
        assert_ne!(digest(&Token::random().unwrap()), digest(&Token::random().unwrap()));
        assert_ne!(digest(&token("secret")), Token::mac(None).finalize().into_bytes());
    }
}

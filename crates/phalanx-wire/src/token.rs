//! The job token: a shared secret that both ends of a connection prove to know. It is never sent.

use hmac::{Hmac, Mac};
use phalanx_base::{Code, Context, Error, Result};
use sha2::{Digest, Sha256};

/// The environment variable with the token.
const VARIABLE: &str = "PHALANX_TOKEN";
/// The block size of SHA-256, which is the longest key that HMAC uses unchanged.
const BLOCK: usize = 64;

/// The environment variable that chooses an [`Encryption`].
const ENCRYPTION: &str = "PHALANX_TLS";

/// Which TCP connections of a job with a token are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// Those between hosts.
    #[default]
    BetweenHosts,
    /// Those within a host as well.
    Everywhere,
    /// None: the network is trusted.
    Off,
}

impl Encryption {
    pub(crate) fn covers(self, is_loopback: bool) -> bool {
        match self {
            Self::BetweenHosts => !is_loopback,
            Self::Everywhere => true,
            Self::Off => false,
        }
    }

    fn from_env() -> Result<Self> {
        let unusable = |found: String| {
            Error::new(Code::BadSetting, format!("{found:?} is no choice of an encryption"))
                .at(ENCRYPTION)
                .help("between-hosts (the default), everywhere or off")
        };
        match std::env::var(ENCRYPTION).as_deref() {
            Err(std::env::VarError::NotPresent) | Ok("" | "between-hosts") => Ok(Self::BetweenHosts),
            Ok("everywhere") => Ok(Self::Everywhere),
            Ok("off") => Ok(Self::Off),
            Ok(other) => Err(unusable(other.to_owned())),
            Err(std::env::VarError::NotUnicode(text)) => Err(unusable(text.to_string_lossy().into_owned())),
        }
    }
}

/// The secret of a job. Never printed.
#[derive(Clone)]
pub struct Token {
    /// The digest of the text, padded to a block.
    key: [u8; BLOCK],
    encryption: Encryption,
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
        Ok(Self { key, encryption: Encryption::default() })
    }

    /// Chooses which connections are encrypted. Every task of a job must choose alike.
    #[must_use]
    pub fn with_encryption(self, encryption: Encryption) -> Self {
        Self { encryption, ..self }
    }

    pub(crate) fn encryption(&self) -> Encryption {
        self.encryption
    }

    /// Returns the token in `PHALANX_TOKEN`, with the encryption in `PHALANX_TLS`; `None` if there is no token.
    ///
    /// # Errors
    /// As [`Self::new`], and when a variable is not UTF-8 or no choice: a job with a token must not run without it.
    pub fn from_env() -> Result<Option<Self>> {
        match std::env::var(VARIABLE) {
            Ok(text) => Ok(Some(Self::new(&text)?.with_encryption(Encryption::from_env()?))),
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
        Ok(Self { key, encryption: Encryption::default() })
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

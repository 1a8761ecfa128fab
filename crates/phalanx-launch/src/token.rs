//! Secrets made here.

use phalanx_base::{Code, Context, Result};
use std::io::Read;

/// A secret of 128 bits that nobody can guess, as text.
///
/// # Errors
/// When the operating system gives no random bytes.
pub fn new_token() -> Result<String> {
    let mut bytes = [0_u8; 16];
    let wrong = "no random bytes for a token";
    let mut source = std::fs::File::open("/dev/urandom").context(Code::Internal, wrong)?;
    source.read_exact(&mut bytes).context(Code::Internal, wrong)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ() {
        let (a, b) = (new_token().unwrap(), new_token().unwrap());
        assert_eq!((a.len(), a == b), (32, false));
    }
}

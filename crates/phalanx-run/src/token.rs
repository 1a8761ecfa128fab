//! Random secrets.

use phalanx_base::{Code, Error, Result};

/// Returns a random secret of 128 bits as 32 hexadecimal digits: a job's token, or a dashboard's.
///
/// # Errors
/// If the operating system provides no random bytes.
pub fn new_token() -> Result<String> {
    new_token_from(getrandom::fill)
}

fn new_token_from<E: std::fmt::Display>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<String> {
    let mut bytes = [0_u8; 16];
    fill(&mut bytes).map_err(|error| {
        Error::new(Code::Internal, "the operating system provides no random bytes for a token")
            .because(error)
            .help("check that this machine or container allows the system call getrandom")
    })?;
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

    #[test]
    fn without_random_bytes_there_is_no_token() {
        let error = new_token_from(|_| Err("not allowed here")).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(error.to_string().contains("no random bytes") && error.next().is_some(), "{error}");
    }
}

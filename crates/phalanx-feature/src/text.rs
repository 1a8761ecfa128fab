//! Integers in the format of TensorFlow's `as_string`.

/// Calls `f` with the decimal digits of a number, without allocating.
#[inline]
pub(crate) fn decimal<T>(number: i64, f: impl FnOnce(&[u8]) -> T) -> T {
    // 19 digits and a sign.
    let mut text = [0; 20];
    let mut start = text.len();
    let mut rest = number.unsigned_abs();
    loop {
        start -= 1;
        text[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        start -= 1;
        text[start] = b'-';
    }
    f(&text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_written() {
        for number in [0, 7, -1, 10, 99, -100, 123_456_789, i64::MAX, i64::MIN] {
            assert_eq!(decimal(number, <[u8]>::to_vec), number.to_string().as_bytes());
        }
    }
}

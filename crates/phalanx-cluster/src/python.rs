//! Python's `int(value)`, which TensorFlow applies to an index.

use crate::node::{JsonValue, Node};

/// Why a value is not an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoInt {
    /// Python refuses it too.
    NotANumber,
    /// It exceeds 64 bits. Python's integers are unbounded.
    TooSmall,
    TooLarge,
}

impl std::fmt::Display for NoInt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotANumber => "not a whole number",
            Self::TooSmall => "far below zero",
            Self::TooLarge => "too large to be an index",
        })
    }
}

/// The zeros of the decimal digits beyond ASCII, all of which Python accepts. Nine more digits follow each.
const ZEROS: [u32; 65] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20,
    0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0,
    0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0,
    0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0,
    0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

/// Python's `int(value)` of a JSON value: truncates fractions, converts booleans, parses strings.
pub(crate) fn int(node: &Node) -> Result<i64, NoInt> {
    match &node.value {
        JsonValue::Bool(truth) => Ok(i64::from(*truth)),
        JsonValue::Int(digits) => int_of_text(digits),
        JsonValue::Float(digits) => {
            let number = digits.parse::<f64>().map_err(|_| NoInt::NotANumber)?;
            match number.trunc() {
                n if n.is_infinite() => Err(NoInt::NotANumber),
                // Exactly the range of i64: both bounds are powers of two, which an f64 represents.
                n if n >= 9_223_372_036_854_775_808.0 => Err(NoInt::TooLarge),
                n if n < -9_223_372_036_854_775_808.0 => Err(NoInt::TooSmall),
                n => Ok(n as i64),
            }
        }
        JsonValue::Text(text) if !text.broken => int_of_text(&text.text),
        _ => Err(NoInt::NotANumber),
    }
}

/// Python's `int(text)`: surrounding space, a sign, single underscores between digits, digits of any script.
pub(crate) fn int_of_text(text: &str) -> Result<i64, NoInt> {
    let text = text.trim_matches(char::is_whitespace);
    let (negative, body) = match text.strip_prefix(['-', '+']) {
        Some(body) => (text.starts_with('-'), body),
        None => (false, text),
    };
    let (mut sum, mut count, mut after_digit) = (Some(0_i64), 0, false);
    for c in body.chars() {
        if c == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = i64::from(decimal(c).ok_or(NoInt::NotANumber)?);
        let signed = if negative { -digit } else { digit };
        sum = sum.and_then(|sum| sum.checked_mul(10)?.checked_add(signed));
        count += 1;
        after_digit = true;
    }
    // Python converts at most 4300 digits, leading zeros included.
    if !after_digit || count > 4300 {
        return Err(NoInt::NotANumber);
    }
    sum.ok_or(if negative { NoInt::TooSmall } else { NoInt::TooLarge })
}

fn decimal(c: char) -> Option<u32> {
    let code = u32::from(c);
    let of = |zero: u32| code.checked_sub(zero).filter(|&digit| digit < 10);
    c.to_digit(10).or_else(|| ZEROS.into_iter().find_map(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_convert_as_python_converts_them() {
        for (text, wanted) in [
            ("1", 1),
            (" 1 ", 1),
            ("+1", 1),
            ("-1", -1),
            ("1_0", 10),
            ("007", 7),
            ("-0", 0),
            ("\u{b}1\n", 1),
            ("\u{a0}\u{ff11}_\u{660}", 10),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(int_of_text(text), Ok(wanted), "{text:?}");
        }
    }

    #[test]
    fn strings_python_refuses_are_refused() {
        for text in ["", " ", "+", "0x1", "1.0", "1e3", "_1", "1_", "1__0", "+ 1", "--1", "\u{1c}1", "½", "²", "one"]
        {
            assert_eq!(int_of_text(text), Err(NoInt::NotANumber), "{text:?}");
        }
        assert_eq!(int_of_text(&"0".repeat(4301)), Err(NoInt::NotANumber));
        assert_eq!(int_of_text(&"1".repeat(4300)), Err(NoInt::TooLarge));
    }
}

//! Parses the numbers in fields: a fast path for common forms, and `str::parse` for the rest.
//!
//! Both are exact: an integer that does not fit is rejected, a float is the nearest one. As in TensorFlow, spaces around a
//! number are ignored. Unlike there, a leading `+` is accepted in integers too, a field of spaces is not a number (for
//! TensorFlow it is 0.0), and denormal numbers are kept.

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Parses an integer.
#[inline]
pub(crate) fn parse_i64(field: &[u8]) -> Option<i64> {
    let digits = match field {
        [b' ', rest @ ..] => rest,
        _ => field,
    };
    if !digits.is_empty() && digits.len() <= 18 {
        let (negative, digits) = match digits {
            [b'-', rest @ ..] if !rest.is_empty() => (true, rest),
            _ => (false, digits),
        };
        let mut value = 0_i64;
        let mut wrong = 0_u8;
        for &byte in digits {
            let digit = byte.wrapping_sub(b'0');
            wrong |= u8::from(digit > 9);
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
        }
        if wrong == 0 {
            return Some(if negative { -value } else { value });
        }
    }
    trimmed(field)?.parse().ok()
}

/// Parses a float; beyond the range of `f32` it is infinite, as in TensorFlow.
#[inline]
pub(crate) fn parse_f32(field: &[u8]) -> Option<f32> {
    let text = match field {
        [b' ', rest @ ..] => rest,
        _ => field,
    };
    match simple(text) {
        Some(value) => Some(value),
        None => trimmed(field)?.parse().ok(),
    }
}

/// Parses digits with an optional point and sign, if one rounding gives the exact result.
#[inline]
fn simple(text: &[u8]) -> Option<f32> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    // Eighteen digits cannot overflow; more are rare.
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let (mut mantissa, mut digits, mut point) = (0_u64, 0_usize, None);
    for (at, &byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            digits += 1;
        } else if byte == b'.' && point.is_none() {
            point = Some(at);
        } else {
            return None;
        }
    }
    if digits == 0 || digits > 18 || mantissa > 1 << 53 {
        return None;
    }
    let fraction = point.map_or(0, |at| text.len() - at - 1);
    // Both are exact, so that this is the double nearest to the text.
    let value = mantissa as f64 / POWERS[fraction];
    // Rounding twice goes wrong only where the first one hits the middle between two floats.
    let half_way = value.to_bits() & 0x1fff_ffff == 0x1000_0000;
    if half_way || (value != 0.0 && value < f64::from(f32::MIN_POSITIVE)) {
        return None;
    }
    Some(if negative { -(value as f32) } else { value as f32 })
}

fn trimmed(field: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(field.trim_ascii()).ok()?;
    if text.is_empty() { None } else { Some(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_and_their_limits() {
        let cases: [(&str, Option<i64>); 18] = [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("007", Some(7)),
            (" 42", Some(42)),
            (" \t42 ", Some(42)),
            ("-17", Some(-17)),
            ("+5", Some(5)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("00000000000000000000000001", Some(1)),
            ("", None),
            ("-", None),
            ("  ", None),
            ("1.0", None),
            ("1e3", None),
            ("1 2", None),
            ("0x10", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_i64(text.as_bytes()), wanted, "{text:?}");
        }
    }

    #[test]
    fn floats_of_every_form() {
        let cases: [(&str, Option<f32>); 16] = [
            ("1", Some(1.0)),
            ("1.", Some(1.0)),
            (".5", Some(0.5)),
            ("-.5", Some(-0.5)),
            (" 2.5 ", Some(2.5)),
            ("1e-3", Some(1e-3)),
            ("+1E+5", Some(1e5)),
            ("1e39", Some(f32::INFINITY)),
            ("-inf", Some(f32::NEG_INFINITY)),
            ("1.5x", None),
            ("1.2.3", None),
            (".", None),
            ("-", None),
            ("1e", None),
            ("  ", None),
            ("", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_f32(text.as_bytes()), wanted, "{text:?}");
        }
        assert!(parse_f32(b"NaN").unwrap().is_nan());
        assert!(parse_f32(b"-0.0").unwrap().is_sign_negative());
    }

    proptest! {
        #[test]
        fn equal_to_the_library_on_everything_it_reads(text in "[ ]?-?[0-9]{0,20}(\\.[0-9]{0,20})?(e-?[0-9]{1,2})?") {
            let wanted = text.trim().parse::<f32>().ok().map(f32::to_bits);
            prop_assert_eq!(parse_f32(text.as_bytes()).map(f32::to_bits), wanted, "{:?}", text);
            prop_assert_eq!(parse_i64(text.as_bytes()), text.trim().parse::<i64>().ok(), "{:?}", text);
        }

        #[test]
        fn middles_between_two_floats(bits in 0x0080_0000_u32..0x7f00_0000, nudge in -2_i64..3) {
            let (low, high) = (f64::from(f32::from_bits(bits)), f64::from(f32::from_bits(bits + 1)));
            let middle = f64::from_bits(((low + high) / 2.0).to_bits().wrapping_add_signed(nudge));
            for text in [format!("{middle}"), format!("{middle:.17}")] {
                prop_assert_eq!(parse_f32(text.as_bytes()), text.parse().ok(), "{}", text);
            }
        }
    }
}

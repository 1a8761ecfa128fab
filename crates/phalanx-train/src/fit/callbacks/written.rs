//! Numbers as Python writes them.

/// Returns the shortest text that parses to the same number. A value that fits 32 bits, such as a learning rate, is
/// written as an `f32`: 0.1 rather than 0.10000000149011612.
pub(super) fn as_python(number: f64) -> String {
    let narrow = number as f32;
    let is_narrow = f64::from(narrow) == number;
    match (number.is_nan(), number.abs()) {
        (true, _) => "nan".to_owned(),
        (_, f64::INFINITY) => number.to_string(),
        (_, size) if size != 0.0 && !(1e-4..1e16).contains(&size) => {
            let digits = if is_narrow { format!("{narrow:e}") } else { format!("{number:e}") };
            let (digits, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        _ if is_narrow => format!("{narrow:?}"),
        _ => format!("{number:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_python() {
        let all = [1.0, -0.5, 0.1, 1e-5, 2.5e-7, 1e16, 123_456.0, 0.0, f64::NAN, f64::NEG_INFINITY, 1.0 / 3.0];
        let texts = ["1.0", "-0.5", "0.1", "1e-05", "2.5e-07", "1e+16", "123456.0", "0.0", "nan", "-inf"];
        assert_eq!(all.map(as_python)[..10], texts);
        assert_eq!(as_python(1.0 / 3.0), "0.3333333333333333");
        assert_eq!(as_python(f64::from(0.01_f32)), "0.01");
        assert_eq!(as_python(f64::from(1e-5_f32)), "1e-05");
    }
}

//! Several measurements of one thing.

/// The middle one, or the mean of the two in the middle; 0 of none.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The least and the greatest.
pub(crate) fn spread(numbers: &[f64]) -> (f64, f64) {
    let fold = |start: f64, by: fn(f64, f64) -> f64| numbers.iter().copied().fold(start, by);
    if numbers.is_empty() { (0.0, 0.0) } else { (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max)) }
}

/// A number with about three digits that mean something.
pub(crate) fn digits(number: f64) -> String {
    let after = match number.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.after$}")
}

/// Bytes, in a unit that fits.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let at = if bytes < 1.0 { 0 } else { ((bytes.log10() / 3.0) as usize).min(units.len() - 1) };
    format!("{} {}", digits(bytes / 1000_f64.powi(at as i32)), units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 3.0));
        assert_eq!(spread(&[]), (0.0, 0.0));
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!((digits(6482.3), digits(43.56), digits(1.714)), ("6482".into(), "43.6".into(), "1.71".into()));
        assert_eq!((bytes(0.0), bytes(999.0), bytes(4_720_000.0)), ("0.00 B".into(), "999 B".into(), "4.72 MB".into()));
    }
}

//! Numbers as Keras writes them.

use super::ProgressMode;

/// A metric's value: four decimals, or an exponent where those would show nothing but zeros.
pub(super) fn metric(value: f64, mode: ProgressMode) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    // A mean adds to zero first, so Keras never shows a negative zero.
    let value = value + 0.0;
    // Keras' one-line form ignores the sign: there a loss of -0.5 reads -5.0000e-01. Programs parse that form.
    let size = if mode == ProgressMode::Bar { value.abs() } else { value };
    if size > 1e-3 || value.is_infinite() { format!("{value:.4}") } else { scientific(value) }
}

/// C's `%.4e`: the exponent has a sign and two digits at least.
fn scientific(value: f64) -> String {
    let text = format!("{value:.4e}");
    match text.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(below) => format!("{digits}e-{below:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => text,
    }
}

/// Seconds per unit, in the unit of time that leaves a few digits: `4ms/step`.
pub(super) fn rate(seconds: f64, unit: &str) -> String {
    if seconds >= 1.0 || seconds == 0.0 {
        format!("{seconds:.0}s/{unit}")
    } else if seconds >= 1e-3 {
        format!("{:.0}ms/{unit}", seconds * 1e3)
    } else {
        format!("{:.0}us/{unit}", seconds * 1e6)
    }
}

/// Returns the time that is left as Keras writes it: `12s`, `3:21`, `1:00:05`.
#[must_use]
pub fn eta(seconds: f64) -> String {
    // A fraction over the limit counts, as in Keras: 60.5 seconds are 1:00, 60 are 60s.
    let whole = seconds as u64;
    if seconds > 3600.0 {
        format!("{}:{:02}:{:02}", whole / 3600, whole % 3600 / 60, whole % 60)
    } else if seconds > 60.0 {
        format!("{}:{:02}", whole / 60, whole % 60)
    } else {
        format!("{whole}s")
    }
}

//! File names with fields, such as `{epoch:02d}-{val_loss:.2f}`.

use super::written;
use crate::fit::Logs;
use phalanx_base::{Code, Error, Result};

/// Fills in the epoch and the batch (from 1, as Keras does) and the values of the logs.
pub(super) fn fill(template: &str, epoch: usize, batch: Option<u64>, logs: &Logs) -> Result<String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let (field, after) = after.split_once('}').ok_or_else(|| wrong(template, "a brace is not closed"))?;
        let (name, format) = field.split_once(':').unwrap_or((field, ""));
        filled.push_str(&match (name, batch) {
            ("epoch", _) => whole(epoch as u64, format).ok_or_else(|| wrong(template, field))?,
            ("batch", Some(batch)) => whole(batch, format).ok_or_else(|| wrong(template, field))?,
            _ => float(logs.find(name)?, format).ok_or_else(|| wrong(template, field))?,
        });
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn whole(number: u64, format: &str) -> Option<String> {
    let format = format.strip_suffix('d').unwrap_or(format);
    match (format.strip_prefix('0'), format) {
        (_, "") => Some(number.to_string()),
        (Some(width), _) => {
            width.parse().ok().filter(|width| *width < 64).map(|width: usize| format!("{number:0width$}"))
        }
        (None, width) => width.parse().ok().filter(|width| *width < 64).map(|width: usize| format!("{number:width$}")),
    }
}

fn float(number: f64, format: &str) -> Option<String> {
    if format.is_empty() {
        return Some(written::as_python(number));
    }
    let digits: usize = format.strip_prefix('.')?.strip_suffix('f')?.parse().ok().filter(|digits| *digits < 64)?;
    Some(format!("{number:.digits$}"))
}

fn wrong(template: &str, why: &str) -> Error {
    Error::new(Code::BadSetting, format!("the file name {template:?} cannot be filled in"))
        .because(why)
        .help("write fields as {epoch:02d}, {batch}, {val_loss:.2f}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_filled_in_as_python_does() {
        let logs: Logs = [("val_loss", 0.12345)].into_iter().collect();
        let fill = |template| fill(template, 3, Some(7), &logs);
        assert_eq!(fill("w/{epoch:02d}-{val_loss:.2f}").unwrap(), "w/03-0.12");
        assert_eq!(fill("ckpt-{epoch}").unwrap(), "ckpt-3");
        assert_eq!(fill("{batch:4d}|{val_loss}").unwrap(), "   7|0.12345");
        for wrong in ["{epoch", "{epoch:x}", "{loss}", "{val_loss:.999999999999f}", "{epoch:0999999d}"] {
            assert!(fill(wrong).is_err(), "{wrong}");
        }
    }
}

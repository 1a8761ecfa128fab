//! The differences of two checkpoints.

use phalanx_base::Result;
use phalanx_formats::bundle::{Dtype, Tensor, TensorData};
use serde_json::json;

use super::files::Checkpoint;
use super::{Answer, counted, kind, shown};
use crate::output::table;

/// Compares all tensors by name, type, shape and values, however they are split into slices and shards.
pub(super) fn diff(a: &Checkpoint, b: &Checkpoint) -> Result<Answer> {
    let (mut rows, mut items, mut same) = (Vec::new(), Vec::new(), 0_u64);
    let mut add = |name: &str, what: &str, detail: String, change: Option<Change>| {
        rows.push(vec![what.to_owned(), shown(name), detail]);
        let mut item = json!({ "name": name, "difference": what });
        if let Some(Change { elements, of, most }) = change {
            (item["elements"], item["of"]) = (json!(elements), json!(of));
            if let Some(most) = most {
                item["max_abs_difference"] = json!(most);
            }
        }
        items.push(item);
    };
    let (in_a, in_b) = (a.reader.index().tensors(), b.reader.index().tensors());
    for (name, info) in in_a {
        let Some(other) = in_b.get(name) else {
            add(name, "only in A", kind(info), None);
            continue;
        };
        if (info.dtype, &info.shape) != (other.dtype, &other.shape) {
            add(name, "other type", format!("{} | {}", kind(info), kind(other)), None);
            continue;
        }
        let Some(change) = change(&a.reader.read(name)?, &b.reader.read(name)?) else {
            same += 1;
            continue;
        };
        let most = change.most.map_or_else(String::new, |most| format!(", by {most:e} at most"));
        add(name, "other values", format!("{} of {}{most}", change.elements, change.of), Some(change));
    }
    for (name, info) in in_b.iter().filter(|(name, _)| !in_a.contains_key(*name)) {
        add(name, "only in B", kind(info), None);
    }
    let (good, count) = (rows.is_empty(), rows.len());
    let text = table(&rows) + &format!("{count} of {} differ\n", counted(same as usize + count, "tensor"));
    let json = json!({ "a": a.prefix, "b": b.prefix, "same": good, "same_tensors": same, "differences": items });
    Ok(Answer { json, text, good, warnings: String::new() })
}

struct Change {
    elements: u64,
    of: u64,
    /// The largest absolute difference, for numbers.
    most: Option<f64>,
}

/// Compares two tensors of one type and shape; `None` if they are bitwise equal.
fn change(a: &Tensor, b: &Tensor) -> Option<Change> {
    if a.data == b.data {
        return None;
    }
    let of = a.shape.elements() as u64;
    let elements = match (&a.data, &b.data) {
        (TensorData::Bytes(x), TensorData::Bytes(y)) => {
            let width = a.dtype.width().unwrap_or(x.len().max(1));
            x.chunks(width).zip(y.chunks(width)).filter(|(x, y)| x != y).count()
        }
        (TensorData::Strings(x), TensorData::Strings(y)) => x.iter().zip(y.iter()).filter(|(x, y)| x != y).count(),
        _ => a.shape.elements(),
    };
    let numbers = |tensor: &Tensor| match tensor.dtype {
        Dtype::F32 => tensor.f32s().ok().map(|numbers| numbers.into_iter().map(f64::from).collect::<Vec<f64>>()),
        Dtype::F64 => tensor.f64s().ok(),
        Dtype::I32 => tensor.i32s().ok().map(|numbers| numbers.into_iter().map(f64::from).collect()),
        Dtype::I64 => tensor.i64s().ok().map(|numbers| numbers.into_iter().map(|number| number as f64).collect()),
        _ => None,
    };
    let most = numbers(a).zip(numbers(b)).map(|(a, b)| {
        let far = |(a, b): (&f64, &f64)| if a.to_bits() == b.to_bits() { 0.0 } else { (a - b).abs() };
        // A NaN on one side counts as an infinite difference.
        a.iter().zip(&b).map(far).fold(0.0, |most: f64, far| if far.is_nan() { f64::INFINITY } else { most.max(far) })
    });
    Some(Change { elements: elements as u64, of, most })
}

//! How two checkpoints differ.

use phalanx_base::Result;
use phalanx_cluster::Json;
use phalanx_formats::bundle::{Dtype, Tensor, TensorData};

use super::files::Checkpoint;
use super::{Answer, counted, kind, shown, table};

/// Compares all tensors by name, type, shape and values; how they are cut into slices and shards does not count.
pub(super) fn diff(a: &Checkpoint, b: &Checkpoint) -> Result<Answer> {
    let (mut rows, mut items, mut same) = (Vec::new(), Vec::new(), 0_u64);
    let mut note = |name: &str, what: &str, detail: String, more: Vec<(&'static str, Json)>| {
        rows.push(vec![what.to_owned(), shown(name), detail]);
        let head = [("name", Json::text(name)), ("difference", Json::text(what))];
        items.push(Json::object(head.into_iter().chain(more)));
    };
    let (in_a, in_b) = (a.reader.index().tensors(), b.reader.index().tensors());
    for (name, info) in in_a {
        let Some(other) = in_b.get(name) else {
            note(name, "only in A", kind(info), vec![]);
            continue;
        };
        if (info.dtype, &info.shape) != (other.dtype, &other.shape) {
            note(name, "other type", format!("{} | {}", kind(info), kind(other)), vec![]);
            continue;
        }
        let Some(Change { elements, of, most }) = change(&a.reader.read(name)?, &b.reader.read(name)?) else {
            same += 1;
            continue;
        };
        let mut detail = format!("{elements} of {of}");
        let mut more = vec![("elements", Json::number(elements)), ("of", Json::number(of))];
        if let Some(most) = most {
            detail += &format!(", by {most:e} at most");
            let most = if most.is_finite() { Json::Number(format!("{most:?}")) } else { Json::Null };
            more.push(("max_abs_difference", most));
        }
        note(name, "other values", detail, more);
    }
    for (name, info) in in_b.iter().filter(|(name, _)| !in_a.contains_key(*name)) {
        note(name, "only in B", kind(info), vec![]);
    }
    let (good, count) = (rows.is_empty(), rows.len());
    let text = table(&rows) + &format!("{count} of {} differ\n", counted(same as usize + count, "tensor"));
    let json = Json::object([
        ("a", Json::text(a.prefix.clone())),
        ("b", Json::text(b.prefix.clone())),
        ("same", Json::Bool(good)),
        ("same_tensors", Json::number(same)),
        ("differences", Json::List(items)),
    ]);
    Ok(Answer { json, text, good, complaints: String::new() })
}

struct Change {
    elements: u64,
    of: u64,
    /// By how much numbers differ at most, where they are numbers.
    most: Option<f64>,
}

/// `None` where two tensors of one type and shape are the same, bit by bit.
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
        // A NaN on one side only is infinitely far.
        a.iter().zip(&b).map(far).fold(0.0, |most: f64, far| if far.is_nan() { f64::INFINITY } else { most.max(far) })
    });
    Some(Change { elements: elements as u64, of, most })
}

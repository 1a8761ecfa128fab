//! Tensors and their values.

use phalanx_base::Result;
use phalanx_formats::bundle::{Dtype, Span, Tensor, TensorData, TensorInfo, TensorLocation};

use super::files::Checkpoint;
use super::{Answer, counted, kind, shown, size};
use crate::output::table;
use serde_json::{Value, json};

/// The most values in a text; JSON contains all.
const SHOWN: usize = 100;

/// Lists all tensors.
pub(super) fn tensors(found: &Checkpoint) -> Answer {
    let index = found.reader.index();
    let mut rows = vec![["TENSOR", "TYPE", "SHAPE", "SIZE", "SLICES", "SHARD"].map(str::to_owned).to_vec()];
    for (name, info) in index.tensors() {
        let (slices, shards) = match &info.location {
            TensorLocation::Whole(span) => (String::new(), span.shard.to_string()),
            TensorLocation::Sliced(parts) => {
                let mut shards: Vec<u32> = parts.iter().map(|(_, span)| span.shard).collect();
                shards.sort_unstable();
                shards.dedup();
                (parts.len().to_string(), shards.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            }
        };
        let (dtype, shape) = (info.dtype.to_string(), info.shape.to_string());
        rows.push(vec![shown(name), dtype, shape, size(info.stored_bytes()), slices, shards]);
    }
    let bytes: u64 = index.tensors().values().map(TensorInfo::stored_bytes).sum();
    let (count, shards) = (index.tensors().len(), index.shards());
    let text = table(&rows)
        + &format!("{}, {} in {}\n", counted(count, "tensor"), size(bytes), counted(shards as usize, "shard"));
    let list: Vec<Value> = index.tensors().iter().map(|(name, info)| described(name, info)).collect();
    let json = json!({ "prefix": found.prefix, "shards": shards, "tensors": list });
    Answer { json, text, good: true, warnings: String::new() }
}

/// The values of one tensor.
pub(super) fn values(found: &Checkpoint, name: &str) -> Result<Answer> {
    let info = found.reader.info(name)?;
    let tensor = found.reader.read(name)?;
    let values = elements(&tensor)?;
    let mut text = format!("{} {}\n", shown(name), kind(info));
    // A float32 has fewer digits than the float64 in JSON.
    let short: Vec<String> = tensor.f32s().map_or_else(
        |_| values.iter().take(SHOWN).map(Value::to_string).collect(),
        |numbers| numbers.iter().take(SHOWN).map(|number| format!("{number:?}")).collect(),
    );
    for value in short {
        text += &format!("{value}\n");
    }
    if values.len() > SHOWN {
        text += &format!("… and {} more (--json for all)\n", values.len() - SHOWN);
    }
    let mut json = described(name, info);
    json["values"] = Value::Array(values);
    Ok(Answer { json, text, good: true, warnings: String::new() })
}

fn described(name: &str, info: &TensorInfo) -> Value {
    let mut object = json!({ "name": name, "dtype": info.dtype.as_str(), "shape": info.shape.dims(), "slices": [] });
    match &info.location {
        TensorLocation::Whole(span) => add_span(&mut object, span),
        TensorLocation::Sliced(parts) => {
            let slice = |(slice, span): &(_, Span)| {
                let mut object = json!({ "slice": ToString::to_string(slice) });
                add_span(&mut object, span);
                object
            };
            object["slices"] = parts.iter().map(slice).collect();
            object["bytes"] = json!(info.stored_bytes());
        }
    }
    object
}

fn add_span(object: &mut Value, span: &Span) {
    (object["bytes"], object["shard"]) = (json!(span.size), json!(span.shard));
    (object["offset"], object["crc32c"]) = (json!(span.offset), json!(format!("{:08x}", span.crc)));
}

/// The values in row-major order. Values of other types are strings of hexadecimal digits.
fn elements(tensor: &Tensor) -> Result<Vec<Value>> {
    Ok(match tensor.dtype {
        Dtype::F32 => tensor.f32s()?.into_iter().map(|number| float(number.into())).collect(),
        Dtype::F64 => tensor.f64s()?.into_iter().map(float).collect(),
        Dtype::I32 => tensor.i32s()?.into_iter().map(Value::from).collect(),
        Dtype::U8 => tensor.u8s()?.into_iter().map(Value::from).collect(),
        Dtype::I64 => tensor.i64s()?.into_iter().map(Value::from).collect(),
        Dtype::Bool => tensor.bools()?.into_iter().map(Value::from).collect(),
        Dtype::String => tensor.strings()?.iter().map(string).collect(),
        dtype => match &tensor.data {
            TensorData::Bytes(bytes) => bytes.chunks(dtype.width().unwrap_or(bytes.len().max(1))).map(hex).collect(),
            TensorData::Strings(strings) => strings.iter().map(string).collect(),
        },
    })
}

/// A number with all its digits. Values that are not finite are strings, because JSON cannot represent them.
fn float(number: f64) -> Value {
    if number.is_finite() { json!(number) } else { json!(number.to_string()) }
}

/// A string, or an object with hexadecimal digits if it is not UTF-8.
fn string(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| json!({ "hex": hex(bytes) }), Value::from)
}

fn hex(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

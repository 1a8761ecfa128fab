//! Tensors and their values.

use phalanx_base::Result;
use phalanx_cluster::Json;
use phalanx_formats::bundle::{Dtype, Place, Span, Tensor, TensorData, TensorInfo};

use super::files::Checkpoint;
use super::{Answer, counted, kind, shown, size, table};

/// So many values are shown to people; programs get all.
const SHOWN: usize = 100;

/// Lists all tensors.
pub(super) fn tensors(found: &Checkpoint) -> Answer {
    let index = found.reader.index();
    let mut rows = vec![["TENSOR", "TYPE", "SHAPE", "SIZE", "SLICES", "SHARD"].map(str::to_owned).to_vec()];
    for (name, info) in index.tensors() {
        let (slices, shards) = match &info.place {
            Place::Whole(span) => (String::new(), span.shard.to_string()),
            Place::Sliced(parts) => {
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
    let list = index.tensors().iter().map(|(name, info)| Json::object(described(name, info)));
    let json = Json::object([
        ("prefix", Json::text(found.prefix.clone())),
        ("shards", Json::number(shards)),
        ("tensors", Json::List(list.collect())),
    ]);
    Answer { json, text, good: true, complaints: String::new() }
}

/// The values of one tensor.
pub(super) fn values(found: &Checkpoint, name: &str) -> Result<Answer> {
    let info = found.reader.info(name)?;
    let tensor = found.reader.read(name)?;
    let values = elements(&tensor)?;
    let mut text = format!("{} {}\n", shown(name), kind(info));
    // A float32 has fewer digits than the float64 that JSON makes of it.
    let short: Vec<String> = tensor.f32s().map_or_else(
        |_| values.iter().take(SHOWN).map(Json::to_string).collect(),
        |numbers| numbers.iter().take(SHOWN).map(|number| format!("{number:?}")).collect(),
    );
    for value in short {
        text += &format!("{value}\n");
    }
    if values.len() > SHOWN {
        text += &format!("… and {} more (--json for all)\n", values.len() - SHOWN);
    }
    let mut entries = described(name, info);
    entries.push(("values", Json::List(values)));
    Ok(Answer { json: Json::object(entries), text, good: true, complaints: String::new() })
}

fn described(name: &str, info: &TensorInfo) -> Vec<(&'static str, Json)> {
    let slices = match &info.place {
        Place::Whole(_) => Vec::new(),
        Place::Sliced(parts) => parts
            .iter()
            .map(|(slice, span)| {
                let slice = ("slice", Json::text(slice.to_string()));
                Json::object(std::iter::once(slice).chain(placed(span)))
            })
            .collect(),
    };
    let shape = info.shape.dims().iter().map(|&size| Json::number(size as u64)).collect();
    let mut entries = vec![
        ("name", Json::text(name)),
        ("dtype", Json::text(info.dtype.as_str())),
        ("shape", Json::List(shape)),
        ("slices", Json::List(slices)),
    ];
    match &info.place {
        Place::Whole(span) => entries.extend(placed(span)),
        Place::Sliced(_) => entries.push(("bytes", Json::number(info.stored_bytes()))),
    }
    entries
}

fn placed(span: &Span) -> [(&'static str, Json); 4] {
    [
        ("bytes", Json::number(span.size)),
        ("shard", Json::number(span.shard)),
        ("offset", Json::number(span.offset)),
        ("crc32c", Json::text(format!("{:08x}", span.crc))),
    ]
}

/// The values in row-major order. Types that have no words here are one text of hexadecimal digits each.
fn elements(tensor: &Tensor) -> Result<Vec<Json>> {
    let whole = |numbers: Vec<i64>| numbers.into_iter().map(Json::number).collect();
    Ok(match tensor.dtype {
        Dtype::F32 => tensor.f32s()?.into_iter().map(|number| float(number.into())).collect(),
        Dtype::F64 => tensor.f64s()?.into_iter().map(float).collect(),
        Dtype::I32 => whole(tensor.i32s()?.into_iter().map(i64::from).collect()),
        Dtype::U8 => whole(tensor.u8s()?.into_iter().map(i64::from).collect()),
        Dtype::I64 => whole(tensor.i64s()?),
        Dtype::Bool => tensor.bools()?.into_iter().map(Json::Bool).collect(),
        Dtype::String => tensor.strings()?.iter().map(string).collect(),
        dtype => match &tensor.data {
            TensorData::Bytes(bytes) => bytes.chunks(dtype.width().unwrap_or(bytes.len().max(1))).map(hex).collect(),
            TensorData::Strings(strings) => strings.iter().map(string).collect(),
        },
    })
}

/// Every `f32` is an `f64`, whose digits give it back exactly. JSON has no words for what is not finite.
fn float(number: f64) -> Json {
    if number.is_finite() { Json::Number(format!("{number:?}")) } else { Json::text(number.to_string()) }
}

/// Text as text, other bytes as an object with hexadecimal digits.
fn string(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::text(text),
        Err(_) => Json::object([("hex", hex(bytes))]),
    }
}

fn hex(bytes: &[u8]) -> Json {
    Json::text(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

//! Arrow's arrays as our columns.
//!
//! Hot: buffers that nobody else holds are taken over as they are.

use super::plan::Wanted;
use crate::missing::{Fill, fill_rows};
use crate::{Column, Strings, Values};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, ByteArrayType, Date32Type, Date64Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    Utf8Type,
};
use arrow_array::{Array, ArrayRef, GenericByteArray, GenericListArray, OffsetSizeTrait, PrimitiveArray};
use arrow_schema::DataType;
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// Why a row is refused.
#[derive(Debug)]
pub(crate) enum BadRow {
    /// A value is missing in a column that must not miss one.
    Missing { column: usize },
    /// A number is beyond int64.
    TooLarge { column: usize, value: u64 },
}

/// Makes a column of an array; rows that are refused are added to `bad`.
pub(crate) fn column(array: ArrayRef, wanted: &Wanted, index: usize, bad: &mut Vec<(usize, BadRow)>) -> Result<Column> {
    if wanted.fill.is_none() && array.null_count() > 0 {
        let missing = (0..array.len()).filter(|&row| array.is_null(row));
        bad.extend(missing.map(|row| (row, BadRow::Missing { column: index })));
    }
    let refuse = |bad: &mut Vec<(usize, BadRow)>, too_large: Vec<(usize, u64)>, row_of: &dyn Fn(usize) -> usize| {
        let refused = |(at, value)| (row_of(at), BadRow::TooLarge { column: index, value });
        bad.extend(too_large.into_iter().map(refused));
    };
    let mut too_large = Vec::new();
    if let Some(width) = wanted.width {
        let items = Arc::clone(array.as_fixed_size_list().values());
        let values = values(items, wanted, &mut too_large)?;
        refuse(bad, too_large, &|item| item / width);
        return Column::new(values).with_row_shape([width]);
    }
    if !wanted.ragged {
        let values = values(array, wanted, &mut too_large)?;
        refuse(bad, too_large, &|row| row);
        return Ok(Column::new(values));
    }
    let nulls = || (0..array.len()).map(|row| array.is_null(row)).collect::<Vec<bool>>();
    let filled = (wanted.has_default && array.null_count() > 0).then(nulls);
    let (splits, items) = match array.as_list_opt::<i64>() {
        Some(list) => list_parts(list),
        None => list_parts(array.as_list::<i32>()),
    };
    drop(array);
    let values = values(items, wanted, &mut too_large)?;
    refuse(bad, too_large, &|item| splits.partition_point(|&split| split <= item).saturating_sub(1));
    match (filled, &wanted.fill) {
        (Some(missing), Some(fill)) => fill_rows(&values, &splits, |row| missing[row], fill),
        _ => Column::new(values).with_splits(splits),
    }
}

/// Where the items of every row end, and the items of all rows.
fn list_parts<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> (Vec<usize>, ArrayRef) {
    let offsets = list.offsets();
    let (first, last) = (place(offsets[0]), place(offsets[offsets.len() - 1]));
    let splits = offsets.iter().map(|&offset| place(offset) - first).collect();
    (splits, list.values().slice(first, last - first))
}

fn place<O: OffsetSizeTrait>(offset: O) -> usize {
    offset.as_usize()
}

fn values(array: ArrayRef, wanted: &Wanted, too_large: &mut Vec<(usize, u64)>) -> Result<Values> {
    let name = &wanted.name;
    // A refused row's value is never seen.
    if wanted.as_float {
        let nulls = array.logical_nulls();
        let Values::I64(integers) = values(array, &Wanted { as_float: false, ..wanted.clone() }, too_large)? else {
            return Err(Error::new(Code::Internal, format!("column {name:?} has no integers")));
        };
        let Some(Fill::F32(fill)) = wanted.fill else {
            return Ok(Values::F32(integers.into_iter().map(|value| value as f32).collect()));
        };
        let float = |(row, value): (usize, i64)| match &nulls {
            Some(nulls) if nulls.is_null(row) => fill,
            _ => value as f32,
        };
        return Ok(Values::F32(integers.into_iter().enumerate().map(float).collect()));
    }
    let float = if let Some(Fill::F32(fill)) = wanted.fill { fill } else { 0.0 };
    let integer = if let Some(Fill::I64(fill)) = wanted.fill { fill } else { 0 };
    let text: &[u8] = if let Some(Fill::Bytes(fill)) = &wanted.fill { fill } else { b"" };
    Ok(match array.data_type() {
        DataType::Float32 => Values::F32(owned::<Float32Type>(array, float)),
        DataType::Float64 => Values::F32(mapped::<Float64Type, _>(&array, float, |value| value as f32)),
        DataType::Int64 => Values::I64(owned::<Int64Type>(array, integer)),
        DataType::Int8 => Values::I64(mapped::<Int8Type, _>(&array, integer, i64::from)),
        DataType::Int16 => Values::I64(mapped::<Int16Type, _>(&array, integer, i64::from)),
        DataType::Int32 => Values::I64(mapped::<Int32Type, _>(&array, integer, i64::from)),
        DataType::UInt8 => Values::I64(mapped::<UInt8Type, _>(&array, integer, i64::from)),
        DataType::UInt16 => Values::I64(mapped::<UInt16Type, _>(&array, integer, i64::from)),
        DataType::UInt32 => Values::I64(mapped::<UInt32Type, _>(&array, integer, i64::from)),
        DataType::UInt64 => Values::I64(unsigned(&array, integer, too_large)),
        DataType::Date32 => Values::I64(mapped::<Date32Type, _>(&array, integer, i64::from)),
        DataType::Date64 => Values::I64(mapped::<Date64Type, _>(&array, integer, |value| value)),
        DataType::Boolean => {
            let array = array.as_boolean();
            Values::I64(array.iter().map(|value| value.map_or(integer, i64::from)).collect())
        }
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => times(&array, wanted, too_large)?,
        DataType::Utf8 => Values::Bytes(strings::<Utf8Type>(array, text)),
        DataType::Binary => Values::Bytes(strings::<BinaryType>(array, text)),
        DataType::LargeUtf8 => Values::Bytes(strings::<LargeUtf8Type>(array, text)),
        DataType::LargeBinary => Values::Bytes(strings::<LargeBinaryType>(array, text)),
        DataType::Utf8View => {
            let array = array.as_string_view();
            Values::Bytes(array.iter().map(|value| value.map_or(text, str::as_bytes)).collect())
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            Values::Bytes(array.iter().map(|value| value.unwrap_or(text)).collect())
        }
        DataType::Dictionary(..) => Values::Bytes(dictionary(&array, text)?),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            Values::Bytes(array.iter().map(|value| value.unwrap_or(text)).collect())
        }
        other => {
            return Err(Error::new(Code::Internal, format!("column {name:?} of type {other} was let through")));
        }
    })
}

/// Times are numbers of their own unit.
fn times(array: &ArrayRef, wanted: &Wanted, too_large: &mut Vec<(usize, u64)>) -> Result<Values> {
    let (data, name) = (array.to_data(), wanted.name.as_str());
    let whole = match array.data_type() {
        DataType::Time32(_) => arrow_array::make_array(retyped(data, DataType::Int32, name)?),
        _ => arrow_array::make_array(retyped(data, DataType::Int64, name)?),
    };
    values(whole, wanted, too_large)
}

fn retyped(data: arrow_data::ArrayData, data_type: DataType, name: &str) -> Result<arrow_data::ArrayData> {
    data.into_builder()
        .data_type(data_type)
        .build()
        .map_err(|error| Error::new(Code::Internal, format!("column {name:?} does not become a number")).because(error))
}

/// The values of an array of the type that is wanted; without a copy where it is the only holder of its buffer.
fn owned<T: ArrowPrimitiveType>(array: ArrayRef, missing: T::Native) -> Vec<T::Native> {
    let data = array.to_data();
    drop(array);
    let (_, values, nulls) = PrimitiveArray::<T>::from(data).into_parts();
    let mut values: Vec<T::Native> =
        values.into_inner().into_vec().unwrap_or_else(|buffer| buffer.typed_data::<T::Native>().to_vec());
    if let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) {
        for (value, valid) in values.iter_mut().zip(&nulls) {
            if !valid {
                *value = missing;
            }
        }
    }
    values
}

fn mapped<T: ArrowPrimitiveType, V: Copy>(array: &ArrayRef, missing: V, map: impl Fn(T::Native) -> V) -> Vec<V> {
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        return array.values().iter().map(|&value| map(value)).collect();
    }
    array.iter().map(|value| value.map_or(missing, &map)).collect()
}

fn unsigned(array: &ArrayRef, missing: i64, too_large: &mut Vec<(usize, u64)>) -> Vec<i64> {
    let array = array.as_primitive::<UInt64Type>();
    let signed = |(at, value): (usize, Option<u64>)| {
        let Some(value) = value else { return missing };
        i64::try_from(value).unwrap_or_else(|_| {
            too_large.push((at, value));
            missing
        })
    };
    array.iter().enumerate().map(signed).collect()
}

/// The words of a dictionary, as categorical columns have them.
fn dictionary<'a>(array: &'a ArrayRef, missing: &'a [u8]) -> Result<Strings> {
    let (dictionary, nulls) = (array.as_any_dictionary(), array.logical_nulls());
    let words = dictionary.values();
    let word: Box<dyn Fn(usize) -> &'a [u8] + 'a> = match words.data_type() {
        DataType::Utf8 => Box::new(|at| words.as_string::<i32>().value(at).as_bytes()),
        DataType::LargeUtf8 => Box::new(|at| words.as_string::<i64>().value(at).as_bytes()),
        DataType::Utf8View => Box::new(|at| words.as_string_view().value(at).as_bytes()),
        other => return Err(Error::new(Code::Internal, format!("a dictionary of {other} was let through"))),
    };
    // Without words every value is missing.
    let keys = if words.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
    let text = |(row, key): (usize, usize)| match &nulls {
        Some(nulls) if nulls.is_null(row) => missing,
        _ => word(key),
    };
    Ok(keys.into_iter().enumerate().map(text).collect())
}

fn strings<T: ByteArrayType>(array: ArrayRef, missing: &[u8]) -> Strings {
    let data = array.to_data();
    drop(array);
    let array = GenericByteArray::<T>::from(data);
    if !missing.is_empty() && array.null_count() > 0 {
        let text = |value: Option<&T::Native>| {
            value.map_or_else(|| missing.to_vec(), |value| AsRef::<[u8]>::as_ref(value).to_vec())
        };
        return array.iter().map(text).collect();
    }
    let (offsets, bytes, _) = array.into_parts();
    let (first, last) = (place(offsets[0]), place(offsets[offsets.len() - 1]));
    // A missing one has no bytes, so that it is empty by itself.
    let ends: Vec<usize> = offsets.iter().map(|&offset| place(offset) - first).collect();
    let bytes = if first == 0 && last == bytes.len() {
        bytes.into_vec().unwrap_or_else(|bytes| bytes.as_slice().to_vec())
    } else {
        bytes.as_slice()[first..last].to_vec()
    };
    Strings::from_parts(ends, bytes).unwrap_or_default()
}

//! Decoded arrays as our columns.
//!
//! Hot: buffers that nobody else holds are taken over as they are.

use super::plan::Wanted;
use crate::{Column, Strings, Values};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, ByteArrayType, Date32Type, Date64Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type, Utf8Type,
};
use arrow_array::{Array, ArrayRef, GenericByteArray, PrimitiveArray};
use arrow_schema::DataType;
use phalanx_base::{Code, Error, Result};

/// Makes a column of an array.
pub(super) fn column(array: ArrayRef, wanted: &Wanted) -> Result<Column> {
    if wanted.required && array.null_count() > 0 {
        let row = (0..array.len()).find(|&row| array.is_null(row)).unwrap_or(0);
        return Err(Error::new(Code::DataRow, "a required value is missing")
            .at(format!("column {:?}, row {row} of the rows being read", wanted.name))
            .help("do not call the column required, or correct the data"));
    }
    if !wanted.ragged {
        return Ok(Column::new(values(array, &wanted.name)?));
    }
    let list = array.as_list::<i32>();
    let offsets = list.offsets();
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let splits = offsets.iter().map(|&offset| (offset - first) as usize).collect();
    let items = list.values().slice(first as usize, (last - first) as usize);
    drop(array);
    Column::new(values(items, &wanted.name)?).with_splits(splits)
}

fn values(array: ArrayRef, name: &str) -> Result<Values> {
    Ok(match array.data_type() {
        DataType::Float32 => Values::F32(owned::<Float32Type>(array, f32::NAN)),
        DataType::Float64 => Values::F32(mapped::<Float64Type, _>(&array, f32::NAN, |value| value as f32)),
        DataType::Int64 => Values::I64(owned::<Int64Type>(array, 0)),
        DataType::Int8 => Values::I64(mapped::<Int8Type, _>(&array, 0, i64::from)),
        DataType::Int16 => Values::I64(mapped::<Int16Type, _>(&array, 0, i64::from)),
        DataType::Int32 => Values::I64(mapped::<Int32Type, _>(&array, 0, i64::from)),
        DataType::UInt8 => Values::I64(mapped::<UInt8Type, _>(&array, 0, i64::from)),
        DataType::UInt16 => Values::I64(mapped::<UInt16Type, _>(&array, 0, i64::from)),
        DataType::UInt32 => Values::I64(mapped::<UInt32Type, _>(&array, 0, i64::from)),
        DataType::UInt64 => Values::I64(unsigned(&array, name)?),
        DataType::Date32 => Values::I64(mapped::<Date32Type, _>(&array, 0, i64::from)),
        DataType::Date64 => Values::I64(mapped::<Date64Type, _>(&array, 0, |value| value)),
        DataType::Boolean => {
            let array = array.as_boolean();
            Values::I64(array.iter().map(|value| i64::from(value == Some(true))).collect())
        }
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => times(&array, name)?,
        DataType::Utf8 => Values::Bytes(strings::<Utf8Type>(array)),
        DataType::Binary => Values::Bytes(strings::<BinaryType>(array)),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            Values::Bytes(array.iter().map(Option::unwrap_or_default).collect())
        }
        other => {
            return Err(Error::new(Code::Internal, format!("column {name:?} of type {other} was let through")));
        }
    })
}

/// Times are numbers of their own unit.
fn times(array: &ArrayRef, name: &str) -> Result<Values> {
    let data = array.to_data();
    let whole = match array.data_type() {
        DataType::Time32(_) => arrow_array::make_array(retyped(data, DataType::Int32, name)?),
        _ => arrow_array::make_array(retyped(data, DataType::Int64, name)?),
    };
    values(whole, name)
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

fn unsigned(array: &ArrayRef, name: &str) -> Result<Vec<i64>> {
    let array = array.as_primitive::<UInt64Type>();
    let value = |value: Option<u64>| {
        i64::try_from(value.unwrap_or(0)).map_err(|_| {
            Error::new(Code::DataRow, format!("{} is not a valid int64", value.unwrap_or(0)))
                .at(format!("column {name:?}"))
                .because("unsigned numbers above 9223372036854775807 have no int64")
        })
    };
    array.iter().map(value).collect()
}

fn strings<T: ByteArrayType<Offset = i32>>(array: ArrayRef) -> Strings {
    let data = array.to_data();
    drop(array);
    let (offsets, bytes, _) = GenericByteArray::<T>::from(data).into_parts();
    let (first, last) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    // A missing one has no bytes, so that it is empty by itself.
    let ends: Vec<usize> = offsets.iter().map(|&offset| offset as usize - first).collect();
    let bytes = if first == 0 && last == bytes.len() {
        bytes.into_vec().unwrap_or_else(|bytes| bytes.as_slice().to_vec())
    } else {
        bytes.as_slice()[first..last].to_vec()
    };
    Strings::from_parts(ends, bytes).unwrap_or_default()
}

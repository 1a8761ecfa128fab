//! The header of an array: a Python dictionary as text.

use crate::strided::{Element, Layout};
use phalanx_base::{Code, Error, Result};
use std::io::Read;

/// No header of NumPy's comes near this.
const MAX_HEADER: u32 = 1 << 20;

/// Reads a header from the start of an array's bytes.
pub(super) fn read(mut stream: &mut dyn Read, place: &str) -> Result<Layout> {
    let wrong = |why: String| Error::new(Code::DataFormat, format!("{place} is not a NumPy array")).because(why);
    let mut take = |count: usize| {
        let mut bytes = Vec::new();
        match (&mut stream).take(count as u64).read_to_end(&mut bytes) {
            Ok(have) if have == count => Ok(bytes),
            Ok(0) => Err(wrong("it is empty, or ends before its header".to_owned())),
            Ok(_) => Err(wrong("it ends inside of its header".to_owned())),
            Err(error) => Err(wrong(error.to_string())),
        }
    };
    let magic = take(8)?;
    let [b'\x93', b'N', b'U', b'M', b'P', b'Y', major, _] = magic[..] else {
        return Err(wrong("it does not begin with \\x93NUMPY".to_owned()));
    };
    let (prefix, length) = match major {
        1 => {
            let bytes = take(2)?;
            (10, u32::from(u16::from_le_bytes([bytes[0], bytes[1]])))
        }
        2 | 3 => {
            let bytes = take(4)?;
            (12, u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        }
        other => return Err(wrong(format!("it has version {other}, which came after this program"))),
    };
    if length > MAX_HEADER {
        return Err(wrong(format!("its header claims {length} bytes")));
    }
    let text = String::from_utf8(take(length as usize)?).map_err(|_| wrong("its header is no text".to_owned()))?;
    let layout = parse(&text, prefix + u64::from(length)).map_err(|why| {
        let error =
            Error::new(Code::DataFormat, format!("{place} cannot be read")).because(format!("{why}: {}", text.trim()));
        if why.contains("Fortran") { error.help("save it with numpy.ascontiguousarray(array)") } else { error }
    })?;
    Ok(layout)
}

fn parse(text: &str, start: u64) -> Result<Layout, &'static str> {
    let descr = value(text, "descr").ok_or("its header has no descr")?;
    let fortran = value(text, "fortran_order").ok_or("its header has no fortran_order")?;
    let shape = value(text, "shape").ok_or("its header has no shape")?;
    let dims = shape.strip_prefix('(').and_then(|rest| rest.split(')').next()).ok_or("its shape is no tuple")?;
    let dims: Vec<&str> = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty()).collect();
    let dims: Option<Vec<usize>> = dims.into_iter().map(|dim| dim.parse().ok()).collect();
    let dims = dims.ok_or("its shape is no tuple of sizes")?;
    let [rows, row_shape @ ..] = dims.as_slice() else { return Err("it is a single value, not one per row") };
    if fortran.starts_with("True") && row_shape.iter().any(|&size| size != 1) {
        return Err("it is in Fortran's order");
    }
    let (element, big_endian) = element(descr)?;
    let layout = Layout { element, big_endian, row_shape: row_shape.to_vec(), rows: *rows as u64, start };
    if layout.stride().is_none_or(|stride| stride > 1 << 30) {
        return Err("its rows have more than 1 GiB");
    }
    Ok(layout)
}

/// The text after `'key':`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let after = text.split_once(&format!("'{key}'"))?.1;
    Some(after.trim_start().strip_prefix(':')?.trim_start())
}

fn element(descr: &str) -> Result<(Element, bool), &'static str> {
    const UNKNOWN: &str = "its type is not one that is read";
    let code = descr.strip_prefix('\'').and_then(|rest| rest.split('\'').next()).ok_or(UNKNOWN)?;
    let order = code.chars().next().ok_or(UNKNOWN)?;
    let (big_endian, code) = match order {
        '<' | '|' | '=' => (false, &code[1..]),
        '>' => (true, &code[1..]),
        _ => (false, code),
    };
    let kind = code.chars().next().ok_or(UNKNOWN)?;
    let size: usize = code.get(kind.len_utf8()..).and_then(|size| size.parse().ok()).ok_or(UNKNOWN)?;
    let element = match (kind, size) {
        ('f', 4) => Element::F32,
        ('f', 8) => Element::F64,
        ('u', 1) => Element::U8,
        ('u', 2) => Element::U16,
        ('u', 4) => Element::U32,
        ('i', 1) => Element::I8,
        ('i', 2) => Element::I16,
        ('i', 4) => Element::I32,
        ('i', 8) => Element::I64,
        ('b', 1) => Element::Bool,
        ('S', 1..) => Element::Bytes(size),
        ('U', 1..) => Element::Unicode(size),
        _ => return Err(UNKNOWN),
    };
    Ok((element, big_endian))
}

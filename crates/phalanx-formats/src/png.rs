//! Writes PNG files of plain pixels.

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use phalanx_base::{Code, Context, Error, Result};
use std::io::Write;

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Returns a PNG file of `width` × `height` pixels with 8-bit channels: 1 for grey, 3 for RGB, 4 for RGBA. Rows come one after
/// another, the topmost first.
///
/// ```
/// let file = phalanx_formats::png::encode(&[0, 255, 255, 0], (2, 2), 1)?;
/// assert!(file.starts_with(b"\x89PNG"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When there is no pixel, the channels are none of those, or `pixels` has another length.
pub fn encode(pixels: &[u8], (width, height): (u32, u32), channels: u8) -> Result<Vec<u8>> {
    let wrong = |why: String| {
        let error = Error::new(Code::ShapeMismatch, "pixels are no picture").because(why);
        error.help("give width × height × channels numbers, with 1, 3 or 4 channels")
    };
    let colour = match channels {
        1 => 0,
        3 => 2,
        4 => 6,
        _ => return Err(wrong(format!("a pixel has {channels} channels"))),
    };
    let row = (width as usize).checked_mul(channels.into()).filter(|&row| row > 0);
    let row = row.ok_or_else(|| wrong(format!("it is {width} × {height} pixels")))?;
    if height == 0 || row.checked_mul(height as usize) != Some(pixels.len()) {
        let found = pixels.len();
        return Err(wrong(format!("there are {found} numbers for {width} × {height} pixels of {channels} channels")));
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    for row in pixels.chunks_exact(row) {
        // Each row begins with its filter: none.
        packed.write_all(&[0]).and_then(|()| packed.write_all(row)).context(Code::Internal, "pixels are not packed")?;
    }
    let packed = packed.finish().context(Code::Internal, "pixels are not packed")?;
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, colour, 0, 0, 0]);
    let mut file = SIGNATURE.to_vec();
    for (name, content) in [(b"IHDR", header), (b"IDAT", packed), (b"IEND", Vec::new())] {
        chunk(&mut file, name, &content)?;
    }
    Ok(file)
}

fn chunk(file: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) -> Result<()> {
    let length = u32::try_from(content.len()).context(Code::ShapeMismatch, "a picture is too large")?;
    let mut sum = Crc::new();
    sum.update(name);
    sum.update(content);
    file.extend(length.to_be_bytes());
    file.extend_from_slice(name);
    file.extend_from_slice(content);
    file.extend(sum.sum().to_be_bytes());
    Ok(())
}

/// Returns the width, the height and the number of channels of a PNG file; `None` if it is none.
#[must_use]
pub fn size(file: &[u8]) -> Option<(u32, u32, u8)> {
    let header = file.strip_prefix(SIGNATURE)?.get(4..)?.strip_prefix(b"IHDR")?;
    let number = |at: usize| header.get(at..at + 4).and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?)));
    let channels = match header.get(9)? {
        0 => 1,
        // A palette has colours.
        2 | 3 => 3,
        4 => 2,
        6 => 4,
        _ => return None,
    };
    Some((number(0)?, number(4)?, channels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read;

    /// Returns the chunks of a file, whose sums are right.
    fn chunks(mut file: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        file = file.strip_prefix(SIGNATURE).expect("a PNG file");
        while let [a, b, c, d, rest @ ..] = file {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let mut sum = Crc::new();
            sum.update(&rest[..4 + length]);
            assert_eq!(sum.sum().to_be_bytes(), rest[4 + length..][..4]);
            all.push((String::from_utf8_lossy(&rest[..4]).into_owned(), rest[4..4 + length].to_vec()));
            file = &rest[8 + length..];
        }
        all
    }

    #[test]
    fn pixels_are_packed_row_by_row() {
        let pixels: Vec<u8> = (0..24).collect();
        let file = encode(&pixels, (4, 2), 3).unwrap();
        let chunks = chunks(&file);
        assert_eq!(chunks.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["IHDR", "IDAT", "IEND"]);
        assert_eq!(chunks[0].1, [0, 0, 0, 4, 0, 0, 0, 2, 8, 2, 0, 0, 0]);
        let mut rows = Vec::new();
        ZlibDecoder::new(&chunks[1].1[..]).read_to_end(&mut rows).unwrap();
        assert_eq!(rows, [&[0][..], &pixels[..12], &[0], &pixels[12..]].concat());
        assert_eq!(size(&file), Some((4, 2, 3)));
        assert_eq!(size(&file[..20]), None);
        assert_eq!(size(b"GIF89a"), None);
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for (pixels, size, channels) in [(0, (0, 3), 1), (0, (3, 0), 1), (8, (2, 2), 2), (5, (2, 2), 1)] {
            let error = encode(&vec![0; pixels], size, channels).unwrap_err();
            assert_eq!(error.code(), Code::ShapeMismatch);
        }
        assert!(encode(&[], (u32::MAX, u32::MAX), 4).is_err());
    }
}

//! Owns: taking apart what the writer of a batch has compressed, within a bound.
//! Does not: compress: what we write is as it is.

use std::io::Read;

use crate::failure::Malformed;

/// No batch is larger, bytes: sixteen of the largest lines. What is beyond is a bomb.
pub(crate) const MOST: usize = 16 << 20;

/// The bytes of a batch, by the lower bits of its attributes.
pub(crate) fn decompress(method: i16, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let wrong = Malformed("a compressed batch is damaged");
    match method {
        1 => gzip(bytes),
        2 => snappy(bytes),
        3 => bounded(lz4_flex::frame::FrameDecoder::new(bytes)),
        4 => bounded(zstd::stream::read::Decoder::new(bytes).map_err(|_| wrong)?),
        _ => Err(Malformed("a batch is compressed in an unknown way")),
    }
}

fn bounded(reader: impl Read) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::new();
    let read = reader.take(MOST as u64 + 1).read_to_end(&mut out);
    read.map_err(|_| Malformed("a compressed batch is damaged"))?;
    if out.len() > MOST { Err(Malformed("a batch is too large")) } else { Ok(out) }
}

/// RFC 1952, one member; its checksum is not looked at, as the batch has one.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let wrong = Malformed("a gzip batch is damaged");
    let (head, mut rest) = bytes.split_first_chunk::<10>().ok_or(wrong)?;
    if head[..3] != [0x1f, 0x8b, 8] {
        return Err(wrong);
    }
    let flags = head[3];
    if flags & 4 != 0 {
        let (len, after) = rest.split_first_chunk::<2>().ok_or(wrong)?;
        rest = after.get(u16::from_le_bytes(*len).into()..).ok_or(wrong)?;
    }
    // Name and comment, each up to its zero.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let end = rest.iter().position(|&byte| byte == 0).ok_or(wrong)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & 2 != 0 {
        rest = rest.get(2..).ok_or(wrong)?;
    }
    miniz_oxide::inflate::decompress_to_vec_with_limit(rest, MOST).map_err(|_| wrong)
}

/// As it is, or in the blocks of the Java library: eight bytes of magic, two versions, then each block with its length.
fn snappy(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let wrong = Malformed("a snappy batch is damaged");
    let Some(mut rest) = bytes.strip_prefix(b"\x82SNAPPY\0") else { return block(bytes, MOST) };
    rest = rest.get(8..).ok_or(wrong)?;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (len, after) = rest.split_first_chunk::<4>().ok_or(wrong)?;
        let (taken, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize).ok_or(wrong)?;
        out.extend(block(taken, MOST - out.len())?);
        rest = after;
    }
    Ok(out)
}

fn block(bytes: &[u8], most: usize) -> Result<Vec<u8>, Malformed> {
    let wrong = Malformed("a snappy batch is damaged");
    let len = snap::raw::decompress_len(bytes).map_err(|_| wrong)?;
    if len > most {
        return Err(Malformed("a batch is too large"));
    }
    snap::raw::Decoder::new().decompress_vec(bytes).map_err(|_| wrong)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn each_method_within_its_bound() {
        let text = b"a line of text, and the same line of text".repeat(100);
        let bomb = vec![0; MOST + 1];
        let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
        lz4.write_all(&text).unwrap();
        let raw = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
        let mut java = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
        for part in text.chunks(1000) {
            let part = raw(part);
            java.extend((part.len() as u32).to_be_bytes());
            java.extend(part);
        }
        let gzip = |bytes: &[u8]| {
            // With a name and an extra field.
            let mut out = vec![0x1f, 0x8b, 8, 4 | 8, 0, 0, 0, 0, 0, 3, 2, 0, 9, 9, b'n', 0];
            out.extend(miniz_oxide::deflate::compress_to_vec(bytes, 6));
            out.extend([0; 8]);
            out
        };
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
        let all = [(1, gzip(&text)), (2, raw(&text)), (2, java), (3, lz4.finish().unwrap()), (4, zstd(&text))];
        for (method, bytes) in all {
            assert_eq!(decompress(method, &bytes).as_deref(), Ok(&text[..]), "{method}");
            for at in 0..bytes.len().min(200) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x55;
                let _ = decompress(method, &damaged);
                let _ = decompress(method, &bytes[..at]);
            }
        }
        for (method, bytes) in [(1, gzip(&bomb)), (2, raw(&bomb)), (4, zstd(&bomb))] {
            assert!(decompress(method, &bytes).is_err(), "{method}");
        }
        assert!(decompress(5, b"").is_err());
    }
}

//! Owns: the modifiers that write a value in another way: UTF-16 and Base64.
//! Does not: decode anything.

use alloc::string::String;
use alloc::vec::Vec;

use data_encoding::BASE64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf16Le,
    Utf16Be,
    /// With a byte-order mark.
    Utf16,
    Base64,
    /// As it can stand anywhere inside of a longer encoded text.
    Base64Offset,
}

impl Encoding {
    pub(super) fn named(modifier: &str) -> Option<Self> {
        Some(match modifier {
            "wide" | "utf16le" => Self::Utf16Le,
            "utf16be" => Self::Utf16Be,
            "utf16" => Self::Utf16,
            "base64" => Self::Base64,
            "base64offset" => Self::Base64Offset,
            _ => return None,
        })
    }
}

/// The encoded forms of a value; `None` when they are no text at the end (UTF-16 without Base64 after it).
pub(super) fn encode(value: &str, encodings: &[Encoding]) -> Option<Vec<String>> {
    let mut forms = Vec::from([value.as_bytes().to_vec()]);
    for encoding in encodings {
        forms = forms.iter().flat_map(|bytes| once(bytes, *encoding)).collect();
    }
    let text = matches!(encodings.last(), Some(Encoding::Base64 | Encoding::Base64Offset));
    if !text {
        return None;
    }
    forms.into_iter().map(|bytes| String::from_utf8(bytes).ok()).collect()
}

fn once(bytes: &[u8], encoding: Encoding) -> Vec<Vec<u8>> {
    let units = || String::from_utf8_lossy(bytes).encode_utf16().collect::<Vec<_>>();
    Vec::from([match encoding {
        Encoding::Utf16Le => units().into_iter().flat_map(u16::to_le_bytes).collect(),
        Encoding::Utf16Be => units().into_iter().flat_map(u16::to_be_bytes).collect(),
        Encoding::Utf16 => [0xfeff].into_iter().chain(units()).flat_map(u16::to_le_bytes).collect(),
        Encoding::Base64 => BASE64.encode(bytes).into_bytes(),
        Encoding::Base64Offset => return (0..3).map(|shift| shifted(bytes, shift)).collect(),
    }])
}

/// What of the encoded value does not depend on the bytes around it, when `shift` bytes of a group of three precede it.
fn shifted(bytes: &[u8], shift: usize) -> Vec<u8> {
    let mut padded = alloc::vec![b' '; shift];
    padded.extend_from_slice(bytes);
    let encoded = BASE64.encode(&padded).into_bytes();
    let from = [0, 2, 3][shift];
    let cut = [0, 3, 2][padded.len() % 3];
    encoded[from.min(encoded.len() - cut)..encoded.len() - cut].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        use Encoding::{Base64, Base64Offset, Utf16Le};
        assert_eq!(encode("foobar", &[Base64]).unwrap(), ["Zm9vYmFy"]);
        assert_eq!(encode("foobar", &[Base64Offset]).unwrap(), ["Zm9vYmFy", "Zvb2Jhc", "mb29iYX"]);
        assert_eq!(encode("ab", &[Utf16Le, Base64]).unwrap(), ["YQBiAA=="]);
        assert_eq!(encode("ab", &[Utf16Le]), None);
    }

    #[test]
    fn an_offset_form_is_found_wherever_the_value_stands() {
        let forms = encode("attack", &[Encoding::Base64Offset]).unwrap();
        for before in 0..7 {
            for after in 0..7 {
                let whole = [vec![b'x'; before], b"attack".to_vec(), vec![b'y'; after]].concat();
                assert!(BASE64.encode(&whole).contains(&forms[before % 3]), "{before} {after}");
            }
        }
    }
}

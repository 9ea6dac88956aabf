//! Owns: what rules ask of a certificate (X.509, RFC 5280): subject, issuer and serial number.
//! Does not: check it.

/// The parts of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// Serial number, most significant byte first.
    pub serial: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
    /// From when on and until when it holds, as ASN.1 writes times: tag and digits.
    validity: &'a [u8],
}

/// An element of DER: its tag, its content, and what follows; lengths of up to four bytes.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

const INTEGER: u8 = 2;
const OID: u8 = 6;
const BMP_STRING: u8 = 30;
const SEQUENCE: u8 = 0x30;
/// `[0] EXPLICIT`, the version.
const VERSION: u8 = 0xa0;

fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// Reads a certificate.
#[must_use]
pub fn certificate(der: &[u8]) -> Option<Certificate<'_>> {
    let (whole, _) = expect(der, SEQUENCE)?;
    let (mut rest, _) = expect(whole, SEQUENCE)?;
    if let Some((_, behind)) = expect(rest, VERSION) {
        rest = behind;
    }
    let (serial, rest) = expect(rest, INTEGER)?;
    let (_algorithm, rest) = expect(rest, SEQUENCE)?;
    let (issuer, rest) = expect(rest, SEQUENCE)?;
    let (validity, rest) = expect(rest, SEQUENCE)?;
    let (subject, _) = expect(rest, SEQUENCE)?;
    Some(Certificate { serial, issuer, subject, validity })
}

/// Attributes by the identifier's bytes, with the names that Suricata's rules know: the usual ones (RFC 4519, RFC 2985), `Email`, and
/// Microsoft's of extended validation.
const NAMES: &[(&[u8], &[u8])] = &[
    (b"\x55\x04\x00", b"objectClass"),
    (b"\x55\x04\x01", b"aliasedEntryName"),
    (b"\x55\x04\x02", b"knowledgeInformation"),
    (b"\x55\x04\x03", b"CN"),
    (b"\x55\x04\x04", b"surname"),
    (b"\x55\x04\x05", b"serialNumber"),
    (b"\x55\x04\x06", b"C"),
    (b"\x55\x04\x07", b"L"),
    (b"\x55\x04\x08", b"ST"),
    (b"\x55\x04\x09", b"streetAddress"),
    (b"\x55\x04\x0a", b"O"),
    (b"\x55\x04\x0b", b"OU"),
    (b"\x55\x04\x0c", b"title"),
    (b"\x55\x04\x0d", b"description"),
    (b"\x55\x04\x0e", b"searchGuide"),
    (b"\x55\x04\x0f", b"businessCategory"),
    (b"\x55\x04\x10", b"postalAddress"),
    (b"\x55\x04\x11", b"postalCode"),
    (b"\x55\x04\x29", b"name"),
    (b"\x55\x04\x2a", b"givenName"),
    (b"\x55\x04\x2b", b"initials"),
    (b"\x55\x04\x2c", b"generationQualifier"),
    (b"\x55\x04\x2d", b"uniqueIdentifier"),
    (b"\x55\x04\x2e", b"dnQualifier"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x01", b"msJurisdictionLocality"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x02", b"msJurisdictionStateOrProvince"),
    (b"\x2b\x06\x01\x04\x01\x82\x37\x3c\x02\x01\x03", b"msJurisdictionCountry"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01", b"Email"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x02", b"unstructuredName"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x07", b"challengePassword"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x14", b"friendlyName"),
    (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01", b"uid"),
    (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19", b"DC"),
];

/// Numbers of an identifier that are written.
const MOST_NUMBERS: usize = 32;

/// Puts an identifier as `OID(1.2.840)` (X.690 §8.19), its first [`MOST_NUMBERS`] numbers.
fn identifier(id: &[u8], put: &mut dyn FnMut(&[u8])) {
    let (mut number, mut count) = (0u64, 0);
    put(b"OID(");
    for &byte in id {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 || count == MOST_NUMBERS {
            continue;
        }
        if count == 0 {
            // The first byte has two of them.
            let first = (number / 40).min(2);
            decimal(first, put);
            number -= 40 * first;
        }
        put(b".");
        decimal(number, put);
        (number, count) = (0, count + 1);
    }
    put(b")");
}

fn decimal(mut number: u64, put: &mut dyn FnMut(&[u8])) {
    let (mut digits, mut at) = ([0; 20], 20);
    while at == 20 || number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    put(&digits[at..]);
}

/// A time in UTC: `YYMMDDHHMMSSZ` or with four digits of the year.
fn time(tag: u8, text: &[u8]) -> Option<String> {
    const UTC_TIME: u8 = 23;
    const GENERALIZED_TIME: u8 = 24;
    let digits = text.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let digits = std::str::from_utf8(digits).ok()?;
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => (format!("{}{}", if &digits[..2] < "50" { "20" } else { "19" }, &digits[..2]), &digits[2..]),
        (GENERALIZED_TIME, 14) => (digits[..4].to_owned(), &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| &rest[at..at + 2]);
    Some(format!("{year}-{month}-{day}T{hour}:{minute}:{second}"))
}

/// Puts a name together: `C=US, O=Example, CN=example.org`.
fn name(rdns: &[u8], put: &mut dyn FnMut(&[u8])) {
    let (mut rest, mut is_first) = (rdns, true);
    while let Some((_, set, behind)) = element(rest) {
        rest = behind;
        let mut attributes = set;
        while let Some((attribute, behind)) = expect(attributes, SEQUENCE) {
            attributes = behind;
            let Some((id, value)) = expect(attribute, OID) else { continue };
            let Some((kind, value, _)) = element(value) else { continue };
            if !std::mem::take(&mut is_first) {
                put(b", ");
            }
            let known = NAMES.iter().find(|(of, _)| *of == id);
            match known {
                Some((_, name)) => put(name),
                None => identifier(id, put),
            }
            put(b"=");
            if kind == BMP_STRING {
                // Two bytes a letter; of those beyond Latin-1 only the lower one is left.
                value.chunks_exact(2).for_each(|pair| put(&pair[1..]));
            } else {
                put(value);
            }
        }
    }
}

impl Certificate<'_> {
    /// From when on and until when it holds, as `2024-01-31T00:00:00`; `None` where the times are none (RFC 5280 §4.1.2.5).
    #[must_use]
    pub fn validity(&self) -> Option<[String; 2]> {
        let (first, from, rest) = element(self.validity)?;
        let (second, to, _) = element(rest)?;
        Some([time(first, from)?, time(second, to)?])
    }

    /// Whose it is.
    pub fn subject(&self, put: &mut dyn FnMut(&[u8])) {
        name(self.subject, put);
    }

    /// Who says so.
    pub fn issuer(&self, put: &mut dyn FnMut(&[u8])) {
        name(self.issuer, put);
    }

    /// The serial number as `0A:1B`.
    pub fn serial_text(&self, put: &mut dyn FnMut(&[u8])) {
        for (place, &byte) in self.serial.iter().enumerate() {
            let digit = |half: u8| b"0123456789ABCDEF"[usize::from(half & 15)];
            let text = [b':', digit(byte >> 4), digit(byte)];
            put(&text[usize::from(place == 0)..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        [&[tag, 0x82][..], &(content.len() as u16).to_be_bytes(), &content].concat()
    }

    fn attribute(id: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        der(0x31, &[&der(SEQUENCE, &[&der(OID, &[id]), &der(tag, &[value])])])
    }

    fn text(write: impl Fn(&mut dyn FnMut(&[u8]))) -> String {
        let mut out = Vec::new();
        write(&mut |part| out.extend_from_slice(part));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_and_serial() {
        let issuer = [attribute(b"\x55\x04\x06", 19, b"US"), attribute(b"\x55\x04\x0a", 12, b"Example, Inc")].concat();
        let subject = [
            attribute(b"\x55\x04\x03", BMP_STRING, b"\0a\0b"),
            attribute(b"\x2a\x03", 12, b"x"),
            attribute(b"\x88\x37\x81\x80\x00", 12, b"y"),
            attribute(b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01", 22, b"z"),
        ]
        .concat();
        let tbs = der(
            SEQUENCE,
            &[
                &der(VERSION, &[&der(INTEGER, &[&[2]])]),
                &der(INTEGER, &[&[0x0a, 0xff]]),
                &der(SEQUENCE, &[]),
                &der(SEQUENCE, &[&issuer]),
                &der(SEQUENCE, &[&der(23, &[b"240131235959Z"]), &der(24, &[b"20510101000000Z"])]),
                &der(SEQUENCE, &[&subject]),
            ],
        );
        let whole = der(SEQUENCE, &[&tbs]);
        let found = certificate(&whole).unwrap();
        assert_eq!(text(|put| found.issuer(put)), "C=US, O=Example, Inc");
        assert_eq!(text(|put| found.subject(put)), "CN=ab, OID(1.2.3)=x, OID(2.999.16384)=y, Email=z");
        assert_eq!(text(|put| found.serial_text(put)), "0A:FF");
        assert_eq!(found.validity().unwrap(), ["2024-01-31T23:59:59", "2051-01-01T00:00:00"]);
        for cut in 0..whole.len() {
            assert_eq!(certificate(&whole[..cut]), None, "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(prop::sample::select(&[0x30u8, 0x31, 2, 6, 0x82, 0, 1, 4, 0xa0][..]), 0..60)) {
            if let Some(found) = certificate(&bytes) {
                found.subject(&mut |_| {});
            }
        }
    }
}

//! Object identifiers as they stand in a message: encoded arcs, borrowed.
//!
//! Owns their coding (X.690 §8.19), bounds and text. Names are `mib`'s.

use std::fmt;

/// Most arcs of an object identifier (RFC 2578 §3.5).
pub const MAX_ARCS: usize = 128;

/// An encoded object identifier; [`Oid::new`] has made sure that it can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Oid<'a>(&'a [u8]);

impl<'a> Oid<'a> {
    /// Checks the content of an OBJECT IDENTIFIER: no arc above 2³²−1, none cut, at most 128. Empty content is the
    /// identifier 0.0, which net-snmp sends so.
    pub fn new(content: &'a [u8]) -> Option<Self> {
        let mut arcs = usize::from(!content.is_empty());
        let mut value = 0u64;
        let mut open = false;
        for &byte in content {
            value = value << 7 | u64::from(byte & 0x7f);
            // The first subidentifier holds two arcs: 40 × first + second.
            if value > u64::from(u32::MAX) + if arcs == 1 { 80 } else { 0 } {
                return None;
            }
            open = byte & 0x80 != 0;
            if !open {
                arcs += 1;
                value = 0;
            }
        }
        (!open && arcs <= MAX_ARCS).then_some(Self(content))
    }

    /// The encoded arcs.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The arcs in order.
    pub fn arcs(self) -> impl Iterator<Item = u32> + 'a {
        let mut rest = self.0;
        let mut second = None;
        let mut first = true;
        std::iter::from_fn(move || {
            if let Some(arc) = second.take() {
                return Some(arc);
            }
            if std::mem::take(&mut first) {
                let both = subidentifier(&mut rest).unwrap_or(0);
                let root = (both / 40).min(2);
                second = Some((both - root * 40) as u32);
                return Some(root as u32);
            }
            subidentifier(&mut rest).map(|arc| arc as u32)
        })
    }

    /// What follows `prefix`, both as encoded arcs; `None` when it does not begin so.
    pub fn suffix(self, prefix: &[u8]) -> Option<Suffix<'a>> {
        self.0.strip_prefix(prefix).map(Suffix)
    }
}

/// The end of an object identifier: an instance within a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Suffix<'a>(&'a [u8]);

impl Suffix<'_> {
    /// Whether nothing follows.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Suffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut dot = "";
        while let Some(arc) = subidentifier(&mut rest) {
            write!(f, "{dot}{arc}")?;
            dot = ".";
        }
        Ok(())
    }
}

fn subidentifier(rest: &mut &[u8]) -> Option<u64> {
    let end = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let (these, others) = rest.split_at(end);
    *rest = others;
    Some(these.iter().fold(0, |value, &byte| value << 7 | u64::from(byte & 0x7f)))
}

impl fmt::Display for Oid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, arc) in self.arcs().enumerate() {
            write!(f, "{}{arc}", if index == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Oid<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Encodes arcs; the first two share a subidentifier.
pub fn encode(arcs: &[u32]) -> Vec<u8> {
    let first = u64::from(arcs.first().copied().unwrap_or(0)) * 40 + u64::from(arcs.get(1).copied().unwrap_or(0));
    let mut bytes = Vec::with_capacity(arcs.len() + 4);
    for arc in std::iter::once(first).chain(arcs.iter().skip(2).map(|&arc| arc.into())) {
        let groups = (64 - arc.leading_zeros()).div_ceil(7).max(1);
        for group in (0..groups).rev() {
            bytes.push((arc >> (7 * group)) as u8 & 0x7f | if group == 0 { 0 } else { 0x80 });
        }
    }
    bytes
}

/// Reads `1.3.6.1` or `.1.3.6.1`.
pub fn parse(text: &str) -> Option<Vec<u32>> {
    let arcs: Option<Vec<u32>> =
        text.strip_prefix('.').unwrap_or(text).split('.').map(|arc| arc.parse().ok()).collect();
    arcs.filter(|arcs| (2..=MAX_ARCS).contains(&arcs.len()) && arcs[0] <= 2 && (arcs[0] == 2 || arcs[1] < 40))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_kept() {
        assert!(Oid::new(&[0x2b, 0x8f, 0xff, 0xff, 0xff, 0x7f]).is_some());
        assert!(Oid::new(&[0x2b, 0x90, 0x80, 0x80, 0x80, 0x00]).is_none(), "2^32");
        assert!(Oid::new(&[0x2b, 0x81]).is_none(), "cut");
        assert!(Oid::new(&[1; 127]).is_some());
        assert!(Oid::new(&[1; 128]).is_none(), "129 arcs");
        assert_eq!(Oid::new(&[]).unwrap().to_string(), "0.0");
    }

    proptest! {
        #[test]
        fn arcs_come_back(root in 0u32..3, second in 0u32..40, more in prop::collection::vec(any::<u32>(), 0..126)) {
            let arcs: Vec<u32> = [root, second].into_iter().chain(more).collect();
            let bytes = encode(&arcs);
            let oid = Oid::new(&bytes).unwrap();
            prop_assert_eq!(oid.arcs().collect::<Vec<_>>(), &arcs[..]);
            prop_assert_eq!(parse(&oid.to_string()), Some(arcs));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(oid) = Oid::new(&bytes) {
                prop_assert!(oid.arcs().count() <= MAX_ARCS);
                prop_assert!(!oid.to_string().is_empty());
            }
        }
    }
}

//! Owns: walking option lists: the kind/length form of IPv4 (RFC 791 §3.1) and TCP (RFC 9293 §3.1), and the
//! type/length form of IPv6 hop-by-hop and destination options (RFC 8200 §4.2).
//! Does not: know what a kind means; [`TcpOption`](crate::TcpOption) and its like do.

/// One option: its kind and its data, without kind and length bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// Kind (TCP), or the whole type byte with copied flag and class (IPv4), or type (IPv6).
    pub kind: u8,
    /// What follows the length byte; empty for kinds that have none.
    pub data: &'a [u8],
}

/// An option whose length is below the minimum or reaches past the end of the list. The walk ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption {
    /// Offset of the option from the start of the list, in bytes.
    pub at: usize,
    /// Its kind.
    pub kind: u8,
}

impl core::fmt::Display for BadOption {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "option {} at offset {} has an impossible length", self.kind, self.at)
    }
}

impl core::error::Error for BadOption {}

/// The options of an IPv4 or a TCP header. Ends at "end of option list" (0), at the end of the header, or
/// behind the first [`BadOption`]. "No operation" (1) is given like any other.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    list: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// Walks `list`, at most one item per byte.
    #[inline]
    #[must_use]
    pub const fn new(list: &'a [u8]) -> Self {
        Self { list, at: 0 }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<RawOption<'a>, BadOption>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.list.get(at..)?;
        match *rest {
            [] | [0, ..] => {
                self.at = self.list.len();
                None
            }
            [1, ..] => {
                self.at += 1;
                Some(Ok(RawOption { kind: 1, data: &[] }))
            }
            [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                self.at += usize::from(len);
                Some(Ok(RawOption { kind, data: &rest[2..usize::from(len)] }))
            }
            [kind, ..] => {
                self.at = self.list.len();
                Some(Err(BadOption { at, kind }))
            }
        }
    }
}

/// The options of an IPv6 hop-by-hop or destination header. Padding (Pad1 = 0, PadN = 1) is left out.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Options<'a> {
    list: &'a [u8],
    at: usize,
}

impl<'a> Ipv6Options<'a> {
    /// Walks `list`, at most one item per byte.
    #[inline]
    #[must_use]
    pub const fn new(list: &'a [u8]) -> Self {
        Self { list, at: 0 }
    }
}

impl<'a> Iterator for Ipv6Options<'a> {
    type Item = Result<RawOption<'a>, BadOption>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.at;
            let rest = self.list.get(at..)?;
            match *rest {
                [] => return None,
                [0, ..] => self.at += 1,
                [kind, len, ..] if usize::from(len) + 2 <= rest.len() => {
                    let end = usize::from(len) + 2;
                    self.at += end;
                    if kind != 1 {
                        return Some(Ok(RawOption { kind, data: &rest[2..end] }));
                    }
                }
                [kind, ..] => {
                    self.at = self.list.len();
                    return Some(Err(BadOption { at, kind }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn kind_length_list() {
        let found: Vec<_> = Options::new(&[1, 2, 4, 5, 0xb4, 0, 9, 9]).collect();
        assert_eq!(found, [Ok(RawOption { kind: 1, data: &[] }), Ok(RawOption { kind: 2, data: &[5, 0xb4] })]);
    }

    #[test]
    fn bad_lengths_end_the_walk() {
        for list in [&[1u8, 8][..], &[1, 8, 0, 1], &[1, 8, 1, 1], &[1, 8, 9, 1]] {
            let found: Vec<_> = Options::new(list).skip(1).collect();
            assert_eq!(found, [Err(BadOption { at: 1, kind: 8 })], "{list:?}");
        }
    }

    #[test]
    fn type_length_list() {
        let found: Vec<_> = Ipv6Options::new(&[0, 1, 1, 0, 0xc2, 4, 0, 1, 0, 0, 5, 9]).collect();
        assert_eq!(found, [Ok(RawOption { kind: 0xc2, data: &[0, 1, 0, 0] }), Err(BadOption { at: 10, kind: 5 })]);
        assert_eq!(Ipv6Options::new(&[5, 0]).next(), Some(Ok(RawOption { kind: 5, data: &[] })));
    }
}

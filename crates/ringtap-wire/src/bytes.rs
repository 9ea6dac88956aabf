//! Owns: reading fixed big-endian fields out of a slice that a view's constructor has measured.
//! Does not: check lengths. A view whose constructor admits a slice shorter than its fields is a bug of that view.

use core::ops::Range;

/// The bytes of `field`, which must be exactly `N` long and lie inside `bytes`.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], field: Range<usize>) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[field]);
    out
}

/// A 16-bit field in network byte order.
#[inline]
pub(crate) fn be16(bytes: &[u8], field: Range<usize>) -> u16 {
    u16::from_be_bytes(array(bytes, field))
}

/// A 24-bit field in network byte order.
#[inline]
pub(crate) fn be24(bytes: &[u8], field: Range<usize>) -> u32 {
    let [high, middle, low] = array(bytes, field);
    u32::from_be_bytes([0, high, middle, low])
}

/// A 32-bit field in network byte order.
#[inline]
pub(crate) fn be32(bytes: &[u8], field: Range<usize>) -> u32 {
    u32::from_be_bytes(array(bytes, field))
}

/// The part of `bytes` from `from` up to but excluding `to`, each cut to what is there. Never panics.
#[inline]
pub(crate) fn within(bytes: &[u8], from: usize, to: usize) -> &[u8] {
    let to = to.min(bytes.len());
    &bytes[from.min(to)..to]
}

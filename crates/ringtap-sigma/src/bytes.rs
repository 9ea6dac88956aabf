//! Owns: the one form in which this crate writes and reads bytes: little-endian numbers, lengths before contents.
//! Does not: know what the bytes mean. Whatever is read is checked: damaged bytes are an error, never a panic.

use alloc::string::String;
use alloc::vec::Vec;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Offset at which it was noticed, bytes.
    pub at: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl core::fmt::Display for Damaged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "byte {}: expected {}", self.at, self.expected)
    }
}

impl core::error::Error for Damaged {}

/// Appends to a vector.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A count. What is counted is bounded far below 2³².
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(crate) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(crate) fn list<T>(&mut self, list: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.count(list.len());
        for item in list {
            write(self, item);
        }
    }
}

/// Reads from a slice.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn damaged(&self, expected: &'static str) -> Damaged {
        Damaged { at: self.at, expected }
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8], Damaged> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or(self.damaged("more bytes"))?;
        self.at += len;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Damaged> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Damaged> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Damaged> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Damaged> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Damaged> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A count of items that take at least one byte each, so that a damaged one asks for no memory.
    pub(crate) fn count(&mut self) -> Result<usize, Damaged> {
        let count = self.u32()? as usize;
        if count > self.bytes.len() - self.at {
            return Err(self.damaged("as many items as were counted"));
        }
        Ok(count)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let len = self.count()?;
        self.raw(len)
    }

    pub(crate) fn text(&mut self) -> Result<String, Damaged> {
        let at = self.at;
        let bytes = self.bytes()?;
        core::str::from_utf8(bytes).map(Into::into).map_err(|_| Damaged { at, expected: "UTF-8" })
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Damaged> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged("0 or 1")),
        }
    }

    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    pub(crate) fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, Damaged>) -> Result<Vec<T>, Damaged> {
        let count = self.count()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// Nothing may follow.
    pub(crate) fn end(&self) -> Result<(), Damaged> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.damaged("the end")) }
    }
}

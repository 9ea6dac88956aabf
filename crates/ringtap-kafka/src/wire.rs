//! Owns: the primitive types of Kafka's protocol: big endian, with lengths in front; variable-length numbers of record batches.
//! Does not: allocate more than was received, or know a message.

use crate::failure::Malformed;

/// Appends values to a message.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// A byte.
    pub fn i8(&mut self, value: i8) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// Two bytes.
    pub fn i16(&mut self, value: i16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// Four bytes.
    pub fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// Eight bytes.
    pub fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// A text of up to 32,767 bytes; what is longer is cut, as no name is.
    pub fn string(&mut self, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(i16::MAX as usize)];
        self.i16(bytes.len() as i16);
        self.0.extend_from_slice(bytes);
    }

    /// No text.
    pub fn null_string(&mut self) {
        self.i16(-1);
    }

    /// Bytes, below 2 GiB.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.i32(bytes.len() as i32);
        self.0.extend_from_slice(bytes);
    }

    /// An array: its length, then each element.
    pub fn array<T>(&mut self, elements: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.i32(elements.len() as i32);
        elements.iter().for_each(|element| each(self, element));
    }

    /// A number in as few bytes as it needs (ZigZag and base 128).
    pub fn varint(&mut self, value: i64) {
        let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }
}

/// Reads values of a message, which may be anything.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// So many bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array_of<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A byte.
    ///
    /// # Errors
    /// There is none.
    pub fn i8(&mut self) -> Result<i8, Malformed> {
        self.array_of().map(i8::from_be_bytes)
    }

    /// Two bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn i16(&mut self) -> Result<i16, Malformed> {
        self.array_of().map(i16::from_be_bytes)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array_of().map(i32::from_be_bytes)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array_of().map(i64::from_be_bytes)
    }

    /// A text, or none.
    ///
    /// # Errors
    /// It is longer than the message, or not UTF-8.
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, Malformed> {
        let len = self.i16()?;
        if len == -1 {
            return Ok(None);
        }
        let len = usize::try_from(len).map_err(|_| Malformed("a length is negative"))?;
        std::str::from_utf8(self.take(len)?).map(Some).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// A text.
    ///
    /// # Errors
    /// There is none, it is longer than the message, or not UTF-8.
    pub fn string(&mut self) -> Result<&'a str, Malformed> {
        self.nullable_string()?.ok_or(Malformed("a text is missing"))
    }

    /// Bytes; none count as empty.
    ///
    /// # Errors
    /// There are fewer.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        match self.i32()? {
            -1 => Ok(&[]),
            len => self.take(usize::try_from(len).map_err(|_| Malformed("a length is negative"))?),
        }
    }

    /// An array; none counts as empty. Each element takes a byte at least, so that a length which lies ends at the message's end.
    ///
    /// # Errors
    /// It is longer than the message, or an element is wrong.
    pub fn array<T>(&mut self, mut each: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let len = self.i32()?;
        if len < -1 {
            return Err(Malformed("a length is negative"));
        }
        (0..len).map(|_| each(self)).collect::<Result<Vec<_>, _>>()
    }

    /// A number of variable length.
    ///
    /// # Errors
    /// It does not end, or has more than 64 bits.
    pub fn varint(&mut self) -> Result<i64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.array_of::<1>()?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
            }
        }
        Err(Malformed("a number does not end"))
    }

    /// Bytes with their length in variable form; `None` where it is −1.
    ///
    /// # Errors
    /// There are fewer.
    pub fn varint_bytes(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.varint()? {
            -1 => Ok(None),
            len => self.take(usize::try_from(len).map_err(|_| Malformed("a length is negative"))?).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_of_any_size_come_back(value: i64) {
            let mut writer = Writer::default();
            writer.varint(value);
            prop_assert!(writer.0.len() <= 10);
            prop_assert_eq!(Reader(&writer.0).varint().unwrap(), value);
        }
    }

    #[test]
    fn lengths_that_lie_cost_nothing() {
        let mut bytes = i32::MAX.to_be_bytes().to_vec();
        bytes.extend([1, 2, 3]);
        assert!(Reader(&bytes).array(Reader::i16).is_err() && Reader(&bytes).bytes().is_err());
        assert!(Reader(&[0xff; 12]).varint().is_err());
        // As the protocol's documentation has it: 300 is AC 02 before ZigZag.
        let mut writer = Writer::default();
        writer.varint(150);
        assert_eq!(writer.0, [0xac, 0x02]);
    }
}

//! Owns: what the readers found in one packet: values, each in one protocol's buffer.
//! Does not: grow; what there is no room for is left out.

use super::{App, AppBuffer};

/// Values of one packet.
const MAX_VALUES: usize = 32;
/// Bytes of all of them.
const MAX_BYTES: usize = 4096;

/// The values of one packet, in the order in which they were found.
pub(crate) struct Values {
    /// One behind the other.
    bytes: Vec<u8>,
    /// Buffer, and where its value begins and ends.
    list: Vec<(AppBuffer, u32, u32)>,
}

impl Values {
    /// Takes all memory.
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::with_capacity(MAX_BYTES), list: Vec::with_capacity(MAX_VALUES) }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    /// All of them.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AppBuffer, &[u8])> {
        self.list.iter().map(|&(buffer, from, to)| (buffer, &self.bytes[from as usize..to as usize]))
    }

    /// Those of one buffer.
    pub(crate) fn of(&self, buffer: AppBuffer) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(move |(of, _)| *of == buffer).map(|(_, value)| value)
    }

    fn add(&mut self, buffer: AppBuffer, value: &[u8]) {
        let from = self.bytes.len();
        if self.list.len() == MAX_VALUES || MAX_BYTES - from < value.len() {
            return;
        }
        self.bytes.extend_from_slice(value);
        self.list.push((buffer, from as u32, self.bytes.len() as u32));
    }
}

/// Where the reader of one protocol puts what it finds.
pub(crate) struct Found<'v> {
    app: App,
    values: &'v mut Values,
}

impl<'v> Found<'v> {
    pub(crate) fn new(app: App, values: &'v mut Values) -> Self {
        Self { app, values }
    }

    /// Adds a value to the buffer of this number in the protocol's keywords.
    pub(crate) fn add(&mut self, number: u8, value: &[u8]) {
        self.values.add(AppBuffer { app: self.app, number }, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out() {
        let (mut values, app) = (Values::new(), App::at(0));
        let mut found = Found::new(app, &mut values);
        found.add(0, &[1; MAX_BYTES - 3]);
        found.add(0, b"four");
        (0..40).for_each(|_| found.add(0, b""));
        let lens: Vec<usize> = values.of(AppBuffer { app, number: 0 }).map(<[u8]>::len).collect();
        assert_eq!((lens.len(), lens[0], lens[1]), (MAX_VALUES, MAX_BYTES - 3, 0));
        values.clear();
        assert_eq!(values.iter().count(), 0);
    }
}

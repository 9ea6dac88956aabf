//! Owns: what the readers found in one packet: values, each in one protocol's buffer.
//! Does not: grow; what there is no room for is left out, and counted.

use super::{App, AppBuffer, Definition, dialog};

/// Values of one packet.
const MAX_VALUES: usize = 320;
/// Bytes of all of them.
const MAX_BYTES: usize = 512 << 10;

/// A connection that the one at hand announces, between the same two hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// What it speaks.
    pub(crate) app: App,
    pub(crate) place: Place,
    /// An announcement of the same connection that is taken back.
    pub(crate) instead_of: Option<Place>,
    /// What is known of it already.
    pub(crate) state: dialog::State,
}

/// Where a connection between two hosts is taken: by the server of the one at hand or by its client, at this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) by_server: bool,
    pub(crate) port: u16,
}

/// A value's place.
struct Span {
    buffer: AppBuffer,
    from: u32,
    to: u32,
    /// Bytes of the buffer before this value, where it is a window of it.
    base: u64,
}

/// How far values were found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    bytes: usize,
    values: usize,
}

/// Transactions told of one packet.
const MAX_TOLD: usize = 64;

/// What both sides said in a transaction: places in the bytes.
struct TransactionBytes {
    from: u32,
    /// The server's begin here.
    middle: u32,
    to: u32,
    is_over: bool,
}

/// The values of one packet, or of a message as far as it is there, in the order in which they were found.
pub(crate) struct Values {
    /// One behind the other.
    bytes: Vec<u8>,
    list: Vec<Span>,
    told: Vec<TransactionBytes>,
    /// The file among them is there to its end.
    pub(crate) file_is_whole: bool,
    /// It is over, whole or not.
    pub(crate) file_is_over: bool,
    /// And has, or had, so many bytes.
    pub(crate) file_size: u64,
    pub(crate) expected: Option<Expected>,
    /// Both sides speak this from the next byte on.
    pub(crate) upgrade: Option<App>,
    /// The reader has stopped before a message that might not find room: it is to be called again for the same bytes.
    pub(crate) has_more: bool,
    /// Values and records that were left out or cut, since the start.
    pub(crate) left_out: u64,
}

impl Values {
    /// Takes all memory.
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(MAX_BYTES),
            list: Vec::with_capacity(MAX_VALUES),
            told: Vec::with_capacity(MAX_TOLD),
            file_is_whole: false,
            file_is_over: false,
            file_size: 0,
            expected: None,
            upgrade: None,
            has_more: false,
            left_out: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.told.clear();
        (self.file_is_whole, self.file_is_over) = (false, false);
        (self.file_size, self.expected, self.upgrade, self.has_more) = (0, None, None, false);
    }

    /// All of them.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AppBuffer, &[u8])> {
        self.list.iter().map(|place| (place.buffer, &self.bytes[place.from as usize..place.to as usize]))
    }

    /// How far they go now.
    pub(crate) fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), values: self.list.len() }
    }

    /// Forgets those behind a mark, of which no transaction has told.
    pub(crate) fn go_back(&mut self, mark: &Mark) {
        self.bytes.truncate(mark.bytes);
        self.list.truncate(mark.values);
    }

    /// Bytes of all of them.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What both sides said in the transactions at hand, and whether these are over.
    #[inline]
    pub(crate) fn told(&self) -> impl Iterator<Item = ([&[u8]; 2], bool)> {
        self.told.iter().map(|told| {
            let [from, middle, to] = [told.from, told.middle, told.to].map(|place| place as usize);
            ([&self.bytes[from..middle], &self.bytes[middle..to]], told.is_over)
        })
    }

    /// Those of one buffer, each with the number of the buffer's bytes before it.
    pub(crate) fn of(&self, buffer: AppBuffer) -> impl Iterator<Item = (&[u8], u64)> {
        let places = self.list.iter().filter(move |place| place.buffer == buffer);
        places.map(|place| (&self.bytes[place.from as usize..place.to as usize], place.base))
    }
}

/// A value that is being put together; what there is no room for is left out.
pub(crate) struct Value<'v> {
    all: &'v mut Vec<u8>,
    from: usize,
    left_out: &'v mut u64,
}

impl Value<'_> {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = MAX_BYTES - self.all.len();
        *self.left_out += u64::from(room < bytes.len());
        self.all.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// What it has so far.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.all[self.from..]
    }

    /// Keeps the first so many bytes of it.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.all.truncate(self.from + len);
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

    /// Whether a message finds room that has so many values, and so many bytes in these and its record. Where it does not, the reader is
    /// called again.
    pub(crate) fn has_room(&mut self, values: usize, bytes: usize) -> bool {
        let of = &mut *self.values;
        let has_room =
            of.list.len() + values <= MAX_VALUES && of.told.len() < MAX_TOLD && of.bytes.len() + bytes <= MAX_BYTES;
        of.has_more = !has_room;
        has_room
    }

    /// Adds a value to the buffer of this number in the protocol's keywords.
    pub(crate) fn add(&mut self, number: u8, value: &[u8]) {
        let Values { bytes, list, left_out, .. } = &mut *self.values;
        let from = bytes.len();
        if list.len() == MAX_VALUES || MAX_BYTES - from < value.len() {
            *left_out += 1;
            return;
        }
        bytes.extend_from_slice(value);
        let buffer = AppBuffer { app: self.app, number };
        list.push(Span { buffer, from: from as u32, to: bytes.len() as u32, base: 0 });
    }

    /// Announces another connection.
    pub(crate) fn expect(&mut self, expected: Expected) {
        self.values.expected = Some(expected);
    }

    /// The file that was added is there to its end.
    pub(crate) fn file_is_whole(&mut self) {
        self.file_is_over(true);
    }

    /// The file that was added is over, and there to its end or not.
    pub(crate) fn file_is_over(&mut self, is_whole: bool) {
        (self.values.file_is_over, self.values.file_is_whole) = (true, is_whole);
    }

    /// Both sides go on in another protocol from here.
    pub(crate) fn upgrade(&mut self, definition: &'static Definition) {
        self.values.upgrade = Some(App::of_definition(definition));
    }

    /// The file that was added has had so many bytes up to here.
    pub(crate) fn file_size(&mut self, bytes: u64) {
        self.values.file_size = bytes;
    }

    /// What client and server said in the transaction at hand, for records; whether it is over. Beyond so many of a packet, or of their
    /// bytes, the rest is left out.
    pub(crate) fn tell(&mut self, is_over: bool, said: [&mut dyn FnMut(&mut Value<'_>); 2]) {
        let Values { bytes, told, left_out, .. } = &mut *self.values;
        if told.len() == MAX_TOLD {
            *left_out += 1;
            return;
        }
        let from = bytes.len();
        let [middle, to] = said.map(|write| {
            let from = bytes.len();
            write(&mut Value { all: &mut *bytes, from, left_out: &mut *left_out });
            bytes.len() as u32
        });
        told.push(TransactionBytes { from: from as u32, middle, to, is_over });
    }

    /// The same, if the value has any byte.
    pub(crate) fn add_filled(&mut self, number: u8, value: &[u8]) {
        if !value.is_empty() {
            self.add(number, value);
        }
    }

    /// Adds a value that `write` puts together, if it has any byte; `base` bytes of its buffer come before it.
    pub(crate) fn build(&mut self, number: u8, base: u64, write: impl FnOnce(&mut Value<'_>)) {
        self.build_for(&[number], base, write);
    }

    /// The same for several buffers, which have the same bytes.
    pub(crate) fn build_for(&mut self, numbers: &[u8], base: u64, write: impl FnOnce(&mut Value<'_>)) {
        let Values { bytes, list, left_out, .. } = &mut *self.values;
        let from = bytes.len();
        if list.len() + numbers.len() > MAX_VALUES {
            *left_out += 1;
            return;
        }
        write(&mut Value { all: bytes, from, left_out });
        if bytes.len() > from {
            let to = bytes.len() as u32;
            let buffers = numbers.iter().map(|&number| AppBuffer { app: self.app, number });
            list.extend(buffers.map(|buffer| Span { buffer, from: from as u32, to, base }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out_and_counted() {
        let (mut values, app) = (Values::new(), App::at(0));
        let mut found = Found::new(app, &mut values);
        found.add(0, &[1; MAX_BYTES - 3]);
        found.add(0, b"four");
        (0..MAX_VALUES).for_each(|_| found.add(0, b""));
        let lens: Vec<usize> = values.of(AppBuffer { app, number: 0 }).map(|(value, _)| value.len()).collect();
        assert_eq!((lens.len(), lens[0], lens[1]), (MAX_VALUES, MAX_BYTES - 3, 0));
        assert_eq!(values.left_out, 2, "the one that is too long, and one too many");
        values.clear();
        assert_eq!((values.iter().count(), values.left_out), (0, 2));
        let mut found = Found::new(app, &mut values);
        (0..=MAX_TOLD).for_each(|_| found.tell(true, [&mut |out| out.push(b"ab"), &mut |_| {}]));
        found.build(0, 0, |out| out.push(&[1; MAX_BYTES]));
        assert_eq!((values.told().count(), values.left_out), (MAX_TOLD, 4));
    }
}

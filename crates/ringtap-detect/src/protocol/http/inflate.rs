//! Owns: the decompressors of content codings (gzip, zlib and deflate), the pool of them and of those of Brotli, and what is tried where
//! a body is not what its field says: browsers take gzip and deflate for each other, so both are tried before the bytes are passed on as
//! they are.
//! Does not: know messages; its caller bounds what comes out. The pool's memory is taken at start.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::brotli::{Brotli, Memory};

/// Bytes that a compressed stream may refer back to (RFC 1951 §3.2.5).
const WINDOW: usize = 32 << 10;
/// Codings of one message at most.
pub(super) const MAX_LAYERS: usize = 4;
/// Other readings of a stream that are tried.
const RETRIES: u8 = 3;

/// What a coding calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// gzip (RFC 1952) or zlib (RFC 1950), as its first bytes say.
    Wrapped,
    /// Deflate without anything around it.
    Bare,
    /// Brotli (RFC 7932). Nothing tells it from other bytes.
    Brotli,
}

/// The decompressors of one message, the one that gets the bytes first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layers {
    numbers: [u16; MAX_LAYERS],
    count: u8,
    /// Number of the message among those that were given some.
    turn: u32,
}

impl Layers {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn count(&self) -> usize {
        self.count.into()
    }
}

/// Where in a stream a decompressor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// In a header: so many bytes of it have been read.
    Header(Header),
    Blocks,
    /// The stream has ended; what follows is nobody's.
    End,
    /// It is no stream: bytes go on as they are.
    Passed,
}

/// A header's fields still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    read: u16,
    first: u8,
    flags: u8,
    /// Bytes of the extra field still to be skipped.
    extra: u16,
    step: HeaderStep,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeaderStep {
    #[default]
    Fixed,
    ExtraLength(u8),
    Extra,
    Name,
    Comment,
    Checksum(u8),
}

struct Inflater {
    state: DecompressorOxide,
    window: Box<[u8]>,
    /// Where in it the next byte goes.
    at: usize,
    phase: Phase,
    format: Format,
    retries: u8,
}

impl Inflater {
    fn new() -> Self {
        Self {
            state: DecompressorOxide::new(),
            // Not zeros, so that its pages are there.
            window: vec![1; WINDOW].into(),
            at: 0,
            phase: Phase::End,
            format: Format::Bare,
            retries: 0,
        }
    }

    fn begin(&mut self, format: Format) {
        self.state.init();
        self.at = 0;
        self.format = format;
        self.phase = match format {
            Format::Wrapped => Phase::Header(Header::default()),
            Format::Bare | Format::Brotli => Phase::Blocks,
        };
    }

    /// The next reading of a stream that can't be read so, and how many of its bytes to leave out; `None` if all were tried.
    fn retry(&mut self, input: &[u8]) -> Option<usize> {
        if self.retries == RETRIES || is_text(input) {
            return None;
        }
        let format = match (self.retries, self.format) {
            (0, same) => same,
            (_, Format::Wrapped) => Format::Bare,
            (_, Format::Bare | Format::Brotli) => Format::Wrapped,
        };
        self.retries += 1;
        self.begin(format);
        Some(odd_header(input))
    }
}

/// Whether bytes are plain text, which many servers send as it is whatever they say of it: a decompressor takes the beginning of
/// some texts for a stream.
fn is_text(input: &[u8]) -> bool {
    let start = &input[..input.len().min(16)];
    start.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
}

/// Bytes of a gzip header with flags, as far as it can be told without reading it properly; 0 where there is none.
fn odd_header(input: &[u8]) -> usize {
    const FNAME_OR_COMMENT: u8 = 0x18;
    const HCRC: u8 = 0x02;
    let len = match *input {
        [0x1f, 0x8b, _, flags, ..] if flags & FNAME_OR_COMMENT != 0 => {
            let text = input.get(10..).unwrap_or_default();
            11 + text.iter().position(|&byte| byte == 0).unwrap_or(text.len())
        }
        [0x1f, 0x8b, _, flags, ..] if flags & HCRC != 0 => 12,
        [0x1f, 0x8b, _, flags, ..] if flags != 0 => 10,
        _ => 0,
    };
    if len > input.len() { 0 } else { len }
}

impl Header {
    /// Takes a byte of the header: whether it was the last one; `Err` if this is no header.
    fn take(&mut self, byte: u8) -> Result<bool, ()> {
        match self.step {
            HeaderStep::Fixed => return self.fixed(byte),
            HeaderStep::ExtraLength(0) => (self.extra, self.step) = (byte.into(), HeaderStep::ExtraLength(1)),
            HeaderStep::ExtraLength(_) => {
                self.extra |= u16::from(byte) << 8;
                self.step = HeaderStep::Extra;
                if self.extra == 0 {
                    return Ok(self.after(HeaderStep::Extra));
                }
            }
            HeaderStep::Extra => {
                self.extra -= 1;
                if self.extra == 0 {
                    return Ok(self.after(HeaderStep::Extra));
                }
            }
            step @ (HeaderStep::Name | HeaderStep::Comment) => {
                if byte == 0 {
                    return Ok(self.after(step));
                }
            }
            HeaderStep::Checksum(0) => self.step = HeaderStep::Checksum(1),
            HeaderStep::Checksum(_) => return Ok(true),
        }
        Ok(false)
    }

    /// The first bytes: two of zlib, ten of gzip.
    fn fixed(&mut self, byte: u8) -> Result<bool, ()> {
        let at = self.read;
        self.read += 1;
        match at {
            0 => self.first = byte,
            1 if (self.first, byte) == (0x1f, 0x8b) => {}
            1 => {
                let is_zlib = self.first & 0x0f == 8 && self.first >> 4 <= 7;
                let check = u16::from_be_bytes([self.first, byte]).is_multiple_of(31);
                return if is_zlib && check && byte & 0x20 == 0 { Ok(true) } else { Err(()) };
            }
            2 if byte != 8 => return Err(()),
            3 if byte & 0xe0 != 0 => return Err(()),
            3 => self.flags = byte,
            9 => return Ok(self.after(HeaderStep::Fixed)),
            _ => {}
        }
        Ok(false)
    }

    /// Goes on behind a step; whether nothing follows.
    fn after(&mut self, step: HeaderStep) -> bool {
        let order = [
            (HeaderStep::ExtraLength(0), 0x04),
            (HeaderStep::Name, 0x08),
            (HeaderStep::Comment, 0x10),
            (HeaderStep::Checksum(0), 0x02),
        ];
        let from = match step {
            HeaderStep::Extra | HeaderStep::ExtraLength(_) => 1,
            HeaderStep::Name => 2,
            HeaderStep::Comment => 3,
            _ => 0,
        };
        match order[from..].iter().find(|(_, flag)| self.flags & flag != 0) {
            Some(&(next, _)) => {
                self.step = next;
                false
            }
            None => true,
        }
    }
}

/// What is left to a message's decompressors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Bytes that may come out of all layers together.
    pub(super) out: usize,
    /// The same of their work, which some input takes that nothing comes out of: counted in bytes that come out.
    pub(super) work: usize,
    /// What packets pay for beside that, counted alike.
    pub(super) tables: usize,
    /// More would have come out of one of them than it makes.
    pub(super) is_cut: bool,
}

impl Room {
    pub(super) fn new(out: usize, work: usize) -> Self {
        Self { out, work, tables: 0, is_cut: false }
    }

    fn is_left(&self) -> bool {
        self.out > 0 && self.work > 0
    }
}

/// Takes what comes out; says whether it wants more.
pub(super) type Output<'o> = dyn FnMut(&[u8]) -> bool + 'o;

/// The pool.
pub(super) struct Inflaters {
    all: Vec<Option<Box<Inflater>>>,
    /// Numbers behind those.
    brotli: Vec<Option<Box<Brotli>>>,
    memory: Memory,
    /// Of each kind.
    free: [Vec<u16>; 2],
    /// Of each the turn of the message that has it; 0: it is free.
    turns: Vec<u32>,
    next_turn: u32,
    /// Those taken from a message for another one, and streams that found no memory.
    pub(super) taken_away: u64,
}

impl Inflaters {
    /// So many decompressors, of about 43 KiB each, and so many of Brotli, of about 620 KiB.
    pub(super) fn new(count: usize, brotli: usize) -> Self {
        let (count, brotli) = (count.min(usize::from(u16::MAX) / 2), brotli.min(usize::from(u16::MAX) / 2));
        let (first, end) = (count as u16, (count + brotli) as u16);
        Self {
            all: (0..count).map(|_| Some(Box::new(Inflater::new()))).collect(),
            brotli: (0..brotli).map(|_| Some(Box::new(Brotli::new()))).collect(),
            memory: Memory::new(brotli),
            free: [(0..first).rev().collect(), (first..end).rev().collect()],
            turns: vec![0; count + brotli],
            next_turn: 1,
            taken_away: 0,
        }
    }

    /// Of which kind a decompressor is: its place in the list of free ones.
    fn kind(&self, number: u16) -> usize {
        usize::from(usize::from(number) >= self.all.len())
    }

    /// That of Brotli with this number, in its place or out of it.
    fn place_of_brotli(&mut self, number: u16) -> &mut Option<Box<Brotli>> {
        let number = usize::from(number) - self.all.len();
        &mut self.brotli[number]
    }

    /// Adds a decompressor behind those that are there: a free one, or that of the message which has had one longest; whether
    /// there was any.
    pub(super) fn add(&mut self, layers: &mut Layers, format: Format) -> bool {
        if layers.is_empty() {
            layers.turn = self.next_turn;
            self.next_turn = self.next_turn.checked_add(1).unwrap_or(1);
        }
        if layers.count() == MAX_LAYERS {
            return false;
        }
        let kind = usize::from(format == Format::Brotli);
        let Some(number) = self.free[kind].pop().or_else(|| self.take_away(layers.turn, kind)) else { return false };
        self.turns[usize::from(number)] = layers.turn;
        if kind == 1 {
            self.release_brotli(number);
            if let Some(brotli) = self.place_of_brotli(number) {
                brotli.begin();
            }
        } else if let Some(inflater) = &mut self.all[usize::from(number)] {
            inflater.retries = 0;
            inflater.begin(format);
        }
        layers.numbers[layers.count()] = number;
        layers.count += 1;
        true
    }

    /// Gives a message's decompressors back.
    pub(super) fn release(&mut self, layers: &mut Layers) {
        for &number in &layers.numbers[..layers.count()] {
            // Another message may have it now.
            if self.turns[usize::from(number)] == layers.turn {
                self.turns[usize::from(number)] = 0;
                let kind = self.kind(number);
                if kind == 1 {
                    self.release_brotli(number);
                }
                self.free[kind].push(number);
            }
        }
        layers.count = 0;
    }

    /// Gives the memory back that a decompressor of Brotli has.
    fn release_brotli(&mut self, number: u16) {
        if let Some(mut brotli) = self.place_of_brotli(number).take() {
            brotli.release(&mut self.memory);
            *self.place_of_brotli(number) = Some(brotli);
        }
    }

    /// Takes the decompressor of another message than `turn`'s that has had it longest, of one kind.
    fn take_away(&mut self, turn: u32, kind: usize) -> Option<u16> {
        let age = |number: &u16| self.next_turn.wrapping_sub(self.turns[usize::from(*number)]);
        let of_kind = (0..self.turns.len() as u16).filter(|&number| self.kind(number) == kind);
        let others = of_kind.filter(|&number| self.turns[usize::from(number)] != turn);
        let oldest = others.max_by_key(age)?;
        self.taken_away += 1;
        Some(oldest)
    }

    /// Decompresses further bytes of a message, through all of its layers, as far as there is room: what is taken of that is what came out
    /// and what it cost.
    pub(super) fn decode(&mut self, layers: &Layers, input: &[u8], room: &mut Room, out: &mut Output<'_>) {
        let numbers = &layers.numbers[..layers.count()];
        // Without one of its decompressors a message has none.
        if numbers.iter().all(|&number| self.turns[usize::from(number)] == layers.turn) {
            self.layer(numbers, input, room, out);
        }
    }

    /// One layer; whether more is wanted.
    fn layer(&mut self, layers: &[u16], input: &[u8], room: &mut Room, out: &mut Output<'_>) -> bool {
        let Some((&number, deeper)) = layers.split_first() else { return input.is_empty() || out(input) };
        if self.kind(number) == 1 {
            return self.brotli(number, deeper, input, room, out);
        }
        // Out of its place, so that the deeper ones can be reached while this one's window is read.
        let Some(mut inflater) = self.all[usize::from(number)].take() else { return false };
        let mut hand_on = |part: &[u8], room: &mut Room| self.layer(deeper, part, room, out);
        let wants = inflater.run(input, room, &mut hand_on);
        self.all[usize::from(number)] = Some(inflater);
        wants
    }

    /// A layer of Brotli.
    fn brotli(&mut self, number: u16, deeper: &[u16], input: &[u8], room: &mut Room, out: &mut Output<'_>) -> bool {
        let Some(mut brotli) = self.place_of_brotli(number).take() else { return false };
        let (mut rest, mut wants) = (input, true);
        while room.is_left() && wants {
            let step = brotli.step(rest, &mut self.memory);
            rest = &rest[step.used.min(rest.len())..];
            room.out = room.out.saturating_sub(step.made);
            room.work = room.work.saturating_sub(step.cost);
            room.tables += step.tables;
            room.is_cut |= step.is_cut;
            self.taken_away += u64::from(step.lacks_memory);
            wants = step.made == 0 || self.layer(deeper, brotli.out(step.made), room, out);
            if step.is_done {
                break;
            }
        }
        *self.place_of_brotli(number) = Some(brotli);
        wants && room.is_left()
    }
}

impl Inflater {
    fn run(&mut self, input: &[u8], room: &mut Room, next: &mut dyn FnMut(&[u8], &mut Room) -> bool) -> bool {
        let mut rest = input;
        loop {
            match self.read(&mut rest, room, next) {
                Ok(wants) => return wants,
                // An error behind bytes that have come out ends the stream; where it was read otherwise than it says, both what
                // has come out and the bytes as they are go on.
                Err(true) if self.retries > 0 => self.phase = Phase::Passed,
                Err(true) => {
                    self.phase = Phase::End;
                    return true;
                }
                Err(false) => match self.retry(input) {
                    Some(skip) => rest = &input[skip..],
                    None => self.phase = Phase::Passed,
                },
            }
            if self.phase == Phase::Passed {
                return next(input, room);
            }
        }
    }

    /// Reads on; whether more is wanted. `Err`: it can't be read so, and whether bytes have come out.
    fn read(
        &mut self,
        rest: &mut &[u8],
        room: &mut Room,
        next: &mut dyn FnMut(&[u8], &mut Room) -> bool,
    ) -> Result<bool, bool> {
        let mut any = false;
        loop {
            match &mut self.phase {
                Phase::Passed => return Ok(next(rest, room)),
                Phase::End => return Ok(true),
                Phase::Header(header) => {
                    let Some((&byte, behind)) = rest.split_first() else { return Ok(true) };
                    *rest = behind;
                    if header.take(byte).map_err(|()| false)? {
                        self.phase = Phase::Blocks;
                    }
                }
                Phase::Blocks => {
                    if !room.is_left() {
                        return Ok(false);
                    }
                    let (status, used, made) =
                        decompress(&mut self.state, rest, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
                    *rest = &rest[used..];
                    let made = made.min(room.out).min(room.work);
                    (room.out, room.work) = (room.out - made, room.work - made);
                    any |= made > 0;
                    let wants = made == 0 || next(&self.window[self.at..self.at + made], room);
                    self.at = (self.at + made) & (WINDOW - 1);
                    match status {
                        TINFLStatus::Done => self.phase = Phase::End,
                        TINFLStatus::HasMoreOutput if wants => {}
                        TINFLStatus::NeedsMoreInput | TINFLStatus::HasMoreOutput => return Ok(wants),
                        _ => return Err(any),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `text` as a stored block of deflate (RFC 1951 §3.2.4).
    fn stored(text: &[u8]) -> Vec<u8> {
        let len = text.len() as u16;
        [&[1][..], &len.to_le_bytes(), &(!len).to_le_bytes(), text].concat()
    }

    fn gzip(flags: u8, fields: &[u8], text: &[u8]) -> Vec<u8> {
        [&[0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3][..], fields, &stored(text), &[0; 8]].concat()
    }

    fn decoded(formats: &[Format], input: &[u8], piece: usize) -> Vec<u8> {
        let mut pool = Inflaters::new(4, 4);
        let (mut layers, mut out) = (Layers::default(), Vec::new());
        assert!(formats.iter().all(|&format| pool.add(&mut layers, format)));
        for part in input.chunks(piece.max(1)) {
            pool.decode(&layers, part, &mut Room::new(1 << 20, 1 << 20), &mut |bytes| {
                out.extend_from_slice(bytes);
                true
            });
        }
        pool.release(&mut layers);
        assert_eq!(pool.free.each_ref().map(Vec::len), [4; 2]);
        out
    }

    #[test]
    fn streams_and_their_headers() {
        use Format::{Bare, Wrapped};
        let fields = b"\x03\0abcname\0comment\0\x01\x02";
        for (flags, fields) in [(0, &b""[..]), (8, b"name\0"), (0x1e, fields), (2, b"xx")] {
            let stream = gzip(flags, fields, b"text");
            for piece in [1, 3, 100] {
                assert_eq!(decoded(&[Wrapped], &stream, piece), b"text", "{flags} {piece}");
            }
        }
        let zlib = [&[0x78, 0x9c][..], &stored(b"text")].concat();
        assert_eq!(decoded(&[Wrapped], &zlib, 1), b"text");
        assert_eq!(decoded(&[Bare], &zlib, 100), b"text", "taken for bare deflate");
        assert_eq!(decoded(&[Wrapped], &stored(b"text"), 100), b"text", "without what should be around it");
        assert_eq!(decoded(&[Bare], &gzip(0, b"", b"text"), 100), b"text");
        for plain in [&b"plain text"[..], b"{\"sdk_version\":11026,\"app\":1}"] {
            assert!(decoded(&[Wrapped], plain, 100).ends_with(plain));
        }
        assert_eq!(decoded(&[Bare, Wrapped], &gzip(0, b"", &stored(b"text")), 100), b"text", "in the other order");
        let cut = [&stored(b"text")[..], b"behind"].concat();
        assert_eq!(decoded(&[Bare], &cut, 100), b"text");
    }

    #[test]
    fn who_has_held_one_longest_gives_it_up() {
        let mut pool = Inflaters::new(2, 0);
        let mut messages = [Layers::default(); 3];
        assert!(messages.iter_mut().all(|layers| pool.add(layers, Format::Bare)));
        assert_eq!(pool.taken_away, 1);
        let mut run = |layers: &Layers| {
            let mut out = Vec::new();
            pool.decode(layers, &stored(b"text"), &mut Room::new(100, 100), &mut |bytes| {
                out.extend_from_slice(bytes);
                true
            });
            out
        };
        assert_eq!([run(&messages[0]), run(&messages[1]), run(&messages[2])], [&b""[..], b"text", b"text"]);
        messages.iter_mut().for_each(|layers| pool.release(layers));
        assert_eq!(pool.free[0].len(), 2, "each is free once");
    }

    #[test]
    fn what_comes_out_is_bounded() {
        let bomb = miniz_oxide::deflate::compress_to_vec(&vec![0; 4 << 20], 6);
        let mut pool = Inflaters::new(1, 0);
        let (mut layers, mut out) = (Layers::default(), 0);
        assert!(pool.add(&mut layers, Format::Bare) && !pool.add(&mut layers, Format::Bare));
        let mut room = Room::new(100_000, 150_000);
        pool.decode(&layers, &bomb, &mut room, &mut |bytes| {
            out += bytes.len();
            true
        });
        assert_eq!((room.out, room.work, out), (0, 50_000, 100_000));
        let mut room = Room::new(100_000, 100_000);
        pool.decode(&layers, &bomb, &mut room, &mut |_| false);
        assert!(room.out >= 100_000 - WINDOW, "{room:?}: more than was wanted");
    }

    proptest! {
        #[test]
        fn as_it_was(text in prop::collection::vec(prop::sample::select(&b"abc"[..]), 0..3000), piece in 1usize..500) {
            let stream = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &miniz_oxide::deflate::compress_to_vec(&text, 6)].concat();
            prop_assert_eq!(decoded(&[Format::Wrapped], &stream, piece), text);
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
            decoded(&[Format::Wrapped, Format::Bare], &bytes, piece);
        }
    }
}

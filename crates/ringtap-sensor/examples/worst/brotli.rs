//! Owns: streams of Brotli (RFC 7932) that cost a decoder much: blocks with many tables and maps, of little and of much content.
//! Does not: compress.

use ringtap_samples::frames::Random;

/// Bits, the first one of a byte in its lowest place.
struct Bits(Vec<bool>);

impl Bits {
    /// With a window of 2^18 bytes (§9.1).
    fn new() -> Self {
        let mut bits = Self(Vec::new());
        bits.put(0b0011, 4);
        bits
    }

    fn put(&mut self, value: u32, count: u32) {
        self.0.extend((0..count).map(|bit| value >> bit & 1 == 1));
    }

    /// A number of kinds of blocks or of tables (§9.2).
    fn number(&mut self, value: u32) {
        match value {
            0 | 1 => self.put(0, 1),
            _ => {
                let count = (value - 1).ilog2();
                self.put(1 | count << 1 | (value - 1 - (1 << count)) << 4, count + 4);
            }
        }
    }

    /// A prefix code of one symbol (§3.4).
    fn only(&mut self, symbol: u32, bits: u32) {
        self.put(1 | symbol << 4, bits + 4);
    }

    fn bytes(self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        self.0.chunks(8).map(byte).collect()
    }

    /// A block of up to 64 KiB as it is.
    fn stored(&mut self, content: &[u8]) {
        // Not the last one, four digits of length, not compressed; then whole bytes.
        self.put(0, 3);
        self.put(content.len() as u32 - 1, 16);
        self.put(1, 1);
        self.0.resize(self.0.len().next_multiple_of(8), false);
        content.iter().for_each(|&byte| self.put(u32::from(byte), 8));
    }

    /// A block that one command makes: a literal, and behind it what stands four bytes before. So many kinds of literals lead to so many tables.
    fn tables(&mut self, shape: &Shape) {
        self.put(0, 3);
        self.put(shape.len - 1, 16);
        self.put(0, 1);
        self.number(shape.kinds);
        if shape.kinds > 1 {
            self.only(0, u32::BITS - (shape.kinds + 1).leading_zeros());
            self.only(0, 5);
            self.put(0, 2);
        }
        // One kind of the others; no distances of their own; contexts of one mode.
        self.put(0, 1 + 1 + 6);
        (0..shape.kinds).for_each(|_| self.put(0, 2));
        self.number(shape.tables);
        if shape.tables > 1 {
            // The map: no runs, one table always, moved to the front or not.
            self.put(0, 1);
            self.only(shape.place.min(shape.tables - 1), u32::BITS - (shape.tables - 1).leading_zeros());
            self.put(u32::from(shape.is_moved), 1);
        }
        // One table for distances, which has no map.
        self.put(0, 1);
        (0..shape.tables).for_each(|_| self.only(u32::from(shape.literal), 8));
        self.only(shape.command, 10);
        self.only(0, 6);
        if shape.command == LONGEST {
            self.put(shape.len - 1 - LEAST_LONGEST, 24);
        }
    }
}

/// Insert one byte, copy so many and more at the last distance: 24 further bits tell how many (§5).
const LONGEST: u32 = 384 + (1 << 3) + 7;
const LEAST_LONGEST: u32 = 2118;
/// Insert one byte.
const ONE: u32 = 8;

struct Shape {
    len: u32,
    kinds: u32,
    tables: u32,
    place: u32,
    is_moved: bool,
    literal: u8,
    command: u32,
}

/// Maps of all sizes, stored content, and as much of one byte as there may be.
pub fn known(words: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (kinds, tables) in [(1, 1), (1, 64), (16, 256), (64, 2), (64, 256), (255, 256)] {
        let mut bits = Bits::new();
        let shape = Shape { len: 1, kinds, tables, place: tables - 1, is_moved: true, literal: b'x', command: ONE };
        while bits.0.len() < 8 * 60_000 {
            bits.tables(&shape);
        }
        all.push(bits.bytes());
    }
    let mut bits = Bits::new();
    words.chunks(1 << 16).for_each(|part| bits.stored(part));
    all.push(bits.bytes());
    let mut bits = Bits::new();
    bits.stored(b"abcd");
    let shape = Shape { len: 1 << 16, kinds: 1, tables: 1, place: 0, is_moved: false, literal: b'<', command: LONGEST };
    (0..100).for_each(|_| bits.tables(&shape));
    all.push(bits.bytes());
    all
}

/// Blocks of these kinds one behind the other, up to so many bytes.
pub fn fresh(words: &[u8], most: usize, random: &mut Random) -> Vec<u8> {
    let (mut bits, end) = (Bits::new(), 8 * (1 + random.below(most)));
    // The first distance is four.
    bits.stored(b"abcd");
    let usual = 1 + random.below(255) as u32;
    while bits.0.len() < end {
        if random.below(3) == 0 && !words.is_empty() {
            let at = random.below(words.len());
            let len = (1 + random.below(words.len())).min(words.len() - at).min(1 << 16);
            bits.stored(&words[at..at + len]);
            continue;
        }
        let tables = [1, 2, usual, 256][random.below(4)];
        let is_long = random.below(2) == 0;
        bits.tables(&Shape {
            len: if is_long { LEAST_LONGEST + 1 + random.below(60_000) as u32 } else { 1 },
            kinds: [1, 2, 16, 64][random.below(4)],
            tables,
            place: random.below(tables as usize) as u32,
            is_moved: random.below(2) == 0,
            literal: random.byte(),
            command: if is_long { LONGEST } else { ONE },
        });
    }
    bits.bytes()
}

//! Owns: decompressors of Brotli (RFC 7932) and the memory that they share: it is taken at start, and a stream that finds none is
//! not decoded.
//! Does not: know messages or pools of decompressors (`inflate.rs` does).

use std::mem::discriminant;

use brotli_decompressor::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, HuffmanCode, SliceWrapper, SliceWrapperMut,
};

/// Bytes that a stream may refer back to here. It may say that it has up to 16 MiB: as long as no more comes out than what is kept,
/// the two are the same.
const WINDOW_BITS: u8 = 18;
const WINDOW: usize = 1 << WINDOW_BITS;
/// A stream refers to bytes up to so many less than its window (RFC 7932 §9.1): up to there it is decoded.
const MOST: usize = WINDOW - 16;
/// What the decoder writes beyond its window.
const SLACK: usize = 1024;
/// Bytes that are handed on at a time.
const OUT: usize = 4096;
/// Bytes that count as having come out for each that goes in: a block may have some hundred tables and no content.
const BY_INPUT: usize = 16;
/// Bytes that go in at a time: no more than one map of many tables comes with them.
const IN: usize = 128;
/// The largest maps of contexts: of 64 contexts for 64 kinds of blocks. Those of more kinds are seldom, and find no memory.
const MAP: usize = 4 << 10;
/// A map's bytes are moved within a list of as many as it has tables (RFC 7932 §7.3): so many moves count as a byte that comes out.
const MOVES: usize = 4;
/// Bits that tell the least of tables (RFC 7932 §3.4), about.
const TABLE_BITS: usize = 12;
/// Bytes that count as having come out for each table: it has so many places and more, which are all written.
const TABLE: usize = 256;
/// What the decoder never leaves behind where it counts tables.
const NO_TABLE: i32 = -1;
/// What the decoder takes for a list that is to be made anew, and never leaves behind itself.
const UNTOUCHED: u32 = u32::MAX;

/// A stream's hold on memory.
pub(super) struct Cell<T> {
    memory: Box<[T]>,
    len: usize,
}

impl<T> Default for Cell<T> {
    fn default() -> Self {
        Self { memory: Box::default(), len: 0 }
    }
}

impl<T> SliceWrapper<T> for Cell<T> {
    fn slice(&self) -> &[T] {
        &self.memory[..self.len]
    }
}

impl<T> SliceWrapperMut<T> for Cell<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.memory[..self.len]
    }
}

/// Free memory by size, the smallest first.
pub(super) struct Cells<T> {
    sizes: Vec<(usize, Vec<Box<[T]>>)>,
}

impl<T> Default for Cells<T> {
    /// None: what a decoder has while it is not decoding.
    fn default() -> Self {
        Self { sizes: Vec::new() }
    }
}

impl<T: Clone> Cells<T> {
    /// So many of each size, of elements like this one, which is not zero, so that their pages are there.
    fn new(like: T, sizes: &[(usize, usize)]) -> Self {
        let cells = |&(size, count): &(usize, usize)| (size, vec![vec![like.clone(); size].into_boxed_slice(); count]);
        Self { sizes: sizes.iter().map(cells).collect() }
    }
}

impl<T> Allocator<T> for Cells<T> {
    type AllocatedMemory = Cell<T>;

    /// The smallest cell that is large enough; an empty one if there is none, which ends the stream.
    fn alloc_cell(&mut self, len: usize) -> Cell<T> {
        let fitting = self.sizes.iter_mut().filter(|(size, _)| *size >= len);
        fitting.filter_map(|(_, free)| free.pop()).next().map_or_else(Cell::default, |memory| Cell { memory, len })
    }

    fn free_cell(&mut self, cell: Cell<T>) {
        if let Some((_, free)) = self.sizes.iter_mut().find(|(size, _)| *size == cell.memory.len()) {
            free.push(cell.memory);
        }
    }
}

/// What all streams share.
pub(super) struct Memory {
    /// A decoder that has read nothing: what is like it in another one is at rest there.
    idle: Box<State>,
    bytes: Cells<u8>,
    words: Cells<u32>,
    codes: Cells<HuffmanCode>,
}

impl Memory {
    /// For so many streams of usual kind, of about 420 KiB each; fewer have room of those with hundreds of tables.
    pub(super) fn new(streams: usize) -> Self {
        // A window, the largest map of contexts, and two smaller ones.
        let bytes = [(1024, 2 * streams), (MAP, streams), (WINDOW + SLACK, streams)];
        // Three sets of tables and three small ones; 256 tables have up to 1,080 codes each.
        let codes = [
            (2048, 6 * streams),
            (16 << 10, streams),
            (96 << 10, streams.div_ceil(4)),
            (288 << 10, streams.div_ceil(8)),
        ];
        let code = HuffmanCode { value: 1, bits: 1 };
        Self {
            idle: Box::new(State::new_strict(Cells::default(), Cells::default(), Cells::default())),
            bytes: Cells::new(1, &bytes),
            words: Cells::new(1, &[(256, 3 * streams)]),
            codes: Cells::new(code, &codes),
        }
    }
}

type State = BrotliState<Cells<u8>, Cells<u32>, Cells<HuffmanCode>>;

pub(super) struct Brotli {
    state: State,
    out: Box<[u8]>,
    /// Bytes that came out so far.
    made: usize,
    has_begun: bool,
    is_over: bool,
}

/// What a step did.
pub(super) struct Step {
    /// Bytes of the input that it used.
    pub(super) used: usize,
    /// Bytes that came out.
    pub(super) made: usize,
    /// What it cost, in bytes that come out.
    pub(super) cost: usize,
    /// What tables cost beside that, which take time and bring nothing: a packet pays for them, not its message.
    pub(super) tables: usize,
    /// Nothing more comes out of this input.
    pub(super) is_done: bool,
    /// There was no memory for it.
    pub(super) lacks_memory: bool,
    /// More would have come out than does of one stream.
    pub(super) is_cut: bool,
}

impl Brotli {
    pub(super) fn new() -> Self {
        let state = State::new_strict(Cells::default(), Cells::default(), Cells::default());
        Self { state, out: vec![1; OUT].into(), made: 0, has_begun: false, is_over: true }
    }

    /// A new stream. Of the one before nothing is left.
    pub(super) fn begin(&mut self) {
        self.state = State::new_strict(Cells::default(), Cells::default(), Cells::default());
        // Its window at once: a growing one would need two.
        self.state.set_initial_ring_buffer_size(u32::MAX);
        (self.made, self.has_begun, self.is_over) = (0, false, false);
    }

    /// The stream is over: gives its memory back.
    pub(super) fn release(&mut self, memory: &mut Memory) {
        self.is_over = true;
        self.lend(memory);
        let state = &mut self.state;
        state.BrotliStateCleanupAfterMetablock();
        state.alloc_u8.free_cell(std::mem::take(&mut state.ringbuffer));
        for cell in [
            &mut state.context_map_table,
            &mut state.block_type_length_state.block_type_trees,
            &mut state.block_type_length_state.block_len_trees,
        ] {
            state.alloc_hc.free_cell(std::mem::take(cell));
        }
        self.lend(memory);
    }

    /// The shared memory is the decoder's as long as it decodes; called again, it is not any more.
    fn lend(&mut self, memory: &mut Memory) {
        std::mem::swap(&mut self.state.alloc_u8, &mut memory.bytes);
        std::mem::swap(&mut self.state.alloc_u32, &mut memory.words);
        std::mem::swap(&mut self.state.alloc_hc, &mut memory.codes);
    }

    /// Bytes that the decoder has made, those that were not handed on included.
    fn inside(&self) -> u64 {
        let state = &self.state;
        state.rb_roundtrips * u64::from(state.ringbuffer_size.unsigned_abs()) + u64::from(state.pos.unsigned_abs())
    }

    /// Moves that maps took at most since their list was marked as untouched, in so much input.
    fn moves(&self, used: usize) -> usize {
        let state = &self.state;
        if state.mtf_upper_bound == UNTOUCHED {
            return 0;
        }
        // A map comes before its tables: those of all but the last one are in the same input.
        let tables = (state.num_literal_htrees.max(state.num_dist_htrees) as usize).max(used * 8 / TABLE_BITS);
        (state.context_map.len + state.dist_context_map.len) * tables
    }

    /// Decodes further bytes; what comes out is in [`Brotli::out`].
    pub(super) fn step(&mut self, input: &[u8], memory: &mut Memory) -> Step {
        let mut step =
            Step { used: input.len(), made: 0, cost: 0, tables: 0, is_done: true, lacks_memory: false, is_cut: false };
        if self.is_over || (input.is_empty() && !self.has_begun) {
            return step;
        }
        // Its first byte says how large its window is.
        let first = [input.first().map_or(0, |&byte| narrow(byte))];
        let part = if self.has_begun { &input[..input.len().min(IN)] } else { &first[..] };
        self.has_begun = true;
        let (mut left, mut used, mut room, mut made, mut all) = (part.len(), 0, self.out.len(), 0, 0);
        let before = self.inside();
        self.state.mtf_upper_bound = UNTOUCHED;
        let of = |state: &State| discriminant(&state.substate_tree_group);
        // Its number begins at 0 with each list of tables.
        let is_between = of(&self.state) == of(&memory.idle);
        if is_between {
            self.state.htree_index = NO_TABLE;
        }
        self.lend(memory);
        let result = BrotliDecompressStream(
            &mut left,
            &mut used,
            part,
            &mut room,
            &mut made,
            &mut self.out,
            &mut all,
            &mut self.state,
        );
        self.lend(memory);
        let decoded = self.inside().saturating_sub(before) as usize;
        step.made = made.min(MOST - self.made);
        self.made += step.made;
        step.used = used;
        let has_tables = !is_between || self.state.htree_index != NO_TABLE;
        step.tables = if has_tables { (used * 8).div_ceil(TABLE_BITS) * TABLE } else { 0 };
        step.cost = decoded + BY_INPUT * used + self.moves(used) / MOVES;
        let is_end = matches!(result, BrotliResult::ResultSuccess | BrotliResult::ResultFailure) || self.made == MOST;
        self.is_over = is_end;
        step.lacks_memory = matches!(result, BrotliResult::ResultFailure) && is_for_memory(&self.state);
        step.is_cut = self.made == MOST && !matches!(result, BrotliResult::ResultSuccess);
        // As long as the place for it is full there may be more inside.
        let is_all_used = matches!(result, BrotliResult::NeedsMoreInput) && used == input.len();
        step.is_done = is_end || (is_all_used && made < self.out.len());
        if is_end {
            self.release(memory);
        }
        step
    }

    pub(super) fn out(&self, made: usize) -> &[u8] {
        &self.out[..made]
    }
}

/// The decoder found no memory: its error is one of those about allocation.
fn is_for_memory(state: &State) -> bool {
    // BROTLI_DECODER_ERROR_ALLOC_*: -21 to -30.
    (-30..=-21).contains(&(state.error_code as i32))
}

/// A stream's first byte, with a window of no more than ours (RFC 7932 §9.1). Larger ones than 17 bits are told in four bits.
fn narrow(first: u8) -> u8 {
    let bits = 17 + (first >> 1 & 7);
    if first & 1 == 1 && bits > WINDOW_BITS { first & 0xf1 | (WINDOW_BITS - 17) << 1 } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of HTML, with a window of 2²⁴ bytes.
    const SMALL: &[u8] = &[
        0x1f, 0x26, 0x00, 0xf8, 0x1d, 0xa7, 0xc3, 0x9a, 0x9b, 0x3c, 0xe2, 0x35, 0x48, 0x4b, 0x59, 0x9a, 0x7e, 0xe1,
        0x09, 0x63, 0x53, 0x6e, 0x76, 0x5d, 0xc8, 0x24, 0x9a, 0xf0, 0xa2, 0x61, 0x38, 0xc5, 0x24, 0x95, 0x50, 0x31,
        0x0b, 0x7d, 0x25, 0x36, 0x1f, 0x15, 0x00,
    ];
    /// 100 bytes, 200,000 zeros and the same 100 bytes, which refer to the first ones.
    const FAR: &[u8] = &[
        0x5f, 0x07, 0x0e, 0x03, 0x40, 0x06, 0xc6, 0xe9, 0x00, 0x26, 0x76, 0x33, 0x09, 0x49, 0xaa, 0xe0, 0xd5, 0x64,
        0xe6, 0xbf, 0x32, 0x43, 0xe9, 0x4e, 0x6f, 0x77, 0x01, 0xf6, 0x63, 0x21, 0xef, 0x91, 0x4f, 0x30, 0x90, 0xae,
        0x5f, 0x4a, 0x9e, 0xd7, 0x76, 0x11, 0x2e, 0xc5, 0x47, 0x6d, 0x27, 0x5e, 0xfd, 0x71, 0xba, 0x7f, 0x46, 0xfa,
        0xf0, 0xdb, 0x39, 0x93, 0x3a, 0x1d, 0xc6, 0x7d, 0x3e, 0x5a, 0x16, 0x7c, 0x9d, 0xed, 0x86, 0x0b, 0x01, 0xc4,
        0xa5, 0x5a, 0xf8, 0x0f, 0x0d, 0x5a, 0x05, 0x3d, 0x60, 0x7e, 0x85, 0x75, 0x1e, 0x30, 0xfa, 0x13, 0xfa, 0xb8,
        0x24, 0x59, 0xe6, 0xb5, 0x57, 0xab, 0xb4, 0x56, 0xd5, 0x3b, 0xab, 0x56, 0xe6, 0xff, 0x3d, 0xfd, 0x44, 0x46,
        0x26, 0xfb, 0x6b, 0x98, 0x79, 0x32, 0xcf, 0xbc, 0x0e, 0xa1, 0x75, 0x6c, 0xa1, 0x5e, 0xee, 0xf6, 0x9a, 0x22,
        0xf7, 0x87, 0x65, 0x00, 0xfe, 0x69, 0x03,
    ];
    /// 50,000,000 zeros.
    const BOMB: &[u8] = &[
        0xcf, 0xff, 0xff, 0x7f, 0x00, 0x24, 0x00, 0xe2, 0xb1, 0x40, 0x72, 0xef, 0xff, 0xf9, 0xff, 0xff, 0x0f, 0x80,
        0x04, 0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x7f, 0xfe, 0xc1, 0xeb, 0x03, 0x90, 0x00, 0x88, 0xc3, 0x02, 0xd0,
        0x41, 0xd7, 0x07,
    ];

    /// What comes out of a stream that comes in pieces, and its cost.
    fn decoded(brotli: &mut Brotli, memory: &mut Memory, stream: &[u8], piece: usize) -> (Vec<u8>, usize) {
        let (mut out, mut cost) = (Vec::new(), 0);
        brotli.begin();
        for part in stream.chunks(piece) {
            let mut rest = part;
            loop {
                let step = brotli.step(rest, memory);
                rest = &rest[step.used..];
                cost += step.cost;
                out.extend_from_slice(brotli.out(step.made));
                if step.is_done {
                    break;
                }
            }
        }
        brotli.release(memory);
        (out, cost)
    }

    fn free(memory: &Memory) -> usize {
        fn count<T>(cells: &Cells<T>) -> usize {
            cells.sizes.iter().map(|(_, free)| free.len()).sum()
        }
        count(&memory.bytes) + count(&memory.words) + count(&memory.codes)
    }

    #[test]
    fn streams_whatever_their_windows_and_pieces() {
        let (mut memory, mut brotli) = (Memory::new(1), Brotli::new());
        let all = free(&memory);
        for piece in [1, 2, 7, 1000] {
            assert_eq!(decoded(&mut brotli, &mut memory, SMALL, piece).0, b"<html>an evil-answer in the page</html>");
            let (far, _) = decoded(&mut brotli, &mut memory, FAR, piece);
            assert_eq!((far.len(), &far[..100]), (200_200, &far[200_100..]), "pieces of {piece}");
            assert!(far[100..200_100].iter().all(|&byte| byte == 0));
            assert_eq!(free(&memory), all, "all was given back");
        }
    }

    /// A stream may have no end: what its last bytes say comes out with them.
    #[test]
    fn a_stream_without_its_end() {
        let (mut memory, mut brotli) = (Memory::new(1), Brotli::new());
        let (whole, _) = decoded(&mut brotli, &mut memory, FAR, 1000);
        let (cut, _) = decoded(&mut brotli, &mut memory, &FAR[..FAR.len() - 1], 1000);
        assert!(cut.len() > 200_000 && whole.starts_with(&cut), "{}", cut.len());
    }

    #[test]
    fn what_comes_out_is_bounded_and_paid_for() {
        let (mut memory, mut brotli) = (Memory::new(1), Brotli::new());
        let (out, cost) = decoded(&mut brotli, &mut memory, BOMB, 1000);
        assert_eq!(out.len(), MOST);
        assert!((MOST..MOST + WINDOW + BY_INPUT * BOMB.len()).contains(&cost), "{cost}");
    }

    /// Blocks of one byte each, with maps for so many kinds of blocks that lead to 256 tables, in turn to the last one in the list.
    fn maps(blocks: usize, kinds: u32) -> Vec<u8> {
        let mut bits = vec![false];
        let mut put = |value: u32, count: u32| bits.extend((0..count).map(|bit| value >> bit & 1 == 1));
        // RFC 7932 §9.2: a number of two or more, and a prefix code of one symbol (§3.4).
        let number = |value: u32| {
            let count = (value - 1).ilog2();
            (1 | count << 1 | (value - 1 - (1 << count)) << 4, count + 4)
        };
        let only = |symbol: u32, bits: u32| (1 | symbol << 4, bits + 4);
        for _ in 0..blocks {
            // Not the last one, of one byte, compressed.
            put(0, 20);
            let symbol_bits = u32::BITS - (kinds + 1).leading_zeros();
            for (value, count) in [number(kinds), only(0, symbol_bits), only(0, 5)] {
                put(value, count);
            }
            // Its length; one kind of the others; no distances of their own; contexts of the same mode.
            put(0, 2 + 2 + 6);
            (0..kinds).for_each(|_| put(0, 2));
            // The map: no runs, always the last one.
            for (value, count) in [number(256), (0, 1), only(255, 8), (1, 1), (0, 1)] {
                put(value, count);
            }
            (0..256).for_each(|_| put(only(u32::from(b'x'), 8).0, 12));
            // A command: one byte.
            for (value, count) in [only(8, 10), only(0, 6)] {
                put(value, count);
            }
        }
        let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
        bits.chunks(8).map(byte).collect()
    }

    #[test]
    fn maps_are_paid_for() {
        let (mut memory, mut brotli) = (Memory::new(1), Brotli::new());
        for (kinds, piece) in [(16, 5000), (64, 5000), (64, 1), (64, 300)] {
            let moves = 10 * 64 * kinds as usize * 255;
            let (out, cost) = decoded(&mut brotli, &mut memory, &maps(10, kinds), piece);
            assert_eq!(out, [b'x'; 10], "{kinds} kinds in pieces of {piece}");
            assert!((moves / MOVES..moves).contains(&cost), "{kinds} kinds in pieces of {piece}: {cost}");
        }
        brotli.begin();
        let stream = maps(1, 256);
        assert_eq!(brotli.step(&stream, &mut memory).used, 1);
        assert!(stream[1..].chunks(IN).any(|part| brotli.step(part, &mut memory).lacks_memory));
    }

    /// However blocks lie in the pieces: each of these has 256 tables and more.
    #[test]
    fn tables_are_paid_for_and_little_else_is() {
        let (mut memory, mut brotli) = (Memory::new(1), Brotli::new());
        let mut paid = |stream: &[u8], piece: usize| {
            let mut paid = 0;
            brotli.begin();
            for part in stream.chunks(piece) {
                let mut rest = part;
                loop {
                    let step = brotli.step(rest, &mut memory);
                    (rest, paid) = (&rest[step.used..], paid + step.tables);
                    if step.is_done {
                        break;
                    }
                }
            }
            brotli.release(&mut memory);
            paid
        };
        for kinds in [2, 16] {
            let stream = maps(10, kinds);
            let most = (stream.len() + stream.len() * 8 / TABLE_BITS) * TABLE;
            for piece in [1, 100, 128, 5000] {
                let paid = paid(&stream, piece);
                assert!((10 * 256 * TABLE..=most).contains(&paid), "{kinds} kinds in pieces of {piece}: {paid}");
            }
        }
        let (head, all) = (paid(FAR, 5000), 2 * IN * TABLE);
        assert!(head > 0 && head <= all, "{head} of one block's tables");
        let stored = [&[0x0c, 0xf8, 0xff, 0x0f][..], &[b'a'; 1 << 16], &[3]].concat();
        assert_eq!(paid(&stored, 5000), 0, "content as it is has no tables");
    }

    #[test]
    fn without_memory_a_stream_ends() {
        let (mut memory, mut brotli) = (Memory::new(1), Brotli::new());
        let mut other = Brotli::new();
        other.begin();
        assert!(
            !other.step(&FAR[..1], &mut memory).lacks_memory && !other.step(&FAR[1..100], &mut memory).lacks_memory
        );
        brotli.begin();
        assert!(!brotli.step(&FAR[..1], &mut memory).lacks_memory);
        let step = brotli.step(&FAR[1..], &mut memory);
        assert!(step.lacks_memory && step.is_done && step.made == 0);
        other.release(&mut memory);
        assert_eq!(decoded(&mut brotli, &mut memory, FAR, 1000).0.len(), 200_200);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), piece in 1usize..50,
            at in 0usize..40, is_changed in proptest::prelude::any::<bool>()) {
            let (mut memory, mut brotli) = (Memory::new(1), Brotli::new());
            let all = free(&memory);
            if is_changed {
                let mut stream = SMALL.to_vec();
                stream[at] = bytes.first().copied().unwrap_or(0);
                bytes = stream;
            }
            decoded(&mut brotli, &mut memory, &bytes, piece);
            proptest::prop_assert_eq!(free(&memory), all);
        }
    }
}

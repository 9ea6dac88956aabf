//! Generated operations of the kernel and of ours on a socket's receive side, held against a model of who owns each frame.
//!
//! Owns the model: packets as the descriptors say, and the order in which frames go back. It knows the UMEM's layout by the
//! kernel's documents, not by the code under test.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{PACKED_CHUNK, PACKED_FRAME, PACKED_TAIL, Slot, XDP_PKT_CONTD, XskSocket};
use crate::testing::rings::{COOKIE, XdpKernel, pattern, stamped, xdp_socket};

const COUNT: u32 = 64;

#[derive(Debug, Clone, Copy)]
enum Act {
    /// The kernel writes a packet of so many bytes.
    Write(usize),
    /// It uses a frame up and shows any descriptor instead of the frame's: how it lies, and a number for that.
    Lie(u8, u64),
    /// It shows what it wrote, then how many frames it took.
    Show,
    Receive(usize),
    GiveBack(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => prop_oneof![1..600usize, 1..9000usize].prop_map(Act::Write),
        2 => (0..6u8, any::<u64>()).prop_map(|(how, number)| Act::Lie(how, number)),
        6 => Just(Act::Show),
        6 => (1..20usize).prop_map(Act::Receive),
        6 => (1..20usize).prop_map(Act::GiveBack),
    ];
    vec(act, 1..if cfg!(miri) { 30 } else { 300 })
}

/// What the model expects of one packet, or of descriptors that make none.
#[derive(Debug, Clone)]
struct Expected {
    /// Where its bytes are, and how many; `None` where it makes no packet.
    place: Option<(usize, u32)>,
    /// What they are, stamp included; `None` of a packet that the kernel lied about.
    bytes: Option<Vec<u8>>,
    /// The fill ring's names of the frames that go back with it.
    frames: Vec<u64>,
}

struct Model {
    size: u32,
    /// In the RX ring: not shown, and shown.
    written: VecDeque<(libc::xdp_desc, Option<Vec<u8>>)>,
    shown: VecDeque<(libc::xdp_desc, Option<Vec<u8>>)>,
    /// Taken off the ring, in order of arrival, and not given back.
    held: VecDeque<(Expected, Option<Slot>)>,
    /// What the fill ring must have got since it was looked at, in order.
    returned: VecDeque<u64>,
    invalid: u64,
    time_ns: u64,
}

impl Model {
    fn packed(&self) -> bool {
        self.size == PACKED_FRAME
    }

    /// The frame that a descriptor names, and where its bytes are in the UMEM.
    fn find(&self, descriptor: &libc::xdp_desc) -> Option<(u64, usize)> {
        let size = u64::from(self.size);
        let (chunk, inside) = if self.packed() {
            (descriptor.addr & 0xffff_ffff_ffff, descriptor.addr >> 48)
        } else {
            (descriptor.addr / size * size, descriptor.addr % size)
        };
        let (lead, room) = if self.packed() {
            (u64::from(PACKED_CHUNK - PACKED_FRAME), u64::from(PACKED_FRAME))
        } else {
            (inside, size - inside)
        };
        let whole = chunk.is_multiple_of(size) && chunk < u64::from(COUNT) * size;
        (whole && inside == lead && u64::from(descriptor.len) <= room).then_some((chunk, (chunk + inside) as usize))
    }

    /// The next packet of the shown descriptors.
    fn next(&mut self) -> Option<Expected> {
        let (first, mut bytes) = self.shown.pop_front()?;
        let mut chain = vec![first];
        let mut ends = true;
        while chain[chain.len() - 1].options & XDP_PKT_CONTD != 0 {
            let Some((piece, more)) = self.shown.pop_front() else {
                ends = false;
                break;
            };
            bytes = bytes.zip(more).map(|(bytes, more)| [bytes, more].concat());
            chain.push(piece);
        }
        let found: Vec<_> = chain.iter().map(|piece| self.find(piece)).collect();
        let lap = u64::from(COUNT) * u64::from(self.size);
        let follow = |pair: &[Option<(u64, usize)>]| match pair {
            [Some((a, _)), Some((b, _))] => *b == (a + u64::from(self.size)) % lap,
            _ => false,
        };
        let full = chain[..chain.len() - 1].iter().all(|piece| piece.len == PACKED_FRAME);
        let alone = chain.len() == 1;
        let sound = ends && (alone || self.packed() && full && found.windows(2).all(follow));
        let len: u64 = chain.iter().map(|piece| u64::from(piece.len)).sum();
        let end = lap as usize + if self.packed() { PACKED_TAIL } else { 0 };
        let place = found[0].filter(|&(_, at)| sound && at as u64 + len <= end as u64);
        // One that makes no packet by itself names no frame that could be trusted; of several, those that are named rightly
        // go back.
        let frames = if place.is_none() && alone && ends {
            Vec::new()
        } else {
            found.iter().flatten().map(|&(frame, _)| frame).collect()
        };
        Some(Expected { place: place.map(|(_, at)| (at, len as u32)), bytes, frames })
    }

    /// What the last packet that user space has holds must go back, with what is behind it and makes no packet.
    fn settle(&mut self) {
        while let Some((expected, _)) = self.held.pop_front_if(|(expected, _)| expected.place.is_none()) {
            self.returned.extend(expected.frames);
        }
    }

    fn receive(&mut self, socket: &mut XskSocket, most: usize) -> Result<(), TestCaseError> {
        let mut slots = Vec::with_capacity(most);
        socket.receive(&mut slots, most);
        let mut slots = slots.into_iter();
        let mut left = most;
        while left > 0 {
            let Some(expected) = self.next() else { break };
            let slot = expected.place.and_then(|_| slots.next());
            left -= usize::from(expected.place.is_some());
            prop_assert_eq!(slot.is_some(), expected.place.is_some(), "{:?}", expected);
            self.invalid += u64::from(expected.place.is_none());
            self.held.push_back((expected, slot));
        }
        prop_assert!(slots.next().is_none(), "a packet that no descriptor named");
        self.check(socket)?;
        // Where nobody has a packet, there is none to wait for.
        if self.held.iter().all(|(expected, _)| expected.place.is_none()) {
            self.settle();
        }
        Ok(())
    }

    /// All packets that user space has are what the kernel wrote.
    fn check(&self, socket: &XskSocket) -> Result<(), TestCaseError> {
        for (expected, slot) in &self.held {
            let (Some((at, len)), Some(slot)) = (expected.place, slot) else { continue };
            let got = socket.region().bytes(slot);
            let stamp = len as usize - got.len();
            prop_assert!(stamp == 0 || stamp == 16);
            prop_assert_eq!(slot.offset(), at + stamp);
            if let Some(bytes) = &expected.bytes {
                let time = u64::from_ne_bytes(std::array::from_fn(|i| bytes[i]));
                let believed = bytes[8..16] == COOKIE.to_ne_bytes();
                prop_assert_eq!((stamp, slot.arrival_ns), if believed { (16, time) } else { (0, 0) });
                prop_assert!(got == &bytes[stamp..], "{} bytes at {}", got.len(), at);
            }
        }
        Ok(())
    }

    fn give_back(&mut self, socket: &mut XskSocket, most: usize) {
        let mut slots = Vec::new();
        while slots.len() < most {
            let Some((expected, slot)) = self.held.pop_front() else { break };
            slots.extend(slot);
            self.returned.extend(expected.frames);
        }
        socket.give_back(&slots);
        self.settle();
    }

    /// What came back is what had to, in the order of arrival.
    fn see_returned(&mut self, kernel: &mut XdpKernel) -> Result<(), TestCaseError> {
        prop_assert_eq!(kernel.refill(), self.returned.drain(..).collect::<Vec<_>>());
        Ok(())
    }
}

/// A descriptor that says something else than the frame that was used up for it.
fn lie(kernel: &XdpKernel, size: u32, frame: u64, how: u8, number: u64) -> libc::xdp_desc {
    let any_frame = number % u64::from(COUNT + 2) * u64::from(size);
    let len = (number >> 32) as u32;
    let (addr, len, options) = match how {
        // Another frame, which may be anybody's; with a length that fits or not.
        0 => (kernel.address(any_frame), len % (size + 16), 0),
        // Its own, with any length.
        1 => (kernel.address(frame), len, 0),
        // Bytes that begin anywhere.
        2 => (number, len % size, 0),
        // A packet that goes on, and need not.
        3 => (kernel.address(frame), size.min(PACKED_FRAME), XDP_PKT_CONTD),
        4 => (kernel.address(any_frame), len % (size + 1), XDP_PKT_CONTD),
        // A few bytes beside where the packet is.
        _ => (kernel.address(frame).wrapping_add(number % 64).wrapping_sub(32), 60, 0),
    };
    libc::xdp_desc { addr, len, options }
}

fn run(size: u32, start: u32, acts: &[Act]) -> Result<(), TestCaseError> {
    let (mut socket, _, mut kernel) = xdp_socket(COUNT, size, 2, start);
    let mut model = Model {
        size,
        written: VecDeque::new(),
        shown: VecDeque::new(),
        held: VecDeque::new(),
        returned: (0..COUNT).map(|frame| u64::from(frame * size)).collect(),
        invalid: 0,
        time_ns: 0,
    };
    for &act in acts {
        model.see_returned(&mut kernel)?;
        match act {
            Act::Write(len) => {
                model.time_ns += 1;
                let cookie = if model.time_ns.is_multiple_of(5) { !COOKIE } else { COOKIE };
                let packet = pattern(len, model.time_ns);
                let packet = stamped(model.time_ns, cookie, &packet);
                // Whole frames take what fits one.
                let packet = if model.packed() { packet } else { packet[..packet.len().min(kernel.room())].to_vec() };
                let pieces = kernel.write(&packet).unwrap_or_default();
                model
                    .written
                    .extend(pieces.into_iter().zip(packet.chunks(kernel.room()).map(|piece| Some(piece.to_vec()))));
            }
            Act::Lie(how, number) => {
                if kernel.rx.room() > 0
                    && let Some(frame) = kernel.frame()
                {
                    let descriptor = lie(&kernel, size, frame, how, number);
                    kernel.describe(descriptor);
                    model.written.push_back((descriptor, None));
                }
            }
            Act::Show => {
                kernel.show();
                model.shown.append(&mut model.written);
            }
            Act::Receive(most) => model.receive(&mut socket, most)?,
            Act::GiveBack(most) => {
                model.check(&socket)?;
                model.give_back(&mut socket, most);
            }
        }
        prop_assert_eq!(socket.invalid_descriptors, model.invalid);
    }
    // At the end all comes back that was named rightly.
    kernel.show();
    model.shown.append(&mut model.written);
    model.see_returned(&mut kernel)?;
    while !socket.is_empty() {
        model.receive(&mut socket, 64)?;
        model.check(&socket)?;
        model.give_back(&mut socket, usize::MAX);
    }
    model.give_back(&mut socket, usize::MAX);
    prop_assert_eq!(socket.invalid_descriptors, model.invalid);
    model.see_returned(&mut kernel)
}

fn starts() -> impl Strategy<Value = u32> {
    prop_oneof![u32::MAX - 200..=u32::MAX, any::<u32>()]
}

proptest! {
    #[test]
    fn whole_frames_have_one_owner(start in starts(), acts in acts()) {
        run(2048, start, &acts)?;
    }

    #[test]
    fn packed_frames_have_one_owner(start in starts(), acts in acts()) {
        run(PACKED_FRAME, start, &acts)?;
    }
}

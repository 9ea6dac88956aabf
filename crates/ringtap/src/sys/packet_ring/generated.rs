//! Generated operations of the kernel and of ours on a packet socket's rings, held against a model of who owns each frame.

use std::collections::{BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::{
    FrameHead, PacketReceive, Slot, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, TP_STATUS_WRONG_FORMAT,
    VLAN_TAG_BYTES,
};
use crate::testing::rings::packet::{Head, PacketKernel, Tag, receive, transmit};
use crate::testing::rings::pattern;

const COUNT: usize = 16;
const FRAME_SIZE: usize = 2048;

#[derive(Debug, Clone)]
enum Act {
    Deliver(usize, Option<Tag>),
    /// A head that says anything.
    Lie {
        status: u32,
        head: [u32; 4],
        near: bool,
    },
    Receive(usize),
    /// Some of the packets that user space has, from one of them on.
    GiveBack(usize, usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let tag = proptest::option::of((any::<u16>(), proptest::option::of(any::<u16>())));
    let len = prop_oneof![4 => 1..1500usize, 1 => 1900..5000usize];
    let lie = (any::<u32>(), any::<[u32; 4]>(), any::<bool>());
    let act = prop_oneof![
        8 => (len, tag).prop_map(|(len, tag)| Act::Deliver(len, tag)),
        2 => lie.prop_map(|(status, head, near)| Act::Lie { status, head, near }),
        8 => (1..=COUNT).prop_map(Act::Receive),
        5 => (0..8usize, 1..10usize).prop_map(|(from, most)| Act::GiveBack(from, most)),
    ];
    vec(act, 1..if cfg!(miri) { 30 } else { 300 })
}

/// A packet that user space is to find in a frame.
#[derive(Debug)]
struct Expected {
    frame: usize,
    /// Its bytes, its tag among them, and its length on the wire; `None` where the head names none.
    packet: Option<(Vec<u8>, u32)>,
    arrival_ns: u64,
}

/// `bytes` with a tag behind the MAC addresses, if they are all there.
fn tagged(bytes: Vec<u8>, tag: Option<Tag>) -> Vec<u8> {
    match tag {
        Some((tci, tpid)) if bytes.len() >= 12 => {
            let tag = [tpid.unwrap_or(0x8100).to_be_bytes(), tci.to_be_bytes()].concat();
            [&bytes[..12], &tag, &bytes[12..]].concat()
        }
        _ => bytes,
    }
}

#[derive(Default)]
struct Model {
    shown: VecDeque<Expected>,
    held: VecDeque<(Expected, Slot)>,
    invalid: u64,
    number: u32,
}

impl Model {
    fn deliver(&mut self, kernel: &mut PacketKernel, len: usize, tag: Option<Tag>) -> Result<(), TestCaseError> {
        self.number += 1;
        let packet = pattern(len, self.number.into());
        let frame = kernel.next();
        let is_ours = self.shown.iter().chain(self.held.iter().map(|(expected, _)| expected)).any(|e| e.frame == frame);
        let delivered = kernel.deliver(&packet, tag, (self.number, 7));
        prop_assert_eq!(delivered.is_none(), is_ours, "frame {}", frame);
        if let Some(captured) = delivered {
            let has_tag = tag.is_some() && captured >= 12;
            let wire_len = len + if has_tag { VLAN_TAG_BYTES } else { 0 };
            let packet = Some((tagged(packet[..captured].to_vec(), tag), wire_len as u32));
            let arrival_ns = u64::from(self.number) * 1_000_000_000 + 7;
            self.shown.push_back(Expected { frame, packet, arrival_ns });
        }
        Ok(())
    }

    fn lie(&mut self, kernel: &mut PacketKernel, status: u32, head: [u32; 4], near: bool) {
        if !kernel.has_room() {
            return;
        }
        let frame = kernel.next();
        // Half of them near the limits, where a check could be off by one.
        let end = FRAME_SIZE as u32;
        let mac = if near { head[0] % 80 } else { head[0] } as u16;
        let snaplen = if near { end.saturating_sub(u32::from(mac)) + head[1] % 3 - 1 } else { head[1] };
        let head = Head { len: head[2], snaplen, mac, time: (1, 2), tci: head[3] as u16, tpid: (head[3] >> 16) as u16 };
        // Without TP_STATUS_COPY: see the tests of `oversize`.
        let status = status & !super::TP_STATUS_COPY;
        let at = usize::from(mac);
        let sound = at >= size_of::<FrameHead>() + VLAN_TAG_BYTES && at + snaplen as usize <= FRAME_SIZE;
        let packet = sound.then(|| {
            let tpid = (status & TP_STATUS_VLAN_TPID_VALID != 0).then_some(head.tpid);
            let tag = (status & TP_STATUS_VLAN_VALID != 0).then_some((head.tci, tpid));
            let bytes = kernel.read(frame, at, snaplen as usize);
            let had = bytes.len();
            let bytes = tagged(bytes, tag);
            let wire_len = head.len.saturating_add((bytes.len() - had) as u32).max(bytes.len() as u32);
            (bytes, wire_len)
        });
        kernel.show(status, head);
        self.shown.push_back(Expected { frame, packet, arrival_ns: 1_000_000_002 });
    }

    fn receive(&mut self, ring: &mut PacketReceive, most: usize) -> Result<(), TestCaseError> {
        let mut slots = Vec::with_capacity(most);
        ring.receive(&mut slots, most);
        let mut slots = slots.into_iter();
        for _ in 0..most {
            let Some(expected) = self.shown.pop_front() else { break };
            if expected.packet.is_none() {
                self.invalid += 1;
                continue;
            }
            let Some(slot) = slots.next() else { return Err(TestCaseError::fail(format!("{expected:?} is missing"))) };
            prop_assert_eq!(slot.arrival_ns, expected.arrival_ns);
            self.held.push_back((expected, slot));
        }
        prop_assert!(slots.next().is_none(), "a packet that nobody delivered");
        Ok(())
    }

    fn check(&self, ring: &PacketReceive, kernel: &PacketKernel) -> Result<(), TestCaseError> {
        for (expected, slot) in &self.held {
            let Some((bytes, wire_len)) = &expected.packet else { continue };
            prop_assert!(ring.region().bytes(slot) == &bytes[..], "frame {}", expected.frame);
            prop_assert_eq!(slot.wire_len, *wire_len);
        }
        let ours: BTreeSet<usize> =
            self.shown.iter().chain(self.held.iter().map(|(expected, _)| expected)).map(|e| e.frame).collect();
        prop_assert_eq!(ours.len(), self.shown.len() + self.held.len(), "each frame once");
        for frame in 0..COUNT {
            prop_assert_eq!(kernel.status(frame) & 1 != 0, ours.contains(&frame), "frame {}", frame);
        }
        prop_assert_eq!(ring.invalid_descriptors, self.invalid);
        prop_assert!(!self.held.is_empty() || ring.is_empty() == self.shown.is_empty());
        Ok(())
    }
}

proptest! {
    #[test]
    fn receive_frames_have_one_owner(acts in acts()) {
        let (mut ring, mut kernel) = receive(COUNT, FRAME_SIZE);
        let mut model = Model::default();
        for act in acts {
            match act {
                Act::Deliver(len, tag) => model.deliver(&mut kernel, len, tag)?,
                Act::Lie { status, head, near } => model.lie(&mut kernel, status, head, near),
                // A burst begins when the one before it has ended.
                Act::Receive(most) => if model.held.is_empty() {
                    model.receive(&mut ring, most)?;
                },
                Act::GiveBack(from, most) => {
                    let from = from.min(model.held.len());
                    let most = most.min(model.held.len() - from);
                    let slots: Vec<Slot> = model.held.drain(from..from + most).map(|(_, slot)| slot).collect();
                    ring.give_back(&slots);
                }
            }
            model.check(&ring, &kernel)?;
        }
    }

    #[test]
    fn transmit_frames_have_one_owner(acts in vec((0..5u8, any::<usize>()), 1..if cfg!(miri) { 30 } else { 300 })) {
        let (mut ring, mut kernel) = transmit(COUNT, FRAME_SIZE);
        // Frames in the order in which they were sent, and those that the kernel took.
        let (mut queued, mut sent, mut out) = (VecDeque::new(), VecDeque::new(), BTreeSet::new());
        let (mut next, mut number, mut refused) = (0, 0u8, 0u64);
        for (act, choice) in acts {
            match act {
                0 | 1 => {
                    // None, and more than fit, too.
                    let len = choice % (FRAME_SIZE + 10);
                    let is_free = !queued.contains(&next) && !out.contains(&next);
                    number = number.wrapping_add(1);
                    let room = FRAME_SIZE - size_of::<FrameHead>();
                    let got = ring.send(|frame| {
                        assert_eq!(frame.len(), room);
                        frame[..len.min(room)].fill(number);
                        len
                    });
                    prop_assert_eq!(got, is_free.then_some(len.min(room)));
                    if got.is_some_and(|len| len > 0) {
                        queued.push_back(next);
                        sent.push_back(vec![number; len.min(room)]);
                        next = (next + 1) % COUNT;
                    }
                }
                2 => if let Some((frame, packet)) = kernel.take_sent() {
                    prop_assert_eq!(Some(frame), queued.pop_front());
                    prop_assert_eq!(Some(packet), sent.pop_front());
                    prop_assert!(out.insert(frame));
                } else {
                    prop_assert!(queued.is_empty());
                },
                3 => if kernel.refuse().is_some() {
                    // With it goes what is as long, and the others move up to its place.
                    let limit = Some(sent[0].len()).filter(|len| *len > 82);
                    let before = sent.len();
                    let mut place = 0;
                    sent.retain(|packet| {
                        place += 1;
                        place > 1 && limit.is_none_or(|limit| packet.len() < limit)
                    });
                    refused += (before - sent.len()) as u64;
                    queued.truncate(sent.len());
                    next = (next + COUNT - (before - sent.len())) % COUNT;
                    prop_assert!(ring.take_refused_out());
                    prop_assert_eq!(ring.refused(), refused);
                } else {
                    prop_assert!(!ring.take_refused_out());
                },
                _ => if let Some(&frame) = out.iter().nth(choice % out.len().max(1)) {
                    out.remove(&frame);
                    kernel.complete(frame, if choice % 5 == 0 { TP_STATUS_WRONG_FORMAT } else { 0 });
                },
            }
            prop_assert_eq!(ring.pending() as usize, queued.len());
        }
        if !cfg!(miri) {
            ring.kick();
            prop_assert_eq!(kernel.kicks(), 1);
        }
    }
}

//! Generated operations of the card and of ours on a queue's rings, held against a model of whose each descriptor is.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{CardReceive, Slot};
use crate::testing::rings::card::{DONE, END_OF_PACKET, queue};
use crate::testing::rings::pattern;

const COUNT: usize = 16;
const FRAME_SIZE: usize = 2048;

#[derive(Debug, Clone, Copy)]
enum Act {
    /// A packet of so many bytes.
    Deliver(usize),
    /// The card says something else of its next descriptor: status and length.
    Lie(u32, u32),
    /// It says so of a descriptor that may be anybody's.
    Claim(usize, u32),
    Receive(usize),
    GiveBack(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let len = prop_oneof![Just(FRAME_SIZE as u32), Just(FRAME_SIZE as u32 + 1), Just(0), any::<u32>()];
    let act = prop_oneof![
        8 => prop_oneof![8 => 1..1600usize, 1 => 2040..6000usize].prop_map(Act::Deliver),
        2 => (0..4u32, len.clone()).prop_map(|(status, len)| Act::Lie(status | DONE, len)),
        1 => (0..COUNT, len).prop_map(|(index, len)| Act::Claim(index, len)),
        8 => (1..=COUNT).prop_map(Act::Receive),
        5 => (1..10usize).prop_map(Act::GiveBack),
    ];
    vec(act, 1..if cfg!(miri) { 30 } else { 300 })
}

/// What is in a descriptor that the card has written back.
#[derive(Debug, Clone)]
struct Written {
    status: u32,
    len: u32,
    /// `None` where the card lied.
    bytes: Option<Vec<u8>>,
}

struct Model {
    descriptors: Vec<Option<Written>>,
    /// The next to look at, and the first that is not the card's.
    next: usize,
    given: usize,
    inside_long: bool,
    held: VecDeque<(Written, Slot)>,
    invalid: u64,
    number: u64,
}

fn after(index: usize) -> usize {
    (index + 1) % COUNT
}

impl Model {
    fn receive(&mut self, ring: &mut CardReceive, most: usize) -> Result<(), TestCaseError> {
        let mut slots = Vec::with_capacity(most);
        ring.take(&mut slots, most, || 7);
        let mut slots = slots.into_iter();
        let (mut found, first) = (0, self.next);
        while found < most && after(self.next) != self.given {
            let Some(written) = self.descriptors[self.next].clone() else { break };
            let is_end = written.status & END_OF_PACKET != 0;
            let len = written.len & 0xffff;
            if is_end && !self.inside_long && (1..=FRAME_SIZE as u32).contains(&len) {
                let Some(slot) = slots.next() else { return Err(TestCaseError::fail("a packet is missing")) };
                prop_assert_eq!((slot.token, slot.wire_len, slot.arrival_ns), (self.next as u64, len, 7));
                self.held.push_back((written, slot));
                found += 1;
            } else {
                self.invalid += u64::from(is_end);
            }
            self.inside_long = !is_end;
            self.next = after(self.next);
        }
        prop_assert!(slots.next().is_none(), "a packet that the card did not write");
        // Nothing came that is to be given back: then what made no sense goes back at once.
        if found == 0 && self.next != first {
            self.give_until(self.next);
        }
        Ok(())
    }

    fn give_until(&mut self, end: usize) {
        while self.given != end {
            self.descriptors[self.given] = None;
            self.given = after(self.given);
        }
    }

    fn check(&self, ring: &CardReceive) -> Result<(), TestCaseError> {
        for (written, slot) in &self.held {
            let bytes = ring.ring.memory.bytes(slot);
            prop_assert!(written.bytes.as_ref().is_none_or(|expected| bytes == expected), "descriptor {}", slot.token);
        }
        prop_assert_eq!(ring.invalid, self.invalid);
        prop_assert_eq!(ring.is_empty(), self.descriptors[self.next].is_none());
        Ok(())
    }
}

proptest! {
    #[test]
    fn receive_descriptors_have_one_owner(acts in acts()) {
        let (mut ring, _, mut card) = queue(COUNT, 8, FRAME_SIZE);
        let mut model = Model {
            descriptors: vec![None; COUNT],
            next: 0,
            given: 0,
            inside_long: false,
            held: VecDeque::new(),
            invalid: 0,
            number: 0,
        };
        for act in acts {
            match act {
                Act::Deliver(len) => {
                    model.number += 1;
                    let packet = pattern(len, model.number);
                    let first = card.next();
                    if card.deliver(&packet) {
                        let mut at = first.expect("it was free");
                        let pieces = packet.chunks(FRAME_SIZE);
                        let count = pieces.len();
                        for (i, piece) in pieces.enumerate() {
                            prop_assert!(model.descriptors[at].is_none(), "descriptor {} was given out", at);
                            let status = DONE | if i + 1 == count { END_OF_PACKET } else { 0 };
                            let bytes = Some(piece.to_vec());
                            model.descriptors[at] = Some(Written { status, len: piece.len() as u32, bytes });
                            at = after(at);
                        }
                    }
                }
                Act::Lie(status, len) => if let Some(at) = card.next() {
                    card.write_back(status, len);
                    model.descriptors[at] = Some(Written { status, len, bytes: None });
                },
                // Of one that user space has not looked at: what it has taken is beyond the card's reach.
                Act::Claim(at, len) => {
                    let ahead = (at + COUNT - model.next) % COUNT;
                    let free = (model.given + COUNT - 1 - model.next) % COUNT;
                    if ahead <= free {
                        card.claim(at, DONE | END_OF_PACKET, len);
                        model.descriptors[at] = Some(Written { status: DONE | END_OF_PACKET, len, bytes: None });
                    }
                }
                // A burst begins when the one before it has ended.
                Act::Receive(most) => if model.held.is_empty() {
                    model.receive(&mut ring, most)?;
                },
                Act::GiveBack(most) => {
                    let most = most.min(model.held.len());
                    let slots: Vec<Slot> = model.held.drain(..most).map(|(_, slot)| slot).collect();
                    if let Some(last) = slots.last() {
                        model.give_until(after(last.token as usize));
                    }
                    ring.give_back(&slots);
                }
            }
            model.check(&ring)?;
            // The card has all that it can have: up to the one before the first that was not given back.
            let last = (model.given + COUNT - 1) % COUNT;
            let has_next = card.head != last && model.descriptors[card.head].is_none();
            prop_assert_eq!(card.next(), has_next.then_some(card.head));
        }
    }

    #[test]
    fn transmit_descriptors_have_one_owner(acts in vec((0..4u8, any::<usize>()), 1..if cfg!(miri) { 30 } else { 300 })) {
        let (_receive, mut ring, mut card) = queue(8, COUNT, FRAME_SIZE);
        let (mut queued, mut kicked, mut number) = (VecDeque::new(), VecDeque::new(), 0u8);
        for (act, choice) in acts {
            match act {
                0 | 1 => {
                    let len = choice % (FRAME_SIZE + 10);
                    number = number.wrapping_add(1);
                    // One descriptor is always kept.
                    let is_free = queued.len() + kicked.len() < COUNT - 1;
                    let sent = ring.send(|frame| {
                        frame.fill(number);
                        len
                    });
                    let len = len.min(FRAME_SIZE);
                    prop_assert_eq!(sent, is_free.then_some(len));
                    if sent.is_some_and(|len| len > 0) {
                        let mut packet = vec![number; len];
                        packet.resize(len.max(60), 0);
                        queued.push_back(packet);
                    }
                }
                2 => {
                    ring.kick();
                    kicked.append(&mut queued);
                }
                _ => {
                    let most = choice % COUNT;
                    let sent = card.send(most);
                    let expected: Vec<_> = kicked.drain(..kicked.len().min(most)).collect();
                    prop_assert_eq!(sent, expected);
                }
            }
            prop_assert_eq!(ring.pending() as usize, queued.len() + kicked.len());
        }
        // What is dropped with packets left waits for them.
        ring.kick();
        card.send(COUNT);
    }
}

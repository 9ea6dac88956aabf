//! Generated operations of two ports: packets that come by one leave by the other where they lie, held against a model of who owns
//! each frame.

use std::collections::{BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::XskLend;
use crate::sys::memory::Slot;
use crate::sys::xsk_transmit::XskTransmit;
use crate::testing::rings::{pattern, xdp_socket};

const FRAMES: u32 = 16;
const TRANSMIT: u32 = 4;
const FRAME_SIZE: u32 = 2048;

#[derive(Debug, Clone)]
enum Act {
    /// So many packets come.
    Come(u8),
    /// They are taken, and each is forwarded or not.
    Take(Vec<bool>),
    Kick,
    /// The kernel takes so many off the transmit ring.
    Leave(u32),
    /// It gives one of those back, by any address inside the frame.
    Complete(usize, u64),
    /// It gives an address back that is no frame's which is out.
    Lie(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1..6u8).prop_map(Act::Come),
        6 => vec(any::<bool>(), 64).prop_map(Act::Take),
        3 => Just(Act::Kick),
        4 => (1..TRANSMIT + 1).prop_map(Act::Leave),
        6 => (any::<usize>(), 0..u64::from(FRAME_SIZE)).prop_map(|(which, inside)| Act::Complete(which, inside)),
        1 => any::<u64>().prop_map(Act::Lie),
    ];
    vec(act, 1..if cfg!(miri) { 30 } else { 300 })
}

/// The same rings without frames of their own.
fn lending(transmit: XskTransmit) -> XskLend {
    let (queue, umem, completion) = transmit.into_parts();
    XskLend::new(queue, umem, completion)
}

fn frame(address: u64) -> u64 {
    address - address % u64::from(FRAME_SIZE)
}

proptest! {
    #[test]
    fn a_lent_frame_has_one_owner_and_comes_back_once(start in any::<u32>(), wraps in any::<bool>(), acts in acts()) {
        let start = if wraps { u32::MAX - start % 40 } else { start };
        let (mut socket, transmit, mut kernel) = xdp_socket(FRAMES, FRAME_SIZE, TRANSMIT, start);
        let mut ring = lending(transmit);
        prop_assert!(socket.lend_to(&mut ring));
        let mut slots: Vec<Slot> = Vec::with_capacity(64);
        let (mut number, mut lies) = (0u64, 0);
        let mut came: VecDeque<Vec<u8>> = VecDeque::new();
        // Queued with the ring, and taken off it by the kernel, which has not said so yet.
        let (mut queued, mut gone): (VecDeque<Vec<u8>>, Vec<u64>) = (VecDeque::new(), Vec::new());
        for act in acts {
            match act {
                Act::Come(count) => {
                    for _ in 0..count {
                        let packet = pattern(60 + number as usize % 1400, number);
                        if kernel.deliver(&packet, 1) {
                            came.push_back(packet);
                        }
                        number += 1;
                    }
                }
                Act::Take(forwards) => {
                    socket.receive(&mut slots, 64);
                    for (slot, forward) in slots.iter().zip(forwards) {
                        let packet = came.pop_front();
                        let bytes = socket.region().bytes(slot);
                        prop_assert_eq!(Some(bytes), packet.as_deref());
                        if forward {
                            let has_room = queued.len() < TRANSMIT as usize;
                            let sent = ring.forward(bytes);
                            prop_assert_eq!(sent, has_room.then_some(bytes.len()));
                            prop_assert!(ring.forward(bytes).is_none(), "twice");
                            queued.extend(packet.filter(|_| has_room));
                        }
                    }
                    socket.give_back(&slots);
                    slots.clear();
                }
                Act::Kick => ring.kick(),
                Act::Leave(most) => {
                    for (address, packet) in kernel.take_sent(most) {
                        prop_assert_eq!(Some(packet), queued.pop_front());
                        gone.push(address);
                    }
                }
                Act::Complete(which, inside) if !gone.is_empty() => {
                    let at = which % gone.len();
                    if kernel.complete(frame(gone[at]) + inside) {
                        gone.swap_remove(at);
                    }
                }
                Act::Complete(..) => {}
                Act::Lie(address) => {
                    // What is not aligned to a frame of ours, or lies beyond all of them.
                    let address = u64::from(FRAMES * FRAME_SIZE) + address % (1 << 40);
                    lies += u64::from(kernel.complete(address));
                }
            }
            let out: BTreeSet<u64> = gone.iter().map(|&address| frame(address)).collect();
            prop_assert!(kernel.frames().iter().all(|given| !out.contains(given)), "a frame that is out was given back");
        }
        // All that is out comes back, and every frame is the kernel's again, once.
        loop {
            socket.receive(&mut slots, 64);
            socket.give_back(&slots);
            slots.clear();
            ring.kick();
            gone.extend(kernel.take_sent(TRANSMIT).into_iter().map(|(address, _)| address));
            let Some(address) = gone.pop() else { break };
            if !kernel.complete(address) {
                gone.push(address);
            }
        }
        socket.receive(&mut slots, 64);
        let frames: BTreeSet<u64> = kernel.frames().iter().copied().collect();
        prop_assert_eq!((kernel.frames().len(), frames.len()), (FRAMES as usize, FRAMES as usize));
        prop_assert_eq!((socket.invalid_completions, socket.invalid_descriptors), (lies, 0));
    }
}

#[test]
fn a_ring_sends_nothing_but_frames_that_are_lent_to_it() {
    let (mut socket, transmit, mut kernel) = xdp_socket(FRAMES, FRAME_SIZE, TRANSMIT, 0);
    let (mut ring, mut other) = (lending(transmit), lending(xdp_socket(FRAMES, FRAME_SIZE, TRANSMIT, 0).1));
    let mut slots = Vec::with_capacity(64);
    assert!(kernel.deliver(&pattern(60, 1), 1));
    socket.receive(&mut slots, 64);
    let packet = socket.region().bytes(&slots[0]).to_vec();
    assert_eq!(ring.forward(socket.region().bytes(&slots[0])), None, "none is lent yet");
    assert!(!socket.lend_to(&mut other), "other memory");
    assert!(socket.lend_to(&mut ring));
    assert_eq!(ring.forward(&packet), None, "a copy of it");
    assert_eq!(ring.forward(&socket.region().bytes(&slots[0])[..0]), None, "no bytes");
    assert_eq!(ring.forward(socket.region().bytes(&slots[0])), Some(60));
    assert_eq!(ring.pending(), 1);
}

//! Generated operations of the kernel and of ours on an AF_XDP socket's transmit side, held against a model of who owns each frame.

use std::collections::{BTreeSet, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::testing::rings::xdp_socket;

const FRAMES: u32 = 8;
const FRAME_SIZE: u32 = 2048;

#[derive(Debug, Clone, Copy)]
enum Act {
    /// A packet of so many bytes; of none, and of more than a frame has.
    Send(usize),
    Kick,
    /// The kernel takes so many off the ring.
    Take(u32),
    /// It gives one of those that it took back, by any address inside the frame.
    Complete(usize, u64),
    /// It gives an address back that is no frame's which is out.
    Lie(u8, u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => prop_oneof![Just(0usize), 1..100usize, 2040..2060usize].prop_map(Act::Send),
        3 => Just(Act::Kick),
        3 => (1..FRAMES + 1).prop_map(Act::Take),
        6 => (any::<usize>(), 0..u64::from(FRAME_SIZE)).prop_map(|(which, inside)| Act::Complete(which, inside)),
        1 => (0..3u8, any::<u64>()).prop_map(|(how, number)| Act::Lie(how, number)),
    ];
    vec(act, 1..if cfg!(miri) { 30 } else { 300 })
}

proptest! {
    #[test]
    fn transmit_frames_have_one_owner(start in any::<u32>(), wraps in any::<bool>(), acts in acts()) {
        let start = if wraps { u32::MAX - start % 40 } else { start };
        let (_, mut ring, mut kernel) = xdp_socket(FRAMES, FRAME_SIZE, FRAMES, start);
        // Queued, kicked off, with the kernel by address. The others are free, but for those that wait in the completion ring.
        let (mut queued, mut kicked) = (VecDeque::new(), VecDeque::new());
        let mut out: Vec<u64> = Vec::new();
        let mut number = 0u8;
        for act in acts {
            match act {
                Act::Send(len) => {
                    number = number.wrapping_add(1);
                    let used = queued.len() + kicked.len() + out.len();
                    let sent = ring.send(|frame| {
                        assert_eq!(frame.len(), FRAME_SIZE as usize);
                        frame[..len.min(FRAME_SIZE as usize)].fill(number);
                        len
                    });
                    let len = len.min(FRAME_SIZE as usize);
                    prop_assert_eq!(sent, (used < FRAMES as usize).then_some(len));
                    if sent.is_some_and(|len| len > 0) {
                        queued.push_back(vec![number; len]);
                    }
                }
                Act::Kick => {
                    ring.kick();
                    kicked.append(&mut queued);
                }
                Act::Take(most) => for (address, packet) in kernel.take_sent(most) {
                    prop_assert_eq!(Some(packet), kicked.pop_front());
                    prop_assert!(!out.contains(&address), "{address:#x} was out already");
                    out.push(address);
                },
                Act::Complete(which, inside) if !out.is_empty() => {
                    let address = out.swap_remove(which % out.len());
                    prop_assert!(kernel.complete(address + inside));
                }
                Act::Complete(..) => {}
                Act::Lie(how, number) => {
                    // Looked at before it can name a frame that is out by then.
                    ring.reclaim();
                    let known: BTreeSet<u64> = (0..u64::from(FRAMES)).map(|i| ring.first + i * u64::from(FRAME_SIZE)).collect();
                    let address = match how {
                        0 => number,
                        1 => ring.first - 1 - number % 5000,
                        _ => ring.free.first().copied().unwrap_or(u64::MAX),
                    };
                    let frame = address & !u64::from(FRAME_SIZE - 1);
                    if !known.contains(&frame) || ring.free.contains(&frame) {
                        kernel.complete(address);
                        prop_assert_eq!(ring.reclaim(), 0, "{:#x}", address);
                    }
                }
            }
            prop_assert_eq!(ring.pending() as usize, queued.len() + kicked.len());
        }
        ring.kick();
        for (address, _) in kernel.take_sent(FRAMES) {
            out.push(address);
        }
        for address in out {
            kernel.complete(address);
        }
        ring.reclaim();
        let free: BTreeSet<u64> = ring.free.iter().copied().collect();
        prop_assert_eq!((ring.free.len(), free.len()), (FRAMES as usize, FRAMES as usize), "all come back, each once");
    }
}

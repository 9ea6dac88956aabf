//! Generated operations on both ends of a ring, held against a queue.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Consumer, Producer};
use crate::testing::rings::index::{KernelRing, LAYOUT};

const SIZE: u32 = 8;

/// Indices that wrap within a few operations, and others.
fn starts() -> impl Strategy<Value = u32> {
    prop_oneof![u32::MAX - 40..=u32::MAX, any::<u32>()]
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u32),
    /// Shows what was put.
    Publish,
    Take(u32),
    /// Shows what was taken.
    Release,
    /// The kernel's index is any number for the length of one look.
    Lie(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1..=SIZE + 1).prop_map(Act::Put),
        4 => Just(Act::Publish),
        4 => (1..=SIZE + 1).prop_map(Act::Take),
        4 => Just(Act::Release),
        1 => any::<u32>().prop_map(Act::Lie),
    ];
    vec(act, 1..if cfg!(miri) { 30 } else { 200 })
}

proptest! {
    #[test]
    fn a_producer_is_a_queue(start in starts(), acts in acts()) {
        let (mut kernel, memory) = KernelRing::<u64>::new(SIZE, start);
        let mut ring = Producer::new(memory, LAYOUT, SIZE).unwrap();
        // What was pushed and not yet published, published and not yet taken, taken and not yet shown as taken.
        let (mut pushed, mut published, mut unshown) = (VecDeque::new(), VecDeque::new(), 0);
        let mut number = 0u64;
        // The kernel's index as user space saw it last: it looks again only when the ring seems full.
        for act in acts {
            match act {
                Act::Put(count) => for _ in 0..count {
                    let has_room = pushed.len() + published.len() + unshown < SIZE as usize;
                    prop_assert_eq!(ring.push(number), has_room);
                    if has_room {
                        pushed.push_back(number);
                        number += 1;
                    }
                },
                Act::Publish => {
                    ring.publish();
                    published.append(&mut pushed);
                }
                Act::Take(most) => {
                    let taken = kernel.take(most);
                    let expected: Vec<u64> = published.drain(..published.len().min(most as usize)).collect();
                    unshown += expected.len();
                    prop_assert_eq!(taken, expected);
                }
                Act::Release => {
                    kernel.show_taken();
                    unshown = 0;
                }
                // An index that makes the ring look emptier than it can be is believed, and no more than the ring's size: what
                // it costs is the kernel's own entries. So only those are told that claim more than was ever pushed.
                Act::Lie(far) => {
                    let in_it = (pushed.len() + published.len() + unshown) as u32;
                    let next = start.wrapping_add(number as u32);
                    let ahead = next.wrapping_add(1 + far % (u32::MAX - SIZE));
                    kernel.claim_taken(ahead);
                    prop_assert!(ring.free(SIZE) <= SIZE - in_it, "nothing in use is free");
                    prop_assert!(ring.pending() <= SIZE);
                    kernel.claim_taken(next.wrapping_sub(in_it));
                }
            }
            prop_assert_eq!(ring.pending() as usize, pushed.len() + published.len() + unshown);
        }
    }

    #[test]
    fn a_consumer_is_a_queue(start in starts(), acts in acts()) {
        let (mut kernel, memory) = KernelRing::<u64>::new(SIZE, start);
        let mut ring = Consumer::new(memory, LAYOUT, SIZE).unwrap();
        let (mut put, mut shown, mut unreleased, mut lies) = (VecDeque::new(), VecDeque::new(), 0, 0);
        let mut number = 0u64;
        for act in acts {
            match act {
                Act::Put(count) => for _ in 0..count {
                    let has_room = put.len() + shown.len() + unreleased < SIZE as usize;
                    prop_assert_eq!(kernel.put(number), has_room);
                    if has_room {
                        put.push_back(number);
                        number += 1;
                    }
                },
                Act::Publish => {
                    kernel.show_put();
                    shown.append(&mut put);
                }
                Act::Take(most) => for _ in 0..most {
                    let expected = shown.pop_front();
                    unreleased += usize::from(expected.is_some());
                    prop_assert_eq!(ring.pop(), expected);
                },
                Act::Release => {
                    ring.release();
                    unreleased = 0;
                }
                Act::Lie(far) => {
                    // All that was shown, so that it looks at the index.
                    while let Some(expected) = shown.pop_front() {
                        prop_assert_eq!(ring.pop(), Some(expected));
                        unreleased += 1;
                    }
                    let put_at = start.wrapping_add(number as u32);
                    let taken = put_at.wrapping_sub(put.len() as u32);
                    kernel.claim_put(taken.wrapping_add(SIZE + 1 + far % (u32::MAX - SIZE)));
                    prop_assert_eq!(ring.pop(), None);
                    lies += 1;
                    kernel.claim_put(taken);
                }
            }
            prop_assert_eq!(ring.impossible, lies);
            prop_assert_eq!(ring.is_empty(), shown.is_empty());
        }
    }
}

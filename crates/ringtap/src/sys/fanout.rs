//! Which of several packet sockets gets a packet: a classic BPF program of a fanout group (PACKET_FANOUT_CBPF, packet(7)).
//!
//! Owns the program that decides by addresses alone, so that both directions of a flow and all its fragments come to one socket. The
//! kernel's own way, PACKET_FANOUT_HASH with PACKET_FANOUT_FLAG_DEFRAG, puts IPv4 fragments together before a socket sees
//! them, so that what is captured is not what came, and leaves those of IPv6 apart from their flow.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Opcodes of linux/bpf_common.h.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_MEMORY: u16 = 0x60;
const STORE: u16 = 0x02;
const TO_X: u16 = 0x07;
const XOR_X: u16 = 0xac;
const XOR_CONSTANT: u16 = 0xa4;
const ADD_X: u16 = 0x0c;
const SHIFT_RIGHT: u16 = 0x74;
const MULTIPLY: u16 = 0x24;
const JUMP_EQUAL: u16 = 0x15;
const RETURN_A: u16 = 0x16;
const RETURN: u16 = 0x06;
/// SKF_NET_OFF: offsets from the network header, wherever the packet begins for the one that looks.
const NETWORK: u32 = -0x10_0000i32 as u32;
/// SKF_AD_OFF + SKF_AD_PROTOCOL: the EtherType behind the tag that the kernel took out.
const PROTOCOL: u32 = -0x1000i32 as u32;

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const TAGS: [u32; 2] = [0x8100, 0x88a8];
const TAG_BYTES: u32 = 4;

type Instruction = (u16, u8, u8, u32);

/// A number that nobody else knows, another one at each call.
pub(crate) fn secret() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

/// The program; with a `secret` no sender can aim at the socket of somebody else's flow. What has no IP addresses, or has them behind
/// more than two tags, goes to the first socket.
pub(super) fn by_addresses(secret: u32) -> Vec<Instruction> {
    let behind_a_tag =
        [&[(LOAD_HALF, 0, 0, NETWORK + 2)][..], &by_ether_type(TAG_BYTES, secret), &[(RETURN, 0, 0, 0)]].concat();
    let mut program = vec![(LOAD_HALF, 0, 0, PROTOCOL)];
    program.extend(by_ether_type(0, secret));
    // To what is behind the jump over it, unless it is a tag.
    program.push((JUMP_EQUAL, 2, 0, TAGS[0]));
    program.push((JUMP_EQUAL, 1, 0, TAGS[1]));
    program.push((RETURN, 0, 0, 0));
    program.extend(behind_a_tag);
    program
}

/// Returns from the program for IPv4 and IPv6, whose header is `at` bytes behind the network header; else goes on, with the EtherType
/// still at hand.
fn by_ether_type(at: u32, secret: u32) -> Vec<Instruction> {
    let mut program = Vec::new();
    for (ether_type, block) in [(IPV4, hash(at + 12, 1, secret)), (IPV6, hash(at + 8, 4, secret))] {
        program.push((JUMP_EQUAL, 0, block.len() as u8, ether_type));
        program.extend(block);
    }
    program
}

/// Returns a number that is the same whichever of two addresses comes first; each has `words` words, the first one from `at` on. Each is
/// mixed before both are joined: hosts that are numbered alike at both ends would else all have one number.
fn hash(at: u32, words: u32, secret: u32) -> Vec<Instruction> {
    const FIRST: u32 = 1;
    let mut program = address(at, words, secret);
    program.push((STORE, 0, 0, FIRST));
    program.extend(address(at + 4 * words, words, secret));
    program.extend([(TO_X, 0, 0, 0), (LOAD_MEMORY, 0, 0, FIRST), (ADD_X, 0, 0, 0)]);
    program.extend(mix());
    program.push((RETURN_A, 0, 0, 0));
    program
}

/// An address in 32 bits.
fn address(at: u32, words: u32, secret: u32) -> Vec<Instruction> {
    let mut program = vec![(LOAD_WORD, 0, 0, NETWORK + at), (XOR_CONSTANT, 0, 0, secret)];
    for word in 1..words {
        program.extend(mix());
        program.extend(joined(&[(LOAD_WORD, 0, 0, NETWORK + at + 4 * word)]));
    }
    program.extend(mix());
    program
}

/// The kernel takes the remainder by the number of sockets: mixed so that neighbouring addresses spread.
fn mix() -> Vec<Instruction> {
    [joined(&[(SHIFT_RIGHT, 0, 0, 16)]), vec![(MULTIPLY, 0, 0, 0x7feb_352d)], joined(&[(SHIFT_RIGHT, 0, 0, 15)])]
        .concat()
}

/// What there was, XOR what `by` makes.
fn joined(by: &[Instruction]) -> Vec<Instruction> {
    const BEFORE: u32 = 0;
    [&[(STORE, 0, 0, BEFORE)], by, &[(TO_X, 0, 0, 0), (LOAD_MEMORY, 0, 0, BEFORE), (XOR_X, 0, 0, 0)]].concat()
}

//! Runs classic BPF programs in user space, on packets that may be cut.
//!
//! Owns the machine. The programs are libpcap's; its own interpreter can't be used, as the `pcap` crate tells it that each
//! packet is as long as what was kept of it, and `greater 500` asks for the length on the wire.

/// An instruction: code, jump if true, jump if false, operand (linux/filter.h).
pub(super) type Instruction = (u16, u8, u8, u32);

/// Scratch memory of a program, words (BPF_MEMWORDS).
const MEMORY_WORDS: usize = 16;

/// A program that decides about packets.
#[derive(Debug, Clone)]
pub struct Program(Box<[Instruction]>);

impl Program {
    pub(super) fn new(instructions: &[Instruction]) -> Self {
        Self(instructions.into())
    }

    /// Whether it takes a packet of `wire_len` bytes, of which `data` was kept.
    ///
    /// As bpf_filter(3PCAP): what reads behind the kept bytes, divides by zero or is no instruction takes nothing. `protochain`
    /// jumps back for each header; a program that does so more often than there are bytes takes nothing either.
    pub fn takes(&self, data: &[u8], wire_len: u32) -> bool {
        let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; MEMORY_WORDS]);
        let (mut at, mut back) = (0usize, 0usize);
        while let Some(&(code, jump_true, jump_false, k)) = self.0.get(at) {
            at += 1;
            let operand = if code & 0x08 == 0 { k } else { x };
            let decided = |is: bool| usize::from(if is { jump_true } else { jump_false });
            let slot = k as usize % MEMORY_WORDS;
            match code {
                // BPF_LD: a word, half-word or byte at k or at x + k; the length; a constant; scratch memory.
                0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 => {
                    let base = if code & 0x40 == 0 { 0 } else { x };
                    let size = match code & 0x18 {
                        0x00 => 4,
                        0x08 => 2,
                        _ => 1,
                    };
                    match load(data, u64::from(base) + u64::from(k), size) {
                        Some(value) => a = value,
                        None => return false,
                    }
                }
                0x80 => a = wire_len,
                0x00 => a = k,
                0x60 => a = memory[slot],
                // BPF_LDX: the same for x, and the length of an IPv4 header at k.
                0x81 => x = wire_len,
                0x01 => x = k,
                0x61 => x = memory[slot],
                0xb1 => match load(data, k.into(), 1) {
                    Some(value) => x = (value & 0x0f) * 4,
                    None => return false,
                },
                0x02 => memory[slot] = a,
                0x03 => memory[slot] = x,
                // BPF_ALU with a constant or x.
                0x04 | 0x0c => a = a.wrapping_add(operand),
                0x14 | 0x1c => a = a.wrapping_sub(operand),
                0x24 | 0x2c => a = a.wrapping_mul(operand),
                0x34 | 0x3c | 0x94 | 0x9c if operand == 0 => return false,
                0x34 | 0x3c => a /= operand,
                0x94 | 0x9c => a %= operand,
                0x44 | 0x4c => a |= operand,
                0x54 | 0x5c => a &= operand,
                0xa4 | 0xac => a ^= operand,
                0x64 | 0x6c => a = a.checked_shl(operand).unwrap_or(0),
                0x74 | 0x7c => a = a.checked_shr(operand).unwrap_or(0),
                0x84 => a = a.wrapping_neg(),
                // BPF_JMP.
                0x05 => {
                    let jump = k as i32;
                    back += usize::from(jump < 0);
                    match at.checked_add_signed(jump as isize) {
                        Some(to) if back <= data.len() => at = to,
                        _ => return false,
                    }
                }
                0x15 | 0x1d => at += decided(a == operand),
                0x25 | 0x2d => at += decided(a > operand),
                0x35 | 0x3d => at += decided(a >= operand),
                0x45 | 0x4d => at += decided(a & operand != 0),
                // BPF_MISC: TAX, TXA.
                0x07 => x = a,
                0x87 => a = x,
                // BPF_RET: how much to keep.
                0x06 => return k != 0,
                0x16 => return a != 0,
                _ => return false,
            }
        }
        false
    }
}

/// `size` bytes in network order.
fn load(data: &[u8], at: u64, size: usize) -> Option<u32> {
    let at = usize::try_from(at).ok()?;
    let bytes = data.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::{compile, instructions};

    const WORDS: [&str; 18] = [
        "greater 60",
        "less 90 and udp",
        "udp port 53 or tcp port 80",
        "ip[8] < 5 and ip6 or arp",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) != 0",
        "vlan 5 and icmp",
        "vlan and vlan and ip",
        "ip6 proto 17",
        "portrange 1000-40000",
        "len * 2 > 120 and len - 14 != 60",
        "(ip[0] & 0xf) << 2 > 20",
        "ip[2:2] - ((ip[0] & 0xf) << 2) % 7 = 3",
        "ether[0] & 1 = 1 and ether[6:4] ^ 0xff > 3",
        "len / (ether[3] - 1) > 7",
        "-len + 100 > 0",
        "net 10.0.0.0/8 and not port 22",
        "ip6 protochain 6",
        "ip protochain 17",
    ];

    proptest! {
        #[test]
        fn whole_packets_are_judged_as_libpcap_judges_them(
            kind in 0usize..5,
            mut data in prop::collection::vec(any::<u8>(), 0..120),
            small in any::<bool>(),
        ) {
            // Headers that the expressions look for, so that they get behind the first test.
            let types: [&[u8]; 5] =
                [&[], &[8, 0, 0x45], &[0x86, 0xdd, 0x60], &[0x81, 0, 0, 5, 8, 0, 0x45], &[0x81, 0, 0, 5, 0x81, 0, 0, 6, 8, 0]];
            if let Some(room) = data.get_mut(12..12 + types[kind].len()) {
                room.copy_from_slice(types[kind]);
            }
            if let Some(protocol) = data.get_mut(23).filter(|_| small) {
                *protocol = if *protocol < 128 { 6 } else { 17 };
            }
            for words in WORDS {
                let theirs = compile(words, 1).unwrap();
                let ours = Program::new(&instructions(&theirs));
                prop_assert_eq!(ours.takes(&data, data.len() as u32), theirs.filter(&data), "{}", words);
            }
        }

        #[test]
        fn no_program_takes_for_ever_or_panics(
            program in prop::collection::vec((any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>()), 0..40),
            known in prop::collection::vec((0u16..0xc0, 0u8..4, 0u8..4, 0u32..64), 0..40),
            data in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            Program::new(&program).takes(&data, 1000);
            Program::new(&known).takes(&data, 1000);
        }
    }

    #[test]
    fn the_length_is_the_wire_s_and_the_bytes_are_those_that_were_kept() {
        let takes = |words: &str, kept: usize, wire_len: u32| {
            Program::new(&instructions(&compile(words, 1).unwrap())).takes(&vec![0; kept], wire_len)
        };
        assert!(takes("greater 500", 96, 1000) && !takes("greater 500", 96, 499));
        assert!(!takes("less 500", 96, 1000));
        assert!(!takes("ether[100] = 0", 96, 1000), "nobody knows that byte");
        assert!(takes("ether[95] = 0", 96, 1000));
    }

    #[test]
    fn headers_are_followed_one_after_the_other_and_not_for_ever() {
        let mut packet = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 0, 64], &[0; 32]].concat();
        // Hop-by-hop options, destination options, TCP.
        packet.extend([60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([0; 20]);
        let theirs = compile("ip6 protochain 6", 1).unwrap();
        let ours = Program::new(&instructions(&theirs));
        assert!(theirs.filter(&packet) && ours.takes(&packet, packet.len() as u32));
        assert!(!Program::new(&[(0x05, 0, 0, u32::MAX)]).takes(&packet, 100), "a jump to itself");
    }
}

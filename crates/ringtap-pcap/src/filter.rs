//! One filter, twice: as the client gave it, for user space, and changed for the kernel, where packets look different.
//!
//! Owns the changes: direction, snapshot length, and VLAN tags. The kernel has taken the outer tag out of the data before a
//! filter sees it, and the core puts it back. So on a live capture of libpcap's `udp` takes tagged datagrams too, and only
//! `vlan` looks at tags: programs that don't speak of tags are shown packets without their outer one, here as there. Running a
//! program is the real libpcap's business (`bpf_filter`).

use libc::{c_int, c_uchar, c_uint};

use crate::abi::{
    BPF_JUMP_EQUAL, BPF_LOAD_BYTE, BPF_LOAD_HALF, BPF_RETURN, Instruction, PCAP_D_IN, PCAP_D_INOUT, PCAP_D_OUT,
};
use crate::real;

/// From here on a load reads what the kernel knows beside the packet (SKF_AD_OFF of linux/filter.h, as unsigned).
const METADATA: c_uint = 0xffff_f000;
const PACKET_TYPE: c_uint = METADATA + 4;
const TAG_PRESENT: c_uint = METADATA + 48;
/// PACKET_OUTGOING of linux/if_packet.h.
const OUTGOING: c_uint = 4;
/// BPF_MAXINSNS of linux/bpf_common.h.
const LONGEST: usize = 4096;
/// Ethernet types of tags that the kernel takes out (skb_vlan_untag): IEEE 802.1Q and 802.1ad.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// Those that `vlan` compares with.
const TAGS_IN_PROGRAMS: [c_uint; 3] = [0x8100, 0x88a8, 0x9100];
/// Where a tag begins, and how long it is.
const TAG: std::ops::Range<usize> = 12..16;
/// Mode bits of a load: BPF_ABS, with the class BPF_LD.
const LOAD_ABSOLUTE: u16 = 0x20;
const LOAD_ABSOLUTE_MASK: u16 = 0xe7;

/// A program that takes or leaves a packet.
#[derive(Debug, Default)]
pub struct Program {
    instructions: Vec<Instruction>,
}

impl Program {
    /// Copies `instructions`; `None` when libpcap finds them invalid.
    pub fn new(instructions: &[Instruction]) -> Option<Self> {
        is_sound(instructions).then(|| Self { instructions: instructions.to_vec() })
    }

    /// Whether every packet passes, so that it need not be run.
    pub fn takes_all(&self) -> bool {
        match self.instructions.first() {
            None => true,
            Some(first) => first.code == BPF_RETURN && first.k != 0,
        }
    }

    /// Whether it asks what only the kernel knows (`inbound`, `outbound`): then the kernel's verdict is the only one.
    pub fn needs_kernel(&self) -> bool {
        self.instructions.iter().any(|i| i.code & LOAD_ABSOLUTE_MASK == LOAD_ABSOLUTE && i.k >= METADATA)
    }

    /// Whether it was made with `vlan`: then it is to see packets whole.
    pub fn speaks_of_tags(&self) -> bool {
        self.instructions.iter().any(|i| i.code == BPF_JUMP_EQUAL && TAGS_IN_PROGRAMS.contains(&i.k))
    }

    /// Whether this packet passes, shown without its outer tag if it has one (`scratch` is where that is done) and the program
    /// does not speak of tags.
    pub fn takes(&self, data: &[u8], wire_len: u32, whole: bool, scratch: &mut Vec<u8>) -> bool {
        let tagged = data.get(TAG).is_some_and(|tag| TAGS.contains(&u16::from_be_bytes([tag[0], tag[1]])));
        if whole || !tagged {
            return self.matches(data, wire_len);
        }
        scratch.clear();
        scratch.extend_from_slice(&data[..TAG.start]);
        scratch.extend_from_slice(&data[TAG.end..]);
        self.matches(scratch, wire_len.saturating_sub(TAG.len() as u32))
    }

    /// Whether these bytes pass.
    fn matches(&self, data: &[u8], wire_len: u32) -> bool {
        // SAFETY: a validated program, and a packet valid for its length.
        unsafe { real::bpf_filter(self.instructions.as_ptr(), data.as_ptr(), wire_len, data.len() as c_uint) != 0 }
    }

    /// For packets that came in by AF_XDP, whose kind the kernel does not keep: it is `PACKET_HOST`, 0, for all of them.
    pub fn for_incoming(&self) -> Self {
        /// BPF_LD | BPF_W | BPF_IMM.
        const LOAD_CONSTANT: u16 = 0x00;
        let change = |i: &Instruction| match i {
            Instruction { code, k: PACKET_TYPE, .. } if code & LOAD_ABSOLUTE_MASK == LOAD_ABSOLUTE => {
                Instruction { code: LOAD_CONSTANT, jt: 0, jf: 0, k: 0 }
            }
            other => *other,
        };
        Self { instructions: self.instructions.iter().map(change).collect() }
    }

    /// For a packet socket: packets of `direction` that pass, cut to `snaplen`. What is too long for the kernel becomes a
    /// program that leaves the choice to user space.
    pub fn for_kernel(&self, direction: c_int, snaplen: u32) -> Vec<Instruction> {
        let instruction = |code, jt, jf, k| Instruction { code, jt, jf, k };
        let keep = instruction(BPF_RETURN, 0, 0, snaplen);
        let leave = instruction(BPF_RETURN, 0, 0, 0);
        let mut kernel = Vec::new();
        if direction != PCAP_D_INOUT {
            let (outgoing, incoming) = if direction == PCAP_D_OUT { (1, 0) } else { (0, 1) };
            kernel.push(instruction(BPF_LOAD_HALF, 0, 0, PACKET_TYPE));
            kernel.push(instruction(BPF_JUMP_EQUAL, outgoing, incoming, OUTGOING));
            kernel.push(leave);
        }
        if self.takes_all() || kernel.len() + 3 + self.instructions.len() > LONGEST {
            kernel.push(keep);
            return kernel;
        }
        if !self.needs_kernel() && self.speaks_of_tags() {
            // A tagged packet's data is shifted here: it passes, and user space decides when the tag is back in its place.
            kernel.extend([instruction(BPF_LOAD_BYTE, 0, 0, TAG_PRESENT), instruction(BPF_JUMP_EQUAL, 1, 0, 0), keep]);
        }
        let cut = |i: &Instruction| match i {
            Instruction { code: BPF_RETURN, k: 1.., .. } => keep,
            other => *other,
        };
        kernel.extend(self.instructions.iter().map(cut));
        kernel
    }
}

/// Whether libpcap finds it valid and knows all its instructions: its check lets some through on which it aborts later.
pub fn is_sound(instructions: &[Instruction]) -> bool {
    let Ok(len) = c_int::try_from(instructions.len()) else { return false };
    // SAFETY: the slice is valid for its length.
    instructions.iter().all(is_known) && unsafe { real::bpf_validate(instructions.as_ptr(), len) } != 0
}

/// Whether bpf_filter(3PCAP) has this instruction: those of pcap/bpf.h, each operation with the modes and sizes it has.
fn is_known(instruction: &Instruction) -> bool {
    const LOAD: u16 = 0x00;
    const LOAD_INDEX: u16 = 0x01;
    const STORES: std::ops::RangeInclusive<u16> = 0x02..=0x03;
    const ARITHMETIC: u16 = 0x04;
    const JUMP: u16 = 0x05;
    const NEGATE: u16 = 0x84;
    let code = instruction.code;
    match code & 0x07 {
        // Words, half-words and bytes, absolute and from X; constants, memory and lengths.
        LOAD => matches!(code, 0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0x00 | 0x60 | 0x80),
        LOAD_INDEX => matches!(code, 0x01 | 0x61 | 0x81 | 0xb1),
        class if STORES.contains(&class) => code == class,
        // By a constant or by X, up to exclusive or.
        ARITHMETIC => code == NEGATE || (code <= 0xac && code & 0xf0 != 0x80),
        JUMP => code == 0x05 || matches!(code & !0x08, 0x15 | 0x25 | 0x35 | 0x45),
        // Returns a constant, X or the accumulator; moves between the two.
        0x06 => matches!(code, 0x06 | 0x0e | 0x16),
        _ => matches!(code, 0x07 | 0x87),
    }
}

/// What the socket beside AF_XDP is for: what the host sends, as far as `direction` wants it.
pub fn for_sent(program: &Program, direction: c_int, snaplen: u32) -> Vec<Instruction> {
    if direction == PCAP_D_IN {
        return vec![Instruction { code: BPF_RETURN, jt: 0, jf: 0, k: 0 }];
    }
    program.for_kernel(PCAP_D_OUT, snaplen)
}

/// The core's form of a program.
pub fn to_core(instructions: &[Instruction]) -> ringtap::source::packet::Filter {
    let instructions = instructions.iter().map(|i| (i.code, c_uchar::from(i.jt), c_uchar::from(i.jf), i.k)).collect();
    ringtap::source::packet::Filter { instructions }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ret(k: u32) -> Instruction {
        Instruction { code: BPF_RETURN, jt: 0, jf: 0, k }
    }

    fn ethertype(k: u32) -> Program {
        let load = Instruction { code: BPF_LOAD_HALF, jt: 0, jf: 0, k: 12 };
        Program::new(&[load, Instruction { code: BPF_JUMP_EQUAL, jt: 0, jf: 1, k }, ret(262_144), ret(0)]).unwrap()
    }

    #[test]
    fn programs_are_checked_and_run_by_libpcap() {
        let arp = ethertype(0x0806);
        let mut frame = [0u8; 60];
        frame[12..14].copy_from_slice(&[8, 6]);
        assert!(arp.matches(&frame, 60));
        frame[13] = 0;
        assert!(!arp.matches(&frame, 60));
        assert!(!arp.matches(&[], 0));
        assert!(Program::new(&[]).is_none(), "nothing to run");
        assert!(Program::new(&[Instruction { code: BPF_JUMP_EQUAL, jt: 9, jf: 9, k: 0 }]).is_none());
        assert!(Program::new(&[ret(1)]).unwrap().takes_all() && !Program::new(&[ret(0)]).unwrap().takes_all());
    }

    #[test]
    fn instructions_that_libpcap_would_abort_on_are_refused() {
        let of = |code: u16| [Instruction { code, jt: 0, jf: 0, k: 0 }, ret(0)];
        for code in [0x20, 0x28, 0xb1, 0x02, 0x04, 0xac, 0x84, 0x05, 0x15, 0x4d, 0x07, 0x87] {
            assert!(is_sound(&of(code)), "{code:#x}");
        }
        // Loads of the header's length into the accumulator, of 8 bytes, and what no class has.
        for code in [0xa0, 0x38, 0x8c, 0xbc, 0x55, 0x17, 0x0a, 0x100, 0xffff] {
            assert!(!is_sound(&of(code)), "{code:#x}");
        }
    }

    #[test]
    fn the_kernel_is_told_direction_and_length_and_spares_tagged_packets() {
        assert_eq!(
            ethertype(0x0806).for_kernel(PCAP_D_INOUT, 96).len(),
            4,
            "the kernel shows what such a program expects"
        );
        let kernel = ethertype(0x8100).for_kernel(PCAP_D_OUT, 96);
        assert_eq!(kernel[0].k, PACKET_TYPE);
        assert_eq!((kernel[1].jt, kernel[1].jf), (1, 0), "outgoing skips the refusal");
        assert_eq!(kernel[3].k, TAG_PRESENT);
        assert_eq!(kernel.last().unwrap().k, 0);
        assert!(kernel.iter().any(|i| i.code == BPF_RETURN && i.k == 96));
        assert!(!kernel.iter().any(|i| i.code == BPF_RETURN && i.k == 262_144));
        assert_eq!(Program::default().for_kernel(PCAP_D_INOUT, 77), [ret(77)]);
        assert_eq!(for_sent(&Program::default(), PCAP_D_IN, 77), [ret(0)]);
    }

    #[test]
    fn the_outer_tag_is_hidden_from_programs_that_do_not_speak_of_tags() {
        let arp = ethertype(0x0806);
        let mut tagged = [0u8; 60];
        tagged[12..18].copy_from_slice(&[0x81, 0, 0, 5, 8, 6]);
        let scratch = &mut Vec::new();
        assert!(arp.takes(&tagged, 60, arp.speaks_of_tags(), scratch) && !arp.takes(&tagged, 60, true, scratch));
        let vlan = ethertype(0x8100);
        assert!(vlan.takes(&tagged, 60, vlan.speaks_of_tags(), scratch));
        assert!(!arp.takes(&tagged[..13], 60, false, scratch));
    }

    #[test]
    fn questions_about_direction_stay_with_the_kernel() {
        let load = Instruction { code: BPF_LOAD_HALF, jt: 0, jf: 0, k: PACKET_TYPE };
        let outgoing = Instruction { code: BPF_JUMP_EQUAL, jt: 0, jf: 1, k: OUTGOING };
        let program = Program { instructions: vec![load, outgoing, ret(1), ret(0)] };
        assert!(program.needs_kernel() && !ethertype(1).needs_kernel());
        assert_eq!(program.for_kernel(PCAP_D_INOUT, 9)[0], load, "no prelude: nobody asks again");
        assert!(!program.for_incoming().matches(&[0; 60], 60), "what AF_XDP takes is not outgoing");
    }
}

//! Capture filters in libpcap's syntax (pcap-filter(7)), compiled by libpcap itself.
//!
//! Owns what becomes of one filter: a program for user space, one for the kernel, and where the words allow it a rule for
//! the steering program. Semantics are libpcap's on every back end, because every packet is checked in user space after
//! VLAN tags were put back; kernel and steering only spare us packets that would be rejected anyway.

mod machine;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pcap::{BpfProgram, Capture, Linktype};
use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::source::packet;
use ringtap::steer::Rule;
use ringtap::transmit::Outbox;
use ringtap::{Error, Event, Result};

use machine::Instruction;
pub use machine::Program;

/// BPF_LD | BPF_B | BPF_ABS, BPF_JMP | BPF_JA, BPF_JMP | BPF_JEQ | BPF_K and BPF_RET | BPF_K of linux/bpf_common.h.
const LOAD_BYTE: u16 = 0x30;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT of linux/filter.h: whether the packet's tag was taken out of its data.
const TAG_PRESENT: u32 = 0xffff_f030;
/// The whole packet, however long.
const ACCEPT: u32 = u32::MAX;

/// A filter libpcap has accepted.
#[derive(Debug, Clone)]
pub struct Filter {
    text: String,
    link_type: u16,
    program: Program,
    kernel: packet::Filter,
}

impl Filter {
    /// Compiles `text` for packets of a LINKTYPE_. Names of hosts and services are looked up here.
    ///
    /// # Errors
    /// libpcap's own message.
    pub fn compile(text: &str, link_type: u16) -> Result<Self> {
        let instructions = instructions(&compile(text, link_type)?);
        let kernel = packet::Filter { instructions: for_kernel(&instructions) };
        Ok(Self { text: text.to_owned(), link_type, program: Program::new(&instructions), kernel })
    }

    /// The words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// For user space.
    pub fn program(&self) -> Program {
        self.program.clone()
    }

    /// For a live packet socket.
    pub fn in_kernel(&self) -> packet::Filter {
        self.kernel.clone()
    }

    /// The same as a steering rule, if these words can be one.
    pub fn rule(&self) -> Option<Rule> {
        if self.link_type == 1 { rule(&self.text) } else { None }
    }
}

fn compile(text: &str, link_type: u16) -> Result<BpfProgram> {
    // Capture files number a few link types otherwise than the running libpcap does (tcpdump.org/linktypes.html).
    let dlt = if link_type == 101 { 12 } else { link_type };
    let wrong = |error: pcap::Error| {
        let cause = match error {
            pcap::Error::PcapError(message) => message,
            other => other.to_string(),
        };
        Error::usage("compile filter", format!("{text:?}"), cause).way_out("see pcap-filter(7)")
    };
    Capture::dead(Linktype(dlt.into())).and_then(|dead| dead.compile(text, true)).map_err(wrong)
}

/// The crate shows an instruction's fields in its text only.
fn instructions(program: &BpfProgram) -> Vec<Instruction> {
    let parse = |text: String| {
        let mut fields = text.split(' ').map(|field| field.parse::<u32>().unwrap_or_default());
        let mut next = || fields.next().unwrap_or_default();
        (next() as u16, next() as u8, next() as u8, next())
    };
    program.get_instructions().iter().map(|instruction| parse(instruction.to_string())).collect()
}

/// What the program is on a live packet socket: there the kernel has taken the outer VLAN tag out of the data and keeps it
/// beside the packet, so that the offsets in a program for whole packets are wrong. A prelude lets every tagged packet
/// pass; user space decides about these when the tag is back in its place. So it does about all where a program jumps back
/// (`protochain`), which the kernel refuses.
fn for_kernel(program: &[Instruction]) -> Vec<Instruction> {
    if program.iter().any(|&(code, _, _, k)| code == JUMP && (k as i32) < 0) {
        return vec![(RETURN, 0, 0, ACCEPT)];
    }
    let prelude = [(LOAD_BYTE, 0, 0, TAG_PRESENT), (JUMP_EQUAL, 1, 0, 0), (RETURN, 0, 0, ACCEPT)];
    // libpcap returns the length to keep, 65535 at most; packets merged by the kernel (GRO) may be longer.
    let whole = program.iter().map(|&(code, jt, jf, k)| match (code, k) {
        (RETURN, 1..) => (RETURN, 0, 0, ACCEPT),
        _ => (code, jt, jf, k),
    });
    prelude.into_iter().chain(whole).collect()
}

/// A rule that takes what the filter takes, from words whose meaning to libpcap and to the steering program is the same.
///
/// What is refused here although [`Rule`] could read it: `host` and `net` of IPv4 without a word like `ip`, which mean ARP
/// too; address and port without the same explicit side, which libpcap tests each on either side; `vlan` after other
/// words, which reads behind the tag from there on; a word given twice. In one respect rules are wider: they find ports
/// behind IPv6 extension headers, where libpcap does not look.
fn rule(text: &str) -> Option<Rule> {
    let words: Vec<&str> = text.split_whitespace().filter(|word| !matches!(*word, "and" | "&&")).collect();
    let mut seen = Vec::new();
    let mut sides = Vec::new();
    let (mut side, mut is_v6, mut family) = (None, false, None);
    let mut at = 0;
    while let Some(&word) = words.get(at) {
        at += 1;
        let kind = match word {
            "src" | "dst" if side.is_none() => {
                side = Some(word);
                continue;
            }
            "vlan" if seen.is_empty() => "vlan",
            "ip" | "ip6" => "family",
            "tcp" | "udp" | "sctp" | "icmp" | "icmp6" | "proto" => "protocol",
            "host" | "net" => "address",
            "port" | "portrange" => "port",
            _ => return None,
        };
        if seen.contains(&kind) {
            return None;
        }
        seen.push(kind);
        let implied = match word {
            "ip" | "icmp" => Some(4),
            "ip6" | "icmp6" => Some(6),
            _ => None,
        };
        if implied.is_some() && family.is_some() && implied != family {
            return None;
        }
        family = family.or(implied);
        if matches!(kind, "address" | "port") {
            sides.push(side.take());
        } else if side.is_some() {
            return None;
        }
        if matches!(word, "vlan" | "proto" | "host" | "net" | "port" | "portrange") {
            let value = words.get(at)?;
            is_v6 |= kind == "address" && value.contains(':');
            at += 1;
        }
    }
    let is_ip_only = is_v6 || seen.contains(&"family") || seen.contains(&"protocol");
    let is_one_sided = sides.len() < 2 || sides.iter().all(|side| side.is_some() && *side == sides[0]);
    if seen.is_empty() || side.is_some() || seen.contains(&"address") && !is_ip_only || !is_one_sided {
        return None;
    }
    let mut rule: Rule = text.parse().ok()?;
    rule.family = rule.family.or(family);
    rule.vlan = rule.vlan.or(Some(Rule::UNTAGGED));
    Some(rule)
}

/// A handler that sees only what a filter lets through, and counts the rest.
pub struct Filtered<H> {
    program: Option<Program>,
    rejected: Arc<AtomicU64>,
    inner: H,
}

impl<H> Filtered<H> {
    /// `rejected` is written by this handler alone and may be read by anyone.
    pub fn new(program: Option<Program>, rejected: Arc<AtomicU64>, inner: H) -> Self {
        Self { program, rejected, inner }
    }

    /// What takes the packets that the filter lets through.
    pub fn inner_mut(&mut self) -> &mut H {
        &mut self.inner
    }
}

impl<H: Handler> Handler for Filtered<H> {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        if self.program.as_ref().is_some_and(|program| !program.takes(packet.data, packet.wire_len)) {
            // One writer: no locked instruction is needed.
            self.rejected.store(self.rejected.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        self.inner.packet(packet, outbox);
    }

    fn cycle_end(&mut self, outbox: &mut Outbox<'_>) {
        self.inner.cycle_end(outbox);
    }

    fn next_turn(&self) -> Option<Duration> {
        self.inner.next_turn()
    }

    fn bell(&self) -> Option<Arc<Event>> {
        self.inner.bell()
    }

    fn retired(&mut self, outbox: &mut Outbox<'_>) {
        self.inner.retired(outbox);
    }

    fn all_ended(&mut self, outbox: &mut Outbox<'_>) {
        self.inner.all_ended(outbox);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wants its turn, and to be woken.
    struct Turns(Arc<Event>);

    impl Handler for Turns {
        fn packet(&mut self, _: &Packet<'_>, _: &mut Outbox<'_>) {}

        fn next_turn(&self) -> Option<Duration> {
            Some(Duration::from_secs(1))
        }

        fn bell(&self) -> Option<Arc<Event>> {
            Some(Arc::clone(&self.0))
        }
    }

    #[test]
    fn the_handler_inside_has_its_turns_and_its_bell() {
        let handler = Filtered::new(None, Arc::default(), Turns(Arc::new(Event::new().unwrap())));
        assert_eq!(handler.next_turn(), Some(Duration::from_secs(1)));
        assert!(handler.bell().is_some_and(|bell| Arc::ptr_eq(&bell, &handler.inner.0)));
    }

    #[test]
    fn a_bad_filter_is_told_in_libpcaps_words() {
        let error = Filter::compile("port http and and", 1).unwrap_err();
        assert_eq!(error.kind(), ringtap::error::ErrorKind::Usage);
        assert!(error.to_string().contains("syntax error") && error.to_string().contains("pcap-filter"), "{error}");
        assert!(Filter::compile("ether host 1:2", 101).is_err());
    }

    #[test]
    fn the_kernel_program_passes_tagged_packets_and_keeps_whole_ones() {
        let filter = Filter::compile("udp port 53", 1).unwrap();
        let kernel = filter.in_kernel().instructions;
        assert_eq!(kernel[..3], [(0x30, 0, 0, 0xffff_f030), (0x15, 1, 0, 0), (0x06, 0, 0, u32::MAX)]);
        let returned: Vec<u32> = kernel.iter().filter(|i| i.0 == RETURN).map(|i| i.3).collect();
        assert!(returned.iter().all(|&k| k == 0 || k == u32::MAX), "{returned:?}");
        assert_eq!(kernel.len(), 3 + instructions(&compile("udp port 53", 1).unwrap()).len());
        let filter = Filter::compile("ip6 protochain 6", 1).unwrap();
        assert_eq!(filter.in_kernel().instructions, [(0x06, 0, 0, u32::MAX)], "the kernel refuses jumps back");
    }

    #[test]
    fn words_with_one_meaning_become_a_rule() {
        let expect = |text: &str, spelled: &str, vlan: u16| {
            let mut expected: Rule = spelled.parse().unwrap();
            expected.vlan = Some(vlan);
            assert_eq!(rule(text), Some(expected), "{text}");
        };
        expect("udp port 162", "udp port 162", Rule::UNTAGGED);
        expect("vlan 5 and udp and dst port 162 and dst net 10.0.0.0/8", "udp dst port 162 dst net 10.0.0.0/8", 5);
        expect("ip host 10.0.0.1", "ip host 10.0.0.1", Rule::UNTAGGED);
        expect("net 2001:db8::/32", "net 2001:db8::/32", Rule::UNTAGGED);
        expect("icmp", "ip icmp", Rule::UNTAGGED);
        expect(
            "tcp and src portrange 1-99 && src host 10.0.0.1",
            "tcp src portrange 1-99 host 10.0.0.1",
            Rule::UNTAGGED,
        );
    }

    #[test]
    fn words_with_two_meanings_do_not() {
        let texts = [
            "",
            "and",
            "host 10.0.0.1",
            "udp and host 10.0.0.1 and port 5",
            "src host 10.0.0.1 and port 80",
            "not udp",
            "udp or tcp",
            "port 80 and port 443",
            "udp and vlan 5",
            "vlan",
            "vlan and udp",
            "ip and icmp6",
            "ip and ip6",
            "udp src port 5 and dst host 10.0.0.1",
            "dst udp",
            "udp src",
            "ether proto 1",
            "host example.com and udp",
            "src or dst port 7",
            "less 100",
            "tcp[13] & 2 != 0",
            "udp port domain",
        ];
        for text in texts {
            assert_eq!(rule(text), None, "{text}");
        }
    }

    #[test]
    fn programs_decide_on_whole_packets() {
        let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat();
        let takes =
            |words: &str, data: &[u8]| Filter::compile(words, 1).unwrap().program().takes(data, data.len() as u32);
        assert!(takes("arp", &arp));
        assert!(!takes("arp", &arp[..13]));
        let tagged = [&arp[..12], &[0x81, 0, 0, 5], &arp[12..]].concat();
        assert!(!takes("arp", &tagged));
        assert!(takes("vlan 5 and arp", &tagged));
    }
}

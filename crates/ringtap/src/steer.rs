//! Steering: which packets leave the host stack for our rings (bpf/steer.bpf.c, loaded with aya).
//!
//! Owns the rules, the program's life on the interface and its counters. The program hangs on a bpf_link whose file
//! descriptor only this process holds, so however the process ends, the kernel detaches it.

mod occupant;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aya::maps::{Array, MapData, MapError, PerCpuArray, XskMap};
use aya::programs::{ProgramError, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::sys::grace_period;
pub(crate) use occupant::lasting_occupant;
pub use occupant::{Occupant, occupant};

const MATCH_VLAN: u32 = 0x01;
const MATCH_ADDRESS: u32 = 0x02;
const MATCH_PROTOCOL: u32 = 0x04;
const MATCH_PORT: u32 = 0x08;
const MATCH_FAMILY: u32 = 0x10;
const FROM_SOURCE: u32 = 0x20;
const FROM_DESTINATION: u32 = 0x40;
const MATCH_WHOLE: u32 = 0x80;
/// Name of the program in steer.bpf.c.
const PROGRAM: &str = "ringtap_steer";
/// MAX_RULES of steer.bpf.c.
pub const MOST_RULES: usize = 32;
/// MAX_QUEUES of steer.bpf.c.
pub const MOST_QUEUES: u32 = 1024;
/// struct rule of steer.bpf.c as words.
type RuleWords = [u32; 12];
/// struct counters of steer.bpf.c.
type CounterWords = [u64; 4];

/// Which side of a packet an address and a port are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// Either side, as `host` and `port` mean in pcap-filter(7).
    #[default]
    Any,
    /// `src`.
    Source,
    /// `dst`.
    Destination,
}

/// One reason to take a packet: all that is set must hold. Several rules are alternatives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// VLAN identifier (0–4095) of the outermost tag, or [`Rule::UNTAGGED`].
    pub vlan: Option<u16>,
    /// 4 or 6.
    pub family: Option<u8>,
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// Address prefix: address and prefix length in bits.
    pub prefix: Option<(IpAddr, u8)>,
    /// Inclusive range of TCP, UDP or SCTP ports.
    pub ports: Option<(u16, u16)>,
    /// Which side `prefix` and `ports` speak of.
    pub side: Side,
    /// No fragments, which a ring does not put together: they stay with the host's stack, which does. No word of pcap-filter(7) says it.
    pub whole: bool,
}

impl Rule {
    /// As `vlan`: frames without a tag (what steer.bpf.c finds as the tag's identifier in these).
    pub const UNTAGGED: u16 = 0xffff;

    fn words(&self) -> RuleWords {
        let mut words = RuleWords::default();
        let halves = |low: u16, high: u16| {
            let [a, b] = low.to_ne_bytes();
            let [c, d] = high.to_ne_bytes();
            u32::from_ne_bytes([a, b, c, d])
        };
        let mut family = self.family;
        if let Some(vlan) = self.vlan {
            words[0] |= MATCH_VLAN;
            words[1] = halves(vlan, 0);
        }
        if let Some((address, length)) = self.prefix {
            words[0] |= MATCH_ADDRESS;
            let (octets, is_v4) = match address {
                IpAddr::V4(v4) => (v4.octets().to_vec(), true),
                IpAddr::V6(v6) => (v6.octets().to_vec(), false),
            };
            family = Some(if is_v4 { 4 } else { 6 });
            let mask: Vec<u8> = (0..octets.len())
                .map(|i| {
                    let bits = u32::from(length).saturating_sub(i as u32 * 8).min(8);
                    (0xff00u16 >> bits) as u8
                })
                .collect();
            for (i, (octets, mask)) in octets.chunks_exact(4).zip(mask.chunks_exact(4)).enumerate() {
                let mask = u32::from_ne_bytes([mask[0], mask[1], mask[2], mask[3]]);
                words[4 + i] = u32::from_ne_bytes([octets[0], octets[1], octets[2], octets[3]]) & mask;
                words[8 + i] = mask;
            }
        }
        if let Some((low, high)) = self.ports {
            words[0] |= MATCH_PORT;
            words[2] = halves(low, high);
        }
        if let Some(protocol) = self.protocol {
            words[0] |= MATCH_PROTOCOL;
            words[3] = protocol.into();
        }
        if let Some(family) = family {
            words[0] |= MATCH_FAMILY;
            words[1] = halves(self.vlan.unwrap_or(0), family.into());
        }
        if self.whole {
            words[0] |= MATCH_WHOLE;
        }
        words[0] |= match self.side {
            Side::Any => FROM_SOURCE | FROM_DESTINATION,
            Side::Source => FROM_SOURCE,
            Side::Destination => FROM_DESTINATION,
        };
        words
    }
}

/// How the program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attach {
    /// In the driver (XDP_FLAGS_DRV_MODE).
    Native,
    /// In the generic receive path, after the driver made an skb (XDP_FLAGS_SKB_MODE).
    Generic,
}

impl Attach {
    /// `native` or `generic`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// What the steering program counted, summed over all CPUs, while its gates were open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SteerCounters {
    /// Frames redirected to a socket; what the socket then dropped is in its own statistics.
    pub taken: u64,
    /// Frames nobody asked for, passed to the host stack.
    pub passed: u64,
    /// Frames asked for that came on a queue without a socket, passed to the host stack.
    pub no_socket: u64,
    /// Frames taken without an arrival stamp, for want of room in front of them.
    pub unstamped: u64,
}

impl SteerCounters {
    /// Frames the device handed over.
    pub fn seen(&self) -> u64 {
        self.taken + self.passed + self.no_socket
    }
}

/// Which queues' frames the program looks at. Shut, a queue's frames stay with the host and are not counted.
pub(crate) struct Gates {
    map: Mutex<Array<MapData, u32>>,
    /// All are shut, and what was on its way when they were has arrived.
    settled: AtomicBool,
}

impl Gates {
    /// Opens all of them: from now on packets count.
    pub(crate) fn open(&self) -> std::result::Result<(), MapError> {
        let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        (0..MOST_QUEUES).try_for_each(|queue| map.set(queue, 1, 0))
    }

    /// Shuts all of them; when it returns, rings and counters stand still.
    pub(crate) fn shut(&self) {
        if self.settled.load(Ordering::Acquire) {
            return;
        }
        {
            let mut map = self.map.lock().unwrap_or_else(PoisonError::into_inner);
            for queue in 0..MOST_QUEUES {
                // An array's element can always be written.
                let _ = map.set(queue, 0, 0);
            }
        }
        grace_period();
        self.settled.store(true, Ordering::Release);
    }

    /// Shuts one queue's; when it returns, its ring stands still.
    pub(crate) fn shut_queue(&self, queue: u32) {
        if !self.settled.load(Ordering::Acquire) {
            let _ = self.map.lock().unwrap_or_else(PoisonError::into_inner).set(queue, 0, 0);
            grace_period();
        }
    }
}

/// The program on its interface. Dropping it detaches it.
pub struct Steering {
    interface: String,
    attach: Attach,
    cookie: u64,
    gates: Arc<Gates>,
    sockets: XskMap<MapData>,
    counts: PerCpuArray<MapData, CounterWords>,
    // Holds the program and its link.
    _bpf: Ebpf,
}

impl Steering {
    /// Loads the program with these rules (none: take everything) and attaches it; `None` tries native, then generic.
    ///
    /// `spares_link_control` leaves LACP, ARP and IPv6 neighbour discovery to the host whatever the rules say.
    ///
    /// # Errors
    /// Another XDP program is there (names it and the processes that hold it), privileges are missing, the driver or
    /// the MTU does not go with native XDP, the interface vanished.
    pub fn attach(
        interface: &str,
        ifindex: u32,
        rules: &[Rule],
        attach: Option<Attach>,
        spares_link_control: bool,
    ) -> Result<Self> {
        if rules.len() > MOST_RULES {
            return Err(Error::usage("steer", interface, format!("{} rules, the most is {MOST_RULES}", rules.len()))
                .way_out("merge prefixes or port ranges"));
        }
        refuse_if_occupied(interface, ifindex)?;
        // It tells stamps from the first bytes of packets that have none, so whoever sends those must not be able to guess it.
        let cookie = RandomState::new().hash_one(0);
        let count = rules.len() as u32;
        let load_error = |error: &dyn fmt::Display, errno: Option<i32>| {
            let error = Error::failed("load the steering program for", interface, error).with_errno(errno);
            match errno {
                // As dumpcap leaves itself, also under a tshark that root started.
                Some(libc::EPERM | libc::EACCES) if is_root() => error.way_out(
                    "root, but without CAP_BPF and CAP_NET_ADMIN (dumpcap drops them, for tshark too): \
                     leave it these, or use backend packet",
                ),
                Some(libc::EPERM | libc::EACCES) => {
                    error.way_out("run as root or with CAP_BPF and CAP_NET_ADMIN, or use --backend packet")
                }
                _ => error,
            }
        };
        let mut bpf = EbpfLoader::new()
            .override_global("rule_count", &count, true)
            .override_global("spares_link_control", &u32::from(spares_link_control), true)
            .override_global("cookie", &cookie, true)
            .load(aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steer.bpf.o")))
            .map_err(|error| load_error(&chain(&error), errno(&error)))?;
        let missing = || Error::failed("load the steering program for", interface, "the object lacks a map or program");
        let mut table: Array<_, RuleWords> =
            bpf.take_map("rules").and_then(|map| map.try_into().ok()).ok_or_else(missing)?;
        for (index, rule) in rules.iter().enumerate() {
            table.set(index as u32, rule.words(), 0).map_err(|error| load_error(&chain(&error), None))?;
        }
        let sockets = bpf.take_map("sockets").and_then(|map| map.try_into().ok()).ok_or_else(missing)?;
        let counts = bpf.take_map("counts").and_then(|map| map.try_into().ok()).ok_or_else(missing)?;
        let gates = bpf.take_map("gates").and_then(|map| map.try_into().ok()).ok_or_else(missing)?;
        let gates = Arc::new(Gates { map: Mutex::new(gates), settled: AtomicBool::new(false) });
        let program: &mut Xdp = bpf.program_mut(PROGRAM).and_then(|p| p.try_into().ok()).ok_or_else(missing)?;
        program.load().map_err(|error| load_error(&chain(&error), errno(&error)))?;
        let attach = attach_program(program, interface, ifindex, attach)?;
        Ok(Self { interface: interface.to_owned(), attach, cookie, gates, sockets, counts, _bpf: bpf })
    }

    /// Frames of `queue` that the rules want go to `socket` as soon as the gates are open.
    pub(crate) fn set_socket(&mut self, queue: u32, socket: &impl AsRawFd) -> Result<()> {
        self.sockets
            .set(queue, socket.as_raw_fd(), 0)
            .map_err(|error| Error::failed("steer", format!("{} queue {queue}", self.interface), chain(&error)))
    }

    /// Has packets taken, and counted, from now on.
    ///
    /// # Errors
    /// The map can't be written.
    pub fn open(&self) -> Result<()> {
        self.gates.open().map_err(|error| Error::failed("steer", &self.interface, chain(&error)))
    }

    /// Leaves all packets to the host from now on; when it returns, rings and counters stand still.
    pub fn shut(&self) {
        self.gates.shut();
    }

    pub(crate) fn gates(&self) -> Arc<Gates> {
        Arc::clone(&self.gates)
    }

    /// What marks this run's stamps.
    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    /// How it is attached.
    pub fn attached(&self) -> Attach {
        self.attach
    }

    /// The counters, summed over the CPUs.
    ///
    /// # Errors
    /// The map can't be read.
    pub fn counters(&self) -> Result<SteerCounters> {
        let values = self
            .counts
            .get(&0, 0)
            .map_err(|error| Error::failed("read the steering counters of", &self.interface, chain(&error)))?;
        let sum = |index: usize| values.iter().map(|words| words[index]).sum();
        Ok(SteerCounters { taken: sum(0), passed: sum(1), no_socket: sum(2), unstamped: sum(3) })
    }
}

fn attach_program(program: &mut Xdp, interface: &str, ifindex: u32, wanted: Option<Attach>) -> Result<Attach> {
    let tries: &[Attach] = match wanted {
        Some(Attach::Native) => &[Attach::Native],
        Some(Attach::Generic) => &[Attach::Generic],
        None => &[Attach::Native, Attach::Generic],
    };
    let mut last = None;
    for &mode in tries {
        let flags = match mode {
            Attach::Native => XdpMode::Driver,
            Attach::Generic => XdpMode::Skb,
        };
        let mut attached = program.attach_to_if_index(ifindex, flags);
        if attached.as_ref().is_err_and(is_occupied) {
            // The kernel was given another program between our look and our attempt; it may have gone again.
            refuse_if_occupied(interface, ifindex)?;
            attached = program.attach_to_if_index(ifindex, flags);
        }
        match attached {
            Ok(_) => return Ok(mode),
            Err(error) => last = Some((mode, error)),
        }
    }
    let Some((mode, error)) = last else {
        return Err(Error::failed("attach XDP program to", interface, "no mode was tried"));
    };
    let way_out = match mode {
        Attach::Native => {
            "use --xdp generic or --backend packet (the driver may lack XDP, or the MTU may be too large for it)"
        }
        Attach::Generic => "use --backend packet",
    };
    Err(Error::failed("attach XDP program to", format!("{interface} ({} mode)", mode.name()), chain(&error))
        .way_out(way_out))
}

fn is_occupied(error: &ProgramError) -> bool {
    matches!(error, ProgramError::SyscallError(e) if matches!(e.io_error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)))
}

/// An XDP program on an interface excludes ours: says which it is and who holds it.
fn refuse_if_occupied(interface: &str, ifindex: u32) -> Result<()> {
    let Some(occupant) = lasting_occupant(interface, ifindex)? else { return Ok(()) };
    let rest = if occupant.feeds_sockets { " for what it leaves to the host" } else { "" };
    let way_out = format!("{}, or use --backend packet{rest}", occupant.way_out(interface));
    Err(Error::failed("attach XDP program to", interface, format!("there is already {occupant}")).way_out(way_out))
}

/// Whether the effective user is root (proc_pid_status(5)).
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
}

/// An error with the errors behind it: aya keeps the system call's own word at the end of the chain.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    // The verifier's log can run over pages; its first line names the refusal.
    text.lines().next().unwrap_or_default().to_owned()
}

/// The number of the system call's error behind it.
pub(crate) fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut source = Some(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return io.raw_os_error();
        }
        source = inner.source();
    }
    None
}

impl FromStr for Rule {
    type Err = Error;

    /// One conjunction in the words of pcap-filter(7): `udp dst port 162 and net 10.0.0.0/8 and vlan 5`.
    ///
    /// Understood: `vlan N`, `ip`, `ip6`, `tcp`, `udp`, `sctp`, `icmp`, `icmp6`, `proto N`, `[src|dst] host|net ADDRESS[/LEN]`,
    /// `[src|dst] port N`, `[src|dst] portrange N-M`, joined by `and`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |cause: String| {
            Error::usage("read steering rule", format!("{text:?}"), cause)
                .way_out("use: [vlan N] [ip|ip6|tcp|udp|sctp|icmp|icmp6|proto N] [src|dst] [host|net A[/LEN]] [port N|portrange N-M], joined by `and`")
        };
        let mut rule = Self::default();
        let mut words = text.split_whitespace().peekable();
        let mut side = None;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| wrong(format!("{word:?} needs a value")));
            match word {
                "and" | "&&" => {}
                "src" | "dst" => {
                    let new = if word == "src" { Side::Source } else { Side::Destination };
                    if side.is_some_and(|side| side != new) {
                        return Err(wrong("one rule can't ask for source and destination at once".to_owned()));
                    }
                    side = Some(new);
                }
                "vlan" => {
                    let id: u16 = value()?
                        .parse()
                        .ok()
                        .filter(|&id| id < 4096)
                        .ok_or_else(|| wrong("a VLAN identifier is 0–4095".to_owned()))?;
                    rule.vlan = Some(id);
                }
                "ip" => rule.family = Some(4),
                "ip6" => rule.family = Some(6),
                "tcp" => rule.protocol = Some(6),
                "udp" => rule.protocol = Some(17),
                "sctp" => rule.protocol = Some(132),
                "icmp" => rule.protocol = Some(1),
                "icmp6" => rule.protocol = Some(58),
                "proto" => {
                    let number = value()?;
                    rule.protocol =
                        Some(number.parse().map_err(|_| wrong(format!("{number:?} is no protocol number (0–255)")))?);
                }
                "host" | "net" => {
                    let prefix = value()?;
                    rule.prefix =
                        Some(parse_prefix(prefix).ok_or_else(|| wrong(format!("{prefix:?} is no address or prefix")))?);
                }
                "port" => {
                    let port = value()?;
                    let port = port.parse().map_err(|_| wrong(format!("{port:?} is no port (0–65535)")))?;
                    rule.ports = Some((port, port));
                }
                "portrange" => {
                    let range = value()?;
                    let parsed =
                        range.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
                    rule.ports = Some(
                        parsed
                            .filter(|(low, high)| low <= high)
                            .ok_or_else(|| wrong(format!("{range:?} is no port range")))?,
                    );
                }
                other => return Err(wrong(format!("{other:?} can't be decided in the driver"))),
            }
        }
        rule.side = side.unwrap_or_default();
        Ok(rule)
    }
}

fn parse_prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address.parse().ok()?, Some(length.parse::<u8>().ok()?)),
        None => (text.parse().ok()?, None),
    };
    let most = match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    let length = length.unwrap_or(most);
    (length <= most).then_some((address, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_pcap_filter_writes_them() {
        let rule: Rule = "udp and dst port 162 and dst net 10.1.0.0/16 and vlan 5".parse().unwrap();
        assert_eq!(
            rule,
            Rule {
                vlan: Some(5),
                family: None,
                protocol: Some(17),
                prefix: Some(("10.1.0.0".parse().unwrap(), 16)),
                ports: Some((162, 162)),
                side: Side::Destination,
                whole: false,
            }
        );
        for bad in [
            "src host 10.0.0.1 and dst port 3",
            "port 70000",
            "net 10.0.0.0/33",
            "vlan 4096",
            "less 100",
            "not udp",
            "portrange 5-4",
            "udp port",
        ] {
            let error = bad.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("use:"), "{error}");
        }
    }

    #[test]
    fn words_follow_struct_rule_of_the_program() {
        let words =
            Rule { prefix: Some(("192.168.7.9".parse().unwrap(), 20)), ports: Some((1, 2)), ..Rule::default() }.words();
        assert_eq!(words[0], MATCH_ADDRESS | MATCH_PORT | MATCH_FAMILY | FROM_SOURCE | FROM_DESTINATION);
        assert_eq!(words[4].to_ne_bytes(), [192, 168, 0, 0]);
        assert_eq!(words[8].to_ne_bytes(), [255, 255, 240, 0]);
        let ports: Vec<u8> = words[2].to_ne_bytes().to_vec();
        assert_eq!(ports, [1u16.to_ne_bytes(), 2u16.to_ne_bytes()].concat());
        let words = Rule { prefix: Some(("2001:db8::".parse().unwrap(), 33)), ..Rule::default() }.words();
        assert_eq!(
            words[8..].iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>()[..6],
            [255, 255, 255, 255, 128, 0]
        );
        assert_eq!(Rule { prefix: Some(("0.0.0.0".parse().unwrap(), 0)), ..Rule::default() }.words()[8], 0);
    }
}

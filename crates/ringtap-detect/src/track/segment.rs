//! Owns: the fields of a TCP segment that its receiver looks at, options included.
//! Does not: judge them (`receiver.rs`).

use ringtap_wire::{Tcp, TcpOption, tcp_flag};

/// Option kinds: MD5 signature (RFC 2385), Fast Open cookie (RFC 7413), and the one that cookies had before that, by its number
/// among experiments.
const MD5: u8 = 19;
const FAST_OPEN: u8 = 34;
const EXPERIMENT: u8 = 254;
const FAST_OPEN_EXPERIMENT: [u8; 2] = [0xf9, 0x89];
/// Largest shift of a window (RFC 7323 §2.3).
pub(super) const MAX_SHIFT: u8 = 14;

/// A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u8,
    /// Before scaling.
    pub(crate) window: u16,
    /// Place in the payload of the byte that is out of band, if there is one.
    pub(crate) urgent: Option<usize>,
    pub(crate) payload: &'a [u8],
    pub(crate) options: SegmentOptions,
}

/// Options that decide whether a segment is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentOptions {
    pub(crate) scale: Option<u8>,
    pub(crate) stamp: Option<u32>,
    pub(crate) signed: bool,
    /// A Fast Open cookie: data with a SYN counts.
    pub(crate) fast_open: bool,
}

impl<'a> Segment<'a> {
    pub(crate) fn new(tcp: &Tcp<'a>, payload: &'a [u8]) -> Self {
        let flags = tcp.flags();
        // RFC 9293 §3.8.5 has the pointer at the last urgent byte, hosts have it behind that byte.
        let urgent = (flags & tcp_flag::URG != 0).then(|| usize::from(tcp.urgent_pointer()).wrapping_sub(1));
        Self {
            sequence: tcp.sequence(),
            acknowledgment: tcp.acknowledgment(),
            flags,
            window: tcp.window(),
            urgent: urgent.filter(|&at| at < payload.len()),
            payload,
            options: SegmentOptions::of(tcp),
        }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl SegmentOptions {
    fn of(tcp: &Tcp<'_>) -> Self {
        let mut found = Self::default();
        // Options behind a broken one are not read by the receiver either.
        for option in tcp.options().map_while(Result::ok) {
            match TcpOption::from(option) {
                TcpOption::WindowScale(shift) => found.scale = Some(shift.min(MAX_SHIFT)),
                TcpOption::Timestamps(stamp, _) => found.stamp = Some(stamp),
                TcpOption::Other(raw) => {
                    found.signed |= raw.kind == MD5 && raw.data.len() == 16;
                    let cookie = match (raw.kind, raw.data) {
                        (FAST_OPEN, cookie) => cookie,
                        (EXPERIMENT, [first, second, cookie @ ..]) if [*first, *second] == FAST_OPEN_EXPERIMENT => {
                            cookie
                        }
                        _ => &[],
                    };
                    found.fast_open |= matches!(cookie.len(), 4..=16);
                }
                _ => {}
            }
        }
        found
    }
}

//! Owns: an alert as the payload of one UDP datagram, written in place: fixed offsets, network byte order, with the
//! sequence number by which the receiver sees loss on the way.
//! Does not: write frames; `ringtap_wire::UdpFrame` does.
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | `RTAL` |
//! | 4 | version, 1 |
//! | 5 | severity, 1 the worst |
//! | 6 | IP version of the addresses |
//! | 7 | IP protocol |
//! | 8–15 | sequence number, from 1 |
//! | 16–23 | time of the packet, nanoseconds since 1970 |
//! | 24–31 | nanoseconds from the packet's arrival to this alert; all ones: unknown |
//! | 32–43 | gid, sid, rev |
//! | 44–47 | source port, destination port |
//! | 48–63 | source address; IPv4 in the first four bytes |
//! | 64–79 | destination address |

use std::net::IpAddr;

use crate::record::{AlertRecord, RuleKey};

/// Length of the payload, bytes.
pub const LEN: usize = 80;
const MAGIC: &[u8; 4] = b"RTAL";
const VERSION: u8 = 1;

/// What a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Sequence number.
    pub sequence: u64,
    /// Time of the packet, nanoseconds since 1970.
    pub time_ns: u64,
    /// From the packet's arrival to the alert, nanoseconds.
    pub latency_ns: Option<u64>,
    /// The rule.
    pub rule: RuleKey,
    /// 1 the worst.
    pub severity: u8,
    /// IP protocol.
    pub protocol: u8,
    /// Source.
    pub source: (IpAddr, u16),
    /// Destination.
    pub destination: (IpAddr, u16),
}

impl Datagram {
    /// What this alert's says.
    #[must_use]
    pub fn of(alert: &AlertRecord, latency_ns: Option<u64>) -> Self {
        let place = &alert.place;
        Self {
            sequence: alert.sequence,
            time_ns: alert.time_ns,
            latency_ns,
            rule: alert.rule,
            severity: alert.severity,
            protocol: place.protocol,
            source: (place.source, place.ports.0),
            destination: (place.destination, place.ports.1),
        }
    }

    /// Writes it to the start of `out`; returns [`LEN`], or 0 if there is no room.
    pub fn write(&self, out: &mut [u8]) -> usize {
        let Some(out) = out.first_chunk_mut::<LEN>() else { return 0 };
        out.fill(0);
        out[..4].copy_from_slice(MAGIC);
        out[4] = VERSION;
        out[5] = self.severity;
        out[6] = if self.source.0.is_ipv4() { 4 } else { 6 };
        out[7] = self.protocol;
        out[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        out[16..24].copy_from_slice(&self.time_ns.to_be_bytes());
        out[24..32].copy_from_slice(&self.latency_ns.unwrap_or(u64::MAX).to_be_bytes());
        for (at, number) in [(32, self.rule.gid), (36, self.rule.sid), (40, self.rule.rev)] {
            out[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        out[44..46].copy_from_slice(&self.source.1.to_be_bytes());
        out[46..48].copy_from_slice(&self.destination.1.to_be_bytes());
        for (at, address) in [(48, self.source.0), (64, self.destination.0)] {
            match address {
                IpAddr::V4(address) => out[at..at + 4].copy_from_slice(&address.octets()),
                IpAddr::V6(address) => out[at..at + 16].copy_from_slice(&address.octets()),
            }
        }
        LEN
    }

    /// Reads one; `None` if it is none.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes = payload.first_chunk::<LEN>()?;
        if !bytes.starts_with(MAGIC) || bytes[4] != VERSION {
            return None;
        }
        let long = |at: usize| bytes[at..at + 8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let number = |at: usize| bytes[at..at + 4].iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let address = |at: usize| -> Option<IpAddr> {
            Some(match bytes[6] {
                4 => IpAddr::from(<[u8; 4]>::try_from(&bytes[at..at + 4]).ok()?),
                6 => IpAddr::from(<[u8; 16]>::try_from(&bytes[at..at + 16]).ok()?),
                _ => return None,
            })
        };
        Some(Self {
            sequence: long(8),
            time_ns: long(16),
            latency_ns: Some(long(24)).filter(|&latency| latency != u64::MAX),
            rule: RuleKey { gid: number(32), sid: number(36), rev: number(40) },
            severity: bytes[5],
            protocol: bytes[7],
            source: (address(48)?, port(44)),
            destination: (address(64)?, port(46)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_back() {
        for address in ["192.0.2.1", "2001:db8::1"] {
            let datagram = Datagram {
                sequence: 7,
                time_ns: 1 << 60,
                latency_ns: None,
                rule: RuleKey { gid: 1, sid: 2_000_000, rev: 3 },
                severity: 2,
                protocol: 17,
                source: (address.parse().unwrap(), 40000),
                destination: (address.parse().unwrap(), 53),
            };
            let mut payload = [0xff; LEN + 1];
            assert_eq!(datagram.write(&mut payload), LEN);
            assert_eq!(Datagram::read(&payload), Some(datagram));
            assert_eq!(datagram.write(&mut payload[..LEN - 1]), 0);
            payload[0] = 0;
            assert_eq!(Datagram::read(&payload), None);
        }
    }
}

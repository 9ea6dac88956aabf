//! Owns: capture files of a sample, in every format, byte order and resolution that Ringtap reads.
//! Does not: use Ringtap's own writers.

use crate::Sample;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap in microseconds, in this byte order.
    Pcap(Order),
    /// pcap in nanoseconds.
    PcapNano(Order),
    /// pcapng with that resolution of time (an `if_tsresol`), in two sections.
    Pcapng(Order, u8),
}

/// Byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    fn two(self, number: u16) -> [u8; 2] {
        if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }

    fn four(self, number: u32) -> [u8; 4] {
        if self == Self::Little { number.to_le_bytes() } else { number.to_be_bytes() }
    }
}

impl Format {
    /// All of them, those that are met most often more than once.
    pub const ALL: [Self; 10] = [
        Self::Pcap(Order::Little),
        Self::PcapNano(Order::Little),
        Self::Pcap(Order::Little),
        Self::Pcapng(Order::Little, 9),
        Self::Pcap(Order::Big),
        Self::Pcapng(Order::Big, 6),
        Self::PcapNano(Order::Big),
        Self::Pcapng(Order::Little, 6),
        Self::Pcap(Order::Little),
        Self::Pcapng(Order::Little, 3),
    ];

    /// What a file's name ends in.
    #[must_use]
    pub fn extension(self) -> &'static str {
        if matches!(self, Self::Pcapng(..)) { "pcapng" } else { "pcap" }
    }
}

/// When packet `index` came: nanoseconds since 1970, a little over a second apart.
#[must_use]
pub fn stamp_ns(index: usize) -> u64 {
    1_700_000_000_000_000_000 + index as u64 * 1_001_002_003
}

/// A file of the sample's packets.
#[must_use]
pub fn file(sample: &Sample, format: Format) -> Vec<u8> {
    match format {
        Format::Pcap(order) => pcap(sample, order, 0xa1b2_c3d4, 1000),
        Format::PcapNano(order) => pcap(sample, order, 0xa1b2_3c4d, 1),
        Format::Pcapng(order, resolution) => pcapng(sample, order, resolution),
    }
}

fn pcap(sample: &Sample, order: Order, magic: u32, unit_ns: u64) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(order.four(magic));
    file.extend([order.two(2), order.two(4)].concat());
    for word in [0, 0, 262_144, sample.link] {
        file.extend(order.four(word));
    }
    for (index, packet) in sample.packets.iter().enumerate() {
        let stamp = stamp_ns(index);
        let (seconds, rest) = (stamp / 1_000_000_000, stamp % 1_000_000_000 / unit_ns);
        for word in [seconds as u32, rest as u32, packet.len() as u32, packet.len() as u32] {
            file.extend(order.four(word));
        }
        file.extend(packet);
    }
    file
}

fn padded(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(4), 0);
    data
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let (body, length) = (padded(body), order.four((12 + body.len().next_multiple_of(4)) as u32));
    [&order.four(kind)[..], &length, &body, &length].concat()
}

fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    [&order.two(code)[..], &order.two(value.len() as u16), &padded(value)].concat()
}

/// Two sections, the second half of the packets in the second. Between them blocks that readers skip.
fn pcapng(sample: &Sample, order: Order, resolution: u8) -> Vec<u8> {
    let mut file = Vec::new();
    let (half, all) = (sample.packets.len().div_ceil(2), sample.packets.len());
    for (from, until) in [(0, half), (half, all)] {
        let length = [0xff; 8];
        let comment = option(order, 1, b"made for a test");
        let head = [&order.four(0x1a2b_3c4d)[..], &order.two(1), &order.two(0), &length, &comment, &[0; 4]].concat();
        file.extend(block(order, 0x0a0d_0d0a, &head));
        // A second interface that no packet is of; the packets are of the last one.
        for name in ["unused", "used"] {
            let options = [option(order, 2, name.as_bytes()), option(order, 9, &[resolution]), vec![0; 4]].concat();
            let body = [&order.two(sample.link as u16)[..], &[0; 2], &order.four(262_144), &options].concat();
            file.extend(block(order, 1, &body));
        }
        // Name resolution, and a block that nobody knows.
        file.extend(block(order, 4, &[0; 4]));
        file.extend(block(order, 0x8000_1234, b"of another vendor"));
        for index in from..until {
            let packet = &sample.packets[index];
            let stamp = match resolution {
                3 => stamp_ns(index) / 1_000_000,
                6 => stamp_ns(index) / 1000,
                _ => stamp_ns(index),
            };
            let mut body = Vec::new();
            for word in [1, (stamp >> 32) as u32, stamp as u32, packet.len() as u32, packet.len() as u32] {
                body.extend(order.four(word));
            }
            body.extend(padded(packet));
            if index % 3 == 0 {
                body.extend([option(order, 1, format!("packet {index}").as_bytes()), vec![0; 4]].concat());
            }
            file.extend(block(order, 6, &body));
        }
        let counted = order.four(until as u32);
        file.extend(block(
            order,
            5,
            &[&order.four(1)[..], &[0; 8], &option(order, 4, &[counted, [0; 4]].concat()), &[0; 4]].concat(),
        ));
    }
    file
}

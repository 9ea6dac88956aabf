//! Owns: the seeds of the `pcap` target, sequences of calls as the target reads them from bytes, and of `files`: capture files.

use ringtap_samples::files::{Format, Order, file};
use ringtap_samples::{Sample, sample};

use crate::Seeds;

/// The first byte of a sequence without live captures.
const NOT_LIVE: u8 = 1;
/// Calls: the slot of the handle, and the call's number.
const OPEN: [u8; 2] = [0, 0];
const CLOSE: [u8; 2] = [0, 1];
const DISPATCH_ALL: [u8; 3] = [0, 7, 0];
const NEXT_EX: [u8; 2] = [0, 9];
/// `udp and port 80`, optimized.
const FILTER: [u8; 7] = [0, 12, 3, 0, 4, 7, 2];
const STATS: [u8; 2] = [0, 16];
const ASK: [u8; 4] = [0, 22, 0, 23];
const DUMP: [u8; 2] = [0, 24];

const FORMATS: [Format; 3] =
    [Format::Pcap(Order::Little), Format::PcapNano(Order::Big), Format::Pcapng(Order::Little, 9)];

/// A file of a few packets in each format.
pub fn files() -> Seeds {
    let formats = FORMATS.into_iter().enumerate();
    formats.map(|(number, format)| (format!("file-{number}"), few(format))).collect()
}

fn few(format: Format) -> Vec<u8> {
    let dns = sample("dns");
    let packets = dns.packets.iter().take(4).cloned().collect();
    file(&Sample { packets, ..dns }, format)
}

/// What clients do with files, with no device, and with a handle that is not activated.
pub fn calls() -> Seeds {
    let mut seeds: Seeds = FORMATS
        .into_iter()
        .enumerate()
        .map(|(number, format)| {
            let open = open_file(format);
            let parts = [&open[..], &FILTER, &NEXT_EX, &DISPATCH_ALL, &STATS, &ASK, &DUMP, &CLOSE];
            (format!("file-{number}"), [&[NOT_LIVE][..], &parts.concat()].concat())
        })
        .collect();
    // Ethernet with 65,535 bytes at most.
    let dead = [&OPEN[..], &[0, 2, 10], &FILTER, &ASK, &DUMP, &DISPATCH_ALL, &CLOSE].concat();
    seeds.push(("no-device".to_owned(), [&[NOT_LIVE][..], &dead].concat()));
    // A name of ours, a snaplen, the settings, and a dispatch that is refused.
    let settings: Vec<u8> = (0..8).flat_map(|setting| [0, 5, 2, setting]).collect();
    let created = [&OPEN[..], &[2, 4, 1, 0, 4, 7], &settings, &DISPATCH_ALL, &STATS, &CLOSE].concat();
    seeds.push(("created".to_owned(), [&[NOT_LIVE][..], &created].concat()));
    seeds
}

/// A call that opens a file of a few packets.
fn open_file(format: Format) -> Vec<u8> {
    const MOST: usize = 1000;
    let mut bytes = few(format);
    bytes.truncate(MOST / 4 * 4);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    [&OPEN[..], &[1, (bytes.len() / 4) as u8], &bytes, &[1]].concat()
}

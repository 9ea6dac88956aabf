//! Merged packets (GRO, TSO, BIG TCP) come whole, what comes cut is counted, and no packet is given another's bytes.

mod net_support;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use net_support::frames::{ethernet, ipv4, udp};
use net_support::{Bench, Way, Wire, bench, config, drops, eventually, ip, settle};
use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap::source::Source;
use ringtap::source::packet::{Fanout, PacketRingConfig, PacketSource};
use ringtap::transmit::Outbox;

const PORT: u16 = 7000;
const STREAM: usize = 20 << 20;

/// Bytes in which each place tells itself from its neighbours.
fn sent() -> Arc<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    Arc::new(words.take(STREAM / 8).flat_map(u64::to_ne_bytes).collect())
}

/// Puts a stream to [`PORT`] together by its sequence numbers and compares it with what was sent.
struct Stream {
    sent: Arc<Vec<u8>>,
    first: Option<u32>,
    /// Beginning and end of what was seen.
    parts: Vec<(usize, usize)>,
    different: u64,
    longest: usize,
    short: u64,
}

impl Stream {
    fn new(sent: &Arc<Vec<u8>>) -> Self {
        Self { sent: Arc::clone(sent), first: None, parts: Vec::new(), different: 0, longest: 0, short: 0 }
    }

    /// Bytes from the beginning on without a gap.
    fn reached(&mut self) -> usize {
        self.parts.sort_unstable();
        self.parts.iter().fold(0, |reached, &(from, to)| if from <= reached { reached.max(to) } else { reached })
    }
}

/// The TCP segment of a frame without link-layer padding.
fn segment(frame: &[u8]) -> Option<&[u8]> {
    let rest = frame.get(14..)?;
    match (frame[12], frame[13]) {
        (8, 0) => {
            let total = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            let end = if total == 0 { rest.len() } else { total.min(rest.len()) };
            (rest[9] == 6).then(|| &rest[usize::from(rest[0] & 15) * 4..end])
        }
        (0x86, 0xdd) => match rest[6] {
            // The jumbo payload option, as BIG TCP has it.
            0 if rest[40] == 6 => Some(&rest[48..]),
            6 => Some(&rest[40..]),
            _ => None,
        },
        _ => None,
    }
}

impl Handler for Stream {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.longest = self.longest.max(packet.data.len());
        self.short += u64::from(packet.data.len() < packet.wire_len as usize);
        let Some(tcp) = segment(packet.data).filter(|tcp| tcp[2..4] == PORT.to_be_bytes()) else { return };
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        if tcp[13] & 2 != 0 {
            self.first = Some(sequence.wrapping_add(1));
        }
        let data = &tcp[usize::from(tcp[12] >> 4) * 4..];
        let (Some(first), false) = (self.first, data.is_empty()) else { return };
        let at = sequence.wrapping_sub(first) as usize;
        match self.sent.get(at..at + data.len()) {
            Some(right) if right == data => self.parts.push((at, at + data.len())),
            _ => self.different += 1,
        }
    }
}

/// Sends the stream from one host's stack to the other's.
fn transfer(bench: &Bench, to: IpAddr, sent: &[u8]) {
    let address = SocketAddr::new(to, PORT);
    let listener = bench.receiver().run(|| TcpListener::bind(address).unwrap()).unwrap();
    let reader = std::thread::spawn(move || {
        let (mut from, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 4 << 20];
        let mut total = 0;
        while let Ok(got @ 1..) = from.read(&mut buffer) {
            total += got;
        }
        total
    });
    bench
        .testbed
        .sender()
        .run(|| {
            let mut connection = TcpStream::connect(address).unwrap();
            connection.write_all(sent).unwrap();
        })
        .unwrap();
    assert_eq!(reader.join().unwrap(), sent.len());
}

/// The packet sockets' ways, and libpcap's.
fn ways(bench: &Bench) -> [ReceiverConfig; 3] {
    let [packet, socket] = [Way::Packet, Way::Socket].map(|way| config(bench, way));
    let pcap = ReceiverConfig { backend: Backend::Pcap, ..packet.clone() };
    [packet, socket, pcap]
}

#[test]
fn net_merged_packets_come_whole() {
    let bench = bench("net_merged_packets_come_whole");
    let sent = sent();
    for config in ways(&bench) {
        let way = config.backend;
        let running = bench.start(config, |_| Stream::new(&sent));
        transfer(&bench, bench.receiver().link().ipv4.into(), &sent);
        settle(&running);
        let mut outcome = bench.finish(running);
        assert!(drops(&outcome).is_empty(), "{way:?}: {}", outcome.ledger);
        assert_eq!(outcome.ledger.cut, 0, "{way:?}: {}", outcome.ledger);
        let stream = &mut outcome.engines[0].handler;
        assert!(stream.longest > 16384, "{way:?}: nothing was merged: {}", stream.longest);
        assert_eq!((stream.reached(), stream.different, stream.short), (STREAM, 0, 0), "{way:?}");
    }
}

#[test]
fn net_big_tcp_comes_whole() {
    let bench = bench("net_big_tcp_comes_whole");
    for host in [bench.testbed.sender(), bench.receiver()] {
        ip(host, &format!("link set {} gso_max_size 200000 gro_max_size 200000", host.interface()));
    }
    let sent = sent();
    for config in ways(&bench) {
        let way = config.backend;
        let running = bench.start(config, |_| Stream::new(&sent));
        transfer(&bench, bench.receiver().link().ipv6.into(), &sent);
        settle(&running);
        let mut outcome = bench.finish(running);
        assert!(drops(&outcome).is_empty(), "{way:?}: {}", outcome.ledger);
        let stream = &mut outcome.engines[0].handler;
        assert_eq!((outcome.ledger.cut, stream.different), (stream.short, 0), "{way:?}: {}", outcome.ledger);
        // The frames of libpcap's ring end at 65,553 bytes.
        if way == Backend::Pcap {
            assert!(stream.short > 0, "{way:?}");
        } else {
            assert!(stream.longest > 70_000, "{way:?}: nothing was merged: {}", stream.longest);
            assert_eq!((stream.reached(), stream.short), (STREAM, 0), "{way:?}");
        }
    }
}

/// The first fetch after the link went down reports that, and takes no packet.
#[test]
fn net_a_link_flap_leaves_each_packet_its_bytes() {
    let bench = bench("net_a_link_flap_leaves_each_packet_its_bytes");
    bench.testbed.enable_receiver_napi().unwrap();
    let host = bench.receiver();
    let config = PacketRingConfig {
        interface: host.interface().to_owned(),
        ifindex: host.link().index,
        ring_slots: 256,
        transmit_slots: 0,
        frame_size: 256,
        fetch_oversize: true,
        incoming_only: true,
        filter: None,
    };
    let (mut source, _, _) = host.run(|| PacketSource::open(&config, Fanout::None)).unwrap().unwrap();
    let frames: Vec<Vec<u8>> = (0..40u8)
        .map(|n| {
            // Two of each length, all alike in what their frames hold: only the order tells those apart.
            let mut payload = vec![0; 400 + usize::from(n / 2)];
            payload[300..].fill(n);
            ethernet(&[], 0x0800, &ipv4([198, 18, 0, 1], [198, 18, 0, 2], 17, 0x4000, &[], &udp(1, 2, &payload)))
        })
        .collect();
    let mut wire = Wire::open(bench.testbed.sender());
    wire.send(&frames);
    // All of them are queued before the flap.
    let counted = || host.run(|| ringtap::netlink::link_by_index(host.link().index)).unwrap().unwrap().statistics;
    assert!(eventually(Duration::from_secs(5), || counted().rx_packets >= frames.len() as u64));
    for state in ["down", "up"] {
        ip(host, &format!("link set {} {state}", host.interface()));
    }
    let mut got: Vec<Vec<u8>> = Vec::new();
    eventually(Duration::from_secs(5), || {
        // What the host's stack says of the link is not ours.
        got.extend(source.receive().iter().map(|packet| packet.data.to_vec()).filter(|data| data[12..14] == [8, 0]));
        got.len() >= frames.len()
    });
    let wrong: Vec<_> =
        got.iter().zip(&frames).enumerate().filter(|(_, (got, sent))| got != sent).map(|(n, _)| n).collect();
    assert_eq!((got.len(), wrong), (frames.len(), vec![]));
}

//! Each peer receives a small numbered run, and its counts add up; what it leaves behind is nothing.

use std::process::Command;

use ringtap_testbed::peer::{PeerKind, PeerOptions, PeerReport, RunningPeer};
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology, WireCounters};

const PPS: f64 = 20e3;
const PACKETS: u64 = 20_000;
/// Room for all packets of a run, so that nothing is lost however busy the machine is.
const RING_BYTES: u64 = 64 << 20;

/// Sends a second of traffic past the peer; what was sent, what it says, and the devices' counters.
fn receive(test: &str, kind: PeerKind, options: PeerOptions) -> (u64, PeerReport, WireCounters, WireCounters) {
    match kind.version() {
        Ok(version) => eprintln!("{}: {version}", kind.name()),
        Err(error) => panic!("did not run: {test}: {error}"),
    }
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut peer = RunningPeer::start(&testbed, kind, &options).unwrap_or_else(|error| panic!("{error}"));
    let napi = testbed.place_napi(!kind.attaches_xdp()).unwrap();
    let before = WireCounters::read(&testbed).unwrap();
    let profile = Profile::endless(Pattern::Constant { pps: PPS });
    let past = testbed
        .traffic_past(GeneratorConfig::for_testbed(&testbed, 64, profile).count(PACKETS), None, || true)
        .unwrap();
    peer.settle().unwrap();
    let received = peer.received().unwrap();
    let after = WireCounters::read(&testbed).unwrap();
    let report = peer.finish(past.generator.stamped).unwrap_or_else(|error| panic!("{error}"));
    if let Some(received) = received {
        assert_eq!(received, report.received, "nothing came after it had settled");
    }
    drop(napi);
    let shown = testbed
        .receiver()
        .run(|| Command::new("ip").args(["link", "show", testbed.receiver().interface()]).output().unwrap())
        .unwrap();
    assert!(!String::from_utf8_lossy(&shown.stdout).contains("xdp"), "its XDP program is detached: {shown:?}");
    for name in ["napi_defer_hard_irqs", "gro_flush_timeout"] {
        let path = format!("/sys/class/net/{}/{name}", testbed.receiver().interface());
        let value = testbed.receiver().run(|| std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(value.trim(), "0", "{name} is as before");
    }
    (past.generator.stamped, report, before, after)
}

fn counts_add_up(test: &str, kind: PeerKind, numbered: bool) {
    let buffer_bytes = numbered.then_some(RING_BYTES);
    let options = PeerOptions { expected: PACKETS, buffer_bytes, numbered, ..PeerOptions::default() };
    let (sent, report, before, after) = receive(test, kind, options);
    let said = format!("{:?}; {:?}", PeerReport { delivery: None, ..report.clone() }, after.drops_since(&before));
    let memory = report.memory_bytes.unwrap_or(0);
    assert_eq!(sent, PACKETS);
    assert!((1..=sent).contains(&report.received), "{said}");
    if kind.attaches_xdp() || !numbered {
        assert!(memory > 100_000, "{said}");
    } else {
        assert!(report.received * 100 >= sent * 99, "{said}");
        assert!(memory >= RING_BYTES / 10 * 9, "{said}");
    }
    let in_process = matches!(kind, PeerKind::UdpSocket | PeerKind::Libpcap);
    let testpmd = matches!(kind, PeerKind::TestpmdAfXdp | PeerKind::TestpmdAfPacket);
    assert_eq!(report.sequence.is_some(), (numbered && !testpmd) || in_process, "{said}");
    assert_eq!(
        report.delivery.as_ref().map(|delivery| delivery.count()),
        in_process.then_some(report.received),
        "{said}"
    );
    if let Some(sequence) = &report.sequence {
        assert_eq!((sequence.duplicates, sequence.foreign), (0, 0), "{said}");
        assert_eq!(sequence.received, report.received, "{said}");
        assert_eq!(sequence.lost, sent - report.received, "{said}");
    }
    if let (Some(received), Some(dropped)) = (report.claims_received, report.claims_dropped) {
        assert!((report.received..=sent).contains(&received), "{said}");
        assert!(dropped <= sent - report.received, "{said}");
    } else {
        assert_eq!(kind, PeerKind::UdpSocket, "{said}");
    }
}

macro_rules! each_peer {
    ($($test:ident: $kind:ident, $numbered:expr;)*) => {
        $(
            #[test]
            fn $test() {
                counts_add_up(stringify!($test), PeerKind::$kind, $numbered);
            }
        )*
    };
}

each_peer! {
    net_peer_udp_socket: UdpSocket, true;
    net_peer_libpcap: Libpcap, true;
    net_peer_tcpdump: Tcpdump, true;
    net_peer_tcpdump_to_nowhere: Tcpdump, false;
    net_peer_dumpcap: Dumpcap, true;
    net_peer_dumpcap_to_nowhere: Dumpcap, false;
    net_peer_netsniff_ng: NetsniffNg, true;
    net_peer_netsniff_ng_to_nowhere: NetsniffNg, false;
    net_peer_testpmd_af_xdp: TestpmdAfXdp, true;
    net_peer_testpmd_af_packet: TestpmdAfPacket, true;
    net_peer_suricata_af_packet: SuricataAfPacket, true;
    net_peer_suricata_af_packet_to_nowhere: SuricataAfPacket, false;
    net_peer_suricata_af_xdp: SuricataAfXdp, true;
}

/// All in one testbed after another, with everything on one core and more traffic than it can take: what a peer says it
/// handled is what its packets show, and what it says it dropped is not more than was lost.
#[test]
fn net_peers_beyond_their_capacity_count_alike() {
    const SENT: u64 = 200_000;
    let config = TestbedConfig { topology: Topology::Host, ..TestbedConfig::default() };
    let testbed = Testbed::new(config).unwrap_or_else(|error| panic!("{error}"));
    for kind in PeerKind::all() {
        if let Err(error) = kind.version() {
            panic!("did not run: net_peers_beyond_their_capacity_count_alike: {error}");
        }
        let options =
            PeerOptions { expected: SENT, buffer_bytes: Some(1 << 20), numbered: true, ..PeerOptions::default() };
        let mut peer = RunningPeer::start(&testbed, kind, &options).unwrap_or_else(|error| panic!("{error}"));
        let napi = testbed.place_napi(!kind.attaches_xdp()).unwrap();
        let profile = Profile::endless(Pattern::Constant { pps: 800e3 });
        let traffic = GeneratorConfig::for_testbed(&testbed, 64, profile).count(SENT);
        let past = testbed.traffic_past(traffic, None, || true).unwrap();
        peer.settle().unwrap();
        let report = peer.finish(past.generator.stamped).unwrap_or_else(|error| panic!("{error}"));
        drop(napi);
        let said = format!("{}: {:?}", kind.name(), PeerReport { delivery: None, sequence: None, ..report.clone() });
        eprintln!("{said}");
        assert!((1..=SENT).contains(&report.received), "{said}");
        assert!(report.claims_received.is_none_or(|received| received <= SENT), "{said}");
        assert!(report.claims_dropped.is_none_or(|dropped| dropped <= SENT - report.received), "{said}");
        if let Some(sequence) = report.sequence {
            assert_eq!((sequence.received, sequence.duplicates, sequence.foreign), (report.received, 0, 0), "{said}");
        }
    }
}

#[test]
fn net_suricata_works_by_the_rules_it_is_given() {
    const TEST: &str = "net_suricata_works_by_the_rules_it_is_given";
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("peer.rules");
    std::fs::write(&rules, "alert udp any any -> any any (msg:\"stamp\"; content:\"RTap\"; sid:1;)\nnonsense\n")
        .unwrap();
    let options = PeerOptions { expected: PACKETS, rules: Some(rules), ..PeerOptions::default() };
    let (sent, report, ..) = receive(TEST, PeerKind::SuricataAfPacket, options);
    assert!((1..=sent).contains(&report.received), "{report:?}");
    let loaded = "1 rules successfully loaded, 1 rules failed";
    assert!(report.note.iter().any(|note| note.contains(loaded)), "{:?}", report.note);

    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    // The testbed has a /dev/shm of its own.
    let outside = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let outside = outside.path().to_str().unwrap();
    for (rules, expected) in [("/no/such/file.rules", "ENOENT"), (outside, "keep them elsewhere")] {
        let options = PeerOptions { rules: Some(rules.into()), ..PeerOptions::default() };
        let error = RunningPeer::start(&testbed, PeerKind::SuricataAfXdp, &options).err().unwrap().to_string();
        assert!(error.contains(rules) && error.contains(expected), "{error}");
    }
}

/// What a program says when it can't start is in the error.
#[test]
fn net_peer_that_does_not_start_is_quoted() {
    const TEST: &str = "net_peer_that_does_not_start_is_quoted";
    if let Err(error) = PeerKind::Tcpdump.version() {
        panic!("did not run: {TEST}: {error}");
    }
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    // More than tcpdump takes.
    let options = PeerOptions { buffer_bytes: Some(1 << 50), ..PeerOptions::default() };
    let error = RunningPeer::start(&testbed, PeerKind::Tcpdump, &options).err().unwrap().to_string();
    assert!(error.contains("tcpdump") && error.contains("invalid packet buffer size"), "{error}");
}

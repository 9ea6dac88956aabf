//! Replays of third-party captures: what arrives is what libpcap reads from the file, byte for byte.

use ringtap_samples::conformance;

use crate::replays::{arrives_byte_for_byte, frames_of};
use crate::support::{Listener, output, report, start, testbed, texts};

#[test]
fn net_generate_cli_replays_byte_for_byte() {
    const TEST: &str = "net_generate_cli_replays_byte_for_byte";
    let testbed = testbed(TEST);
    let folder = conformance::data(TEST, "decode");
    for (name, line, passes) in [
        ("RADIUS.pcap", "--pace recorded", 1),
        ("RADIUS.pcap", "--pace 2x --loop 2", 2),
        ("OSPFv3_with_AH.pcap", "--pace fast --loop 20", 20),
        ("802.1ad_QinQ.pcap", "--rate 500 --loop 10", 10),
        ("nhrp.pcapng", "--rate 5k", 1),
        ("isis-seg-fault-2.pcapng", "--pace fast", 1),
    ] {
        arrives_byte_for_byte(&testbed, &folder.join(name), line, passes);
    }
}

#[test]
fn net_generate_cli_replay_of_several_files() {
    const TEST: &str = "net_generate_cli_replay_of_several_files";
    let testbed = testbed(TEST);
    let [first, second] = ["RADIUS.pcap", "UDLD.pcap"].map(|name| conformance::data(TEST, "decode").join(name));
    let listener = Listener::start(&testbed);
    let line = format!("--replay {} --replay {} --pace fast", first.display(), second.display());
    report(&testbed, &line, 0);
    assert_eq!(listener.finish(), [frames_of(&first), frames_of(&second)].concat());
}

#[test]
fn net_generate_cli_replay_refuses_another_link_type() {
    const TEST: &str = "net_generate_cli_replay_refuses_another_link_type";
    let testbed = testbed(TEST);
    let path = conformance::data(TEST, "decode").join("bgp-role.pcapng");
    let (out, err) = texts(&output(start(&testbed, &format!("--replay {}", path.display()))));
    assert!(out.is_empty() && err.contains("link type 113") && err.contains("Ethernet"), "{out}{err}");
}

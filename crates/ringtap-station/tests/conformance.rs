//! Third-party captures of SNMP and syslog decode as tshark says: every message, field by field.

mod tshark_support;

use std::path::PathBuf;

use ringtap_samples::{conformance, read};
use ringtap_wire::LinkType;

fn files(test: &str, folder: &str) -> Vec<PathBuf> {
    let files = read::files(&conformance::data(test, "traces").join(folder)).unwrap();
    assert!(!files.is_empty());
    files
}

#[test]
fn snmp_decodes_as_tshark_says() {
    const TEST: &str = "snmp_decodes_as_tshark_says";
    let (compared, kinds) = tshark_support::snmp_decodes_as_tshark_says(TEST, &files(TEST, "snmp"));
    assert!(compared > 100 && kinds.len() >= 5, "{compared} messages compared, with values of {kinds:?}");
}

#[test]
fn syslog_decodes_as_tshark_says() {
    const TEST: &str = "syslog_decodes_as_tshark_says";
    let compared = tshark_support::syslog_decodes_as_tshark_says(TEST, &files(TEST, "syslog"));
    assert!(compared >= 3, "{compared} messages compared");
}

#[test]
fn syslog_streams_are_cut_in_both_framings() {
    const TEST: &str = "syslog_streams_are_cut_in_both_framings";
    // Priorities 13 to 16 are facilities 1, 1, 1, 2; tshark 4 takes TCP port 514 for rsh, so it can't be asked.
    for (name, expected) in [("tcp-syslog.pcap", &[13, 14, 15, 16][..]), ("tcp-syslog-nontransparent.pcap", &[14, 16])]
    {
        let file = files(TEST, "syslog").into_iter().find(|file| file.ends_with(name)).unwrap();
        let packets = read::packets(&file).0;
        let packets = packets.iter().map(|packet| (packet.data.as_slice(), LinkType::RawIp));
        tshark_support::assert_stream(name, packets, expected);
    }
}

//! Third-party capture files, spoiled ones among them, read by `FileSource` and by Debian's readers.

mod peer_support;
#[path = "record_support/mod.rs"]
mod support;

use ringtap_samples::conformance;

#[test]
fn packets_bytes_and_stamps_are_those_of_tcpdump() {
    let paths = conformance::captures("packets_bytes_and_stamps_are_those_of_tcpdump");
    let (packets, wrapped) = peer_support::packets_bytes_and_stamps_are_those_of_tcpdump(&paths);
    assert!(packets > 3000 && wrapped < 20, "{packets} packets, {wrapped} with wrapped stamps");
}

#[test]
fn counts_are_those_of_capinfos() {
    peer_support::counts_are_those_of_capinfos(&conformance::captures("counts_are_those_of_capinfos"));
}

#[test]
fn stamps_of_every_resolution_are_those_of_tshark() {
    for name in ["ahcp.pcapng", "bgp-orf.pcapng"] {
        let folder = conformance::data("stamps_of_every_resolution_are_those_of_tshark", "decode");
        peer_support::stamps_are_those_of_tshark(&folder.join(name));
    }
}

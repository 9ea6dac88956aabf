//! Third-party capture files on our library and on the system's: read by tcpdump, and sent to clients that capture.

mod support;

use ringtap_samples::conformance;
use support::clients::{Client, Last, Library, capture_of, same_output_of};
use support::files;

#[test]
fn every_file_is_printed_as_by_the_systems_library() {
    let files = conformance::captures("every_file_is_printed_as_by_the_systems_library");
    files::every_file_is_printed_as_by_the_systems_library(&files);
}

#[test]
fn rewritten_files_are_the_same() {
    files::rewritten_files_are_the_same(conformance::captures("rewritten_files_are_the_same").iter().step_by(20));
}

/// Every second file, sent to a client on each library.
fn same_of_captured(test: &str, client: &Client<'_>, backends: &[&'static str], least_lines: usize) {
    let mut files = conformance::captures(test);
    files.retain(|path| path.extension().is_some_and(|kind| kind == "pcap"));
    let traffic: Vec<_> = files.into_iter().step_by(2).collect();
    let capture = |library: Library| capture_of(traffic.clone(), client, library, |_, _| {}, |_, _| {}).0;
    same_output_of(capture, client, backends, least_lines);
}

#[test]
fn net_tcpdump_prints_the_same() {
    let arguments = "-t -nn -e -x -l -Q in -Z root -i IF";
    let client = Client { program: "tcpdump", arguments, ready: Some("listening on"), last: Last::Segment };
    same_of_captured("net_tcpdump_prints_the_same", &client, &["packet", "xdp"], 500);
}

#[test]
fn net_tshark_prints_the_same() {
    let arguments =
        "-l -n -i IF -T fields -e frame.number -e frame.len -e frame.protocols -e eth.src -e _ws.col.Protocol";
    let client = Client { program: "tshark", arguments, ready: Some("Capture started"), last: Last::Segment };
    same_of_captured("net_tshark_prints_the_same", &client, &["packet"], 500);
}

#[test]
fn net_ngrep_prints_the_same() {
    let client = Client { program: "ngrep", arguments: "-q -l -x -d IF", ready: None, last: Last::Segment };
    same_of_captured("net_ngrep_prints_the_same", &client, &["packet", "xdp"], 100);
}

#[test]
fn net_p0f_prints_the_same() {
    let client =
        Client { program: "p0f", arguments: "-p -i IF", ready: Some("Entered main event loop"), last: Last::Segment };
    same_of_captured("net_p0f_prints_the_same", &client, &["packet", "xdp"], 20);
}

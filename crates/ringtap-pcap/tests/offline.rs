//! Files, filters and dumps go to the real libpcap: tcpdump prints the same of every file, whichever library it runs on.

mod support;

use std::process::Command;

use ringtap_samples::write_all;
use support::{files, our_folder, run};

#[test]
fn every_file_is_printed_as_by_the_systems_library() {
    let folder = tempfile::tempdir().unwrap();
    files::every_file_is_printed_as_by_the_systems_library(&write_all(folder.path()).unwrap());
}

#[test]
fn rewritten_files_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    files::rewritten_files_are_the_same(write_all(folder.path()).unwrap().iter().step_by(3));
}

#[test]
fn filters_are_the_same() {
    let folder = our_folder();
    for words in
        ["tcp port 80 and host 192.0.2.1", "vlan 5 and ip6", "ether proto 0x88cc", "icmp[0] = 8", "net nonsense"]
    {
        let mut tcpdump = Command::new("tcpdump");
        tcpdump.args(["-y", "EN10MB", "-d", words]);
        let system = run(&mut tcpdump);
        let ours = run(tcpdump.env("LD_LIBRARY_PATH", folder.path()));
        assert_eq!(system, ours, "{words}");
    }
}

//! The exported names are those of the system's libpcap, no more and no fewer, of the same kinds.

mod support;

use std::path::Path;
use std::process::Command;

use support::{our_library, output, run, system_library};

/// Name and kind (T: function, D: data) of each exported symbol.
fn exported(library: &Path) -> Vec<(String, String)> {
    let listed = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let mut names: Vec<_> = listed
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (kind, name) = (words.next()?, words.next()?);
            // Read-only data, written data and data the loader writes once are one to a client.
            let kind = if matches!(kind, "R" | "B" | "V") { "D" } else { kind };
            Some((name.to_owned(), kind.to_owned()))
        })
        .collect();
    names.sort();
    names
}

#[test]
fn exported_names_are_libpcaps() {
    let (ours, theirs) = (exported(&our_library()), exported(&system_library()));
    assert!(theirs.len() > 90, "{theirs:?}");
    assert_eq!(ours, theirs);
}

#[test]
fn nothing_is_called_back_through_exported_names() {
    // A call of libpcap's own that went through the dynamic table would be a relocation against its name.
    let relocations = output(Command::new("readelf").args(["-rW"]).arg(our_library()));
    let recursive: Vec<&str> =
        relocations.lines().filter(|line| line.contains("JUMP_SLO") && line.contains(" pcap_")).collect();
    assert_eq!(recursive, [""; 0]);
    let dynamic = output(Command::new("readelf").args(["-dW"]).arg(our_library()));
    assert!(!dynamic.lines().any(|line| line.contains("NEEDED") && line.contains("libpcap")), "{dynamic}");
    assert!(dynamic.lines().any(|line| line.contains("SONAME") && line.contains("libpcap.so.")), "{dynamic}");
}

#[test]
fn programs_find_ours_and_it_says_so() {
    let folder = support::our_folder();
    let said = run(Command::new("tcpdump").arg("--version").env("LD_LIBRARY_PATH", folder.path()));
    let said = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("libpcap version 1.") && said.contains("live capture by Ringtap"), "{said}");
}

//! Capture files in every format, byte order and resolution, read by `FileSource` and by Debian's readers.

mod peer_support;
#[path = "record_support/mod.rs"]
mod support;

use std::path::PathBuf;

use ringtap_samples::write_all;

fn captures() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = write_all(folder.path()).unwrap();
    assert!(paths.len() > 60, "only {} captures", paths.len());
    (folder, paths)
}

#[test]
fn packets_bytes_and_stamps_are_those_of_tcpdump() {
    let (_folder, paths) = captures();
    let (packets, wrapped) = peer_support::packets_bytes_and_stamps_are_those_of_tcpdump(&paths);
    assert!(packets > 5000 && wrapped == 0, "{packets} packets, {wrapped} with wrapped stamps");
}

#[test]
fn counts_are_those_of_capinfos() {
    let (_folder, paths) = captures();
    peer_support::counts_are_those_of_capinfos(&paths);
}

#[test]
fn stamps_of_every_resolution_are_those_of_tshark() {
    let (_folder, paths) = captures();
    for path in paths.iter().filter(|path| !path.display().to_string().contains("damaged")) {
        peer_support::stamps_are_those_of_tshark(path);
    }
}

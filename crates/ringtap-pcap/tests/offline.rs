//! Files, filters and dumps go to the real libpcap: tcpdump prints the same of every file, whichever library it runs on.

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{our_folder, run, shared};

fn captures() -> Vec<PathBuf> {
    let listed = std::fs::read_dir(shared("decode")).unwrap();
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "pcap" || kind == "pcapng"));
    files.sort();
    files
}

#[test]
fn every_file_is_printed_as_by_the_systems_library() {
    let (folder, files, next) = (our_folder(), captures(), AtomicUsize::new(0));
    assert!(files.len() > 300, "{} files", files.len());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut tcpdump = Command::new("tcpdump");
                    tcpdump.args(["-nn", "-vvv", "-e", "-r"]).arg(file);
                    let system = run(&mut tcpdump);
                    let ours = run(tcpdump.env("LD_LIBRARY_PATH", folder.path()));
                    assert!(system == ours, "{}", file.display());
                }
            });
        }
    });
}

#[test]
fn filters_and_rewritten_files_are_the_same() {
    let (folder, out) = (our_folder(), tempfile::tempdir().unwrap());
    for (index, file) in captures().iter().step_by(20).enumerate() {
        let mut written = Vec::new();
        for library in [None, Some(folder.path())] {
            let path = out.path().join(format!("{index}-{}", library.is_some()));
            let mut tcpdump = Command::new("tcpdump");
            tcpdump.arg("-r").arg(file).arg("-w").arg(&path).arg("ip or ip6 or vlan");
            if let Some(library) = library {
                tcpdump.env("LD_LIBRARY_PATH", library);
            }
            let said = run(&mut tcpdump);
            written.push((said.status, std::fs::read(&path).unwrap_or_default()));
        }
        assert!(written[0] == written[1], "{}", file.display());
    }
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

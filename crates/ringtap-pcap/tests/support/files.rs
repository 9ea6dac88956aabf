//! Files on our library and on the system's: tcpdump prints and writes the same. Shared by the tests over our own files and by the
//! conformance suite.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{our_folder, run};

pub fn every_file_is_printed_as_by_the_systems_library(files: &[PathBuf]) {
    let (folder, next) = (our_folder(), AtomicUsize::new(0));
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

/// Filtered and written anew by tcpdump.
pub fn rewritten_files_are_the_same<'f>(files: impl Iterator<Item = &'f PathBuf>) {
    let (folder, out) = (our_folder(), tempfile::tempdir().unwrap());
    for (index, file) in files.enumerate() {
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
}

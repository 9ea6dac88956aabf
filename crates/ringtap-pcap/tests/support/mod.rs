//! What the tests of the shared library share: where it is, C programs, and a place to capture.
#![allow(dead_code, unreachable_pub)] // Each test program uses a part.

pub mod clients;
pub mod files;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The system's own libpcap.
pub fn system_library() -> PathBuf {
    let found = output(Command::new("cc").arg("-print-file-name=libpcap.so"));
    std::fs::canonicalize(found.trim()).unwrap_or_else(|error| panic!("did not run: libpcap.so is not there: {error}"))
}

/// Ours, as cargo has built it for this test: beside the test program. What lies a folder above is of the last `cargo build`.
pub fn our_library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let mut found = program.ancestors().skip(1).take(2).map(|folder| folder.join("libringtap_pcap.so"));
    found.find(|path| path.exists()).expect("cargo builds the library before its tests")
}

/// A folder with both of the names under which programs look for libpcap.
pub fn our_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Programs of other users look in here too.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for name in ["libpcap.so.0.8", "libpcap.so.1"] {
        std::os::unix::fs::symlink(our_library(), folder.path().join(name)).unwrap();
    }
    folder
}

pub fn output(command: &mut Command) -> String {
    let done = run(command);
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Runs a program that must be there.
pub fn run(command: &mut Command) -> Output {
    let name = command.get_program().to_owned();
    command.output().unwrap_or_else(|error| panic!("did not run: {}: {error}", name.display()))
}

/// Compiles a C program of tests/c (a file, or a folder of them) against the system's libpcap, as its users are.
pub fn compile(name: &str, folder: &Path, flags: &[&str]) -> PathBuf {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let sources = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "c")).collect::<Vec<_>>()
    };
    let mut own = sources(all.join(name));
    if own.is_empty() {
        own.push(all.join(name).with_extension("c"));
    }
    let (shared, program) = (all.join("support"), folder.join(name));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-I"]).arg(&shared).args(flags).args(own);
    output(cc.args(sources(shared)).arg("-o").arg(&program).args(["-lpcap", "-lpthread"]));
    program
}

//! Any bytes as a MIB file beside a sound one: names or a warning, and never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringtap_station::mibs;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("FUZZ-MIB.txt"), bytes).expect("a file");
    if let Ok(names) = mibs::load(&[folder.path().to_owned()], None) {
        let _ = names.resolve("linkDown");
    }
});

//! Owns: any bytes as a capture file, pcap, pcapng or compressed: packets within the file's length, at most one fault, an end.
#![no_main]

use std::cell::RefCell;
use std::io::{Seek, SeekFrom, Write};

use libfuzzer_sys::fuzz_target;
use ringtap::Source;
use ringtap::source::file::{FileSource, Pace};
use tempfile::NamedTempFile;

thread_local!(static FILE: RefCell<NamedTempFile> = RefCell::new(NamedTempFile::new().expect("a file")));

fuzz_target!(|bytes: &[u8]| {
    FILE.with_borrow_mut(|file| {
        let mut rewrite = || {
            file.as_file_mut().set_len(0)?;
            file.as_file_mut().seek(SeekFrom::Start(0))?;
            file.as_file_mut().write_all(bytes)
        };
        rewrite().expect("room for a file");
        let Ok(mut source) = FileSource::open(&[file.path()], Pace::AsFast) else { return };
        let (mut packets, mut captured) = (0, 0);
        loop {
            let burst = source.receive();
            if burst.is_empty() {
                break;
            }
            for packet in burst.iter() {
                assert!(packet.wire_len as usize >= packet.data.len());
                (packets, captured) = (packets + 1, captured + packet.data.len());
            }
        }
        assert!(source.faults().len() <= 1 && source.packets() == packets);
        // A compressed file may hold more than its length.
        assert!(bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || captured <= bytes.len());
    });
});

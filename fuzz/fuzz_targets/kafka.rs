//! Owns: any bytes as an answer of a Kafka broker, and as batches of records, with checksums that are right where the input says so.
//! The input's first byte says which.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringtap_kafka::{messages, records};

/// Before what a batch's checksum is of, and where the checksum stands.
const UNSUMMED: usize = 21;

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else { return };
    match mode % 9 {
        0 => drop(messages::api_versions(bytes)),
        1 => drop(messages::sasl_mechanisms(bytes)),
        2 => drop(messages::sasl_answer(bytes)),
        3 => drop(messages::read_metadata(bytes)),
        4 => drop(messages::produced(bytes)),
        5 => drop(messages::offsets(bytes)),
        6 => {
            if let Ok((_, partitions)) = messages::fetched(bytes) {
                partitions.iter().for_each(|it| read(it.records, &it.aborted));
            }
        }
        7 => read(bytes, &[]),
        _ => {
            let mut bytes = bytes.to_vec();
            if bytes.len() > UNSUMMED {
                let len = (bytes.len() - 12) as i32;
                bytes[8..12].copy_from_slice(&len.to_be_bytes());
                bytes[16] = 2;
                let sum = records::checksum(&bytes[UNSUMMED..]);
                bytes[17..UNSUMMED].copy_from_slice(&sum.to_be_bytes());
            }
            read(&bytes, &[(1, 0)]);
        }
    }
});

/// An offset that was asked for is never gone behind.
fn read(bytes: &[u8], aborted: &[(i64, i64)]) {
    let done = records::decode(bytes, aborted, 5, |record| {
        assert!(record.offset >= 5 && record.offset < i64::MAX);
        record.offset % 7 != 6
    });
    let (Ok(records::Done { next, .. }) | Err((next, _))) = done;
    assert!(next >= 5);
}

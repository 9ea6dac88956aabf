//! Owns: batches of records in Kafka's format 2 (<https://kafka.apache.org/documentation/#recordbatch>), written and read.
//! Does not: compress what it writes; number batches.

use std::collections::HashSet;

use crate::compression::{self, decompress};
use crate::failure::Malformed;
use crate::wire::{Reader, Writer};

/// Before the length that a batch states: base offset and length.
const PREFIX: usize = 12;
/// From there to its checksum's end: epoch of the leader, format, checksum.
const UNSUMMED: usize = 9;
/// The rest of its head.
const SUMMED: usize = 40;
const FORMAT: i8 = 2;

/// A record that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// Which partition it belongs to depends on this.
    pub key: &'a [u8],
    /// What it says.
    pub value: &'a [u8],
}

/// Of what is behind it in a batch.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Who wrote a batch, and its place among all that were written to the partition.
#[derive(Clone, Copy, Debug)]
pub struct Numbering {
    /// Identity that the cluster gave.
    pub producer: i64,
    /// Of it.
    pub epoch: i16,
    /// Number of the batch's first record.
    pub first: i32,
}

/// A batch of entries, of which there is one at least.
#[must_use]
pub fn encode(entries: &[Entry<'_>], numbering: Numbering) -> Vec<u8> {
    let base = entries.iter().map(|entry| entry.time_ms).min().unwrap_or(0);
    let latest = entries.iter().map(|entry| entry.time_ms).max().unwrap_or(0);
    let mut summed = Writer::default();
    summed.i16(0);
    summed.i32(entries.len() as i32 - 1);
    summed.i64(base);
    summed.i64(latest);
    summed.i64(numbering.producer);
    summed.i16(numbering.epoch);
    summed.i32(numbering.first);
    summed.i32(entries.len() as i32);
    let mut record = Writer::default();
    for (number, entry) in entries.iter().enumerate() {
        record.0.clear();
        record.i8(0);
        record.varint(entry.time_ms.saturating_sub(base));
        record.varint(number as i64);
        for bytes in [entry.key, entry.value] {
            record.varint(bytes.len() as i64);
            record.0.extend_from_slice(bytes);
        }
        record.varint(0);
        summed.varint(record.0.len() as i64);
        summed.0.extend_from_slice(&record.0);
    }
    let mut batch = Writer::default();
    batch.i64(0);
    batch.i32((UNSUMMED + summed.0.len()) as i32);
    batch.i32(-1);
    batch.i8(FORMAT);
    batch.i32(crc32c::crc32c(&summed.0).cast_signed());
    batch.0.extend_from_slice(&summed.0);
    batch.0
}

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Its place in the partition.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// What it says.
    pub value: Option<&'a [u8]>,
}

/// How far batches were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The offset to go on from.
    pub next: i64,
    /// Batches that whoever wrote them has made wrong, or larger than 16 MiB, so that none or not all of their records were handed out.
    pub skipped: u64,
}

/// Hands out the records from `from` on of all whole batches, but those of transactions that were given up, until `take` wants no
/// more (false).
///
/// # Errors
/// A batch was damaged on its way, or is of a format before 2; its offset or that of the one before. Those before it were handed out.
pub fn decode(
    bytes: &[u8],
    aborted: &[(i64, i64)],
    from: i64,
    mut take: impl FnMut(Decoded<'_>) -> bool,
) -> Result<Done, (i64, Malformed)> {
    let mut aborted: Vec<(i64, i64)> = aborted.to_vec();
    aborted.sort_unstable_by_key(|(_, first)| std::cmp::Reverse(*first));
    let mut given_up = HashSet::new();
    let (mut rest, mut next, mut skipped) = (Reader(bytes), from, 0);
    while rest.0.len() >= PREFIX {
        let mut head = rest;
        let (Ok(base), Ok(len)) = (head.i64(), head.i32()) else { break };
        let len = usize::try_from(len).ok().filter(|len| *len >= UNSUMMED + SUMMED);
        let len = len.ok_or((next, Malformed("a batch has no length")))?;
        // Cut off: the next answer has it whole.
        let Ok(content) = head.take(len) else { break };
        rest = head;
        while let Some((producer, _)) = aborted.pop_if(|(_, first)| *first <= base) {
            given_up.insert(producer);
        }
        let head = Head::read(content, base).map_err(|malformed| (next, malformed))?;
        match head.batch(next, &mut given_up, &mut take) {
            Ok(None) => {}
            Ok(Some(last)) => return Ok(Done { next: next.max(last + 1), skipped }),
            Err(_) => skipped += 1,
        }
        next = next.max(head.next);
    }
    Ok(Done { next, skipped })
}

/// A batch whose checksum is right.
struct Head<'a> {
    base: i64,
    /// Behind its last record.
    next: i64,
    attributes: i16,
    base_ms: i64,
    latest_ms: i64,
    producer: i64,
    count: i32,
    records: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(content: &'a [u8], base: i64) -> Result<Self, Malformed> {
        let mut reader = Reader(content);
        reader.i32()?;
        if reader.i8()? != FORMAT {
            return Err(Malformed("its records are of a format before Kafka 0.11"));
        }
        let sum = reader.i32()?.cast_unsigned();
        if crc32c::crc32c(reader.0) != sum {
            return Err(Malformed("a batch's checksum is wrong"));
        }
        let attributes = reader.i16()?;
        let next = base.checked_add(reader.i32()?.into()).and_then(|last| last.checked_add(1));
        let next = next.filter(|next| (0..*next).contains(&base)).ok_or(Malformed("a batch's offsets are none"))?;
        let (base_ms, latest_ms) = (reader.i64()?, reader.i64()?);
        let producer = reader.i64()?;
        reader.take(6)?;
        let count = reader.i32()?;
        Ok(Self { base, next, attributes, base_ms, latest_ms, producer, count, records: reader.0 })
    }

    /// The offset of the record after which no more were wanted, if it is not the last one.
    fn batch(
        &self,
        from: i64,
        given_up: &mut HashSet<i64>,
        take: &mut impl FnMut(Decoded<'_>) -> bool,
    ) -> Result<Option<i64>, Malformed> {
        let Self { base, attributes, base_ms, latest_ms, producer, count, .. } = *self;
        let mut reader = Reader(self.records);
        let has_broker_s_time = attributes & 8 != 0;
        let (is_transactional, is_control) = (attributes & 16 != 0, attributes & 32 != 0);
        let unpacked;
        if attributes & 7 != 0 {
            unpacked = decompress(attributes & 7, reader.0)?;
            reader = Reader(&unpacked);
        } else if reader.0.len() > compression::MOST {
            return Err(Malformed("a batch is too large"));
        }
        if is_control {
            given_up.remove(&producer);
            return Ok(None);
        }
        let is_given_up = is_transactional && given_up.contains(&producer);
        for _ in 0..count {
            let mut record = Reader(reader.varint_bytes()?.ok_or(Malformed("a record is missing"))?);
            record.i8()?;
            let time_ms = base_ms.saturating_add(record.varint()?);
            let offset = base.checked_add(record.varint()?).filter(|offset| (base..self.next).contains(offset));
            let offset = offset.ok_or(Malformed("a record's offset is outside its batch"))?;
            let (key, value) = (record.varint_bytes()?, record.varint_bytes()?);
            if offset >= from && !is_given_up {
                let time_ms = if has_broker_s_time { latest_ms } else { time_ms };
                if !take(Decoded { offset, time_ms, key, value }) {
                    return Ok(Some(offset));
                }
            }
        }
        Ok(None)
    }
}

/// The partition of a key among `count`, as Kafka's own clients choose it.
#[must_use]
pub fn partition_of(key: &[u8], count: i32) -> i32 {
    (murmur2(key) & 0x7fff_ffff).cast_signed() % count.max(1)
}

/// MurmurHash 2 with Kafka's seed (org.apache.kafka.common.utils.Utils).
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word = (word ^ (word >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    for (at, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NUMBERING: Numbering = Numbering { producer: 7, epoch: 0, first: 0 };

    /// With their offsets in place, and other attributes.
    fn at(base: i64, attributes: i16, entries: &[(&str, &str)]) -> Vec<u8> {
        let entries: Vec<_> = entries
            .iter()
            .enumerate()
            .map(|(number, (key, value))| Entry {
                time_ms: 1000 - number as i64,
                key: key.as_bytes(),
                value: value.as_bytes(),
            })
            .collect();
        let mut batch = encode(&entries, NUMBERING);
        batch[..8].copy_from_slice(&base.to_be_bytes());
        batch[21..23].copy_from_slice(&attributes.to_be_bytes());
        let sum = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&sum.to_be_bytes());
        batch
    }

    fn values(bytes: &[u8], aborted: &[(i64, i64)], from: i64) -> (Vec<String>, Result<Done, (i64, Malformed)>) {
        let mut values = Vec::new();
        let next = decode(bytes, aborted, from, |it| {
            values.push(format!("{}:{}", it.offset, String::from_utf8_lossy(it.value.unwrap())));
            true
        });
        (values, next)
    }

    fn done(next: i64) -> Result<Done, (i64, Malformed)> {
        Ok(Done { next, skipped: 0 })
    }

    #[test]
    fn a_batch_that_its_writer_made_wrong_is_passed_over() {
        // Said to be compressed, and is not.
        let mut bytes = at(0, 4, &[("a", "one"), ("b", "two")]);
        bytes.extend(at(2, 0, &[("a", "three")]));
        assert_eq!(values(&bytes, &[], 0), (vec!["2:three".into()], Ok(Done { next: 3, skipped: 1 })));
    }

    #[test]
    fn whole_batches_from_an_offset_on() {
        let mut bytes = at(10, 0, &[("a", "one"), ("b", "two")]);
        bytes.extend(at(12, 0, &[("a", "three")]));
        let whole = bytes.len();
        bytes.extend(&at(13, 0, &[("a", "cut off")])[..40]);
        assert_eq!(values(&bytes, &[], 11), (vec!["11:two".into(), "12:three".into()], done(13)));
        assert_eq!(values(&bytes[..whole - 1], &[], 0), (vec!["10:one".into(), "11:two".into()], done(12)));
        for at in [16, 20, 30, whole - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(values(&damaged, &[], 0).1.is_err(), "{at}");
        }
    }

    #[test]
    fn who_wants_no_more_goes_on_from_there() {
        let mut bytes = at(0, 0, &[("a", "one"), ("b", "two"), ("b", "three")]);
        bytes.extend(at(3, 0, &[("a", "four")]));
        let read = |from: i64, count: usize| {
            let mut values = Vec::new();
            let done = decode(&bytes, &[], from, |it| {
                values.push(it.offset);
                values.len() < count
            });
            (values, done.unwrap().next)
        };
        assert_eq!(read(0, 2), (vec![0, 1], 2));
        assert_eq!(read(2, 1), (vec![2], 3), "the last one of its batch");
        assert_eq!(read(3, 9), (vec![3], 4));
    }

    #[test]
    fn offsets_outside_their_batch_are_not_believed() {
        // The second record's distance from the first stands behind length, attributes and time.
        let mut bytes = at(5, 0, &[("a", "one"), ("b", "two")]);
        let record = 61;
        let second = record + 1 + usize::from(bytes[record] / 2);
        assert_eq!(bytes[second + 3], 2, "1 as it is written");
        for far in [4, 0x7e, 1] {
            bytes[second + 3] = far;
            let sum = crc32c::crc32c(&bytes[21..]);
            bytes[17..21].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(values(&bytes, &[], 0), (vec!["5:one".into()], Ok(Done { next: 7, skipped: 1 })), "{far}");
        }
        // A batch at the end of all numbers, and one before them.
        for base in [i64::MAX, i64::MAX - 1, -1, i64::MIN] {
            assert!(values(&at(base, 0, &[("a", "one"), ("b", "two")]), &[], 0).1.is_err(), "{base}");
        }
    }

    #[test]
    fn what_was_given_up_is_not_read() {
        const TRANSACTION: i16 = 16;
        const END: i16 = 16 | 32;
        let mut bytes = at(0, TRANSACTION, &[("a", "given up")]);
        bytes.extend(at(1, END, &[("", "abort")]));
        bytes.extend(at(2, TRANSACTION, &[("a", "done")]));
        bytes.extend(at(3, END, &[("", "commit")]));
        bytes.extend(at(4, 0, &[("a", "alone")]));
        assert_eq!(values(&bytes, &[(7, 0)], 0), (vec!["2:done".into(), "4:alone".into()], done(5)));
        assert_eq!(values(&bytes, &[(8, 0)], 0).0.len(), 3);
    }

    proptest! {
        #[test]
        fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 61..400), sums: bool) {
            if sums {
                // As far as it can be: the length and the checksum are right.
                let len = bytes.len();
                bytes[8..12].copy_from_slice(&((len - 12) as i32).to_be_bytes());
                bytes[16] = 2;
                let sum = crc32c::crc32c(&bytes[21..]);
                bytes[17..21].copy_from_slice(&sum.to_be_bytes());
            }
            let _ = values_of_any(&bytes);
        }
    }

    fn values_of_any(bytes: &[u8]) -> usize {
        let mut count = 0;
        let _ = decode(bytes, &[], 0, |it| {
            assert!(it.offset >= 0 && it.offset < i64::MAX);
            count += 1;
            true
        });
        count
    }

    /// The vectors of Kafka's own test (UtilsTest.testMurmur2).
    #[test]
    fn partitions_as_kafka_s_clients_choose_them() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
        assert_eq!((partition_of(b"abc", 4), partition_of(b"abc", 0)), (479_470_107 % 4, 0));
    }
}

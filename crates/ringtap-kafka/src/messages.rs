//! Owns: the requests that are made and their answers, each of one version that brokers from 2.1 to today have
//! (<https://kafka.apache.org/protocol>; none of the "flexible" ones).
//! Does not: send them, or look into records.

use crate::failure::Malformed;
use crate::wire::{Reader, Writer};

/// A kind of request, in the version that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    /// Kafka's number of it.
    pub key: i16,
    /// Version.
    pub version: i16,
}

impl Api {
    /// Records are written.
    pub const PRODUCE: Self = Self { key: 0, version: 7 };
    /// Records are read; version 10 is the first that is given zstd.
    pub const FETCH: Self = Self { key: 1, version: 10 };
    /// Where partitions begin and end.
    pub const LIST_OFFSETS: Self = Self { key: 2, version: 2 };
    /// Topics, partitions, their leaders.
    pub const METADATA: Self = Self { key: 3, version: 5 };
    /// Which mechanism SASL has.
    pub const SASL_HANDSHAKE: Self = Self { key: 17, version: 1 };
    /// Which versions a broker speaks.
    pub const API_VERSIONS: Self = Self { key: 18, version: 0 };
    /// An identity for a producer.
    pub const INIT_PRODUCER_ID: Self = Self { key: 22, version: 1 };
    /// A message of SASL.
    pub const SASL_AUTHENTICATE: Self = Self { key: 36, version: 1 };
}

/// Reads an answer, whatever a broker sends.
type Parsed<T> = Result<T, Malformed>;

/// An API's key, and the versions of it that a broker speaks: from, to, both within.
pub type Spoken = (i16, i16, i16);

/// A broker's error code, and what it speaks.
pub fn api_versions(body: &[u8]) -> Parsed<(i16, Vec<Spoken>)> {
    let mut reader = Reader(body);
    let code = reader.i16()?;
    Ok((code, reader.array(|it| Ok((it.i16()?, it.i16()?, it.i16()?)))?))
}

/// Asks for a mechanism.
#[must_use]
pub fn sasl_handshake(mechanism: &str) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.string(mechanism);
    writer.0
}

/// The broker's error code, and the mechanisms that it has.
pub fn sasl_mechanisms(body: &[u8]) -> Parsed<(i16, Vec<String>)> {
    let mut reader = Reader(body);
    let code = reader.i16()?;
    Ok((code, reader.array(|it| it.string().map(str::to_owned))?))
}

/// A message of the mechanism.
#[must_use]
pub fn sasl_authenticate(message: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(message);
    writer.0
}

/// Error code, the broker's message of the mechanism.
pub fn sasl_answer(body: &[u8]) -> Parsed<(i16, &[u8])> {
    let mut reader = Reader(body);
    let code = reader.i16()?;
    reader.nullable_string()?;
    Ok((code, reader.bytes()?))
}

/// Asks who leads the partitions of these topics; none is made by asking.
#[must_use]
pub fn metadata(topics: &[String]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.array(topics, |it, topic| it.string(topic));
    writer.i8(0);
    writer.0
}

/// A topic: error code, name, and of each partition its number and who leads it (−1: nobody).
pub type Topic = (i16, String, Vec<(i32, i32)>);

/// Brokers and topics of a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Number, host and port.
    pub brokers: Vec<(i32, String, u16)>,
    /// All that were asked for.
    pub topics: Vec<Topic>,
}

/// Reads them.
pub fn read_metadata(body: &[u8]) -> Parsed<Metadata> {
    let mut reader = Reader(body);
    reader.i32()?;
    let brokers = reader.array(|it| {
        let (node, host, port) = (it.i32()?, it.string()?.to_owned(), it.i32()?);
        it.nullable_string()?;
        Ok((node, host, u16::try_from(port).map_err(|_| Malformed("a port is none"))?))
    })?;
    reader.nullable_string()?;
    reader.i32()?;
    let topics = reader.array(|it| {
        let (code, name) = (it.i16()?, it.string()?.to_owned());
        it.i8()?;
        let partitions = it.array(|it| {
            it.i16()?;
            let (partition, leader) = (it.i32()?, it.i32()?);
            for _ in 0..3 {
                it.array(Reader::i32)?;
            }
            Ok((partition, leader))
        })?;
        Ok((code, name, partitions))
    })?;
    Ok(Metadata { brokers, topics })
}

/// Asks for an identity, without transactions.
#[must_use]
pub fn init_producer_id() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.null_string();
    writer.i32(i32::MAX);
    writer.0
}

/// Error code, producer id and epoch.
pub fn producer_id(body: &[u8]) -> Parsed<(i16, i64, i16)> {
    let mut reader = Reader(body);
    reader.i32()?;
    Ok((reader.i16()?, reader.i64()?, reader.i16()?))
}

/// Writes a batch to each of these partitions, once all replicas in sync have it.
#[must_use]
pub fn produce(topic: &str, batches: &[(i32, &[u8])], timeout_ms: i32) -> Vec<u8> {
    const ALL_REPLICAS: i16 = -1;
    let mut writer = Writer::default();
    writer.null_string();
    writer.i16(ALL_REPLICAS);
    writer.i32(timeout_ms);
    writer.i32(1);
    writer.string(topic);
    writer.array(batches, |it, (partition, batch)| {
        it.i32(*partition);
        it.bytes(batch);
    });
    writer.0
}

/// Partition and error code of each batch.
pub fn produced(body: &[u8]) -> Parsed<Vec<(i32, i16)>> {
    let mut reader = Reader(body);
    let topics = reader.array(|it| {
        it.string()?;
        it.array(|it| {
            let answer = (it.i32()?, it.i16()?);
            it.take(24)?;
            Ok(answer)
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// Where a partition begins.
pub const EARLIEST: i64 = -2;

/// Asks for the offset of a time in each of these partitions, [`EARLIEST`] for the first.
#[must_use]
pub fn list_offsets(topic: &str, partitions: &[i32], time: i64) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.i32(-1);
    writer.i8(READ_COMMITTED);
    writer.i32(1);
    writer.string(topic);
    writer.array(partitions, |it, partition| {
        it.i32(*partition);
        it.i64(time);
    });
    writer.0
}

/// Partition, error code and offset.
pub fn offsets(body: &[u8]) -> Parsed<Vec<(i32, i16, i64)>> {
    let mut reader = Reader(body);
    reader.i32()?;
    let topics = reader.array(|it| {
        it.string()?;
        it.array(|it| {
            let (partition, code) = (it.i32()?, it.i16()?);
            it.i64()?;
            Ok((partition, code, it.i64()?))
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// Of what is in a transaction nothing is read before its end.
const READ_COMMITTED: i8 = 1;

/// Reads partitions of topics from these offsets on, waiting for at most `wait_ms` when nothing is there.
#[must_use]
pub fn fetch(topics: &[(&str, Vec<(i32, i64)>)], wait_ms: i32, partition_bytes: i32, bytes: i32) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.i32(-1);
    writer.i32(wait_ms);
    writer.i32(1);
    writer.i32(bytes);
    writer.i8(READ_COMMITTED);
    // No session: each request says all.
    writer.i32(0);
    writer.i32(-1);
    writer.array(topics, |it, (topic, partitions)| {
        it.string(topic);
        it.array(partitions, |it, (partition, offset)| {
            it.i32(*partition);
            it.i32(-1);
            it.i64(*offset);
            it.i64(-1);
            it.i32(partition_bytes);
        });
    });
    writer.i32(0);
    writer.0
}

/// What came of one partition.
#[derive(Debug, PartialEq, Eq)]
pub struct Partition<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its number.
    pub number: i32,
    /// Error code.
    pub code: i16,
    /// What may be read ends before this offset.
    pub last_stable: i64,
    /// Transactions that were given up: producer, and the first offset of what it wrote.
    pub aborted: Vec<(i64, i64)>,
    /// Batches, the last one perhaps cut off.
    pub records: &'a [u8],
}

/// Error code of all, and each partition.
pub fn fetched(body: &[u8]) -> Parsed<(i16, Vec<Partition<'_>>)> {
    let mut reader = Reader(body);
    reader.i32()?;
    let code = reader.i16()?;
    reader.i32()?;
    let topics = reader.array(|it| {
        let topic = it.string()?;
        it.array(|it| {
            let (number, code) = (it.i32()?, it.i16()?);
            it.i64()?;
            let last_stable = it.i64()?;
            it.i64()?;
            let aborted = it.array(|it| Ok((it.i64()?, it.i64()?)))?;
            Ok(Partition { topic, number, code, last_stable, aborted, records: it.bytes()? })
        })
    })?;
    Ok((code, topics.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a broker answers: an answer or an error, and no panic.
        #[test]
        fn any_bytes(body in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = (api_versions(&body), sasl_mechanisms(&body), sasl_answer(&body), read_metadata(&body));
            let _ = (producer_id(&body), produced(&body), offsets(&body), fetched(&body));
        }
    }
}

//! What is announced, written to Kafka: through a broker that is killed, and an end while nobody is there.

use std::time::{Duration, Instant};

use ringtap_snmp::encode::{Item, Trap};
use serde_json::Value;

use crate::broker::{Broker, records};
use crate::support::{IF_INDEX, Station, port, send};

const TOPIC: &str = "station-alarms";
const PATIENCE: Duration = Duration::from_secs(90);

/// linkDown of these interfaces.
fn links(indices: std::ops::RangeInclusive<u32>, to: &str) {
    for index in indices {
        let mut name = IF_INDEX;
        name[10] = index;
        send(&Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&name, Item::Integer(index.into())), to);
        // One after another, so that the order is the senders'.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn net_trap_writes_alarms_to_kafka_once_and_in_order() {
    let mut broker = Broker::start(&[]);
    broker.topic(TOPIC, 2);
    let (folder, at) = (tempfile::tempdir().unwrap(), broker.address());
    let spool = folder.path().join("spool").to_str().unwrap().to_owned();
    let address = format!("127.0.0.1:{}", port());
    let outputs = ["--output-kafka", &at, "--output-kafka-topic", TOPIC, "--output-kafka-spool", &spool];
    let start = || Station::start(&folder.path().join("store"), &[&["--listen", &address][..], &outputs].concat());
    let station = start();
    links(1..=30, &address);
    station.wait_for(30);
    broker.kill();
    links(31..=60, &address);
    station.wait_for(60);
    // What waits is the next one's.
    let ended = station.end_anyhow();
    assert!(ended.succeeded && ended.errors.contains("wait in the spool"), "{}", ended.errors);
    assert_eq!(ended.said.last().unwrap()["not_told"], 0, "{}", ended.errors);
    let station = start();
    links(61..=90, &address);
    station.wait_for(90);
    broker.start_again();
    let until = Instant::now() + PATIENCE;
    let mut got = records(&at, TOPIC);
    while got.len() < 90 {
        assert!(Instant::now() < until, "{} of 90 are there", got.len());
        got = records(&at, TOPIC);
    }
    let summary = station.end();
    assert_eq!(summary["not_told"], 0, "{summary}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let objects = got.iter().map(|(key, line)| {
        assert_eq!(key, host.trim());
        let alarm: Value = serde_json::from_str(line).unwrap();
        assert_eq!(alarm["condition"], "linkDown", "{alarm}");
        alarm["object"].as_str().unwrap().parse::<u32>().unwrap()
    });
    assert!(objects.eq(1..=90), "{got:?}");
}

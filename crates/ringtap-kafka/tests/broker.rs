//! Against a real broker: Apache Kafka, started on loopback by scripts/kafka. Brokers that are killed, spools that outlive their
//! process, transactions of others, passwords.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use ringtap_kafka::{Brokers, Consumer, Fetched, Mechanism, Output, Sasl, Security, Source, Target};
use support::{Broker, records, script};

const WAIT: Duration = Duration::from_millis(100);
/// Lines of a flush of the process that is killed.
const FLUSH: u32 = 50;

fn target(broker: &str, topic: &str, key: &str, folder: &std::path::Path) -> Target {
    Target {
        brokers: broker.parse().unwrap(),
        topic: topic.to_owned(),
        key: key.to_owned(),
        spool: folder.join(format!("spool-{key}")),
        spool_bytes: 64 << 20,
        security: Security::default(),
    }
}

fn open(broker: &str, topic: &str, from: &BTreeMap<i32, i64>) -> ringtap::Result<Consumer> {
    let brokers: Brokers = broker.parse().unwrap();
    Consumer::open(&brokers, Security::default(), vec![topic.to_owned()], |source: &Source| {
        from.get(&source.partition).copied()
    })
}

/// All values of a topic, by key, until so many were read or a minute is over.
fn read(broker: &str, topic: &str, count: usize) -> BTreeMap<String, Vec<String>> {
    let mut consumer = open(broker, topic, &BTreeMap::new()).unwrap();
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let until = Instant::now() + Duration::from_secs(60);
    let mut is_all = false;
    while Instant::now() < until && !(is_all && values.values().map(Vec::len).sum::<usize>() >= count) {
        if let Fetched::Records { is_all: all } = consumer.fetch(WAIT) {
            is_all = all;
        }
        while let Some(record) = consumer.next_record() {
            let key = String::from_utf8(record.key.unwrap_or_default()).unwrap();
            values.entry(key).or_default().push(String::from_utf8(record.value).unwrap());
        }
    }
    values
}

fn numbers(from: u32, to: u32) -> Vec<String> {
    (from..to).map(|number| format!("{number} {:0>200}", "")).collect()
}

fn write(output: &mut Output, from: u32, to: u32) {
    for line in numbers(from, to) {
        assert!(output.line(format!("{line}\n").as_bytes()));
        if output.is_full() {
            assert_eq!(output.flush().1, 0);
        }
    }
    assert_eq!(output.flush().1, 0);
}

#[test]
fn kafka_a_broker_that_is_killed_and_a_spool_that_outlives_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(&[]);
    broker.topic("alarms", 3);
    let at = broker.address();
    let mut north = Output::open(target(&at, "alarms", "north", folder.path())).unwrap();
    let mut south = Output::open(target(&at, "alarms", "south", folder.path())).unwrap();
    write(&mut north, 0, 5000);
    // While it goes on.
    broker.kill();
    write(&mut north, 5000, 10_000);
    write(&mut south, 0, 3000);
    // A process that ends while nobody is there: what waits is sent by the next one.
    drop(north);
    let mut north = Output::open(target(&at, "alarms", "north", folder.path())).unwrap();
    write(&mut north, 10_000, 11_000);
    broker.start_again();
    write(&mut south, 3000, 4000);
    let got = read(&at, "alarms", 15_000);
    assert_eq!(got["north"], numbers(0, 11_000));
    assert_eq!(got["south"], numbers(0, 4000));
    drop((north, south));
    // Kafka's own client reads the same, with the keys.
    let north = records(&at, "alarms").into_iter().filter(|(key, _)| key == "north");
    assert!(north.map(|(_, value)| value).eq(numbers(0, 11_000)));
}

#[test]
fn kafka_what_was_on_its_way_when_a_process_was_killed_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(&[]);
    broker.topic("alarms", 2);
    let at = broker.address();
    let (mut sent, mut begun) = (0, BTreeSet::new());
    for round in 0..6 {
        begun.insert(sent);
        // A process of its own that is killed while it sends: this test's program, with what it has to do in its environment.
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child_that_is_killed"])
            .env("RINGTAP_TEST_KAFKA", format!("{at} {} {sent}", folder.path().display()))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let file = folder.path().join("written");
        let until = Instant::now() + Duration::from_secs(60);
        let before = sent;
        while sent < before + 3000 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(7 * (round + 1)));
            sent = std::fs::read_to_string(&file).ok().and_then(|text| text.parse().ok()).unwrap_or(sent);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it wrote after it was looked at last.
        sent = std::fs::read_to_string(&file).unwrap().parse().unwrap();
    }
    // The next one sends what is left.
    let output = Output::open(target(&at, "alarms", "north", folder.path())).unwrap();
    let got = read(&at, "alarms", sent as usize);
    drop(output);
    let got: Vec<u32> = got["north"].iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    // It may have had one more flush in the spool than it could note: the next one writes that again.
    let follows = |pair: &[u32]| {
        let next = pair[0] + 1;
        pair[1] == next || (begun.contains(&pair[1]) && pair[1] < next && next <= pair[1] + FLUSH)
    };
    let twice = got.windows(2).filter(|pair| !follows(pair)).collect::<Vec<_>>();
    assert!(twice.is_empty(), "neither lost nor twice nor out of order: {twice:?}, beginning at {begun:?}");
    assert!(got.len() as u32 >= sent && got[0] == 0, "{} of {sent}", got.len());
}

/// Writes until it is killed; notes after each flush how much it wrote.
#[test]
#[ignore = "the process that another test kills"]
fn child_that_is_killed() {
    let Ok(told) = std::env::var("RINGTAP_TEST_KAFKA") else { return };
    let [at, folder, from] = told.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let folder = std::path::Path::new(folder);
    let mut output = Output::open(target(at, "alarms", "north", folder)).unwrap();
    let mut next: u32 = from.parse().unwrap();
    loop {
        // A kill before it is noted leaves lines that the next one writes again.
        write(&mut output, next, next + FLUSH);
        next += FLUSH;
        std::fs::write(folder.join("new"), next.to_string()).unwrap();
        std::fs::rename(folder.join("new"), folder.join("written")).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn kafka_the_spool_s_bound_holds_and_what_is_in_it_comes_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Broker::start(&[]);
    broker.topic("alarms", 1);
    let at = broker.address();
    broker.kill();
    let mut output =
        Output::open(Target { spool_bytes: 100_000, ..target(&at, "alarms", "north", folder.path()) }).unwrap();
    let mut taken = 0;
    for line in numbers(0, 1000) {
        taken += u32::from(output.line(line.as_bytes()));
    }
    assert_eq!(output.flush(), (taken.into(), 0));
    assert!(taken > 300 && taken < 500, "{taken}");
    broker.start_again();
    assert_eq!(read(&at, "alarms", taken as usize)["north"], numbers(0, taken));
    // There is room again once it was sent: files go when the next one has begun, so what was sent counts until then.
    drop(output);
    let output = Output::open(target(&at, "alarms", "north", folder.path()));
    assert!(output.is_ok());
}

/// While all goes well nothing else says that there is one more.
#[test]
fn kafka_a_partition_that_is_added_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(&[]);
    let at = broker.address();
    broker.topic("alarms", 1);
    let mut consumer = open(&at, "alarms", &BTreeMap::new()).unwrap();
    let alter =
        ["run", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", &at, "--alter", "--topic", "alarms"];
    assert!(script().args(alter).args(["--partitions", "8"]).status().unwrap().success());
    let mut outputs: Vec<Output> = (0..8)
        .map(|number| Output::open(target(&at, "alarms", &format!("sensor-{number}"), folder.path())).unwrap())
        .collect();
    outputs.iter_mut().for_each(|output| write(output, 0, 10));
    let (mut found, mut partitions) = (0, BTreeSet::new());
    let until = Instant::now() + Duration::from_secs(60);
    while found < 80 {
        assert!(Instant::now() < until, "{found} of 80 records, of partitions {partitions:?}");
        assert!(matches!(consumer.fetch(WAIT), Fetched::Records { .. }));
        while let Some(record) = consumer.next_record() {
            found += 1;
            partitions.insert(record.source);
        }
    }
    assert!(partitions.len() > 2, "{partitions:?}");
}

#[test]
fn kafka_what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start(&[]);
    let at = broker.address();
    let error = Output::open(target(&at, "nothing", "north", folder.path())).unwrap_err().to_string();
    assert!(error.contains("nothing") && error.contains("no such topic") && error.contains("--create"), "{error}");
    let error = open(&at, "nothing", &BTreeMap::new()).err().unwrap().to_string();
    assert!(error.contains("no such topic") && error.contains("--create"), "{error}");
    let nobody = open("127.0.0.1:1", "alarms", &BTreeMap::new()).err().unwrap().to_string();
    assert!(nobody.contains("127.0.0.1:1") && nobody.contains("does it run?"), "{nobody}");
    // Something else listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let error = open(&other, "alarms", &BTreeMap::new()).err().unwrap().to_string();
    assert!(error.contains("not Kafka's protocol"), "{error}");
    thread.join().unwrap();
}

#[test]
fn kafka_transactions_of_others_and_a_reader_that_goes_on_where_it_was() {
    let broker = Broker::start(&[]);
    broker.topic("alarms", 2);
    let at = broker.address();
    // Kafka's own producer writes compressed, and in transactions that it gives up now and then? Its tools commit: what is
    // given up is tested by the layout (`records`). Each method of compression is read here.
    for (number, method) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let lines: String = (0..200).map(|line| format!("{method}:{}\n", number * 1000 + line)).collect();
        let file = broker.folder().join(method);
        std::fs::write(&file, lines).unwrap();
        let done = script()
            .args(["run", "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", &at, "--topic", "alarms"])
            .args(["--compression-codec", method, "--reader-property", "parse.key=true"])
            .args(["--reader-property", "key.separator=:"])
            .stdin(std::fs::File::open(file).unwrap())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let got = read(&at, "alarms", 1000);
    for (number, method) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let expected: Vec<String> = (0..200).map(|line| (number * 1000 + line).to_string()).collect();
        assert_eq!(got[method], expected, "{method}");
    }
    // From the middle: each record once, wherever it was left.
    let mut positions = BTreeMap::new();
    let mut seen = 0;
    while seen < 1000 {
        let mut consumer = open(&at, "alarms", &positions).unwrap();
        let sources: Vec<i32> = consumer.sources().map(|source| source.partition).collect();
        assert!(matches!(consumer.fetch(WAIT), Fetched::Records { .. }));
        for _ in 0..170 {
            let Some(record) = consumer.next_record() else { break };
            positions.insert(sources[record.source], record.next);
            seen += 1;
        }
    }
    assert_eq!(seen, 1000);
    // Deleted behind its back: it goes on with what is there, and says how much is gone.
    let mut consumer = open(&at, "alarms", &BTreeMap::from([(0, 1 << 40)])).unwrap();
    consumer.fetch(WAIT);
    assert_eq!(consumer.take_deleted().len(), 1);
}

#[test]
fn kafka_names_and_passwords() {
    let jaas = "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let broker = Broker::start_formatted(
        "--add-scram SCRAM-SHA-512=[name=ringtap,password=pencil]",
        &[
            "listeners=PLAINTEXT://127.0.0.1:PORT2,SASL_PLAINTEXT://127.0.0.1:PORT,CONTROLLER://127.0.0.1:PORT1",
            "advertised.listeners=PLAINTEXT://127.0.0.1:PORT2,SASL_PLAINTEXT://127.0.0.1:PORT",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms=SCRAM-SHA-512",
            jaas,
        ],
    );
    broker.topic_at(2, "alarms", 1);
    let folder = tempfile::tempdir().unwrap();
    let at = broker.address();
    let with = |password: &str, mechanism| {
        let sasl = Sasl { mechanism, user: "ringtap".into(), password: password.into() };
        Security::new(None, None, Some(sasl)).unwrap()
    };
    let open = |security| Output::open(Target { security, ..target(&at, "alarms", "north", folder.path()) });
    let error = open(with("wrong", Mechanism::ScramSha512)).unwrap_err().to_string();
    assert!(error.contains("user or password is wrong") && !error.contains("wrong\""), "{error}");
    let error = open(with("pencil", Mechanism::ScramSha256)).unwrap_err().to_string();
    assert!(error.contains("no SCRAM-SHA-256, but SCRAM-SHA-512"), "{error}");
    let mut output = open(with("pencil", Mechanism::ScramSha512)).unwrap();
    write(&mut output, 0, 100);
    drop(output);
    let brokers: Brokers = at.parse().unwrap();
    let security = with("pencil", Mechanism::ScramSha512);
    let mut consumer = Consumer::open(&brokers, security, vec!["alarms".into()], |_| None).unwrap();
    assert_eq!(consumer.fetch(WAIT), Fetched::Records { is_all: true });
    assert_eq!(std::iter::from_fn(|| consumer.next_record()).count(), 100);
}

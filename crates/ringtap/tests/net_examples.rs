//! The examples do what they say, on a veth pair: what a reader copies works, and says what is wrong in one line.

mod net_support;
mod record_support;

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use net_support::{Bench, bench};

/// Datagrams that an example has to see in its time: a tenth of what is sent.
const LEAST: usize = 100;
const SECONDS: &str = "2";

/// Where cargo puts an example when it builds all of this crate's tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "did not run: {name}: cargo build -p ringtap --examples");
    path
}

/// What an example leaves that runs in the receiving host while datagrams come there.
fn while_datagrams_come(bench: &Bench, name: &str, arguments: &[&str]) -> Output {
    let (receiver, sender) = (bench.receiver(), bench.testbed.sender());
    let mut command = Command::new(example(name));
    command.arg(receiver.interface()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let from = (sender.link().ipv4, 0);
    let socket = sender.run(|| UdpSocket::bind(from).unwrap()).unwrap();
    let mut running = receiver.run(|| command.spawn().unwrap()).unwrap();
    // Until it has ended, as nobody says when it begins.
    while running.try_wait().unwrap().is_none() {
        // Nobody listens, which the host may answer.
        let _ = socket.send_to(b"counted", (receiver.link().ipv4, 7777));
        thread::sleep(Duration::from_millis(2));
    }
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

/// The numbers before these words in what was printed.
fn told(output: &Output, words: &str) -> usize {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let before = text.split(words).next().unwrap();
    before.split_whitespace().last().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn net_count_counts() {
    let bench = bench("net_count_counts");
    let output = while_datagrams_come(&bench, "count", &[SECONDS]);
    let packets = told(&output, " packets");
    assert!(packets >= LEAST && told(&output, " bytes") > packets * 40, "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("delivered {packets} ")) && text.contains("unaccounted 0"), "{text}");
}

#[test]
fn net_record_records() {
    let bench = bench("net_record_records");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.pcapng.zst");
    let output = while_datagrams_come(&bench, "record", &[file.to_str().unwrap(), SECONDS]);
    let read = record_support::read(&file);
    let datagrams = read.iter().filter(|packet| packet.data.ends_with(b"counted")).count();
    assert!(datagrams >= LEAST, "{datagrams} of {}: {output:?}", read.len());
    assert_eq!(told(&output, " packets"), read.len());
    assert!(String::from_utf8_lossy(&output.stdout).contains("unaccounted 0"), "{output:?}");
}

#[test]
fn wrong_usage_is_told_from_failure() {
    for (name, interface, wrong) in [
        ("count", &["no0"][..], &[][..]),
        ("count", &["no0", "1"], &["no0", "soon"]),
        ("record", &["no0", "f"], &["no0"]),
    ] {
        let run = |arguments: &[&str]| Command::new(example(name)).args(arguments).output().unwrap();
        let (failed, refused) = (run(interface), run(wrong));
        assert_eq!((failed.status.code(), refused.status.code()), (Some(1), Some(2)), "{name}");
        let text = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(text.contains("no0: there is no such interface") && text.lines().count() == 1, "{text}");
        assert!(String::from_utf8_lossy(&refused.stderr).starts_with(&format!("usage: {name} INTERFACE")));
    }
}

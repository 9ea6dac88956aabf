//! Storms on the testbed: every trap is in the store or in the ledger, and the alarms say what happened.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_testbed::{RunningProgram, Testbed, TestbedConfig};
use ringtap_trap::snmp::{self, Message, Value as SnmpValue};
use ringtap_trap::store::Store;
use ringtap_trap::storm::{SEQUENCE, Script, Storm, Truth};
use serde_json::Value;

use crate::support::{PATIENCE, RINGTAP};

const NODES: u32 = 5000;
const COUNT: u64 = 100_000;
const RATE: &str = "15k";

/// Runs a command on a host to its end.
fn sh(testbed: &Testbed, script: &str) {
    let mut command = testbed.receiver().command("sh");
    let status = testbed.receiver().start({
        command.args(["-ec", script]);
        command
    });
    let ended = status.unwrap().child().wait().unwrap();
    assert!(ended.success(), "{script}: {ended}");
}

fn text(stream: Option<impl Read>) -> String {
    let mut text = String::new();
    stream.unwrap().read_to_string(&mut text).unwrap();
    text
}

fn end(mut program: RunningProgram) -> Value {
    let child = program.child();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let (stdout, stderr) = (text(child.stdout.take()), text(child.stderr.take()));
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {stderr}");
    serde_json::from_str(stdout.lines().last().unwrap_or_default()).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// The numbers of the stored traps, in order of arrival.
fn sequences(store: &Store) -> Vec<u64> {
    let name = ringtap_trap::oid::encode(&SEQUENCE);
    let mut numbers = Vec::new();
    let mut from = 0;
    loop {
        let rows = store.notifications(None, from, 10_000).unwrap();
        let Some(last) = rows.last() else { return numbers };
        from = last.id + 1;
        for row in &rows {
            let Ok(Message::Community { pdu, .. }) = snmp::parse(&row.raw) else { panic!("{row:?}") };
            let number = pdu.varbinds.iter().find_map(|varbind| match varbind.value {
                SnmpValue::Counter64(number) if varbind.name.bytes() == name => Some(number),
                _ => None,
            });
            numbers.push(number.unwrap());
        }
    }
}

fn storm(test: &str, arguments: &[&str]) {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {test}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    let interface = testbed.receiver().interface().to_owned();
    // The nodes are not on the wire's subnet: without a way back the host would drop their packets as spoofed.
    sh(&testbed, &format!("ip route add 10.64.0.0/16 dev {interface}"));
    let mut command = testbed.receiver().command(RINGTAP);
    command.args(["trap", "--json", "--store", directory.to_str().unwrap(), "--listen", "0.0.0.0:162"]);
    command.args(["--buffer", "128MiB", "--spool", "64MiB"]);
    command.args(arguments.iter().map(|word| if *word == "IF" { interface.as_str() } else { word }));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = testbed.receiver().start(command).unwrap();
    let until = Instant::now() + PATIENCE;
    while !is_ready(program.child().id()) {
        assert!(Instant::now() < until, "the station does not come up");
        std::thread::sleep(Duration::from_millis(10));
    }
    testbed.enable_receiver_napi().unwrap();

    let mut command = testbed.sender().command(RINGTAP);
    command.args(["generate", "-i", testbed.sender().interface(), "--traps", "core-router-fails", "--json"]);
    command.args(["--count", &COUNT.to_string(), "--rate", RATE, "--nodes", &NODES.to_string(), "--backend", "ring"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut generator = testbed.sender().start(command).unwrap();
    let (stdout, stderr) = (text(generator.child().stdout.take()), text(generator.child().stderr.take()));
    assert!(generator.child().wait().unwrap().success(), "{stderr}");
    let sent: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(200));

    let object = end(program);
    let store = Store::open(&directory).unwrap();
    let numbers = sequences(&store);
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(distinct.len(), numbers.len(), "no trap is stored twice");
    let ledger = &object["ledger"];
    assert_eq!((&object["unaccounted"], &ledger["offered"]), (&0.into(), &COUNT.into()), "{object}; sent {sent}");
    let drops: u64 = ledger["drops"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(numbers.len() as u64 + drops, COUNT, "{object}");
    assert_eq!(object["stored"], numbers.len() as u64, "{object}");

    let script = Storm { script: Script::CoreRouterFails, nodes: NODES, count: COUNT, community: "public".to_owned() };
    let mut truth = script.truth(numbers);
    for alarm in store.alarms().unwrap() {
        let known = Truth { count: alarm.count, cleared: alarm.cleared };
        let key = (alarm.key.resource, alarm.key.condition, alarm.key.object);
        assert_eq!(truth.remove(&key), Some(known), "{key:?}");
    }
    assert!(truth.is_empty(), "{} alarms are missing", truth.len());
}

fn is_ready(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
    names.any(|name| name.trim() == "ringtap-station")
}

#[test]
fn net_trap_accounts_for_a_storm_by_sockets() {
    storm("net_trap_accounts_for_a_storm_by_sockets", &[]);
}

#[test]
fn net_trap_accounts_for_a_storm_by_xdp() {
    storm("net_trap_accounts_for_a_storm_by_xdp", &["-i", "IF", "--backend", "xdp"]);
}

#[test]
fn net_trap_accounts_for_a_storm_by_a_packet_ring() {
    storm("net_trap_accounts_for_a_storm_by_a_packet_ring", &["-i", "IF", "--backend", "packet"]);
}

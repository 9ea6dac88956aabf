//! Storms on the testbed: every trap is in the store or in the ledger, and the alarms say what happened.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use ringtap_snmp::message::{self, Message, ScopedPdu};
use ringtap_snmp::usm::{AuthProtocol, PrivProtocol, User};
use ringtap_snmp::varbind::Value as SnmpValue;
use ringtap_station::store::Store;
use ringtap_testbed::storm::form::{Engines, Form};
use ringtap_testbed::storm::{SEQUENCE, Script, Storm, Truth};
use ringtap_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

use crate::support::{RINGTAP, config, end, sh, start_on};

/// A storm and who receives it.
struct Case<'a> {
    /// Arguments of the station; IF stands for its interface.
    station: &'a [&'a str],
    listen: &'a str,
    /// Arguments of the generator.
    generator: &'a [&'a str],
    form: Form,
    ipv6: bool,
    nodes: u32,
    count: u64,
    rate: &'a str,
}

fn v2c() -> Form {
    Form::V2c { community: "public".to_owned() }
}

impl Case<'_> {
    /// 100,000 traps of v2c from 5,000 nodes.
    fn usual() -> Self {
        let (listen, form) = ("0.0.0.0:162", v2c());
        Self { station: &[], listen, generator: &[], form, ipv6: false, nodes: 5000, count: 100_000, rate: "15k" }
    }
}

fn text(stream: Option<impl Read>) -> String {
    let mut text = String::new();
    stream.unwrap().read_to_string(&mut text).unwrap();
    text
}

/// The numbers of the stored traps, in order of arrival.
fn sequences(store: &Store) -> Vec<u64> {
    let name = ringtap_snmp::oid::encode(&SEQUENCE);
    let mut numbers = Vec::new();
    let mut from = 0;
    loop {
        let rows = store.notifications(from, 10_000).unwrap();
        let Some(last) = rows.last() else { return numbers };
        from = last.id + 1;
        for row in &rows {
            let pdu = match message::parse(&row.raw).unwrap() {
                Message::Community { pdu, .. } => pdu,
                Message::V3(_) => ScopedPdu::parse(row.decrypted.as_deref().unwrap()).unwrap().pdu,
                Message::OtherVersion(_) => panic!("{row:?}"),
            };
            let number = pdu.varbinds.iter().find_map(|varbind| match varbind.value {
                SnmpValue::Counter64(number) | SnmpValue::Gauge32(number) if varbind.name.bytes() == name => {
                    Some(number)
                }
                _ => None,
            });
            numbers.push(number.unwrap());
        }
    }
}

/// Sends the storm; everything must be in the store or in the ledger, and the alarms must be true of what is stored. Gives what the station said
/// at its end.
fn storm(test: &str, case: Case<'_>) -> Value {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {test}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    let interface = testbed.receiver().interface().to_owned();
    // The nodes are not on the wire's subnet: without a way back the host would drop their packets as spoofed.
    sh(
        testbed.receiver(),
        &format!("ip route add 10.64.0.0/16 dev {interface}; ip -6 route add 2001:2:0:64::/64 dev {interface}"),
    );
    let own = case.station.iter().map(|word| if *word == "IF" { interface.as_str() } else { word });
    let arguments: Vec<&str> =
        ["--listen", case.listen, "--buffer", "128MiB", "--spool", "64MiB"].into_iter().chain(own).collect();
    let program = start_on(testbed.receiver(), &directory, &arguments);
    testbed.enable_receiver_napi().unwrap();

    let mut command = testbed.sender().command(RINGTAP);
    command.args(["generate", "-i", testbed.sender().interface(), "--traps", "core-router-fails", "--json"]);
    command.args(["--count", &case.count.to_string(), "--rate", case.rate, "--nodes", &case.nodes.to_string()]);
    if case.ipv6 {
        command.args(["--to", &testbed.receiver().link().ipv6.to_string()]);
    }
    command.args(case.generator);
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
    assert_eq!((&object["unaccounted"], &ledger["offered"]), (&0.into(), &case.count.into()), "{object}; sent {sent}");
    let drops: u64 = ledger["drops"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(numbers.len() as u64 + drops, case.count, "{object}");
    assert_eq!(object["stored"], numbers.len() as u64, "{object}");

    let Case { form, ipv6, nodes, count, .. } = case;
    let script = Storm { script: Script::CoreRouterFails, nodes, count, form, ipv6 };
    let mut truth = script.truth(numbers);
    for alarm in store.alarms().unwrap() {
        let known = Truth { count: alarm.count, cleared: alarm.cleared };
        let key = (alarm.key.resource, alarm.key.condition, alarm.key.object);
        assert_eq!(truth.remove(&key), Some(known), "{key:?}");
    }
    assert!(truth.is_empty(), "{} alarms are missing", truth.len());
    object
}

#[test]
fn net_trap_accounts_for_a_storm_by_sockets() {
    storm("net_trap_accounts_for_a_storm_by_sockets", Case::usual());
}

#[test]
fn net_trap_accounts_for_a_storm_by_xdp() {
    let case = Case { station: &["-i", "IF", "--backend", "xdp"], ..Case::usual() };
    storm("net_trap_accounts_for_a_storm_by_xdp", case);
}

#[test]
fn net_trap_accounts_for_a_storm_by_a_packet_ring() {
    let case = Case { station: &["-i", "IF", "--backend", "packet"], ..Case::usual() };
    storm("net_trap_accounts_for_a_storm_by_a_packet_ring", case);
}

#[test]
fn net_trap_accounts_for_storms_of_other_versions_and_of_ipv6() {
    const TEST: &str = "net_trap_accounts_for_storms_of_other_versions_and_of_ipv6";
    let few = || Case { nodes: 200, count: 10_000, rate: "5k", ..Case::usual() };
    let community = "public".to_owned();
    let object = storm(TEST, Case { generator: &["--trap-version", "v1"], form: Form::V1 { community }, ..few() });
    assert_eq!(object["notifications"]["v1"], object["stored"], "{object}");
    for station in [&[][..], &["-i", "IF", "--backend", "xdp"]] {
        storm(TEST, Case { station, listen: "[::]:162", ipv6: true, ..few() });
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "[[trap.user]]\nname = \"storm\"\nauth = \"SHA-256\"\nauth-password = \"authentic1\"\nprivacy = \"AES\"\nprivacy-password = \"secretive1\"\n";
    let config = config(folder.path(), text);
    let user =
        User::new("storm", Some((AuthProtocol::Sha256, "authentic1")), Some((PrivProtocol::Aes128, "secretive1")));
    // The truth needs the form only for its events, which are the same in every version.
    let form = Form::V3(Engines::new(&user.unwrap(), 200, 1));
    let generator = ["--trap-version", "v3", "--config", &config];
    let object = storm(TEST, Case { station: &["--config", &config], generator: &generator, form, ..few() });
    assert_eq!(object["notifications"]["v3"], object["stored"], "{object}");
}

/// A million traps from 5,000 nodes. Memory must not grow with it: the spool, two jobs of 32 MiB and their rows, the ring's frames, and
/// a KiB for each of the 30,000 alarms.
#[test]
#[ignore = "a minute: make test-long"]
fn net_trap_stands_a_storm_of_a_million() {
    let case = Case { station: &["-i", "IF", "--backend", "xdp"], count: 1_000_000, rate: "40k", ..Case::usual() };
    let object = storm("net_trap_stands_a_storm_of_a_million", case);
    let resident = object["most_resident_bytes"].as_u64().unwrap();
    assert!(resident < 512 << 20, "{} MiB resident", resident >> 20);
    println!("{object}");
}

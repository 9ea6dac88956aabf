//! `ringtap trap --topology`: storms of known faults are named, told once, kept over SIGKILL, and over when they are mended.

use std::io::Read;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_snmp::encode::{Item, Trap};
use ringtap_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

use crate::support::{IF_INDEX, PATIENCE, RINGTAP, Station, end, port, run, sh, start_on};

/// Two ways from `core` to `d1` and `d2`, which are joined; `a3` behind `d2`.
const NETWORK: &str = "
station = { attached = ['core'] }
node = [
    { name = 'core', addresses = ['10.64.0.1'] },
    { name = 'd1', addresses = ['10.64.0.2'], interface = [{ name = 'ge-0/0/1', index = 1 }] },
    { name = 'd2', addresses = ['10.64.0.3'] },
    { name = 'a3', addresses = ['10.64.0.4'] },
]
link = [
    { ends = ['core:1', 'd1:ge-0/0/1'] },
    { ends = ['core:2', 'd2:1'] },
    { ends = ['d1:2', 'd2:2'] },
    { ends = ['d2:3', 'a3:1'] },
]
adjacency = [
    { protocol = 'ospf', ends = ['core', 'd1'], link = 'core:1' },
    { protocol = 'ospf', ends = ['core', 'd2'], link = 'core:2' },
    { protocol = 'ospf', ends = ['d1', 'd2'], link = 'd1:2' },
    { protocol = 'ospf', ends = ['d2', 'a3'], link = 'd2:3' },
]
";

/// `ringtap alarms … --incidents --json`, a line each.
fn incidents(test: &str, store: &Path, arguments: &[&str]) -> Vec<Value> {
    let fixed = ["--incidents", "--json", "--store", store.to_str().unwrap()];
    let output = run(test, RINGTAP, &[&["alarms"][..], arguments, &fixed].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Open incidents by what broke, first name each, once they are `expected`.
fn wait_for(test: &str, store: &Path, mut expected: Vec<&str>) -> Vec<Value> {
    expected.sort_unstable();
    let until = Instant::now() + PATIENCE;
    loop {
        let open = incidents(test, store, &["list"]);
        let mut roots: Vec<&str> = open.iter().filter_map(|it| it["class"][0].as_str()).collect();
        roots.sort_unstable();
        if roots == expected {
            return open;
        }
        assert!(Instant::now() < until, "{expected:?} are not open: {open:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn net_trap_names_what_broke_once_and_goes_on_after_a_kill() {
    const TEST: &str = "net_trap_names_what_broke_once_and_goes_on_after_a_kill";
    assert!(nix::unistd::geteuid().is_root(), "did not run: {TEST}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("network.toml"), NETWORK).unwrap();
    let interface = testbed.receiver().interface();
    sh(testbed.receiver(), &format!("ip route add 10.64.0.0/16 dev {interface}"));
    let (store, output) = (folder.path().join("store"), folder.path().join("told.jsonl"));
    let (topology, told) = (path("network.toml"), path("told.jsonl"));
    let arguments = ["--listen", "0.0.0.0:162", "--topology", &topology, "--output", &told];
    let expected = path("expected.json");
    let generate = |more: &[&str]| {
        let mut command = testbed.sender().command(RINGTAP);
        command.args([
            "generate",
            "-i",
            testbed.sender().interface(),
            "--topology",
            &topology,
            "--expected",
            &expected,
        ]);
        command.args(["--fault", "link:core-d1", "--fault", "node:a3@300ms"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut program = testbed.sender().start(command).unwrap();
        let mut errors = String::new();
        program.child().stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert!(program.child().wait().unwrap().success(), "{errors}");
        serde_json::from_str::<Value>(&std::fs::read_to_string(&expected).unwrap()).unwrap()
    };

    let mut station = start_on(testbed.receiver(), &store, &arguments);
    let truth = generate(&[]);
    let roots: Vec<&str> =
        truth["roots"].as_array().unwrap().iter().map(|root| root["names"][0].as_str().unwrap()).collect();
    assert_eq!(roots, ["link:core:1-d1:ge-0/0/1", "node:a3"], "{truth}");
    // a3 is heard over the link that it is cut off from: link and node look the same.
    let open = wait_for(TEST, &store, vec!["link:core:1-d1:ge-0/0/1", "link:d2:3-a3:1"]);
    let top = run(TEST, RINGTAP, &["trap", "top", "--count", "1", "--store", store.to_str().unwrap()]);
    let shown = String::from_utf8_lossy(&top.stdout);
    assert!(
        shown.contains("incidents: 2 open") && open.iter().all(|it| shown.contains(it["title"].as_str().unwrap())),
        "{shown}"
    );
    for root in truth["roots"].as_array().unwrap() {
        let is_right = |it: &&Value| {
            it["class"].as_array().unwrap().iter().any(|name| root["names"].as_array().unwrap().contains(name))
        };
        assert_eq!(open.iter().filter(is_right).count(), 1, "{root} of {open:?}");
    }
    station.child().kill().unwrap();
    station.child().wait().unwrap();
    let before = lines(&output);
    let opened: Vec<&str> = before.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(opened, ["opened", "opened"], "{before:?}");

    let station = start_on(testbed.receiver(), &store, &arguments);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(lines(&output).len(), 2, "nothing is told twice");
    generate(&["--mended", "1s", "--seed", "2"]);
    wait_for(TEST, &store, Vec::new());
    let object = end(station);
    assert_eq!((&object["unaccounted"], &object["error"]), (&0.into(), &Value::Null), "{object}");
    let after = lines(&output);
    let closed: Vec<&str> = after[2..].iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(closed, ["closed", "closed"], "{after:?}");
    let text = run(TEST, RINGTAP, &["alarms", "list", "--all", "--json", "--store", store.to_str().unwrap()]);
    let alarms = String::from_utf8(text.stdout).unwrap();
    assert!(alarms.lines().count() >= 6, "every alarm is kept: {alarms}");
}

/// linkDown of v1 by this agent, of the interface.
fn link_down(agent: [u8; 4], index: u32, to: &str) {
    let mut name = IF_INDEX;
    name[10] = index;
    let trap = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&name, Item::Integer(index.into()));
    let bytes = trap.as_v1(b"public", Ipv4Addr::from(agent));
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&bytes, to).unwrap();
}

#[test]
fn net_trap_reads_its_topology_again_and_draws_what_explains_what() {
    const TEST: &str = "net_trap_reads_its_topology_again_and_draws_what_explains_what";
    let folder = tempfile::tempdir().unwrap();
    let (store, topology) = (folder.path().join("store"), folder.path().join("network.toml"));
    let address = format!("127.0.0.1:{}", port());
    std::fs::write(&topology, NETWORK).unwrap();
    let station = Station::start(&store, &["--listen", &address, "--topology", topology.to_str().unwrap()]);
    let reload = |text: &str| {
        std::fs::write(&topology, text).unwrap();
        kill(Pid::from_raw(station.pid() as i32), Signal::SIGHUP).unwrap();
        // It looks for signals ten times a second and more.
        std::thread::sleep(Duration::from_millis(700));
    };
    reload("[[node]]\nname = 'core'\n[[link]]\nends = ['core:1', 'nowhere:1']\n");
    link_down([10, 64, 0, 1], 1, &address);
    link_down([10, 64, 0, 2], 1, &address);
    let open = wait_for(TEST, &store, vec!["link:core:1-d1:ge-0/0/1"]);
    let id = open[0]["id"].as_str().unwrap();
    let shown = run(TEST, RINGTAP, &["alarms", "show", id, "--incidents", "--store", store.to_str().unwrap()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    for part in
        ["2 of 4 symptoms seen", "└─ link:core:1-d1:ge-0/0/1", "linkDown 1 of 10.64.0.1", "linkDown 1 of 10.64.0.2"]
    {
        assert!(shown.contains(part), "{part:?} in {shown}");
    }
    reload(&NETWORK.replace("{ ends = ['d2:3', 'a3:1'] }", "{ ends = ['d2:3', 'a3:1'] }, { ends = ['d1:9', 'a3:9'] }"));
    link_down([10, 64, 0, 2], 9, &address);
    link_down([10, 64, 0, 4], 9, &address);
    wait_for(TEST, &store, vec!["link:core:1-d1:ge-0/0/1", "link:d1:9-a3:9"]);
    assert_eq!(station.end()["root_cause"]["incidents"], 2);
}

#[test]
fn net_trap_refuses_a_topology_with_a_fault_and_commands_show_it() {
    const TEST: &str = "net_trap_refuses_a_topology_with_a_fault_and_commands_show_it";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.toml");
    let network = path.to_str().unwrap();
    std::fs::write(&path, NETWORK.replace("'a3:1'", "'nowhere:1'")).unwrap();
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        let output = run(TEST, RINGTAP, arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{part:?} in {said}");
        }
        String::from_utf8(output.stdout).unwrap()
    };
    let store = folder.path().join("store");
    let station = ["trap", "--listen", "127.0.0.1:0", "--store", store.to_str().unwrap(), "--topology", network];
    refused(&station, 2, &["network.toml:13", "nowhere", "topology check"]);
    let faults = refused(&["topology", "check", network], 1, &["2 faults"]);
    assert!(faults.contains("network.toml:13: there is no node \"nowhere\""), "{faults}");
    std::fs::write(&path, NETWORK).unwrap();
    let shown = |arguments: &[&str]| {
        let output = run(TEST, RINGTAP, &[&["topology"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(shown(&["check", network]), "4 nodes, 4 links, 4 adjacencies, 0 cards, 0 power groups, 0 sites\n");
    assert!(
        shown(&["show", network])
            .starts_with("core 10.64.0.1 (the station is here)\n├─ d1 10.64.0.2  [core:1-d1:ge-0/0/1]\n")
    );
    assert!(shown(&["show", network, "--dot"]).starts_with("graph topology {"));
    let svg = run(TEST, "env", &["PATH=/nonexistent", RINGTAP, "topology", "show", network, "--svg"]);
    let said = String::from_utf8_lossy(&svg.stderr);
    assert!(!svg.status.success() && said.contains("dot") && said.contains("Graphviz"), "{said}");
    let cables = folder.path().join("cables.csv");
    std::fs::write(&cables, "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name\na,dcim.interface,e1,b,dcim.interface,e2\n").unwrap();
    let imported = shown(&["import", "--netbox", cables.to_str().unwrap()]);
    std::fs::write(&path, imported).unwrap();
    assert!(shown(&["show", network]).contains("[a:e1-b:e2]"));
}

#[test]
fn net_trap_root_cause_a_storm_that_can_not_start_leaves_the_folder_as_it_was() {
    const TEST: &str = "net_trap_root_cause_a_storm_that_can_not_start_leaves_the_folder_as_it_was";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("network.toml"), NETWORK).unwrap();
    std::fs::write(folder.path().join("expected.json"), "of the user\n").unwrap();
    // One that is not there, and one whose packets real programs may get.
    for interface in ["no-such-if0", "lo"] {
        for more in [&[][..], &["--expected", "expected.json"], &["--expected", "other.json"]] {
            let mut command = Command::new(RINGTAP);
            command.args(["generate", "-i", interface, "--topology", "network.toml", "--fault", "node:a3"]).args(more);
            let output = command.current_dir(folder.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(interface), "{TEST}: {said}");
            let found = folder.path().read_dir().unwrap();
            let mut names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["expected.json", "network.toml"], "{interface} {more:?}");
            let expected = std::fs::read_to_string(folder.path().join("expected.json")).unwrap();
            assert_eq!(expected, "of the user\n", "{interface} {more:?}");
        }
    }
}

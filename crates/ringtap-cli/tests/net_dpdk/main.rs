//! `--backend dpdk` of capture, sensor, trap and forward, and doctor's ports: virtio_user and net_vhost on this host, each end a
//! process of its own, without a card and without huge pages. The other end is DPDK's testpmd.

#[path = "../capture_support/mod.rs"]
mod capture_support;
mod forward;
mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capture_support::{Capture, RINGTAP, tool};
use nix::sys::signal::Signal;
use ringtap_samples::frames::Ends;
use ringtap_snmp::encode::Trap;
use serde_json::Value;
use support::{COUNT, Place, Testpmd, WAITS, assert_whole};

/// By every way of waiting and at both ends of the wire: each number once, and DPDK's counters say the same.
#[test]
fn net_capture_through_dpdk_is_whole() {
    const TEST: &str = "net_capture_through_dpdk_is_whole";
    let place = Place::new(TEST);
    let packets = place.numbered("packets.pcap", 0, COUNT);
    for (wait, waiting) in WAITS {
        for ours in ["virtio_user0", "net_vhost0"] {
            let wire = format!("{wait}-{ours}");
            let file = place.at(&format!("{wire}.pcapng"));
            let arguments = [waiting, &["-w", &file, "--spool", "4MiB"]].concat();
            let (capture, mut other) = if ours == "virtio_user0" {
                let other = place.testpmd(&place.vhost(&wire), &packets);
                (place.capture(ours, &place.virtio_user(&wire), &arguments), other)
            } else {
                let capture = place.capture(ours, &place.vhost(&wire), &arguments);
                (capture, place.testpmd(&place.virtio_user(&wire), &packets))
            };
            other.send_all(COUNT);
            std::thread::sleep(Duration::from_millis(50));
            let ended = capture.interrupt();
            other.quit();
            let summary = assert_whole(TEST, &ended, &file, 0..COUNT);
            let source = &summary["sources"][0];
            assert!(source["library"].as_str().unwrap().starts_with("DPDK 2"), "{summary}");
            assert!(!ended.stderr.contains("no receive interrupts"), "{}", ended.stderr);
            let wakes = |name: &str| summary[name].as_u64().unwrap();
            match wait {
                "timer" => assert_eq!(wakes("interrupt_wakes"), 0, "{summary}"),
                "interrupt" => assert_eq!(wakes("timer_wakes"), 0, "{summary}"),
                _ => assert!(wakes("interrupt_wakes") > 0, "{summary}"),
            }
            assert!(!Path::new(&place.at(&wire)).exists(), "whoever made the socket has removed it");
        }
    }
}

/// The other end is killed, and comes again: the capture goes on, and has what both have sent.
#[test]
fn net_the_other_end_of_a_dpdk_port_may_be_killed_and_come_again() {
    const TEST: &str = "net_the_other_end_of_a_dpdk_port_may_be_killed_and_come_again";
    const EACH: u32 = 2000;
    let place = Place::new(TEST);
    for (wait, waiting) in WAITS {
        let file = place.at(&format!("{wait}.pcapng"));
        let capture =
            place.capture("net_vhost0", &place.vhost(wait), &[waiting, &["-w", &file, "--spool", "4MiB"]].concat());
        for life in 0..3 {
            let packets = place.numbered("packets.pcap", life * EACH, EACH);
            let mut other = place.testpmd(&place.virtio_user(wait), &packets);
            other.send_all(EACH);
            // Nothing of it is on the way when it dies.
            std::thread::sleep(Duration::from_millis(50));
            other.program.child().kill().unwrap();
            other.program.child().wait().unwrap();
        }
        assert_whole(TEST, &capture.interrupt(), &file, 0..3 * EACH);
    }
}

/// Killed in the middle of traffic, at either end: what came is accounted for, and the next capture begins anew.
#[test]
fn net_a_death_in_the_middle_of_dpdk_traffic_adds_up() {
    const TEST: &str = "net_a_death_in_the_middle_of_dpdk_traffic_adds_up";
    let place = Place::new(TEST);
    let packets = place.numbered("packets.pcap", 0, 10);
    let endless = format!("{packets},infinite_rx=1");
    let hybrid = WAITS[2].1;
    let begin = |other: &mut Testpmd| {
        let from = other.say("start");
        other.wait_for(from, "packets/burst");
        std::thread::sleep(Duration::from_millis(200));
    };
    let mut other = place.testpmd(&place.vhost("wire"), &endless);
    let mut killed = place.capture("virtio_user0", &place.virtio_user("wire"), hybrid);
    begin(&mut other);
    killed.signal(Signal::SIGKILL);
    killed.end();
    let next = place.capture("virtio_user0", &place.virtio_user("wire"), hybrid);
    std::thread::sleep(Duration::from_millis(300));
    other.program.child().kill().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let ended = next.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let summary = ended.summary();
    assert!(summary["ledger"]["delivered"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(summary["ledger"]["unaccounted"], 0, "{summary}");
    // Who listened on the socket is killed: the next one finds nobody on it, and takes its place.
    let mut killed = place.capture("net_vhost0", &place.vhost("ours"), hybrid);
    killed.signal(Signal::SIGKILL);
    killed.end();
    assert!(Path::new(&place.at("ours")).exists(), "nobody was left to remove it");
    assert_eq!(place.capture("net_vhost0", &place.vhost("ours"), hybrid).interrupt().code(), 0);
    assert!(!Path::new(&place.at("ours")).exists());
    let left = std::fs::read_dir("/dev/hugepages").into_iter().flatten().flatten().map(|entry| entry.file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().starts_with("rte")).count(), 0, "no page is left behind");
}

/// A port without interrupts is looked at by the clock, and that is said once.
#[test]
fn net_a_dpdk_port_without_interrupts_is_looked_at_by_the_clock() {
    const TEST: &str = "net_a_dpdk_port_without_interrupts_is_looked_at_by_the_clock";
    let place = Place::new(TEST);
    let packets = place.numbered("packets.pcap", 0, COUNT);
    let device = format!("--vdev=net_pcap0,rx_pcap={packets}");
    for (wait, waiting) in WAITS {
        let file = place.at(&format!("{wait}.pcapng"));
        let count = COUNT.to_string();
        let arguments = [waiting, &["-w", &file, "--spool", "4MiB", "--count", &count]].concat();
        let ended = place.capture("net_pcap0", &device, &arguments).end();
        assert_whole(TEST, &ended, &file, 0..COUNT);
        let said =
            ended.stderr.matches("net_pcap0 (net_pcap) has no receive interrupts: it is looked at every").count();
        assert_eq!(said, 1, "{wait}: {}", ended.stderr);
    }
}

/// Several queues have memory enough for the rings that they get unasked, and each packet of each comes.
#[test]
fn net_several_queues_of_a_dpdk_port_are_whole() {
    const TEST: &str = "net_several_queues_of_a_dpdk_port_are_whole";
    let place = Place::new(TEST);
    let packets = [0, 1].map(|queue| place.numbered(&format!("{queue}.pcap"), queue * COUNT, COUNT));
    let device = format!("--vdev=net_pcap0,rx_pcap={},rx_pcap={}", packets[0], packets[1]);
    let file = place.at("both.pcapng");
    let count = (2 * COUNT).to_string();
    let mut command = place.command("net_pcap0", &device);
    command.args(["--queues", "2", "--wait", "timer", "--period", "500us", "--json"]);
    command.args(["-w", &file, "--spool", "4MiB", "--count", &count]);
    let summary = assert_whole(TEST, &Capture::of(place.host(), command).end(), &file, 0..2 * COUNT);
    assert_eq!(summary["sources"].as_array().map(Vec::len), Some(2), "{summary}");
}

/// The sensor finds one attack among other packets, at both ends of the wire, and has each of them.
#[test]
fn net_an_attack_that_comes_by_a_dpdk_port_is_found() {
    const TEST: &str = "net_an_attack_that_comes_by_a_dpdk_port_is_found";
    const OTHERS: u32 = 1000;
    let place = Place::new(TEST);
    let rules = place.at("my.rules");
    std::fs::write(&rules, "alert udp any any -> any 5000 (msg:\"planted\"; content:\"the attack\"; sid:7;)\n")
        .unwrap();
    let ends = Ends::new("192.0.2.1", "198.51.100.2");
    let packets = (0..=OTHERS).map(|number| {
        let words = if number == OTHERS / 2 { "here is the attack" } else { "here is none of it" };
        ends.udp_frame([40_000, 5000], words.as_bytes())
    });
    let packets = place.file_of("packets.pcap", packets);
    for ours in ["virtio_user0", "net_vhost0"] {
        let eve = place.at(&format!("{ours}.json"));
        let start = |device: &str| {
            let mut command = place.taking("sensor", ours, device);
            command.args(["-S", &rules, "--eve", &eve, "--json"]);
            let sensor = Capture::of(place.host(), command);
            sensor.wait_for(&format!("watching {ours} (dpdk)"));
            sensor
        };
        let (sensor, mut other) = if ours == "virtio_user0" {
            let other = place.testpmd(&place.vhost(ours), &packets);
            (start(&format!("{},queue_size=1024", place.virtio_user(ours))), other)
        } else {
            (start(&place.vhost(ours)), place.testpmd(&place.virtio_user(ours), &packets))
        };
        other.send_all(OTHERS + 1);
        std::thread::sleep(Duration::from_millis(50));
        let ended = sensor.interrupt();
        other.quit();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        for (name, packets) in [("offered", OTHERS + 1), ("delivered", OTHERS + 1), ("lost", 0), ("unaccounted", 0)] {
            assert_eq!(summary["ledger"][name], packets, "{name}: {summary}");
        }
        let events = std::fs::read_to_string(&eve).unwrap();
        let alerts: Vec<Value> = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|event| event["event_type"] == "alert")
            .collect();
        assert_eq!(alerts.len(), 1, "{events}");
        assert_eq!((&alerts[0]["alert"]["signature_id"], &alerts[0]["src_ip"]), (&7.into(), &"192.0.2.1".into()));
        assert!(!Path::new(&place.at(ours)).exists(), "whoever made the socket has removed it: {}", ended.stderr);
    }
}

/// The station takes a trap for this host that comes by a port, and none that is for another one.
#[test]
fn net_a_trap_that_comes_by_a_dpdk_port_is_stored() {
    const TEST: &str = "net_a_trap_that_comes_by_a_dpdk_port_is_stored";
    let place = Place::new(TEST);
    let trap = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).v2c(b"public", 5);
    let own = place.host().link().ipv4.to_string();
    let to = |address: &str| Ends::new("192.0.2.1", address).udp_frame([40_000, 162], &trap);
    let packets = place.file_of("packets.pcap", [to(&own), to("203.0.113.77")].into_iter());
    let mut command = place.taking("trap", "net_vhost0", &place.vhost("wire"));
    command.args(["--listen", "0.0.0.0:162", "--store", &place.at("store"), "--json"]);
    let station = Capture::of(place.host(), command);
    station.wait_for("what comes is stored in");
    let mut other = place.testpmd(&place.virtio_user("wire"), &packets);
    other.send_all(2);
    // Longer than a commit waits.
    std::thread::sleep(Duration::from_millis(500));
    let ended = station.interrupt();
    other.quit();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let account: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(account["notifications"]["v2c"], 1, "{account}");
    // A port has no filter of its own: what is for another host is counted as filtered.
    let ledger = &account["ledger"];
    let counts = [&ledger["offered"], &ledger["filtered"], &ledger["delivered"], &account["unaccounted"]];
    assert_eq!(counts, [2, 1, 1, 0].map(Value::from).each_ref(), "{account}");
    assert_eq!(account["not_stored_yet"], 0, "{account}");
    assert!(!Path::new(&place.at("wire")).exists(), "whoever made the socket has removed it: {}", ended.stderr);
}

/// One line for each port, with whether it can sleep, and one where there is no DPDK.
#[test]
fn net_doctor_tells_which_dpdk_ports_can_sleep() {
    const TEST: &str = "net_doctor_tells_which_dpdk_ports_can_sleep";
    let place = Place::new(TEST);
    let ports = |mut command: Command| {
        command.arg("--json");
        let ended = Capture::of(place.host(), command).end();
        let found: Value = serde_json::from_slice(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {} {}", String::from_utf8_lossy(&ended.stdout), ended.stderr));
        let findings = found["findings"].as_array().unwrap().clone();
        findings.into_iter().filter(|finding| finding["scope"] == "DPDK").collect::<Vec<Value>>()
    };
    let one = place.numbered("packets.pcap", 0, 1);
    let devices = format!("{} --vdev=net_pcap0,rx_pcap={one} --vdev=net_tap0,iface=tap0", place.vhost("wire"));
    let found = ports(place.with_library(&["doctor", "--dpdk-args", &devices]));
    let wanted = [
        ("library", "good", "DPDK 2"),
        ("port", "good", "net_vhost0 (net_vhost, 1 queue) can sleep"),
        ("port", "limit", "net_pcap0 (net_pcap, 1 queue) can't sleep: it has no receive interrupts"),
        ("port", "limit", "net_tap0 (net_tap, "),
    ];
    for (name, state, start) in wanted {
        let is_it = |finding: &&Value| finding["value"].as_str().unwrap().starts_with(start);
        let lines: Vec<&Value> = found.iter().filter(is_it).collect();
        assert_eq!(lines.len(), 1, "{start}: {found:?}");
        assert_eq!((&lines[0]["name"], &lines[0]["state"]), (&name.into(), &state.into()), "{found:?}");
        assert!(!lines[0]["value"].as_str().unwrap().contains('\n') && lines[0]["consequence"].is_null(), "{found:?}");
    }
    // And what a driver says beside it, of a kernel without multiq here.
    let told = found.iter().filter(|finding| finding["name"] != "said").count();
    assert_eq!(told, wanted.len(), "{found:?}");
    let mut command = place.host().command(RINGTAP);
    command.args(["doctor", "--dpdk-library", "/no/such.so"]);
    let found = ports(command);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0]["value"].as_str().unwrap().contains("load the library for DPDK /no/such.so"), "{found:?}");
    assert!(!Path::new(&place.at("wire")).exists(), "whoever made the socket has removed it");
}

/// One line each, whatever EAL does to its process.
#[test]
fn net_what_dpdk_cannot_open_is_one_line() {
    const TEST: &str = "net_what_dpdk_cannot_open_is_one_line";
    let place = Place::new(TEST);
    let refused = |port: &str, arguments: &str, more: &[&str], code: i32, parts: &[&str]| {
        let mut command = place.command(port, arguments);
        command.args(["--wait", "interrupt", "-w", "-"]).args(more);
        if !more.contains(&"--ring") {
            command.args(["--ring", "1024"]);
        }
        let ended = Capture::of(place.host(), command).end();
        ended.assert_refused(code, parts);
        assert!(ended.stdout.is_empty(), "EAL says nothing there: {}", String::from_utf8_lossy(&ended.stdout));
    };
    let null = "--vdev=net_null0";
    refused("net_null0", "--no-such", &[], 2, &["--no-such: EAL has no such option", "--dpdk-args"]);
    refused("net_null0", "--help", &[], 2, &["--help: EAL would only print"]);
    refused("net_null0", "-l 999", &[], 1, &["-l 999", "lcore 999 >= RTE_MAX_LCORE", "docs/dpdk.md"]);
    refused("net_null0", "--log-level=help", &[], 1, &["--log-level=help", "EAL ended the process it was tried in"]);
    refused("net_null0", &format!("{null} -m 99999999"), &[], 1, &["99999999 MiB for DPDK's memory"]);
    refused("net_null0", &format!("{null} -m 3"), &[], 1, &["open through DPDK net_null0", "-m MIB in --dpdk-args"]);
    refused("net_null0", "--vdev=net_nosuch0", &[], 1, &["net_nosuch0", "failed to parse device"]);
    refused("virtio_user0", null, &[], 1, &["there is no such port; DPDK has net_null0", "--vdev=NAME"]);
    refused("ffff:ff:1f.7", "", &[], 1, &["ffff:ff:1f.7", "no such port; DPDK has no port at all", "vfio-pci"]);
    let nowhere = format!("--vdev=virtio_user0,path={}", place.at("nowhere"));
    refused("virtio_user0", &nowhere, &[], 1, &["there is no such port", "No such file or directory"]);
    refused(
        "net_tap0",
        "--vdev=net_tap0,iface=tap0",
        &[],
        1,
        &["net_tap tells of packets by signals", "--backend xdp"],
    );
    refused("net_null0", null, &["--ring", "12"], 2, &["net_null0", "12 ring slots"]);
    let one = format!("--vdev=net_pcap0,rx_pcap={}", place.numbered("packets.pcap", 0, 1));
    refused("net_pcap0", &one, &["--queues", "2"], 2, &["2 queues, and it has at most 1"]);
    let other = place.at("other.c");
    std::fs::write(&other, "unsigned ringtap_dpdk_abi(void) { return 99; }").unwrap();
    let library = place.at("other.so");
    tool(TEST, "cc", &["-shared", "-fPIC", "-o", &library, &other]);
    for (file, parts) in [
        ("/no/such.so", ["load the library for DPDK /no/such.so", "No such file"]),
        (&library, ["other.so: it is of version 99 of the interface", "make build-dpdk"]),
        ("libc.so.6", ["libc.so.6", "ringtap_dpdk_abi"]),
    ] {
        let mut command = place.host().command(RINGTAP);
        command.args(["capture", "-i", "net_null0", "--backend", "dpdk", "--wait", "interrupt", "--ring", "1024"]);
        command.args(["--dpdk-library", file]);
        Capture::of(place.host(), command).end().assert_refused(1, &parts);
    }
}

//! What the host uses is left to the host: its own traffic goes on while every program captures by `auto`, whatever it uses the
//! interface for; and an interface that it begins to use is given back.

mod capture_support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use capture_support::frames::{ipv4, udp};
use capture_support::{Capture, Ended, RINGTAP, assert_clean, ip, send_frames, send_numbered, testbed};
use nix::sys::signal::Signal;
use ringtap::netlink;
use ringtap_testbed::{Host, RunningProgram, Testbed, TestbedConfig};

/// Answers to five pings that `host` sends to an address.
fn answers(host: &Host, to: &str) -> usize {
    let arguments = ["-c", "5", "-i", "0.05", "-W", "2", "-n", to];
    let output = host.run(|| Command::new("ping").args(arguments).output()).unwrap();
    let output = output.unwrap_or_else(|error| panic!("did not run: net_host_use: ping: {error}"));
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("bytes from")).count()
}

fn eventually(done: impl Fn() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

fn xdp_program(host: &Host) -> Option<u32> {
    host.run(|| netlink::link_by_index(host.link().index)).unwrap().unwrap().xdp_program
}

/// `ringtap capture`, `sensor` and `trap` on an interface of the receiver's, all at once and as they come.
fn programs(host: &Host, interface: &str, folder: &Path) -> [Capture; 3] {
    let rules = folder.join("rules");
    std::fs::write(&rules, "alert udp any any -> any any (msg:\"x\"; content:\"x\"; sid:1;)\n").unwrap();
    let start = |arguments: &[&str]| {
        let mut command = host.command(RINGTAP);
        command.args(arguments).args(["-i", interface, "--json"]);
        Capture::of(host, command)
    };
    let store = folder.join(format!("store-{interface}"));
    [
        start(&[&["capture"][..], &capture_support::NUMBERS].concat()),
        start(&["sensor", "--flows", "1024", "-S", rules.to_str().unwrap()]),
        start(&["trap", "--spool", "1MiB", "--store", store.to_str().unwrap()]),
    ]
}

/// Readies the receiver by `lines` for ip(8) with IF for its interface, and pings `to` from the sender, alone and beside all
/// programs on that interface. Each says `reason` once.
fn goes_on(test: &str, lines: &[&str], peer_lines: &[&str], to: &str, reason: &str) {
    let testbed = testbed(test, TestbedConfig::default());
    let (sender, host) = (testbed.sender(), testbed.receiver());
    for (at, lines) in [(host, lines), (sender, peer_lines)] {
        for line in lines {
            ip(at, &line.replace("IF", at.interface()));
        }
    }
    let to = to.replace("IF", sender.interface());
    assert_eq!(answers(sender, &to), 5, "{reason}: before");
    let folder = tempfile::tempdir().unwrap();
    let programs = programs(host, host.interface(), folder.path());
    let reason = reason.replace("IF", host.interface());
    // The station takes what is for its own ports and this host's address, and no more.
    let takes = reason.contains("address");
    for program in programs.iter().take(if takes { 2 } else { 3 }) {
        program.wait_for(&format!("{} {reason}", host.interface()));
    }
    assert!(eventually(|| xdp_program(host).is_some() == takes), "{reason}");
    assert_eq!(answers(sender, &to), 5, "{reason}: beside the programs");
    for program in programs {
        let ended = program.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert!(ended.stderr.matches(&reason).count() <= 1, "{}", ended.stderr);
    }
    assert_eq!(xdp_program(host), None, "{reason}");
    let doctor = host.run(|| Command::new(RINGTAP).args(["doctor", host.interface()]).output()).unwrap().unwrap();
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains(&format!("yes: it {reason}")), "{doctor}");
}

const NEW_NEIGHBOUR: &str = "neighbour del 198.18.0.2 dev IF";

#[test]
fn net_bridge_goes_on_beside_captures_of_its_port() {
    let test = "net_bridge_goes_on_beside_captures_of_its_port";
    let lines = [
        "address flush dev IF",
        "link add br0 type bridge",
        "link set IF master br0",
        "address add 198.18.0.2/24 dev br0",
        "link set br0 up",
    ];
    goes_on(test, &lines, &[NEW_NEIGHBOUR], "198.18.0.2", "is a port of br0 (bridge)");
}

#[test]
fn net_macvlan_goes_on_beside_captures_of_its_parent() {
    let test = "net_macvlan_goes_on_beside_captures_of_its_parent";
    let lines = [
        "address flush dev IF",
        "link add link IF name mv0 type macvlan mode bridge",
        "address add 198.18.0.2/24 dev mv0",
        "link set mv0 up",
    ];
    goes_on(test, &lines, &[NEW_NEIGHBOUR], "198.18.0.2", "carries mv0 (macvlan)");
}

#[test]
fn net_vxlan_goes_on_beside_captures_of_its_underlay() {
    let test = "net_vxlan_goes_on_beside_captures_of_its_underlay";
    // The underlay's own address is elsewhere, so that the tunnel alone tells.
    let lines = [
        "address flush dev IF",
        "address add 198.18.0.2/32 dev lo",
        "route add 198.18.0.0/24 dev IF",
        "neighbour replace 198.18.0.1 lladdr 02:00:00:00:00:01 dev IF nud permanent",
        "link add vx0 type vxlan id 7 local 198.18.0.2 remote 198.18.0.1 dev IF dstport 4789",
        "address add 198.19.0.2/24 dev vx0",
        "link set vx0 up",
    ];
    let peer = [
        "link add vx0 type vxlan id 7 local 198.18.0.1 remote 198.18.0.2 dev IF dstport 4789",
        "address add 198.19.0.1/24 dev vx0",
        "link set vx0 up",
    ];
    goes_on(test, &lines, &peer, "198.19.0.2", "carries vx0 (vxlan)");
}

#[test]
fn net_link_local_addresses_go_on_beside_captures() {
    let test = "net_link_local_addresses_go_on_beside_captures";
    let lines = ["address flush dev IF", "address add fe80::2/64 dev IF nodad"];
    let peer = ["address add fe80::1/64 dev IF nodad"];
    goes_on(test, &lines, &peer, "fe80::2%IF", "has the host's link-local address fe80::2");
}

#[test]
fn net_labelled_addresses_go_on_beside_captures() {
    let test = "net_labelled_addresses_go_on_beside_captures";
    let lines = ["address flush dev IF", "address add 198.18.0.2/24 dev IF label IF:1"];
    goes_on(test, &lines, &[], "198.18.0.2", "has the host's address 198.18.0.2");
}

#[test]
fn net_routes_go_on_beside_captures() {
    let test = "net_routes_go_on_beside_captures";
    let lines = [
        "address flush dev IF",
        "address add 198.18.0.2/32 dev lo",
        "route add 198.18.0.0/24 dev IF",
        "neighbour replace 198.18.0.1 lladdr 02:00:00:00:00:01 dev IF nud permanent",
    ];
    goes_on(test, &lines, &[], "198.18.0.2", "is in routes of the host");
}

#[test]
fn net_redirection_by_tc_goes_on_beside_captures() {
    let testbed = testbed("net_redirection_by_tc_goes_on_beside_captures", TestbedConfig::default());
    let (sender, host) = (testbed.sender(), testbed.receiver());
    let name = host.interface();
    let tc = |arguments: &str| {
        let output = host.run(|| Command::new("tc").args(arguments.split(' ')).output().unwrap()).unwrap();
        assert!(output.status.success(), "tc {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    // What comes in is the one's that answers behind a second pair.
    for line in [
        format!("address flush dev {name}"),
        "link add in0 type veth peer name in1".to_owned(),
        "link set in0 up".to_owned(),
    ] {
        ip(host, &line);
    }
    let (_program, pid) = elsewhere(host);
    ip(host, &format!("link set in1 netns {pid}"));
    for line in ["link set in1 up", "address add 198.18.0.2/24 dev in1"] {
        let inside = Command::new("nsenter").args(["-t", &pid, "-n", "ip"]).args(line.split(' ')).status().unwrap();
        assert!(inside.success(), "{line}");
    }
    for (from, to) in [(name, "in0"), ("in0", name)] {
        tc(&format!("qdisc add dev {from} clsact"));
        let all = "ingress protocol all prio 1 u32 match u32 0 0 action mirred egress redirect dev";
        tc(&format!("filter add dev {from} {all} {to}"));
    }
    ip(sender, &NEW_NEIGHBOUR.replace("IF", sender.interface()));
    assert_eq!(answers(sender, "198.18.0.2"), 5, "before");
    let capture = Capture::start(&testbed, &[]);
    assert_eq!(answers(sender, "198.18.0.2"), 5, "beside a capture");
    let ended = capture.interrupt();
    assert!(ended.stderr.contains("has tc filters or programs on what comes in"), "{}", ended.stderr);
    // Nothing but the other side's redirection tells of it now.
    tc(&format!("qdisc del dev {name} clsact"));
    let capture = Capture::start(&testbed, &[]);
    let ended = capture.interrupt();
    assert!(ended.stderr.contains("gets packets mirrored or redirected by tc"), "{}", ended.stderr);
}

/// A program in a network namespace of its own, below the host's.
fn elsewhere(host: &Host) -> (RunningProgram, String) {
    let mut command = host.command("unshare");
    command.args(["--net", "sleep", "600"]);
    let mut program = host.start(command).unwrap();
    let pid = program.child().id().to_string();
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let path = format!("/proc/{pid}/ns/net");
    let outside = host.run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    for _ in 0..1000 {
        let now = std::fs::read_link(&path).unwrap();
        if now != own && now != outside {
            return (program, pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("unshare(1) made no namespace");
}

#[test]
fn net_macvlan_of_a_container_is_left_its_packets() {
    let testbed = testbed("net_macvlan_of_a_container_is_left_its_packets", TestbedConfig::default());
    let host = testbed.receiver();
    let name = host.interface();
    let (_program, pid) = elsewhere(host);
    ip(host, &format!("address flush dev {name}"));
    ip(host, &format!("link add link {name} name mv0 type macvlan mode bridge"));
    ip(host, &format!("link set mv0 address 02:00:00:00:00:09 netns {pid}"));
    let up = Command::new("nsenter").args(["-t", &pid, "-n", "ip", "link", "set", "mv0", "up"]).status().unwrap();
    assert!(up.success());
    let capture = Capture::start(&testbed, &[]);
    assert_eq!(xdp_program(host), None);
    let ended = capture.interrupt();
    assert!(ended.stderr.contains("takes packets to 02:00:00:00:00:09 too"), "{}", ended.stderr);
}

#[test]
fn net_an_interface_with_ipsec_policies_is_left_its_packets() {
    let testbed = testbed("net_an_interface_with_ipsec_policies_is_left_its_packets", TestbedConfig::default());
    let host = testbed.receiver();
    let name = host.interface();
    ip(host, &format!("address flush dev {name}"));
    let policy = "src 203.0.113.0/24 dst 198.51.100.0/24";
    ip(host, &format!("xfrm policy add {policy} dev {name} dir in action allow"));
    let capture = Capture::start(&testbed, &[]);
    assert_eq!(xdp_program(host), None);
    let ended = capture.interrupt();
    assert!(ended.stderr.contains(&format!("{name} has IPsec states or policies bound to it")), "{}", ended.stderr);
    // One that is bound to no interface is no use of this one.
    ip(host, &format!("xfrm policy delete {policy} dev {name} dir in"));
    ip(host, &format!("xfrm policy add {policy} dir in action allow"));
    let capture = Capture::start(&testbed, &[]);
    assert!(xdp_program(host).is_some());
    let ended = capture.interrupt();
    assert!(!ended.stderr.contains("IPsec"), "{}", ended.stderr);
}

/// A capture by AF_XDP of an interface that nothing uses.
fn free(test: &str) -> (Testbed, Capture) {
    let testbed = testbed(test, TestbedConfig::default());
    ip(testbed.receiver(), &format!("address flush dev {}", testbed.receiver().interface()));
    let capture = Capture::start(&testbed, &[]);
    assert!(xdp_program(testbed.receiver()).is_some(), "auto takes AF_XDP where nobody misses the packets");
    (testbed, capture)
}

fn assert_given_back(ended: &Ended, host: &Host, reason: &str) {
    assert_eq!(ended.code(), 1, "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("ringtap: capture from") && last.contains(reason), "{last}");
    let summary = ended.summary();
    assert_eq!(summary["ending"], "interface_used");
    assert_eq!(summary["ledger"]["unaccounted"], 0, "{summary}");
    assert_eq!(xdp_program(host), None);
}

#[test]
fn net_an_interface_that_joins_a_bridge_while_captured_is_the_bridges() {
    let (testbed, capture) = free("net_an_interface_that_joins_a_bridge_while_captured_is_the_bridges");
    let (sender, host) = (testbed.sender(), testbed.receiver());
    send_numbered(&testbed, 20e3, 200);
    ip(sender, &NEW_NEIGHBOUR.replace("IF", sender.interface()));
    ip(host, "link add br0 type bridge");
    ip(host, "address add 198.18.0.2/24 dev br0");
    ip(host, "link set br0 up");
    ip(host, &format!("link set {} master br0", host.interface()));
    let ended = capture.end();
    assert_given_back(&ended, host, "is a port of br0 (bridge) now");
    assert!(ended.summary()["ledger"]["delivered"].as_u64() >= Some(200), "{}", ended.summary());
    assert_eq!(answers(sender, "198.18.0.2"), 5);
}

#[test]
fn net_an_interface_that_gets_an_address_while_captured_is_the_hosts() {
    let (testbed, capture) = free("net_an_interface_that_gets_an_address_while_captured_is_the_hosts");
    let (sender, host) = (testbed.sender(), testbed.receiver());
    ip(host, &format!("address add 198.18.0.2/24 dev {}", host.interface()));
    assert_given_back(&capture.end(), host, "has the host's address 198.18.0.2 now");
    assert_eq!(answers(sender, "198.18.0.2"), 5);
}

#[test]
fn net_a_sensor_gives_an_interface_back_and_a_station_goes_on_by_sockets() {
    let test = "net_a_sensor_gives_an_interface_back_and_a_station_goes_on_by_sockets";
    let testbed = testbed(test, TestbedConfig::default());
    let (sender, host) = (testbed.sender(), testbed.receiver());
    let folder = tempfile::tempdir().unwrap();
    for program in ["sensor", "trap"] {
        ip(host, &format!("address flush dev {}", host.interface()));
        let rules = folder.path().join("rules");
        std::fs::write(&rules, "alert udp any any -> any any (msg:\"x\"; content:\"x\"; sid:1;)\n").unwrap();
        let store = folder.path().join("store");
        let mut command = host.command(RINGTAP);
        command.args([program, "-i", host.interface(), "--json"]);
        match program {
            "sensor" => command.args(["--flows", "1024", "-S", rules.to_str().unwrap()]),
            _ => command.args(["--spool", "1MiB", "--store", store.to_str().unwrap()]),
        };
        let mut running = Capture::of(host, command);
        assert!(eventually(|| xdp_program(host).is_some()), "{program}");
        ip(host, &format!("address add 198.18.0.2/24 dev {}", host.interface()));
        running.wait_for("has the host's address 198.18.0.2 now");
        if program == "trap" {
            assert_eq!(answers(sender, "198.18.0.2"), 5);
            running.signal(Signal::SIGINT);
        }
        let ended = running.end();
        assert_eq!(ended.code(), i32::from(program == "sensor"), "{}", ended.stderr);
        assert_eq!(xdp_program(host), None);
        assert_eq!(answers(sender, "198.18.0.2"), 5);
    }
}

#[test]
fn net_a_sensor_and_a_station_go_on_with_a_renamed_interface_and_tell_of_one_that_is_moved_away() {
    let test = "net_a_sensor_and_a_station_go_on_with_a_renamed_interface";
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "alert udp any any -> any any (msg:\"x\"; content:\"needle\"; sid:1;)\n").unwrap();
    for (program, backend) in [("sensor", "xdp"), ("sensor", "packet"), ("trap", "xdp"), ("trap", "packet")] {
        let testbed = testbed(test, TestbedConfig::default());
        let host = testbed.receiver();
        let (_program, pid) = elsewhere(host);
        let mut command = host.command(RINGTAP);
        command.args([program, "-i", host.interface(), "--json", "--backend", backend]);
        let store = folder.path().join(backend);
        match program {
            "sensor" => command.args(["--flows", "1024", "-S", rules.to_str().unwrap()]),
            _ => command.args(["--spool", "1MiB", "--store", store.to_str().unwrap()]),
        };
        let mut running = Capture::of(host, command);
        if program == "sensor" {
            running.wait_for("watching");
        } else {
            assert!(eventually(|| std::fs::read_dir(format!("/proc/{}/task", running.id()))
                .unwrap()
                .flatten()
                .any(|task| std::fs::read_to_string(task.path().join("comm"))
                    .is_ok_and(|it| it.trim() == "ringtap-station"))));
        }
        testbed.enable_receiver_napi().unwrap();
        ip(host, &format!("link set {} name renamed0", host.interface()));
        let [from, to] = [testbed.sender().link().ipv4, host.link().ipv4];
        let frame = ipv4(17, from.octets(), to.octets(), 0, &udp(5000, 162, b"needle"));
        send_frames(&testbed, &[frame]);
        std::thread::sleep(Duration::from_millis(300));
        ip(host, &format!("link set renamed0 netns {pid}"));
        running.wait_for("moved to another network namespace");
        if program == "trap" {
            running.signal(Signal::SIGINT);
        }
        let ended = running.end();
        assert_eq!(ended.code(), i32::from(program == "sensor"), "{program} {backend}: {}", ended.stderr);
        let summary = ended.summary();
        let seen = if program == "sensor" { &summary["alerts"] } else { &summary["ledger"]["delivered"] };
        assert_eq!(*seen, 1, "{program} {backend}: {summary}");
    }
}

#[test]
fn net_capture_goes_on_when_its_interface_is_renamed() {
    for backend in ["xdp", "packet"] {
        let testbed = testbed("net_capture_goes_on_when_its_interface_is_renamed", TestbedConfig::default());
        let host = testbed.receiver();
        let (old, new) = (host.interface(), "renamed0");
        let capture = Capture::start(&testbed, &["--backend", backend, "--direction", "in"]);
        testbed.enable_receiver_napi().unwrap();
        send_numbered(&testbed, 20e3, 200);
        ip(host, &format!("link set {old} name {new}"));
        send_numbered(&testbed, 20e3, 200);
        let ended = capture.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert!(summary["ledger"]["delivered"].as_u64() >= Some(400), "{backend}: {summary}");
        assert_eq!(summary["ledger"]["unaccounted"], 0, "{backend}: {summary}");
        let setting = |name: &str| {
            let path = format!("/sys/class/net/{new}/{name}");
            host.run(|| std::fs::read_to_string(path).unwrap()).unwrap().trim().to_owned()
        };
        assert_eq!((setting("napi_defer_hard_irqs"), setting("gro_flush_timeout")), ("0".into(), "0".into()));
        ip(host, &format!("link set {new} name {old}"));
        assert_clean(&testbed);
    }
}

#[test]
fn net_capture_ends_when_its_interface_is_moved_away() {
    for backend in ["xdp", "packet"] {
        let testbed = testbed("net_capture_ends_when_its_interface_is_moved_away", TestbedConfig::default());
        let host = testbed.receiver();
        let (_program, pid) = elsewhere(host);
        let capture = Capture::start(&testbed, &["--backend", backend]);
        testbed.enable_receiver_napi().unwrap();
        send_numbered(&testbed, 20e3, 200);
        ip(host, &format!("link set {} netns {pid}", host.interface()));
        let ended = capture.end();
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        let last = ended.stderr.lines().last().unwrap();
        assert!(last.contains("moved to another network namespace"), "{backend}: {last}");
        assert_eq!(ended.summary()["ending"], "interface_gone");
        let there = Command::new("nsenter").args(["-t", &pid, "-n", "ip", "-d", "link"]).output().unwrap();
        let there = String::from_utf8_lossy(&there.stdout).into_owned();
        assert!(there.contains(host.interface()) && !there.contains("xdp"), "{backend}: {there}");
        assert!(there.contains("promiscuity 0"), "{backend}: {there}");
    }
}

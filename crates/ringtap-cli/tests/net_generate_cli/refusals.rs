//! What is refused: places that are no testbed, and requests that make no sense or can't be carried out.

use std::process::Command;

use super::support::{BINARY, output, start_as, testbed, texts};

/// One line that starts with the program's name and has all words; nothing on standard output.
fn refused(ended: &std::process::Output, code: i32, words: &[&str], line: &str) {
    let (out, err) = texts(ended);
    assert_eq!((ended.status.code(), out.as_str()), (Some(code), ""), "{line}: {err}");
    assert!(err.starts_with("ringtap: ") && err.lines().count() == 1, "{line}: {err}");
    for word in words {
        assert!(err.contains(word), "{line}: {word:?} missing: {err}");
    }
}

/// Nothing is sent here: no --yes-really.
#[test]
fn net_generate_cli_refuses_the_real_network() {
    for line in ["--rate 1 --count 1", "--rate 1 --count 1 --backend ring --to 127.0.0.1 --to-mac 02:00:00:00:00:01"] {
        let ended = Command::new(BINARY).args(["generate", "-i", "lo"]).args(line.split(' ')).output().unwrap();
        refused(&ended, 2, &["generate on lo", "not in a network namespace made by Ringtap", "--yes-really"], line);
    }
    let ended = Command::new(BINARY).args(["generate", "-i", "lo", "--replay", "/no/such/file"]).output().unwrap();
    refused(&ended, 2, &["generate on lo", "--yes-really"], "replay");
}

#[test]
fn net_generate_cli_refuses_bad_input() {
    let testbed = testbed("net_generate_cli_refuses_bad_input");
    let interface = testbed.sender().interface();
    for (line, code, words) in [
        // What it is about.
        ("--count 1", 2, ["no rate given", "--rate 148k"]),
        ("--rate 100M --count 1", 2, ["100000000 packets per second", "use 1 to 20M"]),
        ("--rate 0.5 --count 1", 2, ["0.5 packets per second", "use 1 to 20M"]),
        ("--rate 1k --count 1 --size 12", 2, ["size 12", "use 64 to"]),
        ("--rate 1k --count 1 --size 64,1515", 2, ["size 1515", "its MTU 1500 allows 1514"]),
        ("--rate 1k --count 1 --size 1519 --vlan 5", 2, ["size 1519", "its MTU 1500 allows 1518"]),
        ("--rate 1k --count 1 --size 83 --to 2001:2::2", 2, ["size 83", "use 84 to"]),
        ("--rate 1k --count 1 --size 9999", 2, ["size 9999", "to 3300"]),
        ("--rate 1k --count 1 --vlan 4096", 2, ["VLAN 4096", "use 0 to 4095"]),
        ("--rate 1k --count 1 --flows 0", 2, ["0 flows", "use at least one"]),
        ("--rate 1k --count 1 --from-port 65000 --flows 1000", 2, ["1000 flows", "ports up to 65535"]),
        ("--rate 1k --count 1 --to 2001:2::2 --from 198.18.0.1", 2, ["different families", "198.18.0.1"]),
        // What contradicts itself.
        ("--rate 1k --burst-length 4", 2, ["--burst-length", "--pattern burst"]),
        ("--rate 1k --burst-rate 9k", 2, ["--burst-rate", "--pattern burst"]),
        ("--rate 9k --pattern burst --burst-rate 1k", 2, ["burst rate 1000 below mean rate 9000", "higher rate"]),
        ("--rate 1k --ramp-to 4k", 2, ["--ramp-to", "--pattern ramp"]),
        ("--rate 1k --pattern ramp --duration 1s", 2, ["--ramp-to is missing", "--duration TIME"]),
        ("--rate 1k --pattern ramp --ramp-to 4k", 2, ["--duration is missing", "--ramp-to RATE"]),
        ("--rate 1k --pace fast", 2, ["--pace", "--replay"]),
        ("--rate 1k --loop 2", 2, ["--loop", "--replay"]),
        ("--replay x.pcap --rate 1k --pace 2x", 2, ["--pace", "--rate"]),
        ("--replay x.pcap --size 64", 2, ["--size", "--replay"]),
        ("--replay x.pcap --count 64", 2, ["--count", "--replay"]),
        ("--replay x.pcap --to 10.0.0.1", 2, ["--to", "--replay"]),
        ("--replay x.pcap --backend kernel", 2, ["--backend kernel", "--backend ring"]),
    ] {
        for backend in ["", " --backend ring"] {
            let backend = if line.contains("--backend") { "" } else { backend };
            let arguments = format!("generate -i {interface} {line}{backend}");
            refused(&output(start_as(testbed.sender(), "", &arguments)), code, &words, &arguments);
        }
    }
    // What clap reads.
    for (line, word) in [
        ("--rate 0", "is no traffic"),
        ("--rate x", "is no rate"),
        ("--rate 1k --count 0", "above 0"),
        ("--rate 1k --size 0", "is nothing"),
        ("--rate 1k --duration 10", "has no unit"),
        ("--rate 1k --to-mac 1:2", "is no MAC address"),
        ("--rate 1k --to nowhere", "it is no address"),
        ("--rate 1k --priority 100", "100 is not in 0..=99"),
        ("--rate 1k --backend xdp", "auto, kernel or ring"),
        ("--replay x --pace 0x", "is no pace"),
        ("--replay x --loop 0", "above 0"),
    ] {
        let ended = output(start_as(testbed.sender(), "", &format!("generate -i {interface} {line}")));
        let (out, err) = texts(&ended);
        assert_eq!((ended.status.code(), out.as_str()), (Some(2), ""), "{line}: {err}");
        assert!(err.contains(word), "{line}: {word:?} missing: {err}");
    }
}

#[test]
fn net_generate_cli_refuses_what_the_system_does_not_allow() {
    let testbed = testbed("net_generate_cli_refuses_what_the_system_does_not_allow");
    let (host, interface) = (testbed.sender(), testbed.sender().interface());
    let run = |line: &str, code, words: &[&str]| refused(&output(start_as(host, "", line)), code, words, line);
    run("generate -i nosuch0 --rate 1k --count 1", 1, &["open interface nosuch0: ", "no such interface", interface]);
    // The loopback of a testbed goes nowhere, and has nobody at the other end.
    run("generate -i lo --rate 1k --count 1", 2, &["generate on lo", "no destination given", "--to ADDRESS"]);
    run("generate -i lo --rate 1k --count 1 --to 127.0.0.1", 2, &["no MAC address given for 127.0.0.1", "--to-mac"]);
    let line = format!("generate -i {interface} --rate 1k --count 1");
    let powerless = "--bounding-set=-all --inh-caps=-all";
    for backend in ["auto", "ring"] {
        let line = format!("{line} --backend {backend}");
        refused(&output(start_as(host, powerless, &line)), 1, &["EPERM", "CAP_NET_RAW", interface], &line);
    }
    let ip = |line: &str| {
        let done = host.run(|| Command::new("ip").args(line.split(' ')).status().unwrap().success());
        assert!(done.unwrap(), "ip {line}");
    };
    ip(&format!("link set {interface} down"));
    for backend in ["kernel", "ring"] {
        // The neighbours go with the link: the destination is given.
        let to = "--to 198.18.0.2 --to-mac 02:00:00:00:00:02 --from 198.18.0.1";
        run(&format!("{line} {to} --backend {backend}"), 1, &[interface, "it is down", "ip link set dev"]);
    }
}

//! What an operator reads when a command is refused: one line each with object, place, cause and way out, in plain English. Without
//! a network; what an interface refuses is in `net_capture_refusals`.

mod capture_support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use capture_support::{Ended, ringtap};

/// Words of Rust's debug output and of its standard library, which tell nobody anything.
const NOT_ENGLISH: [&str; 8] =
    ["(os error", "Os {", "Some(", "invalid digit", "invalid float", "socket address syntax", "\\u{", "errno "];

/// The last line of standard error, after warnings: it has each of `parts` once and none of [`NOT_ENGLISH`].
fn says(ended: &Ended, code: i32, parts: &[&str]) {
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let line = *lines.last().expect("nothing is said");
    assert!(line.starts_with("ringtap: "), "{}", ended.stderr);
    assert_eq!(ended.code(), code, "{line}");
    for part in parts {
        assert_eq!(line.matches(part).count(), 1, "{part:?} once in: {line}");
    }
    for word in NOT_ENGLISH {
        assert!(!line.contains(word), "{word:?} in: {line}");
    }
}

fn refused(arguments: &str, code: i32, parts: &[&str]) {
    says(&ringtap(&arguments.split(' ').collect::<Vec<_>>()), code, parts);
}

/// A folder with files that are what they should not be.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write("a-file", "", 0o600);
    write("good.rules", "alert tcp any any -> any any (msg:\"x\"; content:\"abc\"; sid:1;)\n", 0o600);
    write("bad.rules", "alert tcp any any -> any any (msg:\"x\"; nonsense:1; sid:1;)\n", 0o600);
    write("bad.toml", "[trap]\nbogus = 1\n", 0o600);
    write("open.toml", "", 0o644);
    write("short.key", "short", 0o600);
    write("byte.pcap", "x", 0o600);
    std::fs::create_dir(folder.path().join("rules")).unwrap();
    write("rules/a.yml", "title: x\ncorrelation:\n  type: foo\n", 0o600);
    folder
}

fn at(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn values_that_are_none_are_told_from_those_there_are() {
    // It sends nothing through DPDK.
    refused("split -i lo -o a.pcapng --backend dpdk", 2, &["--backend", "dpdk"]);
    for command in ["forward a a --backend dpdk", "forward a a --both --backend dpdk"] {
        refused(command, 2, &["send to a", "it is a itself: a loop"]);
    }
    refused("split -i lo -o a.pcapng --seed x", 2, &["--seed", "'x'", "no whole number"]);
    refused("capture -i lo --alpha1 x", 2, &["--alpha1", "'x'", "no number", "0.5"]);
    refused("capture -i lo --n1 99999999999999999999999", 2, &["--n1", "too great"]);
    refused("plan --cpu x", 2, &["--cpu", "'x'", "no whole number"]);
    refused("trap --listen here", 2, &["--listen", "'here'", "no ADDRESS:PORT", "192.0.2.1:5514"]);
    refused("trap --metrics here", 2, &["--metrics", "'here'", "no ADDRESS:PORT"]);
    refused("generate -i lo --to 1.2.3", 2, &["--to", "'1.2.3'", "no address", "2001:db8::1"]);
    refused("alarms list --network 300.0.0.5", 2, &["--network", "no network", "192.0.2.0/24"]);
    let within = "alarms maintenance add --for 1h --network 10.0.0.5/8";
    refused(within, 2, &["--network", "an address within its network; give 10.0.0.0/8 or 10.0.0.5"]);
    let then = "alarms maintenance add --for 1h --node a --from yesterday";
    refused(then, 2, &["--from", "no time with its zone", "2026-11-25T22:00:00Z"]);
    let over = "alarms maintenance add --node a --from 2026-11-25T22:00:00Z --until 2026-11-25T21:00:00Z --store .";
    refused(over, 2, &["over before it begins", "a later --until, or how long with --for"]);
    refused("capture -i lo --cpu 999", 2, &["--cpu 999", "may not use that CPU", "choose among 0"]);
    refused("plan --cpu 999", 2, &["--cpu 999", "may not use that CPU", "choose among 0"]);
    for command in ["capture -i lo", "plan"] {
        refused(&format!("{command} --max-latency 5s"), 2, &["--max-latency 5s", "out of range", "give 10us to 1s"]);
    }
}

#[test]
fn options_that_do_not_go_together_or_are_not_there_name_the_way_out() {
    refused("capture -r x.pcap -i lo", 2, &["--read", "--interface", "leave one of them out"]);
    refused("alarms bogus", 2, &["'bogus'", "; --help has those there are"]);
    refused("capture -i lo --rotate-kep 3", 2, &["'--rotate-kep'", "; a similar argument exists: '--rotate-keep'"]);
    refused("capture -i lo -i lo", 2, &["open lo: ", "it is named twice", "name each interface once"]);
}

#[test]
fn options_that_would_do_nothing_are_refused_with_the_way_out() {
    let alarms = |arguments: &str, parts: &[&str]| refused(&format!("alarms {arguments}"), 2, parts);
    alarms("export --json", &["--json", "its lines are JSON without it", "leave it out"]);
    alarms("clear 3 --json", &["--json", "`alarms clear`", "leave it out"]);
    alarms("list --raw", &["--raw with `alarms list`", "`ringtap alarms show ID --raw`"]);
    alarms("ack 3 --mibs .", &["--mibs", "`alarms ack`", "no names are looked up"]);
    alarms("maintenance end 3 --json", &["--json", "`alarms maintenance`"]);
    alarms("ack 3 --incidents", &["use --incidents: ", "that is done with alarms"]);
    alarms("list --incidents --node x", &["--incidents", "only --severity"]);
}

#[test]
fn files_that_are_not_there_or_not_ours_are_named_with_the_way_out() {
    let folder = folder();
    let at = |name: &str| at(folder.path(), name);
    let (good, nosuch) = (at("good.rules"), at("nosuch"));
    let sensor = |rest: &str| format!("sensor --replay x.pcap -S {good} {rest}");
    let absent = "ENOENT (No such file or directory); name one that exists";
    for arguments in [
        format!("sensor --replay x.pcap -S {nosuch}"),
        sensor(&format!("--classification {nosuch}")),
        sensor(&format!("--config {nosuch}")),
        format!("trap --listen 127.0.0.1:0 --store {} --config {nosuch}", at("store")),
        format!("trap --listen 127.0.0.1:0 --store {} --mibs {nosuch}", at("store")),
        format!("correlate --check-rules --rules {nosuch}"),
    ] {
        refused(&arguments, 1, &[&nosuch, absent]);
    }
    let open = at("open.toml");
    refused(
        &format!("trap --listen 127.0.0.1:0 --store {} --config {open}", at("store")),
        1,
        &["read the configuration", "0644", &format!("chmod 600 {open}")],
    );
    refused(
        &format!("trap --listen 127.0.0.1:0 --store {} --config {}", at("store"), at("bad.toml")),
        2,
        &["bad.toml:2: ", "unknown field `bogus`", "`ringtap trap --help` shows what is in it"],
    );
    let alarms = format!(
        "sensor -i lo -S {good} --sensor-id a --alarm-via lo --alarm-to 02:00:00:00:00:01@192.0.2.9:5171 --alarm-from \
         192.0.2.1:5514 --key"
    );
    refused(&format!("{alarms} {nosuch}"), 1, &["read the key", &nosuch, absent]);
    refused(&format!("{alarms} {}", folder.path().display()), 1, &["read the key", "EISDIR", "name a file"]);
    refused(&format!("{alarms} {}", at("short.key")), 2, &["short.key", "NUMBER:HEXDIGITS"]);
    for command in [
        format!("trap --listen 127.0.0.1:0 --store {}", at("a-file")),
        format!("trap --listen 127.0.0.1:0 --store {}", at("a-file/x")),
    ] {
        refused(&command, 1, &["open the store", "a-file", "name a folder"]);
    }
    refused(
        &format!("capture -i lo --backend pcap --pcap-library {nosuch}"),
        1,
        &["load libpcap", &nosuch, "No such file", "name a libpcap's shared library"],
    );
    refused(&format!("capture -r {}", at("byte.pcap")), 1, &["byte.pcap", "name a pcap or pcapng file"]);
}

#[test]
fn addresses_that_are_not_ours_are_told_by_name() {
    let folder = folder();
    // TEST-NET-1 (RFC 5737): no host has it.
    for option in [
        "--listen 192.0.2.9:9999",
        "--listen 127.0.0.1:0 --syslog-tcp 192.0.2.9:9999",
        "--listen 127.0.0.1:0 --metrics 192.0.2.9:9999",
    ] {
        let trap = format!("trap --duration 1s --store {} {option}", at(folder.path(), "store"));
        refused(&trap, 1, &["192.0.2.9:9999", "EADDRNOTAVAIL", "give an address of this host"]);
    }
}

#[test]
fn rules_of_which_none_is_usable_start_nothing() {
    let folder = folder();
    let at = |name: &str| at(folder.path(), name);
    let (bad, rules) = (at("bad.rules"), at("rules"));
    refused(
        &format!("sensor --replay x.pcap -S {} -S {bad} --strict", at("good.rules")),
        1,
        &["use all rules of", "1 of them are not used", "nonsense is not supported", "leave --strict out"],
    );
    refused(
        &format!("correlate --rules {rules} --read {}", at("a-file")),
        1,
        &["use rules of", "no rule of 1 files is usable", "a.yml:3", "--check-rules"],
    );
}

/// One that does nothing is a slip that nobody would see.
#[test]
fn options_that_would_do_nothing_are_refused() {
    let conflict = |command: &str, mode: &str, option: &str| {
        let name = option.split(' ').next().unwrap();
        refused(&format!("{command} {option}"), 2, &[&format!("'{name}"), mode, "leave one of them out"]);
    };
    let of_interfaces =
        ["--max-latency 2ms", "--peak-rate 1M", "--backend xdp", "--queues 1", "--cpu 0", "--priority 1"];
    let of_capture = "--wait timer,--period 1ms,--threshold 1k,--napi-pacing off,--alpha1 0.5,--alpha2 0.5,--n1 1,--n2 2,--take,\
        --xdp native,--frame-size 2KiB,--huge-pages,--direction in,--ring 64,--no-promiscuous,--pcap-library x,\
        --dpdk-args x,--dpdk-library x";
    for option in of_interfaces.into_iter().chain(of_capture.split(',')) {
        conflict("capture -r x.pcap", "--read", option);
    }
    for option in of_interfaces.into_iter().chain(["--stats 1s", "--dpdk-args x", "--dpdk-library x"]) {
        conflict("sensor --replay x.pcap", "--replay", option);
    }
    let of_sensor = "--profile,--budget 9,--flows 9,--overlap bsd,--midstream,--no-checksums,--eve -,--syslog udp:192.0.2.1:514,--queue 9,\
        --duration 1s,--correlate rules,--max-latency 2ms,--user nobody,--no-sandbox";
    for option in of_sensor.split(',') {
        conflict("sensor --check-rules x.rules", "--check-rules", option);
    }
    for option in
        "--store x,--explain,--json,--config x,--disorder 1s,--memory 1GiB,--stats 1s,--duration 1s,--output x"
            .split(',')
    {
        conflict("correlate --rules x --check-rules", "--check-rules", option);
        conflict("correlate --test x.toml", "--test", option);
    }
    conflict("correlate --rules x --read y", "--read", "--silence 1s");
    for mode in ["--render", "--plots"] {
        for option in "--quick,--full,--all,--resume,--only idle,--rates 1k,--rounds 2,--run 1s,--receivers x,--soaker,--define x,--trial 1M,--json".split(',') {
            conflict(&format!("bench --out x {mode}"), mode, option);
        }
    }
    for option in
        "--only idle,--all,--resume,--quick,--rates 1k,--rounds 2,--run 1s,--trial 1M,--soaker,--define x".split(',')
    {
        conflict("bench --out x --soak 1M", "--soak ", option);
    }
    for option in
        "--burst-length 2,--burst-rate 2k,--ramp-to 2k,--pace fast,--loop 2,--from 192.0.2.1,--from-port 9,--flows 2,\
        --stream 2,--backend ring"
            .split(',')
    {
        conflict("generate -i lo --rate 1k --count 9 --traps core-router-fails", "--traps", option.trim());
    }
}

#[test]
fn options_that_belong_to_another_one_ask_for_it() {
    let asks = |arguments: &str, other: &str| refused(arguments, 2, &["were not provided", other]);
    asks("capture -i lo --spool 1MiB", "--write");
    for option in ["--sensor-id north", "--epoch-file x"] {
        asks(&format!("sensor -i lo {option}"), "--alarm-lines <TARGET>|--kafka <HOST:PORT[,…]>|--correlate");
    }
    asks("sensor -i lo --key x", "--alarm-to <MAC@ADDRESS:PORT>|--alarm-lines");
    asks("sensor -i lo --correlate rules --key x", "--alarm-to <MAC@ADDRESS:PORT>|--alarm-lines");
    asks("sensor -i lo --correlate-memory 1GiB", "--correlate <RULES>");
    asks("sensor -i lo --correlate rules --correlate-log-size 1GiB", "--correlate-store");
    asks("correlate --rules x --listen 127.0.0.1:0 --gap-wait 1s", "--sensors");
    asks("correlate --rules x --sensors 127.0.0.1:0 --config /dev/null --format eve", "--read <FILE>...|--listen");
    asks("bench --out x --soak-rate 1M", "--soak <COUNT>");
    for option in ["--events flow", "--with-alerts packet"] {
        asks(&format!("sensor -i lo -S x {option}"), "--eve <FILE>|--eve-socket <PATH>");
    }
    for option in ["--trap-version v1", "--nodes 9", "--community x"] {
        asks(&format!("generate -i lo --rate 1k {option}"), "--traps");
    }
    let replay = "sensor --replay x.pcap --correlate rules --epoch-file x";
    refused(replay, 2, &["--epoch-file", "promise nothing", "add --alarm-lines"]);
    let traps = "generate -i lo --rate 1k --count 9 --traps core-router-fails --config x";
    refused(traps, 2, &["--config", "only traps of v3", "--trap-version v3"]);
    for option in ["--max-latency 1ms", "--ring 64", "--take", "--napi-pacing 50us"] {
        let command = format!("pcap-run --backend system {option} -- true");
        refused(&command, 2, &[option.split(' ').next().unwrap(), "has no use for it", "leave it out"]);
    }
    refused("pcap-run --backend packet --take -- true", 2, &["--take", "has no use for it"]);
    for option in ["--out-backend xdp", "--out-ring 128"] {
        let command = format!("split -i lo -o a.pcapng {option}");
        refused(&command, 2, &[option.split(' ').next().unwrap(), "no output is an interface", "leave it out"]);
    }
    refused("split -i lo -o lo --spool 1MiB", 2, &["--spool", "no output is a file", "leave it out"]);
    refused("bench --out x --only idle --rates 1k", 2, &["--rates", "rates, sensor, station", "by --only"]);
    refused("bench --out x --only sensor --trial 5000", 2, &["--trial", "capacity, ring", "by --only"]);
    refused("bench --out x --only napi --soaker", 2, &["--soaker", "is to run: rates", "by --only"]);
}

#[test]
fn sizes_below_which_nothing_would_be_kept_are_refused() {
    let least = |arguments: &str, least: &str| {
        let option = arguments.split(' ').rev().nth(1).unwrap();
        refused(arguments, 2, &[option, &format!("give {least} or more")]);
    };
    least("trap --buffer 1", "64KiB");
    least("trap --buffer 65535", "64KiB");
    least("trap --output x --output-rotate 1", "4KiB");
    least("sensor -i lo --eve x --eve-rotate 4095", "4KiB");
    least("capture -i lo -w x --rotate-size 1", "4KiB");
    least("sensor -i lo -S x --pcap-log alerts --pcap-file x --pcap-rotate-size 1", "4KiB");
    least("capture -i lo -w x --keep 1s --keep-size 65535", "64KiB");
    refused("capture -i lo -w x --keep-size 1GiB", 2, &["--keep <TIME>"]);
    for arguments in ["trap --keep-size 1", "correlate --rules x --listen 127.0.0.1:0 --store x --keep-size 1048575"] {
        least(arguments, "1MiB");
    }
    for option in ["--memory 1", "--log-size 1"] {
        least(&format!("correlate --rules x --listen 127.0.0.1:0 --store x {option}"), "1MiB");
    }
    for option in ["--correlate-memory 1", "--correlate-log-size 1"] {
        least(&format!("sensor -i lo --correlate x --correlate-store x {option}"), "1MiB");
    }
}

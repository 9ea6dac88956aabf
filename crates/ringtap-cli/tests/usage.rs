//! What can be refused without a network: absurd options and broken files, each in one line and with its exit code.

mod capture_support;

use std::io::Write;

use capture_support::{RINGTAP, ringtap};
use serde_json::Value;

/// One line that names the value and the way out, whether clap refuses it or we do.
fn assert_usage(arguments: &[&str], parts: &[&str]) {
    let ended = ringtap(arguments);
    assert_eq!(ended.code(), 2, "{arguments:?}: {}", ended.stderr);
    let is_one_line = ended.stderr.starts_with("ringtap: ") && ended.stderr.trim_end().lines().count() == 1;
    assert!(is_one_line, "{arguments:?}: {}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} in {}", ended.stderr);
    }
    assert!(ended.stdout.is_empty());
}

#[test]
fn absurd_options_are_refused_with_the_way_out() {
    let capture = |arguments: &[&str], parts: &[&str]| {
        assert_usage(&[&["capture", "-i", "no-such-if0"], arguments].concat(), parts);
    };
    capture(&["--threshold", "0"], &["no traffic", "8.3k"]);
    capture(&["--threshold", "8k:"], &["--threshold", "no time"]);
    capture(&["--period", "0us"], &["no time at all", "250us"]);
    capture(&["--period", "122"], &["no unit", "122us"]);
    capture(&["--max-latency", "-1ms"], &["unexpected argument '-1'"]);
    capture(&["--max-latency", "5us"], &["--max-latency", "10us to 1s"]);
    capture(&["--peak-rate", "2G"], &["each nanosecond"]);
    capture(&["--ring", "0"], &["above 0"]);
    capture(&["--count", "0"], &["above 0"]);
    capture(&["--snaplen", "0"], &["is nothing"]);
    capture(&["--snaplen", "5GiB"], &["--snaplen", "no packet is that long"]);
    capture(&["--spool", "12x"], &["no unit of size", "64KiB"]);
    capture(&["--cpu", "3-1"], &["runs backwards", "0-3,5"]);
    capture(&["--queues", "0"], &["no queue", "0-0"]);
    capture(&["--queues", "some"], &["no number of queues"]);
    capture(&["--priority", "100"], &["0..=99"]);
    capture(&["--wait", "lazily"], &["hybrid", "interrupt"]);
    capture(&["--stats", "0s"], &["no time at all"]);
    capture(&["--pace", "2x"], &["--read"]);
    capture(&["-r", "x.pcap"], &["cannot be used with"]);
    capture(&["--wait", "interrupt", "--period", "1ms"], &["has no timer", "leave it out"]);
    capture(&["--wait", "timer", "--threshold", "1k"], &["--wait timer has none"]);
    capture(&["--wait", "windowed", "--alpha1", "0.1"], &["--wait hybrid"]);
    capture(&["--wait", "windowed", "--threshold", "1k:1ms"], &["one threshold"]);
    for backend in ["packet", "vfio"] {
        capture(&["--xdp", "generic", "--backend", backend], &["--xdp", "does not use XDP"]);
    }
    for option in ["--dpdk-args", "--dpdk-library"] {
        capture(&[option, "x", "--backend", "vfio"], &[option, "through DPDK", "--backend dpdk"]);
    }
    capture(&["--direction", "inout", "--backend", "dpdk"], &["--direction inout", "incoming packets only"]);
    capture(&["--rotate-size", "1MiB"], &["--write"]);
    capture(&["-w", "x.pcap", "--comment", "x"], &["no comment", "pcapng"]);
    capture(&["-w", "-", "--json"], &["standard output"]);
    capture(&["-f", "udp", "tcp"], &["cannot be used with"]);
    for backend in ["packet", "socket", "pcap"] {
        capture(&["--huge-pages", "--backend", backend], &["--huge-pages", "--backend xdp"]);
    }
    assert_usage(&["capture", "-r", "x.pcap", "--huge-pages"], &["--huge-pages", "--read", "leave one of them out"]);
    for (option, value) in [("--take", None), ("--napi-pacing", Some("50us"))] {
        capture(&[&[option][..], value.as_slice(), &["--backend", "packet"]].concat(), &[option, "leave it out"]);
    }
    capture(&["--direction", "inout", "--backend", "xdp"], &["--direction inout", "incoming packets only", "packet"]);
    for (option, ours) in [("-n", "tcpdump -r -"), ("-G", "--rotate-time"), ("-Z", "--user"), ("-B", "--ring")] {
        capture(&[option, "1"], &[option, ours]);
    }
    assert_usage(&["capture", "-i", "any"], &["libpcap's name", "--backend pcap"]);
    assert_usage(&["capture"], &["--interface", "--read"]);
    assert_usage(&["capture", "-r", "x.pcap", "--pace", "0x"], &["no pace", "2x"]);
    assert_usage(&["capture", "-r", "x.pcap", "--backend", "xdp"], &["--backend", "--read", "leave one of them out"]);
    assert_usage(&["caputre"], &["capture"]);
}

#[test]
fn an_unknown_interface_is_named_with_those_there_are() {
    ringtap(&["capture", "-i", "no-such-if0"])
        .assert_refused(1, &["no-such-if0", "no such interface", "choose one of: lo"]);
}

#[test]
fn a_card_is_named_by_its_pci_address() {
    for address in ["eth1", "ffff:ff:1f.7", "../../..", ""] {
        ringtap(&["capture", "--backend", "vfio", "-i", address])
            .assert_refused(1, &["there is none at this address", "0000:02:00.0"]);
    }
    // A bridge is no card.
    let is_bridge = |entry: &std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("class")).is_ok_and(|class| class.starts_with("0x06"))
    };
    let bridge = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten().find(is_bridge);
    if let Some(name) = bridge.and_then(|entry| entry.file_name().into_string().ok()) {
        ringtap(&["capture", "--backend", "vfio", "-i", &name])
            .assert_refused(1, &[&name, "not known here", "82576 and 82574"]);
    }
}

/// A classic capture file of `packets` packets of 60 bytes.
fn pcap(packets: u32) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for number in 0..packets {
        bytes.extend(words(&[1_700_000_000 + number, 0, 60, 60]));
        bytes.extend([0x55; 60]);
    }
    bytes
}

#[test]
fn broken_files_are_named_with_the_offset_and_what_was_good_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let copy = folder.path().join("copy.pcapng");
    let copy = copy.to_str().unwrap();

    let whole = pcap(10);
    let cut = write("cut.pcap", &whole[..whole.len() - 7]);
    let ended = ringtap(&["capture", "-r", &cut, "-w", copy, "--json", "--spool", "64KiB"]);
    ended.assert_refused(1, &["cut.pcap", "is cut at byte", "packet 10", "9 packets before it were read"]);
    let summary = ended.summary();
    assert_eq!((&summary["record"]["packets"], &summary["ledger"]["unaccounted"]), (&9.into(), &0.into()), "{summary}");
    let again = ringtap(&["capture", "-r", copy, "--json"]);
    assert_eq!((again.code(), &again.summary()["packets"]), (0, &9.into()));

    let one = |path: &str, parts: &[&str]| ringtap(&["capture", "-r", path]).assert_refused(1, parts);
    one(&write("empty.pcap", b""), &["empty.pcap", "is empty"]);
    one(&write("text.pcap", b"hello world, no capture"), &["text.pcap", "not a capture file"]);
    one("/no/such/file.pcap", &["/no/such/file.pcap", "ENOENT"]);
    one(folder.path().to_str().unwrap(), &["is a directory"]);
    let good = write("good.pcap", &whole);
    let bad_filter = ringtap(&["capture", "-r", &good, "udp", "porrt", "53"]);
    bad_filter.assert_refused(2, &["udp porrt 53", "pcap-filter(7)"]);
    let some = ringtap(&["capture", "-r", &good, "-c", "4", "-s", "50", "-w", copy, "--json", "--spool", "64KiB"]);
    assert_eq!((some.code(), &some.summary()["packets"]), (0, &4.into()), "as in tcpdump: {}", some.stderr);
    let two = ringtap(&["capture", "-r", &good, "-r", &good, "--json"]);
    assert_eq!(two.summary()["packets"], 20);
}

#[test]
fn results_without_a_reader_are_no_reason_for_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcap");
    std::fs::write(&path, pcap(3)).unwrap();
    for arguments in [format!("capture -r {}", path.display()), "--help".to_owned(), "doctor".to_owned()] {
        let script = format!("set -o pipefail; {RINGTAP} {arguments} 2>&1 >&3 3>&- | cat >&2");
        let output = std::process::Command::new("bash")
            .args(["-c", &format!("exec 3> >(exec true); sleep 0.1; {script}")])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("panicked") && !text.contains("Broken pipe"), "{arguments}: {text}");
    }
}

#[test]
fn doctor_tells_each_thing_and_what_follows() {
    let ended = ringtap(&["doctor", "--json", "lo"]);
    let report: Value =
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stderr));
    let findings = report["findings"].as_array().unwrap();
    for name in [
        "kernel",
        "CAP_NET_RAW",
        "locked memory",
        "XDP sockets",
        "RT throttling",
        "clock source",
        "CPUs",
        "machine",
        "isolated CPUs",
        "time",
        "state",
        "AF_XDP",
    ] {
        assert!(findings.iter().any(|finding| finding["name"] == name), "{name} in {report}");
    }
    for finding in findings.iter().filter(|finding| ["limit", "broken"].contains(&finding["state"].as_str().unwrap())) {
        assert!(finding["consequence"].is_string(), "{finding}");
    }
}

#[test]
fn doctor_writes_a_bundle_without_secrets() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (bundle, config) = (path("report.tar"), path("ringtap.toml"));
    std::fs::write(&config, "[trap]\ncommunities = [\"s3cret\"]\n").unwrap();
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o600)).unwrap();
    let arguments = ["doctor", "lo", "--bundle", &bundle, "--config", &config];
    let ended = ringtap(&arguments);
    assert!(ended.stderr.contains("report.tar"), "{}", ended.stderr);
    let archive = String::from_utf8_lossy(&std::fs::read(&bundle).unwrap()).into_owned();
    for part in ["ringtap-doctor/findings.json", "isolated CPUs", "communities = [\"***\"]", "softnet_stat"] {
        assert!(archive.contains(part), "{part}");
    }
    assert!(!archive.contains("s3cret"));
    let again = ringtap(&arguments);
    assert!(again.code() == 1 && again.stderr.contains("name a new file"), "{}", again.stderr);
    assert_usage(&["doctor", "--config", &config], &["--bundle"]);
}

/// Another file for it would be as small, and so on until the stack is used up.
#[test]
fn a_packet_beyond_the_limit_of_file_size_ends_a_rotated_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut file: Vec<u8> =
        [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
    for len in [60u32, 60_000, 60] {
        file.extend([1, 0, len, len].iter().flat_map(|word| word.to_ne_bytes()));
        file.extend(vec![2; len as usize]);
    }
    std::fs::write(path("in.pcap"), file).unwrap();
    let command = "ulimit -f 16; exec \"$0\" capture -r \"$1\" -w \"$2\" --rotate-size 1GiB";
    let arguments = ["-c", command, RINGTAP, &path("in.pcap"), &path("out.pcapng")];
    let ended = std::process::Command::new("sh").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("EFBIG"), "{:?} {said}", ended.status);
    // The limit's unit is the shell's: a file or two, and the input.
    assert!(std::fs::read_dir(folder.path()).unwrap().count() <= 4);
}

#[test]
fn every_command_has_a_manual_page_with_its_examples() {
    ringtap(&["man", "--out", "/proc/no"]).assert_refused(1, &["/proc/no", "name a folder"]);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(ringtap(&["man", "--out", folder.path().to_str().unwrap()]).code(), 0);
    let entries = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    let pages: Vec<(String, String)> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
        .collect();
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["ringtap.1", "ringtap-capture.1", "ringtap-trap-top.1", "ringtap-alarms-list.1"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("-man.") || name.contains("-help.")), "{names:?}");
    for (name, text) in &pages {
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"] {
            let is_there = text.contains(&format!(".SH {section}")) || text.contains(&format!(".SH \"{section}\""));
            assert!(is_there, "{name}: {section}");
        }
        assert!(name != "ringtap-capture.1" || text.contains(".SH EXAMPLES"));
        let has_lines = text.contains("\n.nf\n[trap]\ncommunities");
        assert!(name != "ringtap-trap.1" || has_lines, "the configuration is set line by line: {text}");
        assert!(name != "ringtap-trap-top.1" || text.contains("ringtap trap top"), "{text}");
    }
}

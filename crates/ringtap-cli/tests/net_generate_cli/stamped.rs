//! Stamped traffic: what arrives is what the report says, when the pattern says.

use super::support::{Listener, code_and_report, output, report, start, start_as, testbed, texts};
use ringtap_testbed::{Stamp, WireCounters};
use serde_json::Value;

fn stamps(packets: &[Vec<u8>]) -> Vec<Stamp> {
    packets.iter().map(|packet| Stamp::from_frame(packet).unwrap_or_else(|| panic!("no stamp: {packet:x?}"))).collect()
}

fn number(report: &Value, field: &str) -> f64 {
    report.pointer(field).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {field} in {report}"))
}

#[test]
fn net_generate_cli_sends_what_it_reports() {
    let testbed = testbed("net_generate_cli_sends_what_it_reports");
    testbed.enable_receiver_napi().unwrap();
    for backend in ["kernel", "ring", "auto"] {
        let before = WireCounters::read(&testbed).unwrap();
        let listener = Listener::start(&testbed);
        let line = "--rate 20k --count 3k --size 64,128,1514 --flows 3 --port 7777 --from-port 5000 --stream 9";
        let report = report(&testbed, &format!("{line} --backend {backend}"), 0);
        let packets = listener.finish();
        // Whoever sends does not hear that the other end's queue of 256 was full: its CPU may be kept from it.
        let on_the_wire = WireCounters::read(&testbed).unwrap().drops_since(&before);
        assert_eq!(report["backend"], if backend == "ring" { "ring" } else { "kernel" }, "{report}");
        for field in ["asked", "sent", "accepted"] {
            assert_eq!(report[field], 3000, "{field} of {report}");
        }
        assert_eq!(report["refused"], serde_json::json!({ "queue_full": 0, "not_ready": 0 }));
        assert_eq!((report["complete"].clone(), report["interrupted"].clone()), (true.into(), false.into()));
        assert_eq!(packets.len() as u64 + on_the_wire.known(), 3000, "{on_the_wire:?}: {report}");
        assert_eq!(report["bytes"], 1000 * (64 + 128 + 1514), "{report}");
        let (from, to) = (testbed.sender().link(), testbed.receiver().link());
        let stamps = stamps(&packets);
        assert!(stamps.is_sorted_by(|a, b| a.seq < b.seq), "order");
        for (packet, stamp) in packets.iter().zip(stamps) {
            assert!(stamp.stream == 9 && stamp.seq < 3000, "{stamp:?}");
            let index = stamp.seq as usize;
            assert_eq!(packet.len(), [64, 128, 1514][index % 3]);
            assert_eq!((&packet[..6], &packet[6..12]), (&to.mac[..], &from.mac[..]));
            assert_eq!((&packet[26..30], &packet[30..34]), (&from.ipv4.octets()[..], &to.ipv4.octets()[..]));
            let ports = [u16::from_be_bytes([packet[34], packet[35]]), u16::from_be_bytes([packet[36], packet[37]])];
            assert_eq!(ports, [5000 + index as u16 % 3, 7777]);
        }
    }
}

#[test]
fn net_generate_cli_keeps_a_low_rate() {
    let testbed = testbed("net_generate_cli_keeps_a_low_rate");
    testbed.enable_receiver_napi().unwrap();
    for backend in ["kernel", "ring"] {
        let listener = Listener::start(&testbed);
        let report = report(&testbed, &format!("--rate 5k --count 2500 --backend {backend}"), 0);
        let stamps = stamps(&listener.finish());
        assert_eq!(stamps.len(), 2500);
        let span_s = (stamps[2499].time_ns - stamps[0].time_ns) as f64 / 1e9;
        assert!((number(&report, "/duration_s") - span_s).abs() < 1e-6, "{report}: {span_s} by the stamps");
        assert!((number(&report, "/achieved_pps") * span_s / 2499.0 - 1.0).abs() < 1e-6);
        // A busy machine makes packets late, and the report says by how much; nothing else may change the rate.
        let stolen_us = number(&report, "/lateness_us/max") + number(&report, "/slipped_us");
        let allowed = 2.0 + stolen_us / 1e6 / span_s * 100.0;
        let error = number(&report, "/rate_error_percent");
        assert!(error.abs() < allowed && error < 2.0, "{error} %, {allowed} % allowed: {report}");
        assert!((number(&report, "/achieved_pps") / 5e3 * 100.0 - 100.0 - error).abs() < 0.1, "{report}");
    }
}

#[test]
fn net_generate_cli_patterns() {
    let testbed = testbed("net_generate_cli_patterns");
    testbed.enable_receiver_napi().unwrap();
    for backend in ["kernel", "ring"] {
        let run = |line: &str| {
            let listener = Listener::start(&testbed);
            let (code, report) = code_and_report(&testbed, &format!("{line} --backend {backend}"));
            let stamps = stamps(&listener.finish());
            assert_eq!(report["sent"], stamps.len(), "{report}");
            assert_eq!(code == 0, report["complete"] == true, "{report}");
            let times: Vec<f64> = stamps.iter().map(|stamp| (stamp.time_ns - stamps[0].time_ns) as f64).collect();
            (report, times)
        };
        let (report, times) = run("--pattern burst --burst-length 10 --burst-rate 100k --rate 1k --count 200");
        assert_eq!(times.len(), 200);
        let late_ns = (number(&report, "/lateness_us/max") + number(&report, "/slipped_us")) * 1e3 + 1e3;
        for (index, time) in times.iter().enumerate() {
            let due = (index / 10 * 10_000_000 + index % 10 * 10_000) as f64;
            assert!((due - 1e3..due + late_ns).contains(time), "packet {index}: {time} ns, due {due}: {report}");
        }
        let (report, times) = run("--pattern ramp --rate 1k --ramp-to 9k --duration 300ms");
        if report["complete"] == true {
            assert!(times.len().abs_diff(1500) <= 15, "{report}");
            let late_ns = (number(&report, "/lateness_us/max") + number(&report, "/slipped_us")) * 1e3 + 1e3;
            // Half way through the time it has sent 450 of 1500.
            let half = times.iter().position(|&time| time > 150e6).unwrap();
            let fewer = (late_ns / 150e6 * 1500.0) as usize;
            assert!((440 - fewer.min(440)..=460).contains(&half), "{half} in the first half: {report}");
        } else {
            // The machine had no time for it, and the report says so.
            assert!(times.len() < 1500 && report["shortfall"].is_string(), "{report}");
        }
        let (report, times) = run("--pattern poisson --rate 5k --count 2000");
        assert_eq!(times.len(), 2000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let short = gaps.iter().filter(|&&gap| gap < 100_000.0).count() as f64 / gaps.len() as f64;
        // 1 − exp(−1/2) of exponential intervals are below half their mean; equal intervals never are.
        assert!(short > 0.3, "{short} short intervals: {report}");
    }
}

#[test]
fn net_generate_cli_addresses() {
    let testbed = testbed("net_generate_cli_addresses");
    for (line, size, parts) in [
        (
            "--to 2001:2::2",
            84,
            [(12, "86dd"), (22, "20010002000000000000000000000001"), (38, "20010002000000000000000000000002")],
        ),
        (
            "--from 2001:2::77",
            84,
            [(12, "86dd"), (22, "20010002000000000000000000000077"), (38, "20010002000000000000000000000002")],
        ),
        (
            "--to 10.9.8.7 --from 10.1.1.1 --to-mac 02:00:00:00:00:99 --from-mac 02-00-00-00-00-98 --vlan 77",
            68,
            [(0, "020000000099020000000098"), (12, "8100004d0800"), (30, "0a0101010a090807")],
        ),
    ] {
        let listener = Listener::start(&testbed);
        let report = report(&testbed, &format!("--rate 5k --count 20 --backend ring {line}"), 0);
        let packets = listener.finish();
        assert_eq!((packets.len(), &report["accepted"]), (20, &20.into()), "{line}");
        stamps(&packets);
        for packet in &packets {
            assert_eq!(packet.len(), size, "the smallest that holds the stamp");
            let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
            for (at, wanted) in parts {
                assert_eq!(&hex[2 * at..2 * at + wanted.len()], wanted, "{line}: {hex}");
            }
        }
    }
}

#[test]
fn net_generate_cli_ends_on_sigint_with_its_report() {
    let testbed = testbed("net_generate_cli_ends_on_sigint_with_its_report");
    testbed.enable_receiver_napi().unwrap();
    for backend in ["kernel", "ring"] {
        let listener = Listener::start(&testbed);
        let mut program = start(&testbed, &format!("--rate 2k --count 1M --json --backend {backend}"));
        listener.wait_for(50);
        let mut out = program.child().stdout.take().unwrap();
        let status = program.interrupt().unwrap();
        let report: Value = serde_json::from_reader(&mut out).unwrap();
        let packets = listener.finish();
        assert_eq!(status.code(), Some(0), "{report}");
        assert_eq!((&report["interrupted"], &report["complete"]), (&true.into(), &false.into()));
        assert_eq!((&report["sent"], &report["accepted"]), (&packets.len().into(), &packets.len().into()), "{report}");
    }
}

#[test]
fn net_generate_cli_says_when_less_was_sent() {
    let testbed = testbed("net_generate_cli_says_when_less_was_sent");
    // Nothing at the other end takes redirected packets.
    let refused = output(start(&testbed, "--rate 10k --count 100 --backend kernel"));
    let (out, err) = texts(&refused);
    assert_eq!(refused.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("--backend ring needs neither") && out.contains("accepted   0"), "{out}");
    // More than any core can make in the time.
    let report = report(&testbed, "--rate 20M --duration 200ms --backend ring", 1);
    assert_eq!((&report["complete"], &report["interrupted"]), (&false.into(), &false.into()));
    assert!(report["shortfall"].as_str().is_some_and(|text| text.contains("could not reach the rate")), "{report}");
    assert!(number(&report, "/achieved_pps") < 20e6 && number(&report, "/sent") < 4e6, "{report}");
}

#[test]
fn net_generate_cli_falls_back_to_the_ring_and_says_so() {
    let testbed = testbed("net_generate_cli_falls_back_to_the_ring_and_says_so");
    testbed.enable_receiver_napi().unwrap();
    let line = format!("generate -i {} --priority 0 --rate 5k --count 200", testbed.sender().interface());
    let without_bpf = "--bounding-set=-sys_admin,-bpf,-perfmon";
    let listener = Listener::start(&testbed);
    let ended = output(start_as(testbed.sender(), without_bpf, &line));
    let (out, err) = texts(&ended);
    assert_eq!(ended.status.code(), Some(0), "{out}{err}");
    assert_eq!(listener.finish().len(), 200);
    assert!(out.contains("200 of 200 packets") && out.contains("from a transmit ring"), "{out}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("ringtap: no in-kernel generator") && err.contains("CAP_BPF"), "{err}");
    // Insisted on, it is an error.
    let ended = output(start_as(testbed.sender(), without_bpf, &format!("{line} --backend kernel")));
    let (out, err) = texts(&ended);
    assert_eq!((ended.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("CAP_BPF"), "{err}");
}

#[test]
fn net_generate_cli_text_report() {
    let testbed = testbed("net_generate_cli_text_report");
    let ended = output(start(&testbed, "--rate 10k --count 500 --backend ring"));
    let (out, err) = texts(&ended);
    assert_eq!((ended.status.code(), err.as_str()), (Some(0), ""), "{out}");
    for part in
        ["sent       500 of 500 packets", "accepted   500\n", "refused    0\n", "10.0 kpps asked", "p50", "p99", "max"]
    {
        assert!(out.contains(part), "{part:?} missing in {out}");
    }
}

/// Two plain interfaces, one command: no address, no XDP program and no GRO anywhere.
#[test]
fn net_generate_cli_needs_nothing_to_be_told_on_a_plain_veth() {
    let testbed = testbed("net_generate_cli_needs_nothing_to_be_told_on_a_plain_veth");
    let host = testbed.sender();
    let ip = |host: &ringtap_testbed::Host, line: &str| {
        let output = host.run(|| std::process::Command::new("ip").args(line.split(' ')).output().unwrap()).unwrap();
        assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    ip(host, "link add plain0 type veth peer name plain1");
    ip(host, "link set plain0 up");
    ip(host, "link set plain1 up");
    let ended = output(start_as(host, "", "generate -i plain0 --rate 5k --count 200 --json"));
    let (out, err) = texts(&ended);
    assert_eq!(ended.status.code(), Some(0), "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["sent"], &report["accepted"]), (&200.into(), &200.into()), "{report}");
    assert!(err.contains("takes nothing from the in-kernel generator"), "{err}");
    let statistics: Value = serde_json::from_str(&ip(host, "-s -json link show dev plain1")).unwrap();
    assert!(statistics[0]["stats64"]["rx"]["packets"].as_u64().unwrap() >= 200, "{statistics}");

    // The other end in another namespace.
    let index = host.link().index;
    let address = host.run(|| ringtap::netlink::veth_peer_address(index)).unwrap().unwrap().unwrap();
    assert_eq!(address, testbed.receiver().link().mac);

    // No veth: the neighbour is asked for its MAC address.
    let (ours, theirs) = (host.interface(), testbed.receiver().interface());
    ip(host, &format!("link add link {ours} name mv0 type macvlan mode bridge"));
    ip(host, "link set mv0 up");
    ip(host, "address add 10.77.0.1/24 dev mv0");
    ip(testbed.receiver(), &format!("address add 10.77.0.2/24 dev {theirs}"));
    ip(testbed.receiver(), &format!("link set dev {theirs} arp on"));
    ip(host, "link set dev mv0 arp on");
    let line = "generate -i mv0 --rate 5k --count 100 --to 10.77.0.2 --backend ring --json";
    let listener = Listener::start(&testbed);
    let ended = output(start_as(host, "", line));
    let (out, err) = texts(&ended);
    assert_eq!(ended.status.code(), Some(0), "{out}{err}");
    let stamped = listener.finish().iter().filter(|packet| Stamp::from_frame(packet).is_some()).count();
    assert_eq!(stamped, 100, "beside the question and the answer");
}

//! What `ringtap capture` serves: with --pcap-over-ip a client gets what is captured, as a file that others read; it is counted, and
//! loses nobody a packet. With --metrics Prometheus gets the account.

mod capture_support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use capture_support::{Capture, assert_clean, folder, packets_in, send_numbered, testbed, tool};
use ringtap_testbed::TestbedConfig;

#[test]
fn net_capture_serves_clients_by_tcp() {
    const TEST: &str = "net_capture_serves_clients_by_tcp";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let host = testbed.receiver();
    for (backend, more) in [("packet", &["--user", "nobody"][..]), ("xdp", &[])] {
        let (_folder, got) = folder();
        let arguments = ["--backend", backend, "--pcap-over-ip", "57012"];
        let capture = Capture::start(&testbed, &[&arguments[..], more].concat());
        let mut client = host.command("bash");
        client.args(["-c", "exec 3<>/dev/tcp/127.0.0.1/57012 && exec cat <&3 >\"$0\""]).arg(&got);
        client.stdin(Stdio::null());
        let mut client = host.start(client).unwrap();
        let began = Instant::now();
        while got.metadata().map_or(0, |found| found.len()) < 24 {
            assert!(began.elapsed() < Duration::from_secs(20), "a header comes before any packet");
            std::thread::sleep(Duration::from_millis(20));
        }
        send_numbered(&testbed, 50e3, 1000);
        let ended = capture.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        assert!(client.child().wait().unwrap().success());
        assert_eq!(packets_in(TEST, &got), 1000, "{backend}");
        let precision = tool(TEST, "capinfos", &["-t", got.to_str().unwrap()]);
        assert!(precision.contains("nanosecond"), "{precision}");
        let summary = ended.summary();
        let clients = serde_json::json!({ "served": 1, "too_slow": 0, "refused": 0 });
        assert_eq!(summary["record"]["clients"], clients, "{summary}");
        assert_eq!((&summary["ledger"]["delivered"], &summary["ledger"]["lost"]), (&1000.into(), &0.into()));
        assert!(ended.stderr.contains("TCP@127.0.0.1:57012"), "{}", ended.stderr);
        assert_clean(&testbed);
    }
}

#[test]
fn net_capture_serves_its_account_to_prometheus() {
    const TEST: &str = "net_capture_serves_its_account_to_prometheus";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let host = testbed.receiver();
    let (_folder, file) = folder();
    let more =
        ["--backend", "xdp", "--metrics", "127.0.0.1:9189", "--web", "127.0.0.1:9190", "-w", file.to_str().unwrap()];
    let capture = Capture::start(&testbed, &more);
    send_numbered(&testbed, 50e3, 1000);
    let interface = host.interface().to_owned();
    let ask = || {
        let mut stream = TcpStream::connect("127.0.0.1:9189").unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let labels = format!("{{interface=\"{interface}\"}}");
    let expected = [
        format!("ringtap_capture_delivered_total{labels} 1000"),
        format!("ringtap_capture_offered_total{labels} 1000"),
        format!("ringtap_capture_filtered_total{labels} 0"),
        format!("ringtap_capture_dropped_total{{interface=\"{interface}\",cause=\"ring_full\"}} 0"),
        format!("ringtap_capture_unaccounted{labels} 0"),
        format!("ringtap_capture_up{labels} 1"),
        "ringtap_capture_written_total 1000".to_owned(),
        "ringtap_capture_to_handling_seconds_count 1000".to_owned(),
    ];
    let began = Instant::now();
    let text = loop {
        let text = host.run(ask).unwrap();
        if expected.iter().all(|line| text.lines().any(|of| of == line)) {
            break text;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{expected:#?} {text}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(text.contains("application/openmetrics-text; version=1.0.0") && text.ends_with("# EOF\n"), "{text}");
    assert!(text.contains("ringtap_capture_engine_cpu_seconds_total{engine=\"0\"}"), "{text}");
    // The same of its page, on a terminal that is none.
    let top =
        || Command::new(capture_support::RINGTAP).args(["top", "127.0.0.1:9190", "--count", "2"]).output().unwrap();
    let shown = host.run(top).unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success() && text.matches(&format!("ringtap capture  {interface}")).count() == 2, "{text}");
    assert!(text.contains("Nothing lost: 1,000 packets came.") && text.contains("lost: ring_full"), "{text}");
    assert_eq!(capture.interrupt().code(), 0);
    // A file is read before anybody would ask.
    for option in ["--metrics", "--web"] {
        let mut command = Command::new(capture_support::RINGTAP);
        let refused = command.args(["capture", "-r", "a.pcap", option, "127.0.0.1:9189"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{option}");
    }
    // Nobody answers any more.
    let gone = host.run(top).unwrap();
    assert!(gone.status.code() == Some(1) && String::from_utf8_lossy(&gone.stderr).contains("127.0.0.1:9190"));
    assert_clean(&testbed);
}

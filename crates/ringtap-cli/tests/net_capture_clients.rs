//! `ringtap capture --pcap-over-ip`: a client gets what is captured, as a file that others read; it is counted, and loses nobody a packet.

mod capture_support;

use std::process::Stdio;
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

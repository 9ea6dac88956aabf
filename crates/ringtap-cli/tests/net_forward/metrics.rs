//! What it serves to Prometheus while it runs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::capture_support::{Capture, RINGTAP, ip};
use crate::wires::{NUMBERS, Wires};
use crate::{TestbedConfig, WAYS};

const METRICS: &str = "127.0.0.1:9188";

/// What is served, asked for in the forwarder's network namespace.
fn metrics(wires: &Wires) -> String {
    let ask = || {
        let mut stream = TcpStream::connect(METRICS).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    wires.host().run(ask).unwrap()
}

/// The value of a metric with these labels.
fn value(text: &str, metric: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn net_metrics_tell_both_directions_and_the_engines_use() {
    const TEST: &str = "net_metrics_tell_both_directions_and_the_engines_use";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        ip(wires.host(), "link set lo up");
        let forward = wires.start(&[&way[..], &["--both", "--metrics", METRICS]].concat());
        wires.send_there(0, 3_000, 10e3);
        wires.send_back(0, 2_000, 10e3);
        let (a, b) = (wires.host().interface(), wires.near());
        let there = format!("{{from=\"{a}\",to=\"{b}\"}}");
        let back = format!("{{from=\"{b}\",to=\"{a}\"}}");
        let of = |text: &str, name: &str, labels: &str| value(text, &format!("ringtap_forward_{name}{labels}"));
        // What is served was seen up to a quarter of a second before.
        let until = Instant::now() + Duration::from_secs(10);
        let text = loop {
            let text = metrics(&wires);
            if of(&text, "forwarded_total", &back) == Some(2_000.0) {
                break text;
            }
            assert!(Instant::now() < until, "{text}");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert!(text.contains("application/openmetrics-text; version=1.0.0") && text.ends_with("# EOF\n"), "{text}");
        for (labels, count) in [(&there, 3_000.0), (&back, 2_000.0)] {
            for name in ["offered_total", "received_total", "forwarded_total", "time_inside_seconds_count"] {
                assert_eq!(of(&text, name, labels), Some(count), "{name} {labels}: {text}");
            }
        }
        assert_eq!(of(&text, "to_handling_seconds_count", ""), Some(5_000.0), "{text}");
        assert!(of(&text, "engine_cpu_seconds_total", "{engine=\"0\"}").is_some_and(|used| used > 0.0), "{text}");
        assert_eq!(of(&text, "up", &format!("{{interface=\"{b}\"}}")), Some(1.0), "{text}");
        ip(wires.host(), &format!("link set {b} down"));
        forward.wait_for("is down");
        wires.send_there(3_000, 500, 10e3);
        std::thread::sleep(Duration::from_millis(600));
        let text = metrics(&wires);
        let down = format!("{{from=\"{a}\",to=\"{b}\",cause=\"link_down\"}}");
        assert_eq!(of(&text, "dropped_total", &down), Some(500.0), "{text}");
        assert_eq!(of(&text, "up", &format!("{{interface=\"{b}\"}}")), Some(0.0), "{text}");
        assert_eq!(forward.interrupt().code(), 0);
    }
}

#[test]
fn net_an_address_that_is_taken_is_refused_before_anything_is_opened() {
    const TEST: &str = "net_an_address_that_is_taken_is_refused_before_anything_is_opened";
    let wires = Wires::new(TEST, TestbedConfig::default());
    ip(wires.host(), "link set lo up");
    let _taken = wires.host().run(|| std::net::TcpListener::bind(METRICS).unwrap()).unwrap();
    let before = wires.state();
    let mut command = wires.host().command(RINGTAP);
    command.args(["forward", wires.host().interface(), wires.near(), "--metrics", METRICS]).args(NUMBERS);
    Capture::of(wires.host(), command).end().assert_refused(1, &["serve metrics at", METRICS]);
    assert_eq!(wires.state(), before);
}

//! Accounts at an end that comes from outside, while packets are in the rings.

use std::time::Duration;

use crate::capture_support::{Capture, ip};
use crate::wires::Wires;
use crate::{TestbedConfig, assert_sum};

/// Rings are looked at each second, so that they hold packets whenever the end comes.
const SELDOM: [&str; 6] = ["--period", "1s", "--threshold", "1", "--ring", "16384"];

#[test]
fn net_the_second_ports_account_is_whole_when_the_host_takes_that_port() {
    const TEST: &str = "net_the_second_ports_account_is_whole_when_the_host_takes_that_port";
    let wires = Wires::new(TEST, TestbedConfig::default());
    for round in 0..3u8 {
        let mut command = wires.host().command(crate::capture_support::RINGTAP);
        command.args(["forward", wires.host().interface(), wires.near(), "--backend", "xdp", "--both", "--json"]);
        command.args(SELDOM);
        let forward = Capture::of(wires.host(), command);
        forward.wait_for("forwarding ");
        let address = format!("10.9.{round}.9/24 dev {}", wires.near());
        std::thread::scope(|scope| {
            scope.spawn(|| wires.send_back(0, 4_000, 4e3));
            std::thread::sleep(Duration::from_millis(600));
            ip(wires.host(), &format!("address add {address}"));
        });
        let ended = forward.end();
        ip(wires.host(), &format!("address del {address}"));
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("forward {}", wires.near())), "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(summary["ending"], "port_gone", "{summary}");
        for direction in 0..2 {
            let of = &summary["directions"][direction];
            assert_sum(of);
            assert_eq!(of["ledger"]["delivered"], of["account"]["received"], "round {round}: {of}");
        }
        assert_eq!(summary["latency_us"]["count"], crate::forwarded(&summary, 1), "{summary}");
        assert!(crate::forwarded(&summary, 1) > 100, "{summary}");
    }
}

//! Accounts at an end that comes from outside, while packets are in the rings.

use std::time::Duration;

use crate::capture_support::{Capture, ip};
use crate::wires::Wires;
use crate::{TestbedConfig, WAYS, assert_sum};

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

/// While packets come both ways.
#[test]
fn net_a_port_removed_under_load_ends_the_run_and_one_made_anew_is_forwarded_again() {
    const TEST: &str = "net_a_port_removed_under_load_ends_the_run_and_one_made_anew_is_forwarded_again";
    for way in WAYS {
        let mut wires = Wires::new(TEST, TestbedConfig::default());
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        std::thread::scope(|scope| {
            scope.spawn(|| wires.send_there(0, 10_000, 10e3));
            std::thread::sleep(Duration::from_millis(500));
            ip(wires.host(), &format!("link del {}", wires.near()));
        });
        let ended = forward.end();
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        let summary = ended.summary();
        assert_eq!(summary["ending"], "port_gone", "{summary}");
        for direction in 0..2 {
            let account = &summary["directions"][direction]["account"];
            let of = |name: &str| account[name].as_u64().unwrap();
            assert_eq!(of("received"), of("forwarded") + of("dropped") + of("beyond_count"), "{way:?}: {summary}");
        }
        // The port that stayed has its whole account.
        assert_sum(&summary["directions"][0]);
        wires.renew();
        let (there, back) = (wires.sink_at_far(), wires.sink_at_sender());
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        wires.send_there(0, 1_000, 10e3);
        wires.send_back(0, 1_000, 10e3);
        let summary = forward.interrupt().summary();
        (0..2).for_each(|direction| assert_sum(&summary["directions"][direction]));
        assert_eq!((there.end().stamped.len(), back.end().stamped.len()), (1_000, 1_000), "{way:?}: {summary}");
    }
}

#[test]
fn net_a_carrier_that_comes_and_goes_under_load_loses_by_cause_and_in_order() {
    const TEST: &str = "net_a_carrier_that_comes_and_goes_under_load_loses_by_cause_and_in_order";
    for way in WAYS {
        let wires = Wires::new(TEST, TestbedConfig::default());
        let there = wires.sink_at_far();
        let forward = wires.start(&[&way[..], &["--both"]].concat());
        let far = wires.far().host();
        std::thread::scope(|scope| {
            scope.spawn(|| wires.send_there(0, 20_000, 10e3));
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(200));
                ip(far, &format!("link set {} down", far.interface()));
                forward.wait_for("no carrier");
                std::thread::sleep(Duration::from_millis(200));
                ip(far, &format!("link set {} up", far.interface()));
                forward.wait_for("is up again");
            }
        });
        wires.send_there(20_000, 1_000, 10e3);
        let ended = forward.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        assert_sum(&summary["directions"][0]);
        let direction = &summary["directions"][0];
        assert_eq!(direction["account"]["received"], 21_000, "{way:?}: {summary}");
        assert!(direction["drops"]["link_down"].as_u64().is_some_and(|count| count > 100), "{way:?}: {summary}");
        let numbers: Vec<u64> = there.end().stamped.iter().map(|(number, _)| *number).collect();
        assert!(numbers.is_sorted() && numbers.windows(2).all(|pair| pair[0] < pair[1]), "{way:?}: order");
        assert!(
            numbers.len() as u64 <= crate::forwarded(&summary, 0)
                && numbers.ends_with(&(20_000..21_000).collect::<Vec<_>>()),
            "{summary}"
        );
    }
}

//! The schedule once more, in plain floating point: when each packet of a profile is due. Test oracle.
//!
//! The stamps of real packets are held against it: none early, and late exactly as the report says, whatever the machine is
//! doing beside the test.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use super::schedule::exponential_factors;
use super::{GeneratorBackend, GeneratorConfig, Pattern, Profile};
use crate::stamp::Stamp;
use crate::testbed::{Testbed, TestbedConfig};

/// Nanoseconds from the first packet on, for at most `count` packets.
pub(super) fn due_times_ns(profile: &Profile, seed: u64, count: usize) -> Vec<f64> {
    let factors = exponential_factors();
    let mut random = seed | 1;
    let (mut times, mut start) = (Vec::new(), 0.0);
    for segment in &profile.segments {
        let length = segment.duration.map_or(f64::INFINITY, |duration| duration.as_nanos() as f64);
        let (mut at, mut position) = (0.0, 0);
        while at < length && times.len() < count && segment.pattern != Pattern::Silence {
            times.push(start + at);
            position += 1;
            at += match segment.pattern {
                Pattern::Constant { pps } => 1e9 / pps,
                Pattern::Poisson { pps } => {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    1e9 / pps * factors[(random >> 20) as usize % factors.len()] as f64 / 65536.0
                }
                Pattern::OnOffBurst { pps, burst_len, burst_pps } if position % burst_len == 0 => {
                    burst_len as f64 * 1e9 / pps - (burst_len - 1) as f64 * 1e9 / burst_pps
                }
                Pattern::OnOffBurst { burst_pps, .. } => 1e9 / burst_pps,
                Pattern::Ramp { from_pps, to_pps } => 1e9 / (from_pps + (to_pps - from_pps) * at / length),
                Pattern::Silence => length,
            };
        }
        start += length;
    }
    times
}

fn intervals(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn poisson_is_memoryless() {
    let times = due_times_ns(&Profile::endless(Pattern::Poisson { pps: 1e5 }), 42, 100_000);
    let gaps = intervals(&times);
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean / 1e4 - 1.0).abs() < 0.02, "mean {mean}");
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "deviation {}", variance.sqrt());
    // Neighbours know nothing of each other.
    let pairs = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / gaps.len() as f64;
    assert!((pairs / variance).abs() < 0.02, "correlation {}", pairs / variance);
}

#[test]
fn net_packets_leave_when_they_are_due() {
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    testbed.enable_receiver_napi().unwrap();
    let part = Duration::from_millis(150);
    let bursts = Pattern::OnOffBurst { pps: 20e3, burst_len: 32, burst_pps: 500e3 };
    let up = Pattern::Ramp { from_pps: 1e3, to_pps: 50e3 };
    let down = Pattern::Ramp { from_pps: 50e3, to_pps: 1e3 };
    let all = Profile::lasting(up, part)
        .then(Pattern::Silence, part / 3)
        .then(bursts, part)
        .then(down, part)
        .then(Pattern::Constant { pps: 300.0 }, part)
        .then(Pattern::Poisson { pps: 20e3 }, part);
    for profile in [
        Profile::endless(Pattern::Constant { pps: 148e3 }),
        Profile::endless(Pattern::Poisson { pps: 50e3 }),
        Profile::endless(bursts),
        all,
    ] {
        check(&testbed, GeneratorBackend::Kernel, profile.clone(), 16_000);
        check(&testbed, GeneratorBackend::Ring, profile, 16_000);
    }
}

fn check(testbed: &Testbed, backend: GeneratorBackend, profile: Profile, count: usize) {
    let config = GeneratorConfig {
        backend,
        priority: None,
        // However busy the machine is, the schedule stays where it is.
        max_late: Duration::from_secs(60),
        ..GeneratorConfig::for_testbed(testbed, 64, profile.clone())
    };
    let due = due_times_ns(&profile, config.seed, count);
    // The program computes a ramp in whole microseconds and thousandths of packets per second.
    let ramps = profile.segments.iter().any(|segment| matches!(segment.pattern, Pattern::Ramp { .. }));
    let tolerance = if ramps { 50_000.0 } else { 100.0 };

    let address = IpAddr::V4(testbed.receiver().link().ipv4);
    let socket = testbed.receiver().run(|| UdpSocket::bind((address, config.frame.destination_port)).unwrap()).unwrap();
    setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
    let report = testbed.generate(config.count(count as u64)).unwrap().join().unwrap();
    assert_eq!(report.slips, 0);
    if ramps {
        let expected = profile.expected_packets().unwrap();
        assert!((report.stamped as f64 / expected - 1.0).abs() < 0.02, "{report}: {expected} expected");
        assert!(report.stamped.abs_diff(due.len() as u64) <= 2, "{report}: {} due", due.len());
    } else {
        assert_eq!(report.stamped as usize, count);
    }

    // All is in the socket by now: the wire is done when the generator is.
    let mut payload = [0; 64];
    let mut histogram = vec![0; report.lateness.histogram.len()];
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for (seq, due) in due.iter().take(report.stamped as usize).enumerate() {
        let length = socket.recv(&mut payload).unwrap_or_else(|error| panic!("packet {seq} of {report}: {error}"));
        let stamp = Stamp::from_payload(&payload[..length]).unwrap();
        assert_eq!(stamp.seq, seq as u64);
        let late = (stamp.time_ns - report.first_ns) as f64 - due;
        assert!(late > -tolerance, "packet {seq} is {} ns early: {report}", -late);
        assert!(late < report.lateness.max_ns as f64 + tolerance, "packet {seq} is {late} ns late: {report}");
        let late = late.max(0.0) as u64;
        histogram[(64 - late.leading_zeros()) as usize] += 1;
    }
    if !ramps {
        // Above the tolerance both histograms must agree, up to packets at a bucket's border.
        let sum = |buckets: &[u64]| buckets.iter().skip(10).sum::<u64>();
        let (own, told) = (sum(&histogram), sum(&report.lateness.histogram));
        assert!(own.abs_diff(told) <= 20 + told / 4, "{own} late by the stamps, {told} by the report");
    }
}

//! A slow handler beside the kernel's side of reception, on one core and at one priority.

use std::time::Duration;

use ringtap::burst::Packet;
use ringtap::clock;
use ringtap::engine::Handler;
use ringtap::pacer::Policy;
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap::transmit::Outbox;
use ringtap_testbed::trial::{TrialConfig, TruthHandler};
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology};

/// Takes 4 µs for each packet, as a sensor with many rules does.
struct Slow(TruthHandler);

impl AsRef<TruthHandler> for Slow {
    fn as_ref(&self) -> &TruthHandler {
        &self.0
    }
}

impl Handler for Slow {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        let until_ns = clock::monotonic_ns() + 4_000;
        self.0.packet(packet, outbox);
        while clock::monotonic_ns() < until_ns {}
    }
}

/// 150,000 packets/s every 5 ms are 750 at a time, and 3 ms of work: veth's queue of 256 runs over after 1.7 ms of them, unless
/// the NAPI thread gets its turn in between.
#[test]
fn net_a_long_cycle_leaves_napi_its_turn() {
    let config = TestbedConfig { topology: Topology::Host, ..TestbedConfig::default() };
    let testbed = Testbed::new(config).unwrap_or_else(|error| panic!("{error}"));
    let mut receiver = ReceiverConfig::new("", Policy::Timer { period_ns: 5_000_000 });
    receiver.backend = Backend::Xdp;
    receiver.ring_slots = 8192;
    let profile = Profile::lasting(Pattern::Constant { pps: 150_000.0 }, Duration::from_millis(500));
    let traffic = GeneratorConfig::for_testbed(&testbed, 64, profile);
    let config = TrialConfig { receiver, traffic, most_packets: 100_000, soaker: None };
    let (report, _) = testbed.trial_with(config, Slow(TruthHandler::new(100_000)), |_| {}).unwrap();
    assert_eq!(report.ledger.unaccounted(), Some(0), "{}", report.ledger);
    // A hypervisor that takes the core away for a millisecond loses some in any case.
    let lost = report.truth.lost() as f64 / report.generator.stamped as f64;
    assert!(lost < 0.1, "{:.1} % lost: {}", lost * 100.0, report.truth);
}

//! The other way round: the core captures through a libpcap, and that libpcap is ours.

mod support;

use std::time::Duration;

use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::ledger::Cause;
use ringtap::pacer::Policy;
use ringtap::receiver::{Backend, Receiver, ReceiverConfig};
use ringtap::transmit::Outbox;
use ringtap_testbed::{GeneratorConfig, Pattern, Profile};
use support::clients::bench;
use support::our_library;

/// Sleeps at its first packet, if it is to.
struct Sleeper(Option<Duration>);

impl Handler for Sleeper {
    fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        if let Some(pause) = self.0.take() {
            std::thread::sleep(pause);
        }
    }
}

/// Our library has its own device names, which the kernel does not know, and another meaning of ps_recv than the system's:
/// the sum is the same.
#[test]
fn net_the_core_captures_through_our_library() {
    const COUNT: u64 = 20_000;
    let testbed = bench("net_the_core_captures_through_our_library");
    testbed.enable_receiver_napi().unwrap();
    for pause in [None, Some(Duration::from_millis(600))] {
        let device = format!("ringtap:{}?ring=8192&backend=packet", testbed.receiver().interface());
        let mut config = ReceiverConfig::new(device, Policy::Interrupt);
        config.backend = Backend::Pcap;
        config.pcap_library = Some(our_library());
        config.cpus = vec![testbed.config().receiver_core];
        let opened = testbed.receiver().run(|| Receiver::open(config)).unwrap();
        let receiver = opened.unwrap_or_else(|error| panic!("{error}"));
        let library = receiver.descriptions()[0].library.clone().unwrap();
        assert!(library.contains("live capture by Ringtap") && library.contains("libringtap_pcap"), "{library}");
        assert_eq!(receiver.link_type(), Some(1));
        // The library asks the network namespace of the thread that calls it. At 20,000 a second its ring holds 0.4 s, for a
        // machine that looks away; the sleeper sleeps longer.
        let running = testbed.receiver().run(|| receiver.start(vec![Sleeper(pause)]).unwrap()).unwrap();
        let profile = Profile::lasting(Pattern::Constant { pps: 20e3 }, Duration::from_secs(2));
        let traffic = GeneratorConfig::for_testbed(&testbed, 64, profile).count(COUNT);
        let report = testbed.generate(traffic).unwrap().join().unwrap();
        assert_eq!(report.stamped, COUNT, "{report}");
        std::thread::sleep(Duration::from_millis(700));
        let outcome = running.finish().unwrap();
        assert!(outcome.warnings.iter().all(|warning| !warning.contains("no more packets")), "{:?}", outcome.warnings);
        let ledger = &outcome.ledger;
        assert_eq!((ledger.offered, ledger.unaccounted()), (Some(COUNT), Some(0)), "{ledger}");
        let lost = ledger.drops[&Cause::RingFull].unwrap();
        assert_eq!(lost > 0, pause.is_some(), "{ledger}");
        assert_eq!(ledger.delivered + lost, COUNT, "{ledger}");
    }
}

//! Prints what the generator reaches at several rates on this machine.

use std::time::Duration;

use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, WireCounters};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let testbed = Testbed::new(TestbedConfig::default())?;
    testbed.enable_receiver_napi()?;
    println!("{:?}", WireCounters::read(&testbed)?);
    for pps in [10.0, 1e3, 5e3, 20e3, 148e3, 500e3, 1e6, 1.5e6, 2e6, 5e6] {
        let before = WireCounters::read(&testbed)?;
        let profile = Profile::lasting(Pattern::Constant { pps }, Duration::from_secs(1));
        let report = testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile))?.join()?;
        let after = WireCounters::read(&testbed)?;
        println!("{report}");
        println!(
            "    accepted {:?} queue_full {:?} not_ready {:?} calls {} slips {} ({} ns), lateness p50 {} p99 {}; {:?}",
            report.accepted,
            report.queue_full,
            report.not_ready,
            report.calls,
            report.slips,
            report.slipped_ns,
            report.lateness.quantile_ns(0.5),
            report.lateness.quantile_ns(0.99),
            after.drops_since(&before)
        );
        println!("    receiver {:?} -> {:?}", after.receiver.link("rx_packets"), after.receiver.driver);
    }
    Ok(())
}

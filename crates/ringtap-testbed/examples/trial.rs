//! One trial from the command line: `trial TOPOLOGY RATE SECONDS POLICY [PERIOD_US] [THRESHOLD] [RING]`. From the environment: BACKEND (packet,
//! socket), NAPI (its pause, nanoseconds), FRAME (bytes of a frame).

use std::time::Duration;

use ringtap::napi::NapiPause;
use ringtap::pacer::{Hybrid, Policy};
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap_testbed::trial::TrialConfig;
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology};

fn main() -> ringtap::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let get = |i: usize, default: f64| args.get(i).and_then(|a| a.parse::<f64>().ok()).unwrap_or(default);
    let topology = if args[0] == "host" { Topology::Host } else { Topology::Nic };
    let (rate, seconds) = (get(1, 148e3), get(2, 2.0));
    let period_ns = (get(4, 850.0) * 1e3) as u64;
    let policy = match args[3].as_str() {
        "interrupt" => Policy::Interrupt,
        "timer" => Policy::Timer { period_ns },
        "busy" => Policy::Busy,
        _ => Policy::Hybrid(Hybrid::new(get(5, 8e3), period_ns)),
    };
    let testbed = Testbed::new(TestbedConfig { topology, ..TestbedConfig::default() })?;
    let mut receiver = ReceiverConfig::new("", policy);
    receiver.backend = match std::env::var("BACKEND").as_deref() {
        Ok("packet") => Backend::Packet,
        Ok("socket") => Backend::Socket,
        _ => Backend::Xdp,
    };
    receiver.ring_slots = get(6, 32768.0) as u32;
    receiver.frame_size = std::env::var("FRAME").ok().and_then(|v| v.parse().ok());
    receiver.realtime.priority = 60;
    receiver.napi_pause =
        NapiPause::anywhere(std::env::var("NAPI").ok().and_then(|v| v.parse().ok()).unwrap_or(50_000));
    let profile = Profile::lasting(Pattern::Constant { pps: rate }, Duration::from_secs_f64(seconds));
    let traffic = GeneratorConfig::for_testbed(&testbed, 64, profile);
    let report = testbed.trial(TrialConfig {
        receiver,
        traffic,
        most_packets: (rate * seconds * 1.1) as u64 + 1000,
        soaker: None,
    })?;
    println!(
        "sent {} ({:.0} pps, err {:+.4}, shortfall {:?})",
        report.generator.stamped,
        report.generator.achieved_pps,
        report.generator.rate_error,
        report.generator.shortfall
    );
    println!(
        "seq lost {} dup {} reord {} foreign {}",
        report.sequence.lost, report.sequence.duplicates, report.sequence.reordered, report.sequence.foreign
    );
    for burst in report.sequence.loss_bursts.iter().take(8) {
        println!("lost from {} on: {}", burst.first, burst.length);
    }
    println!("ledger {}\ntruth  {}\ndevice {:?}", report.ledger, report.truth, report.device);
    println!(
        "core {:.2}% ({:?}) steal {:?} irq {:?}",
        report.core.used_percent, report.core.headline, report.core.steal_percent, report.core.interrupts
    );
    println!(
        "latency {:?}\ndelivery {:?}\nperiod {:?}\nlate {:?}",
        report.latency_us, report.delivery_us, report.poll_period_us, report.tick_lateness_us
    );
    let c = &report.counters;
    println!(
        "packets {} cycles {} timer {} intr {} empty {} switches {} missed {} ppp {:.1}",
        c.packets,
        c.cycles,
        c.timer_wakes,
        c.interrupt_wakes,
        c.empty_wakes,
        c.mode_switches,
        c.missed_ticks,
        c.packets_per_poll()
    );
    println!("{:?}\nwarnings {:?}", report.source, report.warnings);
    Ok(())
}

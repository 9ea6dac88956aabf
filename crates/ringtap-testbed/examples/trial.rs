//! One trial from the command line, to look at a single point: `cargo run --release -p ringtap-testbed --example trial -- --help`.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use ringtap::napi::NapiPause;
use ringtap::pacer::{Hybrid, Policy};
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap_testbed::trial::TrialConfig;
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology};

/// Sends at a rate and receives it in one way; prints what became of the packets, what it cost and how late they were.
#[derive(Parser)]
struct Args {
    #[arg(long, value_enum, default_value = "nic")]
    topology: TopologyName,
    /// Packets per second
    #[arg(long, default_value_t = 148e3)]
    rate: f64,
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[arg(long, value_enum, default_value = "hybrid")]
    policy: PolicyName,
    /// Of the timer, microseconds
    #[arg(long, default_value_t = 850.0)]
    period_us: f64,
    /// Of the hybrid policy, packets per second
    #[arg(long, default_value_t = 8e3)]
    threshold: f64,
    /// Slots of the ring
    #[arg(long, default_value_t = 32768)]
    ring: u32,
    #[arg(long, value_enum, default_value = "xdp")]
    backend: BackendName,
    /// Bytes of a frame [default: the back end's choice]
    #[arg(long)]
    frame: Option<u32>,
    /// Pause of the kernel's NAPI, nanoseconds
    #[arg(long, default_value_t = 50_000)]
    napi_ns: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum TopologyName {
    Nic,
    Host,
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyName {
    Hybrid,
    Interrupt,
    Timer,
    Busy,
}

#[derive(Clone, Copy, ValueEnum)]
enum BackendName {
    Xdp,
    Packet,
    Socket,
}

fn main() -> ringtap::Result<()> {
    let args = Args::parse();
    let topology = match args.topology {
        TopologyName::Nic => Topology::Nic,
        TopologyName::Host => Topology::Host,
    };
    let period_ns = (args.period_us * 1e3) as u64;
    let policy = match args.policy {
        PolicyName::Hybrid => Policy::Hybrid(Hybrid::new(args.threshold, period_ns)),
        PolicyName::Interrupt => Policy::Interrupt,
        PolicyName::Timer => Policy::Timer { period_ns },
        PolicyName::Busy => Policy::Busy,
    };
    let testbed = Testbed::new(TestbedConfig { topology, ..TestbedConfig::default() })?;
    let mut receiver = ReceiverConfig::new("", policy);
    receiver.backend = match args.backend {
        BackendName::Xdp => Backend::Xdp,
        BackendName::Packet => Backend::Packet,
        BackendName::Socket => Backend::Socket,
    };
    receiver.ring_slots = args.ring;
    receiver.frame_size = args.frame;
    receiver.realtime.priority = 60;
    receiver.napi_pause = NapiPause::anywhere(args.napi_ns);
    let profile = Profile::lasting(Pattern::Constant { pps: args.rate }, Duration::from_secs_f64(args.seconds));
    let traffic = GeneratorConfig::for_testbed(&testbed, 64, profile);
    let report = testbed.trial(TrialConfig {
        receiver,
        traffic,
        most_packets: (args.rate * args.seconds * 1.1) as u64 + 1000,
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

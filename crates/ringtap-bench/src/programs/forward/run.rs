//! One run of a forwarder: sender ── forwarder ── far host, where each frame is numbered and its delay taken.
//!
//! Owns the way from a point to a sample. The far end's NAPI is a kernel thread on the generator's core, and so is what counts there: its
//! arrival stamps are taken by an XDP program, so that a delay ends when the frame has come, not when it was looked at. What comes
//! back to the sender, where both ways are used, is counted by its device.

use std::path::Path;
use std::time::Duration;

use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::histogram::Histogram;
use ringtap::pacer::Policy;
use ringtap::receiver::{Receiver, ReceiverConfig, Running};
use ringtap::transmit::Outbox;
use ringtap::{Backend, Cause, Error, Result};
use ringtap_testbed::peer::TestpmdForwarder;
use ringtap_testbed::{
    DeviceCounters, FarHost, FrameSpec, Generator, GeneratorConfig, GeneratorReport, Host, Pattern, Profile,
    RunningForwarder, SequenceChecker, Stamp, Testbed, TestbedConfig, WireCounters,
};

use super::super::ours::{self, RunningCommand};
use super::{Forwarder, LOST_BACK, LOST_THERE, Point, Traffic, Waits, suits};
use crate::book::{Claims, Sample};
use crate::run::delays;

/// From the last packet sent until the counters are read.
const SETTLING: Duration = Duration::from_millis(300);
/// Slots of the ring at the far end: all that comes while it sleeps.
const SINK_SLOTS: u32 = 32_768;
/// Between two looks there: seldom, as the generator has that core.
const SINK_PERIOD_NS: u64 = 4_000_000;
/// A rate that is never reached: above it the timer would take over; and one that always is.
const NEVER: &str = "1000M";
const ALWAYS: &str = "1";

/// Checks numbers and delays at the far end.
struct Sink {
    checker: SequenceChecker,
    delay: Histogram,
}

impl Handler for Sink {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        let Some(stamp) = Stamp::from_frame(packet.data) else { return self.checker.see_foreign() };
        self.checker.see(stamp.seq);
        if packet.arrival_ns > 0 {
            self.delay.record(packet.arrival_ns.saturating_sub(stamp.time_ns));
        }
    }
}

/// A forwarder at work.
enum Work {
    Ringtap(RunningCommand),
    Testpmd(TestpmdForwarder),
    Kernel { _running: RunningForwarder },
}

fn start(testbed: &Testbed, kind: Forwarder, ringtap: &Path, ports: [&str; 2], both: bool) -> Result<Work> {
    match kind {
        Forwarder::Ringtap(backend, waits) => {
            let core = testbed.config().receiver_core.to_string();
            let mut command = ours::command(testbed, ringtap, "forward");
            command.args(ports).args(["--json", "--cpu", &core, "--backend", backend, "--max-latency", "1ms"]);
            if both {
                command.arg("--both");
            }
            match waits {
                Waits::Hybrid => {}
                Waits::Interrupt => drop(command.args(["--threshold", NEVER])),
                Waits::Timer => drop(command.args(["--threshold", ALWAYS])),
            }
            Ok(Work::Ringtap(RunningCommand::start(testbed, "ringtap forward", command, "forwarding ")?))
        }
        Forwarder::Testpmd(driver, mode) => Ok(Work::Testpmd(TestpmdForwarder::start(testbed, driver, mode, ports)?)),
        Forwarder::Kernel(kind) => Ok(Work::Kernel { _running: kind.start(testbed, ports, both)? }),
    }
}

fn sink(far: &FarHost, core: usize, expected: u64) -> Result<Running<Sink>> {
    let config = ReceiverConfig {
        backend: Backend::Xdp,
        take: true,
        ring_slots: SINK_SLOTS,
        cpus: vec![core],
        ..ReceiverConfig::new(far.host().interface(), Policy::Timer { period_ns: SINK_PERIOD_NS })
    };
    let handler = Sink { checker: SequenceChecker::new(expected), delay: Histogram::default() };
    far.host().run(|| Receiver::open(config)?.start(vec![handler]))?
}

fn arrived(host: &Host) -> Result<u64> {
    let missing = || Error::failed("read the counters of", host.interface(), "it has no rx_packets");
    DeviceCounters::read(host)?.link("rx_packets").ok_or_else(missing)
}

/// Frames of one way, not addressed to the forwarding host.
fn frames(testbed: &Testbed, from: &Host, to: &Host, point: &Point<'_>, traffic: Traffic) -> GeneratorConfig {
    // Longer than it has to be: the count ends it.
    let lasting = Duration::from_secs_f64(traffic.count as f64 / point.pps * 2.0 + 1.0);
    let profile = Profile::lasting(Pattern::Constant { pps: point.pps }, lasting);
    let frame = FrameSpec::ipv4(from.link(), to.link(), traffic.frame_bytes);
    let core = Some(testbed.config().generator_core);
    GeneratorConfig { core, ..GeneratorConfig::new(from.interface(), frame, profile) }.count(traffic.count)
}

pub(super) fn sample(point: &Point<'_>, kind: Forwarder, ringtap: &Path, traffic: Traffic) -> Result<Sample> {
    suits(kind, point.topology)?;
    // Without IPv6, whose reports would count as what came back.
    let config = TestbedConfig { topology: point.topology, ipv6: false, ..TestbedConfig::default() };
    let testbed = Testbed::new(config)?;
    let far = FarHost::behind(&testbed)?;
    let core = testbed.config().generator_core;
    let running = sink(&far, core, traffic.count)?;
    far.place_napi(core)?;
    if traffic.both {
        testbed.place_sender_napi()?;
    }
    let work = start(&testbed, kind, ringtap, [testbed.receiver().interface(), far.near()], traffic.both)?;
    let napi = testbed.place_napi(!matches!(kind, Forwarder::Ringtap("xdp", _)))?;
    let (before, back_before) = (WireCounters::read(&testbed)?, arrived(testbed.sender())?);
    let back = traffic
        .both
        .then(|| {
            let config = frames(&testbed, far.host(), testbed.sender(), point, traffic);
            far.host().run(|| Generator::start(config))?
        })
        .transpose()?;
    let past = testbed.traffic_past(frames(&testbed, testbed.sender(), far.host(), point, traffic), None, || true)?;
    let back: Option<GeneratorReport> = back.map(Generator::join).transpose()?;
    std::thread::sleep(SETTLING);
    let came_back = arrived(testbed.sender())? - back_before;
    let reported = match work {
        Work::Ringtap(command) => Some(command.finish()?),
        Work::Testpmd(program) => program.finish().map(|()| None)?,
        Work::Kernel { .. } => None,
    };
    let outcome = far.host().run(|| running.finish())??;
    let wire = WireCounters::read(&testbed)?.drops_since(&before);
    drop(napi);
    let Some(sink) = outcome.engines.into_iter().next().map(|engine| engine.handler) else {
        return Err(Error::failed("count at", far.host().interface(), "nobody counted"));
    };
    // A full queue of its device is the forwarder's affair, who sends too much at once.
    let before: u64 = [Cause::DriverQueue, Cause::Softnet]
        .iter()
        .filter_map(|cause| outcome.ledger.drops.get(cause).copied().flatten())
        .sum();
    let own = outcome.ledger.lost() - before;
    if own > 0 {
        let cause = format!("it lost {own} frames itself: {}", outcome.ledger);
        return Err(Error::failed("count at", far.host().interface(), cause).way_out("measure on a calmer machine"));
    }
    let there = sink.checker.report(past.generator.stamped);
    let sent_back = back.as_ref().map_or(0, |report| report.stamped);
    // Nothing but that comes to the sender.
    let lost_back = sent_back.saturating_sub(came_back);
    let of = |name: &str| {
        let directions = reported.as_ref()?["directions"].as_array()?;
        directions.iter().map(|direction| direction["account"][name].as_i64()).sum::<Option<i64>>()
    };
    let (sent, lost) = (past.generator.stamped + sent_back, there.lost + lost_back);
    // A rate each way is what the slower of both reached.
    let back_pps = back.as_ref().map_or(f64::INFINITY, |report| report.achieved_pps);
    let mut sample = Sample {
        frame_bytes: traffic.frame_bytes,
        sent_pps: past.generator.achieved_pps.min(back_pps),
        sent,
        received: sent - lost,
        lost,
        numbered: true,
        duplicates: there.duplicates,
        reordered: there.reordered,
        claims: Claims {
            received: of("forwarded").map(|count| count as u64),
            dropped: of("dropped").zip(of("lost_before")).map(|(a, b)| (a + b) as u64),
        },
        unaccounted: of("unaccounted"),
        delivery: delays(&sink.delay.snapshot()),
        ..point.sample(&past.core)
    };
    sample.drops.insert("driver_queue".to_owned(), wire.veth_queue);
    let named = [(LOST_THERE, there.lost), (LOST_BACK, lost_back)];
    sample.measures = named.into_iter().map(|(name, count)| (name.to_owned(), count as f64)).collect();
    sample.reported = reported;
    Ok(sample)
}

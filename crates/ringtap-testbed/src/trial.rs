//! A trial: numbered packets through a receiver, and the truth about each of them.
//!
//! Owns the handler that checks sequence numbers and delivery times, and the order of a trial (receiver first, then
//! traffic, then the accounts). Demo, tests and benchmarks differ only in what they ask for.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::histogram::{Histogram, HistogramSnapshot, Quantiles};
use ringtap::ledger::{Cause, Ledger};
use ringtap::meters::EngineSnapshot;
use ringtap::receiver::{Backend, Outcome, Receiver, ReceiverConfig};
use ringtap::source::Description;
use ringtap::transmit::Outbox;
use ringtap::{Error, Result};
use ringtap::{clock, sched};
use serde::Serialize;

use crate::drops::{DeviceDrops, WireCounters};
use crate::generate::{GeneratorConfig, GeneratorReport};
use crate::meter::{CoreUseReport, Meters, SoakerCalibration};
use crate::sequence::{SequenceChecker, SequenceReport};
use crate::stamp::Stamp;
use crate::testbed::{Testbed, Topology};

/// Every so many packets the delivery time is taken: reading the clock for each would be most of the handler's cost.
const DELIVERY_SAMPLE: u64 = 16;

/// Checks each packet's number and how long it took from its sender to us.
pub struct TruthHandler {
    checker: SequenceChecker,
    delivery: Arc<Histogram>,
}

impl TruthHandler {
    /// Room for `expected` packets; more are counted as foreign.
    pub fn new(expected: u64) -> Self {
        Self { checker: SequenceChecker::new(expected), delivery: Arc::new(Histogram::default()) }
    }

    /// What was seen of the `sent` packets numbered from 0.
    pub fn report(&self, sent: u64) -> SequenceReport {
        self.checker.report(sent)
    }

    /// From transmit stamp to handler, nanoseconds.
    pub fn delivery(&self) -> HistogramSnapshot {
        self.delivery.snapshot()
    }

    /// Looks at one frame.
    pub fn see(&mut self, frame: &[u8], now_ns: impl FnOnce() -> u64) {
        match Stamp::from_frame(frame) {
            Some(stamp) => self.see_stamp(stamp, now_ns()),
            None => self.see_foreign(),
        }
    }

    /// Notes a packet that came at `now_ns` (CLOCK_MONOTONIC).
    pub fn see_stamp(&mut self, stamp: Stamp, now_ns: u64) {
        self.checker.see(stamp.seq);
        self.delivery.record(now_ns.saturating_sub(stamp.time_ns));
    }

    /// Notes a packet that the generator did not send.
    pub fn see_foreign(&mut self) {
        self.checker.see_foreign();
    }
}

impl AsRef<Self> for TruthHandler {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Handler for TruthHandler {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        match Stamp::from_frame(packet.data) {
            Some(stamp) if stamp.seq.is_multiple_of(DELIVERY_SAMPLE) => self.see_stamp(stamp, clock::monotonic_ns()),
            Some(stamp) => self.checker.see(stamp.seq),
            None => self.see_foreign(),
        }
    }
}

/// What to try.
#[derive(Debug, Clone)]
pub struct TrialConfig {
    /// The receiver; interface and CPU are filled in.
    pub receiver: ReceiverConfig,
    /// The traffic; sequence numbers begin at 0.
    pub traffic: GeneratorConfig,
    /// Most packets the traffic can have; bounds the checker's memory.
    pub most_packets: u64,
    /// A soaker beside the exact meter, when it has been calibrated.
    pub soaker: Option<SoakerCalibration>,
}

/// What came of a trial.
#[derive(Debug, Clone, Serialize)]
pub struct TrialReport {
    /// What was sent.
    pub generator: GeneratorReport,
    /// What arrived, by sequence number.
    pub sequence: SequenceReport,
    /// The receiver's own ledger.
    pub ledger: Ledger,
    /// The testbed's ledger: offered is what was sent, drops include those on the wire.
    pub truth: Ledger,
    /// Drops at the devices.
    pub device: DeviceDrops,
    /// What the receiver's core did while packets came.
    pub core: CoreUseReport,
    /// From arrival stamp to handler, µs.
    pub latency_us: Quantiles,
    /// From transmit stamp to handler, of every 16th packet, µs.
    pub delivery_us: Quantiles,
    /// Between two looks in timer mode, µs.
    pub poll_period_us: Quantiles,
    /// How late timer wake-ups came, µs.
    pub tick_lateness_us: Quantiles,
    /// Wake-ups while the core was measured: those before and after are not in its use.
    pub woken: Woken,
    /// Engine counters.
    #[serde(skip)]
    pub counters: EngineSnapshot,
    /// What the source was.
    pub source: Description,
    /// What could not be had.
    pub warnings: Vec<String>,
}

/// The calling thread goes before the receiver until this is dropped, first on the generator's core, then off it. Both cores
/// may be full, in real time: an ordinary thread beside them would measure only what is left of a run when it gets a turn.
struct Aside {
    core: usize,
    before: Option<CpuSet>,
}

impl Aside {
    /// Above engines, NAPI threads and the generator; it is awake for microseconds every 20 ms. Threads of meters and generator
    /// begin with it, before they take their own place.
    const PRIORITY: u8 = 90;

    /// On the generator's core, as long as there is nothing to send: loading the generator takes 60 ms, for which the receiver
    /// would not get its turn.
    fn on(core: usize) -> Self {
        // Where it is not permitted, neither are the others real-time threads.
        let _ = sched::set_fifo(0, Self::PRIORITY);
        let before = sched_getaffinity(Pid::from_raw(0)).ok();
        let _ = sched::set_affinity(0, core);
        Self { core, before }
    }

    /// Leaves the generator's core to it.
    fn leave(&self) {
        let Some(mut others) = self.before else { return };
        let _ = others.unset(self.core);
        if !(0..CpuSet::count()).any(|cpu| others.is_set(cpu) == Ok(true)) {
            let _ = others.set(self.core);
        }
        // They were in force a moment ago, or were left out of what was.
        let _ = sched_setaffinity(Pid::from_raw(0), &others);
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = sched::set_other(0);
        if let Some(before) = &self.before {
            // It was in force a moment ago.
            let _ = sched_setaffinity(Pid::from_raw(0), before);
        }
    }
}

impl Testbed {
    /// Runs one trial to its end.
    ///
    /// # Errors
    /// The receiver or the generator can't be set up.
    pub fn trial(&self, config: TrialConfig) -> Result<TrialReport> {
        self.trial_watched(config, |_| {})
    }

    /// As [`Testbed::trial`], calling `watch` every 100 ms with the engine's counters.
    ///
    /// # Errors
    /// As [`Testbed::trial`].
    pub fn trial_watched(&self, config: TrialConfig, watch: impl FnMut(&EngineSnapshot)) -> Result<TrialReport> {
        let most_packets = config.most_packets;
        let (report, _) = self.trial_with(config, TruthHandler::new(most_packets), watch)?;
        Ok(report)
    }

    /// As [`Testbed::trial_watched`], with a handler of the caller's, which comes back with what it gathered.
    ///
    /// # Errors
    /// As [`Testbed::trial`].
    pub fn trial_with<H: Handler + AsRef<TruthHandler> + Send + 'static>(
        &self,
        config: TrialConfig,
        handler: H,
        mut watch: impl FnMut(&EngineSnapshot),
    ) -> Result<(TrialReport, H)> {
        let core = self.config().receiver_core;
        let mut receiver = config.receiver;
        receiver.interface = self.receiver().interface().to_owned();
        receiver.cpus = vec![core];
        let steers = receiver.backend == Backend::Xdp;
        let receiver = self.receiver().run(|| Receiver::open(receiver))??;
        let source = receiver.descriptions().into_iter().next();
        let source = source.ok_or_else(|| Error::failed("open", self.receiver().interface(), "it has no queue"))?;
        let napi = self.place_napi(!steers)?;
        let mut running = self.receiver().run(|| receiver.start(vec![handler]))??;
        let mut seen = None;
        let past = self.traffic_past(config.traffic, config.soaker, || {
            let counters = running.counters();
            watch(&counters);
            let now = Woken::of(&counters);
            seen = Some((seen.map_or(now, |(first, _)| first), now));
            !running.is_finished()
        })?;
        let woken = seen.map(|(first, last): (Woken, Woken)| last.since(first)).unwrap_or_default();
        self.settle(|| running.counters().packets)?;
        // Nothing may have come for a while because the device's own thread had no turn: what it holds is still on its way.
        for _ in 0..100 {
            let ledger = self.receiver().run(|| running.ledger())?;
            if ledger.delivered + ledger.lost() >= past.generator.stamped {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let outcome = self.receiver().run(|| running.finish())??;
        let device = WireCounters::read(self)?.drops_since(&past.before);
        drop(napi);
        Ok(report(past, woken, outcome, device, source))
    }

    /// Puts the receiver's NAPI where the topology wants it, until the returned value is dropped, which is to be when the
    /// receiver has ended; gives the device one first unless the receiver's XDP program did.
    ///
    /// # Errors
    /// The device can't be given a NAPI or its thread can't be placed.
    pub fn place_napi(&self, needs_napi: bool) -> Result<PlacedNapi<'_>> {
        if needs_napi {
            self.enable_receiver_napi()?;
        }
        if self.config().topology == Topology::Host {
            self.pin_napi(self.config().receiver_core)?;
        }
        Ok(PlacedNapi { testbed: self })
    }

    /// Sends `traffic` past a receiver that is ready, and measures its core meanwhile. `go_on` is asked at the beginning, every
    /// 100 ms, near the end more often, and at the end.
    ///
    /// # Errors
    /// The generator or the meter can't be started.
    pub fn traffic_past(
        &self,
        traffic: GeneratorConfig,
        soaker: Option<SoakerCalibration>,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<TrafficPast> {
        let core = self.config().receiver_core;
        let count = traffic.count;
        let before = WireCounters::read(self)?;
        let meters = Meters::open(core)?;
        let aside = Aside::on(self.config().generator_core);
        let generator = self.generate(traffic)?;
        aside.leave();
        // From here to the last packet: making the generator and reading the devices are not the receiver's cost.
        let meter = match soaker {
            Some(calibration) => meters.start_with_soaker(calibration)?,
            None => meters.start(),
        };
        let began = Instant::now();
        loop {
            let progress = generator.progress()?;
            let is_wanted = go_on();
            if progress.done || generator.is_finished() {
                break;
            }
            if !is_wanted {
                generator.stop()?;
                break;
            }
            thread::sleep(next_look(began.elapsed(), progress.stamped, count));
        }
        let core = meter.finish()?;
        let generator = generator.join()?;
        Ok(TrafficPast { generator, core, before })
    }

    /// Waits until `count` stands still: 20 ms without a packet, 2 s at most.
    ///
    /// # Errors
    /// It never does.
    pub fn settle(&self, mut count: impl FnMut() -> u64) -> Result<()> {
        let mut last = count();
        for _ in 0..100 {
            thread::sleep(Duration::from_millis(20));
            let now = count();
            if now == last {
                return Ok(());
            }
            last = now;
        }
        Err(Error::failed("wait for", self.receiver().interface(), "packets still arrive after the traffic ended"))
    }
}

/// How long the generator is left alone, by what it has sent of `count`. This thread runs on the measured core, where a wake-up costs
/// more than many packets: it has few, and is there when the last packet is sent.
fn next_look(elapsed: Duration, stamped: u64, count: Option<u64>) -> Duration {
    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_millis(100);
    let left = count.filter(|_| stamped > 0).map(|count| count.saturating_sub(stamped) as f64 / stamped as f64);
    left.map_or(LONG, |left| elapsed.mul_f64(left.min(10.0)).clamp(SHORT, LONG))
}

/// The receiver's NAPI where the topology wants it.
pub struct PlacedNapi<'t> {
    testbed: &'t Testbed,
}

impl Drop for PlacedNapi<'_> {
    fn drop(&mut self) {
        if self.testbed.config().topology == Topology::Host {
            // The receiver may have detached already, and the NAPI gone with it.
            let _ = self.testbed.unpin_napi();
        }
        let _ = self.testbed.unpause_napi();
    }
}

/// Wake-ups of an engine, and its changes between interrupt and timer.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Woken {
    /// By the timer.
    pub timer: u64,
    /// By an interrupt.
    pub interrupt: u64,
    /// Changes between the two.
    pub switches: u64,
}

impl Woken {
    /// All of an engine's until now.
    pub fn of(counters: &EngineSnapshot) -> Self {
        Self { timer: counters.timer_wakes, interrupt: counters.interrupt_wakes, switches: counters.mode_switches }
    }

    /// Those after `first`, which is earlier.
    pub fn since(self, first: Self) -> Self {
        Self {
            timer: self.timer - first.timer,
            interrupt: self.interrupt - first.interrupt,
            switches: self.switches - first.switches,
        }
    }
}

/// What was sent past a receiver.
#[derive(Debug)]
pub struct TrafficPast {
    /// What was sent.
    pub generator: GeneratorReport,
    /// What the receiver's core did meanwhile.
    pub core: CoreUseReport,
    /// The devices' counters before.
    pub before: WireCounters,
}

fn report<H: AsRef<TruthHandler>>(
    past: TrafficPast,
    woken: Woken,
    mut outcome: Outcome<H>,
    device: DeviceDrops,
    source: Description,
) -> (TrialReport, H) {
    let TrafficPast { generator, core, .. } = past;
    let whole = outcome.engines.remove(0).handler;
    let handler = whole.as_ref();
    let sequence = handler.report(generator.stamped);
    let mut truth = outcome.ledger.clone();
    truth.offered = Some(generator.stamped);
    // What the receiver can't see of the wire: the sender's side of the veth counts it.
    truth.drops.remove(&Cause::DriverQueue);
    truth.drops.remove(&Cause::Softnet);
    // A veth also counts as its own what an AF_XDP socket refused of its redirects.
    let refused = [Cause::RingFull, Cause::FillRingEmpty, Cause::Oversize];
    let refused: u64 = match source.xdp_mode {
        Some("native") => refused.iter().filter_map(|cause| truth.drops.get(cause).copied().flatten()).sum(),
        _ => 0,
    };
    truth.drop(Cause::DriverQueue, device.veth_queue.map(|count| count.saturating_sub(refused)));
    let report = TrialReport {
        latency_us: outcome.counters.latency.quantiles_us(),
        delivery_us: handler.delivery().quantiles_us(),
        poll_period_us: outcome.counters.poll_period.quantiles_us(),
        tick_lateness_us: outcome.counters.tick_lateness.quantiles_us(),
        sequence,
        ledger: outcome.ledger,
        truth,
        device,
        core,
        woken,
        counters: outcome.counters,
        generator,
        source,
        warnings: outcome.warnings,
    };
    (report, whole)
}

//! One run: one receiver, one traffic, one sample.
//!
//! Owns the way from a request to a [`Sample`]. What is asked for is the studies' business.

use std::collections::BTreeMap;
use std::time::Duration;

use ringtap::histogram::{HistogramSnapshot, Quantiles};
use ringtap::napi::NapiPause;
use ringtap::pacer::Policy;
use ringtap::perf::{Event, HardwareCounter};
use ringtap::{Error, Result};
use ringtap_testbed::peer::{PeerKind, PeerOptions, RunningPeer};
use ringtap_testbed::trial::TrialConfig;
use ringtap_testbed::{
    CoreUse, GeneratorConfig, GeneratorReport, Pattern, Profile, SequenceReport, SoakerCalibration, Testbed,
    TestbedConfig, Topology, WireCounters,
};

use crate::book::{Claims, Delays, LossBursts, POLLS_PER_SECOND, Sample};
use crate::catalogue::{Extra, Kind, Receiver};
use crate::work::{LoadCalibration, Work};

/// In the place of a receiver's name, where nobody receives.
pub(crate) const NOBODY: &str = "no receiver";
/// Longest list of loss lengths in a sample.
const MOST_LENGTHS: usize = 64;
/// Most places of losses in a sample.
const MOST_PLACES: usize = 256;

/// How packets follow each other, around a mean rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal intervals.
    Constant,
    /// Exponential intervals.
    Poisson,
    /// Bursts of 64 at 1 Mpps.
    Burst,
    /// From a tenth of the mean rate to nineteen tenths.
    Ramp,
}

impl Arrivals {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Constant, Self::Poisson, Self::Burst, Self::Ramp];

    /// Its name in samples.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
            Self::Burst => "burst",
            Self::Ramp => "ramp",
        }
    }

    fn profile(self, pps: f64, count: u64) -> Profile {
        let lasting = Duration::from_secs_f64(count as f64 / pps);
        match self {
            Self::Constant => Profile::endless(Pattern::Constant { pps }),
            Self::Poisson => Profile::endless(Pattern::Poisson { pps }),
            Self::Burst => {
                Profile::endless(Pattern::OnOffBurst { pps, burst_len: 64, burst_pps: (pps * 2.0).max(1e6) })
            }
            Self::Ramp => Profile::lasting(Pattern::Ramp { from_pps: pps * 0.1, to_pps: pps * 1.9 }, lasting),
        }
    }
}

/// A run to be made.
#[derive(Debug, Clone)]
pub struct Request<'r> {
    /// The study it is for.
    pub study: &'static str,
    /// Who receives.
    pub receiver: &'r Receiver,
    /// Where.
    pub topology: Topology,
    /// Which repetition.
    pub round: u32,
    /// Length of the frames.
    pub frame_bytes: usize,
    /// How they follow each other.
    pub arrivals: Arrivals,
    /// Mean rate.
    pub pps: f64,
    /// How many.
    pub count: u64,
    /// Another ring size than the receiver's own (engines only).
    pub ring_slots: Option<u32>,
    /// Another NAPI pause than the receiver's own, nanoseconds (engines only).
    pub napi_pause_ns: Option<u64>,
    /// A timer of this period, nanoseconds, instead of the receiver's own way to wait (engines only).
    pub period_ns: Option<u64>,
    /// Added event processing a packet, nanoseconds (engines only).
    pub load_ns: f64,
    /// Peers that are programs write what they capture, so that their loss is seen by sequence numbers.
    pub numbered: bool,
    /// Name of what runs beside it.
    pub beside: Option<String>,
    /// The core's use is measured by a soaker on it, instead of by the exact meter: they exclude each other.
    pub soaked: bool,
}

impl<'r> Request<'r> {
    /// `count` frames of 64 bytes at a constant rate, nothing else.
    pub fn new(study: &'static str, receiver: &'r Receiver, topology: Topology, pps: f64, count: u64) -> Self {
        Self {
            study,
            receiver,
            topology,
            round: 0,
            frame_bytes: 64,
            arrivals: Arrivals::Constant,
            pps,
            count,
            ring_slots: None,
            napi_pause_ns: None,
            period_ns: None,
            load_ns: 0.0,
            numbered: false,
            beside: None,
            soaked: false,
        }
    }
}

/// The two testbeds and what a run needs beside them.
pub struct Benches {
    nic: Testbed,
    host: Testbed,
    load: LoadCalibration,
    soaker: SoakerCalibration,
}

impl Benches {
    /// Builds both testbeds and calibrates the load and the soaker on the receiver's core.
    ///
    /// # Errors
    /// As [`Testbed::new`].
    pub fn new() -> Result<Self> {
        let nic = Testbed::new(TestbedConfig::default())?;
        let host = Testbed::new(TestbedConfig { topology: Topology::Host, ..TestbedConfig::default() })?;
        let core = nic.config().receiver_core;
        let load = std::thread::spawn(move || {
            let _ = ringtap::sched::set_affinity(0, core);
            LoadCalibration::measure()
        });
        let load = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Self { nic, host, load, soaker: SoakerCalibration::measure(core)? })
    }

    /// The testbed of a topology.
    pub fn of(&self, topology: Topology) -> &Testbed {
        match topology {
            Topology::Nic => &self.nic,
            Topology::Host => &self.host,
        }
    }

    /// Makes a run.
    ///
    /// # Errors
    /// The receiver can't be started, or the generator did not send what was asked for.
    pub fn run(&self, request: &Request<'_>) -> Result<Sample> {
        let sample = match &request.receiver.kind {
            Kind::Ringtap { .. } => self.ringtap(request)?,
            Kind::Peer(kind) => self.peer(request, *kind)?,
        };
        if sample.sent < request.count && request.arrivals != Arrivals::Ramp {
            let object = format!("{} packets to {}", request.count, request.receiver.name);
            return Err(Error::failed("send", object, format!("only {} were sent", sample.sent)));
        }
        Ok(sample)
    }

    /// Core use of `receiver`, or of nobody, while nothing is sent; wake-ups are those of the interval.
    ///
    /// # Errors
    /// The receiver can't be started.
    pub fn idle(&self, receiver: Option<&Receiver>, round: u32, seconds: f64) -> Result<Sample> {
        let testbed = self.of(Topology::Nic);
        let core = testbed.config().receiver_core;
        let nobody = Receiver { name: NOBODY.to_owned(), kind: Kind::Peer(PeerKind::UdpSocket), peak_pps: None };
        let request = Request { round, ..Request::new("idle", receiver.unwrap_or(&nobody), Topology::Nic, 0.0, 0) };
        let running = match receiver.map(|receiver| &receiver.kind) {
            Some(Kind::Ringtap { config, .. }) => {
                let mut config = (**config).clone();
                config.interface = testbed.receiver().interface().to_owned();
                config.cpus = vec![core];
                let opened = testbed.receiver().run(|| ringtap::receiver::Receiver::open(config))??;
                Some(testbed.receiver().run(|| opened.start(vec![Work::new(1, 0, Extra::None)]))??)
            }
            _ => None,
        };
        std::thread::sleep(Duration::from_millis(200));
        let before = running.as_ref().map(|running| running.counters());
        let meter = CoreUse::start(core)?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let report = meter.finish()?;
        let after = running.as_ref().map(|running| running.counters());
        let mut sample = blank(&request, None);
        sample.core_use_percent = report.used_percent;
        sample.others_percent = report.others_percent;
        sample.steal_percent = report.steal_percent;
        sample.core_interrupts = report.interrupts_total();
        sample.seconds = report.interval_ns as f64 / 1e9;
        if let Some((before, after)) = before.zip(after) {
            sample.timer_wakes = Some(after.timer_wakes - before.timer_wakes);
            sample.interrupt_wakes = Some(after.interrupt_wakes - before.interrupt_wakes);
        }
        if let Some(running) = running {
            let outcome = testbed.receiver().run(|| running.finish())??;
            sample.unaccounted = outcome.ledger.unaccounted();
        }
        Ok(sample)
    }

    /// How long the work loop takes on the receiver's core.
    pub fn load(&self) -> &LoadCalibration {
        &self.load
    }

    fn traffic(&self, request: &Request<'_>) -> GeneratorConfig {
        let profile = request.arrivals.profile(request.pps, request.count);
        GeneratorConfig::for_testbed(self.of(request.topology), request.frame_bytes, profile).count(request.count)
    }

    fn soaker(&self, request: &Request<'_>) -> Option<SoakerCalibration> {
        request.soaked.then_some(self.soaker)
    }

    fn ringtap(&self, request: &Request<'_>) -> Result<Sample> {
        let Kind::Ringtap { config, extra } = &request.receiver.kind else {
            return Err(Error::usage("run", &request.receiver.name, "it is no engine"));
        };
        let testbed = self.of(request.topology);
        let mut receiver = (**config).clone();
        receiver.ring_slots = request.ring_slots.unwrap_or(receiver.ring_slots);
        if let Some(pause_ns) = request.napi_pause_ns {
            receiver.napi_pause = NapiPause::anywhere(pause_ns);
        }
        if let Some(period_ns) = request.period_ns {
            receiver.policy = Policy::Timer { period_ns };
        }
        let traffic = self.traffic(request);
        let trial = TrialConfig { receiver, traffic, most_packets: request.count, soaker: self.soaker(request) };
        let work = Work::new(request.count, self.load.turns(request.load_ns), *extra);
        let counters = Counters::open(testbed.config().receiver_core);
        let (report, work) = testbed.trial_with(trial, work, |_| {})?;
        let truth: &ringtap_testbed::trial::TruthHandler = work.as_ref();
        let mut sample = blank(request, Some(&report.generator));
        numbered(&mut sample, &report.sequence);
        counters.into_sample(&mut sample);
        let engine = &report.counters;
        sample.drops = report.truth.drops.iter().map(|(cause, count)| (cause.name().to_owned(), *count)).collect();
        sample.unaccounted = report.truth.unaccounted();
        sample.claims = Claims { received: Some(report.ledger.delivered), dropped: Some(report.ledger.lost()) };
        sample.core_use_percent = report.core.used_percent;
        sample.others_percent = report.core.others_percent;
        sample.steal_percent = report.core.steal_percent;
        sample.core_interrupts = report.core.interrupts_total();
        sample.seconds = report.core.interval_ns as f64 / 1e9;
        sample.delivery = delays(&truth.delivery());
        sample.arrival = delays(&engine.latency);
        sample.poll_period = delays(&engine.poll_period);
        sample.memory_bytes = Some(report.source.memory_bytes as u64);
        sample.ring_slots = Some(report.source.ring_slots as u64);
        sample.polls = Some(engine.cycles);
        sample.timer_wakes = Some(report.woken.timer);
        sample.interrupt_wakes = Some(report.woken.interrupt);
        sample.mode_switches = Some(report.woken.switches);
        if let Some(period_ns) = request.period_ns {
            sample.measures.insert(POLLS_PER_SECOND.to_owned(), 1e9 / period_ns as f64);
        }
        Ok(sample)
    }

    fn peer(&self, request: &Request<'_>, kind: PeerKind) -> Result<Sample> {
        let testbed = self.of(request.topology);
        let options = PeerOptions { expected: request.count, numbered: request.numbered, ..PeerOptions::default() };
        let mut peer = RunningPeer::start(testbed, kind, &options)?;
        let napi = testbed.place_napi(!kind.attaches_xdp())?;
        let counters = Counters::open(testbed.config().receiver_core);
        let past = testbed.traffic_past(self.traffic(request), self.soaker(request), || true)?;
        peer.settle()?;
        let report = peer.finish(past.generator.stamped)?;
        let device = WireCounters::read(testbed)?.drops_since(&past.before);
        drop(napi);
        let mut sample = blank(request, Some(&past.generator));
        match &report.sequence {
            Some(sequence) => numbered(&mut sample, sequence),
            None => {
                sample.received = report.received.min(sample.sent);
                sample.lost = sample.sent - sample.received;
            }
        }
        counters.into_sample(&mut sample);
        sample.drops = BTreeMap::from([("driver_queue".to_owned(), device.veth_queue)]);
        sample.claims = Claims { received: report.claims_received, dropped: report.claims_dropped };
        sample.core_use_percent = past.core.used_percent;
        sample.others_percent = past.core.others_percent;
        sample.steal_percent = past.core.steal_percent;
        sample.core_interrupts = past.core.interrupts_total();
        sample.seconds = past.core.interval_ns as f64 / 1e9;
        sample.delivery = report.delivery.as_ref().and_then(delays);
        sample.memory_bytes = report.memory_bytes;
        Ok(sample)
    }
}

/// Cycles and cache misses of the receiver's core, where the machine counts them.
struct Counters {
    cycles: Option<HardwareCounter>,
    misses: Option<HardwareCounter>,
}

impl Counters {
    fn open(core: usize) -> Self {
        Self {
            cycles: HardwareCounter::open(core, Event::Cycles).ok(),
            misses: HardwareCounter::open(core, Event::CacheMisses).ok(),
        }
    }

    fn into_sample(self, sample: &mut Sample) {
        let received = sample.received.max(1) as f64;
        let per_packet = |counter: Option<HardwareCounter>| Some(counter?.read().ok()? as f64 / received);
        sample.cycles_per_packet = per_packet(self.cycles);
        sample.cache_misses_per_packet = per_packet(self.misses);
    }
}

fn blank(request: &Request<'_>, generator: Option<&GeneratorReport>) -> Sample {
    Sample {
        study: request.study.to_owned(),
        receiver: request.receiver.name.clone(),
        topology: request.topology,
        round: request.round,
        frame_bytes: request.frame_bytes,
        arrivals: request.arrivals.name().to_owned(),
        offered_pps: request.pps,
        sent_pps: generator.map_or(0.0, |generator| generator.achieved_pps),
        sent: generator.map_or(0, |generator| generator.stamped),
        load_ns: request.load_ns,
        napi_pause_ns: request.napi_pause_ns,
        beside: request.beside.clone(),
        ..Sample::default()
    }
}

fn numbered(sample: &mut Sample, sequence: &SequenceReport) {
    sample.numbered = true;
    sample.received = sequence.received;
    sample.lost = sequence.lost;
    sample.duplicates = sequence.duplicates;
    sample.reordered = sequence.reordered;
    let mut by_length = sequence.loss_lengths();
    if by_length.len() > MOST_LENGTHS {
        let longer: u64 = by_length.drain(MOST_LENGTHS - 1..).map(|(_, runs)| runs).sum();
        by_length.push((sequence.longest_loss(), longer));
    }
    sample.loss_bursts = Some(LossBursts {
        count: sequence.loss_bursts.len() as u64,
        longest: sequence.longest_loss(),
        by_length,
        places: sequence.loss_bursts.iter().take(MOST_PLACES).map(|burst| (burst.first, burst.length)).collect(),
    });
}

/// `None` when nothing was counted.
pub(crate) fn delays(histogram: &HistogramSnapshot) -> Option<Delays> {
    let Quantiles { count, mean, p50, p98, p99, p999, max } = histogram.quantiles_us();
    let histogram = histogram.buckets().map(|(upper_ns, count)| (upper_ns as f64 / 1e3, count)).collect();
    (count > 0).then_some(Delays { count, mean, p50, p98, p99, p999, max, histogram })
}

//! One run: one receiver, one rate, one sample.

use std::time::Duration;

use ringtap::calibrate::Plan;
use ringtap::napi::NapiPause;
use ringtap::pacer::Policy;
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap::{Error, Result};
use ringtap_testbed::peer::{PeerKind, PeerOptions, RunningPeer};
use ringtap_testbed::trial::{TrafficPast, TrialConfig};
use ringtap_testbed::{CoreUse, GeneratorConfig, Pattern, Profile, SoakerCalibration, Testbed, WireCounters};
use serde::Serialize;
use serde_json::{Value, json};

const FRAME_BYTES: usize = 64;

/// Which waiting is tried.
pub enum Receiver<'p> {
    Interrupt,
    Timer { bound: Duration, plan: &'p Plan },
    Hybrid { bound: Duration, plan: &'p Plan },
}

impl Receiver<'_> {
    fn name(&self) -> String {
        match self {
            Self::Interrupt => "interrupt".to_owned(),
            Self::Timer { bound, .. } => format!("timer {bound:?}"),
            Self::Hybrid { bound, .. } => format!("hybrid {bound:?}"),
        }
    }

    fn config(&self) -> ReceiverConfig {
        let (policy, ring_slots, napi_pause) = match self {
            Self::Interrupt => (Policy::Interrupt, 32_768, NapiPause::default()),
            Self::Timer { plan, .. } => (Policy::Timer { period_ns: plan.period_ns }, plan.ring_slots, plan.napi_pause),
            Self::Hybrid { plan, .. } => (plan.policy(), plan.ring_slots, plan.napi_pause),
        };
        ReceiverConfig { backend: Backend::Xdp, take: true, ring_slots, napi_pause, ..ReceiverConfig::new("", policy) }
    }
}

/// A run to be made.
#[derive(Clone, Copy)]
pub struct Run {
    pub part: &'static str,
    pub pps: f64,
    pub count: u64,
    pub soaker: Option<SoakerCalibration>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    pub part: &'static str,
    pub receiver: String,
    pub pps: f64,
    pub sent: u64,
    pub received: u64,
    pub lost: u64,
    pub unaccounted: Option<i64>,
    pub core_use_percent: f64,
    pub steal_percent: Option<f64>,
    pub latency_p99_us: Option<f64>,
    pub detail: Value,
}

impl Run {
    fn traffic(&self, testbed: &Testbed) -> GeneratorConfig {
        let profile = Profile::endless(Pattern::Constant { pps: self.pps });
        GeneratorConfig::for_testbed(testbed, FRAME_BYTES, profile).count(self.count)
    }

    pub fn ringtap(&self, testbed: &Testbed, receiver: &Receiver<'_>) -> Result<Sample> {
        let report = testbed.trial(TrialConfig {
            receiver: receiver.config(),
            traffic: self.traffic(testbed),
            most_packets: self.count,
            soaker: self.soaker,
        })?;
        if report.generator.stamped != self.count {
            return Err(Error::failed(
                "send",
                self.part,
                format!("{} of {} packets", report.generator.stamped, self.count),
            ));
        }
        Ok(Sample {
            part: self.part,
            receiver: receiver.name(),
            pps: self.pps,
            sent: report.generator.stamped,
            received: report.sequence.received,
            lost: report.sequence.lost,
            unaccounted: report.truth.unaccounted(),
            core_use_percent: report.core.used_percent,
            steal_percent: report.core.steal_percent,
            latency_p99_us: Some(report.latency_us.p99),
            detail: json!({
                "ledger": report.truth,
                "duplicates": report.sequence.duplicates,
                "longest_loss": report.sequence.longest_loss(),
                "latency_us": report.latency_us,
                "delivery_us": report.delivery_us,
                "poll_period_us": report.poll_period_us,
                "tick_lateness_us": report.tick_lateness_us,
                "packets_per_poll": report.counters.packets_per_poll(),
                "interrupts_per_packet": report.counters.interrupts_per_packet(),
                "mode_switches": report.counters.mode_switches,
                "timer_wakes": report.counters.timer_wakes,
                "interrupt_wakes": report.counters.interrupt_wakes,
                "core": report.core,
                "generator": report.generator,
                "source": report.source,
                "warnings": report.warnings,
            }),
        })
    }

    pub fn tcpdump(&self, testbed: &Testbed) -> Result<Sample> {
        self.peer(testbed, PeerKind::Tcpdump, "tcpdump -w /dev/null")
    }

    pub fn udp(&self, testbed: &Testbed) -> Result<Sample> {
        self.peer(testbed, PeerKind::UdpSocket, "UDP recv()")
    }

    fn peer(&self, testbed: &Testbed, kind: PeerKind, name: &str) -> Result<Sample> {
        let options = PeerOptions { expected: self.count, ..PeerOptions::default() };
        let mut peer = RunningPeer::start(testbed, kind, &options)?;
        let napi = testbed.place_napi(!kind.attaches_xdp())?;
        let past = testbed.traffic_past(self.traffic(testbed), None, || true)?;
        peer.settle()?;
        let report = peer.finish(past.generator.stamped)?;
        let device = WireCounters::read(testbed)?.drops_since(&past.before);
        drop(napi);
        let received = report.sequence.map_or(report.received, |sequence| sequence.received);
        let says = json!({ "received": report.claims_received, "dropped": report.claims_dropped });
        self.peer_sample(name, &past, received, json!({ "device": device, "says": says }))
    }

    /// A peer's counts have no ledger: what it did not get is lost, wherever.
    fn peer_sample(&self, receiver: &str, past: &TrafficPast, received: u64, detail: Value) -> Result<Sample> {
        Ok(Sample {
            part: self.part,
            receiver: receiver.to_owned(),
            pps: self.pps,
            sent: past.generator.stamped,
            received,
            lost: past.generator.stamped.saturating_sub(received),
            unaccounted: None,
            core_use_percent: past.core.used_percent,
            steal_percent: past.core.steal_percent,
            latency_p99_us: None,
            detail: json!({ "core": past.core, "generator": past.generator, "peer": detail }),
        })
    }
}

/// Core use while nothing is sent, with a waiting receiver or (for the meter's own cost) with none.
pub fn idle(testbed: &Testbed, plan: Option<&Plan>, seconds: f64) -> Result<Sample> {
    let core = testbed.config().receiver_core;
    let running = match plan {
        Some(plan) => {
            let mut config = Receiver::Hybrid { bound: Duration::ZERO, plan }.config();
            config.interface = testbed.receiver().interface().to_owned();
            config.cpus = vec![core];
            let receiver = testbed.receiver().run(|| ringtap::receiver::Receiver::open(config))??;
            let handler = |_: usize, _: &_| ringtap_testbed::trial::TruthHandler::new(1);
            Some(testbed.receiver().run(|| receiver.start(handler))??)
        }
        None => None,
    };
    std::thread::sleep(Duration::from_millis(200));
    let wakes_before = running.as_ref().map(|running| running.counters());
    let meter = CoreUse::start(core)?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let report = meter.finish()?;
    let wakes = running.as_ref().zip(wakes_before).map(|(running, before)| {
        let now = running.counters();
        now.timer_wakes + now.interrupt_wakes - before.timer_wakes - before.interrupt_wakes
    });
    if let Some(running) = running {
        testbed.receiver().run(|| running.finish())??;
    }
    Ok(Sample {
        part: "idle",
        receiver: if plan.is_some() { "hybrid 1ms".to_owned() } else { "no receiver".to_owned() },
        pps: 0.0,
        sent: 0,
        received: 0,
        lost: 0,
        unaccounted: Some(0),
        core_use_percent: report.used_percent,
        steal_percent: report.steal_percent,
        latency_p99_us: None,
        detail: json!({ "wakes": wakes, "core": report }),
    })
}

//! Who is measured: every way Ringtap can wait, the ablations of \[1] §7, the other back ends, and the real peers.
//!
//! Owns names and configurations. How a run is made is in `run`.

use ringtap::calibrate::Plan;
use ringtap::napi::NapiPause;
use ringtap::pacer::{Policy, Windowed};
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap_testbed::Topology;
use ringtap_testbed::peer::PeerKind;
use std::collections::BTreeMap;

/// Slots of a receiver that has no plan of its own: as many as the plans give, so that only the waiting differs.
const SLOTS: u32 = 65_536;

/// One receiver of the catalogue.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// Name in tables and on the command line.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The peak rate it was told to be ready for, packets per second: it is not asked for more.
    pub peak_pps: Option<f64>,
}

/// What a receiver is.
#[derive(Debug, Clone)]
pub enum Kind {
    /// An engine of this process.
    Ringtap {
        /// Everything but interface and CPU.
        config: Box<ReceiverConfig>,
        /// What it does with each packet beside checking it.
        extra: Extra,
    },
    /// A program, or a loop of its own in this process.
    Peer(PeerKind),
}

/// What the ablations put back (\[1] §7.4): the copy and the allocation that a shared ring saves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// Each packet is copied to a buffer of the application.
    Copy,
    /// Each packet is copied to memory allocated for it, which is freed when the next ones come.
    CopyAndAllocate,
}

impl Receiver {
    /// Whether it can be tried in this topology, and if not, why.
    ///
    /// # Errors
    /// The reason.
    pub fn suits(&self, topology: Topology) -> Result<(), &'static str> {
        match &self.kind {
            Kind::Ringtap { config, .. } if topology == Topology::Host && config.policy == Policy::Busy => {
                Err("a spinning real-time thread leaves no time to the device's own kernel thread on its core")
            }
            _ => Ok(()),
        }
    }

    /// Whether event processing can be added to it and its ring be set: only to engines of this process.
    pub fn is_ringtap(&self) -> bool {
        matches!(self.kind, Kind::Ringtap { .. })
    }
}

/// The plans for the two bounds, and for lower peak rates.
#[derive(Debug, Clone)]
pub struct Plans {
    /// 250 µs.
    pub tight: Plan,
    /// 1 ms.
    pub wide: Plan,
    /// 2 ms: no later than programs that read the kernel's blocks where these fill fast, at 1 M packets/s …
    pub two_ms: Plan,
    /// … and 3 ms: at 500 k.
    pub three_ms: Plan,
    /// 10 ms: no later than such programs at 148 k.
    pub late: Plan,
    /// 80 ms: just earlier than libpcap at the lowest rates, whose blocks are handed over after some 90.
    pub eighty_ms: Plan,
    /// 100 ms: no later than libpcap's own timeout of so much.
    pub latest: Plan,
    /// 1 ms, and no more than 500 kpps to be ready for: the kernel's NAPI may pause longer.
    pub calm: Plan,
    /// 1 ms, and no more than 100 Mb/s of the smallest packets: where NAPI shares the engine's core, its pause replaces the timer.
    pub slow: Plan,
}

impl Plans {
    /// Lines of each, as `ringtap plan` prints them.
    pub(crate) fn sums(&self) -> BTreeMap<String, Vec<String>> {
        let named = [
            ("250us", &self.tight),
            ("1ms", &self.wide),
            ("2ms", &self.two_ms),
            ("3ms", &self.three_ms),
            ("10ms", &self.late),
            ("80ms", &self.eighty_ms),
            ("100ms", &self.latest),
            ("1ms, peak 500k", &self.calm),
            ("1ms, peak 150k", &self.slow),
        ];
        named.map(|(name, plan)| (name.to_owned(), plan.sums.clone())).into()
    }
}

/// Peak rates of the plans `calm` and `slow`, packets per second.
pub const CALM_PPS: f64 = 500e3;
/// See [`CALM_PPS`].
pub const SLOW_PPS: f64 = 150e3;

/// Everybody, in the order in which they take turns.
pub fn all(plans: &Plans) -> Vec<Receiver> {
    let mut receivers = ringtap(plans);
    receivers.extend(PeerKind::all().iter().map(|&kind| Receiver {
        name: kind.name().to_owned(),
        kind: Kind::Peer(kind),
        peak_pps: None,
    }));
    receivers
}

fn ringtap(plans: &Plans) -> Vec<Receiver> {
    let Plans { tight, wide, two_ms, three_ms, late, eighty_ms, latest, calm, slow } = plans;
    let windowed = Policy::Windowed(Windowed::new(finite(wide.threshold_pps), period_ns(wide, 1_000_000)));
    let timer = |plan, bound_ns| Policy::Timer { period_ns: period_ns(plan, bound_ns) };
    let xdp =
        |name: &str, policy: Policy, pause: NapiPause, extra: Extra| engine(name, Backend::Xdp, policy, pause, extra);
    let told = |name: &str, plan: &Plan, peak_pps: f64| Receiver {
        peak_pps: Some(peak_pps),
        ..xdp(name, plan.policy(), plan.napi_pause, Extra::None)
    };
    let none = NapiPause::default();
    let mut small_frames = engine("packet 1ms 256 B frames", Backend::Packet, wide.policy(), none, Extra::None);
    if let Kind::Ringtap { config, .. } = &mut small_frames.kind {
        config.frame_size = Some(256);
    }
    vec![
        xdp("hybrid 1ms", wide.policy(), wide.napi_pause, Extra::None),
        told("hybrid 1ms peak 500k", calm, CALM_PPS),
        told("hybrid 1ms peak 150k", slow, SLOW_PPS),
        xdp("hybrid 2ms", two_ms.policy(), two_ms.napi_pause, Extra::None),
        xdp("hybrid 3ms", three_ms.policy(), three_ms.napi_pause, Extra::None),
        xdp("hybrid 10ms", late.policy(), late.napi_pause, Extra::None),
        xdp("hybrid 80ms", eighty_ms.policy(), eighty_ms.napi_pause, Extra::None),
        xdp("hybrid 100ms", latest.policy(), latest.napi_pause, Extra::None),
        xdp("hybrid 250us", tight.policy(), tight.napi_pause, Extra::None),
        xdp("windowed 1ms", windowed, wide.napi_pause, Extra::None),
        xdp("timer 1ms", timer(wide, 1_000_000), wide.napi_pause, Extra::None),
        xdp("timer 250us", timer(tight, 250_000), tight.napi_pause, Extra::None),
        xdp("interrupt", Policy::Interrupt, none, Extra::None),
        xdp("interrupt + NAPI pause", Policy::Interrupt, wide.napi_pause, Extra::None),
        xdp("interrupt + copy", Policy::Interrupt, none, Extra::Copy),
        xdp("interrupt + copy + allocation", Policy::Interrupt, none, Extra::CopyAndAllocate),
        xdp("busy", Policy::Busy, none, Extra::None),
        engine("packet 1ms", Backend::Packet, wide.policy(), none, Extra::None),
        small_frames,
        engine("socket", Backend::Socket, Policy::Interrupt, none, Extra::None),
    ]
}

/// The plan's period; where a restless machine planned for interrupts only, most of the bound, as these receivers have no
/// other way to wait: a period of nothing would spin.
fn period_ns(plan: &Plan, bound_ns: u64) -> u64 {
    if plan.period_ns > 0 { plan.period_ns } else { bound_ns / 5 * 4 }
}

/// A windowed policy wants a cliff even where the timer never pays.
fn finite(pps: f64) -> f64 {
    if pps.is_finite() { pps } else { 1e9 }
}

fn engine(name: &str, backend: Backend, policy: Policy, napi_pause: NapiPause, extra: Extra) -> Receiver {
    let config =
        ReceiverConfig { backend, take: true, ring_slots: SLOTS, napi_pause, ..ReceiverConfig::new("", policy) };
    Receiver { name: name.to_owned(), kind: Kind::Ringtap { config: Box::new(config), extra }, peak_pps: None }
}

//! From a latency bound to period, threshold and ring size: the sums, and whether the bound can be kept.
//!
//! Pure: no measuring, no system call. The formulas are in docs/internals/waiting.md, "Where period,
//! threshold and ring size come from". How the whole reads is in `words`.

use std::time::Duration;

use serde::Serialize;

use super::words::{rate, time};
use super::{Calibration, interpolate, rate_at};
use crate::error::{Error, Result};
use crate::napi::NapiPause;
use crate::pacer::{Hybrid, Policy, formulas};
use crate::source::xdp::XdpSource;
use crate::sys::xsk::STAMP_BYTES;

/// A histogram bucket reports its upper edge, up to 1/32 above the true value: the bound is kept as reported.
const REPORTING: f64 = 1.0 + 1.0 / 32.0;
/// Safety factor of the ring size (\[1] §2, §5.7, §7.3).
const RING_SAFETY: u32 = 4;
/// Longest pause expected of a CPU beyond what calibration happened to see: on hardware, and in a virtual machine whose
/// host may give the CPU to others: up to 64 ms at once were seen on a busy one, where safety 4 × 10 ms holds 43 ms.
const PAUSE_NS: u64 = 1_000_000;
const VIRTUAL_PAUSE_NS: u64 = 10_000_000;
/// A timer faster than this is no longer a low-rate one: then only interrupts are left.
const SHORTEST_PERIOD_NS: u64 = 20_000;
/// Packets that may come during a pause of the kernel's NAPI: a device queue as short as veth's 256 slots then holds them
/// beside what comes while the poll itself is late (at 1.5 Mpps, 75 and 100 µs lost packets and 50 µs none).
const NAPI_APART_PACKETS: f64 = 75.0;
/// The same where NAPI shares the engine's CPU: each wake-up of its thread is taken from the engine then (at 500 kpps 300 µs
/// lost one packet in two hundred, 200 µs one in three thousand, as 142 µs did).
const NAPI_SHARED_PACKETS: f64 = 100.0;
/// At peaks beyond a million a second such a CPU is full, and loses for want of itself: there a pause of 100 µs is kept
/// until this many packets come in it.
const NAPI_FULL_PACKETS: f64 = 150.0;
const NAPI_FULL_PAUSE_NS: u64 = 100_000;
/// Beside our own timer, the pause takes this part of the bound at most.
const NAPI_PAUSE_SHARE: u64 = 3;
/// Below such a bound, what a pause saves the kernel costs us in a shorter period.
const SHORTEST_PAUSED_BOUND_NS: u64 = 350_000;
/// A shorter pause saves nothing.
const SHORTEST_NAPI_PAUSE_NS: u64 = 50_000;
/// What a link brings at the default peak rate, and what a plan expects at any: 1 Gbit/s, bytes per second. Of it each packet
/// also takes 24 bytes for preamble, gap and check sequence (IEEE 802.3).
const LINK_BYTES_PER_S: f64 = 125e6;
const BESIDE_PACKET_BYTES: f64 = 24.0;
/// Longest packet expected, bytes: an MTU of 1,500, header and one tag.
const LONGEST_BYTES: f64 = 1518.0;
/// What a wake-up is taken to cost where the calibration can't be believed: more than most machines need.
const ASSUMED_WAKE_NS: f64 = 30_000.0;
/// The fewest and most slots a plan gives.
const FEWEST_SLOTS: u32 = 256;
const MOST_SLOTS: u32 = 65_536;
/// A wait may fill this part of the largest ring a plan gives; the rest is for pauses of the CPU.
const RING_SHARE: f64 = 0.5;

/// What the user wants.
#[derive(Debug, Clone, Copy)]
pub struct Wishes {
    /// Longest time from arrival to handler.
    pub max_latency: Duration,
    /// Greatest packet rate the ring must be able to hold back, packets per second.
    pub peak_pps: f64,
    /// Pause the kernel's NAPI is to make between its polls, nanoseconds; `None`: chosen by the bound.
    pub napi_pace_ns: Option<u64>,
}

impl Default for Wishes {
    /// 1 ms, 1.5 million packets per second.
    fn default() -> Self {
        Self { max_latency: Duration::from_millis(1), peak_pps: 1.5e6, napi_pace_ns: None }
    }
}

impl Wishes {
    /// The latency bound in nanoseconds, when both wishes are in their ranges.
    fn checked_bound_ns(&self) -> Result<u64> {
        let bound_ns = u64::try_from(self.max_latency.as_nanos()).unwrap_or(u64::MAX);
        if !(10_000..=1_000_000_000).contains(&bound_ns) {
            return Err(Error::usage(
                "plan for",
                format!("--max-latency {:?}", self.max_latency).replace('µ', "u"),
                "it is out of range",
            )
            .way_out("give 10us to 1s"));
        }
        if !(self.peak_pps > 0.0 && self.peak_pps <= 1e9) {
            return Err(Error::usage("plan for", format!("--peak-rate {}", self.peak_pps), "it is out of range")
                .way_out("give 1 to 1000M packets per second"));
        }
        Ok(bound_ns)
    }

    /// The pause of the kernel's NAPI beside a timer of ours: as told, or what the peak rate and the bound leave room for.
    pub fn napi_pause(&self) -> NapiPause {
        if let Some(told_ns) = self.napi_pace_ns {
            return NapiPause::anywhere(told_ns);
        }
        let bound_ns = self.max_latency.as_nanos() as u64;
        if bound_ns < SHORTEST_PAUSED_BOUND_NS {
            return NapiPause::default();
        }
        self.longest_napi_pause(bound_ns / NAPI_PAUSE_SHARE)
    }

    /// As long as the device's queue holds what comes at the peak rate, `most_ns` at most.
    fn longest_napi_pause(&self, most_ns: u64) -> NapiPause {
        let lasting = |packets: f64| (packets / self.peak_pps * 1e9).round() as u64;
        let pause = |fits_ns: u64| Some(fits_ns.min(most_ns)).filter(|ns| *ns >= SHORTEST_NAPI_PAUSE_NS).unwrap_or(0);
        let shared_ns = lasting(NAPI_FULL_PACKETS).min(NAPI_FULL_PAUSE_NS).max(lasting(NAPI_SHARED_PACKETS));
        NapiPause {
            apart_ns: pause(lasting(NAPI_APART_PACKETS)),
            shared_ns: pause(shared_ns),
            instead_of_timer_ns: 0,
            while_thick: true,
        }
    }

    /// The pause that makes a timer of ours superfluous where NAPI shares our CPU: the device's queue holds what comes during
    /// half of the wait that the bound allows, or more. Kernel and engine then wake up together, once in that time; 0: none.
    fn pause_instead_of_timer(&self, wait_ns: u64) -> u64 {
        let pause_ns = self.longest_napi_pause(wait_ns).shared_ns;
        if self.napi_pace_ns.is_some() || pause_ns < wait_ns / 2 { 0 } else { pause_ns }
    }
}

/// Whether the bound can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It can, up to the peak rate.
    Kept,
    /// It can't: wake-ups themselves come later, whoever causes them.
    WakesTooLate {
        /// The tightest bound that can be kept, nanoseconds.
        nearest_ns: u64,
    },
    /// It can't at the peak rate, which is more than one core takes.
    CoreTooSlow,
}

/// What follows from them on this host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Whether the bound can be kept.
    pub verdict: Verdict,
    /// The bound, nanoseconds.
    pub max_latency_ns: u64,
    /// The peak rate, packets per second.
    pub peak_pps: f64,
    /// How late 99 of 100 wake-ups come at most, nanoseconds.
    pub jitter_p99_ns: u64,
    /// Poll period of the timer, nanoseconds; 0 when the bound leaves room for interrupts only.
    pub period_ns: u64,
    /// Pause between two polls of the kernel's NAPI, where it stays in charge.
    pub napi_pause: NapiPause,
    /// Rate above which the timer is cheaper, packets per second; infinite when it never is.
    pub threshold_pps: f64,
    /// Slots of each ring.
    pub ring_slots: u32,
    /// The same where frames are packed, of which longer packets take several: as many as 1 Gbit/s leaves each at the peak.
    pub packed_slots: u32,
    /// Share of the core the timer takes at this period.
    pub timer_share: f64,
    /// Expected share of the core at the peak rate.
    pub peak_share: f64,
    /// Rate beyond which the core is saturated, packets per second (\[1] §2, §5.7, §7.3).
    pub no_loss_bound_pps: f64,
    /// The sums in words, one line each.
    pub sums: Vec<String>,
}

impl Calibration {
    /// Period, threshold and ring size for these wishes.
    ///
    /// # Errors
    /// A wish out of range.
    pub fn plan(&self, wishes: &Wishes) -> Result<Plan> {
        let bound_ns = wishes.checked_bound_ns()?;
        let per_packet = wishes.peak_pps * self.per_packet_ns / 1e9;
        let wait_ns = bound_ns as f64 / REPORTING - self.jitter_p99_ns as f64;
        let longest_ns = |wait_ns: f64| (wait_ns / (1.0 + per_packet)).max(0.0) as u64;
        let instead_of_timer_ns = wishes.pause_instead_of_timer(longest_ns(wait_ns));
        let napi_pause = NapiPause { instead_of_timer_ns, ..wishes.napi_pause() };
        let period_ns = longest_ns(wait_ns - napi_pause.shared_ns as f64);
        let pauses = match napi_pause.shared_ns {
            0 => String::new(),
            ns => format!(", a pause of the kernel's NAPI of {}", time(ns)),
        };
        let mut sums = vec![format!(
            "period: the bound, less 3 % (latencies are reported rounded up), {} of jitter (99 of 100 wake-ups are no later){pauses}, \
             and {:.1} % of the rest to empty the ring at the peak ({:.0} ns a packet): {}",
            time(self.jitter_p99_ns),
            per_packet / (1.0 + per_packet) * 100.0,
            self.per_packet_ns,
            time(period_ns)
        )];
        let held_ns = (f64::from(MOST_SLOTS) * RING_SHARE / wishes.peak_pps * 1e9) as u64;
        if period_ns > held_ns {
            sums.push(format!(
                "period: {} at most, in which half of {MOST_SLOTS} slots fill at the peak; a lower --peak-rate leaves more",
                time(held_ns)
            ));
        }
        let period_ns = period_ns.min(held_ns);
        if period_ns < SHORTEST_PERIOD_NS {
            sums.push(format!("a timer of less than {} is none: packets wake the engine", time(SHORTEST_PERIOD_NS)));
        }
        let period_ns = if period_ns < SHORTEST_PERIOD_NS { 0 } else { period_ns };
        let (timer_share, threshold_pps) = self.threshold(period_ns, &mut sums);
        let (ring_slots, packed_slots) =
            self.ring_slots(period_ns.max(instead_of_timer_ns), wishes.peak_pps, &mut sums);
        let waiting_share = if threshold_pps.is_finite() { timer_share } else { 0.0 };
        let peak_share = waiting_share + per_packet;
        let no_loss_bound_pps = (1.0 - waiting_share) / self.per_packet_ns * 1e9;
        sums.push(format!(
            "core: {:.1} % for waiting, {:.1} % for {} at {:.0} ns each; what waiting leaves is full at {}",
            waiting_share * 100.0,
            per_packet * 100.0,
            rate(wishes.peak_pps),
            self.per_packet_ns,
            rate(no_loss_bound_pps)
        ));
        if instead_of_timer_ns > 0 {
            sums.push(format!(
                "where NAPI shares the engine's CPU it pauses for {} ({NAPI_SHARED_PACKETS} packets at the peak, or what the bound \
                 leaves), and wakes the engine: no timer is needed",
                time(instead_of_timer_ns)
            ));
        }
        let verdict = if wait_ns < 0.0 {
            // In whole steps of 10 µs.
            let nearest_ns = (self.jitter_p99_ns as f64 * REPORTING / 1e4).ceil() as u64 * 10_000;
            Verdict::WakesTooLate { nearest_ns }
        } else if peak_share > 1.0 {
            Verdict::CoreTooSlow
        } else {
            Verdict::Kept
        };
        Ok(Plan {
            verdict,
            max_latency_ns: bound_ns,
            peak_pps: wishes.peak_pps,
            jitter_p99_ns: self.jitter_p99_ns,
            period_ns,
            napi_pause,
            threshold_pps,
            ring_slots,
            packed_slots,
            timer_share,
            peak_share,
            no_loss_bound_pps,
            sums,
        })
    }

    /// What the timer takes, and the rate at which interrupts take as much.
    fn threshold(&self, period_ns: u64, sums: &mut Vec<String>) -> (f64, f64) {
        if period_ns == 0 {
            return (0.0, f64::INFINITY);
        }
        let poll_hz = 1e9 / period_ns as f64;
        let timer_share = interpolate(&self.timer, poll_hz);
        if let Some(doubt) = self.curve_doubts().first() {
            let assumed_us = ASSUMED_WAKE_NS / 1e3;
            sums.push(format!(
                "threshold: the timer's own rate, and {assumed_us:.0} µs a wake-up, as the calibration is doubtful ({doubt})"
            ));
            return ((poll_hz * ASSUMED_WAKE_NS / 1e9).min(1.0), poll_hz);
        }
        sums.push(format!(
            "timer: {poll_hz:.0} wake-ups a second at {:.1} µs each: {:.2} % of the core",
            timer_share / poll_hz * 1e6,
            timer_share * 100.0
        ));
        if self.interrupt.is_empty() {
            sums.push(
                "threshold: the timer's own rate, as one CPU alone can't measure what an interrupt costs".to_owned(),
            );
            return (timer_share, poll_hz);
        }
        let Some(rate_hz) = rate_at(&self.interrupt, timer_share) else {
            sums.push("threshold: none, as interrupts stay cheaper at every rate measured".to_owned());
            return (timer_share, f64::INFINITY);
        };
        sums.push(format!(
            "threshold: {} interrupts a second at {:.1} µs each take as much as the timer",
            rate(rate_hz).trim_end_matches("pps"),
            timer_share / rate_hz * 1e6
        ));
        // Below one packet a tick the timer would wake for nothing more often than not.
        (timer_share, rate_hz.max(poll_hz))
    }

    /// Slots for the longest time nobody looks at the ring (\[1] §2, §5.7, §7.3), and packed ones.
    fn ring_slots(&self, wait_ns: u64, peak_pps: f64, sums: &mut Vec<String>) -> (u32, u32) {
        let pause_ns = self.jitter_max_ns.max(if self.virtual_machine { VIRTUAL_PAUSE_NS } else { PAUSE_NS });
        let worst_ns = wait_ns + pause_ns;
        let wanted_of =
            |frames_per_s: f64| formulas::ring_slots(worst_ns, frames_per_s as u64, RING_SAFETY).unwrap_or(u32::MAX);
        let slots_of = |frames_per_s: f64| wanted_of(frames_per_s).clamp(FEWEST_SLOTS, MOST_SLOTS);
        let frames = packed_frames_per_packet(peak_pps);
        let (slots, packed_slots) = (slots_of(peak_pps), slots_of(peak_pps * frames));
        let whose = if self.virtual_machine { "the virtual machine's host" } else { "the kernel" };
        sums.push(format!(
            "ring: {RING_SAFETY} times what comes at the peak in {} of waiting and {}, for which {whose} may keep the CPU: {:.0} \
             packets, {slots} slots",
            time(wait_ns),
            time(pause_ns),
            worst_ns as f64 / 1e9 * peak_pps * f64::from(RING_SAFETY),
        ));
        if wanted_of(peak_pps) > MOST_SLOTS {
            sums.push(format!(
                "ring: no plan gives more than {MOST_SLOTS} slots, which hold {} of the peak; --ring gives more",
                time((f64::from(MOST_SLOTS) / peak_pps * 1e9) as u64)
            ));
        }
        if packed_slots != slots {
            sums.push(format!(
                "ring: {packed_slots} slots of packed frames, of which a packet takes {frames} at 1 Gbit/s"
            ));
        }
        (slots, packed_slots)
    }
}

/// How many packed frames a packet takes in the mean, at most, when so many share 1 Gbit/s.
fn packed_frames_per_packet(peak_pps: f64) -> f64 {
    let longest = (LINK_BYTES_PER_S / peak_pps - BESIDE_PACKET_BYTES).min(LONGEST_BYTES);
    ((longest + f64::from(STAMP_BYTES)) / f64::from(XdpSource::PACKED)).ceil().max(1.0)
}

impl Plan {
    /// The hybrid policy with this plan's numbers; interrupts alone where the timer never pays.
    pub fn policy(&self) -> Policy {
        if self.period_ns == 0 || !self.threshold_pps.is_finite() {
            return Policy::Interrupt;
        }
        Policy::Hybrid(Hybrid::new(self.threshold_pps, self.period_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::calibration;
    use super::*;

    #[test]
    fn a_bound_of_1_ms_gives_the_sums_by_hand() {
        let plan = calibration().plan(&Wishes::default()).unwrap();
        // (1000 / 1.03125 − 30 − 100) / (1 + 1.5e6 × 25e-9) = 809.3 µs
        assert_eq!(plan.period_ns / 100, 8093, "{}", plan.period_ns);
        // 1236 polls/s: 0.03 + 0.236 × 0.02 = 3.47 %; interrupts reach that at 1000 + (3.47 − 0.5)/3.5 × 9000 = 8640/s
        assert!((plan.timer_share - 0.03471).abs() < 1e-4, "{}", plan.timer_share);
        assert!((plan.threshold_pps - 8640.0).abs() < 10.0, "{}", plan.threshold_pps);
        assert_eq!(
            plan.napi_pause,
            NapiPause { apart_ns: 50_000, shared_ns: 100_000, instead_of_timer_ns: 0, while_thick: true }
        );
        // (0.809 + 10) ms × 1.5 Mpps × 4 = 64856
        assert_eq!(
            (plan.ring_slots, plan.packed_slots),
            (65_536, 65_536),
            "at the most a gigabit brings, packets are small"
        );
        assert!(matches!(plan.policy(), Policy::Hybrid(_)));
        assert_eq!((plan.sums.len(), plan.verdict), (5, Verdict::Kept), "{plan}");
    }

    #[test]
    fn the_napi_pause_follows_peak_and_bound() {
        let pause_us = |peak_pps, bound_us| {
            let max_latency = Duration::from_micros(bound_us);
            let pause = calibration().plan(&Wishes { max_latency, peak_pps, napi_pace_ns: None }).unwrap().napi_pause;
            (pause.apart_ns / 1000, pause.shared_ns / 1000)
        };
        assert_eq!(pause_us(1.5e6, 1000), (50, 100));
        assert_eq!(pause_us(5e5, 1000), (150, 200));
        assert_eq!(pause_us(5e5, 400), (133, 133), "a third of the bound");
        assert_eq!(pause_us(1e6, 1000), (75, 100));
        assert_eq!(pause_us(3e6, 1000), (0, 50), "the device queue would not hold what comes meanwhile");
        assert_eq!(pause_us(1.5e6, 250), (0, 0));
        let wishes = Wishes { napi_pace_ns: Some(70_000), ..Wishes::default() };
        assert_eq!(calibration().plan(&wishes).unwrap().napi_pause, NapiPause::anywhere(70_000), "as told");
    }

    #[test]
    fn a_low_peak_needs_no_timer_of_ours() {
        let plan_of = |peak_pps, napi_pace_ns| {
            calibration().plan(&Wishes { peak_pps, napi_pace_ns, ..Wishes::default() }).unwrap()
        };
        let plan = plan_of(150e3, None);
        // (1000 / 1.03125 − 30) / (1 + 150e3 × 25e-9) = 936.2 µs, of which 100 packets take 667; beside a timer a third.
        let pauses =
            NapiPause { apart_ns: 333_333, shared_ns: 333_333, instead_of_timer_ns: 666_667, while_thick: true };
        assert_eq!(plan.napi_pause, pauses);
        assert!(matches!(plan.policy(), Policy::Hybrid(_)), "for where NAPI runs elsewhere, or can't be paced");
        // (0.667 + 10) ms × 150 kpps × 4 = 6400
        assert_eq!((plan.ring_slots, plan.sums.len()), (8192, 7), "{plan}");
        // 125e6 / 150e3 − 24 + 16 = 825 bytes: two frames, 12,800 of them
        assert_eq!(plan.packed_slots, 16_384, "{plan}");
        assert_eq!(plan_of(50e3, None).napi_pause.instead_of_timer_ns, 938_523, "all that the bound leaves");
        assert_eq!(plan_of(250e3, None).napi_pause.instead_of_timer_ns, 0, "100 packets come in less than half of it");
        assert_eq!(plan_of(150e3, Some(100_000)).napi_pause, NapiPause::anywhere(100_000), "as told");
    }

    #[test]
    fn a_bound_below_the_jitter_leaves_interrupts() {
        let plan = calibration().plan(&Wishes { max_latency: Duration::from_micros(40), ..Wishes::default() }).unwrap();
        assert_eq!(plan.period_ns, 0);
        assert_eq!(plan.policy(), Policy::Interrupt);
    }

    #[test]
    fn a_plan_answers_first() {
        let of = |bound_us, peak_pps| {
            let max_latency = Duration::from_micros(bound_us);
            calibration().plan(&Wishes { max_latency, peak_pps, napi_pace_ns: None }).unwrap()
        };
        let head = |plan: &Plan| plan.to_string().lines().next().unwrap().to_owned();
        assert_eq!(head(&of(1000, 1.5e6)), "A bound of 1 ms at up to 1.50 Mpps can be kept.");
        let late = of(10, 1.5e6);
        assert_eq!(late.verdict, Verdict::WakesTooLate { nearest_ns: 40_000 });
        assert!(head(&late).contains("cannot be kept: 1 of 100 wake-ups on this host comes 30 µs late"), "{late}");
        assert!(late.to_string().contains("The tightest bound that can be kept here is 40 µs."), "{late}");
        assert_eq!(of(40, 1.5e6).verdict, Verdict::Kept, "what it names can be kept");
        let full = of(1000, 50e6);
        assert_eq!(full.verdict, Verdict::CoreTooSlow);
        assert!(
            head(&full).contains("losses begin, at 38.6 Mpps") || head(&full).contains("losses begin, at"),
            "{full}"
        );
        for plan in [of(1000, 1.5e6), late, full] {
            let text = plan.to_string();
            for word in ["  period ", "  threshold ", "  ring ", "  memory ", "  core ", "Why:"] {
                assert!(text.contains(word), "{word} in {text}");
            }
            for code in ["t_P", "t_POH", "×", "inf"] {
                assert!(!text.contains(code), "{code} in {text}");
            }
        }
    }

    #[test]
    fn a_ring_that_is_not_as_large_as_its_sum_is_told() {
        let restless = Calibration { jitter_max_ns: 40_000_000, ..calibration() };
        let plan = restless.plan(&Wishes::default()).unwrap();
        assert_eq!(plan.ring_slots, 65_536);
        assert!(
            plan.to_string().contains("no plan gives more than 65536 slots, which hold 43.7 ms of the peak"),
            "{plan}"
        );
        let calm = calibration().plan(&Wishes { peak_pps: 1e5, ..Wishes::default() }).unwrap();
        assert!(!calm.to_string().contains("no plan gives"), "{calm}");
    }

    #[test]
    fn doubtful_curves_set_no_threshold() {
        let doubtful = Calibration { others_share: Some(0.3), ..calibration() };
        let plan = doubtful.plan(&Wishes::default()).unwrap();
        assert!((plan.threshold_pps - 1e9 / plan.period_ns as f64).abs() < 1.0, "{plan}");
        assert!(plan.to_string().contains("doubtful"), "{plan}");
    }

    #[test]
    fn a_dear_timer_never_takes_over() {
        let mut dear = calibration();
        // 140 µs a wake-up, and interrupts for almost nothing.
        dear.timer.iter_mut().for_each(|cost| cost.core_share = (cost.rate_hz * 140e-6).min(1.0));
        let plan = dear.plan(&Wishes::default()).unwrap();
        assert!(plan.threshold_pps.is_infinite());
        assert_eq!(plan.policy(), Policy::Interrupt);
    }

    #[test]
    fn one_cpu_falls_back_to_the_poll_rate() {
        let mut alone = calibration();
        alone.interrupt.clear();
        let plan = alone.plan(&Wishes::default()).unwrap();
        assert!((plan.threshold_pps - 1e9 / plan.period_ns as f64).abs() < 1.0);
    }

    #[test]
    fn a_long_bound_does_not_outlast_the_ring() {
        let plan_of = |max_ms, peak_pps| {
            let max_latency = Duration::from_millis(max_ms);
            calibration().plan(&Wishes { max_latency, peak_pps, napi_pace_ns: None }).unwrap()
        };
        // 65,536 slots / 2 / 1.5 Mpps
        assert_eq!(plan_of(100, 1.5e6).period_ns, 21_845_333);
        assert!(plan_of(100, 1.5e6).to_string().contains("a lower --peak-rate leaves more"));
        let (ten, slow) = (plan_of(10, 1.5e6), plan_of(100, 100e3));
        assert!(ten.period_ns < 10_000_000 && slow.period_ns > 90_000_000, "{} {}", ten.period_ns, slow.period_ns);
    }

    #[test]
    fn absurd_wishes_are_refused() {
        for wishes in [
            Wishes { max_latency: Duration::from_nanos(1), ..Wishes::default() },
            Wishes { max_latency: Duration::from_secs(2), ..Wishes::default() },
            Wishes { peak_pps: 0.0, ..Wishes::default() },
            Wishes { peak_pps: f64::NAN, ..Wishes::default() },
        ] {
            let error = calibration().plan(&wishes).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Usage);
            assert!(error.to_string().contains("give "), "{error}");
        }
    }
}

//! How the kernel's NAPI is paced beneath an AF_XDP receiver, and when it takes the place of our timer.
//!
//! Owns the choice of the pause by policy and CPUs, and the thread that lifts the pause while traffic is thin. What is written,
//! and put back, is `napi`'s and `settings`'.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::watch::STACK_BYTES;
use super::{ReceiverConfig, lock};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::meters::EngineMeters;
use crate::napi;
use crate::pacer::Policy;
use crate::settings::{Lifter, Setting, Settings};
use crate::sys::ethtool;
use crate::sys::event::Stop;

/// How NAPI is paced.
#[derive(Debug)]
pub(super) enum Pace {
    /// As it was: the device's own settings, or a net below our polls.
    Unchanged,
    /// It pauses in place of our timer: engines wait for interrupts.
    InsteadOfTimer,
    /// It pauses beside our timer, while traffic is thick.
    Paused(Pause),
}

/// A pause that can be lifted.
#[derive(Debug)]
pub(super) struct Pause {
    lifter: Lifter,
    length_ns: u64,
}

/// Paces the NAPI of an AF_XDP receiver's interface, `cpus` being where its engines run.
pub(super) fn pace_napi(
    config: &ReceiverConfig,
    interface: &Interface,
    busy_poll: bool,
    cpus: &[usize],
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Pace {
    const DEFER_HARD_IRQS: u64 = 2;
    /// What our wake-ups are late, and more.
    const NET_BELOW_NS: u64 = 100_000;
    let (flush_ns, instead_of_timer) = if busy_poll {
        warnings.extend(card_ring_warning(
            &interface.name,
            config.ring_slots,
            ethtool::receive_ring(&interface.name).ok(),
        ));
        // Our thread runs the device's poll itself; the kernel's timer is only a net below, longer than our period
        // (Documentation/networking/napi.rst, busy polling). Little longer: while we wait for the interrupt at low rates it
        // still defers that after each packet, and the next one then waits for this timer, which must not break the bound.
        // When our poll comes later than the net, the kernel polls once more and the interrupt stays deferred.
        let net_ns = longest_period_ns(&config.policy).map(|period_ns| period_ns + (period_ns / 8).min(NET_BELOW_NS));
        (net_ns.unwrap_or(0), false)
    } else {
        // Generic XDP runs behind the driver's NAPI as well, on packets that GRO leaves alone.
        config.napi_pause.at(interface.index, cpus)
    };
    if flush_ns == 0 || !napi::pace(settings, &interface.name, DEFER_HARD_IRQS, flush_ns, warnings) {
        return Pace::Unchanged;
    }
    if instead_of_timer {
        return Pace::InsteadOfTimer;
    }
    // Whoever waits for interrupts is woken at the pace of the pause, which was asked for then.
    let may_lift = config.napi_pause.while_thick && !busy_poll && longest_period_ns(&config.policy).is_some();
    let lifter = may_lift.then(|| settings.lifter(Setting::NapiDeferHardIrqs).ok()).flatten();
    lifter.map_or(Pace::Unchanged, |lifter| Pace::Paused(Pause { lifter, length_ns: flush_ns }))
}

/// How often the rate is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A pause ends by a timer, whose interrupt and wake-up cost as much as those of some five packets: measured on a virtual machine,
/// NAPI in a thread, pauses of 50 and 100 µs, 20 k to 148 k packets/s. So the pause is worth it from so many packets in it on …
const THICK: f64 = 6.0;
/// … and no longer below so many, for a second on end.
const THIN: f64 = 4.0;
const THIN_LOOKS: u32 = 10;

impl Pause {
    /// Starts the thread that makes the pause while traffic is thick, and lifts it before that. An onset of a storm meets a NAPI that
    /// does not pause, and finds it pausing a moment later: the device's queue does not wait for a pause to end.
    ///
    /// Where it can't go on, `news` get a line.
    ///
    /// # Errors
    /// The thread can't be started: the pause stays.
    pub(super) fn follow(
        self,
        interface: &str,
        meters: &[Arc<EngineMeters>],
        stop: &Arc<Stop>,
        news: &Arc<Mutex<Vec<String>>>,
    ) -> Result<()> {
        let (name, meters, stop, news) = (interface.to_owned(), meters.to_vec(), Arc::clone(stop), Arc::clone(news));
        let follow = move || {
            let mut density = Density::default();
            let mut lifted = self.lifter.lift(true);
            while matches!(lifted, Ok(true)) && !stop.wait(LOOK) {
                let packets = meters.iter().map(|meters| meters.packets_so_far());
                if let Some(thick) = density.look(packets, self.length_ns) {
                    lifted = self.lifter.lift(!thick);
                }
            }
            // One that is gone tells its end itself.
            if let Err(error) = lifted
                && error.raw_os_error() != Some(libc::ENODEV)
            {
                let line = format!("{name}: napi_defer_hard_irqs follows the traffic no longer ({error})");
                lock(&news).push(line + ": packets may cost more than needed until the next start");
            }
        };
        std::thread::Builder::new()
            .name("ringtap-pace".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(follow)
            .map(drop)
            .map_err(|error| Error::os("start a thread to pace the kernel's NAPI on", interface, &error))
    }
}

/// Whether traffic is thick, as far as a pause is concerned.
#[derive(Debug, Default)]
struct Density {
    /// Of each engine. Each queue has a NAPI of its own, with its own pauses: the busiest counts.
    packets: Vec<u64>,
    /// At first traffic counts as thin.
    is_thick: bool,
    thin_looks: u32,
}

impl Density {
    /// After each [`LOOK`], with what each engine has had: tells a change, `true` for thick.
    fn look(&mut self, packets: impl ExactSizeIterator<Item = u64>, pause_ns: u64) -> Option<bool> {
        self.packets.resize(packets.len(), 0);
        let new = self.packets.iter_mut().zip(packets).map(|(before, now)| now - std::mem::replace(before, now));
        let in_a_pause = new.max().unwrap_or(0) as f64 * pause_ns as f64 / LOOK.as_nanos() as f64;
        self.thin_looks = if in_a_pause < THIN { self.thin_looks + 1 } else { 0 };
        let is_thick = if self.is_thick { self.thin_looks < THIN_LOOKS } else { in_a_pause >= THICK };
        (is_thick != self.is_thick).then(|| {
            self.is_thick = is_thick;
            is_thick
        })
    }
}

/// Between two polls of our thread packets wait in the card's own ring, not in ours: it should not be the smaller one.
fn card_ring_warning(interface: &str, ring_slots: u32, card: Option<(u32, u32)>) -> Option<String> {
    let (now, most) = card.filter(|&(now, most)| now < ring_slots && now < most)?;
    let wanted = ring_slots.min(most);
    Some(format!(
        "{interface}'s own ring has {now} descriptors, and with the timer packets wait there between two polls: \
         `ethtool -G {interface} rx {wanted}` makes it {wanted}"
    ))
}

/// The longest timer period a policy may use, if it has a timer.
fn longest_period_ns(policy: &Policy) -> Option<u64> {
    match policy {
        Policy::Hybrid(hybrid) => hybrid.rungs.iter().map(|rung| rung.period_ns).max(),
        Policy::Windowed(windowed) => Some(windowed.period_ns),
        Policy::Timer { period_ns } => Some(*period_ns),
        Policy::Interrupt | Policy::Busy => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at so many packets per 100 µs; what is told, with the number of the look.
    fn told(looks: impl IntoIterator<Item = u64>) -> Vec<(usize, bool)> {
        let (mut density, mut packets) = (Density::default(), 0);
        let look = |(number, in_a_pause): (usize, u64)| {
            packets += in_a_pause * 1000;
            density.look([packets].into_iter(), 100_000).map(|thick| (number, thick))
        };
        looks.into_iter().enumerate().filter_map(look).collect()
    }

    #[test]
    fn traffic_is_thin_after_a_second_and_thick_at_once() {
        let looks = |count: usize, in_a_pause| std::iter::repeat_n(in_a_pause, count);
        assert_eq!(told(looks(30, 5).chain(looks(9, 0))), [], "at first it is thin");
        assert_eq!(told(looks(3, 5).chain(looks(5, 150)).chain(looks(9, 3)).chain(looks(50, 5))), [(3, true)]);
        assert_eq!(told(looks(20, 0).chain(looks(1, 6)).chain(looks(12, 3))), [(20, true), (30, false)]);
    }

    #[test]
    fn the_busiest_engine_counts_and_not_all_together() {
        let mut density = Density::default();
        assert_eq!(density.look([3000; 4].into_iter(), 100_000), None, "12 in a pause, at four queues");
        assert_eq!(density.look([3000, 9000, 3000, 3000].into_iter(), 100_000), Some(true));
    }

    #[test]
    fn a_card_with_a_smaller_ring_that_can_grow_is_named() {
        let warning = |card| card_ring_warning("eth1", 2048, card);
        assert!(warning(Some((256, 4096))).unwrap().contains("rx 2048"));
        assert!(warning(Some((256, 1024))).unwrap().contains("rx 1024"));
        for enough in [Some((2048, 4096)), Some((1024, 1024)), None] {
            assert_eq!(warning(enough), None);
        }
    }
}

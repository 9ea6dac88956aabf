//! Owns: when packets wait longer than they should, and which of them go first then.
//! Does not: count the others; the detector does.

use std::sync::Arc;
use std::time::Duration;

use ringtap::arrival::ArrivalClock;
use ringtap::burst::Packet;
use ringtap_detect::Precedence;
use ringtap_wire::LinkType;

/// The clock is read for every so many packets.
const LOOK_EVERY: u32 = 16;

/// When packets wait longer than they should, those that matter most go first.
pub(crate) struct Shedding {
    /// Which; without it nothing is shed.
    precedence: Option<Arc<Precedence>>,
    /// Packets that waited longer begin the shedding; a quarter of it ends it. Nanoseconds.
    limit_ns: u64,
    /// Packets until the clock is read again.
    countdown: u32,
    /// Only packets that go first are looked at.
    active: bool,
}

impl Shedding {
    /// For packets that should wait no longer than `max_latency`; `None`: they may wait, as in a file.
    pub(crate) fn new(precedence: Option<Arc<Precedence>>, max_latency: Option<Duration>) -> Self {
        // A packet waits up to one period in any case, and the ring holds several at the peak rate.
        let limit_ns = max_latency.map_or(u64::MAX, |latency| 2 * latency.as_nanos() as u64);
        Self { precedence, limit_ns, countdown: 0, active: false }
    }

    /// Whether this packet is left out.
    #[inline]
    pub(crate) fn sheds(&mut self, packet: &Packet<'_>, link: LinkType, arrivals: &mut ArrivalClock) -> bool {
        let Some(precedence) = &self.precedence else { return false };
        if self.countdown == 0 {
            self.countdown = LOOK_EVERY;
            // A packet without a stamp says nothing.
            if let Some(waited_ns) = arrivals.waited_ns(packet.arrival_ns) {
                self.active = waited_ns > if self.active { self.limit_ns / 4 } else { self.limit_ns };
            }
        }
        self.countdown -= 1;
        self.active && !precedence.has(packet.data, link)
    }

    /// The ring is empty: nobody waits.
    pub(crate) fn rest(&mut self) {
        (self.active, self.countdown) = (false, 0);
    }

    /// Takes what goes first by other rules; returns what did before.
    pub(crate) fn replace(&mut self, precedence: Option<Arc<Precedence>>) -> Option<Arc<Precedence>> {
        std::mem::replace(&mut self.precedence, precedence)
    }
}

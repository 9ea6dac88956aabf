//! The loss ledger: offered = delivered + filtered + drops by cause + unaccounted.
//!
//! Owns the sum and its honesty: a counter that can't be read is unknown, and then so is what depends on it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Why a packet did not reach the handler, or not the output behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The device had no descriptor or overran (rx_missed_errors, rx_fifo_errors).
    Nic,
    /// Dropped between device and socket by the driver's queue (rx_dropped).
    DriverQueue,
    /// Of these, dropped by a per-CPU backlog (softnet_stat).
    Softnet,
    /// Wanted, but on a receive queue no engine reads; the host stack got it.
    NoSocket,
    /// No free slot in the receive ring.
    RingFull,
    /// No free frame in the fill ring.
    FillRingEmpty,
    /// Longer than a frame.
    Oversize,
    /// A descriptor or frame head that made no sense.
    InvalidDescriptor,
    /// Taken off the ring after the packet limit.
    LeftAtLimit,
    /// The queue to the engine that handles its flow was full.
    HandOverFull,
    /// Not looked at, because there were more packets than could be and others went first.
    Shed,
    /// The spool to the writer thread was full.
    SlowOutput,
    /// The output could not be written any more (disk full, I/O error).
    OutputFailed,
}

impl Cause {
    /// All of them, in the order of a packet's way.
    pub const ALL: [Self; 13] = [
        Self::Nic,
        Self::DriverQueue,
        Self::Softnet,
        Self::NoSocket,
        Self::RingFull,
        Self::FillRingEmpty,
        Self::Oversize,
        Self::InvalidDescriptor,
        Self::LeftAtLimit,
        Self::HandOverFull,
        Self::Shed,
        Self::SlowOutput,
        Self::OutputFailed,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nic => "nic",
            Self::DriverQueue => "driver_queue",
            Self::Softnet => "softnet",
            Self::NoSocket => "no_socket",
            Self::RingFull => "ring_full",
            Self::FillRingEmpty => "fill_ring_empty",
            Self::Oversize => "oversize",
            Self::InvalidDescriptor => "invalid_descriptor",
            Self::LeftAtLimit => "left_at_limit",
            Self::HandOverFull => "hand_over_full",
            Self::Shed => "shed",
            Self::SlowOutput => "slow_output",
            Self::OutputFailed => "output_failed",
        }
    }
}

/// Where every packet of a time span went. `None` means unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Packets that came to the device for us.
    pub offered: Option<u64>,
    /// Packets given to the application.
    pub delivered: u64,
    /// Packets nobody asked for.
    pub filtered: Option<u64>,
    /// `filtered` is unknown, and these packets are not among the offered ones, so that the sum holds without them: the kernel
    /// counts a packet socket's packets behind the socket's filter (PACKET_STATISTICS, packet(7)).
    #[serde(skip)]
    pub filtered_before_offered: bool,
    /// Packets lost, by cause.
    pub drops: BTreeMap<Cause, Option<u64>>,
    /// Of the delivered packets, those shorter than on the wire; no term of the sum.
    pub cut: u64,
    /// Of these, the ones that were so before we had them: in a file recorded with a snaplen.
    pub cut_before: u64,
}

impl Ledger {
    /// Adds to the drops of a cause; unknown stays unknown.
    pub fn drop(&mut self, cause: Cause, count: Option<u64>) {
        let entry = self.drops.entry(cause).or_insert(Some(0));
        *entry = entry.zip(count).map(|(a, b)| a + b);
    }

    /// Packets nobody asked for among the offered ones.
    pub fn filtered_of_offered(&self) -> Option<u64> {
        if self.filtered_before_offered { Some(0) } else { self.filtered }
    }

    /// Takes packets that were given to the application, which has a filter of its own, from the delivered ones to the filtered.
    pub fn filter_out(&mut self, count: u64) {
        self.delivered = self.delivered.saturating_sub(count);
        if self.filtered_before_offered {
            self.offered = self.offered.map(|offered| offered.saturating_sub(count));
        } else {
            self.filtered = self.filtered.map(|filtered| filtered + count);
        }
    }

    /// Takes packets that were given to the application and not looked at from the delivered ones to the drops.
    pub fn undeliver(&mut self, cause: Cause, count: u64) {
        self.delivered = self.delivered.saturating_sub(count);
        self.drop(cause, Some(count));
    }

    /// Both as one, as of two interfaces. What is unknown in one is unknown in the sum; where one counts behind its filter, the
    /// sum does, and the other's filtered packets are not among the offered ones any more.
    #[must_use]
    pub fn plus(mut self, mut other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        if self.filtered_before_offered != other.filtered_before_offered {
            let counted = if self.filtered_before_offered { &mut other } else { &mut self };
            counted.offered =
                counted.offered.zip(counted.filtered).map(|(offered, filtered)| offered.saturating_sub(filtered));
            (counted.filtered, counted.filtered_before_offered) = (None, true);
        }
        self.offered = sum(self.offered, other.offered);
        self.delivered += other.delivered;
        self.filtered = sum(self.filtered, other.filtered);
        for (cause, count) in other.drops {
            self.drop(cause, count);
        }
        self.cut += other.cut;
        self.cut_before += other.cut_before;
        self
    }

    /// Packets known to be lost.
    pub fn lost(&self) -> u64 {
        self.drops.values().flatten().sum()
    }

    /// What no counter explains: positive when packets vanished, negative when more came out than went in. `None` when a
    /// part of the sum is unknown.
    pub fn unaccounted(&self) -> Option<i64> {
        let drops: Option<u64> = self.drops.values().copied().sum();
        let explained = self.delivered as i64 + self.filtered_of_offered()? as i64 + drops? as i64;
        Some(self.offered? as i64 - explained)
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference =
            |now: Option<u64>, then: Option<u64>| now.zip(then).map(|(now, then)| now.saturating_sub(then));
        Self {
            offered: difference(self.offered, earlier.offered),
            delivered: self.delivered.saturating_sub(earlier.delivered),
            filtered: difference(self.filtered, earlier.filtered),
            filtered_before_offered: self.filtered_before_offered,
            drops: self
                .drops
                .iter()
                .map(|(&cause, &now)| (cause, difference(now, earlier.drops.get(&cause).copied().unwrap_or(Some(0)))))
                .collect(),
            cut: self.cut.saturating_sub(earlier.cut),
            cut_before: self.cut_before.saturating_sub(earlier.cut_before),
        }
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        write!(
            f,
            "offered {} = delivered {} + filtered {}",
            known(self.offered),
            self.delivered,
            known(self.filtered)
        )?;
        for (cause, &count) in self.drops.iter().filter(|(_, count)| **count != Some(0)) {
            write!(f, " + {} {}", cause.name(), known(count))?;
        }
        match self.unaccounted() {
            Some(count) => write!(f, " + unaccounted {count}"),
            None => write!(f, " + unaccounted unknown"),
        }?;
        match (self.cut, self.cut_before) {
            (0, _) => Ok(()),
            (cut, 0) => write!(f, "; {cut} delivered cut"),
            (cut, before) => write!(f, "; {cut} delivered cut, {before} of them before"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let mut ledger = Ledger { offered: Some(100), delivered: 80, filtered: Some(5), ..Ledger::default() };
        ledger.drop(Cause::RingFull, Some(10));
        ledger.drop(Cause::RingFull, Some(2));
        ledger.drop(Cause::Nic, Some(0));
        ledger
    }

    #[test]
    fn what_is_left_is_unaccounted() {
        let ledger = ledger();
        assert_eq!(ledger.lost(), 12);
        assert_eq!(ledger.unaccounted(), Some(3));
        assert_eq!(ledger.to_string(), "offered 100 = delivered 80 + filtered 5 + ring_full 12 + unaccounted 3");
    }

    #[test]
    fn what_is_taken_back_keeps_the_sum() {
        let mut ledger = ledger();
        ledger.undeliver(Cause::Shed, 30);
        assert_eq!((ledger.delivered, ledger.lost(), ledger.unaccounted()), (50, 42, Some(3)));
    }

    #[test]
    fn all_causes_are_listed_in_their_order() {
        assert!(Cause::ALL.is_sorted_by(|a, b| a < b));
        // The last one; a new one has its place before this check.
        assert_eq!(Cause::ALL.len(), Cause::OutputFailed as usize + 1);
    }

    #[test]
    fn unknown_is_never_zero() {
        let mut ledger = ledger();
        ledger.drop(Cause::Nic, None);
        assert_eq!(ledger.unaccounted(), None);
        assert!(ledger.to_string().contains("nic unknown"), "{ledger}");
        assert_eq!(serde_json::to_value(&ledger).unwrap()["drops"]["nic"], serde_json::Value::Null);
    }

    #[test]
    fn cut_packets_are_no_term_of_the_sum() {
        let cut = Ledger { cut: 7, ..ledger() };
        assert_eq!((cut.unaccounted(), cut.lost()), (Some(3), 12));
        assert!(cut.to_string().ends_with("unaccounted 3; 7 delivered cut"), "{cut}");
        let before = Ledger { cut_before: 2, ..cut.clone() };
        assert!(before.to_string().ends_with("; 7 delivered cut, 2 of them before"), "{before}");
        assert_eq!(before.since(&Ledger { cut: 5, cut_before: 2, ..ledger() }).cut, 2);
    }

    #[test]
    fn what_was_filtered_before_it_was_counted_is_unknown_and_spoils_no_sum() {
        let mut ledger = ledger();
        (ledger.offered, ledger.filtered) = (Some(92), None);
        assert_eq!(ledger.unaccounted(), None);
        ledger.filtered_before_offered = true;
        assert_eq!(ledger.unaccounted(), Some(0));
        assert!(ledger.to_string().contains("filtered unknown + "), "{ledger}");
        let start = Ledger { offered: Some(0), ..Ledger::default() };
        assert_eq!(ledger.since(&start).unaccounted(), Some(0));
        ledger.filter_out(7);
        assert_eq!((ledger.offered, ledger.filtered, ledger.delivered), (Some(85), None, 73));
        assert_eq!(ledger.unaccounted(), Some(0));
    }

    #[test]
    fn ledgers_of_two_interfaces_add_up() {
        let sum = ledger().plus(Ledger { cut: 3, ..ledger() });
        assert_eq!((sum.offered, sum.delivered, sum.filtered, sum.lost()), (Some(200), 160, Some(10), 24));
        assert_eq!((sum.unaccounted(), sum.cut), (Some(6), 3));
        let mut unknown = ledger();
        unknown.drop(Cause::Softnet, None);
        assert_eq!(ledger().plus(unknown).unaccounted(), None);
        let behind = Ledger { offered: Some(95), filtered: None, filtered_before_offered: true, ..ledger() };
        for sum in [ledger().plus(behind.clone()), behind.plus(ledger())] {
            assert_eq!((sum.offered, sum.filtered, sum.unaccounted()), (Some(190), None, Some(6)), "{sum}");
        }
    }

    #[test]
    fn intervals_subtract() {
        let mut later = ledger();
        later.offered = Some(150);
        later.delivered = 120;
        later.drop(Cause::Nic, Some(4));
        let interval = later.since(&ledger());
        assert_eq!((interval.offered, interval.delivered, interval.drops[&Cause::Nic]), (Some(50), 40, Some(4)));
    }
}

//! What follows from the times of planted pairs: which are found within which window, and how long each part of the way takes.
//!
//! Owns the arithmetic alone. Times are nanoseconds since 1970, all of one host's clock.

use std::collections::BTreeMap;
use std::time::Duration;

use ringtap::histogram::Histogram;
use serde::{Deserialize, Serialize};

use super::plant::STAGES;
use super::wires::WireLosses;
use crate::book::Delays;
use crate::run::delays;

/// One stage of a pair on its way; `None` where it was not seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StageTrace {
    /// Its packet arrived at the splitter.
    pub splitter_ns: Option<u64>,
    /// It arrived at the sensor.
    pub sensor_ns: Option<u64>,
    /// Its alarm was built.
    pub built_ns: Option<u64>,
    /// The alarm arrived where alarms are correlated.
    pub correlator_ns: Option<u64>,
    /// The sensor handled the packet, by its own account.
    pub is_handled: bool,
}

/// A pair on its way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    /// Between its packets when they were sent.
    pub gap: Duration,
    pub stages: [StageTrace; 2],
    /// Told by the rule with the widest window: at once, and for certain.
    pub provisional_ns: Option<u64>,
    pub final_ns: Option<u64>,
    /// By the correlator, for each window.
    pub found: Vec<bool>,
}

impl Trace {
    /// Both sensors handled their packet.
    pub(crate) fn is_delivered(&self) -> bool {
        self.stages.iter().all(|stage| stage.is_handled)
    }

    /// Between two times of the same kind.
    fn distance(&self, time: impl Fn(&StageTrace) -> Option<u64>) -> Option<Duration> {
        let [first, second] = &self.stages;
        Some(Duration::from_nanos(time(first)?.abs_diff(time(second)?)))
    }

    /// Between its alarms where they are correlated.
    pub(crate) fn apart_on_arrival(&self) -> Option<Duration> {
        self.distance(|stage| stage.correlator_ns)
    }

    /// Between its packets at the sensors.
    pub(crate) fn apart_by_stamp(&self) -> Option<Duration> {
        self.distance(|stage| stage.sensor_ns)
    }

    /// When the last of its packets came to the splitter.
    pub(crate) fn last_packet_ns(&self) -> Option<u64> {
        let [first, second] = self.stages.map(|stage| stage.splitter_ns);
        Some(first?.max(second?))
    }
}

/// Pairs of one gap under one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub gap_us: u64,
    pub window_us: u64,
    /// Sent.
    pub pairs: u64,
    /// Both sensors handled their packets; `None` where none keeps an account of it, as a log shows alerts alone.
    pub delivered: Option<u64>,
    /// Of these, those whose packets the sensors saw no farther apart than the window: they must be found.
    pub due: u64,
    /// Of these, those that were not found in event time.
    pub missed: u64,
    /// Found by the correlator in event time; `None` where nobody correlates in event time.
    pub by_event: Option<u64>,
    /// Whose alarms arrived no farther apart than the window.
    pub by_arrival: u64,
}

/// What was lost of a run's packets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Losses {
    /// On the testbed's own wires.
    pub wires: WireLosses,
    /// By the ledgers of splitter and sensors.
    pub ledgers: u64,
}

/// All of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Evidence {
    /// Gap by gap, in each of them window by window.
    pub cells: Vec<Cell>,
    /// Parts of the way by name, and from the last packet to what is told.
    pub hops: BTreeMap<String, Delays>,
    /// Packets of pairs that no sensor handled.
    pub not_handled: u64,
    /// Of them, those for which the testbed's wire in front of whoever did not see them has a loss.
    #[serde(default)]
    pub lost_on_wires: u64,
    /// Of the rest, those that no ledger has among its losses: pairs of these count as missed.
    pub unexplained: u64,
    /// Losses of these wires, of all packets; unknown in books of before they were read.
    #[serde(default)]
    pub wires: WireLosses,
}

/// From the last packet of a pair at the splitter to the announcement.
pub(crate) const TO_PROVISIONAL: &str = "last packet to provisional";
/// The same to the final one.
pub(crate) const TO_FINAL: &str = "last packet to final";
/// The same to the second line of syslog.
pub(crate) const TO_LOG: &str = "last packet to log";

impl Evidence {
    /// Of a run's pairs through sensors that keep ledgers and a correlator in event time.
    pub(crate) fn of(traces: &[Trace], windows: &[Duration], losses: &Losses) -> Self {
        let count = |is_lost: &dyn Fn(usize, &StageTrace) -> bool| {
            let stages = traces.iter().flat_map(|trace| trace.stages.iter().enumerate());
            stages.filter(|(number, stage)| !stage.is_handled && is_lost(*number, stage)).count() as u64
        };
        let not_handled = count(&|_, _| true);
        let mut lost_on_wires = count(&|_, stage| stage.splitter_ns.is_none()).min(losses.wires.before.unwrap_or(0));
        for (wire, lost) in losses.wires.behind.iter().enumerate() {
            let behind = count(&|number, stage| number == wire && stage.splitter_ns.is_some());
            lost_on_wires += behind.min(lost.unwrap_or(0));
        }
        let unexplained = (not_handled - lost_on_wires).saturating_sub(losses.ledgers);
        let (cells, wires) = (cells(traces, windows, true), losses.wires);
        Self { cells, hops: hops(traces), not_handled, lost_on_wires, unexplained, wires }
    }

    /// Of a run's pairs as a log shows them.
    pub(crate) fn of_log(traces: &[Trace], windows: &[Duration], wires: WireLosses) -> Self {
        Self { cells: cells(traces, windows, false), hops: log_hops(traces), wires, ..Self::default() }
    }

    /// Pairs that had to be found in event time and were not, over all windows, and those that nobody can explain.
    pub(crate) fn missed(&self) -> u64 {
        self.cells.iter().map(|cell| cell.missed).fold(self.unexplained, u64::saturating_add)
    }

    /// Pairs that had to be found, over all windows.
    pub(crate) fn due(&self) -> u64 {
        self.cells.iter().map(|cell| cell.due).fold(0, u64::saturating_add)
    }
}

/// Gap by gap, in each of them window by window. `in_event_time`: of sensors and a correlator, else of a log.
fn cells(traces: &[Trace], windows: &[Duration], in_event_time: bool) -> Vec<Cell> {
    let mut gaps: Vec<Duration> = traces.iter().map(|trace| trace.gap).collect();
    gaps.sort_unstable();
    gaps.dedup();
    let cell = |gap: Duration, (number, window): (usize, &Duration)| {
        let own = || traces.iter().filter(move |trace| trace.gap == gap);
        let count = |wanted: &dyn Fn(&Trace) -> bool| own().filter(|trace| wanted(trace)).count() as u64;
        let within = |apart: Option<Duration>| apart.is_some_and(|apart| apart <= *window);
        let is_found = |trace: &Trace| trace.found.get(number) == Some(&true);
        // A sensor that handled the packet and lost the alarm leaves no stamp: the splitter's stands for it.
        let apart = |trace: &Trace| trace.apart_by_stamp().or(trace.distance(|stage| stage.splitter_ns));
        let is_due = |trace: &Trace| trace.is_delivered() && within(apart(trace));
        Cell {
            gap_us: gap.as_micros() as u64,
            window_us: window.as_micros() as u64,
            pairs: count(&|_| true),
            delivered: in_event_time.then(|| count(&Trace::is_delivered)),
            due: if in_event_time { count(&is_due) } else { 0 },
            missed: if in_event_time { count(&|trace| is_due(trace) && !is_found(trace)) } else { 0 },
            by_event: in_event_time.then(|| count(&is_found)),
            by_arrival: count(&|trace| within(trace.apart_on_arrival())),
        }
    };
    gaps.iter().flat_map(|gap| windows.iter().enumerate().map(|window| cell(*gap, window))).collect()
}

/// Distribution of a time between two moments.
fn hop(traces: &[Trace], of: impl Fn(&Trace) -> Option<(u64, u64)>) -> Option<Delays> {
    let histogram = Histogram::default();
    traces.iter().filter_map(of).for_each(|(from, to)| histogram.record(to.saturating_sub(from)));
    delays(&histogram.snapshot())
}

fn hops(traces: &[Trace]) -> BTreeMap<String, Delays> {
    type Moment = fn(&StageTrace) -> Option<u64>;
    type Announced = fn(&Trace) -> Option<u64>;
    let parts: [(&str, Moment, Moment); 3] = [
        ("splitter to", |stage| stage.splitter_ns, |stage| stage.sensor_ns),
        ("alarm built by", |stage| stage.sensor_ns, |stage| stage.built_ns),
        ("alarm arrived of", |stage| stage.built_ns, |stage| stage.correlator_ns),
    ];
    let mut hops = BTreeMap::new();
    for (number, stage) in STAGES.iter().enumerate() {
        for (part, from, to) in parts {
            let of = |trace: &Trace| from(&trace.stages[number]).zip(to(&trace.stages[number]));
            hops.extend(hop(traces, of).map(|delays| (format!("{part} {}", stage.sensor), delays)));
        }
    }
    let told: [(&str, Announced); 2] =
        [(TO_PROVISIONAL, |trace| trace.provisional_ns), (TO_FINAL, |trace| trace.final_ns)];
    for (name, told) in told {
        let of = |trace: &Trace| trace.last_packet_ns().zip(told(trace));
        hops.extend(hop(traces, of).map(|delays| (name.to_owned(), delays)));
    }
    hops
}

fn log_hops(traces: &[Trace]) -> BTreeMap<String, Delays> {
    let last_line = |trace: &Trace| {
        let [first, second] = trace.stages.map(|stage| stage.correlator_ns);
        Some(first?.max(second?))
    };
    let of = |trace: &Trace| trace.last_packet_ns().zip(last_line(trace));
    hop(traces, of).map(|delays| (TO_LOG.to_owned(), delays)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A pair of packets 1 ms apart, whose first alarm arrives late.
    fn late(delay_ms: u64, found: bool) -> Trace {
        let stage = |at: u64, arrived: u64| StageTrace {
            splitter_ns: Some(at),
            sensor_ns: Some(at + MS / 10),
            built_ns: Some(at + MS / 5),
            correlator_ns: Some(arrived),
            is_handled: true,
        };
        Trace {
            gap: Duration::from_millis(1),
            stages: [stage(MS, (1 + delay_ms) * MS), stage(2 * MS, 2 * MS)],
            provisional_ns: Some(20 * MS),
            final_ns: Some(110 * MS),
            found: vec![found],
        }
    }

    #[test]
    fn delay_misses_pairs_on_arrival_and_not_in_event_time() {
        let window = [Duration::from_millis(5)];
        let evidence = Evidence::of(&[late(0, true), late(9, true)], &window, &Losses::default());
        let cell = &evidence.cells[0];
        assert_eq!((cell.pairs, cell.due, cell.missed, cell.by_event, cell.by_arrival), (2, 2, 0, Some(2), 1));
        assert_eq!((evidence.missed(), evidence.due()), (0, 2));
        let hop = &evidence.hops[TO_FINAL];
        assert!((hop.p50 - 108e3).abs() < 2e3 && hop.count == 2, "{hop:?}");
        assert!((evidence.hops["splitter to north"].p50 - 100.0).abs() < 4.0);
    }

    #[test]
    fn what_is_due_and_not_found_is_missed() {
        let window = [Duration::from_millis(5)];
        let mut silent = late(0, false);
        // Handled, but the alarm never came.
        (silent.stages[0].sensor_ns, silent.stages[0].correlator_ns) = (None, None);
        let none = Losses::default();
        assert_eq!(Evidence::of(&[silent.clone()], &window, &none).missed(), 1);
        // Never handled: explained by a loss, or not.
        silent.stages[0].is_handled = false;
        let missed = |ledgers| Evidence::of(&[silent.clone()], &window, &Losses { ledgers, ..none }).missed();
        assert_eq!((missed(1), missed(0)), (0, 1));
        let apart = [Duration::from_micros(999)];
        assert_eq!(Evidence::of(&[late(0, false)], &apart, &none).due(), 0);
    }

    #[test]
    fn what_a_wire_lost_is_told_from_what_was_missed() {
        let window = [Duration::from_millis(5)];
        let mut trace = late(0, false);
        trace.stages[0].is_handled = false;
        let lost = |trace: &Trace, before, first, second| {
            let wires = WireLosses { before, behind: [first, second] };
            let evidence = Evidence::of(std::slice::from_ref(trace), &window, &Losses { wires, ledgers: 0 });
            (evidence.not_handled, evidence.lost_on_wires, evidence.missed())
        };
        // The splitter saw it: only the wire behind it can have lost it.
        assert_eq!(lost(&trace, Some(7), Some(2000), Some(7)), (1, 1, 0));
        assert_eq!(lost(&trace, Some(7), Some(0), Some(7)), (1, 0, 1));
        assert_eq!(lost(&trace, Some(7), None, Some(7)), (1, 0, 1), "a counter that can't be read explains nothing");
        trace.stages[0].splitter_ns = None;
        assert_eq!(lost(&trace, Some(1), Some(0), Some(0)), (1, 1, 0));
        assert_eq!(lost(&trace, Some(0), Some(7), Some(7)), (1, 0, 1));
        // No more than it lost.
        let wires = WireLosses { before: Some(1), behind: [Some(0); 2] };
        let both = Evidence::of(&[trace.clone(), trace], &window, &Losses { wires, ledgers: 0 });
        assert_eq!((both.lost_on_wires, both.unexplained), (1, 1));
    }

    #[test]
    fn a_log_shows_alerts_and_not_what_was_handled() {
        let evidence = Evidence::of_log(&[late(9, false)], &[Duration::from_millis(50)], WireLosses::default());
        let cell = &evidence.cells[0];
        assert_eq!((cell.delivered, cell.by_event, cell.by_arrival, evidence.missed()), (None, None, 1, 0));
    }
}

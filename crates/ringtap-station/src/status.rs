//! The station's account: one ledger from the wire to the disk, with the causes of everything that is not stored.
//!
//! Owns the sum. It is shown as text, as JSON, in the store for `top`, and as metrics.

use std::fmt;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ringtap::histogram::HistogramSnapshot;
use ringtap::ledger::{Cause as Loss, Ledger};
use ringtap_run::units;
use serde_json::{Value, json};

use crate::cause::{Cause, CauseCounts};
use crate::counts::StationCounts;
use crate::pipeline::Pipeline;
use crate::receive::ring::{Ring, RingCounts};
use crate::receive::sockets::{self, Take};
use crate::spool::Lost;

/// What a receiving thread took from its sockets.
#[derive(Debug, Default)]
pub(crate) struct ReceiveCounts {
    /// Datagrams, or messages of a stream.
    pub(crate) datagrams: AtomicU64,
}

/// Everything that counts.
#[derive(Default)]
pub(crate) struct Sources {
    received: Vec<Arc<ReceiveCounts>>,
    /// Of the spools of sockets.
    lost: Vec<Arc<Lost>>,
    inodes: Vec<(u64, bool)>,
    /// The sockets also get what the ring has.
    are_copies: bool,
    _sockets: Vec<UdpSocket>,
    ring: Option<Arc<Mutex<RingState>>>,
    ring_queues: Vec<RingQueue>,
    station: Arc<StationCounts>,
    framing: Arc<CauseCounts>,
    not_told: Arc<AtomicU64>,
    error: Arc<Mutex<Option<String>>>,
    started: Option<Instant>,
}

/// The rings while they run, and what they left.
pub(crate) enum RingState {
    /// They run.
    Running(Box<Ring>),
    /// They have ended: name and ledger of each interface.
    Ended(Vec<(String, Ledger)>),
}

/// What is counted behind one queue of a ring.
struct RingQueue {
    /// Number of the interface.
    device: usize,
    counts: Arc<RingCounts>,
    lost: Arc<Lost>,
}

impl Sources {
    pub(crate) fn add_sockets(
        &mut self,
        take: Take,
        counts: Arc<ReceiveCounts>,
        lost: Arc<Lost>,
        inodes: Vec<(u64, bool)>,
        sockets: Vec<UdpSocket>,
    ) {
        self.received.push(counts);
        self.lost.push(lost);
        self.inodes = inodes;
        self.are_copies = take == Take::InFragments;
        self._sockets = sockets;
    }

    pub(crate) fn add_stream(&mut self, counts: Arc<ReceiveCounts>, lost: Arc<Lost>) {
        self.received.push(counts);
        self.lost.push(lost);
    }

    pub(crate) fn add_ring(&mut self, ring: Arc<Mutex<RingState>>) {
        self.ring = Some(ring);
    }

    /// Of the interface with this number.
    pub(crate) fn add_ring_queue(&mut self, device: usize, counts: Arc<RingCounts>, lost: Arc<Lost>) {
        self.ring_queues.push(RingQueue { device, counts, lost });
    }

    /// What came by each interface as of now, from the wire to its spools.
    fn interfaces(&self) -> Vec<(String, Ledger)> {
        let Some(ring) = &self.ring else { return Vec::new() };
        let core = match &mut *ring.lock().unwrap_or_else(PoisonError::into_inner) {
            RingState::Running(ring) => ring.ledgers(),
            RingState::Ended(ledgers) => ledgers.clone(),
        };
        let behind = |(number, (name, mut ledger)): (usize, (String, Ledger))| {
            for queue in self.ring_queues.iter().filter(|queue| queue.device == number) {
                // Packets that the ring took and that carry nothing for us.
                ledger.filter_out(queue.counts.not_ours.load(Ordering::Relaxed));
                ledger.undeliver(Loss::SlowOutput, queue.lost.read().0);
            }
            (name, ledger)
        };
        core.into_iter().enumerate().map(behind).collect()
    }

    pub(crate) fn attach(&mut self, pipeline: &Pipeline, framing: Arc<CauseCounts>) {
        self.station = pipeline.counts();
        self.error = pipeline.error();
        self.not_told = pipeline.not_told();
        self.framing = framing;
        self.started = Some(Instant::now());
    }

    /// The rings have ended with these ledgers.
    pub(crate) fn finish_ring(&self, ledgers: Vec<(String, Ledger)>) {
        if let Some(ring) = &self.ring {
            *ring.lock().unwrap_or_else(PoisonError::into_inner) = RingState::Ended(ledgers);
        }
    }

    /// Everything as of now.
    pub(crate) fn status(&self) -> Status {
        let station = &self.station;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        // What is behind is read first, so that a part never exceeds the whole.
        let (stored, not_stored) = (load(&station.stored), load(&station.not_stored));
        let snmp = [0, 1, 2].map(|version| load(&station.snmp[version]));
        let syslog = load(&station.syslog);
        let causes: Vec<(&'static str, u64)> = Cause::all()
            .map(|cause| {
                let at_ring: u64 = self.ring_queues.iter().map(|queue| queue.counts.causes.read(cause)).sum();
                (cause.name(), station.causes.read(cause) + self.framing.read(cause) + at_ring)
            })
            .collect();
        let refused = station.causes.total();
        let seen = load(&station.seen);
        let spooled_lost: u64 = self.lost.iter().map(|lost| lost.read().0).sum();
        let interfaces = self.interfaces();
        let none = Ledger { offered: Some(0), filtered: Some(0), ..Ledger::default() };
        let mut ledger = interfaces.iter().map(|(_, ledger)| ledger.clone()).reduce(Ledger::plus).unwrap_or(none);
        let datagrams: u64 = self.received.iter().map(|counts| load(&counts.datagrams)).sum();
        let at_sockets = if self.inodes.is_empty() { Some(0) } else { sockets::kernel_drops(&self.inodes) };
        // Whether it was a copy that was dropped, or one that came in fragments, nobody can tell.
        let at_sockets = at_sockets.filter(|&drops| drops == 0 || !self.are_copies);
        ledger.delivered = (ledger.delivered + datagrams).saturating_sub(spooled_lost);
        ledger.offered = ledger.offered.zip(at_sockets).map(|(offered, drops)| offered + datagrams + drops);
        ledger.drop(Loss::RingFull, at_sockets);
        ledger.drop(Loss::SlowOutput, Some(spooled_lost));
        ledger.drop(Loss::OutputFailed, Some(not_stored));
        ledger.delivered = ledger.delivered.saturating_sub(not_stored);
        let at_ring: u64 = self.ring_queues.iter().map(|queue| queue.counts.causes.total()).sum();
        Status {
            seconds: self.started.map_or(0.0, |started| started.elapsed().as_secs_f64()),
            waiting: (ledger.delivered + not_stored).saturating_sub(seen + at_ring),
            not_stored_yet: snmp.iter().sum::<u64>() + syslog
                - (stored + not_stored).min(snmp.iter().sum::<u64>() + syslog),
            ledger,
            interfaces,
            seen,
            refused,
            snmp,
            syslog,
            informs: load(&station.informs),
            damaged: load(&station.damaged),
            causes,
            stored,
            alarms: load(&station.alarms),
            raised: load(&station.raised),
            announced: load(&station.announced),
            not_told: load(&self.not_told),
            answered: load(&station.answered),
            reports_withheld: load(&station.reports_withheld),
            table_full: load(&station.table_full),
            clock_jumps: load(&station.clock_jumps),
            to_alarm: station.to_alarm.snapshot(),
            to_disk: station.to_disk.snapshot(),
            error: self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            rss_bytes: resident_bytes(),
        }
    }
}

/// Resident memory of this process (proc_pid_status(5), VmHWM: the most it ever was).
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// One look at everything.
#[derive(Debug, Clone)]
pub struct Status {
    /// Since the start.
    pub seconds: f64,
    /// From the wire to the station; `delivered` are datagrams that the station got and could keep.
    pub ledger: Ledger,
    /// What came by each interface, to the station's memory; nothing of the plain sockets.
    pub interfaces: Vec<(String, Ledger)>,
    /// Received and not looked at yet.
    pub waiting: u64,
    /// Taken and not in the store yet.
    pub not_stored_yet: u64,
    /// Looked at.
    pub seen: u64,
    /// Not taken, by the station.
    pub refused: u64,
    /// Notifications by version.
    pub snmp: [u64; 3],
    /// Syslog messages.
    pub syslog: u64,
    /// Informs.
    pub informs: u64,
    /// Notifications with varbinds that can't be read.
    pub damaged: u64,
    /// Not taken, by cause.
    pub causes: Vec<(&'static str, u64)>,
    /// Notifications on the disk.
    pub stored: u64,
    /// Alarms.
    pub alarms: u64,
    /// Raised ones.
    pub raised: u64,
    /// Changes announced.
    pub announced: u64,
    /// Announcements that an output could not take.
    pub not_told: u64,
    /// Answers and Reports sent.
    pub answered: u64,
    /// Reports that were due and not sent, as there were too many.
    pub reports_withheld: u64,
    /// Notifications of conditions that the table of alarms had no room for.
    pub table_full: u64,
    /// Times the wall clock was set.
    pub clock_jumps: u64,
    /// Latency from arrival to alarm.
    pub to_alarm: HistogramSnapshot,
    /// Latency from arrival to the disk.
    pub to_disk: HistogramSnapshot,
    /// What is wrong with the store.
    pub error: Option<String>,
    /// Most resident memory so far.
    pub rss_bytes: Option<u64>,
}

impl Status {
    /// What no counter explains, from the wire to the disk; `None` when a part is unknown.
    pub fn unaccounted(&self) -> Option<i64> {
        let taken = self.snmp.iter().sum::<u64>() + self.syslog;
        Some(self.ledger.unaccounted()? + self.seen as i64 - (taken + self.refused) as i64)
    }

    /// For programs; `kind` is `interval` (all since the start, as of now) or `summary`.
    pub fn json(&self, kind: &str) -> Value {
        let causes: serde_json::Map<String, Value> = self
            .causes
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| ((*name).to_owned(), (*count).into()))
            .collect();
        json!({
            "kind": kind,
            "seconds": self.seconds,
            "ledger": self.ledger,
            "interfaces": self.interfaces.iter().map(|(name, ledger)| json!({
                "name": name, "ledger": ledger, "unaccounted": ledger.unaccounted(),
            })).collect::<Vec<_>>(),
            "unaccounted": self.unaccounted(),
            "waiting": self.waiting,
            "not_stored_yet": self.not_stored_yet,
            "notifications": {"v1": self.snmp[0], "v2c": self.snmp[1], "v3": self.snmp[2], "syslog": self.syslog},
            "informs": self.informs,
            "damaged": self.damaged,
            "refused": causes,
            "stored": self.stored,
            "answered": self.answered,
            "reports_withheld": self.reports_withheld,
            "table_full": self.table_full,
            "clock_jumps": self.clock_jumps,
            "alarms": self.alarms,
            "raised": self.raised,
            "announced": self.announced,
            "not_told": self.not_told,
            "to_alarm_us": self.to_alarm.quantiles_us(),
            "to_disk_us": self.to_disk.quantiles_us(),
            "error": self.error,
            "most_resident_bytes": self.rss_bytes,
        })
    }

    /// For a line of progress.
    pub fn line(&self) -> String {
        format!(
            "{} stored, {} alarms raised of {}; {}",
            units::grouped(self.stored),
            units::grouped(self.raised),
            units::grouped(self.alarms),
            self.ledger
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unaccounted = self.unaccounted().map_or_else(|| "unknown".to_owned(), |count| count.to_string());
        writeln!(f, "ledger         {}", self.ledger)?;
        if self.interfaces.len() > 1 {
            for (name, ledger) in &self.interfaces {
                writeln!(f, "interface      {name}: {ledger}")?;
            }
        }
        writeln!(f, "unaccounted    {unaccounted} from the wire to the store")?;
        writeln!(
            f,
            "notifications  {} v1, {} v2c, {} v3, {} syslog; {} informs; {} with damaged varbinds",
            self.snmp[0], self.snmp[1], self.snmp[2], self.syslog, self.informs, self.damaged
        )?;
        for (name, count) in self.causes.iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "refused        {count} {name}")?;
        }
        writeln!(
            f,
            "stored         {} ({} not yet), {} answers sent, {} Reports withheld",
            self.stored, self.not_stored_yet, self.answered, self.reports_withheld
        )?;
        if self.table_full > 0 {
            writeln!(f, "table full     {} notifications are stored without an alarm", self.table_full)?;
        }
        if self.clock_jumps > 0 {
            writeln!(f, "clock          set {} times while this ran", self.clock_jumps)?;
        }
        writeln!(
            f,
            "alarms         {} raised of {}; {} changes announced, {} of them not taken by an output",
            self.raised, self.alarms, self.announced, self.not_told
        )?;
        let (to_alarm, to_disk) = (self.to_alarm.quantiles_us(), self.to_disk.quantiles_us());
        writeln!(
            f,
            "latency        to alarm p50 {} p99 {} max {}; to disk p50 {} max {}",
            units::shown_us(to_alarm.p50),
            units::shown_us(to_alarm.p99),
            units::shown_us(to_alarm.max),
            units::shown_us(to_disk.p50),
            units::shown_us(to_disk.max)
        )?;
        if let Some(bytes) = self.rss_bytes {
            writeln!(f, "memory         {} resident at most", units::shown_size(bytes))?;
        }
        if let Some(error) = &self.error {
            writeln!(f, "store          {error}")?;
        }
        Ok(())
    }
}

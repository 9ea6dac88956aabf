//! The station's account: one ledger from the wire to the disk, with the causes of everything that is not stored.
//!
//! Owns the sum. It is shown as text, as JSON, in the store for `top`, and as metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ringtap::histogram::HistogramSnapshot;
use ringtap::ledger::{Cause as Loss, Ledger};
use ringtap_run::units;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cause::{Cause, CauseCounts};
use crate::counts::{ConnectionCounts, StationCounts};
use crate::forward::{ForwardCounters, ForwardCounts};
use crate::pipeline::Pipeline;
use crate::posts::PostCounts;
use crate::receive::copied::Copied;
use crate::receive::ring::{Ring, RingCounts};
use crate::receive::sockets;
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
    /// What the sockets get and the rings have as well.
    copied: Arc<Copied>,
    _sockets: Vec<UdpSocket>,
    connections: Option<Arc<ConnectionCounts>>,
    ring: Option<Arc<Mutex<RingState>>>,
    ring_queues: Vec<RingQueue>,
    station: Arc<StationCounts>,
    framing: Arc<CauseCounts>,
    not_told: Arc<AtomicU64>,
    posts: Vec<(&'static str, Arc<PostCounts>)>,
    forwards: Option<ForwardCounters>,
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
        copied: Arc<Copied>,
        counts: Arc<ReceiveCounts>,
        lost: Arc<Lost>,
        inodes: Vec<(u64, bool)>,
        sockets: Vec<UdpSocket>,
    ) {
        self.received.push(counts);
        self.lost.push(lost);
        self.inodes = inodes;
        self.copied = copied;
        self._sockets = sockets;
    }

    pub(crate) fn add_stream(
        &mut self,
        counts: Arc<ReceiveCounts>,
        connections: Arc<ConnectionCounts>,
        lost: Arc<Lost>,
    ) {
        self.received.push(counts);
        self.connections = Some(connections);
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

    /// What is wrong with the interfaces that rings are on.
    pub(crate) fn interface_faults(&self) -> Vec<String> {
        let Some(ring) = &self.ring else { return Vec::new() };
        match &*ring.lock().unwrap_or_else(PoisonError::into_inner) {
            RingState::Running(ring) => ring.faults(),
            // At the end all of them have ended.
            RingState::Ended(_) => Vec::new(),
        }
    }

    pub(crate) fn attach(&mut self, pipeline: &Pipeline, framing: Arc<CauseCounts>) {
        self.station = pipeline.counts();
        self.error = pipeline.error();
        self.not_told = pipeline.not_told();
        self.posts = pipeline.posts();
        self.forwards = pipeline.forwards();
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
        let at_sockets = at_sockets.filter(|&drops| drops == 0 || !self.copied.were_any());
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
            not_ours: self.ring_queues.iter().map(|queue| load(&queue.counts.not_ours)).sum(),
            seen,
            refused,
            snmp,
            syslog,
            informs: load(&station.informs),
            damaged: load(&station.damaged),
            causes,
            connections: self.connections.as_deref().map(Connections::read),
            stored,
            alarms: load(&station.alarms),
            raised: load(&station.raised),
            announced: load(&station.announced),
            not_told: load(&self.not_told)
                + self.posts.iter().map(|(_, counts)| load(&counts.lost) + load(&counts.refused)).sum::<u64>(),
            forwards: self.forwards.as_ref().map_or_else(Vec::new, Forward::all),
            forward_lost: self.forwards.as_ref().map_or(0, |counters| load(&counters.lost)),
            posts: self.posts.iter().map(|(name, counts)| (*name, Posts::read(counts))).collect(),
            answered: load(&station.answered),
            reports_withheld: load(&station.reports_withheld),
            table_full: load(&station.table_full),
            share_full: load(&station.share_full),
            not_authentic: load(&station.not_authentic),
            clock_jumps: load(&station.clock_jumps),
            root_cause: RootCauseStatus::read(station),
            to_alarm: station.to_alarm.snapshot(),
            to_disk: station.to_disk.snapshot(),
            error: self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            rss_bytes: resident_bytes(),
        }
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Resident memory of this process (proc_pid_status(5), VmHWM: the most it ever was).
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// What root cause does.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct RootCauseStatus {
    /// Open incidents.
    pub incidents: u64,
    /// Incidents announced, revisions counted.
    pub told: u64,
    /// Alarms held until their cause is decided.
    pub held: u64,
    /// Alarms that were cleared while they were held, and so never announced.
    pub transients: u64,
    /// Alarms that found no room and were announced by themselves.
    pub unexamined: u64,
    /// Storms.
    pub storms: u64,
}

impl RootCauseStatus {
    fn read(station: &StationCounts) -> Self {
        Self {
            incidents: load(&station.incidents),
            told: load(&station.incidents_told),
            held: load(&station.held),
            transients: load(&station.transients),
            unexamined: load(&station.unexamined) + load(&station.passed_by),
            storms: load(&station.storms),
        }
    }
}

/// Connections of syslog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Open ones.
    pub open: u64,
    /// Refused: their address is not taken, or has, or all have, as many as may be.
    pub refused: u64,
    /// Ended because a message or a handshake was not whole in time.
    pub timed_out: u64,
    /// Those that gave their place to another.
    pub closed: u64,
    /// Times the kernel gave no connection that waited.
    pub not_accepted: u64,
}

impl Connections {
    fn read(counts: &ConnectionCounts) -> Self {
        Self {
            open: load(&counts.open),
            refused: load(&counts.refused),
            timed_out: load(&counts.timed_out),
            closed: load(&counts.closed),
            not_accepted: load(&counts.not_accepted),
        }
    }
}

/// What became of notifications for another manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Forward {
    /// Where it listens.
    pub to: SocketAddr,
    /// Handed to the kernel.
    pub sent: u64,
    /// Not taken by the kernel.
    pub failed: u64,
}

impl Forward {
    fn all(counters: &ForwardCounters) -> Vec<Self> {
        let read = |(to, counts): &(SocketAddr, Arc<ForwardCounts>)| Self {
            to: *to,
            sent: load(&counts.sent),
            failed: load(&counts.failed),
        };
        counters.managers.iter().map(read).collect()
    }
}

/// What became of announcements that are posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Posts {
    /// Taken.
    pub posted: u64,
    /// Refused for good.
    pub refused: u64,
    /// Gone from the store before they were taken, as too many waited.
    pub lost: u64,
    /// Those that wait in the store.
    pub waiting: u64,
}

impl Posts {
    fn read(counts: &PostCounts) -> Self {
        Self {
            posted: load(&counts.posted),
            refused: load(&counts.refused),
            lost: load(&counts.lost),
            waiting: load(&counts.waiting),
        }
    }
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
    /// Of what rings took to the ports listened on: for other hosts, or in fragments, which the sockets take whole.
    pub not_ours: u64,
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
    /// Connections of syslog, where there is a port for them.
    pub connections: Option<Connections>,
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
    /// What became of announcements that are posted, by receiver.
    pub posts: BTreeMap<&'static str, Posts>,
    /// What became of notifications for other managers.
    pub forwards: Vec<Forward>,
    /// Notifications for other managers that found no room in front of them.
    pub forward_lost: u64,
    /// Answers and Reports sent.
    pub answered: u64,
    /// Reports that were due and not sent, as there were too many.
    pub reports_withheld: u64,
    /// Notifications of conditions that the table of alarms had no room for.
    pub table_full: u64,
    /// Notifications of conditions for which their sender, its network or strangers had all alarms that they may.
    pub share_full: u64,
    /// Notifications of alarms that something more authentic had raised.
    pub not_authentic: u64,
    /// Times the wall clock was set.
    pub clock_jumps: u64,
    /// What root cause does; nothing without a topology.
    pub root_cause: RootCauseStatus,
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
            "not_ours": self.not_ours,
            "waiting": self.waiting,
            "not_stored_yet": self.not_stored_yet,
            "notifications": {"v1": self.snmp[0], "v2c": self.snmp[1], "v3": self.snmp[2], "syslog": self.syslog},
            "informs": self.informs,
            "damaged": self.damaged,
            "refused": causes,
            "connections": self.connections,
            "stored": self.stored,
            "answered": self.answered,
            "reports_withheld": self.reports_withheld,
            "table_full": self.table_full,
            "share_full": self.share_full,
            "not_authentic": self.not_authentic,
            "clock_jumps": self.clock_jumps,
            "root_cause": self.root_cause,
            "alarms": self.alarms,
            "raised": self.raised,
            "announced": self.announced,
            "not_told": self.not_told,
            "posts": self.posts,
            "forwards": self.forwards,
            "forward_lost": self.forward_lost,
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

impl Status {
    /// What others got by POST and as notifications.
    fn sent_on(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, it) in &self.posts {
            writeln!(
                f,
                "{name:<14} {} announcements posted, {} wait in the store; {} refused, {} lost",
                it.posted, it.waiting, it.refused, it.lost
            )?;
        }
        for it in &self.forwards {
            writeln!(f, "forwarded      {} notifications to {}; {} were not sent", it.sent, it.to, it.failed)?;
        }
        if self.forward_lost > 0 {
            writeln!(f, "not forwarded  {} notifications, as too many waited", self.forward_lost)?;
        }
        Ok(())
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
        if self.not_ours > 0 {
            writeln!(f, "not ours       {} packets of rings for other hosts, or in fragments", self.not_ours)?;
        }
        writeln!(
            f,
            "notifications  {} v1, {} v2c, {} v3, {} syslog; {} informs; {} with damaged varbinds",
            self.snmp[0], self.snmp[1], self.snmp[2], self.syslog, self.informs, self.damaged
        )?;
        for (name, count) in self.causes.iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "refused        {count} {name}")?;
        }
        if let Some(Connections { open, refused, timed_out, closed, not_accepted }) = self.connections {
            writeln!(
                f,
                "connections    {open} open, {refused} refused, {timed_out} timed out, {closed} closed for others, {not_accepted} not accepted"
            )?;
        }
        writeln!(
            f,
            "stored         {} ({} not yet), {} answers sent, {} Reports withheld",
            self.stored, self.not_stored_yet, self.answered, self.reports_withheld
        )?;
        if self.table_full > 0 {
            writeln!(f, "table full     {} notifications are stored without an alarm", self.table_full)?;
        }
        if self.share_full > 0 {
            writeln!(f, "share full     {} notifications of strangers are stored without an alarm", self.share_full)?;
        }
        if self.not_authentic > 0 {
            writeln!(
                f,
                "not authentic  {} notifications of alarms that v3 or a known sender raised",
                self.not_authentic
            )?;
        }
        if self.clock_jumps > 0 {
            writeln!(f, "clock          set {} times while this ran", self.clock_jumps)?;
        }
        writeln!(
            f,
            "alarms         {} raised of {}; {} changes announced, {} of them not taken by an output",
            self.raised, self.alarms, self.announced, self.not_told
        )?;
        self.sent_on(f)?;
        let causes = self.root_cause;
        if causes.told > 0 || causes.held > 0 {
            writeln!(
                f,
                "root cause     {} incidents open, {} announcements; {} alarms held, {} over before that, {} without room; {} storms",
                causes.incidents, causes.told, causes.held, causes.transients, causes.unexamined, causes.storms
            )?;
        }
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

//! The packets of flows with alerts, in a capture file.
//!
//! Each engine keeps its last packets in memory, as `capture --keep` does. One that leaves it, for its age or for want of room, goes to
//! the writer if its flow has had an alert by then, so what came before an alert is in the file, and packets keep their order.
//!
//! Owns: which packets go to the file. Does not: write it (`ringtap::record` does).

use std::time::Duration;

use ringtap::Result;
use ringtap::ledger::{Cause, Ledger};
use ringtap::record::{
    InterfaceInfo, LONGEST_READABLE, Recent, RecentPacket, RecordConfig, RecordSummary, Recorder, SpoolProducer,
};
use ringtap::source::StampClock;
use ringtap_detect::{Alert, Whole};
use ringtap_run::units::grouped;
use ringtap_wire::LinkType;
use serde_json::{Value, json};

use crate::options::PcapLog;
use crate::session::EngineFeed;

/// Packets that leave for their age at one packet, and bytes of these in one turn: some tenths of a millisecond.
const AT_ONCE: usize = 32;
const STEP: usize = 1 << 20;
/// How soon an engine without packets sees that some are old, and how soon it goes on.
const SOON: Duration = Duration::from_millis(50);
const AGAIN: Duration = Duration::from_millis(1);

/// Sets of flows with alerts, and flows of each: 65,536 in all.
const SETS: usize = 8192;
const WAYS: usize = 8;
/// Packets put together from fragments of which is remembered whose they are.
const DATAGRAMS: usize = 4096;

/// A number that stands for a flow or for a packet in fragments, in half of a tag; 0: none.
type Mark = u32;
/// That of a packet that goes to the file whatever it belongs to.
const ALWAYS: Mark = Mark::MAX;
/// What is put together from fragments has this bit, flows have not.
const IS_DATAGRAM: Mark = 1 << 31;

/// Two wholes have the same one by a chance of 1 in 2³¹: a packet too many is in the file then.
fn mark(whole: Whole) -> Mark {
    match whole {
        Whole::Flow(number) => (number as u32 & !IS_DATAGRAM).max(1),
        Whole::Datagram(number) => (number as u32 & !IS_DATAGRAM).clamp(1, !IS_DATAGRAM - 1) | IS_DATAGRAM,
    }
}

/// Flows with alerts; of each set the one that was asked for longest ago gives its place up.
struct Marked {
    sets: Vec<[Mark; WAYS]>,
    forgotten: u64,
}

impl Marked {
    fn new() -> Self {
        Self { sets: vec![[0; WAYS]; SETS], forgotten: 0 }
    }

    fn set(&mut self, mark: Mark) -> &mut [Mark; WAYS] {
        &mut self.sets[mark as usize % SETS]
    }

    fn add(&mut self, mark: Mark) {
        if !self.has(mark) {
            let set = self.set(mark);
            set.rotate_right(1);
            self.forgotten += u64::from(std::mem::replace(&mut self.set(mark)[0], mark) != 0);
        }
    }

    fn has(&mut self, mark: Mark) -> bool {
        let set = self.set(mark);
        let Some(at) = set.iter().position(|&known| known == mark) else { return false };
        set[..=at].rotate_right(1);
        true
    }
}

/// One engine's.
pub(crate) struct AlertedPackets {
    recent: Recent,
    age_ns: u64,
    spool: SpoolProducer,
    interface: u16,
    /// The writer is waited for: packets are a file's.
    waits: bool,
    marked: Marked,
    /// Of packets put together from fragments: their mark, and that of their flow.
    datagrams: Vec<[Mark; 2]>,
    /// What the packet at hand belongs to, the outermost and the innermost, and the one that it is a fragment of.
    at_hand: [Mark; 2],
    datagram: Mark,
    /// It has an alert of its own.
    is_alerted: bool,
    selected: Selected,
}

impl AlertedPackets {
    fn new(log: &PcapLog, spool: SpoolProducer, interface: u16, waits: bool) -> Result<Self> {
        Ok(Self {
            recent: Recent::new(log.memory)?,
            age_ns: u64::try_from(log.before.as_nanos()).unwrap_or(u64::MAX),
            spool,
            interface,
            waits,
            marked: Marked::new(),
            datagrams: vec![[0; 2]; DATAGRAMS],
            at_hand: [0; 2],
            datagram: 0,
            is_alerted: false,
            selected: Selected::default(),
        })
    }

    /// The packet at hand is part of this.
    pub(crate) fn part_of(&mut self, whole: Whole) {
        let mark = mark(whole);
        match whole {
            Whole::Datagram(_) => self.datagram = mark,
            // Whose the fragments are is known by the last of them.
            Whole::Flow(_) if self.datagram != 0 => {
                self.datagrams[self.datagram as usize % DATAGRAMS] = [self.datagram, mark];
            }
            Whole::Flow(_) => {}
        }
        let place = usize::from(self.at_hand[0] != 0);
        self.at_hand[place] = mark;
    }

    /// A rule has matched: the flow's packets go to the file, or where there is none the packet at hand.
    pub(crate) fn alert(&mut self, alert: &Alert<'_>) {
        match alert.flow {
            Some(flow) => self.marked.add(mark(Whole::Flow(flow.id()))),
            None => self.is_alerted = true,
        }
    }

    /// Keeps the packet at hand, that the detector has seen; `now_ns` is its time, nanoseconds since 1970.
    pub(crate) fn packet(&mut self, data: &[u8], wire_len: u32, now_ns: u64) {
        let [outer, inner] = std::mem::take(&mut self.at_hand);
        let inner = if std::mem::take(&mut self.is_alerted) { ALWAYS } else { inner };
        self.datagram = 0;
        let data = &data[..data.len().min(LONGEST_READABLE)];
        for _ in 0..AT_ONCE {
            if self.leave_if_old(now_ns).is_none() {
                break;
            }
        }
        while !self.recent.has_room(data.len()) && !self.recent.is_empty() {
            self.leave(true);
        }
        self.recent.push(RecentPacket {
            interface: self.interface,
            arrival_ns: now_ns,
            wire_len,
            tag: u64::from(outer) << 32 | u64::from(inner),
            data: (data, &[]),
        });
    }

    /// A turn of the engine: packets leave that are old now.
    pub(crate) fn turn(&mut self, now_ns: u64) {
        let mut bytes = 0;
        while bytes < STEP {
            let Some(len) = self.leave_if_old(now_ns) else { break };
            bytes += len;
        }
    }

    /// Wakes the writer, if there is something for it.
    pub(crate) fn wake(&mut self) {
        self.spool.wake();
    }

    /// When the engine is to have a turn without packets.
    pub(crate) fn next_turn(&self, now_ns: u64) -> Option<Duration> {
        (!self.recent.is_empty()).then(|| if self.is_old(now_ns) { AGAIN } else { SOON })
    }

    /// The engine has ended, and all flows have: what is in memory leaves it.
    pub(crate) fn finish(mut self) -> Selected {
        self.waits = true;
        while !self.recent.is_empty() {
            self.leave(false);
        }
        Selected { forgotten: self.marked.forgotten, ..self.selected }
    }

    fn is_old(&self, now_ns: u64) -> bool {
        self.recent.oldest().is_some_and(|oldest| oldest.arrival_ns < now_ns.saturating_sub(self.age_ns))
    }

    /// Lets the oldest packet leave, if it is old and the writer has room for it or never will; how many bytes it has.
    fn leave_if_old(&mut self, now_ns: u64) -> Option<usize> {
        let oldest = self.recent.oldest().filter(|_| self.is_old(now_ns))?;
        let len = oldest.data.0.len() + oldest.data.1.len();
        if !self.waits && !self.spool.has_room(len) && self.spool.will_have_room(len) {
            return None;
        }
        self.leave(false);
        Some(len)
    }

    fn leave(&mut self, is_early: bool) {
        let Some(oldest) = self.recent.oldest() else { return };
        let marks = [(oldest.tag >> 32) as Mark, oldest.tag as Mark];
        let goes = marks.into_iter().any(|mark| is_marked(&mut self.marked, &self.datagrams, mark));
        if goes {
            self.selected.packets += 1;
            if self.waits {
                self.spool.wait_for_room(oldest.data.0.len() + oldest.data.1.len());
            }
            // What does not fit is counted by the spool.
            self.spool.push_recent(oldest);
        } else {
            self.selected.early += u64::from(is_early);
        }
        self.recent.take();
    }
}

fn is_marked(marked: &mut Marked, datagrams: &[[Mark; 2]], mark: Mark) -> bool {
    match mark {
        0 => false,
        ALWAYS => true,
        _ if mark & IS_DATAGRAM != 0 => {
            let [known, flow] = datagrams[mark as usize % DATAGRAMS];
            known == mark && marked.has(flow)
        }
        _ => marked.has(mark),
    }
}

/// What engines have chosen for the file, and what they could not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selected {
    /// Packets that go to the file.
    packets: u64,
    /// Packets that left the memory for want of room, while their flow had no alert yet.
    early: u64,
    /// Flows with alerts that were forgotten for others, many of them over.
    forgotten: u64,
}

impl Selected {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            early: self.early + other.early,
            forgotten: self.forgotten + other.forgotten,
        }
    }
}

/// What became of the file.
pub(crate) struct Logged {
    pub(crate) record: RecordSummary,
    selected: Selected,
}

impl Logged {
    /// Completes the file.
    pub(crate) fn of(recorder: Recorder, selected: Selected) -> Result<Self> {
        Ok(Self { record: recorder.finish(Vec::new())?, selected })
    }

    /// Packets of flows with alerts: written, or lost by cause.
    fn ledger(&self) -> Ledger {
        let (offered, delivered, lost) = (Some(self.selected.packets), self.record.packets, self.record.lost);
        let mut ledger = Ledger { offered, delivered, filtered: Some(0), ..Ledger::default() };
        ledger.drop(Cause::SlowOutput, Some(lost.spool_packets));
        ledger.drop(Cause::OutputFailed, Some(lost.output_packets));
        ledger
    }

    pub(crate) fn object(&self) -> Value {
        let (ledger, record) = (self.ledger(), &self.record);
        json!({
            "ledger": {
                "offered": ledger.offered, "delivered": ledger.delivered, "drops": ledger.drops, "lost": ledger.lost(),
                "unaccounted": ledger.unaccounted(),
            },
            "bytes": record.bytes, "files": record.files, "deleted": record.deleted,
            "let_go_early": self.selected.early, "flows_forgotten": self.selected.forgotten,
            "error": record.error.as_ref().map(ToString::to_string),
        })
    }

    pub(crate) fn text(&self) -> String {
        let (written, lost) = (grouped(self.record.packets), grouped(self.record.lost.packets()));
        let early = grouped(self.selected.early);
        let last = self.record.files.last().map_or_else(String::new, |file| format!(", {}", file.display()));
        format!("{written} written, {lost} lost; {early} of others let go early, for want of room{last}")
    }
}

/// Begins the file, of packets of these engines, which come from `object`.
///
/// # Errors
/// The file can't be made, or there is not enough memory.
pub(crate) fn start(
    log: &PcapLog,
    engines: &[EngineFeed],
    object: &str,
    waits: bool,
) -> Result<(Recorder, Vec<AlertedPackets>)> {
    let mut links: Vec<LinkType> = Vec::new();
    let of_engines: Vec<usize> = engines
        .iter()
        .map(|engine| {
            links.iter().position(|known| *known == engine.link).unwrap_or_else(|| {
                links.push(engine.link);
                links.len() - 1
            })
        })
        .collect();
    // The detector's time is the wall clock's, or that of a file.
    let stamps = if waits { StampClock::Recorded } else { StampClock::Realtime };
    let info =
        |link: &LinkType| InterfaceInfo { link_type: link.number() as u16, ..InterfaceInfo::ethernet(object, stamps) };
    let config = RecordConfig { spools: engines.len(), ..log.record.clone() };
    let (recorder, spools) = Recorder::start(config, links.iter().map(info).collect())?;
    let memories = spools.into_iter().zip(of_engines);
    let memories = memories.map(|(spool, link)| AlertedPackets::new(log, spool, link as u16, waits));
    Ok((recorder, memories.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Memory for some 60 packets of 1,000 bytes.
    fn memory(folder: &tempfile::TempDir) -> (Recorder, AlertedPackets) {
        let record = RecordConfig { spool_bytes: 1 << 20, ..RecordConfig::new(folder.path().join("alerts.pcapng")) };
        let log = PcapLog { record, before: Duration::from_secs(10), memory: 64 << 10 };
        let engine = EngineFeed { link: LinkType::Ethernet, stamps: StampClock::Recorded, sender: None };
        let (recorder, mut memories) = start(&log, &[engine], "test", true).unwrap();
        (recorder, memories.pop().unwrap())
    }

    fn packet(memory: &mut AlertedPackets, wholes: &[Whole], now_ns: u64) {
        wholes.iter().for_each(|&whole| memory.part_of(whole));
        memory.packet(&[7; 1000], 1000, now_ns);
    }

    fn flow_alerts(memory: &mut AlertedPackets, flow: u64) {
        memory.marked.add(mark(Whole::Flow(flow)));
    }

    #[test]
    fn what_came_before_the_alert_is_there_as_far_as_the_memory_reaches() {
        let folder = tempfile::tempdir().unwrap();
        let (recorder, mut memory) = memory(&folder);
        for second in 1..=30 {
            packet(&mut memory, &[Whole::Flow(1)], second * SECOND);
            packet(&mut memory, &[Whole::Flow(2)], second * SECOND);
        }
        // Of the last ten seconds, and what follows.
        flow_alerts(&mut memory, 2);
        for second in 31..=60 {
            packet(&mut memory, &[Whole::Flow(2)], second * SECOND);
        }
        let selected = memory.finish();
        assert_eq!(recorder.finish(Vec::new()).unwrap().packets, 11 + 30);
        assert_eq!((selected.packets, selected.early, selected.forgotten), (41, 0, 0));
    }

    #[test]
    fn what_leaves_for_want_of_room_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (recorder, mut memory) = memory(&folder);
        (0..100).for_each(|_| packet(&mut memory, &[Whole::Flow(1)], SECOND));
        flow_alerts(&mut memory, 1);
        let (kept, early) = (memory.recent.len(), memory.selected.early);
        assert!(kept > 50 && kept + early == 100, "{kept} {early}");
        (0..100).for_each(|_| packet(&mut memory, &[Whole::Flow(1)], SECOND));
        assert_eq!(memory.finish().early, early);
        assert_eq!(recorder.finish(Vec::new()).unwrap().packets, kept + 100);
    }

    #[test]
    fn tunnels_and_fragments_go_with_what_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let (recorder, mut memory) = memory(&folder);
        let tunnel = Whole::Flow(1);
        packet(&mut memory, &[tunnel, Whole::Flow(2)], SECOND);
        packet(&mut memory, &[tunnel, Whole::Flow(3)], SECOND);
        // In fragments: of flow 4 and of flow 5.
        for flow in [4, 5] {
            packet(&mut memory, &[Whole::Datagram(flow << 40 | flow)], SECOND);
            packet(&mut memory, &[Whole::Datagram(flow << 40 | flow), Whole::Flow(flow)], SECOND);
        }
        flow_alerts(&mut memory, 3);
        flow_alerts(&mut memory, 5);
        // Neither flow nor alert, and no flow with an alert.
        packet(&mut memory, &[], SECOND);
        memory.is_alerted = true;
        packet(&mut memory, &[], SECOND);
        memory.finish();
        assert_eq!(recorder.finish(Vec::new()).unwrap().packets, 1 + 2 + 1);
        // The tunnel's own flow has all.
        let folder = tempfile::tempdir().unwrap();
        let (recorder, mut memory) = self::memory(&folder);
        packet(&mut memory, &[tunnel, Whole::Flow(2)], SECOND);
        packet(&mut memory, &[tunnel, Whole::Flow(3)], SECOND);
        flow_alerts(&mut memory, 1);
        memory.finish();
        assert_eq!(recorder.finish(Vec::new()).unwrap().packets, 2);
    }

    #[test]
    fn flows_with_alerts_are_bounded() {
        let mut marked = Marked::new();
        let flows = (SETS * WAYS) as Mark;
        (1..=flows).for_each(|flow| marked.add(flow));
        assert!(marked.has(1) && marked.forgotten == 0);
        // It was asked for: another one of its set goes.
        marked.add(1 + flows);
        assert!(marked.has(1) && marked.has(1 + flows) && !marked.has(1 + SETS as Mark));
        assert_eq!(marked.forgotten, 1);
        assert_eq!(mark(Whole::Flow(1 << 31)), 1, "never none");
        assert_ne!(mark(Whole::Datagram(u64::MAX)), ALWAYS);
    }
}

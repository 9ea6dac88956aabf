//! Owns: a sensor in the same process: its alarms and heartbeats on their way to the correlator, without socket or seal.
//! Does not: wait for the correlator while packets come; what finds no room then is missing by its number, as on a network.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ringtap_datagram::{Heartbeat, Listener, Origin, Stamps};
use ringtap_sigma::{Identity, Mark};

use super::channel::{self, Came, Receiver, Sender};
use super::counts::InputCounts;
use super::files::Next;
use super::keyring::heartbeat;
use super::parse::{Parser, Wanted, hash};
use crate::alarm::{domain, error_us, ns};
use crate::sensors::Registered;

/// Bytes that may wait.
const WAITING: usize = 64 << 20;

/// The sensor's end.
#[derive(Debug)]
pub struct Teller {
    sender: Sender,
    parser: Parser,
    counts: Arc<InputCounts>,
    is_live: bool,
    /// The last heartbeat, if it found no room: it says all that those before it do.
    held: Option<Came>,
}

/// The correlator's end.
pub struct Own {
    events: Receiver,
    heads: std::vec::IntoIter<Came>,
    counts: Arc<InputCounts>,
    is_live: bool,
}

/// The way from a sensor of this name. `is_live`: its packets come now, and its heartbeats say how far it is; else it goes
/// through files, and waits.
pub(crate) fn way(name: &str, is_live: bool) -> (Teller, Own) {
    way_of(name, is_live, WAITING)
}

fn way_of(name: &str, is_live: bool, waiting: usize) -> (Teller, Own) {
    let (sender, events) = channel::channel(waiting);
    let counts = InputCounts::new(name);
    let parser = Parser::new(Wanted::Eve, name);
    let teller = Teller { sender, parser, counts: Arc::clone(&counts), is_live, held: None };
    (teller, Own { events, heads: Vec::new().into_iter(), counts, is_live })
}

/// What the correlator has to know of a live sensor of this name.
pub(crate) fn registered(name: &str) -> Registered {
    Registered { number: hash(name.as_bytes()), name: name.into() }
}

impl Listener for Teller {
    fn alarm(&mut self, line: &[u8], stamps: &Stamps, origin: Option<&Origin>) {
        self.counts.lines.fetch_add(1, Ordering::Relaxed);
        let mut event = match self.parser.event(line.trim_ascii_end()) {
            Ok(event) => event,
            Err(bad) => return self.counts.bad(stamps.sequence, &bad),
        };
        event.mark.time_ns = ns(stamps.time_ns);
        let Some(origin) = origin.filter(|_| self.is_live) else {
            // The same alert of the same packet is the same event, whichever rules the files were read with before.
            let mut content = event.content().into_owned();
            content.as_object_mut().map(|object| object.remove("ringtap"));
            event.mark.identity.epoch = hash(content.to_string().as_bytes());
            self.sender.send(vec![Came::Event(event)]);
            return;
        };
        let identity = Identity { epoch: origin.epoch, sequence: stamps.sequence, ..event.mark.identity };
        let clock = ringtap_sigma::Clock { domain: domain(origin), error_us: error_us(stamps.error_ns) };
        event.mark = Mark { identity, clock, ..event.mark };
        // Its number tells that it is missing.
        let _ = self.sender.offer(vec![Came::Alarm { sensor: 0, event, built_ns: ns(stamps.built_ns) }]);
    }

    /// In files nothing is waited for, and so there is nothing to promise.
    fn beat(&mut self, beat: &Heartbeat) {
        if self.is_live {
            let came = Came::Beat { sensor: 0, beat: heartbeat(beat) };
            self.held = self.sender.offer(vec![came]).err().and_then(|mut batch| batch.pop());
        }
    }
}

impl Drop for Teller {
    /// The last heartbeat lets all be told that is certain: now there is time to wait for room.
    fn drop(&mut self) {
        if let Some(beat) = self.held.take() {
            self.sender.send(vec![beat]);
        }
    }
}

impl Own {
    /// What came next; waits for it.
    pub(crate) fn next(&mut self, wait: Duration) -> Next {
        loop {
            if let Some(came) = self.heads.next() {
                return Next::Came(Box::new(came), !self.is_live);
            }
            match self.events.recv_timeout(wait) {
                Ok(batch) => self.heads = batch.into_iter(),
                Err(RecvTimeoutError::Timeout) => return Next::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Next::End,
            }
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.len() == 0 && self.events.is_empty()
    }

    /// What it counted.
    pub(crate) fn counts(&self) -> Arc<InputCounts> {
        Arc::clone(&self.counts)
    }

    /// Whether heartbeats come, and numbered alarms.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }
}

#[cfg(test)]
mod tests {
    use ringtap_datagram::Clock;

    use super::*;

    const LINE: &str = r#"{"timestamp":"2026-01-31T00:00:00.000001+0000","event_type":"alert","src_ip":"192.0.2.1","ringtap":{"sequence":7}}"#;

    fn stamps(sequence: u64) -> Stamps {
        Stamps {
            time_ns: 1_700_000_000_000_000_007,
            built_ns: 1_700_000_000_000_100_000,
            error_ns: Some(1001),
            sequence,
        }
    }

    fn origin() -> Origin {
        Origin { sensor: "north".parse().unwrap(), boot_id: [1; 16], clock: Clock::Host, epoch: 5 }
    }

    #[test]
    fn what_finds_no_room_is_not_waited_for_but_the_last_heartbeat_comes() {
        let (mut teller, mut own) = way_of("north", true, 1);
        let beat = |last_sequence| Heartbeat {
            origin: origin(),
            last_sequence,
            horizon_ns: 5,
            sent_ns: last_sequence,
            error_ns: None,
        };
        for sequence in 1..=3 {
            teller.alarm(LINE.as_bytes(), &stamps(sequence), Some(&origin()));
            teller.beat(&beat(sequence));
        }
        let thread = std::thread::spawn(move || drop(teller));
        let mut came = Vec::new();
        loop {
            match own.next(Duration::from_secs(60)) {
                Next::Came(it, false) => came.push(*it),
                Next::End => break,
                other => panic!("{other:?}"),
            }
        }
        thread.join().unwrap();
        let [Came::Alarm { sensor: 0, event, .. }, Came::Beat { sensor: 0, beat }] = &came[..] else {
            panic!("{came:?}")
        };
        let Mark { time_ns, identity, clock } = event.mark;
        assert_eq!((time_ns, identity.epoch, identity.sequence), (1_700_000_000_000_000_007, 5, 1));
        assert_eq!((identity.sensor, clock.error_us), (registered("north").number, Some(2)));
        assert_eq!((beat.last, own.counts().lines.load(Ordering::Relaxed)), (3, 3));
    }

    #[test]
    fn an_alarm_of_a_file_is_the_same_each_time() {
        let identity = |line: &str, sequence| {
            let (mut teller, mut own) = way("north", false);
            teller.alarm(line.as_bytes(), &stamps(sequence), None);
            teller.beat(&Heartbeat { origin: origin(), last_sequence: 1, horizon_ns: 5, sent_ns: 1, error_ns: None });
            let Next::Came(came, true) = own.next(Duration::from_secs(60)) else { panic!("nothing came") };
            let Came::Event(event) = *came else { panic!("{came:?}") };
            assert!(event.content()["ringtap"]["sequence"].is_u64() && event.mark.time_ns % 1000 == 7);
            event.mark.identity
        };
        let other_rules = LINE.replace(":7}", ":9}");
        assert_eq!(identity(LINE, 7), identity(&other_rules, 9));
        assert_ne!(identity(LINE, 7), identity(&LINE.replace("192.0.2.1", "192.0.2.2"), 7));
    }
}

//! Owns: the registered sensors' keys: what is sealed by one of them becomes an alarm or heartbeat of that sensor, anything
//! else is counted and nothing more.
//! Does not: read sockets or files; show a key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use ringtap_datagram::datagram::Sealed;
use ringtap_datagram::line::Line;
use ringtap_datagram::{Heartbeat, Key, Message, Refused, SensorId};

use super::channel::Came;
use crate::alarm::{Alarm, error_us, ns, number};
use crate::sensors::{Beat, Registered};

/// What a rule is called, and its class.
pub type Texts = HashMap<(u32, u32), (Arc<str>, Arc<str>)>;

/// A sensor as the configuration has it.
#[derive(Clone, Debug)]
pub struct Sensor {
    /// Its name.
    pub id: SensorId,
    /// Its keys: one, and another while they are changed.
    pub keys: Vec<Key>,
    /// Texts of its rules, by generator and signature.
    pub texts: Arc<Texts>,
}

/// What was refused.
#[derive(Debug, Default)]
pub struct RefusedCounts {
    /// No message of a sensor.
    pub foreign: AtomicU64,
    /// Of a sensor that is not registered.
    pub unknown: AtomicU64,
    /// Not sealed by a key of the sensor that it names.
    pub forged: AtomicU64,
}

/// All registered sensors with their keys.
#[derive(Debug, Default)]
pub struct Keyring {
    /// Read for each message, written when the configuration is read again.
    ring: RwLock<Ring>,
    counts: RefusedCounts,
}

#[derive(Debug, Default)]
struct Ring {
    /// One that is registered no longer keeps its place, without keys.
    sensors: Vec<Sensor>,
    names: Vec<Arc<str>>,
    places: HashMap<SensorId, usize>,
    /// When the newest line of each sensor was built, ns.
    newest_ns: Vec<AtomicI64>,
}

impl Keyring {
    /// Of these; of two with one name the first counts.
    #[must_use]
    pub fn new(sensors: Vec<Sensor>) -> Self {
        let this = Self::default();
        this.replace(sensors);
        this
    }

    /// Goes on with these. Each keeps its place, new ones get the next. What is refused from now on is said, a line each.
    pub fn replace(&self, sensors: Vec<Sensor>) -> Vec<String> {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        let mut said = Vec::new();
        for it in &mut ring.sensors {
            let new = sensors.iter().find(|new| new.id == it.id);
            let keys = new.map_or_else(Vec::new, |new| new.keys.clone());
            if keys.is_empty() && !it.keys.is_empty() {
                said.push(format!("sensor {} is registered no longer: what it sends is refused", it.id));
            } else {
                let gone = it.keys.iter().filter(|old| keys.iter().all(|new| !new.is_same(old)));
                let (id, refused) = (it.id, "what is sealed by it is refused");
                said.extend(gone.map(|old| format!("key {} of sensor {id} is used no longer: {refused}", old.id())));
            }
            it.keys = keys;
            if let Some(new) = new {
                it.texts = Arc::clone(&new.texts);
            }
        }
        for new in sensors {
            if !ring.places.contains_key(&new.id) {
                let place = ring.sensors.len();
                ring.places.insert(new.id, place);
                ring.names.push(new.id.as_str().into());
                ring.sensors.push(new);
                ring.newest_ns.push(AtomicI64::new(i64::MIN));
            }
        }
        said
    }

    /// What the correlator has to know of them, by place; false: registered no longer.
    #[must_use]
    pub fn registered(&self) -> Vec<(Registered, bool)> {
        let of = |(sensor, name): (&Sensor, &Arc<str>)| {
            (Registered { number: number(&sensor.id), name: Arc::clone(name) }, !sensor.keys.is_empty())
        };
        let ring = self.read();
        ring.sensors.iter().zip(&ring.names).map(of).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Ring> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was refused.
    #[must_use]
    pub fn counts(&self) -> &RefusedCounts {
        &self.counts
    }

    /// What a datagram is, if a registered sensor has sealed it.
    pub fn datagram(&self, payload: &[u8]) -> Option<Came> {
        let Ok(sealed) = Sealed::parse(payload) else { return self.refuse(&self.counts.foreign) };
        self.open(sealed.sensor(), |key| sealed.open(key))
    }

    /// What a line is, if a registered sensor has sealed it.
    pub fn line(&self, line: &[u8]) -> Option<Came> {
        let Ok(line) = Line::parse(line) else { return self.refuse(&self.counts.foreign) };
        self.open(line.sensor(), |key| line.open(key))
    }

    /// Whether a message of a line was built later than all that were asked about before: who has no key can only send older
    /// ones again.
    #[must_use]
    pub fn is_fresh(&self, came: &Came) -> bool {
        let (sensor, built_ns) = match came {
            Came::Alarm { sensor, built_ns, .. } => (*sensor, *built_ns),
            Came::Beat { sensor, beat } => (*sensor, beat.built_ns),
            _ => return false,
        };
        self.read().newest_ns.get(sensor).is_some_and(|newest| newest.fetch_max(built_ns, Ordering::Relaxed) < built_ns)
    }

    fn open(&self, id: SensorId, open: impl Fn(&Key) -> Result<Message, Refused>) -> Option<Came> {
        let ring = self.read();
        let place = ring.places.get(&id).copied().filter(|place| !ring.sensors[*place].keys.is_empty());
        let Some(place) = place else { return self.refuse(&self.counts.unknown) };
        let sensor = &ring.sensors[place];
        match sensor.keys.iter().find_map(|key| open(key).ok()) {
            Some(Message::Alert(alert)) => {
                let built_ns = ns(alert.built_ns);
                let texts = sensor.texts.get(&(alert.rule.gid, alert.rule.sid)).cloned();
                let event = Alarm { alert, texts }.event(Arc::clone(&ring.names[place]));
                Some(Came::Alarm { sensor: place, event, built_ns })
            }
            Some(Message::Heartbeat(beat)) => Some(Came::Beat { sensor: place, beat: heartbeat(&beat) }),
            None => self.refuse(&self.counts.forged),
        }
    }

    fn refuse(&self, counter: &AtomicU64) -> Option<Came> {
        counter.fetch_add(1, Ordering::Relaxed);
        None
    }
}

pub(super) fn heartbeat(beat: &Heartbeat) -> Beat {
    Beat {
        epoch: beat.origin.epoch,
        last: beat.last_sequence,
        h_ns: Some(ns(beat.horizon_ns)).filter(|h| *h > 0),
        built_ns: ns(beat.sent_ns),
        error_us: error_us(beat.error_ns),
    }
}

#[cfg(test)]
mod tests {
    use ringtap_datagram::{Action, Alert, Direction, Ends, Rule};
    use ringtap_sigma::Mark;
    use serde_json::Value as Json;

    use ringtap_datagram::{Clock as Whose, MAX_LEN, Origin};

    use super::*;

    fn key(id: u32, byte: u8) -> Key {
        Key::new(id, &[byte; 32]).unwrap()
    }

    fn origin(sensor: &str) -> Origin {
        Origin { sensor: sensor.parse().unwrap(), boot_id: [1; 16], clock: Whose::Host, epoch: 5 }
    }

    fn alert(sensor: &str) -> Message {
        let ends = Ends {
            source: "192.0.2.1".parse().unwrap(),
            destination: "198.51.100.2".parse().unwrap(),
            protocol: 6,
            ports: (1024, 80),
        };
        Message::Alert(Alert {
            origin: origin(sensor),
            sequence: 9,
            time_ns: 1_700_000_000_000_000_007,
            built_ns: 1_700_000_000_000_100_000,
            error_ns: Some(1001),
            rule: Rule { gid: 1, sid: 2_000_001, rev: 1 },
            severity: 1,
            action: Action::Allowed,
            ends: Some(ends),
            direction: Some(Direction::ToServer),
            community: None,
        })
    }

    fn keyring() -> Keyring {
        let texts = [((1, 2_000_001), ("Bad \"thing\"".into(), "Attempted Attack".into()))];
        let sensor = |id: &str, keys| Sensor { id: id.parse().unwrap(), keys, texts: Arc::new(texts.clone().into()) };
        Keyring::new(vec![sensor("a", vec![key(1, 1)]), sensor("b", vec![key(2, 2), key(3, 3)])])
    }

    fn datagram(message: &Message, key: &Key) -> Vec<u8> {
        let mut payload = [0; MAX_LEN];
        let len = message.encode(key, &mut payload).unwrap();
        payload[..len].to_vec()
    }

    #[test]
    fn an_alarm_as_eve_has_it() {
        let ring = keyring();
        let message = alert("b");
        let mut line = Vec::new();
        message.write_line(Some(&key(3, 3)), &mut line);
        for came in [ring.datagram(&datagram(&message, &key(2, 2))), ring.line(&line)] {
            let Some(Came::Alarm { sensor: 1, event, built_ns: 1_700_000_000_000_100_000 }) = came else {
                panic!("{came:?}")
            };
            let Mark { time_ns, identity, clock } = event.mark;
            assert_eq!((time_ns, identity.epoch, identity.sequence), (1_700_000_000_000_000_007, 5, 9));
            assert_eq!((clock.error_us, &*event.sensor), (Some(2), "b"));
            let text = |path: &str| event.content().pointer(path).and_then(Json::as_str).unwrap_or_default().to_owned();
            assert_eq!((text("/event_type"), text("/src_ip")), ("alert".into(), "192.0.2.1".into()));
            assert_eq!(text("/alert/signature"), "Bad \"thing\"");
            assert_eq!((text("/alert/category"), text("/host")), ("Attempted Attack".into(), "b".into()));
            // What the log keeps is the same.
            assert_eq!(serde_json::from_str::<Json>(&event.line()).unwrap(), *event.content());
        }
        let came = ring.line(&line).unwrap();
        assert!(ring.is_fresh(&came) && !ring.is_fresh(&ring.line(&line).unwrap()), "a copy is of no use");
    }

    #[test]
    fn who_has_no_key_is_counted_and_nothing_else() {
        let ring = keyring();
        let counts =
            || [&ring.counts.foreign, &ring.counts.unknown, &ring.counts.forged].map(|of| of.load(Ordering::Relaxed));
        let good = datagram(&alert("a"), &key(1, 1));
        assert!(ring.datagram(&good).is_some());
        for bytes in [&b""[..], b"{}", &[0; 300]] {
            assert!(ring.datagram(bytes).is_none() && ring.line(bytes).is_none());
        }
        assert_eq!(counts(), [6, 0, 0]);
        assert!(ring.datagram(&datagram(&alert("c"), &key(1, 1))).is_none());
        assert_eq!(counts(), [6, 1, 0]);
        // The key of another sensor, another secret of the same number, any changed bit.
        for wrong in [datagram(&alert("a"), &key(2, 2)), datagram(&alert("a"), &key(1, 9))] {
            assert!(ring.datagram(&wrong).is_none());
        }
        assert_eq!(counts(), [6, 1, 2]);
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            assert!(ring.datagram(&bytes).is_none(), "byte {at}");
        }
        let mut unsealed = Vec::new();
        alert("a").write_line(None, &mut unsealed);
        let before = counts()[2];
        assert!(ring.line(&unsealed).is_none() && counts()[2] == before + 1);
    }

    #[test]
    fn keys_that_are_read_again() {
        let ring = keyring();
        let sensor = |id: &str, keys| Sensor { id: id.parse().unwrap(), keys, texts: Arc::default() };
        let opens = |of: &str, key: &Key| match ring.datagram(&datagram(&alert(of), key)) {
            Some(Came::Alarm { sensor, .. }) => Some(sensor),
            _ => None,
        };
        assert_eq!(ring.replace(vec![sensor("a", vec![key(1, 1)]), sensor("b", vec![key(2, 2), key(3, 3)])]), [""; 0]);
        // A new one, another secret under the old number, one that is gone.
        let said = ring.replace(vec![sensor("c", vec![key(9, 9)]), sensor("b", vec![key(2, 8), key(3, 3)])]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].contains("sensor a is registered no longer") && said[1].contains("key 2 of sensor b"),
            "{said:?}"
        );
        assert_eq!([opens("a", &key(1, 1)), opens("b", &key(2, 2))], [None, None]);
        assert_eq!(
            [opens("b", &key(2, 8)), opens("b", &key(3, 3)), opens("c", &key(9, 9))],
            [Some(1), Some(1), Some(2)]
        );
        let of: Vec<_> = ring.registered().iter().map(|(it, is)| (it.name.to_string(), *is)).collect();
        assert_eq!(of, [("a".into(), false), ("b".into(), true), ("c".into(), true)]);
        // Said once, and it comes back to its place.
        assert_eq!(ring.replace(vec![sensor("c", vec![key(9, 9)]), sensor("b", vec![key(2, 8), key(3, 3)])]), [""; 0]);
        ring.replace(vec![sensor("a", vec![key(1, 1)])]);
        assert_eq!([opens("a", &key(1, 1)), opens("c", &key(9, 9))], [Some(0), None]);
    }
}

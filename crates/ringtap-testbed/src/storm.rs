//! Storms: valid traps of thousands of nodes, numbered, for the generator and for tests that know the truth.
//!
//! Owns the order of events of a profile. The number is a varbind of its own, so whoever decodes a trap knows which are
//! missing. Versions and addresses are [`form`]'s, frames are made in `frames`. Nothing here sends.

pub mod fault;
pub mod form;
mod frames;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use ringtap::{Error, Result};

use form::Form;
use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::oid;

/// The varbind with the number: below the enterprise for examples (RFC 5612).
pub const SEQUENCE: [u32; 10] = [1, 3, 6, 1, 4, 1, 32473, 1, 1, 0];
/// Objects of each node in the profile: four interfaces, a BGP peer, an OSPF neighbour.
const OBJECTS: u64 = 6;
/// Most nodes: what a private /16 holds besides its ends.
pub const MAX_NODES: u32 = 65_000;

/// What is sent.
#[derive(Debug, Clone)]
pub enum Script {
    /// A core router fails: everything behind it reports lost links and neighbours, again and again; a tenth flaps; then
    /// all comes back.
    CoreRouterFails,
    /// These traps in turn, each from the next node.
    Lines(Vec<Trap>),
}

/// A storm.
#[derive(Debug, Clone)]
pub struct Storm {
    /// What is sent.
    pub script: Script,
    /// How many nodes.
    pub nodes: u32,
    /// How many traps.
    pub count: u64,
    /// In which version.
    pub form: Form,
    /// From IPv6 addresses.
    pub ipv6: bool,
}

/// One event of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    node: u32,
    object: u64,
    raises: bool,
}

/// What a station should know of one object and condition after a storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Truth {
    /// Notifications of it.
    pub count: u64,
    /// The last one cleared it.
    pub cleared: bool,
}

impl Script {
    /// `core-router-fails`, or a file with one trap a line, in the words of snmptrap(1): `OID [NAME TYPE VALUE]…` with the types
    /// i, u, s, a and o. Lines that begin with # are passed over.
    ///
    /// # Errors
    /// The file can't be read; a line that is no trap, with its number.
    pub fn read(text: &str) -> Result<Self> {
        if text == "core-router-fails" {
            return Ok(Self::CoreRouterFails);
        }
        let content = std::fs::read_to_string(text).map_err(|error| {
            Error::os("read traps from", text, &error).way_out("name a file, or the profile core-router-fails")
        })?;
        let mut traps = Vec::new();
        for (number, line) in content.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            traps.push(read_line(line).ok_or_else(|| {
                Error::usage("read traps from", format!("{text}:{}", number + 1), "this is no trap")
                    .way_out("write OID [NAME i|u|s|a|o VALUE]…, all in numbers")
            })?);
        }
        if traps.is_empty() {
            return Err(Error::usage("read traps from", text, "there is no trap in it"));
        }
        Ok(Self::Lines(traps))
    }
}

fn read_line(line: &str) -> Option<Trap> {
    let mut words = line.split_whitespace();
    let mut trap = Trap::new(&oid::parse(words.next()?)?, 0);
    while let Some(name) = words.next() {
        let (kind, value) = (words.next()?, words.next()?);
        let item = match kind {
            "i" => Item::Integer(value.parse::<i32>().ok()?.into()),
            "u" => Item::Gauge(value.parse().ok()?),
            "s" => Item::Text(value.as_bytes().to_vec()),
            "a" => Item::Address(value.parse().ok()?),
            "o" => Item::ObjectId(oid::parse(value)?),
            _ => return None,
        };
        trap = trap.with(&oid::parse(name)?, item);
    }
    Some(trap)
}

impl Storm {
    /// Sender and datagram number `sequence`. `time_s` is snmpEngineTime of all nodes, in seconds: of messages of v3.
    pub fn datagram(&self, sequence: u64, time_s: u32) -> (IpAddr, Vec<u8>) {
        let nodes = self.nodes.clamp(1, MAX_NODES);
        let uptime = (sequence / 100) as u32;
        let (node, trap) = match &self.script {
            Script::Lines(traps) => {
                let trap = traps[(sequence % traps.len() as u64) as usize].clone();
                ((sequence % u64::from(nodes)) as u32, trap.at(uptime))
            }
            Script::CoreRouterFails => {
                let event = self.event(sequence);
                (event.node, event.trap(uptime))
            }
        };
        let from = form::address(node, self.ipv6);
        (from, self.form.datagram(trap, node, from, sequence, time_s))
    }

    /// Three fifths of the storm raise, one fifth flaps, one fifth recovers; node after node, as a network reports.
    fn event(&self, sequence: u64) -> Event {
        let nodes = u64::from(self.nodes.clamp(1, MAX_NODES));
        let objects = nodes * OBJECTS;
        let (raising, flapping) = (self.count / 5 * 3, self.count / 5);
        let of = |index: u64, raises| Event { node: (index % nodes) as u32, object: index / nodes % OBJECTS, raises };
        if sequence < raising {
            of(sequence % objects, true)
        } else if sequence < raising + flapping {
            let at = sequence - raising;
            let some = (objects / 10).max(1);
            of(at % some, at / some % 2 == 1)
        } else {
            of((sequence - raising - flapping) % objects, false)
        }
    }

    /// What a station should know that got these traps of the profile, in this order: by resource, condition and object.
    /// Empty for lines.
    pub fn truth(&self, sequences: impl IntoIterator<Item = u64>) -> HashMap<(String, String, String), Truth> {
        let mut truth: HashMap<_, Truth> = HashMap::new();
        if !matches!(self.script, Script::CoreRouterFails) {
            return truth;
        }
        for sequence in sequences {
            let event = self.event(sequence);
            let key =
                (form::address(event.node, self.ipv6).to_string(), event.condition().to_owned(), event.instance());
            if !event.raises && !truth.contains_key(&key) {
                // Nothing is there to be cleared.
                continue;
            }
            let entry = truth.entry(key).or_default();
            entry.count += 1;
            entry.cleared = !event.raises;
        }
        truth
    }
}

impl Event {
    fn condition(self) -> &'static str {
        match self.object {
            0..=3 => "linkDown",
            4 => "bgpBackwardTransition",
            _ => "ospfNbrStateChange",
        }
    }

    fn instance(self) -> String {
        match self.object {
            index @ 0..=3 => (index + 1).to_string(),
            4 => "192.0.2.1".to_owned(),
            _ => "198.51.100.1.0".to_owned(),
        }
    }

    fn trap(self, uptime: u32) -> Trap {
        let named = |column: &str| oid::parse(&format!("{column}.{}", self.instance())).unwrap_or_default();
        let up = i64::from(!self.raises);
        match self.object {
            index @ 0..=3 => {
                // linkDown is snmpTraps.3, linkUp snmpTraps.4; ifOperStatus up(1), down(2).
                let trap = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3 + up as u32];
                Trap::new(&trap, uptime)
                    .with(&named("1.3.6.1.2.1.2.2.1.1"), Item::Integer(index as i64 + 1))
                    .with(&named("1.3.6.1.2.1.2.2.1.7"), Item::Integer(1))
                    .with(&named("1.3.6.1.2.1.2.2.1.8"), Item::Integer(2 - up))
            }
            4 => {
                // bgpEstablishedNotification is 1, bgpBackwardTransNotification 2; bgpPeerState established(6), idle(1).
                let trap = [1, 3, 6, 1, 2, 1, 15, 0, 2 - up as u32];
                Trap::new(&trap, uptime)
                    .with(&named("1.3.6.1.2.1.15.3.1.7"), Item::Address(Ipv4Addr::new(192, 0, 2, 1)))
                    .with(&named("1.3.6.1.2.1.15.3.1.14"), Item::Text(vec![4, 0]))
                    .with(&named("1.3.6.1.2.1.15.3.1.2"), Item::Integer(1 + 5 * up))
            }
            _ => {
                // ospfNbrState down(1), full(8).
                Trap::new(&[1, 3, 6, 1, 2, 1, 14, 16, 2, 2], uptime)
                    .with(&named("1.3.6.1.2.1.14.10.1.1"), Item::Address(Ipv4Addr::new(198, 51, 100, 1)))
                    .with(&named("1.3.6.1.2.1.14.10.1.6"), Item::Integer(1 + 7 * up))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_snmptrap() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        std::fs::write(path, "# comment\n1.3.6.1.6.3.1.1.5.3 1.3.6.1.2.1.2.2.1.1.3 i 3 1.3.6.1.2.1.1.5.0 s name\n")
            .unwrap();
        let script = Script::read(path).unwrap();
        let storm = Storm { script, nodes: 3, count: 9, form: Form::V2c { community: "x".to_owned() }, ipv6: false };
        assert_ne!(storm.datagram(0, 0).0, storm.datagram(1, 0).0);
        assert!(storm.datagram(5, 0).1.windows(4).any(|window| window == b"name"));
        std::fs::write(path, "1.3.6.1 1.3 q 5\n").unwrap();
        let error = Script::read(path).unwrap_err().to_string();
        assert!(error.contains(":1"), "{error}");
        assert!(Script::read("no-such-profile").unwrap_err().to_string().contains("core-router-fails"));
    }
}

//! Alerts as SNMP notifications, v2c and v3, traps and informs, from the output thread.
//!
//! Owns the socket, what an alert says in varbinds, and the informs that wait for their answer. Never waits itself: it
//! looks for answers whenever the output thread does. Messages are `ringtap_snmp`'s.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ringtap::clock;
use ringtap::{Error, Result};
use ringtap_output::Counts;
use ringtap_run::secrets::random;
use ringtap_snmp::config::{InvalidUser, Secret, UserTable, from_hex};
use ringtap_snmp::encode::{Item, Trap};
use ringtap_snmp::message::{Message, PduHead, parse, tag};
use ringtap_snmp::oid;
use ringtap_snmp::usm::{Correspondent, Heard, Sealer};
use schemars::JsonSchema;
use serde::Deserialize;
use sha1::{Digest, Sha1};

use crate::blinding::Change;
use crate::catalogue::RuleText;
use crate::record::AlertRecord;

/// Below the enterprise for examples (RFC 5612), as long as Ringtap has none of its own.
const DEFAULT_OID: &str = "1.3.6.1.4.1.32473.2";
/// Informs that wait for an answer at one time; an alert beyond is not sent, and counted.
const MAX_WAITING: usize = 256;
/// After this an inform is sent again.
const RETRY_NS: u64 = 1_000_000_000;
/// So often in all.
const TRIES: u32 = 5;
/// At the end answers are waited for as long as this.
const LAST_WAIT_NS: u64 = 3_000_000_000;
/// Engine boots count seconds from here (2020-01-01), so that each start has a higher number without a file.
const EPOCH_S: u64 = 1_577_836_800;

/// Where the sensor sends its alerts as SNMP notifications
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Table {
    /// ADDRESS:PORT
    #[schemars(with = "String")]
    to: SocketAddr,
    /// Send informs, which are answered, instead of traps
    #[serde(default)]
    inform: bool,
    /// The community, of v2c; either this or a user
    community: Option<Secret>,
    /// The user, of v3
    user: Option<UserTable>,
    /// The engine ID of v3 traps, 5 to 32 bytes in hexadecimal digits; left out: of this host and interface, always the same
    engine_id: Option<String>,
    /// What the notifications are below
    #[schemars(extend("default" = DEFAULT_OID))]
    oid: Option<String>,
}

/// Who the messages are from.
enum Sender {
    Community(Vec<u8>),
    /// Traps of v3: this engine is authoritative.
    Trap(Sealer, u64),
    /// Informs of v3: the receiver is.
    Inform(Correspondent),
}

/// An inform without an answer yet.
struct Waiting {
    id: i32,
    trap: Trap,
    tries: u32,
    again_at_ns: u64,
}

/// Where alerts go as notifications.
pub(crate) struct Notifier {
    socket: UdpSocket,
    sender: Sender,
    inform: bool,
    base: Vec<u32>,
    started_ns: u64,
    next_id: i32,
    waiting: VecDeque<Waiting>,
    probed_at_ns: Option<u64>,
}

impl Notifier {
    /// As the table says; `file` is its file's name, `interface` what the sensor watches, where that is one.
    ///
    /// # Errors
    /// A table that makes no sense, or no socket.
    pub(crate) fn new(table: &Table, file: &str, interface: Option<&str>) -> Result<Self> {
        let wrong = |object: &str, cause: &str| Error::usage("use", format!("{object} of {file}"), cause);
        let wrong_user = |error: InvalidUser| wrong(&format!("user {:?}", error.name), error.cause);
        let base = table.oid.as_deref().unwrap_or(DEFAULT_OID);
        let base = oid::parse(base).ok_or_else(|| wrong("oid", "it is no object identifier in numbers"))?;
        let sender = match (&table.community, &table.user) {
            (Some(community), None) => Sender::Community(community.0.clone().into_bytes()),
            (None, Some(user)) if !user.engines.is_empty() => {
                return Err(wrong("engines", "the sensor has one engine ID, engine-id of [snmp]"));
            }
            (None, Some(user)) if table.inform => {
                Sender::Inform(Correspondent::new(user.user().map_err(wrong_user)?, random()?))
            }
            (None, Some(user)) => {
                let id = match &table.engine_id {
                    Some(text) => from_hex(text).filter(|id| (5..=32).contains(&id.len())),
                    None => Some(own_engine_id(interface)?),
                };
                let id = id.ok_or_else(|| wrong("engine-id", "it has 5 to 32 bytes in hexadecimal digits"))?;
                let boots = (clock::realtime_ns() / 1_000_000_000).saturating_sub(EPOCH_S) as u32;
                Sender::Trap(Sealer::new(&user.user().map_err(wrong_user)?, &id, boots), random()?)
            }
            _ => return Err(wrong("[snmp]", "it needs either a community (v2c) or a user (v3)")),
        };
        let object = table.to.to_string();
        let failed = |error: std::io::Error| Error::os("send notifications to", &object, &error);
        let any: SocketAddr = if table.to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).map_err(failed)?;
        socket.connect(table.to).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            socket,
            sender,
            inform: table.inform,
            base,
            started_ns: clock::monotonic_ns(),
            next_id: (random()? & 0x3fff_ffff) as i32,
            waiting: VecDeque::with_capacity(MAX_WAITING),
            probed_at_ns: None,
        })
    }

    /// Sends an alert; one that could not be is counted.
    pub(crate) fn alert(&mut self, alert: &AlertRecord, text: Option<&RuleText>, counts: &Counts) {
        let now_ns = clock::monotonic_ns();
        let trap = self.notification(alert, text, now_ns);
        self.send(trap, now_ns, counts);
    }

    /// Sends that the sensor is being blinded, or is not any more.
    pub(crate) fn change(&mut self, change: &Change, counts: &Counts) {
        let now_ns = clock::monotonic_ns();
        let below = |arcs: &[u32]| [&self.base[..], arcs].concat();
        let uptime = ((now_ns - self.started_ns) / 10_000_000) as u32;
        let items = [
            Item::Text(change.message().into_bytes()),
            Item::Text(change.condition.as_bytes().to_vec()),
            Item::Gauge(change.is_raised.into()),
            Item::Counter64(change.count),
            Item::Counter64(change.of),
        ];
        let trap = Trap::new(&below(&[0, 2]), uptime);
        let trap = (1u32..).zip(items).fold(trap, |trap, (number, item)| trap.with(&below(&[2, number, 0]), item));
        self.send(trap, now_ns, counts);
    }

    fn send(&mut self, trap: Trap, now_ns: u64, counts: &Counts) {
        if self.inform {
            self.hear(counts);
            if self.waiting.len() == MAX_WAITING {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                return;
            }
            self.next_id = self.next_id.wrapping_add(1) & 0x7fff_ffff;
            self.waiting.push_back(Waiting { id: self.next_id, trap, tries: 0, again_at_ns: now_ns });
            self.send_due(now_ns, counts);
            return;
        }
        self.next_id = self.next_id.wrapping_add(1) & 0x7fff_ffff;
        let uptime_s = ((now_ns - self.started_ns) / 1_000_000_000) as u32;
        let bytes = match &mut self.sender {
            Sender::Community(community) => Some(trap.v2c(community, self.next_id)),
            Sender::Trap(sealer, salt) => {
                *salt = salt.wrapping_add(1);
                let scoped = trap.scoped(tag::V2_TRAP, sealer.engine_id(), b"", self.next_id);
                sealer.seal(self.next_id, uptime_s, &scoped, *salt)
            }
            Sender::Inform(_) => None,
        };
        let sent = bytes.is_some_and(|bytes| self.socket.send(&bytes).is_ok_and(|sent| sent == bytes.len()));
        if sent { &counts.written } else { &counts.failed }.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes answers, and sends again what has waited long.
    pub(crate) fn idle(&mut self, counts: &Counts) {
        if !self.waiting.is_empty() {
            self.hear(counts);
            self.send_due(clock::monotonic_ns(), counts);
        }
    }

    /// Waits for the last answers, some seconds at most; informs without one are counted as failed.
    pub(crate) fn finish(&mut self, counts: &Counts) {
        let until_ns = clock::monotonic_ns() + LAST_WAIT_NS;
        while !self.waiting.is_empty() && clock::monotonic_ns() < until_ns {
            self.idle(counts);
            std::thread::sleep(Duration::from_millis(5));
        }
        counts.failed.fetch_add(self.waiting.len() as u64, Ordering::Relaxed);
        self.waiting.clear();
    }

    /// What an alert says: see the table in the command's help.
    fn notification(&self, alert: &AlertRecord, text: Option<&RuleText>, now_ns: u64) -> Trap {
        let below = |arcs: &[u32]| [&self.base[..], arcs].concat();
        let place = &alert.place;
        let words = |text: &str| Item::Text(text.as_bytes().to_vec());
        let uptime = ((now_ns - self.started_ns) / 10_000_000) as u32;
        let items = [
            words(text.map_or("", |text| &text.signature)),
            Item::Gauge(alert.rule.sid),
            Item::Gauge(alert.rule.gid),
            Item::Gauge(alert.rule.rev),
            Item::Gauge(alert.severity.into()),
            words(&place.source.to_string()),
            Item::Gauge(place.ports.0.into()),
            words(&place.destination.to_string()),
            Item::Gauge(place.ports.1.into()),
            Item::Gauge(place.protocol.into()),
            Item::Counter64(alert.time_ns / 1000),
            Item::Counter64(alert.sequence),
        ];
        let trap = Trap::new(&below(&[0, 1]), uptime);
        (1u32..).zip(items).fold(trap, |trap, (number, item)| trap.with(&below(&[1, number, 0]), item))
    }

    /// Sends the informs whose time it is, or the question that goes before the first one.
    fn send_due(&mut self, now_ns: u64, counts: &Counts) {
        if let Sender::Inform(far) = &mut self.sender
            && !far.is_known()
            && self.probed_at_ns.is_none_or(|at| now_ns - at >= RETRY_NS)
        {
            self.probed_at_ns = Some(now_ns);
            self.next_id = self.next_id.wrapping_add(1) & 0x7fff_ffff;
            // What the kernel does not take now is asked again.
            let _ = far.probe(self.next_id).map(|bytes| self.socket.send(&bytes));
        }
        let mut given_up = 0;
        for waiting in &mut self.waiting {
            if waiting.again_at_ns > now_ns {
                continue;
            }
            if waiting.tries == TRIES {
                given_up += 1;
                continue;
            }
            waiting.tries += 1;
            waiting.again_at_ns = now_ns + RETRY_NS;
            let bytes = match &mut self.sender {
                Sender::Community(community) => Some(waiting.trap.inform(community, waiting.id)),
                Sender::Inform(far) => far.inform(waiting.id, &waiting.trap, now_ns),
                Sender::Trap(..) => None,
            };
            let _ = bytes.map(|bytes| self.socket.send(&bytes));
        }
        if given_up > 0 {
            self.waiting.retain(|waiting| waiting.tries < TRIES || waiting.again_at_ns > now_ns);
            counts.failed.fetch_add(given_up, Ordering::Relaxed);
            if let Sender::Inform(far) = &mut self.sender {
                // Perhaps another engine is there now.
                far.forget();
            }
        }
    }

    /// Takes all answers that have come.
    fn hear(&mut self, counts: &Counts) {
        let mut room = [0; 2048];
        let mut plain = Vec::new();
        // A refused port shows as an error once, and is none for what comes after.
        while let Ok(len) = self.socket.recv(&mut room).or_else(|error| match error.kind() {
            std::io::ErrorKind::ConnectionRefused => self.socket.recv(&mut room),
            _ => Err(error),
        }) {
            let now_ns = clock::monotonic_ns();
            let answered = match (&mut self.sender, parse(&room[..len])) {
                (Sender::Community(own), Ok(Message::Community { community, pdu, .. })) => {
                    let PduHead::Common { error_status, .. } = pdu.head else { continue };
                    (community == own && pdu.tag == tag::RESPONSE).then(|| (pdu.request_id(), error_status))
                }
                (Sender::Inform(far), Ok(Message::V3(message))) => match far.hear(&message, now_ns, &mut plain) {
                    Ok(Heard::Learnt) => {
                        self.waiting.iter_mut().for_each(|waiting| waiting.again_at_ns = now_ns);
                        self.send_due(now_ns, counts);
                        None
                    }
                    Ok(Heard::Response(pdu)) => match pdu.head {
                        PduHead::Common { request_id, error_status, .. } => Some((request_id, error_status)),
                        PduHead::V1Trap { .. } => None,
                    },
                    // Wrong users and passwords show as informs without an answer.
                    Err(_) => None,
                },
                _ => None,
            };
            let Some((id, error)) = answered else { continue };
            if let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) {
                self.waiting.remove(at);
                if error == 0 { &counts.written } else { &counts.failed }.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// RFC 3411 §5: no enterprise of our own, so 0; format 5: octets of our own choice. Each sensor of a host is another engine, with clocks
/// and boots of its own, and the same one after each start: they are made of what this program is, of the host's machine-id(5), which is
/// not told itself, and of the interface.
fn own_engine_id(interface: Option<&str>) -> Result<Vec<u8>> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|error| Error::os("read", path, &error));
    let host = read("/etc/machine-id").ok().filter(|id| !id.trim().is_empty());
    let host = host.map_or_else(|| read("/proc/sys/kernel/hostname"), Ok)?;
    Ok(engine_id(host.trim(), interface.unwrap_or_default()))
}

fn engine_id(host: &str, interface: &str) -> Vec<u8> {
    let octets = Sha1::digest(format!("ringtap sensor\0{host}\0{interface}"));
    [&[0x80, 0, 0, 0, 5], &octets[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sensor_is_an_engine_of_its_own_and_stays_it() {
        let one = engine_id("0123456789abcdef", "eth0");
        assert_eq!((one.len(), &one[..5]), (25, &[0x80, 0, 0, 0, 5][..]));
        assert_eq!(one, engine_id("0123456789abcdef", "eth0"));
        for (host, interface) in [("0123456789abcdef", "eth1"), ("0123456789abcdef", ""), ("fedcba9876543210", "eth0")]
        {
            assert_ne!(one, engine_id(host, interface), "{host} {interface}");
        }
        assert!(!one.windows(4).any(|part| part == b"0123"), "the host's id is not told");
    }
}

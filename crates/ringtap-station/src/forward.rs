//! Notifications sent on to other managers, as they came.
//!
//! Owns who gets which, a bounded queue in front of them, and the thread that sends: the intake never waits for it, and what finds no room is
//! counted. Addresses: by default this host's is the sender's then; where the sender's own is to be kept, `raw` writes it. A trap of v1 can
//! be sent as v2c, with its agent's address in it. Informs of v3 are not sent on: they are sealed for this station.

mod raw;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ipnet::IpNet;
use nix::errno::Errno;
use ringtap::{Error, Result};
use ringtap_output::{Producer, Queue, Room, Work};
use ringtap_snmp::message::Version;
use ringtap_snmp::notification::Notification;
use ringtap_snmp::translate::v1_as_v2c;

use raw::RawSocket;

/// What may wait: notifications, and their bytes.
const ROOM: Room = Room { slots: 1 << 15, bytes: 16 << 20 };
/// Managers, at most: one bit of a record each.
pub(crate) const MOST: usize = 32;

/// A manager that gets notifications, and which.
#[derive(Debug, Clone)]
pub struct Manager {
    /// Where it listens.
    pub to: SocketAddr,
    /// Of these versions; none: all.
    pub versions: Vec<Version>,
    /// Sent from these networks; none: from everywhere.
    pub sources: Vec<IpNet>,
    /// With this snmpTrapOID, encoded, or one beneath; none: with any.
    pub notifications: Vec<Vec<u8>>,
    /// Traps of v1 are sent as v2c.
    pub as_v2c: bool,
    /// With the sender's address and port as the source.
    pub keeps_source: bool,
}

impl Manager {
    /// Everything, as it came.
    pub fn of_all(to: SocketAddr) -> Self {
        let (versions, sources, notifications) = (Vec::new(), Vec::new(), Vec::new());
        Self { to, versions, sources, notifications, as_v2c: false, keeps_source: false }
    }

    fn gets(&self, notification: &Notification<'_>, source: IpAddr) -> bool {
        let is_beneath = |of: &Vec<u8>| notification.trap_oid.starts_with(of);
        (self.versions.is_empty() || self.versions.contains(&notification.version))
            && (self.sources.is_empty() || self.sources.iter().any(|net| net.contains(&source)))
            && (self.notifications.is_empty() || self.notifications.iter().any(is_beneath))
            && !(notification.version == Version::V3 && notification.inform)
    }
}

/// What became of notifications for a manager.
#[derive(Debug, Default)]
pub(crate) struct ForwardCounts {
    pub(crate) sent: AtomicU64,
    /// The kernel did not send it.
    pub(crate) failed: AtomicU64,
}

/// What is counted of all managers.
#[derive(Debug, Clone)]
pub(crate) struct ForwardCounters {
    /// Of each.
    pub(crate) managers: Vec<(SocketAddr, Arc<ForwardCounts>)>,
    /// Notifications that found no room in front of all.
    pub(crate) lost: Arc<AtomicU64>,
}

/// A notification that waits.
struct Waiting {
    source: SocketAddr,
    /// Who gets it, a bit each.
    managers: u32,
}

/// Where the intake leaves notifications.
pub struct Forwarder {
    managers: Arc<[Manager]>,
    queue: Producer<Waiting>,
}

impl std::fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Forwarder({} managers)", self.managers.len())
    }
}

impl Forwarder {
    /// Leaves a notification for those that get it.
    pub(crate) fn offer(&mut self, notification: &Notification<'_>, source: SocketAddr, datagram: &[u8]) {
        let address = source.ip().to_canonical();
        let bit = |(number, manager): (usize, &Manager)| {
            if manager.gets(notification, address) { 1 << number } else { 0 }
        };
        let managers = self.managers.iter().enumerate().map(bit).fold(0, |all, bit: u32| all | bit);
        if managers != 0 {
            let source = SocketAddr::new(address, source.port());
            self.queue.push(Waiting { source, managers }, &[datagram]);
        }
    }

    /// Has what was left sent; to be called after each batch.
    pub(crate) fn wake(&mut self) {
        self.queue.wake();
    }
}

/// The managers, opened, before the thread runs.
pub(crate) struct Opened {
    managers: Arc<[Manager]>,
    ways: Vec<Way>,
}

/// How one is reached.
enum Way {
    Own(UdpSocket),
    /// By the sender's address, where that is of the same family; else by ours.
    Source(RawSocket, UdpSocket),
}

/// The thread that sends.
pub(crate) struct Forwarding {
    queue: Queue<Sender>,
    counters: ForwardCounters,
}

impl Opened {
    /// Opens sockets for these, with privileges where the sender's address is to be kept. `listens`: where this station takes SNMP.
    ///
    /// # Errors
    /// One of them is this station itself, there are too many, or a socket is refused.
    pub(crate) fn open(managers: Vec<Manager>, listens: &[SocketAddr]) -> Result<Self> {
        if managers.len() > MOST {
            return Err(Error::usage(
                "forward to",
                format!("{} managers", managers.len()),
                format!("{MOST} are possible"),
            ));
        }
        let mut ways = Vec::new();
        for manager in &managers {
            let name = manager.to.to_string();
            if is_us(manager.to, listens) {
                return Err(Error::usage(
                    "forward to",
                    name,
                    "that is this station: each notification would go round for ever",
                )
                .way_out("name another manager, or another port"));
            }
            let any: SocketAddr = if manager.to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
            let own = UdpSocket::bind(any).map_err(|error| Error::os("forward to", &name, &error))?;
            ways.push(if manager.keeps_source {
                let raw = RawSocket::open(manager.to).map_err(|errno| {
                    let failed = Error::os("forward with the sender's address to", &name, &errno.into());
                    match errno {
                        Errno::EPERM | Errno::EACCES => {
                            failed.way_out("that needs root or CAP_NET_RAW; or leave out keep-source")
                        }
                        _ => failed,
                    }
                })?;
                Way::Source(raw, own)
            } else {
                Way::Own(own)
            });
        }
        Ok(Self { managers: managers.into(), ways })
    }

    /// Starts the thread; `None`: there is nobody to send to.
    ///
    /// # Errors
    /// It can't be started.
    pub(crate) fn start(self) -> Result<Option<(Forwarding, Forwarder)>> {
        let Self { managers, ways } = self;
        if managers.is_empty() {
            return Ok(None);
        }
        let counts: Vec<_> = managers.iter().map(|it| (it.to, Arc::<ForwardCounts>::default())).collect();
        let to = managers.iter().cloned().zip(ways).zip(&counts);
        let to = to.map(|((manager, way), (_, counts))| (manager, way, Arc::clone(counts))).collect();
        let (queue, mut ends) = Queue::start(&[ROOM], Sender { to, request_id: 0 })?;
        let Some(producer) = ends.pop() else { return Ok(None) };
        let counters = ForwardCounters { managers: counts, lost: producer.lost() };
        Ok(Some((Forwarding { queue, counters }, Forwarder { managers, queue: producer })))
    }
}

impl Forwarding {
    /// What is counted of each manager, and what found no room in front of all.
    pub(crate) fn counts(&self) -> ForwardCounters {
        self.counters.clone()
    }

    /// Sends what still waits. The intake must have ended.
    ///
    /// # Errors
    /// The thread panicked.
    pub(crate) fn finish(self) -> Result<()> {
        self.queue.finish().map(drop)
    }
}

struct Sender {
    to: Vec<(Manager, Way, Arc<ForwardCounts>)>,
    request_id: i32,
}

impl Work<Waiting> for Sender {
    fn record(&mut self, Waiting { source, managers }: Waiting, bytes: &[u8]) {
        let mut translated = None;
        for (number, (manager, way, counts)) in self.to.iter().enumerate() {
            if managers & (1 << number) == 0 {
                continue;
            }
            let datagram = if manager.as_v2c {
                let agent = if let IpAddr::V4(address) = source.ip() { address } else { Ipv4Addr::UNSPECIFIED };
                let translate = || {
                    self.request_id = self.request_id.wrapping_add(1) & 0x7fff_ffff;
                    v1_as_v2c(bytes, agent, self.request_id)
                };
                translated.get_or_insert_with(translate).as_deref().unwrap_or(bytes)
            } else {
                bytes
            };
            let is_sent = match way {
                Way::Source(raw, _) if raw.can_say(source) => raw.send(source, manager.to, datagram),
                Way::Own(socket) | Way::Source(_, socket) => socket.send_to(datagram, manager.to).is_ok(),
            };
            if is_sent { &counts.sent } else { &counts.failed }.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn idle(&mut self) {}
}

/// Whether this station listens there.
fn is_us(to: SocketAddr, listens: &[SocketAddr]) -> bool {
    let is_local = || UdpSocket::bind((to.ip(), 0)).is_ok();
    listens.iter().any(|it| {
        it.port() == to.port()
            && (it.ip() == to.ip() || it.ip().is_unspecified() && it.is_ipv4() == to.is_ipv4() && is_local())
    })
}

/// Reads where a manager listens: ADDRESS, at port 162, or ADDRESS:PORT.
///
/// # Errors
/// What is expected.
pub fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let alone = bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, 162));
    alone
        .or_else(|_| text.parse())
        .map_err(|_| format!("{text:?} is no address; give ADDRESS[:PORT] such as 192.0.2.1 or [2001:db8::1]:1162"))
}

#[cfg(test)]
mod tests {
    use ringtap_snmp::encode::Trap;
    use ringtap_snmp::message::{Message, parse};
    use ringtap_snmp::oid;

    use super::*;

    fn manager() -> Manager {
        Manager::of_all("192.0.2.1:162".parse().unwrap())
    }

    fn is_for(manager: &Manager, datagram: &[u8], source: &str) -> bool {
        let Ok(Message::Community { version, pdu, .. }) = parse(datagram) else { panic!("{datagram:x?}") };
        let notification = Notification::new(version, &pdu).unwrap().unwrap();
        manager.gets(&notification, source.parse().unwrap())
    }

    #[test]
    fn who_gets_what_is_said_by_version_source_and_notification() {
        let link_down = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1);
        let (v1, v2c) = (link_down.as_v1(b"x", [192, 0, 2, 9].into()), link_down.v2c(b"x", 1));
        assert!(is_for(&manager(), &v1, "10.0.0.1") && is_for(&manager(), &v2c, "2001:db8::1"));
        let only = Manager { versions: vec![Version::V1], ..manager() };
        assert!(is_for(&only, &v1, "10.0.0.1") && !is_for(&only, &v2c, "10.0.0.1"));
        let only = Manager { sources: vec!["10.0.0.0/8".parse().unwrap()], ..manager() };
        assert!(is_for(&only, &v2c, "10.0.0.1") && !is_for(&only, &v2c, "11.0.0.1"));
        let beneath =
            |text: &str| Manager { notifications: vec![oid::encode(&oid::parse(text).unwrap())], ..manager() };
        for (text, gets) in [("1.3.6.1.6.3.1.1.5", true), ("1.3.6.1.6.3.1.1.5.3", true), ("1.3.6.1.6.3.1.1.5.4", false)]
        {
            assert_eq!(is_for(&beneath(text), &v1, "10.0.0.1"), gets, "{text}");
        }
    }

    #[test]
    fn a_station_does_not_forward_to_itself() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let any = [at("0.0.0.0:10162"), at("127.0.0.5:10163")];
        for (to, is_it) in [
            ("127.0.0.1:10162", true),
            ("127.0.0.1:10163", false),
            ("127.0.0.5:10163", true),
            ("192.0.2.1:10162", false),
            ("[::1]:10162", false),
        ] {
            assert_eq!(is_us(at(to), &any), is_it, "{to}");
        }
    }

    #[test]
    fn addresses_have_a_port_or_that_of_traps() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1:162"),
            ("192.0.2.1:1162", "192.0.2.1:1162"),
            ("2001:db8::1", "[2001:db8::1]:162"),
            ("[2001:db8::1]", "[2001:db8::1]:162"),
            ("[2001:db8::1]:9", "[2001:db8::1]:9"),
        ] {
            assert_eq!(address(text), Ok(expected.parse().unwrap()), "{text}");
        }
        assert!(address("manager.example").is_err());
    }
}

//! Owns: alerts and heartbeats on their way to a correlator: as messages, as frames in a transmit ring, through a plain socket where
//! there is no ring.
//! Does not: number alerts (`numbers`), or say how far the engines are (`heart`).

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::BindToDevice};
use ringtap::interface::Interface;
use ringtap::transmit::TransmitRing;
use ringtap::{Error, Result};
use ringtap_datagram::{Action, Alert, Direction, Ends, MAX_LEN, Message};
use ringtap_wire::UdpFrame;

use crate::community::community_hash;
use crate::identity::Who;
use crate::options::{Datagrams, mac_address};
use crate::record::AlertRecord;

/// Slots of each transmit ring, and room in them for headers, an alert and what the kernel puts in front.
const SLOTS: u32 = 512;
const SLOT_BYTES: u32 = 512;
/// In a cycle that does not end: the kernel is told of a frame after so many packets at the latest.
const KICK_AFTER: u32 = 256;

/// What an alert says to a correlator.
pub(crate) fn message(alert: &AlertRecord, who: &Who) -> Message {
    let place = &alert.place;
    let ends =
        Ends { source: place.source, destination: place.destination, protocol: place.protocol, ports: place.ports };
    let community =
        || community_hash((ends.source, ends.ports.0), (ends.destination, ends.ports.1), place.protocol, place.icmp, 0);
    Message::Alert(Alert {
        origin: who.origin(alert.epoch),
        sequence: alert.sequence,
        time_ns: alert.time_ns,
        built_ns: alert.built_ns,
        error_ns: alert.error_ns,
        rule: alert.rule,
        severity: alert.severity,
        // The sensor watches, whatever the rule asks for.
        action: Action::Allowed,
        ends: place.has_ip.then_some(ends),
        direction: alert.flow.map(|_| if alert.to_server { Direction::ToServer } else { Direction::ToClient }),
        community: place.has_ip.then(community),
    })
}

/// What became of datagrams; of all engines.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Alerts handed to the kernel, by a ring or the socket.
    pub(crate) alerts: AtomicU64,
    /// Messages for which there was no room, or that the kernel refused.
    pub(crate) refused: AtomicU64,
}

impl Sent {
    fn count(&self, is_sent: bool, message: &Message) {
        match (is_sent, message) {
            (false, _) => self.refused.fetch_add(1, Ordering::Relaxed),
            (true, Message::Alert(_)) => self.alerts.fetch_add(1, Ordering::Relaxed),
            (true, Message::Heartbeat(_)) => 0,
        };
    }
}

/// A transmit ring of one thread, and the frame around its datagrams.
pub(crate) struct Sender {
    ring: TransmitRing,
    frame: UdpFrame,
    who: Arc<Who>,
    sent: Arc<Sent>,
    /// Packets that may still be handled before the kernel is told of frames in the ring; 0: there are none.
    patience: u32,
    retry: Option<Duration>,
}

impl Sender {
    /// Builds an alert in the ring. No room is counted, and a gap in the numbers shows it to the receiver.
    pub(crate) fn alert(&mut self, alert: &AlertRecord) {
        let message = message(alert, &self.who);
        self.send(&message);
    }

    /// Builds a message in the ring. Never allocates or calls the kernel.
    pub(crate) fn send(&mut self, message: &Message) {
        let Self { ring, frame, who, .. } = self;
        let sent = ring.send(|memory| {
            let at = frame.header_len();
            let payload = who.key.as_ref().zip(memory.get_mut(at..)).and_then(|(key, room)| message.encode(key, room));
            payload.and_then(|len| frame.finish(memory, len).ok()).unwrap_or(0)
        });
        self.sent.count(sent.is_some_and(|len| len > 0), message);
        if self.patience == 0 {
            self.patience = KICK_AFTER;
        }
    }

    /// A packet was handled.
    #[inline]
    pub(crate) fn packet(&mut self) {
        if self.patience > 0 {
            self.patience -= 1;
            if self.patience == 0 {
                self.retry = self.ring.kick();
            }
        }
    }

    /// Hands frames to the device.
    pub(crate) fn kick(&mut self) {
        self.patience = 0;
        self.retry = self.ring.kick();
    }

    /// When to do so again at the latest, where the device took not all.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }
}

/// The plain socket of the output thread.
pub(crate) struct Plain {
    socket: UdpSocket,
    who: Arc<Who>,
    sent: Arc<Sent>,
}

impl Plain {
    pub(crate) fn send(&self, message: &Message) {
        let mut payload = [0; MAX_LEN];
        let len = self.who.key.as_ref().and_then(|key| message.encode(key, &mut payload));
        let is_sent = len.is_some_and(|len| self.socket.send(&payload[..len]).is_ok());
        self.sent.count(is_sent, message);
    }
}

/// How datagrams leave.
pub(crate) enum Way {
    /// A ring for each engine, in their order, and one for heartbeats.
    Rings(Vec<Sender>, Box<Sender>),
    /// All by the output thread.
    Plain(Plain),
}

/// Opens rings for engines that watch these interfaces, or where that can't be (which is said in `warnings`) the socket.
///
/// # Errors
/// Addresses of two IP versions, no such interface, or not even a socket can be had.
pub(crate) fn open(
    datagrams: &Datagrams,
    engines: &[Interface],
    who: &Arc<Who>,
    sent: &Arc<Sent>,
    warnings: &mut Vec<String>,
) -> Result<Way> {
    let Datagrams { to, from, via } = datagrams;
    if to.address.is_ipv4() != from.is_ipv4() {
        return Err(Error::usage("send alarms to", to.address.to_string(), "--alarm-from is of another IP version"));
    }
    let via = via.as_deref().map(Interface::find).transpose()?;
    let sender = |interface: &Interface| -> Result<Sender> {
        let frame = frame(datagrams, interface)?;
        let ring = TransmitRing::open_packet(&interface.name, interface.index, SLOTS, SLOT_BYTES)?;
        Ok(Sender { ring, frame, who: Arc::clone(who), sent: Arc::clone(sent), patience: 0, retry: None })
    };
    let own = |engine| via.as_ref().unwrap_or(engine);
    let rings = engines.iter().chain(engines.first()).map(|engine| sender(own(engine))).collect::<Result<Vec<_>>>();
    match rings.map(|mut rings| rings.pop().map(|last| (rings, last))) {
        Ok(Some((rings, last))) => return Ok(Way::Rings(rings, Box::new(last))),
        Ok(None) => {}
        Err(error) => warnings.push(format!("alarms leave by a plain socket: {error}")),
    }
    let object = to.address.to_string();
    let failed = |error: std::io::Error| Error::os("send alarms to", &object, &error);
    let socket = UdpSocket::bind(from).map_err(failed)?;
    if let Some(via) = &via {
        setsockopt(&socket, BindToDevice, &via.name.clone().into()).map_err(|errno| failed(errno.into()))?;
    }
    socket.connect(to.address).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(Way::Plain(Plain { socket, who: Arc::clone(who), sent: Arc::clone(sent) }))
}

/// The frame around datagrams that leave by this interface.
fn frame(datagrams: &Datagrams, interface: &Interface) -> Result<UdpFrame> {
    let object = format!("/sys/class/net/{}/address", interface.name);
    let text = std::fs::read_to_string(&object).map_err(|error| Error::os("read", &object, &error))?;
    let source_mac = mac_address(text.trim())
        .filter(|_| interface.link_type() == Some(1))
        .ok_or_else(|| Error::failed("send frames from", &interface.name, "it is no Ethernet interface"))?;
    Ok(UdpFrame {
        source_mac,
        destination_mac: datagrams.to.mac,
        vlan: None,
        source: datagrams.from,
        destination: datagrams.to.address,
        hop_limit: 64,
        traffic_class: 0,
        identification: 0,
    })
}

//! Owns: what the detector lends to its caller: alerts, flows that ended, anomalies.
//! Does not: write them; `ringtap-sensor` and the sensor do.

use std::net::IpAddr;

use ringtap_wire::{protocol, tcp_flag};

use crate::decode::Decoded;
use crate::event::Event;
use crate::protocol::App;
use crate::rules::Rule;
use crate::track::flows::Flow;
use crate::track::session::State;
use crate::track::tags::Tagger;

/// Where the bytes of an alert come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A packet.
    Packet,
    /// A packet put together from fragments.
    Fragments,
    /// A stream's bytes that only now are in order.
    Stream,
    /// What was left of a stream when its flow ended.
    FlowEnd,
    /// Bytes beside a stream, which the receiver may have in place of those inspected before: other ones for the same range,
    /// those of a gap, or all but the urgent one.
    SideLine,
}

/// A flow as it stands.
#[derive(Clone, Copy, Debug)]
pub struct FlowView<'a> {
    flow: &'a Flow,
}

impl<'a> FlowView<'a> {
    pub(crate) fn new(flow: &'a Flow) -> Self {
        Self { flow }
    }

    /// Number, from 1, never used twice in a run.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.flow.id
    }

    /// Address and port of the client.
    #[must_use]
    pub fn client(&self) -> (IpAddr, u16) {
        self.ends().0
    }

    /// Address and port of the server.
    #[must_use]
    pub fn server(&self) -> (IpAddr, u16) {
        self.ends().1
    }

    fn ends(&self) -> ((IpAddr, u16), (IpAddr, u16)) {
        let (key, forward) = (&self.flow.key, self.flow.client == ringtap_wire::Direction::Forward);
        let (addresses, ports) = (key.addresses(), key.ports());
        let (first, second) = ((addresses.0, ports.0), (addresses.1, ports.1));
        if forward { (first, second) } else { (second, first) }
    }

    /// IP protocol.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.flow.key.protocol()
    }

    /// VLAN identifiers.
    #[must_use]
    pub fn vlan(&self) -> [u16; 2] {
        self.flow.key.vlan()
    }

    /// First and last packet, nanoseconds.
    #[must_use]
    pub fn times_ns(&self) -> (u64, u64) {
        (self.flow.first_ns, self.flow.last_ns)
    }

    /// Packets of client and server.
    #[must_use]
    pub fn packets(&self) -> [u64; 2] {
        self.flow.packets
    }

    /// Bytes of client and server.
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        self.flow.bytes
    }

    /// Least and greatest time to live (of IPv6: hop limit) of client and server; greatest before least where none was seen.
    #[must_use]
    pub fn hop_limits(&self) -> [(u8, u8); 2] {
        self.flow.hop_limits
    }

    /// IP headers around its packets: 0 outside of tunnels.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.flow.level
    }

    /// TCP flags seen of client and server.
    #[must_use]
    pub fn tcp_flags(&self) -> [u8; 2] {
        self.flow.session.flags
    }

    /// TCP state.
    #[must_use]
    pub fn tcp_state(&self) -> State {
        self.flow.session.state
    }

    /// Of TCP: a SYN of its handshake was not seen. It was inspected packet by packet then, or from the first segment on if
    /// [`Limits::midstream`](crate::Limits::midstream) says so.
    #[must_use]
    pub fn lacks_handshake(&self) -> bool {
        let session = &self.flow.session;
        let [client, server] = session.flags;
        let goes_on = (client | server) & tcp_flag::ACK != 0;
        // A SYN that is refused is answered by a reset.
        let is_refused = client & (tcp_flag::SYN | tcp_flag::ACK) == tcp_flag::SYN && server & tcp_flag::RST != 0;
        self.protocol() == protocol::TCP && goes_on && !session.has_greeted_both() && !is_refused
    }

    /// Of TCP: one side alone was seen, which went on behind its SYN.
    #[must_use]
    pub fn is_one_sided(&self) -> bool {
        let goes_on = |side: usize| self.flow.session.flags[side] & tcp_flag::ACK != 0;
        let is_lonely = |side: usize| self.flow.packets[1 - side] == 0 && goes_on(side);
        // Of a connection that was silent for long one side alone may have gone on.
        let is_seen_whole = self.flow.session.has_greeted_both();
        self.protocol() == protocol::TCP && !is_seen_whole && (is_lonely(0) || is_lonely(1))
    }

    /// Both sides were seen; of TCP, they agreed on a session.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.flow.is_established()
    }

    /// Alerts.
    #[must_use]
    pub fn alerts(&self) -> u64 {
        self.flow.alerts
    }

    /// The application's protocol, if it was recognised.
    #[must_use]
    pub fn app(&self) -> Option<&'static str> {
        self.flow.app.map(App::name)
    }
}

/// An alert.
#[derive(Clone, Copy, Debug)]
pub struct Alert<'a> {
    /// The rule that matched.
    pub rule: &'a Rule,
    /// The packet.
    pub packet: &'a Decoded<'a>,
    /// Its flow.
    pub flow: Option<FlowView<'a>>,
    /// The packet goes from client to server.
    pub to_server: bool,
    /// Where the bytes come from.
    pub origin: Origin,
    /// They are a stream's.
    pub in_stream: bool,
    /// The file that the message brings, if it brings one.
    pub file: Option<FileView<'a>>,
    /// What the two sides said in the transaction that it belongs to, as far as it is known yet.
    pub transaction: Option<Transaction<'a>>,
    /// The bytes of the stream that were looked at, where there are any.
    pub stream: &'a [u8],
    /// Time of the packet, nanoseconds.
    pub now_ns: u64,
}

/// What the two sides said in a transaction, for records: as sent, as far as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction<'a> {
    /// The name of its protocol.
    pub app: &'static str,
    /// Number in its flow, from 0.
    pub id: u32,
    /// Of client and server. HTTP: the heads of request and response, perhaps with bytes behind them. TLS: messages of the handshake.
    /// DNS: one message, in the first place. SSH: banners. SMTP: the first place has what [`smtp`](crate::protocol::smtp) tells.
    /// FTP: a command, and the lines of its reply. FTP's data: the command and the file's name, in the place of who sends it.
    pub said: [&'a [u8]; 2],
    /// HTTP: the contents of request and response.
    pub contents: [Content; 2],
}

/// A message's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Bytes as sent.
    pub sent: u64,
    /// Bytes that were looked at, without transfer and content codings.
    pub decoded: u64,
    /// It was there to its end.
    pub is_whole: bool,
    /// More of it was not looked at.
    pub is_cut: bool,
    /// Bytes of it were not seen.
    pub has_gap: bool,
}

/// A file in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileView<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// It is there to its end.
    pub is_whole: bool,
    /// Bytes so far.
    pub size: u64,
    /// The command that moves it, of four letters, where there is one (FTP).
    pub command: Option<&'a [u8]>,
}

/// Why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEnd {
    /// Its time was over.
    Timeout,
    /// The table was full.
    Evicted,
    /// The sensor ended.
    Shutdown,
}

/// What a packet is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// The flow of this number.
    Flow(u64),
    /// A packet that is put together from fragments; the number is the same for all of them, and of one in 2⁶⁴ others.
    Datagram(u64),
}

/// Takes what is found. Called on the data path: must not block.
pub trait Sink {
    /// The packet at hand is part of this: told for each of its levels, the outermost first, and then for what is put together by it.
    fn part_of(&mut self, _whole: Whole) {}
    /// An alert.
    fn alert(&mut self, alert: &Alert<'_>);
    /// A packet of a session or host that a rule has tagged before.
    fn tagged(&mut self, _packet: &Decoded<'_>, _flow: Option<&FlowView<'_>>, _by: Tagger, _now_ns: u64) {}
    /// A transaction is over, or what there is of it.
    fn transaction(&mut self, _transaction: &Transaction<'_>, _flow: &FlowView<'_>, _now_ns: u64) {}
    /// A file is over that a message brought whose protocol has several in one transaction.
    fn file(&mut self, _file: &FileView<'_>, _of: &Transaction<'_>, _flow: &FlowView<'_>, _now_ns: u64) {}
    /// A flow ended.
    fn flow(&mut self, _flow: &FlowView<'_>, _end: FlowEnd) {}
    /// Something is wrong with a packet, whatever the rules say.
    fn anomaly(&mut self, _event: Event, _packet: &Decoded<'_>, _now_ns: u64) {}
}

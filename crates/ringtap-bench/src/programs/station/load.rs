//! What is sent to stations: frames made before the run, each with its number, and the finding of numbers in what came out.

use std::net::SocketAddr;
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_snmp::message::{self, Message, ScopedData, ScopedPdu};
use ringtap_snmp::usm::{AuthProtocol, PrivProtocol, User};
use ringtap_snmp::varbind::{Value, Varbinds};
use ringtap_station::alarm::Alarm;
use ringtap_testbed::generate::Prepared;
use ringtap_testbed::storm::form::{self, Engines, Form};
use ringtap_testbed::storm::{SEQUENCE, Script, Storm, Truth};
use ringtap_testbed::{Generator, Testbed};
use ringtap_wire::UdpFrame;

/// Nodes that send v2c and syslog: six objects each.
const NODES: u32 = 5000;
/// Nodes that send v3: snmptrapd has to be told each engine beforehand.
pub(super) const ENGINES: u32 = 64;
/// The user of v3: authPriv by SHA-1 and AES-128.
pub(super) const USER: [&str; 3] = ["operator", "authentic1", "secretive1"];
/// What stands before the number of a message of syslog.
const SYSLOG_NUMBER: &str = "number=";

/// Kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// SNMPv2c traps.
    V2c,
    /// SNMPv3 traps, authPriv.
    V3,
    /// Syslog by RFC 3164 over UDP.
    Syslog,
}

impl Load {
    /// By its name in the definitions.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn find(name: &str) -> Result<Self> {
        [Self::V2c, Self::V3, Self::Syslog].into_iter().find(|load| load.name() == name).ok_or_else(|| {
            Error::usage("measure", name, "the study `station` has no such messages")
                .way_out("choose v2c, v3 or syslog")
        })
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V2c => "v2c",
            Self::V3 => "v3",
            Self::Syslog => "syslog",
        }
    }

    /// Where it is sent to.
    pub(super) fn port(self) -> u16 {
        if self == Self::Syslog { 514 } else { 162 }
    }
}

/// Frames in one piece of memory.
pub(super) struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    storm: Storm,
}

impl Frames {
    /// `count` frames of `load` from the testbed's sender to its receiver. Each message of v3 is encrypted and authenticated by itself.
    pub(super) fn make(testbed: &Testbed, load: Load, count: u64) -> Result<Self> {
        let (from, to) = (testbed.sender().link(), testbed.receiver().link());
        let form = match load {
            Load::V3 => {
                let boots = ringtap::clock::realtime_ns() / 1_000_000_000;
                Form::V3(Engines::new(&user()?, ENGINES, boots as u32))
            }
            Load::V2c | Load::Syslog => Form::V2c { community: "public".to_owned() },
        };
        let nodes = if load == Load::V3 { ENGINES } else { NODES };
        let storm = Storm { script: Script::CoreRouterFails, nodes, count, form, ipv6: false };
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut room = [0; 1600];
        for number in 0..count {
            let (node, datagram) = match load {
                Load::Syslog => syslog(number),
                Load::V2c | Load::V3 => storm.datagram(number, 1),
            };
            let frame = UdpFrame {
                source_mac: from.mac,
                destination_mac: to.mac,
                vlan: None,
                source: SocketAddr::new(node, 40_000),
                destination: SocketAddr::new(to.ipv4.into(), load.port()),
                hop_limit: 64,
                traffic_class: 0,
                identification: number as u16,
            };
            let length = frame
                .write(&mut room, &datagram)
                .map_err(|error| Error::failed("make", format!("message {number}"), error))?;
            bytes.extend_from_slice(&room[..length]);
            ends.push(bytes.len());
        }
        Ok(Self { bytes, ends, storm })
    }

    /// Alarms that are missing, too many, or wrong in count or state, when these traps were taken in this order.
    pub(super) fn wrong_alarms(&self, numbers: &[u64], alarms: Vec<Alarm>) -> usize {
        let mut truth = self.storm.truth(numbers.iter().copied());
        let mut wrong = 0;
        for alarm in alarms {
            let known = Truth { count: alarm.count, cleared: alarm.cleared };
            let key = (alarm.key.resource, alarm.key.condition, alarm.key.object);
            wrong += usize::from(truth.remove(&key) != Some(known));
        }
        wrong + truth.len()
    }

    /// Mean length of a frame in bytes.
    pub(super) fn mean_len(&self) -> f64 {
        self.bytes.len() as f64 / self.ends.len().max(1) as f64
    }

    /// Sends all of them at this rate, from the generator's core.
    pub(super) fn send(self: &Arc<Self>, testbed: &Testbed, pps: f64) -> Result<Generator> {
        let frames = Arc::clone(self);
        let make = move |number: u64, room: &mut [u8]| {
            let number = number as usize;
            let start = if number == 0 { 0 } else { frames.ends[number - 1] };
            let frame = &frames.bytes[start..frames.ends[number]];
            room[..frame.len()].copy_from_slice(frame);
            frame.len()
        };
        let prepared = Prepared {
            interface: testbed.sender().interface().to_owned(),
            pps: Some(pps),
            count: self.ends.len() as u64,
            make: Box::new(make),
            core: Some(testbed.config().generator_core),
            priority: Some(30),
            anywhere: false,
        };
        testbed.sender().run(|| prepared.start())?
    }
}

/// The user of v3.
pub(super) fn user() -> Result<User> {
    let [name, auth, privacy] = USER;
    User::new(name, Some((AuthProtocol::Sha1, auth)), Some((PrivProtocol::Aes128, privacy)))
        .map_err(|cause| Error::usage("make", "the user of v3", cause))
}

fn syslog(number: u64) -> (std::net::IpAddr, Vec<u8>) {
    let node = (number % u64::from(NODES)) as u32;
    let text = format!(
        "<27>Oct 11 22:14:15 node{node:04} bgpd[7]: neighbour 192.0.2.1 went from Established to Idle, {SYSLOG_NUMBER}{number}"
    );
    (form::address(node, false), text.into_bytes())
}

/// The numbers of messages in a text: behind the name of the varbind and its type, or behind the word of syslog.
pub(super) fn numbers_in_text(text: &[u8], load: Load) -> Vec<u64> {
    let marks: &[&[u8]] = match load {
        Load::Syslog => &[SYSLOG_NUMBER.as_bytes()],
        // As snmptrapd writes it, to a file and to a handler, and as Telegraf names it.
        Load::V2c | Load::V3 => &[b"1.3.6.1.4.1.32473.1.1.0", b"32473.1.1.0="],
    };
    let mut numbers = Vec::new();
    for line in text.split(|&byte| byte == b'\n') {
        let behind = marks
            .iter()
            .filter_map(|mark| line.windows(mark.len()).position(|window| window == *mark).map(|at| at + mark.len()));
        let Some(at) = behind.max() else { continue };
        let rest = line[at..].strip_prefix(b" = Counter64:").unwrap_or(&line[at..]);
        let digits = rest.iter().skip_while(|byte| !byte.is_ascii_digit()).take_while(|byte| byte.is_ascii_digit());
        numbers.push(digits.fold(0, |number: u64, digit| number.wrapping_mul(10) + u64::from(digit - b'0')));
    }
    numbers
}

/// The number of a stored notification.
pub(super) fn number_in_row(raw: &[u8], decrypted: Option<&[u8]>, load: Load) -> Option<u64> {
    if load == Load::Syslog {
        return numbers_in_text(raw, load).pop();
    }
    let in_list = |varbinds: Varbinds<'_>| {
        varbinds.iter().find_map(|varbind| match varbind.value {
            Value::Counter64(number) if varbind.name.arcs().eq(SEQUENCE) => Some(number),
            _ => None,
        })
    };
    match message::parse(raw).ok()? {
        Message::Community { pdu, .. } => in_list(pdu.varbinds),
        Message::V3(message) => {
            let plain = match message.data {
                ScopedData::Plain(bytes) => bytes,
                ScopedData::Encrypted(_) => decrypted?,
            };
            in_list(ScopedPdu::parse(plain).ok()?.pdu.varbinds)
        }
        Message::OtherVersion(_) => None,
    }
}

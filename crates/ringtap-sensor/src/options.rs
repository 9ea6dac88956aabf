//! Owns: what a sensor can be told, as plain values. Each is checked where it is used.
//! Does not: read a command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ringtap::record::RecordConfig;
use ringtap_datagram::SensorId;
use ringtap_detect::Policy;
use ringtap_output::{KafkaTarget, LogServer};
use ringtap_run::live::Live;
use ringtap_web::Places;

/// Everything a sensor can be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where packets come from.
    pub input: Input,
    /// Rules.
    pub rules: RuleOptions,
    /// Bounds of the detectors.
    pub bounds: Bounds,
    /// Outputs.
    pub outputs: OutputOptions,
    /// `ringtap.toml` (docs/sensor.md); what is said here goes before it.
    pub config: Option<PathBuf>,
    /// What is shown, and where; of interfaces alone.
    pub places: Places,
    /// Measure what each rule costs.
    pub profile: bool,
    /// User to go on as once all is set up.
    pub user: Option<String>,
    /// Keep all privileges.
    pub no_sandbox: bool,
    /// End after this time.
    pub duration: Option<Duration>,
}

impl Options {
    /// Defaults for an input: no rules, no outputs, statistics and alerts wanted.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Self {
            input,
            rules: RuleOptions::default(),
            bounds: Bounds::default(),
            outputs: OutputOptions::default(),
            config: None,
            places: Places::default(),
            profile: false,
            user: None,
            no_sandbox: false,
            duration: None,
        }
    }
}

/// Where packets come from.
#[derive(Debug, Clone)]
pub enum Input {
    /// Interfaces. The sensor itself says whether it sends, and that all packets of a flow belong together.
    Interfaces(Vec<Live>),
    /// Capture files, one after another, as fast as they can be read.
    Files(Vec<PathBuf>),
}

/// Which rules, and what becomes of those that can't be used.
#[derive(Debug, Clone, Default)]
pub struct RuleOptions {
    /// Rule files.
    pub files: Vec<PathBuf>,
    /// Rule files whose packets go first when there are more than can be looked at; their rules are used like the others.
    pub priority: Vec<PathBuf>,
    /// Any rule that is not used is an error.
    pub strict: bool,
    /// A reload may bring less than half as many usable rules as there were.
    pub reload_fewer: bool,
    /// Variables by name, without `$`.
    pub variables: Vec<(String, String)>,
    /// Names and priorities of classes; `None`: `classification.config` beside the first rule file, if there is one.
    pub classification: Option<PathBuf>,
    /// Suppressions, event filters and rate filters in Suricata's format (`threshold.config`); goes before the configuration's.
    pub thresholds: Option<PathBuf>,
}

/// Bounds of each detector; `None` is its default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    /// Searches and comparisons for one packet, 1 to 2³¹.
    pub budget: Option<u64>,
    /// Flows at one time.
    pub flows: Option<u64>,
    /// Whose bytes count where segments or fragments overlap.
    pub overlap: Option<Policy>,
    /// Content codings of one HTTP message that are decoded, one inside the other: 1 to 3.
    pub http_layers: Option<u8>,
    /// TCP connections are followed without their handshake, and where one direction alone is seen.
    pub midstream: bool,
    /// TCP segments with wrong checksums are part of their stream.
    pub no_checksums: bool,
}

/// Where events go.
#[derive(Debug, Clone)]
pub struct OutputOptions {
    /// File of EVE JSON; `-` is standard output.
    pub eve: Option<PathBuf>,
    /// Begin a new file before one exceeds so many bytes, and keep so many old ones.
    pub eve_rotate: Option<(u64, u32)>,
    /// Unix socket for the same lines.
    pub eve_socket: Option<PathBuf>,
    /// Which events these two get. Alerts go to the other outputs in any case.
    pub events: Vec<Event>,
    /// What is written with each alert, besides what is said of it.
    pub with_alerts: Vec<WithAlerts>,
    /// File of the packets of flows with alerts.
    pub pcap_log: Option<PcapLog>,
    /// Syslog server for alerts.
    pub syslog: Option<LogServer>,
    /// Alerts and heartbeats for a correlator.
    pub alarms: AlarmOptions,
    /// Alerts of each engine that may wait for the output thread, and as many other events; each has 512 bytes beside.
    pub queue: usize,
    /// Statistics at this interval; of files only once, at their end.
    pub stats: Duration,
}

impl Default for OutputOptions {
    fn default() -> Self {
        Self {
            eve: None,
            eve_rotate: None,
            eve_socket: None,
            events: vec![Event::Alert, Event::Stats, Event::Anomaly, Event::Packet],
            with_alerts: Vec::new(),
            pcap_log: None,
            syslog: None,
            alarms: AlarmOptions::default(),
            queue: 16384,
            stats: Duration::from_secs(8),
        }
    }
}

impl OutputOptions {
    /// Whether an event is asked for.
    pub(crate) fn wants(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// Whether this is to be written with alerts, and alerts are.
    pub(crate) fn has_with_alerts(&self, what: WithAlerts) -> bool {
        self.has_lines() && self.with_alerts.contains(&what)
    }

    /// Whether there is an output for all events.
    pub(crate) fn has_lines(&self) -> bool {
        self.eve.is_some() || self.eve_socket.is_some()
    }
}

/// Events of EVE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Rules that matched.
    Alert,
    /// Flows that ended.
    Flow,
    /// Counters.
    Stats,
    /// Packets with something wrong.
    Anomaly,
    /// Packets after an alert whose rule has `tag`.
    Packet,
    /// Requests of HTTP, with their responses.
    Http,
    /// Queries and answers of DNS.
    Dns,
    /// Handshakes of TLS.
    Tls,
    /// Banners of SSH.
    Ssh,
    /// Messages of SMTP.
    Smtp,
    /// Commands of FTP, with their replies.
    Ftp,
    /// Data connections of FTP that brought a file.
    FtpData,
    /// Files in HTTP, SMTP and FTP.
    Fileinfo,
    /// Each direction of flows that ended.
    Netflow,
}

/// What may be written with an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithAlerts {
    /// What it was found in, in Base64.
    Payload,
    /// The same as text, other bytes as dots.
    PayloadPrintable,
    /// The packet, in Base64.
    Packet,
}

/// The packets of flows with alerts, in a capture file: what is in memory of them at the alert, and what follows.
#[derive(Debug, Clone)]
pub struct PcapLog {
    /// The file; the number of spools follows from the engines.
    pub record: RecordConfig,
    /// So long before an alert its flow's packets are kept. So late they are in the file, too.
    pub before: Duration,
    /// Memory for that of each engine, bytes; at least 64 KiB, and enough for the longest packet.
    pub memory: usize,
}

/// Alerts and heartbeats for a correlator: where they go, and who the sensor says it is.
#[derive(Debug, Clone, Default)]
pub struct AlarmOptions {
    /// As datagrams, from the engines' own threads.
    pub datagrams: Option<Datagrams>,
    /// As JSON lines.
    pub lines: Vec<LineTarget>,
    /// As the same lines, to a topic of Kafka. Their key is the sensor's name, whatever is said here.
    pub kafka: Option<KafkaTarget>,
    /// The sensor's name.
    pub sensor_id: Option<SensorId>,
    /// File of the key, readable for its owner alone: `NUMBER:HEXDIGITS`.
    pub key: Option<PathBuf>,
    /// File of the last epoch; `None`: one for the name below `/var/lib/ringtap`.
    pub epoch_file: Option<PathBuf>,
}

impl AlarmOptions {
    /// Whether alarms leave as lines.
    pub(crate) fn has_lines(&self) -> bool {
        !self.lines.is_empty() || self.kafka.is_some()
    }

    /// Whether a correlator is told anything.
    pub(crate) fn are_asked(&self) -> bool {
        self.datagrams.is_some() || self.has_lines()
    }
}

/// Where datagrams of alerts go, and what they say they are from.
#[derive(Debug, Clone)]
pub struct Datagrams {
    /// To.
    pub to: DatagramTarget,
    /// From: of the same IP version.
    pub from: SocketAddr,
    /// By this interface; `None`: by the one that is watched.
    pub via: Option<String>,
}

/// Who takes JSON lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineTarget {
    /// A Unix socket, datagram or stream.
    Unix(PathBuf),
    /// A TCP listener.
    Tcp(SocketAddr),
}

impl FromStr for LineTarget {
    type Err = String;

    /// Reads `unix:PATH` or `tcp:ADDRESS:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => {
                address.parse().map(Self::Tcp).map_err(|_| format!("'{address}' is no ADDRESS:PORT"))
            }
            _ => Err("needs unix:PATH or tcp:ADDRESS:PORT".to_owned()),
        }
    }
}

/// The receiver of datagrams: nobody is asked for its MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramTarget {
    /// MAC address of it or of the router on the way.
    pub mac: [u8; 6],
    /// Address and UDP port.
    pub address: SocketAddr,
}

impl FromStr for DatagramTarget {
    type Err = String;

    /// Reads `MAC@ADDRESS:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (mac, address) = text.split_once('@').ok_or("needs MAC@ADDRESS:PORT")?;
        let mac = mac_address(mac).ok_or_else(|| format!("'{mac}' is no MAC address"))?;
        let address = address.parse().map_err(|_| format!("'{address}' is no ADDRESS:PORT"))?;
        Ok(Self { mac, address })
    }
}

/// A MAC address in the kernel's form: six bytes in hexadecimal digits, with colons.
pub(crate) fn mac_address(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

/// Reads NAME=VALUE, a variable of the rules; the name may have its `$`.
///
/// # Errors
/// There is no `=`, or the name has other characters than letters, digits and `_`.
pub fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("needs NAME=VALUE")?;
    let name = name.trim_start_matches('$');
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { Ok((name.to_owned(), value.to_owned())) } else { Err(format!("'{name}' is no name of a variable")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(variable("$HOME_NET=[1.2.3.4]").unwrap().0, "HOME_NET");
        assert!(variable("HOME_NET").is_err() && variable("A B=1").is_err());
        let target = "02:00:00:00:00:01@192.0.2.1:9".parse::<DatagramTarget>().unwrap();
        assert_eq!(target.mac, [2, 0, 0, 0, 0, 1]);
        assert_eq!("unix:/run/a:b".parse(), Ok(LineTarget::Unix("/run/a:b".into())));
        assert_eq!("tcp:[::1]:9".parse(), Ok(LineTarget::Tcp("[::1]:9".parse().unwrap())));
        assert!(["unix:", "tcp:host:9", "/run/a", ""].iter().all(|text| text.parse::<LineTarget>().is_err()));
        assert!("02:00:00:00:00@192.0.2.1:9".parse::<DatagramTarget>().is_err());
    }
}

//! Owns: how each receiver is started, watched and asked what it found. Suricata is the testbed's peer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_testbed::Testbed;
use ringtap_testbed::peer::{PeerKind, PeerOptions, RunningPeer, resident_bytes};
use serde_json::{Value, json};

use super::rules::{FIRST_SID, HOME_NET};
use crate::programs::ours::{self, RunningCommand};

/// Slots of Suricata's packet ring, in bytes: half a second at 148,000 packets/s.
const PEER_RING_BYTES: u64 = 128 << 20;

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    Ringtap,
    /// Ringtap on a packet ring, as where AF_XDP can't be had.
    RingtapPacket,
    Suricata(PeerKind),
}

impl Receiver {
    const ALL: [Self; 4] = [
        Self::Ringtap,
        Self::RingtapPacket,
        Self::Suricata(PeerKind::SuricataAfPacket),
        Self::Suricata(PeerKind::SuricataAfXdp),
    ];

    /// By its name in the definitions.
    pub(crate) fn find(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|receiver| receiver.name() == name).ok_or_else(|| {
            let choice = Self::ALL.map(Self::name).join(", ");
            Error::usage("measure", name, "the study `sensor` has no such receiver")
                .way_out(format!("choose among: {choice}"))
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ringtap => "ringtap",
            Self::RingtapPacket => "ringtap-packet",
            Self::Suricata(kind) => kind.name(),
        }
    }

    /// Whether the testbed has to give the device its NAPI.
    pub(crate) fn needs_napi(self) -> bool {
        match self {
            Self::Ringtap => false,
            Self::RingtapPacket => true,
            Self::Suricata(kind) => !kind.attaches_xdp(),
        }
    }
}

/// What it says at its end.
pub(crate) struct Measured {
    /// Packets that went through its rules.
    pub(crate) handled: u64,
    /// Of the own rules.
    pub(crate) alerts: Option<u64>,
    pub(crate) claims_received: Option<u64>,
    pub(crate) claims_dropped: Option<u64>,
    pub(crate) resident_bytes: Option<u64>,
    /// Its summary.
    pub(crate) reported: Value,
}

/// One at work.
pub(crate) enum Running {
    Ringtap(Sensor),
    /// Told by the testbed at its end.
    Suricata(Box<RunningPeer>),
}

/// `ringtap sensor`, all its threads on the receiver's core.
pub(crate) struct Sensor {
    program: RunningCommand,
    _folder: tempfile::TempDir,
    eve: PathBuf,
}

impl Running {
    pub(crate) fn start(
        testbed: &Testbed,
        receiver: Receiver,
        ringtap: &Path,
        rules: &Path,
        extra: &[String],
    ) -> Result<Self> {
        match receiver {
            Receiver::Suricata(kind) => {
                let options = PeerOptions {
                    buffer_bytes: (kind == PeerKind::SuricataAfPacket).then_some(PEER_RING_BYTES),
                    rules: Some(rules.to_owned()),
                    home_net: Some(HOME_NET.to_owned()),
                    ..PeerOptions::default()
                };
                Ok(Self::Suricata(Box::new(RunningPeer::start(testbed, kind, &options)?)))
            }
            Receiver::Ringtap => Ok(Self::Ringtap(Sensor::start(testbed, "xdp", ringtap, rules, extra)?)),
            Receiver::RingtapPacket => Ok(Self::Ringtap(Sensor::start(testbed, "packet", ringtap, rules, extra)?)),
        }
    }

    pub(crate) fn settle(&mut self) -> Result<()> {
        match self {
            Self::Ringtap(_) => {
                std::thread::sleep(Duration::from_millis(300));
                Ok(())
            }
            Self::Suricata(peer) => peer.settle(),
        }
    }

    /// Bytes in RAM; of Suricata the testbed tells it at the end.
    pub(crate) fn resident_bytes(&mut self) -> Option<u64> {
        match self {
            Self::Ringtap(sensor) => resident_bytes(sensor.program.id()),
            Self::Suricata(_) => None,
        }
    }

    pub(crate) fn finish(self, sent: u64) -> Result<Measured> {
        match self {
            Self::Ringtap(sensor) => sensor.finish(),
            Self::Suricata(peer) => {
                let report = peer.finish(sent)?;
                Ok(Measured {
                    handled: report.received,
                    alerts: report.alarms,
                    claims_received: report.claims_received,
                    claims_dropped: report.claims_dropped,
                    resident_bytes: report.resident_bytes,
                    reported: json!({ "note": report.note }),
                })
            }
        }
    }
}

impl Sensor {
    fn start(testbed: &Testbed, backend: &str, ringtap: &Path, rules: &Path, extra: &[String]) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(|error| Error::os("make a folder for", "the sensor", &error))?;
        let eve = folder.path().join("eve.json");
        let mut command = ours::command(testbed, ringtap, "sensor");
        command.args(["-i", testbed.receiver().interface(), "--json", "--backend", backend, "--no-checksums"]);
        command.args(["--set", &format!("HOME_NET={HOME_NET}"), "--events", "alert"]);
        command.arg("-S").arg(rules).arg("--eve").arg(&eve).args(extra);
        Ok(Self {
            program: RunningCommand::start(testbed, "ringtap sensor", command, "watching")?,
            _folder: folder,
            eve,
        })
    }

    fn finish(self) -> Result<Measured> {
        let summary = self.program.finish()?;
        let lines = std::fs::read_to_string(&self.eve)
            .map_err(|error| Error::os("read", self.eve.display().to_string(), &error))?;
        Ok(Measured {
            handled: summary["packets"].as_u64().unwrap_or(0),
            // As written to the file of events.
            alerts: Some(lines.lines().filter(|line| is_own(line)).count() as u64),
            claims_received: summary["ledger"]["delivered"].as_u64(),
            claims_dropped: summary["ledger"]["lost"].as_u64(),
            resident_bytes: None,
            reported: summary,
        })
    }
}

fn is_own(line: &str) -> bool {
    let event: Value = serde_json::from_str(line).unwrap_or_default();
    event["alert"]["signature_id"].as_u64().is_some_and(|sid| sid >= FIRST_SID)
}

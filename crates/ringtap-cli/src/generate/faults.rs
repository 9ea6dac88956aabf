//! `ringtap generate --topology FILE --fault …`: the options of a storm that faults make. What is said when is the testbed crate's.

use std::path::PathBuf;
use std::time::Duration;

use ringtap::{Error, Result};
use ringtap_run::units;
use ringtap_testbed::FrameSpec;
use ringtap_testbed::generate::{Replay, ReplayPace};
use ringtap_testbed::storm::fault::{Fault, Network, Noise, Played};
use ringtap_testbed::storm::form::Form;
use serde_json::json;
use tempfile::NamedTempFile;

use super::traps::TRAP_PORT;

/// Options about faults.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Traps of faults")]
pub(super) struct FaultArgs {
    /// Send what the nodes of this network (TOML; docs/root-cause.md) say when something in it breaks
    #[arg(long, value_name = "FILE", group = "notifications", requires = "fault",
        conflicts_with_all = ["replay", "size", "pattern", "count", "rate", "traps"])]
    topology: Option<PathBuf>,
    /// What breaks: link:A-B, node:A, power:P or bgp:A (all its sessions), and how long after the first, as in node:A@2s (may be given
    /// several times)
    #[arg(long, value_name = "KIND:NAME", requires = "topology")]
    fault: Vec<String>,
    /// All is mended so long after the first fault [default: nothing is]
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "topology")]
    mended: Option<Duration>,
    /// Of each hundred notifications so many are lost
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100), requires = "topology")]
    lost: u8,
    /// Alarms beside, which no fault made
    #[arg(long, value_name = "N", default_value_t = 0, requires = "topology")]
    spurious: usize,
    /// Delays, losses and what is beside come from this number: the same gives the same storm
    #[arg(long, value_name = "N", default_value_t = 1, requires = "topology")]
    seed: u64,
    /// Write what broke, by all names that are right, to this file (JSON) [default: nowhere]
    #[arg(long, value_name = "FILE", requires = "topology")]
    expected: Option<PathBuf>,
}

/// A storm to be sent.
pub(super) struct FaultStorm {
    played: Played,
    form: Form,
}

impl FaultArgs {
    /// What is to be sent, if faults are.
    pub(super) fn read(&self, form: impl FnOnce() -> Result<Form>) -> Result<Option<FaultStorm>> {
        let Some(path) = &self.topology else { return Ok(None) };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| Error::os("read the topology", &name, &error))?;
        let network = Network::read(&text).map_err(|cause| {
            Error::usage("play", &name, cause).way_out("`ringtap topology check` shows faults of the file itself")
        })?;
        let faults = self.fault.iter().map(|word| one(&network, word)).collect::<Result<Vec<_>>>()?;
        let noise = Noise { loss_percent: self.lost, spurious: self.spurious };
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let mended_ms = self.mended.map_or(0, |after| after.as_millis() as u64);
        let played = network.play(&faults, mended_ms, noise, &mut rng);
        if played.events.is_empty() {
            return Err(Error::failed("play", &name, "nobody who is heard has anything to say of these faults")
                .way_out("look where the station is attached with `ringtap topology show`"));
        }
        Ok(Some(FaultStorm { played, form: form()? }))
    }

    /// Writes the expected roots where they are asked for: once nothing but the sending itself can fail, as what is there goes.
    pub(super) fn write_expected(&self, FaultStorm { played, .. }: &FaultStorm) -> Result<()> {
        let Some(file) = &self.expected else { return Ok(()) };
        let first_ns = played.events.first().map_or(0, |event| event.at_ns);
        let roots: Vec<_> = played
            .stories
            .iter()
            .map(|story| {
                let after_ms = (story.at_ns as i64 - first_ns as i64) / 1_000_000;
                json!({"names": story.names, "after_first_trap_ms": after_ms, "shows": story.shows})
            })
            .collect();
        let spurious = played.events.iter().filter(|event| event.spurious).count();
        let expected = json!({"roots": roots, "traps": played.events.len(), "spurious": spurious, "seed": self.seed});
        std::fs::write(file, format!("{expected:#}\n")).map_err(|error| {
            Error::os("write", file.display().to_string(), &error).way_out("name another file with --expected")
        })
    }
}

fn one(network: &Network, word: &str) -> Result<(Fault, u64)> {
    let wrong = |cause: String| Error::usage("use", format!("--fault {word}"), cause);
    let (name, after) = match word.rsplit_once('@') {
        Some((name, after)) => (name, units::duration(after).map_err(wrong)?),
        None => (word, Duration::ZERO),
    };
    Ok((network.fault(name).map_err(wrong)?, after.as_millis() as u64))
}

impl FaultStorm {
    /// As a capture file that is sent at its own pace; it is there as long as the second value is.
    pub(super) fn replay(
        self,
        interface: &str,
        frame: FrameSpec,
        port: Option<u16>,
    ) -> Result<(Replay, NamedTempFile)> {
        let failed = |error: std::io::Error| Error::os("write", "the traps to send", &error);
        let file = NamedTempFile::new().map_err(failed)?;
        let mut out = std::io::BufWriter::new(file.as_file());
        self.played.write_pcap(frame, port.unwrap_or(TRAP_PORT), &self.form, &mut out).map_err(failed)?;
        drop(out);
        let replay = Replay::new(interface, vec![file.path().to_owned()], ReplayPace::Recorded(1.0));
        Ok((replay, file))
    }
}

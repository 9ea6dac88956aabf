//! Splitter, two sensors and correlator at work: four commands of `ringtap` in the receiving host.
//!
//! Owns their files, options, start and end. The files are in memory and seen by that host alone, so nothing is left of them.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringtap::source::Source;
use ringtap::source::file::{FileSource, Pace};
use ringtap::{Error, Result, clock};
use ringtap_datagram::Key;
use ringtap_testbed::{Folder, InnerWire, OutputWire, RunningProgram, Testbed};
use serde_json::Value;

use super::plant::{self, STAGES, pair_of, stage_of};
use super::tap::{Tap, TappedAlarm};
use super::told::{Announced, ToldLines};
use super::wires::{WireLosses, Wires};
use crate::programs::ours::{self, RunningCommand};

/// Where the correlator is, and its port.
const CORRELATOR: Ipv4Addr = Ipv4Addr::new(198, 18, 7, 1);
const PORT: u16 = 5171;
/// The sensors' key; the testbed is nobody's but ours.
const KEY: &str = "1:000102030405060708090a0b0c0d0e0f";
/// What the splitter copies the stages into.
const STAGES_FILE: &str = "stages.pcapng";
const HEARD_LIMIT: Duration = Duration::from_secs(30);

/// How one of our commands is found, and what it is told beyond the ordinary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting<'d> {
    pub ringtap: &'d Path,
    /// Options of splitter and sensors.
    pub options: &'d [String],
    /// Windows of the correlator's rules.
    pub windows: &'d [Duration],
    pub both_flooded: bool,
}

/// What is in front of the sensors, whichever they are.
pub(crate) struct Splitter {
    program: RunningCommand,
    wires: Wires,
}

impl Splitter {
    /// Starts it between the testbed's wire and two outputs.
    pub(crate) fn start(
        testbed: &Testbed,
        setting: &Setting<'_>,
        folder: &Folder,
        outputs: Vec<OutputWire>,
    ) -> Result<Self> {
        let stages = folder.inside().join(STAGES_FILE).display().to_string();
        let [first, second] = [&outputs[0].interface, &outputs[1].interface];
        let classes = plant::classes([first, second], &stages, setting.both_flooded);
        let classes = write(folder, "classes.toml", &classes)?;
        let core = testbed.config().receiver_core.to_string();
        let mut command = ours::command(testbed, setting.ringtap, "split");
        command.args(["-i", testbed.receiver().interface(), "--json", "--cpu", &core]).args(setting.options);
        command.args(["--backend", "xdp", "--by", &classes, "--out", first, "--out", second, "--out", &stages]);
        let program = RunningCommand::start(testbed, "ringtap split", command, "splitting")?;
        Ok(Self { program, wires: Wires::read(testbed, outputs)? })
    }

    /// Ends it: when each stage of each pair arrived, nanoseconds since 1970, its summary, and what the wires around it lost.
    pub(crate) fn finish(self, testbed: &Testbed, folder: &Folder) -> Result<(Times, Value, WireLosses)> {
        let summary = self.program.finish()?;
        let losses = self.wires.losses(testbed)?;
        let mut source = FileSource::open(&[folder.outside().join(STAGES_FILE)], Pace::AsFast)?;
        let mut times = Times::new();
        while !source.has_ended() {
            for packet in source.receive().iter() {
                // Source address and destination port of a frame of ours, which has no options.
                let (Some(address), Some(port)) = (packet.data.get(26..30), packet.data.get(36..38)) else { continue };
                let address: [u8; 4] = address.try_into().unwrap_or_default();
                let port = u16::from_be_bytes(port.try_into().unwrap_or_default());
                let stage = STAGES.iter().position(|stage| stage.port == port);
                if let Some((pair, stage)) = pair_of(Ipv4Addr::from(address).into()).zip(stage) {
                    times.entry((pair, stage)).or_insert(packet.arrival_ns);
                }
            }
        }
        match source.fault() {
            Some(fault) => Err(fault),
            None => Ok((times, summary, losses)),
        }
    }
}

/// A time for each pair and stage, nanoseconds since 1970.
pub(crate) type Times = BTreeMap<(u32, usize), u64>;

/// All four at work.
pub(crate) struct Chain {
    splitter: Splitter,
    sensors: Vec<RunningCommand>,
    correlator: RunningProgram,
    told: ToldLines,
    tap: Tap,
    folder: Folder,
}

/// What they leave.
pub(crate) struct Left {
    pub splitter: Value,
    pub sensors: Vec<Value>,
    pub times: Times,
    /// What each sensor wrote to its file of events: it handled that packet.
    pub handled: Vec<(u32, usize)>,
    pub alarms: Vec<TappedAlarm>,
    pub announced: Announced,
    pub wires: WireLosses,
}

impl Chain {
    /// Starts them, the last in the way first; returns when the correlator has heard both sensors.
    pub(crate) fn start(testbed: &Testbed, setting: &Setting<'_>) -> Result<Self> {
        let folder = Folder::new(testbed)?;
        let outputs = testbed.add_outputs(STAGES.len())?;
        let wire = testbed.add_inner_wire(CORRELATOR)?;
        let rules = write(&folder, "staged.rules", &plant::sensor_rules())?;
        let mut correlator = correlator(testbed, setting, &folder)?;
        let stdout = correlator.child().stdout.take();
        let told =
            ToldLines::read(stdout.ok_or_else(|| Error::failed("hear", "ringtap correlate", "it has no output"))?)?;
        let key: Key = KEY.parse().map_err(|error| Error::failed("make", "a key", error))?;
        let tap = Tap::start(testbed.receiver(), &wire.far, key)?;
        let mut sensors = Vec::new();
        for (number, output) in outputs.iter().enumerate() {
            sensors.push(sensor(testbed, setting, &folder, number, output, &wire, &rules)?);
        }
        told.wait_for_sensors(sensors.len(), HEARD_LIMIT)?;
        let splitter = Splitter::start(testbed, setting, &folder, outputs)?;
        Ok(Self { splitter, sensors, correlator, told, tap, folder })
    }

    /// Waits until both sensors have promised that nothing more comes of what has been sent, and the correlator has told what follows
    /// from it. A machine too slow for that leaves incidents untold.
    pub(crate) fn settle(&self) {
        const LIMIT: Duration = Duration::from_secs(10);
        let (sent_ns, until) = (clock::realtime_ns(), Instant::now() + LIMIT);
        while self.tap.certain_ns() < sent_ns && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.told.wait_for_silence(LIMIT);
    }

    /// Ends them in the order of the way.
    pub(crate) fn finish(self, testbed: &Testbed) -> Result<Left> {
        let (times, splitter, wires) = self.splitter.finish(testbed, &self.folder)?;
        let sensors = self.sensors.into_iter().map(RunningCommand::finish).collect::<Result<Vec<_>>>()?;
        self.correlator.interrupt()?;
        let announced = self.told.finish()?;
        let mut handled = Vec::new();
        for stage in STAGES {
            let path = self.folder.outside().join(format!("{}.json", stage.sensor));
            let lines =
                fs::read_to_string(&path).map_err(|error| Error::os("read", path.display().to_string(), &error))?;
            handled.extend(lines.lines().filter_map(seen_in));
        }
        Ok(Left { splitter, sensors, times, handled, alarms: self.tap.finish(), announced, wires })
    }
}

fn correlator(testbed: &Testbed, setting: &Setting<'_>, folder: &Folder) -> Result<RunningProgram> {
    let mut config = String::new();
    for stage in STAGES {
        config += &format!(
            "[[correlate.sensor]]\nid = \"{}\"\nkey-files = [\"staged.key\"]\nrules = [\"staged.rules\"]\n",
            stage.sensor
        );
    }
    write(folder, "staged.key", &format!("{KEY}\n"))?;
    let config = write(folder, "correlator.toml", &config)?;
    let rules = write(folder, "staged.yml", &plant::correlation_rules(setting.windows))?;
    let store = folder.inside().join("store").display().to_string();
    let mut command = ours::command(testbed, setting.ringtap, "correlate");
    command.args(["--sensors", &format!("{CORRELATOR}:{PORT}"), "--json"]);
    command.args(["--rules", &rules, "--config", &config, "--store", &store]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    testbed.receiver().start(command)
}

fn sensor(
    testbed: &Testbed,
    setting: &Setting<'_>,
    folder: &Folder,
    number: usize,
    output: &OutputWire,
    wire: &InnerWire,
    rules: &str,
) -> Result<RunningCommand> {
    let name = STAGES[number].sensor;
    let path = |name: &str| folder.inside().join(name).display().to_string();
    let mac = wire.far_mac.map(|byte| format!("{byte:02x}")).join(":");
    let [a, b, c, d] = CORRELATOR.octets();
    let from = Ipv4Addr::new(a, b, c, d + 1 + number as u8);
    let core = testbed.config().receiver_core.to_string();
    let mut command = ours::command(testbed, setting.ringtap, "sensor");
    command.args(["-i", &output.sink, "-S", rules, "--json", "--backend", "xdp", "--cpu", &core]);
    command.args(setting.options);
    command.args(["--events", "alert", "--eve", &path(&format!("{name}.json"))]);
    command.args(["--sensor-id", name, "--key", &path("staged.key"), "--epoch-file", &path(&format!("{name}.epoch"))]);
    command.args(["--alarm-via", &wire.near, "--alarm-to", &format!("{mac}@{CORRELATOR}:{PORT}")]);
    command.args(["--alarm-from", &format!("{from}:{PORT}")]);
    RunningCommand::start(testbed, "ringtap sensor", command, "watching")
}

/// Pair and stage of an alert.
fn seen_in(line: &str) -> Option<(u32, usize)> {
    let event: Value = serde_json::from_str(line).ok()?;
    let pair = pair_of(event["src_ip"].as_str()?.parse().ok()?)?;
    Some((pair, stage_of(event["alert"]["signature_id"].as_u64()?)?))
}

/// Writes a file that its owner alone can read; its name in the receiving host.
pub(crate) fn write(folder: &Folder, name: &str, text: &str) -> Result<String> {
    let path = folder.outside().join(name);
    let failed = |error| Error::os("write", name, &error);
    fs::write(&path, text).map_err(failed)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(folder.inside().join(name).display().to_string())
}

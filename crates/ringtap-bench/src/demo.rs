//! `ringtap demo`: the main job on real packets in a real kernel, in a private testbed, with the proof.
//!
//! Owns the demo's three acts and their order; [`staged`] is another demo. The testbed makes network and traffic, the core
//! receives; what is shown is in `report`, the ordinary receivers beside Ringtap are the testbed's. Where it is shown is the
//! caller's.

mod report;
pub mod staged;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringtap::burst::Packet;
use ringtap::calibrate::{Calibration, Plan, Wishes};
use ringtap::engine::Handler;
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap::record::{FinalCounts, InterfaceInfo, RecordConfig, Recorder, SpoolProducer};
use ringtap::source::StampClock;
use ringtap::transmit::Outbox;
use ringtap::{Error, Result};
use ringtap_testbed::peer::{PeerKind, PeerOptions, RunningPeer};
use ringtap_testbed::trial::{TrialConfig, TrialReport, TruthHandler};
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig, Topology, WireCounters};
use serde_json::Value;

use report::{Act, SideBySide};

/// The thesis' rate: 100 Mb/s of 64-byte packets (\[1] §7).
const MAIN_PPS: f64 = 148e3;
const MAIN_SECONDS: u64 = 10;
const RAMP_PPS: (f64, f64) = (1e3, 1e6);
const RAMP_SECONDS: u64 = 4;
const SIDE_PPS: f64 = 500e3;
const SIDE_SECONDS: u64 = 3;
const FRAME_BYTES: usize = 64;
/// Packets of the main run that are written to the capture file: enough to look at, not to fill a disk.
const RECORDED: u64 = 100_000;

/// What is asked of the demo.
#[derive(Debug, Clone)]
pub struct Options {
    /// Longest time from a packet's arrival to the handler (10 µs to 1 s).
    pub max_latency: Duration,
    /// Where the first packets of the main act are written.
    pub write: PathBuf,
}

/// A demo that has run.
#[derive(Debug)]
pub struct Outcome {
    main: Act,
    ramp: Act,
    side: Vec<SideBySide>,
    lasted: Duration,
}

impl Outcome {
    /// In the main act and in the ramp no packet was lost, and none is unaccounted for.
    pub fn is_proven(&self) -> bool {
        self.main.is_proven() && self.ramp.is_proven()
    }

    /// For machines: one object.
    pub fn to_json(&self) -> Value {
        report::json(&self.main, &self.ramp, &self.side, self.is_proven(), self.lasted)
    }
}

/// Runs the three acts. `say` gets their text as they end, `progress` lines about a calibration that has to be made.
///
/// # Errors
/// No private network can be made (it needs root), a calibration fails, or a part of an act does.
pub fn run(options: &Options, say: &mut dyn FnMut(&str), progress: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let began = Instant::now();
    let nic = Testbed::new(TestbedConfig::default())?;
    let core = nic.config().receiver_core;
    let calibration = Calibration::load_or_measure(core, progress)?;
    let wishes = Wishes { max_latency: options.max_latency, ..Wishes::default() };
    let plan = calibration.plan(&wishes)?;
    say(&report::opening(options.max_latency, &plan, nic.config()));

    let (main, recorded) = main_act(&nic, &plan, &options.write)?;
    let main = Act::new(&main, &plan);
    say(&main.to_text(&format!("{MAIN_SECONDS} s at {} kpps, topology nic", MAIN_PPS / 1e3)));
    say(&recorded);
    let ramp = ramp_act(&nic, &plan)?;
    let ramp = Act::new(&ramp, &plan);
    say(&ramp.to_text(&format!("ramp 1 kpps → 1 Mpps → 1 kpps in {} s, topology nic", 2 * RAMP_SECONDS)));
    drop(nic);
    let side = side_by_side(&plan)?;
    say(&report::side_text(&side, SIDE_PPS, SIDE_SECONDS));

    let outcome = Outcome { main, ramp, side, lasted: began.elapsed() };
    say(if outcome.is_proven() {
        "Proven: every packet sent in the first two acts was delivered, and none is unaccounted for."
    } else {
        "NOT proven: packets were lost or are unaccounted for; the lines above say where."
    });
    Ok(outcome)
}

/// The receiver every act uses.
fn receiver(plan: &Plan) -> ReceiverConfig {
    ReceiverConfig { backend: Backend::Xdp, take: true, ..plan.receiver("") }
}

/// Checks every packet and hands the first ones to the recorder.
struct Recording {
    truth: TruthHandler,
    spool: SpoolProducer,
    left: u64,
}

impl AsRef<TruthHandler> for Recording {
    fn as_ref(&self) -> &TruthHandler {
        &self.truth
    }
}

impl Handler for Recording {
    fn packet(&mut self, packet: &Packet<'_>, outbox: &mut Outbox<'_>) {
        self.truth.packet(packet, outbox);
        if self.left > 0 {
            self.left -= 1;
            self.spool.push(0, packet.arrival_ns, packet.wire_len, packet.data);
        }
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.spool.wake();
    }
}

/// Ten seconds at 148 kpps, the first packets to a file.
fn main_act(testbed: &Testbed, plan: &Plan, file: &Path) -> Result<(TrialReport, String)> {
    let record = RecordConfig {
        comment: Some("The first packets of `ringtap demo`, between two hosts that existed for a minute.".to_owned()),
        cpu: Some(testbed.config().generator_core),
        ..RecordConfig::new(file)
    };
    let interface = InterfaceInfo::ethernet(testbed.receiver().interface(), StampClock::Monotonic);
    let (recorder, mut spools) = Recorder::start(record, vec![interface])?;
    let spool = spools.pop().ok_or_else(|| Error::failed("record into", file.display().to_string(), "no spool"))?;
    let most_packets = (MAIN_PPS * MAIN_SECONDS as f64) as u64 + 1000;
    let profile = Profile::lasting(Pattern::Constant { pps: MAIN_PPS }, Duration::from_secs(MAIN_SECONDS));
    let config = TrialConfig {
        receiver: receiver(plan),
        traffic: GeneratorConfig::for_testbed(testbed, FRAME_BYTES, profile),
        most_packets,
        soaker: None,
    };
    let handler = Recording { truth: TruthHandler::new(most_packets), spool, left: RECORDED };
    let (report, handler) = testbed.trial_with(config, handler, |_| {})?;
    drop(handler);
    let counts = FinalCounts {
        interface: 0,
        received: report.ledger.offered,
        accepted_by_filter: Some(RECORDED),
        dropped_by_system: Some(report.ledger.lost()),
        delivered: Some(report.ledger.delivered),
        ledger: Some(report.ledger.to_string()),
        ..FinalCounts::default()
    };
    let summary = recorder.finish(vec![counts])?;
    if let Some(error) = summary.error {
        return Err(error);
    }
    Ok((report, format!("  file           {} packets in {}\n", summary.packets, file.display())))
}

/// Up to 1 Mpps and down again.
fn ramp_act(testbed: &Testbed, plan: &Plan) -> Result<TrialReport> {
    let (from_pps, to_pps) = RAMP_PPS;
    let each = Duration::from_secs(RAMP_SECONDS);
    let profile = Profile::lasting(Pattern::Ramp { from_pps, to_pps }, each)
        .then(Pattern::Ramp { from_pps: to_pps, to_pps: from_pps }, each);
    testbed.trial(TrialConfig {
        receiver: receiver(plan),
        most_packets: profile.expected_packets().unwrap_or(0.0) as u64 + 10_000,
        traffic: GeneratorConfig::for_testbed(testbed, FRAME_BYTES, profile),
        soaker: None,
    })
}

/// The same traffic into a plain UDP socket, into libpcap and into Ringtap, one after the other; the whole receive cost is
/// on one core.
fn side_by_side(plan: &Plan) -> Result<Vec<SideBySide>> {
    let testbed = Testbed::new(TestbedConfig { topology: Topology::Host, ..TestbedConfig::default() })?;
    let profile = Profile::lasting(Pattern::Constant { pps: SIDE_PPS }, Duration::from_secs(SIDE_SECONDS));
    let most_packets = (SIDE_PPS * SIDE_SECONDS as f64) as u64 + 10_000;
    let traffic = || GeneratorConfig::for_testbed(&testbed, FRAME_BYTES, profile.clone());
    let peer = |name: &'static str, kind: PeerKind| -> Result<SideBySide> {
        let options = PeerOptions { expected: most_packets, ..PeerOptions::default() };
        let mut peer = RunningPeer::start(&testbed, kind, &options)?;
        let napi = testbed.place_napi(true)?;
        let past = testbed.traffic_past(traffic(), None, || true)?;
        peer.settle()?;
        let report = peer.finish(past.generator.stamped)?;
        let device = WireCounters::read(&testbed)?.drops_since(&past.before);
        drop(napi);
        Ok(SideBySide {
            receiver: name,
            sent: past.generator.stamped,
            received: report.sequence.map_or(report.received, |sequence| sequence.received),
            lost_before_receiver: device.veth_queue,
            says_lost: report.claims_dropped,
            unaccounted: None,
            core_use_percent: past.core.used_percent,
            others_percent: past.core.others_percent,
            warning: past.core.warning(),
            sent_pps: past.generator.achieved_pps,
        })
    };
    let udp = peer("UDP socket, recv()", PeerKind::UdpSocket)?;
    let pcap = peer("libpcap", PeerKind::Libpcap)?;
    let ours =
        testbed.trial(TrialConfig { receiver: receiver(plan), traffic: traffic(), most_packets, soaker: None })?;
    let ours = SideBySide {
        receiver: "Ringtap",
        sent: ours.generator.stamped,
        received: ours.sequence.received,
        lost_before_receiver: ours.device.veth_queue,
        // What Ringtap itself reports: its own ledger, which includes what the wire dropped before it.
        says_lost: Some(ours.ledger.lost()),
        unaccounted: ours.truth.unaccounted(),
        core_use_percent: ours.core.used_percent,
        others_percent: ours.core.others_percent,
        warning: ours.core.warning(),
        sent_pps: ours.generator.achieved_pps,
    };
    Ok(vec![udp, pcap, ours])
}

//! A run of the study `cost`: an engine that does a known amount of work for each packet, and sends it on or not.
//!
//! Owns the handler and the way to a sample. What is sent on goes by the same rings as a forwarder's, and with as many system calls.

use std::time::{Duration, Instant};

use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::interface::Interface;
use ringtap::meters::EngineSnapshot;
use ringtap::napi::NapiPause;
use ringtap::receiver::{Devices, ReceiverConfig, RelayConfig, Relayed, RunningDevices};
use ringtap::transmit::{Outbox, TransmitRing};
use ringtap::{Error, Result, cycles};
use ringtap_testbed::trial::Woken;
use ringtap_testbed::{FarHost, GeneratorConfig, Pattern, Profile, Testbed};

use super::{EMPTY, PACKETS, Run, STUDY, TASK, TSC_HZ, WAKES};
use crate::book::{Claims, Sample};
use crate::definition::Use;
use crate::run::Benches;

/// Frames that wait for a system call at most, as with `ringtap forward`.
const BATCH: u32 = 64;
/// Slots of the receive ring: it hides no overload for longer than a few milliseconds.
const RECEIVE_SLOTS: u32 = 4096;
const TRANSMIT_SLOTS: u32 = 1024;

/// Works for so many turns, and sends on where it has a ring.
struct Worker {
    turns: u64,
    /// Where packets leave by; `None`: they are only received.
    ring: Option<TransmitRing>,
    waiting: u32,
    again: Option<Duration>,
    sent_on: u64,
    refused: u64,
    /// Keeps the look at each header from being left out.
    kinds: u64,
}

impl Worker {
    fn send_on(&mut self, data: &[u8]) {
        let Some(ring) = &mut self.ring else { return };
        let sent = if ring.lends() {
            ring.forward(data)
        } else {
            ring.send(|frame| {
                let len = data.len().min(frame.len());
                frame[..len].copy_from_slice(&data[..len]);
                len
            })
        };
        match sent {
            Some(_) => self.sent_on += 1,
            None => self.refused += 1,
        }
        self.waiting += 1;
        if self.waiting == BATCH {
            self.waiting = 0;
            ring.kick();
        }
    }
}

impl Handler for Worker {
    fn packet(&mut self, packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        self.kinds = self.kinds.wrapping_add(packet.data.get(12).copied().unwrap_or(0).into());
        cycles::spend(self.turns);
        self.send_on(packet.data);
    }

    fn cycle_end(&mut self, _outbox: &mut Outbox<'_>) {
        self.waiting = 0;
        self.again = self.ring.as_mut().and_then(TransmitRing::kick);
    }

    fn next_turn(&self) -> Option<Duration> {
        self.again
    }
}

/// Opens and starts it.
fn start(testbed: &Testbed, far: Option<&FarHost>, run: &Run, turns: u64) -> Result<RunningDevices<Worker>> {
    let host = testbed.receiver();
    let config = ReceiverConfig {
        backend: run.backend,
        take: true,
        ring_slots: RECEIVE_SLOTS,
        incoming_only: true,
        cpus: vec![testbed.config().receiver_core],
        // Every wait is the receiver's own.
        napi_pause: NapiPause::default(),
        ..ReceiverConfig::new(host.interface(), run.policy.clone())
    };
    host.run(|| {
        let (devices, ring) = match far {
            None => (Devices::open(vec![config])?, None),
            Some(far) => {
                let other = ReceiverConfig { interface: far.near().to_owned(), ..config.clone() };
                let relay = RelayConfig { both: false, transmit_slots: TRANSMIT_SLOTS };
                let Relayed { devices, rings, .. } = Devices::open_relay(config, other, &relay)?;
                let lent = rings.into_iter().next().and_then(|[there, _]| there);
                let copied = || {
                    let near = Interface::find_up(far.near())?;
                    TransmitRing::open_packet(&near.name, near.index, TRANSMIT_SLOTS, 2048)
                };
                (devices, Some(lent.map_or_else(copied, Ok)?))
            }
        };
        let worker = Worker { turns, ring, waiting: 0, again: None, sent_on: 0, refused: 0, kinds: 0 };
        devices.start(vec![worker])
    })?
}

/// What was counted at two moments while packets came.
#[derive(Default)]
struct Window {
    first: Option<(Instant, EngineSnapshot)>,
    last: Option<(Instant, EngineSnapshot)>,
}

impl Window {
    fn look(&mut self, counters: EngineSnapshot) {
        let look = Some((Instant::now(), counters));
        if self.first.is_none() { self.first = look } else { self.last = look }
    }

    /// Packets, wake-ups and empty looks, in a second; and how it woke.
    fn rates(&self) -> Option<([f64; 3], Woken)> {
        let ((begun, before), (ended, after)) = (self.first.as_ref()?, self.last.as_ref()?);
        let seconds = ended.duration_since(*begun).as_secs_f64();
        let woken = Woken::of(after).since(Woken::of(before));
        let grown =
            [after.packets - before.packets, woken.timer + woken.interrupt, after.empty_wakes - before.empty_wakes];
        (seconds > 0.0).then(|| (grown.map(|count| count as f64 / seconds), woken))
    }
}

pub(super) fn sample(benches: &Benches, run: &Run, round: u32, count: u64) -> Result<Sample> {
    let testbed = benches.of(run.topology);
    let far = match run.r#use {
        Use::Capture => None,
        Use::Forward => Some(FarHost::behind(testbed)?),
    };
    if let Some(far) = &far {
        far.place_napi(testbed.config().generator_core)?;
    }
    let load = benches.load();
    let turns = load.turns_of(run.task_cycles);
    let mut running = start(testbed, far.as_ref(), run, turns)?;
    let napi = testbed.place_napi(run.backend != ringtap::Backend::Xdp)?;
    // Longer than it has to be: the count ends it.
    let lasting = Duration::from_secs_f64(count as f64 / run.pps * 2.0 + 1.0);
    let profile = Profile::lasting(Pattern::Constant { pps: run.pps }, lasting);
    let traffic = GeneratorConfig::for_testbed(testbed, 64, profile).count(count);
    let mut window = Window::default();
    let past = testbed.traffic_past(traffic, None, || {
        window.look(running.counters());
        true
    })?;
    testbed.settle(|| running.counters().packets)?;
    let ledger = testbed.receiver().run(|| running.ledgers())?.into_iter().next().unwrap_or_default();
    let outcome = testbed.receiver().run(|| running.finish())??.into_iter().next();
    drop(napi);
    let Some(outcome) = outcome else {
        return Err(Error::failed("measure", run.receiver(), "it left no account"));
    };
    let ([packets, wakes, empty], woken) = window.rates().ok_or_else(|| {
        Error::failed("measure", run.receiver(), "the run was too short to be looked at twice").way_out("--run 400ms")
    })?;
    let handler = outcome.outcome.engines.into_iter().next().map(|engine| engine.handler);
    let (sent_on, refused) = handler.map_or((0, 0), |worker| (worker.sent_on, worker.refused));
    let (sent, received) = (past.generator.stamped, outcome.outcome.ledger.delivered);
    let task = load.cycles_of(turns);
    let counters = &outcome.outcome.counters;
    let named = [
        (TSC_HZ, load.tsc_hz),
        (TASK, task),
        (PACKETS, packets),
        (WAKES, wakes),
        (EMPTY, empty),
        ("sent_on", sent_on as f64),
        ("transmit_refused", refused as f64),
    ];
    Ok(Sample {
        study: STUDY.to_owned(),
        workload: run.workload.to_owned(),
        receiver: run.receiver(),
        beside: Some(run.wait.clone()),
        topology: run.topology,
        round,
        frame_bytes: 64,
        arrivals: "constant".to_owned(),
        offered_pps: run.pps,
        sent_pps: past.generator.achieved_pps,
        sent,
        received: received.min(sent),
        lost: sent.saturating_sub(received),
        claims: Claims { received: Some(received), dropped: Some(ledger.lost()) },
        unaccounted: outcome.outcome.ledger.unaccounted(),
        core_use_percent: past.core.used_percent,
        others_percent: past.core.others_percent,
        steal_percent: past.core.steal_percent,
        core_interrupts: past.core.interrupts_total(),
        seconds: past.core.interval_ns as f64 / 1e9,
        polls: Some(counters.cycles),
        timer_wakes: Some(woken.timer),
        interrupt_wakes: Some(woken.interrupt),
        load_ns: task / load.tsc_hz * 1e9,
        measures: named.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Sample::default()
    })
}

//! Engines at work: their counters, their common ledger, and an end that leaves no packet out of the accounts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::watch::{Departure, Watch};
use super::{Shared, lock};
use crate::calibrate::run::RunCheck;
use crate::engine::{End, Handler};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::ledger::{Cause, Ledger};
use crate::meters::{EngineMeters, EngineSnapshot};
use crate::realtime::{self, ThreadShare};
use crate::source::{Description, DeviceCounts};
use crate::steer::{Attach, Occupant, SteerCounters};
use crate::sys::event::Stop;

/// Engines at work. Dropping it ends them.
pub struct Running<H> {
    pub(super) interface: Interface,
    pub(super) descriptions: Vec<Description>,
    pub(super) shared: Shared,
    pub(super) stop: Arc<Stop>,
    pub(super) threads: Vec<JoinHandle<Finished<H>>>,
    pub(super) ringless: Ringless<H>,
    pub(super) has_panicked: Arc<AtomicBool>,
    /// Of all threads.
    pub(super) shares: Vec<ThreadShare>,
    pub(super) watch: Option<Watch>,
    /// What changed without ending anything.
    pub(super) news: Arc<Mutex<Vec<String>>>,
    pub(super) meters: Vec<Arc<EngineMeters>>,
    pub(super) check: Option<RunCheck>,
    pub(super) warnings: Vec<String>,
}

/// Engines without a ring. They go on until those of their own receiver that have one have come to their end.
pub(super) struct Ringless<H> {
    pub(super) threads: Vec<JoinHandle<Finished<H>>>,
    pub(super) stop: Arc<Stop>,
}

/// What one engine thread leaves.
pub struct Finished<H> {
    /// The handler, with what it gathered.
    pub handler: H,
    /// Why the engine ended.
    pub end: End,
    /// Why the device gave no more packets, where it said so.
    pub(super) failure: Option<String>,
    /// How long the engine ran, nanoseconds.
    pub(super) wall_ns: u64,
    /// Share of the time the thread was on a CPU (0–1).
    pub thread_share: f64,
}

/// What a receiver leaves.
pub struct Outcome<H> {
    /// The engines, in order of queues, and then those without one.
    pub engines: Vec<Finished<H>>,
    /// The whole ledger.
    pub ledger: Ledger,
    /// All engines' counters together.
    pub counters: EngineSnapshot,
    /// The driver's own counters that speak of loss.
    pub driver_counters: Vec<(String, u64)>,
    /// What could not be had or went wrong, one sentence each.
    pub warnings: Vec<String>,
    /// That packets came and none was seen, because another XDP program had them before; and whose it is.
    pub blind: Option<Error>,
}

impl<H: Handler + Send + 'static> Running<H> {
    /// What could not be had, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What each queue is.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// The interface.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Ends the engines when pulled; give it to signal handlers.
    pub fn stop_handle(&self) -> Arc<Stop> {
        Arc::clone(&self.stop)
    }

    /// Whether every engine with a source has come to its end by itself, or one of all panicked: nobody handles its flows then. Those
    /// that serve it beside another interface are that one's.
    pub fn is_finished(&self) -> bool {
        let have_ended = || !self.threads.is_empty() && self.threads.iter().all(JoinHandle::is_finished);
        self.has_panicked() || have_ended()
    }

    /// Whether the handler of one of its engines panicked.
    pub(super) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::Relaxed)
    }

    /// What happened to the interface that ended the engines, if anything did.
    pub fn departure(&self) -> Option<Departure> {
        self.watch.as_ref().and_then(Watch::departure)
    }

    /// As [`Running::departure`], for an interface that is known to have gone: what happened to it is heard a moment later.
    pub fn awaited_departure(&self) -> Departure {
        const PATIENCE: Duration = Duration::from_secs(1);
        let since = Instant::now();
        loop {
            match self.departure() {
                Some(departure) => return departure,
                None if self.watch.is_none() || since.elapsed() > PATIENCE => return Departure::Removed,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// All engines' counters together.
    pub fn counters(&self) -> EngineSnapshot {
        let snapshots: Vec<_> = self.meters.iter().map(|meters| meters.snapshot()).collect();
        EngineSnapshot::sum(&snapshots).unwrap_or_else(|| EngineMeters::default().snapshot())
    }

    /// CPU time of each engine's thread, in their order; `None` of one that has ended.
    pub fn engine_cpu(&self) -> Vec<Option<Duration>> {
        self.shares.iter().map(ThreadShare::cpu).collect()
    }

    /// The ledger as of now. While packets are on their way it is off by as many as are in the rings.
    ///
    /// Who asks once per interval also learns in the end of an engine that came up against RT throttling in one of them.
    pub fn ledger(&mut self) -> Ledger {
        self.shares.iter_mut().for_each(ThreadShare::look);
        let counters = self.counters();
        self.ledger_with(&counters)
    }

    /// The ledger, with what the engines counted.
    fn ledger_with(&mut self, counters: &EngineSnapshot) -> Ledger {
        let mut ledger = Ledger { cut: counters.cut, ..self.shared.ledger(counters.packets) };
        ledger.drop(Cause::LeftAtLimit, Some(counters.left_at_limit));
        ledger.drop(Cause::InvalidDescriptor, Some(counters.invalid_descriptors));
        ledger
    }

    /// Has the device stop feeding the engines, and these run empty.
    pub(super) fn begin_end(&self) {
        if let Some(steering) = &self.shared.steering {
            steering.shut();
        }
        self.stop.pull();
    }

    /// What changed since it was asked last, one line each: new queues that nobody reads, a setting that somebody else has
    /// changed.
    pub fn take_news(&mut self) -> Vec<String> {
        let lines = std::mem::take(&mut *lock(&self.news));
        self.warnings.extend(lines.iter().cloned());
        lines
    }

    /// Whether another interface's engines serve it.
    pub(super) fn is_carried(&self) -> bool {
        self.threads.is_empty() && !self.meters.is_empty()
    }

    /// Whether packets are taken out of the host's stack.
    pub(super) fn is_steered(&self) -> bool {
        self.shared.steering.is_some()
    }

    /// Whether a thread hears of what happens to the interface.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Ends the engines, with nothing left in the rings: first the device stops feeding them, then they run empty.
    ///
    /// # Errors
    /// An engine thread panicked.
    pub fn finish(mut self) -> Result<Outcome<H>> {
        self.begin_end();
        let panicked = Error::failed("run engine on", &self.interface.name, "the engine thread panicked")
            .way_out("report this as a bug");
        let join = |thread: JoinHandle<Finished<H>>| thread.join().map_err(|_| panicked.clone());
        // All of them, also behind one that panicked: none goes on when this is done.
        let mut joined: Vec<_> = self.threads.drain(..).map(join).collect();
        self.ringless.stop.pull();
        joined.extend(self.ringless.threads.drain(..).map(join));
        let engines = joined.into_iter().collect::<Result<Vec<_>>>()?;
        let snapshots: Vec<_> = self.meters.iter().map(|meters| meters.snapshot()).collect();
        let counters = EngineSnapshot::sum(&snapshots).unwrap_or_else(|| EngineMeters::default().snapshot());
        let ledger = self.ledger_with(&counters);
        let mut warnings = std::mem::take(&mut self.warnings);
        let name = &self.interface.name;
        let failures = engines.iter().filter_map(|engine| engine.failure.as_ref());
        warnings.extend(failures.map(|failure| format!("{name} gives no more packets: {failure}")));
        if counters.clock_steps > 0 {
            warnings.push(format!(
                "the wall clock was set while {name} was captured ({} times): packets of about then have no latency",
                counters.clock_steps
            ));
        }
        let shares = engines.iter().zip(&self.shares).map(|(engine, seen)| engine.thread_share.max(seen.greatest()));
        warnings.extend(shares.filter_map(realtime::throttling_warning));
        if let (Some(check), Some(first), Some(counted)) = (self.check.take(), engines.first(), snapshots.first()) {
            warnings.extend(check.end(counted, first.wall_ns, first.thread_share));
        }
        let blind = self.shared.blindness(&ledger).map(|((on, taker), packets)| {
            let cause = format!("nothing was seen, while {packets} packets came and met {taker}");
            Error::failed("capture from", &self.interface.name, cause).way_out(taker.way_out(on))
        });
        let driver_counters = self.shared.device.driver_counters();
        Ok(Outcome { engines, ledger, counters, driver_counters, warnings, blind })
    }
}

impl<H> Drop for Running<H> {
    fn drop(&mut self) {
        self.stop.pull();
        self.ringless.stop.pull();
        for thread in self.threads.drain(..).chain(self.ringless.threads.drain(..)) {
            // Its panic has been reported by itself, and we may be unwinding.
            let _ = thread.join();
        }
        self.watch = None;
    }
}

impl Shared {
    /// Whose XDP program had all packets before they reached our sockets, and how many came.
    fn blindness(&self, ledger: &Ledger) -> Option<(&(String, Occupant), u64)> {
        let packets = self.device.received().filter(|&packets| packets > 0)?;
        (ledger.delivered == 0 && ledger.lost() == 0).then_some((self.taker.as_ref()?, packets))
    }

    pub(super) fn ledger(&mut self, delivered: u64) -> Ledger {
        let mut ledger = Ledger { delivered, ..Ledger::default() };
        let device = self.device.look();
        let sockets: Vec<Option<DeviceCounts>> =
            lock(&self.counters).iter_mut().map(|counters| counters.read()).collect();
        let native = self.steering.as_ref().is_some_and(|steering| steering.attached() == Attach::Native);
        // AF_XDP's own sockets say nothing of what they were offered; one that does stands beside them.
        let steered_to = sockets.iter().flatten().filter(|drops| drops.offered.is_none());
        let refused = if native { steered_to.map(DeviceCounts::refused).sum() } else { 0 };
        let steered = self.steering.as_ref().and_then(|steering| steering.counters().ok());
        let given_to_host = match (&self.steering, &steered) {
            (Some(_), steered) => steered.as_ref().map(|counters| counters.passed + counters.no_socket),
            // What the kernel's filter keeps from a packet socket goes to the host all the same.
            (None, _) if self.filtered_before_offered => None,
            (None, _) => sockets.iter().map(|drops| drops.and_then(|drops| drops.offered)).sum(),
        };
        let device = self.device.drops(&device, refused, given_to_host);
        ledger.drop(Cause::Nic, device.and_then(|drops| drops.nic));
        ledger.drop(Cause::DriverQueue, device.and_then(|drops| drops.driver_queue));
        ledger.drop(Cause::Softnet, device.map(|drops| drops.softnet));
        for drops in &sockets {
            ledger.drop(Cause::Nic, drops.map(|drops| drops.nic));
            ledger.drop(Cause::RingFull, drops.map(|drops| drops.ring_full));
            ledger.drop(Cause::FillRingEmpty, drops.map(|drops| drops.fill_ring_empty));
            ledger.drop(Cause::Oversize, drops.map(|drops| drops.oversize));
        }
        let before_socket = device.and_then(|drops| Some(drops.nic? + drops.driver_queue? + drops.softnet));
        match &self.steering {
            Some(_) => {
                let count = |of: fn(&SteerCounters) -> u64| steered.as_ref().map(of);
                let sees_all = !self.has_new_queues.load(Ordering::Relaxed);
                let beside: u64 = sockets.iter().flatten().filter_map(|drops| drops.offered).sum();
                ledger.offered =
                    count(SteerCounters::seen).zip(before_socket).filter(|_| sees_all).map(|(a, b)| a + b + beside);
                ledger.filtered = count(|c| c.passed);
                ledger.drop(Cause::NoSocket, count(|c| c.no_socket).filter(|_| sees_all));
            }
            None => {
                let offered: Option<u64> = sockets.iter().map(|drops| drops.and_then(|drops| drops.offered)).sum();
                ledger.offered = offered.zip(before_socket).map(|(a, b)| a + b);
                let leaves_out = lock(&self.counters).iter().any(|counters| counters.leaves_out());
                ledger.filtered = if leaves_out || self.filtered_before_offered { None } else { Some(0) };
                ledger.filtered_before_offered = self.filtered_before_offered;
            }
        }
        ledger
    }
}

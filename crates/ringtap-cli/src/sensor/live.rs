//! The sensor on an interface: one engine thread per queue with a detector of its own, the output thread, signals.
//!
//! Owns the order of starting and ending, and the reload of rules: a program is built here, aside, and each engine swaps
//! it in between two cycles; what it used before comes back here to be dropped.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringtap::arrival::ArrivalClock;
use ringtap::calibrate::{Calibration, Wishes};
use ringtap::histogram::Histogram;
use ringtap::interface::{Interface, InterfaceState};
use ringtap::ledger::Cause;
use ringtap::pacer::{Hybrid, Policy, Rung};
use ringtap::receiver::{self, Departure, Receiver, ReceiverConfig, Running};
use ringtap::source::StampClock;
use ringtap::sys::keeper::Keeper;
use ringtap::sys::{clock, sched};
use ringtap::{Error, Result};
use ringtap_alarm::Catalogue;
use ringtap_alarm::eve::Writer;
use ringtap_alarm::output::{Counts, Producer, Queue};
use ringtap_detect::rules::{BitNames, Classes};
use ringtap_detect::{Detector, Program, Spare};
use ringtap_wire::{LinkType, UdpFrame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::config::Config;
use super::handler::{Finds, NEVER, Sensor, Shedding, Swap};
use super::output::{Wishes as OutputWishes, Writing, wanted, wants};
use super::pages::Tables;
use super::replay::conclude;
use super::rules::{self, Loaded, Used};
use super::summary::{Summary, records};
use super::{Args, Backend, Event};
use crate::capture::user::Successor;
use crate::sandbox::{self, Needs};

/// How often to look at what rings no bell: the interface, an engine's end, programs that came back.
const LOOK: Duration = Duration::from_millis(100);
/// Stack of a thread that does little: all of the process's memory is locked, what nobody uses too.
pub(super) const HELPER_STACK_BYTES: usize = 128 << 10;
/// Transmit slots of each queue, when alarms leave that way.
const TRANSMIT_SLOTS: u32 = 512;

/// Signals so far.
#[derive(Default)]
struct Told {
    stops: AtomicU32,
    reloads: AtomicU32,
}

/// One engine's end for programs.
struct Exchange {
    to: rtrb::Producer<Swap>,
    back: rtrb::Consumer<Swap>,
    sent: Option<Arc<Program>>,
}

/// Runs the sensor on an interface.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    // The first thing there is and the last that goes: it puts back what others no longer may.
    let _keeper = Keeper::start().map_err(|error| Error::os("start", "the keeper of settings", &error))?;
    let told = listen()?;
    let config = Config::of(args)?;
    let loaded = rules::load(args, &config.variables, BitNames::default())?;
    rules::tell(&loaded);
    let used = Used::of(&loaded);
    let Loaded { program, classes, mut bits, precedence, .. } = loaded;
    let successor = args.user.as_deref().map(Successor::find).transpose()?;
    let interface = Interface::find_up(args.interface.as_deref().unwrap_or_default())?;
    let number = interface.link_type().unwrap_or(u16::MAX);
    let link = LinkType::from_number(number.into()).ok_or_else(|| {
        Error::failed(
            "watch",
            &interface.name,
            format!("frames of hardware type {} are not supported", interface.hardware_type),
        )
        .way_out("watch where these packets are Ethernet or IP")
    })?;
    let frame = alarm_frame(args, &interface)?;
    let mut warnings = Vec::new();
    let receiver = Receiver::open(receiver_config(args, &interface, frame.is_some(), &mut warnings)?)?;
    let engines = receiver.descriptions().len();
    let stamp_clock = receiver.stamp_clock().unwrap_or(StampClock::Realtime);

    let mut catalogue = Catalogue::default();
    catalogue.add(program.rules(), &classes);
    let writer = Writer {
        interface: Some(interface.name.clone()),
        flow_salt: clock::realtime_ns(),
        catalogue: catalogue.clone(),
        ..Writer::default()
    };
    let (counts, wishes) = (Arc::new(Counts::default()), Arc::new(OutputWishes::default()));
    let open = || {
        let writing = Writing::new(args, &config, writer, Arc::clone(&counts), Arc::clone(&wishes))?;
        Queue::start(engines, args.queue as usize, writing)
    };
    let (queue, ends) = match &successor {
        Some(successor) => successor.with_file_rights(open)?,
        None => open()?,
    };
    let lost: Vec<Arc<AtomicU64>> = ends.iter().map(Producer::lost).collect();
    let program = Arc::new(program);
    let (sequence, latency) =
        (Arc::new(AtomicU64::new(0)), Vec::from_iter((0..engines).map(|_| Arc::<Histogram>::default())));
    let (mut exchanges, mut handlers, mut tables) = (Vec::new(), Vec::new(), Tables::default());
    for (mut end, latency) in ends.into_iter().zip(&latency) {
        end.show_spare(&mut tables);
        let (to, incoming) = rtrb::RingBuffer::new(1);
        let (outgoing, back) = rtrb::RingBuffer::new(1);
        exchanges.push(Exchange { to, back, sent: None });
        let mut detector = Detector::new(Arc::clone(&program), config.limits.clone());
        detector.show_spare(&mut tables);
        handlers.push(Sensor {
            detector,
            link,
            finds: Finds {
                queue: end,
                waits: false,
                wanted: wanted(args, &config),
                frame,
                sequence: Arc::clone(&sequence),
                latency: Arc::clone(latency),
                stamp_clock,
                arrivals: ArrivalClock::new(stamp_clock),
                packet: 0,
                made: 0,
            },
            shedding: Shedding {
                precedence: precedence.clone(),
                // A packet waits up to one period in any case, and the ring holds several at the peak rate.
                limit_ns: 2 * args.max_latency.as_nanos() as u64,
                countdown: 0,
                active: false,
            },
            to_realtime_ns: if stamp_clock == StampClock::Monotonic { clock::monotonic_to_realtime_ns() } else { 0 },
            last_ns: 0,
            stats_every_ns: if wants(args, Event::Stats) { args.stats.as_nanos() as u64 } else { NEVER },
            stats_at_ns: clock::realtime_ns() + args.stats.as_nanos() as u64,
            swaps: Some((incoming, outgoing)),
            in_cycle: false,
        });
    }
    let tables = tables.watched()?;
    let mut handlers = handlers.into_iter();
    // One handler was made for each source, and start asks for each once, in this order.
    let mut running =
        receiver.start(|_, _| handlers.next().unwrap_or_else(|| unreachable!("a source without a handler")))?;
    warnings.extend(sandbox::enter(args.no_sandbox, &needs(args, true, successor.as_ref()))?);
    warnings.extend(running.warnings().iter().cloned());
    for warning in &warnings {
        eprintln!("ringtap: warning: {warning}");
    }
    let backend = running.descriptions().first().map_or("", |source| source.backend);
    eprintln!("ringtap: watching {} ({backend}) with {} rules", interface.name, program.rules().len());

    let started = Instant::now();
    let mut reloads = Reloads { done: 0, catalogue, wishes, used };
    let ending = supervise(args, &told, &config, &mut running, &mut exchanges, &mut bits, &mut reloads, started);
    let elapsed_s = started.elapsed().as_secs_f64();
    let departure = matches!(ending, "interface_gone" | "interface_used").then(|| running.awaited_departure());
    let mut outcome = running.finish()?;
    let late_bytes = tables.finish();
    let mut counters = Vec::new();
    let (mut profile, mut made) = (None, 0);
    for engine in &mut outcome.engines {
        engine.handler.finish();
        made += engine.handler.finds.made;
        counters.push(engine.handler.detector.counters());
        let detector = &engine.handler.detector;
        if args.profile && profile.is_none() {
            profile = Some((Arc::clone(detector.program()), detector.profile().to_vec()));
        }
    }
    outcome.engines.clear();
    // The engine gave these to the sensor, which had no time for them.
    let shed: u64 = counters.iter().map(|counters| counters.shed).sum();
    if !args.priority_rules.is_empty() {
        outcome.ledger.undeliver(Cause::Shed, shed);
    }
    let mut writing = queue.finish()?;
    writing.finish();
    warnings.extend(outcome.warnings.iter().filter(|warning| !warnings.contains(warning)).cloned().collect::<Vec<_>>());
    let detection = latency.iter().map(|latency| latency.snapshot()).reduce(|all, one| all.merged(&one));
    let meters = outcome.counters.clone();
    let summary = Summary {
        object: interface.name.clone(),
        ending,
        elapsed_s,
        rules: reloads.used,
        counters,
        cut: outcome.ledger.cut,
        ledger: Some(outcome.ledger),
        records: records(made, writing.taken, lost.iter().map(|lost| lost.load(Ordering::Relaxed)).sum()),
        alarms_in_ring: meters.transmitted,
        alarms_refused: meters.transmit_refused,
        outputs: counts,
        latency_us: Some(meters.latency.quantiles_us()),
        detection,
        reloads: reloads.done,
        late_bytes,
        warnings,
        profile,
    };
    conclude(args, &summary);
    if let Some(end) = departure {
        return Err(Error::failed("watch", &interface.name, &end).way_out(end.way_out()));
    }
    match ending {
        "engine_failed" => {
            Err(Error::failed("watch", &interface.name, "an engine ended").way_out("report this as a bug"))
        }
        _ => outcome.blind.map_or(Ok(ExitCode::SUCCESS), Err),
    }
}

/// Rules are read again on SIGHUP; files of EVE are begun anew.
pub(super) fn needs<'a>(args: &'a Args, rings: bool, user: Option<&'a Successor>) -> Needs<'a> {
    let named = |paths: &'a [PathBuf]| paths.iter().map(PathBuf::as_path);
    let read = named(&args.rules).chain(named(&args.priority_rules)).chain(named(&args.replay));
    let read = read.chain(args.classification.as_deref()).chain(args.config.as_deref());
    let is_file = |path: &&Path| *path != Path::new("-");
    let written = args.eve.as_deref().filter(is_file).into_iter().chain(args.eve_socket.as_deref());
    Needs { rings, reads: read.collect(), writes: written.collect(), user, ..Needs::default() }
}

/// The frame around alarm datagrams.
fn alarm_frame(args: &Args, interface: &Interface) -> Result<Option<UdpFrame>> {
    let (Some(to), Some(from)) = (args.alarm_to, args.alarm_from) else { return Ok(None) };
    if to.address.is_ipv4() != from.is_ipv4() {
        return Err(Error::usage("send alarms to", to.address.to_string(), "--alarm-from is of another IP version"));
    }
    let object = format!("/sys/class/net/{}/address", interface.name);
    let text = std::fs::read_to_string(&object).map_err(|error| Error::os("read", &object, &error))?;
    let bytes: Option<Vec<u8>> = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let source_mac = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        Error::failed("send alarms from", &interface.name, "it has no Ethernet address").way_out("use --syslog instead")
    })?;
    Ok(Some(UdpFrame {
        source_mac,
        destination_mac: to.mac,
        vlan: None,
        source: from,
        destination: to.address,
        hop_limit: 64,
        traffic_class: 0,
        identification: 0,
    }))
}

fn receiver_config(
    args: &Args,
    interface: &Interface,
    sends: bool,
    warnings: &mut Vec<String>,
) -> Result<ReceiverConfig> {
    let cpus = args.cpu.as_ref().map(|list| list.0.clone()).unwrap_or_default();
    let cpu = cpus.first().copied().or_else(|| sched::allowed_cpus().last().copied()).unwrap_or(0);
    let calibration = Calibration::load_or_measure(cpu, &mut |text| eprintln!("ringtap: {text}"))?;
    let napi_pace_ns = (args.backend == Backend::Packet).then_some(0);
    let plan = calibration.plan(&Wishes { max_latency: args.max_latency, peak_pps: args.peak_rate, napi_pace_ns })?;
    if plan.peak_share > 1.0 {
        warnings.push(format!(
            "at the peak rate one core is not enough even without rules: {:.0} packets/s",
            plan.no_loss_bound_pps
        ));
    }
    let policy = if plan.threshold_pps.is_infinite() || plan.period_ns == 0 {
        Policy::Interrupt
    } else {
        Policy::Hybrid(Hybrid::with_rungs(vec![Rung { threshold_pps: plan.threshold_pps, period_ns: plan.period_ns }]))
    };
    let mut config = ReceiverConfig::new(&interface.name, policy);
    config.backend = match args.backend {
        Backend::Auto => receiver::Backend::Auto,
        Backend::Xdp => receiver::Backend::Xdp,
        Backend::Packet => receiver::Backend::Packet,
    };
    config.flows_together = true;
    config.tell = |line| eprintln!("ringtap: {line}");
    (config.ring_slots, config.packed_slots) = (plan.ring_slots, Some(plan.packed_slots));
    config.transmit_slots = if sends { TRANSMIT_SLOTS } else { 0 };
    config.incoming_only = interface.is_loopback();
    config.realtime.priority = args.priority;
    config.cpus = cpus;
    config.queues = args.queues.0.clone();
    config.napi_pause = plan.napi_pause;
    Ok(config)
}

fn listen() -> Result<Arc<Told>> {
    let failed = |error: std::io::Error| Error::os("listen for", "signals", &error);
    let told = Arc::new(Told::default());
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let (ear, main) = (Arc::clone(&told), std::thread::current());
    std::thread::Builder::new()
        .name("ringtap-signals".to_owned())
        .stack_size(HELPER_STACK_BYTES)
        .spawn(move || {
            for signal in &mut signals {
                if signal == SIGHUP {
                    ear.reloads.fetch_add(1, Ordering::Relaxed);
                } else if ear.stops.fetch_add(1, Ordering::Relaxed) > 0 {
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                main.unpark();
            }
        })
        .map_err(failed)?;
    Ok(told)
}

/// What reloads leave.
struct Reloads {
    done: u64,
    catalogue: Catalogue,
    wishes: Arc<OutputWishes>,
    used: Used,
}

/// Watches until the end, and says why it came.
#[expect(clippy::too_many_arguments, reason = "the main thread's whole state, used once")]
fn supervise(
    args: &Args,
    told: &Told,
    config: &Config,
    running: &mut Running<Sensor>,
    exchanges: &mut [Exchange],
    bits: &mut BitNames,
    reloads: &mut Reloads,
    started: Instant,
) -> &'static str {
    let mut seen = 0;
    loop {
        if told.stops.load(Ordering::Relaxed) > 0 {
            return "signal";
        }
        if args.duration.is_some_and(|duration| started.elapsed() >= duration) {
            return "duration";
        }
        if running.is_finished() {
            return match running.departure() {
                Some(Departure::Used(_)) => "interface_used",
                Some(_) => "interface_gone",
                None if running.interface().state() == InterfaceState::Gone => "interface_gone",
                None => "engine_failed",
            };
        }
        for exchange in exchanges.iter_mut() {
            take_back(exchange);
        }
        let asked = told.reloads.load(Ordering::Relaxed);
        let ready = exchanges.iter().all(|exchange| exchange.sent.is_none());
        if asked != seen && ready {
            seen = asked;
            reloads.wishes.reopen.store(true, Ordering::Relaxed);
            let in_use = reloads.used.rules - reloads.used.idle;
            let loaded = rules::load(args, &config.variables, bits.clone());
            match loaded.and_then(|loaded| loaded.check_against(args, in_use)) {
                Ok(loaded) => hand_out(loaded, exchanges, bits, reloads),
                Err(error) => eprintln!("ringtap: the rules in use stay: {error}"),
            }
        }
        let left = args.duration.map_or(LOOK, |duration| duration.saturating_sub(started.elapsed()).min(LOOK));
        std::thread::park_timeout(left.max(Duration::from_millis(1)));
    }
}

/// A program for each engine.
fn hand_out(loaded: Loaded, exchanges: &mut [Exchange], bits: &mut BitNames, reloads: &mut Reloads) {
    rules::tell(&loaded);
    reloads.used = Used::of(&loaded);
    let Loaded { program, classes, bits: named, precedence, .. } = loaded;
    *bits = named;
    let program = Arc::new(program);
    tell_catalogue(reloads, &program, &classes);
    for exchange in exchanges {
        exchange.sent = Some(Arc::clone(&program));
        // The queue of one is empty: the last program has come back.
        if exchange.to.push((Arc::clone(&program), Spare::new(&program), precedence.clone())).is_err() {
            exchange.sent = None;
        }
    }
    eprintln!("ringtap: {} rules loaded", program.rules().len());
    reloads.done += 1;
}

fn tell_catalogue(reloads: &mut Reloads, program: &Program, classes: &Classes) {
    reloads.catalogue.add(program.rules(), classes);
    if let Ok(mut wish) = reloads.wishes.catalogue.lock() {
        *wish = Some(reloads.catalogue.clone());
    }
}

/// Drops what an engine used before.
fn take_back(exchange: &mut Exchange) {
    if let Ok((program, ..)) = exchange.back.pop()
        && exchange.sent.take().is_some_and(|sent| Arc::ptr_eq(&sent, &program))
    {
        eprintln!("ringtap: the rules in use stay: the new ones name more bits than there is room for");
    }
}

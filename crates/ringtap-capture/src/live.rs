//! A capture from one or several interfaces, from opening to the summary.
//!
//! Owns the order: what can fail without leaving a trace comes first, files are created only when packets can be taken,
//! and privileges go last. At the end the engines stop first, then the file is completed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringtap::interface::{Interface, InterfaceState};
use ringtap::ledger::Ledger;
use ringtap::meters::{EngineMeters, EngineSnapshot};
use ringtap::pacer::Policy;
use ringtap::receiver::{
    Backend, Device, DeviceEnd, DeviceOutcome, Devices, Ended, PortOutcome, ReceiverConfig, RunningDevices,
};
use ringtap::record::{InterfaceInfo, Recent, RecordSummary, Recorder, SpoolProducer};
use ringtap::source::StampClock;
use ringtap::{Error, Result};
use ringtap_run::filter::{Filter, Filtered};
use ringtap_run::live::{Configured, Live};
use ringtap_run::process::Process;
use ringtap_run::units::shown_rate;
use ringtap_web::View;

use crate::Capture;
use crate::accounts::{Counters, Unwritten, final_counts};
use crate::advice::{Asked, advice};
use crate::handler::{Keep, Limit, PanicWatch, Whole};
use crate::last::{Asked as WriteAsked, Last};
use crate::metrics::Shown;
use crate::object::Facts;
use crate::report::{Reporter, Streams};
use crate::summary::{CpuUse, DeviceSummary, Steal, Summary, policy_words};
use crate::supervise::{Ending, EngineEvents, Job, Supervision};

impl Job for RunningDevices<Whole> {
    fn is_live(&self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        self.have_ended()
    }

    fn counters(&self) -> EngineSnapshot {
        RunningDevices::counters(self)
    }

    fn ledgers(&mut self) -> Vec<Ledger> {
        RunningDevices::ledgers(self)
    }

    fn engine_cpu(&self) -> Vec<Option<Duration>> {
        RunningDevices::engine_cpu(self)
    }

    fn take_ended(&mut self) -> Vec<Ended> {
        RunningDevices::take_ended(self)
    }

    fn take_news(&mut self) -> Vec<String> {
        RunningDevices::take_news(self)
    }

    fn states(&self) -> Vec<(&str, InterfaceState)> {
        RunningDevices::states(self)
    }
}

/// Runs a capture from interfaces.
pub(crate) fn run(capture: &Capture, lives: &[Live], process: &Process, streams: &mut Streams) -> Result<crate::Ended> {
    let lives: Vec<Live> = lives.iter().map(|live| Live { kept_bytes: capture.kept_bytes(), ..live.clone() }).collect();
    let places = capture.places.bind()?;
    let Opened { devices, kinds, policy, steal, mut warnings } = open(capture, &lives)?;
    let mut recording = process.with_file_rights(|| start_recording(capture, &devices, &kinds))?;
    let events = EngineEvents::new(process);
    let mut counters = Counters::default();
    let handlers = handlers(capture, &devices, &kinds, &mut recording, &mut counters, &events);
    let mut running = process.start(devices, handlers, capture.needs(true), &mut warnings)?;
    let started = Instant::now();
    let facts = Facts {
        object: running.names().join(", "),
        interfaces: running.names().into_iter().map(str::to_owned).collect(),
        policy,
        max_latency: lives.first().map(|live| live.max_latency),
        sources: running.descriptions().to_vec(),
        filter: kinds.first().and_then(|kind| Some(kind.filter.as_ref()?.text().to_owned())),
    };
    let shown = (!capture.places.is_empty()).then(|| Arc::new(Shown::new(&facts.interfaces)));
    if let Some(shown) = &shown {
        places.start(Arc::clone(shown) as Arc<dyn View>)?;
    }
    let mut reporter = Reporter::new(capture, &facts, streams, "timer");
    say_start(capture, &facts, &mut warnings, &mut reporter);
    let (recorder, asked) = (recording.recorder.as_ref(), recording.asked.as_deref());
    let watch = Supervision {
        events: &events,
        duration: capture.duration,
        counters: &counters,
        recorder,
        asked,
        shown: shown.as_deref(),
    };
    let (ending, last) = watch.run(&mut running, &mut reporter);
    let elapsed = started.elapsed();
    reporter.clear();
    let Finished { outcomes, unwritten, record } =
        finish(running, recording.recorder, &counters, capture.keep_last.is_some_and(|keep| keep.at_end))?;
    for outcome in &outcomes {
        let news = outcome.outcome.warnings.iter().filter(|warning| !warnings.contains(warning));
        let news: Vec<String> = news.cloned().collect();
        warnings.extend(news);
    }
    // The last packets may have failed to be written after the engines ended.
    let core = outcomes.iter().map(|device| device.outcome.ledger.clone()).collect();
    let (ledger, ledgers) = counters.account(core, unwritten.as_ref());
    let error = error_of(ending, last.as_ref(), record.as_ref(), &outcomes);
    let engines = outcomes.iter().flat_map(|device| &device.outcome.engines);
    let shares: Vec<f64> = engines.map(|engine| engine.thread_share).collect();
    let cpus = lives.first().map_or_else(Vec::new, |live| cpu_use(live, &shares, &steal, elapsed));
    let spool_bytes = capture.record.as_ref().map_or(0, |record| record.spool_bytes as u64);
    let peak_pps = lives.first().map_or(0.0, |live| live.peak_pps);
    let advice = advice(&ledger, &facts, &cpus, Asked { peak_pps, spool_bytes });
    let error = error.or_else(|| capture.loss(&ledger, &facts.object));
    let devices = ledgers.into_iter().zip(&outcomes).enumerate();
    let summary = Summary {
        ending,
        elapsed,
        ledger,
        tally: counters.tally(),
        in_memory: counters.held(),
        devices: devices
            .map(|(number, (ledger, device))| DeviceSummary {
                name: device.name.clone(),
                ending: device.end.as_ref().map(Ending::of),
                tally: counters.tally_of(number),
                ledger,
                ports: port_ledgers(&device.ports, &counters, number, unwritten.as_ref()),
            })
            .collect(),
        counters: all_counters(&outcomes),
        cpus,
        driver_counters: driver_counters(&outcomes),
        facts,
        record,
        advice,
        warnings,
        error: error.as_ref().map(Error::to_string),
    };
    Ok(crate::Ended { summary, error })
}

/// What is captured and how, and what is to be said before.
fn say_start(capture: &Capture, facts: &Facts, warnings: &mut Vec<String>, reporter: &mut Reporter<'_>) {
    served_at(capture, warnings).iter().for_each(|note| reporter.note(note));
    for warning in &*warnings {
        reporter.note(&format!("warning: {warning}"));
    }
    let manner = facts.policy.as_ref().map_or_else(String::new, policy_words);
    reporter.note(&format!("capturing from {}, {manner}", with_backends(facts)));
}

/// Where clients get packets, if they do; and a warning, if others than this host's can.
fn served_at(capture: &Capture, warnings: &mut Vec<String>) -> Option<String> {
    let address = capture.record.as_ref()?.serve?;
    if !address.ip().is_loopback() {
        warnings.push(format!("packets are served at {address} as they are: whoever reaches it sees them"));
    }
    Some(format!(
        "serving TCP clients at {address}, as pcap with stamps in nanoseconds; Wireshark: wireshark -k -i TCP@{address}"
    ))
}

/// `eth1 (xdp)`, one after the other.
fn with_backends(facts: &Facts) -> String {
    let backend = |name: &String| facts.sources.iter().find(|source| &source.object == name).map(|it| it.backend);
    let first = facts.sources.first().map_or("", |source| source.backend);
    let each = facts.interfaces.iter().map(|name| format!("{name} ({})", backend(name).unwrap_or(first)));
    each.collect::<Vec<_>>().join(", ")
}

/// What became of the packets of each port of a bond, so that they add up to the bond's.
fn port_ledgers(
    ports: &[PortOutcome],
    counters: &Counters,
    device: usize,
    lost: Option<&Unwritten>,
) -> Vec<(String, Ledger)> {
    let mut first = counters.engines_of(device).start;
    let of = |port: &PortOutcome| {
        let engines = first..first + port.engines;
        first = engines.end;
        (port.name.clone(), counters.account_of(port.ledger.clone(), &engines, lost))
    };
    ports.iter().map(of).collect()
}

fn all_counters(outcomes: &[DeviceOutcome<Whole>]) -> EngineSnapshot {
    let counters = EngineSnapshot::sum(outcomes.iter().map(|device| &device.outcome.counters));
    counters.unwrap_or_else(|| EngineMeters::default().snapshot())
}

/// With the device's name in front where there are several.
fn driver_counters(outcomes: &[DeviceOutcome<Whole>]) -> Vec<(String, u64)> {
    let of = |device: &DeviceOutcome<Whole>| {
        let prefix = if outcomes.len() > 1 { format!("{} ", device.name) } else { String::new() };
        let named = |(name, value): &(String, u64)| (format!("{prefix}{name}"), *value);
        device.outcome.driver_counters.iter().map(named).collect::<Vec<_>>()
    };
    outcomes.iter().flat_map(of).collect()
}

/// Interfaces from which packets are kept in the rings.
struct Opened {
    devices: Devices,
    /// Of each device.
    kinds: Vec<Kind>,
    policy: Option<Policy>,
    steal: Steal,
    warnings: Vec<String>,
}

/// What a device's packets are, and which of them are kept.
struct Kind {
    link_type: u16,
    filter: Option<Filter>,
}

fn open(capture: &Capture, lives: &[Live]) -> Result<Opened> {
    let (mut configs, mut filters, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for live in lives {
        let (config, filter) = configure(capture, live, &mut warnings)?;
        configs.push(config);
        filters.push(filter);
    }
    let policy = configs.first().map(|config| config.policy.clone());
    let steal = Steal::start();
    let devices = Devices::open(configs)?;
    let kind = |(device, filter): (&Device, Option<Option<Filter>>)| {
        let link_type = link_type(device.link_type(), device.interface())?;
        let filter = filter.map_or_else(|| capture.compile_filter(link_type), Ok)?;
        Ok(Kind { link_type, filter })
    };
    let kinds = devices.iter().zip(filters).map(kind).collect::<Result<Vec<_>>>()?;
    Ok(Opened { devices, kinds, policy, steal, warnings })
}

/// What is asked of one device's receiver, and its filter; the latter only when it is open where its packets are not known before.
#[allow(clippy::option_option)] // Not known yet, or none.
fn configure(
    capture: &Capture,
    live: &Live,
    warnings: &mut Vec<String>,
) -> Result<(ReceiverConfig, Option<Option<Filter>>)> {
    let interface = live.find_interface().map_err(|error| {
        let is_any = live.interface == "any" && live.backend != Backend::Vfio;
        if is_any { any_is_libpcaps() } else { error }
    })?;
    let known = (live.backend != Backend::Pcap).then(|| link_type(interface.link_type(), &interface)).transpose()?;
    let filter = known.map(|link_type| capture.compile_filter(link_type)).transpose()?;
    let Configured { config, plan } = live.configure(&interface, filter.as_ref().and_then(Option::as_ref))?;
    if let Some(most_pps) = plan.and_then(|plan| plan.shortfall_pps()) {
        let warning = format!(
            "at {} one core is not enough: losses begin at about {}",
            shown_rate(live.peak_pps),
            shown_rate(most_pps)
        );
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    if live.take && live.backend == Backend::Auto && interface.host_use.is_some() && !config.rules_are_exact {
        warnings.push(format!(
            "this filter can't be decided in the driver, so nothing is taken from the host: packets of {} are copied (see --take)",
            interface.name
        ));
    }
    Ok((config, filter))
}

/// What engines and writer left.
struct Finished {
    outcomes: Vec<DeviceOutcome<Whole>>,
    unwritten: Option<Unwritten>,
    record: Option<RecordSummary>,
}

/// Ends the engines, then completes the file, which is whole also where an engine's own counts are lost with it.
fn finish(
    running: RunningDevices<Whole>,
    recorder: Option<Recorder>,
    counters: &Counters,
    writes_all: bool,
) -> Result<Finished> {
    let mut outcomes = running.finish();
    if let Ok(outcomes) = &mut outcomes {
        let engines = outcomes.iter_mut().flat_map(|device| &mut device.outcome.engines);
        engines.for_each(|engine| engine.handler.inner_mut().finish_last(writes_all));
    }
    let unwritten = recorder.as_ref().map(Unwritten::of);
    let core = outcomes.as_ref().ok().map(|all| all.iter().map(|device| device.outcome.ledger.clone()).collect());
    let counts = core.map_or_else(Vec::new, |core| final_counts(&counters.account(core, unwritten.as_ref()).1));
    let record = recorder.map(|recorder| recorder.finish(counts)).transpose()?;
    let unwritten = unwritten.zip(record.as_ref()).map(|(unwritten, record)| unwritten.finally(record));
    Ok(Finished { outcomes: outcomes?, unwritten, record })
}

/// What went wrong, if anything did.
fn error_of(
    ending: Ending,
    last: Option<&Ended>,
    record: Option<&RecordSummary>,
    outcomes: &[DeviceOutcome<Whole>],
) -> Option<Error> {
    let end = |device: &str, end: &DeviceEnd| end.error("capture from", device);
    // Who left while others went on was told then; who stopped answering should not have.
    let failed = || outcomes.iter().find(|device| device.end == Some(DeviceEnd::Failed));
    match (ending, last) {
        (_, Some(last)) => Some(end(&last.device, &last.end)),
        (Ending::ReaderGone, _) => None,
        _ => record
            .and_then(|record| record.error.clone())
            .or_else(|| outcomes.iter().find_map(|device| device.outcome.blind.clone()))
            .or_else(|| failed().map(|device| end(&device.name, &DeviceEnd::Failed))),
    }
}

fn cpu_use(live: &Live, shares: &[f64], steal: &Steal, elapsed: Duration) -> Vec<CpuUse> {
    let cpus = live.engine_cpus();
    let of = |(index, share): (usize, &f64)| {
        let cpu = cpus.get(index % cpus.len().max(1)).copied();
        CpuUse { cpu, engine_percent: share * 100.0, steal_percent: cpu.and_then(|cpu| steal.percent(cpu, elapsed)) }
    };
    shares.iter().enumerate().map(of).collect()
}

/// What tcpdump and Wireshark call all interfaces together.
fn any_is_libpcaps() -> Error {
    Error::usage("capture from", "any", "it is no interface but libpcap's name for all of them")
        .way_out("add --backend pcap, or name one interface")
}

/// The link type of files and filters.
fn link_type(found: Option<u16>, interface: &Interface) -> Result<u16> {
    found.ok_or_else(|| {
        Error::failed(
            "capture from",
            &interface.name,
            format!("frames of hardware type {} have no link type here", interface.hardware_type),
        )
        .way_out("capture where these packets enter or leave as Ethernet or IP")
    })
}

/// What writes, where something is written.
struct Recording {
    recorder: Option<Recorder>,
    spools: Vec<SpoolProducer>,
    /// The engines' memories, the last one's first, and where it is asked that they are written; none where all is.
    lasts: Vec<Last>,
    asked: Option<Arc<WriteAsked>>,
}

fn start_recording(capture: &Capture, devices: &Devices, kinds: &[Kind]) -> Result<Recording> {
    let Some(mut config) = capture.record.clone() else {
        return Ok(Recording { recorder: None, spools: Vec::new(), lasts: Vec::new(), asked: None });
    };
    config.spools = devices.source_count();
    let info = |(device, kind): (&Device, &Kind)| InterfaceInfo {
        filter: kind.filter.as_ref().map(|filter| filter.text().to_owned()),
        snaplen: capture.snaplen.unwrap_or(0),
        link_type: kind.link_type,
        ..InterfaceInfo::ethernet(&device.interface().name, device.stamp_clock().unwrap_or(StampClock::Realtime))
    };
    let (recorder, spools) = Recorder::start(config, devices.iter().zip(kinds).map(info).collect())?;
    let asked = capture.keep_last.map(|_| Arc::<WriteAsked>::default());
    let lasts = asked.as_ref().map_or_else(|| Ok(Vec::new()), |asked| lasts(capture, devices, asked))?;
    Ok(Recording { recorder: Some(recorder), spools, lasts, asked })
}

/// Memory for the last packets of each engine, the last engine's first; none where all is written.
fn lasts(capture: &Capture, devices: &Devices, asked: &Arc<WriteAsked>) -> Result<Vec<Last>> {
    let Some(keep) = capture.keep_last else { return Ok(Vec::new()) };
    let mut lasts = Vec::new();
    for device in devices.iter() {
        for _ in 0..device.source_count() {
            let stamps = device.stamp_clock().unwrap_or(StampClock::Realtime);
            lasts.push(Last::new(Recent::new(keep.bytes)?, keep.age, stamps, Arc::clone(asked)));
        }
    }
    lasts.reverse();
    Ok(lasts)
}

/// One handler for each engine.
fn handlers(
    capture: &Capture,
    devices: &Devices,
    kinds: &[Kind],
    recording: &mut Recording,
    counters: &mut Counters,
    events: &Arc<EngineEvents>,
) -> Vec<Whole> {
    let limit = capture.count.map(|most| Arc::new(Limit::new(most, Arc::clone(events))));
    let Recording { spools, lasts, .. } = recording;
    let mut spools = spools.drain(..);
    let mut handlers = Vec::new();
    for (number, (device, kind)) in devices.iter().zip(kinds).enumerate() {
        for _ in 0..device.source_count() {
            let keep = Keep {
                interface: number as u16,
                snaplen: capture.kept_bytes(),
                spool: spools.next(),
                last: lasts.pop(),
                from_file: false,
                counts: Arc::default(),
                limit: limit.clone(),
                _watch: PanicWatch(Arc::clone(events)),
            };
            let rejected = Arc::default();
            counters.add(number, Arc::clone(&keep.counts), Arc::clone(&rejected));
            if let Some(last) = &keep.last {
                counters.add_held(last.held());
            }
            handlers.push(Filtered::new(kind.filter.as_ref().map(Filter::program), rejected, keep));
        }
    }
    handlers
}

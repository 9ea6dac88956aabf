//! What a finished capture says: the ledger, how late packets were, what waiting cost, and what was written.
//!
//! Owns the summary as text; as JSON it is in `object`. It measures only the steal of the engines' CPUs.

use std::fmt;
use std::time::Duration;

use ringtap::histogram::Quantiles;
use ringtap::ledger::Ledger;
use ringtap::meters::EngineSnapshot;
use ringtap::pacer::Policy;
use ringtap::record::{ClientCounts, RecordSummary};
use ringtap::source::Description;
use serde::Serialize;
use serde_json::Value;

use crate::accounts::{InMemory, Tally};
use crate::advice::share;
use crate::object::{DeviceSpan, Facts, Span};
use crate::supervise::Ending;
use ringtap_run::units::{grouped, shown_rate, shown_size, shown_us};

/// One engine's CPU during the run.
#[derive(Debug, Clone, Serialize)]
pub struct CpuUse {
    /// Its number; unknown for a replay.
    pub cpu: Option<usize>,
    /// Share of the time the engine's thread was on it, percent.
    pub engine_percent: f64,
    /// Share of the time the hypervisor gave it to others, percent.
    pub steal_percent: Option<f64>,
}

/// One interface of a capture.
#[derive(Debug)]
pub struct DeviceSummary {
    /// Its name.
    pub name: String,
    /// Why it ended before the capture did, if it did.
    pub ending: Option<Ending>,
    /// What its handlers counted.
    pub tally: Tally,
    /// What became of each of its packets.
    pub ledger: Ledger,
    /// Where it is a bond that was captured by its ports: what became of the packets of each.
    pub ports: Vec<(String, Ledger)>,
}

/// Everything the end of a capture tells. Its text is for people, its object for programs.
#[derive(Debug)]
pub struct Summary {
    pub(crate) facts: Facts,
    /// Why it ended.
    pub ending: Ending,
    /// How long it lasted.
    pub elapsed: Duration,
    /// What became of each packet.
    pub ledger: Ledger,
    /// What the handlers counted.
    pub tally: Tally,
    /// Of packets that are written only when that is asked for.
    pub in_memory: Option<InMemory>,
    /// Each interface by itself; none of a replay.
    pub devices: Vec<DeviceSummary>,
    /// What the engines counted.
    pub counters: EngineSnapshot,
    /// One for each engine.
    pub cpus: Vec<CpuUse>,
    /// The device's own counters that rose.
    pub driver_counters: Vec<(String, u64)>,
    /// What was written.
    pub record: Option<RecordSummary>,
    /// What would help against loss.
    pub advice: Vec<String>,
    /// What could not be had.
    pub warnings: Vec<String>,
    /// What went wrong.
    pub error: Option<String>,
}

impl Summary {
    /// The JSON object of the whole capture.
    pub fn object(&self) -> Value {
        Span {
            facts: &self.facts,
            elapsed: self.elapsed,
            lasted: self.elapsed,
            tally: self.tally,
            ledger: self.ledger.clone(),
            total: self.ledger.clone(),
            devices: self
                .devices
                .iter()
                .map(|device| DeviceSpan {
                    tally: device.tally,
                    ledger: device.ledger.clone(),
                    total: device.ledger.clone(),
                })
                .collect(),
            counters: &self.counters,
            written: self.record.as_ref().map(|record| (record.packets, record.bytes)),
            file: self.record.as_ref().and_then(|record| Some(record.files.last()?.display().to_string())),
            summary: Some(self),
        }
        .object()
    }
}

/// A policy in a few words.
pub(crate) fn policy_words(policy: &Policy) -> String {
    let us = |ns: u64| shown_us(ns as f64 / 1e3);
    match policy {
        Policy::Hybrid(hybrid) => {
            let rungs: Vec<String> = hybrid
                .rungs
                .iter()
                .map(|rung| format!("timer {} above {}", us(rung.period_ns), shown_rate(rung.threshold_pps)))
                .collect();
            format!("hybrid: {}", rungs.join(", "))
        }
        Policy::Windowed(windowed) => {
            format!("windowed: timer {} above {}", us(windowed.period_ns), shown_rate(windowed.cliff_pps))
        }
        Policy::Interrupt => "interrupt".to_owned(),
        Policy::Timer { period_ns } => format!("timer {}", us(*period_ns)),
        Policy::Busy => "busy (spinning)".to_owned(),
    }
}

/// One line for all queues that are alike.
fn source_lines(sources: &[Description]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<u32>)> = Vec::new();
    let are_several = sources.iter().any(|source| source.object != sources[0].object);
    for source in sources {
        let of = if are_several { format!("{}: ", source.object) } else { String::new() };
        let (words, queue) = (format!("{of}{}", source_words(source)), source.queue);
        match lines.iter_mut().find(|(known, _)| *known == words) {
            Some((_, queues)) => queues.extend(queue),
            None => lines.push((words, queue.into_iter().collect())),
        }
    }
    let whole = |(words, queues): (String, Vec<u32>)| match queues[..] {
        [] => words,
        [queue] => format!("queue {queue}: {words}"),
        _ => {
            let numbers: Vec<String> = queues.iter().map(u32::to_string).collect();
            format!("queues {}, each: {words}", numbers.join(" "))
        }
    };
    lines.into_iter().map(whole).collect()
}

/// Each CPU once, with the shares of all engines on it and their number.
pub(crate) fn by_cpu(cpus: &[CpuUse]) -> Vec<(CpuUse, u32)> {
    let mut cores: Vec<(CpuUse, u32)> = Vec::new();
    for cpu in cpus {
        match cores.iter_mut().find(|(known, _)| known.cpu == cpu.cpu) {
            Some((known, engines)) => {
                known.engine_percent += cpu.engine_percent;
                *engines += 1;
            }
            None => cores.push((cpu.clone(), 1)),
        }
    }
    cores
}

fn core_words(cpu: &CpuUse, engines: u32) -> String {
    let which = cpu.cpu.map_or_else(String::new, |cpu| format!("CPU {cpu}: "));
    let who = if engines == 1 { "engine thread".to_owned() } else { format!("{engines} engine threads") };
    let steal = cpu.steal_percent.map_or_else(|| "unknown".to_owned(), |steal| format!("{steal:.1} %"));
    format!("{which}{who} {:.1} %, steal {steal}", cpu.engine_percent)
}

/// What a source is, in a few words.
fn source_words(source: &Description) -> String {
    let mut words = vec![source.backend.to_owned()];
    words.extend(source.xdp_mode.map(str::to_owned));
    words.extend(source.zero_copy.map(|zero_copy| if zero_copy { "zero-copy" } else { "copy" }.to_owned()));
    if source.busy_poll {
        words.push("busy poll by our thread".to_owned());
    }
    words.extend(source.library.clone());
    words.push(format!("ring {} slots ({})", source.ring_slots, shown_size(source.memory_bytes as u64)));
    words.join(", ")
}

fn quantile_words(quantiles: &Quantiles) -> String {
    let Quantiles { p50, p99, p999, max, .. } = *quantiles;
    format!("p50 {}  p99 {}  p99.9 {}  max {}", shown_us(p50), shown_us(p99), shown_us(p999), shown_us(max))
}

/// Lines of a name and what is said of it.
fn line(f: &mut fmt::Formatter<'_>, name: &str, text: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{name:<12}{text}")
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "{}: {} packets in {seconds:.3} s, {}, {}",
            self.facts.object,
            grouped(self.tally.packets),
            shown_rate(self.tally.packets as f64 / seconds.max(1e-9)),
            shown_size(self.tally.bytes)
        )?;
        ledger_lines(f, &self.ledger)?;
        if self.devices.len() > 1 {
            for device in &self.devices {
                let ended = if device.ending.is_some() { ", ended before the others" } else { "" };
                line(f, "interface", format_args!("{}{ended}: {}", device.name, device.ledger))?;
            }
        }
        for (port, ledger) in self.devices.iter().flat_map(|device| &device.ports) {
            line(f, "port", format_args!("{port}: {ledger}"))?;
        }
        for advice in &self.advice {
            line(f, "advice", advice)?;
        }
        self.latency_lines(f)?;
        self.waiting_lines(f)?;
        for (cpu, engines) in by_cpu(&self.cpus) {
            line(f, "core", core_words(&cpu, engines))?;
        }
        for source in source_lines(&self.facts.sources) {
            line(f, "source", source)?;
        }
        if let Some(filter) = &self.facts.filter {
            line(f, "filter", filter)?;
        }
        for (name, value) in &self.driver_counters {
            line(f, "driver", format_args!("{name} {}", grouped(*value)))?;
        }
        if let Some(record) = &self.record {
            record_lines(f, record)?;
        }
        if let Some(InMemory { packets, aged, pushed_out }) = self.in_memory {
            let [packets, aged, pushed_out] = [packets, aged, pushed_out].map(grouped);
            line(f, "memory", format_args!("{packets} packets; let go: {aged} by age, {pushed_out} for want of room"))?;
        }
        for warning in &self.warnings {
            line(f, "warning", warning)?;
        }
        Ok(())
    }
}

impl Summary {
    /// How late packets reached the handler, and which came before it was there.
    fn latency_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
        let latency = counters.latency.quantiles_us();
        if latency.count > 0 {
            line(f, "latency", format_args!("{}  (arrival to handler)", quantile_words(&latency)))?;
            if let (Some(bound), Some(late)) = (self.facts.max_latency, self.facts.late_packets(counters)) {
                let share = late as f64 * 100.0 / latency.count as f64;
                let bound = shown_us(bound.as_secs_f64() * 1e6);
                line(f, "", format_args!("{} packets ({share:.3} %) later than the bound of {bound}", grouped(late)))?;
            }
        }
        if counters.backlog > 0 {
            let oldest = shown_us(counters.backlog_oldest_ns as f64 / 1e3);
            let count = grouped(counters.backlog);
            line(
                f,
                "start-up",
                format_args!(
                    "{count} packets were there before the engine was ready, the oldest for {oldest}; not among the latencies"
                ),
            )?;
        }
        Ok(())
    }

    /// By what the engines waited, and how well.
    fn waiting_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
        if let Some(policy) = &self.facts.policy {
            line(f, "waiting", policy_words(policy))?;
            line(
                f,
                "",
                format_args!(
                    "{:.1} packets per poll, {:.4} interrupts per packet, {} mode switches",
                    counters.packets_per_poll(),
                    counters.interrupts_per_packet(),
                    counters.mode_switches
                ),
            )?;
        }
        let period = counters.poll_period.quantiles_us();
        if period.count > 0 {
            line(f, "poll period", quantile_words(&period))?;
        }
        let lateness = counters.tick_lateness.quantiles_us();
        if lateness.count > 0 {
            let missed = counters.missed_ticks;
            line(f, "ticks late", format_args!("{}  ({missed} missed)", quantile_words(&lateness)))?;
        }
        Ok(())
    }
}

fn ledger_lines(f: &mut fmt::Formatter<'_>, ledger: &Ledger) -> fmt::Result {
    let known = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), grouped);
    line(f, "ledger", format_args!("{:>16} offered", known(ledger.offered)))?;
    line(f, "", format_args!("{:>16} delivered", grouped(ledger.delivered)))?;
    line(f, "", format_args!("{:>16} filtered", known(ledger.filtered)))?;
    for (cause, count) in ledger.drops.iter().filter(|(_, count)| **count != Some(0)) {
        let share = count.map_or_else(String::new, |count| share(count, ledger));
        line(f, "", format_args!("{:>16} {}{share}", known(*count), cause.name()))?;
    }
    if ledger.lost() == 0 {
        line(f, "", format_args!("{:>16} lost", 0))?;
    }
    let unaccounted = ledger.unaccounted().map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    line(f, "", format_args!("{unaccounted:>16} unaccounted"))?;
    if ledger.cut > 0 {
        let cut = grouped(ledger.cut);
        line(f, "", format_args!("{cut:>16} of the delivered are cut: not all of their bytes are kept"))?;
    }
    if ledger.cut_before > 0 {
        line(f, "", format_args!("{:>16} of these were cut before, in the file", grouped(ledger.cut_before)))?;
    }
    Ok(())
}

fn record_lines(f: &mut fmt::Formatter<'_>, record: &RecordSummary) -> fmt::Result {
    let plain = match record.plain_bytes {
        plain if plain != record.bytes => format!(" compressed from {}", shown_size(plain)),
        _ => String::new(),
    };
    let size = shown_size(record.bytes);
    line(f, "written", format_args!("{} packets, {size}{plain}", grouped(record.packets)))?;
    for file in &record.files {
        line(f, "file", file.display())?;
    }
    if record.deleted > 0 {
        line(f, "", format_args!("{} older ones deleted", record.deleted))?;
    }
    if let Some(ClientCounts { served, too_slow, refused }) = record.clients {
        line(f, "clients", format_args!("{served} served; {too_slow} ended as too slow, {refused} refused"))?;
    }
    Ok(())
}

/// Time that the hypervisor took from CPUs, since the beginning of a run.
#[derive(Debug)]
pub(crate) struct Steal {
    before: Option<String>,
}

impl Steal {
    pub(crate) fn start() -> Self {
        Self { before: read_stat() }
    }

    /// Percent of the time passed that was taken from `cpu`.
    pub(crate) fn percent(&self, cpu: usize, elapsed: Duration) -> Option<f64> {
        let ticks = steal_ticks(&read_stat()?, cpu)?.saturating_sub(steal_ticks(self.before.as_ref()?, cpu)?);
        // USER_HZ is 100 on every architecture Linux has a stable interface for.
        Some(ticks as f64 / elapsed.as_secs_f64().max(1e-9))
    }
}

fn read_stat() -> Option<String> {
    std::fs::read_to_string("/proc/stat").ok()
}

/// Eighth column of a CPU's line in /proc/stat (proc_stat(5)).
fn steal_ticks(stat: &str, cpu: usize) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    stat.lines().find_map(|line| line.strip_prefix(&name))?.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_and_queues_that_are_alike_are_one_line() {
        let queue = |number, slots| Description {
            backend: "xdp",
            object: "eth1".into(),
            queue: Some(number),
            zero_copy: Some(false),
            xdp_mode: Some("native"),
            busy_poll: false,
            ring_slots: slots,
            memory_bytes: 1 << 20,
            library: None,
        };
        let lines = source_lines(&[queue(0, 64), queue(1, 64), queue(2, 128), queue(3, 64)]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("queues 0 1 3, each: xdp, native, copy, ring 64 slots"), "{lines:?}");
        assert!(lines[1].starts_with("queue 2: xdp"), "{lines:?}");
        let cpu = |cpu| CpuUse { cpu: Some(cpu), engine_percent: 40.0, steal_percent: None };
        let cores = by_cpu(&[cpu(1), cpu(0), cpu(1)]);
        let words: Vec<String> = cores.iter().map(|(cpu, engines)| core_words(cpu, *engines)).collect();
        assert_eq!(
            words,
            ["CPU 1: 2 engine threads 80.0 %, steal unknown", "CPU 0: engine thread 40.0 %, steal unknown"]
        );
    }

    #[test]
    fn steal_is_the_eighth_column_of_its_cpu() {
        let stat = "cpu  1 2 3 4 5 6 7 80 9 10\ncpu1 1 2 3 4 5 6 7 8 9 10\ncpu10 1 2 3 4 5 6 7 11 9 10\n";
        assert_eq!(steal_ticks(stat, 1), Some(8));
        assert_eq!(steal_ticks(stat, 10), Some(11));
        assert_eq!(steal_ticks(stat, 0), None);
    }
}

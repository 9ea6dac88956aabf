//! What the demo of a staged attack shows, as text of at most 80 columns and as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::{GAP, Options, Outcome, WINDOWS};
use crate::book::Delays;
use crate::staged::evidence::{Cell, Evidence, StageTrace, TO_FINAL, TO_LOG, TO_PROVISIONAL, Trace};
use crate::staged::plant::STAGES;
use crate::staged::wires::WireLosses;
use crate::staged::{ChainRun, Peers, Sent};

type Found = Result<(Peers, Evidence, String), String>;

pub fn opening(options: &Options) -> String {
    let [first, second] = STAGES.map(|stage| stage.sensor);
    format!(
        "In a private host: a splitter, two sensors \"{first}\" and \"{second}\", a correlator.\n\
         {} attacks of two stages {GAP:?} apart, one stage to each sensor, while a flood\n\
         of {:.0} kpps hides what \"{first}\" sees.\n",
        options.attacks,
        options.flood_pps / 1e3
    )
}

pub fn ours(ours: &ChainRun, evidence: &Evidence) -> String {
    let mut text = "Ringtap: split, 2 × sensor, correlate\n".to_owned();
    let handled: u64 = ours.sensors.iter().filter_map(|sensor| sensor["packets"].as_u64()).sum();
    let unaccounted = ours.unaccounted().map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    let _ = writeln!(
        text,
        "  packets      {} sent, {handled} handled, {} lost, unaccounted {unaccounted}",
        ours.sent.packets(),
        ours.lost()
    );
    on_wires(&mut text, &ours.wires);
    core_use(&mut text, &ours.sent);
    if let Some((number, trace)) = typical(&ours.traces) {
        timeline(&mut text, number, trace);
    }
    let _ = writeln!(text, "\n  after an attack's last packet{:>12}{:>12}{:>12}", "p50", "p99", "max");
    for (name, hop) in [("provisional incident", TO_PROVISIONAL), ("final incident", TO_FINAL)] {
        delays(&mut text, name, evidence.hops.get(hop));
    }
    if ours.late + ours.incomplete > 0 {
        let _ = writeln!(
            text,
            "  note         {} incidents found late, {} that may lack events",
            ours.late, ours.incomplete
        );
    }
    text
}

pub fn peers(found: &Found) -> String {
    let (peers, evidence, version) = match found {
        Ok(found) => found,
        Err(why) => return format!("Suricata + syslog: not tried\n  {}\n", wrapped(2, why)),
    };
    let mut text = format!("{version} × 2 behind the same splitter, alerts by syslog(3)\n");
    let (handled, dropped): (u64, u64) = (peers.handled.iter().sum(), peers.dropped.iter().sum());
    let _ = writeln!(
        text,
        "  packets      {} sent, {handled} handled, {dropped} dropped, as they say",
        peers.sent.packets()
    );
    on_wires(&mut text, &peers.wires);
    core_use(&mut text, &peers.sent);
    let lines =
        peers.traces.iter().flat_map(|trace| trace.stages).filter(|stage| stage.correlator_ns.is_some()).count();
    let _ = writeln!(text, "  alerts       {lines} of {} arrived", 2 * peers.traces.len());
    let _ = writeln!(text, "\n  after an attack's last packet{:>12}{:>12}{:>12}", "p50", "p99", "max");
    delays(&mut text, "the second line of syslog", evidence.hops.get(TO_LOG));
    text
}

pub fn found(outcome: &Outcome) -> String {
    let mut text = format!("Attacks found, of {}, by time window", outcome.options.attacks);
    for window in WINDOWS {
        let _ = write!(text, "{:>9}", format!("{window:?}"));
    }
    text.push('\n');
    let mut row = |name: &str, evidence: &Evidence, count: fn(&Cell) -> u64| {
        let _ = write!(text, "  {name:<36}");
        for cell in &evidence.cells {
            let _ = write!(text, "{:>9}", count(cell));
        }
        text.push('\n');
    };
    row("Ringtap, by event time", &outcome.evidence, |cell| cell.by_event.unwrap_or(0));
    row("the same alarms, by arrival", &outcome.evidence, |cell| cell.by_arrival);
    if let Ok((_, evidence, _)) = &outcome.peers {
        row("Suricata + syslog, by arrival", evidence, |cell| cell.by_arrival);
    }
    let due = outcome.evidence.due();
    text.push_str(&match outcome.is_proven() {
        true => "\nProven: each attack whose packets both sensors handled and saw within the window\n\
             was found, and none of the packets is unaccounted for.\n"
            .to_owned(),
        false if due == 0 => "\nNOT proven: no attack reached both sensors.\n".to_owned(),
        false => format!(
            "\nNOT proven: {} of {due} that had to be found were missed, or packets are\nunaccounted for; the lines above say where.\n",
            outcome.evidence.missed()
        ),
    });
    text
}

/// What the testbed itself lost, where that is not nothing.
fn on_wires(text: &mut String, wires: &WireLosses) {
    let _ = match wires.total() {
        Some(0) => Ok(()),
        Some(lost) => writeln!(text, "  testbed      {lost} lost in full queues of its own wires"),
        None => writeln!(text, "  testbed      unknown what its own wires lost"),
    };
}

fn core_use(text: &mut String, sent: &Sent) {
    let steal = sent.core.steal_percent.map_or_else(String::new, |steal| format!(" (host took {steal:.1} %)"));
    let _ = writeln!(text, "  core use     {:.1} % of the core of all these programs{steal}", sent.core.used_percent);
    if let Some(shortfall) = sent.flood.as_ref().and_then(|flood| flood.shortfall.as_ref()) {
        let _ = writeln!(text, "  generator    {}", wrapped(15, shortfall));
    }
}

/// The attack in the middle of those that were told, by how long that took.
fn typical(traces: &[Trace]) -> Option<(usize, &Trace)> {
    let delay = |trace: &Trace| Some(trace.final_ns?.saturating_sub(trace.last_packet_ns()?));
    let mut told: Vec<(u64, usize)> =
        traces.iter().enumerate().filter_map(|(number, trace)| Some((delay(trace)?, number))).collect();
    told.sort_unstable();
    let (_, number) = *told.get(told.len() / 2)?;
    Some((number, &traces[number]))
}

fn timeline(text: &mut String, number: usize, trace: &Trace) {
    type Moment = (&'static str, fn(&StageTrace) -> Option<u64>);
    let start = trace.stages.iter().filter_map(|stage| stage.splitter_ns).min().unwrap_or(0);
    let since =
        |at: Option<u64>| at.map_or_else(|| "–".to_owned(), |at| format!("{:.3} ms", (at as f64 - start as f64) / 1e6));
    let [first, second] = STAGES.map(|stage| stage.sensor);
    let name = format!("attack {} of it, typical", number + 1);
    let _ = writeln!(text, "\n  {name:<29}{first:>12}{second:>12}{:>12}", "correlator");
    let moments: [Moment; 4] = [
        ("packet at the splitter", |stage| stage.splitter_ns),
        ("packet at the sensor", |stage| stage.sensor_ns),
        ("alarm built", |stage| stage.built_ns),
        ("alarm at the correlator", |stage| stage.correlator_ns),
    ];
    for (moment, of) in moments {
        let [first, second] = [0, 1].map(|stage| since(of(&trace.stages[stage])));
        let _ = writeln!(text, "    {moment:<27}{first:>12}{second:>12}");
    }
    for (moment, at) in [("incident, provisional", trace.provisional_ns), ("incident, final", trace.final_ns)] {
        let _ = writeln!(text, "    {moment:<51}{:>12}", since(at));
    }
}

fn delays(text: &mut String, name: &str, delays: Option<&Delays>) {
    let ms = |us: f64| format!("{:.2} ms", us / 1e3);
    let [p50, p99, max] =
        delays.map_or(["–", "–", "–"].map(str::to_owned), |delays| [delays.p50, delays.p99, delays.max].map(ms));
    let _ = writeln!(text, "    {name:<27}{p50:>12}{p99:>12}{max:>12}");
}

/// Lines of 79 characters at most, all but the first behind so many spaces.
fn wrapped(indent: usize, text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.chars().count() + word.chars().count() < 79 - indent);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join(&format!("\n{:indent$}", ""))
}

pub fn json(outcome: &Outcome) -> Value {
    let since = |at: Option<u64>, start: u64| at.map(|at| (at as f64 - start as f64) / 1e3);
    let timeline = |trace: &Trace| {
        let start = trace.stages.iter().filter_map(|stage| stage.splitter_ns).min().unwrap_or(0);
        let stages: Vec<Value> = STAGES
            .iter()
            .zip(&trace.stages)
            .map(|(stage, seen)| {
                json!({
                    "sensor": stage.sensor, "handled": seen.is_handled,
                    "splitter_us": since(seen.splitter_ns, start), "sensor_us": since(seen.sensor_ns, start),
                    "built_us": since(seen.built_ns, start), "correlator_us": since(seen.correlator_ns, start),
                })
            })
            .collect();
        json!({
            "stages": stages, "provisional_us": since(trace.provisional_ns, start),
            "final_us": since(trace.final_ns, start), "found": trace.found,
        })
    };
    let sent = |sent: &Sent| {
        json!({
            "packets": sent.packets(), "flood_pps": sent.flood.as_ref().map(|flood| flood.achieved_pps),
            "shortfall": sent.flood.as_ref().and_then(|flood| flood.shortfall.clone()),
            "core_use_percent": sent.core.used_percent, "steal_percent": sent.core.steal_percent,
        })
    };
    let ours = &outcome.ours;
    let suricata = match &outcome.peers {
        Ok((peers, evidence, version)) => json!({
            "version": version, "sent": sent(&peers.sent), "handled": peers.handled, "dropped": peers.dropped,
            "evidence": evidence,
        }),
        Err(why) => json!({ "missing": why }),
    };
    json!({
        "proven": outcome.is_proven(), "seconds": outcome.lasted.as_secs_f64(), "attacks": outcome.options.attacks,
        "gap_us": GAP.as_micros() as u64, "windows_us": WINDOWS.map(|window: Duration| window.as_micros() as u64),
        "ringtap": {
            "sent": sent(&ours.sent), "lost": ours.lost(), "unaccounted": ours.unaccounted(), "late": ours.late,
            "incomplete": ours.incomplete, "due": outcome.evidence.due(), "missed": outcome.evidence.missed(),
            "evidence": outcome.evidence, "timelines": ours.traces.iter().map(timeline).collect::<Vec<_>>(),
        },
        "suricata": suricata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_set_in_lines() {
        let text = wrapped(2, &"word ".repeat(40));
        assert!(text.lines().all(|line| line.chars().count() <= 79) && text.lines().count() == 3, "{text}");
    }
}

//! What was measured, where, how, and what makes it doubtful.
//!
//! Owns the sentences above the first section; the doubts of the environment are quoted, those that follow from the
//! samples are worked out here.

use maud::{Markup, html};
use ringtap::record::utc;

use crate::book::{Book, Sample};

use super::look::{Group, Looks};
use super::number::{count, percent_text, plain, si};
use super::spread::{Spread, lines};
use super::table::{Table, escape};
use super::topology_name;

/// A generator that reaches less than this share of what it was asked for makes the offered rate untrue.
const REACHED: f64 = 0.98;

/// Heading and title of the page.
pub fn title(book: &Book) -> String {
    let version = &book.environment.version;
    if version.is_empty() { "Ringtap bench".into() } else { format!("Ringtap {version}: bench") }
}

/// Facts and doubts as part of the page.
pub fn html(book: &Book) -> Markup {
    let facts = facts(book);
    let peers = peers(book);
    html! {
        p.lead { (measured(book)) }
        dl { @for (name, value) in &facts { dt { (name) } dd { (value) } } }
        div.doubts {
            h2 { "Doubts" }
            ul { @for doubt in doubts(book) { li { (doubt) } } }
        }
        @if !peers.rows.is_empty() { (peers.folded()) }
        @if !book.environment.plans.is_empty() {
            details {
                summary { "Plan: what calibration on this host gave for each latency bound" }
                @for (bound, lines) in &book.environment.plans { h3 { (bound) } pre { (lines.join("\n")) } }
            }
        }
    }
}

/// Facts and doubts for a record.
pub fn markdown(book: &Book) -> String {
    let mut text = format!("{}\n\n", escape(&measured(book)));
    for (name, value) in facts(book) {
        text += &format!("- {name}: {}\n", escape(&value));
    }
    text += "\nDoubts:\n\n";
    for doubt in doubts(book) {
        text += &format!("- {}\n", escape(&doubt));
    }
    let peers = peers(book);
    if !peers.rows.is_empty() {
        text += &format!("\n{}", peers.markdown());
    }
    for (bound, lines) in &book.environment.plans {
        text += &format!("\nPlan for {}:\n\n", escape(bound));
        for line in lines {
            text += &format!("    {}\n", line.replace(['\n', '\r'], " "));
        }
    }
    text
}

fn measured(book: &Book) -> String {
    let looks = Looks::of(book);
    let groups = looks.names().iter().map(|name| looks.look(name).group);
    let peers = groups.filter(|group| *group == Group::Peer).count();
    let own = looks.names().len() - peers;
    let packets: u64 = book.samples.iter().fold(0, |sum, sample| sum.saturating_add(sample.sent));
    let mut topologies: Vec<&str> = Vec::new();
    for sample in &book.samples {
        let name = topology_name(sample.topology);
        if !topologies.contains(&name) {
            topologies.push(name);
        }
    }
    if book.samples.is_empty() {
        return "No sample was taken.".into();
    }
    format!(
        "{} runs of {own} Ringtap receivers and ablations and {peers} peers, {} packets in all, one receiver at a time on the \
         same core in turn (interleaved), topology {}. What was received is counted by sequence numbers where a receiver \
         hands packets to us, else by its own count of what it handled.",
        count(book.samples.len() as u64),
        count(packets),
        topologies.join(" and "),
    )
}

fn facts(book: &Book) -> Vec<(&'static str, String)> {
    let environment = &book.environment;
    let mut facts = vec![
        ("Command", environment.command.clone()),
        ("Host", environment.host.clone()),
        ("Version", environment.version.clone()),
        ("Core use by", environment.meter.clone()),
    ];
    if environment.started_at > 0 {
        facts.push(("Begun (UTC)", date(environment.started_at)));
    }
    if environment.cores > 0 {
        let cores = format!(
            "receiver on core {}, generator on core {}, of {}",
            environment.receiver_core, environment.generator_core, environment.cores
        );
        facts.push(("Cores", cores));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// `2026-11-21 23:34:02`.
fn date(seconds: u64) -> String {
    let basic = utc(seconds);
    match (basic.get(0..4), basic.get(4..6), basic.get(6..8), basic.get(9..11), basic.get(11..13), basic.get(13..15)) {
        (Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)) if basic.len() == 16 => {
            format!("{year}-{month}-{day} {hour}:{minute}:{second}")
        }
        _ => basic,
    }
}

fn peers(book: &Book) -> Table {
    let mut table = Table::new("Versions of the peers", ["peer", "version"]);
    table.rows = book.environment.peers.iter().map(|(name, version)| vec![name.clone(), version.clone()]).collect();
    table
}

/// Those of the environment, then those of the samples.
fn doubts(book: &Book) -> Vec<String> {
    let mut doubts = book.environment.doubts.clone();
    if book.environment.virtual_machine {
        doubts.push(
            "Virtual machine: a timer or an interrupt may pass through the hypervisor and cost more than on bare metal, \
             and the hypervisor may take the core away at any time."
                .into(),
        );
    }
    if !book.samples.is_empty() {
        doubts.push(
            "All traffic ran over veth pairs within this machine: no network card took part, its DMA, cache and \
             interrupt costs are not in these figures, and no wire bounds the rate."
                .into(),
        );
    }
    doubts.extend(steal(book));
    doubts.extend(others(book));
    doubts.push(noise(book));
    doubts.extend(slow_generator(book));
    doubts.extend(uncounted(book));
    doubts
}

fn steal(book: &Book) -> Option<String> {
    let steal = Spread::of(book.samples.iter().filter_map(|sample| sample.steal_percent))?;
    let runs = book.samples.iter().filter(|sample| sample.steal_percent.is_some_and(|steal| steal >= 1.0)).count();
    Some(format!(
        "Steal: the hypervisor took {} of the receiver's core in the median run and {} in the worst; 1 % or more in {} of {} runs.",
        percent_text(steal.median),
        percent_text(steal.max),
        count(runs as u64),
        count(steal.rounds as u64)
    ))
}

/// Other programs on the receiver's core.
fn others(book: &Book) -> Option<String> {
    let disturbed: Vec<f64> =
        book.samples.iter().filter_map(|sample| sample.others_percent).filter(|others| *others >= 1.0).collect();
    let worst = Spread::of(disturbed.iter().copied())?.max;
    Some(format!(
        "Other programs used 1 % or more of the receiver's core in {} of {} runs, {} in the worst: core use leaves them out, but \
         beside them wake-ups have another price and come later.",
        count(disturbed.len() as u64),
        count(book.samples.len() as u64),
        percent_text(worst)
    ))
}

/// How much core use differs between rounds of the same run.
fn noise(book: &Book) -> String {
    let looks = Looks::of(book);
    let mut worst: Option<(f64, String)> = None;
    let mut widths = Vec::new();
    for topology in [crate::book::Topology::Nic, crate::book::Topology::Host] {
        let samples = book.samples.iter().filter(|sample| sample.study == "rates" && sample.topology == topology);
        let core_use = |sample: &Sample| Some(sample.core_use_percent);
        for (name, points) in lines(samples, looks.names(), |sample| sample.offered_pps, core_use) {
            for point in points.iter().filter(|point| point.y.rounds > 1) {
                let width = point.y.max - point.y.min;
                widths.push(width);
                if worst.as_ref().is_none_or(|(worst, _)| width > *worst) {
                    let place = format!("{name} at {} packets/s, {}", si(point.x), topology_name(topology));
                    worst = Some((width, place));
                }
            }
        }
    }
    match (Spread::of(widths), worst) {
        (Some(widths), Some((width, place))) => format!(
            "Noise: between rounds of the same run core use differs by {} points of the core in the median and by {} at worst ({place}).",
            plain(widths.median),
            plain(width)
        ),
        _ => "Noise: no run was repeated, so the spread between rounds is unknown.".into(),
    }
}

fn slow_generator(book: &Book) -> Option<String> {
    let short = |sample: &&Sample| sample.offered_pps > 0.0 && sample.sent_pps < REACHED * sample.offered_pps;
    let slow: Vec<&Sample> = book.samples.iter().filter(short).collect();
    let worst = slow.iter().min_by(|a, b| (a.sent_pps / a.offered_pps).total_cmp(&(b.sent_pps / b.offered_pps)))?;
    Some(format!(
        "Generator: in {} of {} runs it reached less than 98 % of the rate asked for; at worst {} of {} packets/s ({}, {}). \
         Plots are drawn at the rate asked for.",
        count(slow.len() as u64),
        count(book.samples.len() as u64),
        si(worst.sent_pps),
        si(worst.offered_pps),
        worst.receiver,
        topology_name(worst.topology)
    ))
}

fn uncounted(book: &Book) -> Vec<String> {
    let mut doubts = Vec::new();
    let unaccounted =
        book.samples.iter().filter(|sample| sample.unaccounted.is_some_and(|packets| packets != 0)).count();
    if unaccounted > 0 {
        doubts.push(format!(
            "Accounting: in {} runs packets are unaccounted for: no cause in the ledger explains them. The samples say which.",
            count(unaccounted as u64)
        ));
    }
    let unnumbered = book.samples.iter().filter(|sample| !sample.numbered).count();
    if unnumbered > 0 {
        doubts.push(format!(
            "Loss of {} runs is by the receiver's own count of what it handled, without sequence numbers.",
            count(unnumbered as u64)
        ));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        assert_eq!(date(1_795_304_042), "2026-11-21 23:34:02");
        assert!(!date(u64::MAX).is_empty());
    }
}

//! What Ringtap promises against other receivers, and what this book says of it.
//!
//! Owns the promises and their numbers. A promise whose runs are not in the book is left out; one that was not kept says so.

use ringtap_testbed::peer::PeerKind;

use crate::book::{Book, Delays, Sample, Topology};
use crate::catalogue::{CALM_PPS, SLOW_PPS};

use super::number::{bytes, percent_text, plain, si};
use super::spread::Spread;
use super::table::Table;
use super::{Section, equal_latency, programs, staged, sweep, topology_name};

/// 100 Mb/s of 64-byte packets, the sources' figure (\[1] §7).
const STANDARD_PPS: f64 = 148e3;
/// Woken by what comes: the kernel's NAPI is left as it is, and no blocks are awaited, as libpcap does by default (TPACKET_V3).
const INTERRUPT_DRIVEN: [&str; 3] = ["interrupt", "socket", "udp-socket"];
/// The core is theirs whatever comes.
const SPINNING: [&str; 3] = ["busy", "testpmd-af-xdp", "testpmd-af-packet"];
const OURS: &str = "hybrid 1ms";
/// The same that was told the peak rate it is to be ready for, in ascending order.
const TOLD: [(&str, f64); 2] = [("hybrid 1ms peak 150k", SLOW_PPS), ("hybrid 1ms peak 500k", CALM_PPS)];
/// Receivers with a bound: the bound (µs), and the greatest share of an interrupt-driven and a spinning receiver's core use.
const BOUNDED: [(&str, f64, f64, f64); 2] = [("hybrid 1ms", 1000.0, 0.2, 0.05), ("hybrid 250us", 250.0, 0.5, 0.12)];
/// Packets of a long run.
const LONG_RUN: u64 = 1_000_000_000;

/// A promise with what was seen of it.
pub(super) struct Seen {
    pub(super) promise: String,
    pub(super) topology: Option<Topology>,
    pub(super) seen: String,
    pub(super) is_kept: bool,
}

/// One table: promise, kept or not, what was seen.
pub fn section(book: &Book) -> Section {
    let mut section = Section::new("promises", "Promises");
    let mut table =
        Table::new("What is promised and what these runs say of it", ["promise", "kept", "topology", "seen"]);
    let all = [
        core_use(book),
        capacity(book),
        latency(book),
        host(book),
        total_cost(book),
        equal_latency::promises(book),
        memory(book),
        load(book),
        soak(book),
        programs::split_promises(book),
        staged::promises(book),
        accounts(book),
    ];
    for seen in all.into_iter().flatten() {
        table.rows.push(vec![
            seen.promise,
            if seen.is_kept { "yes" } else { "no" }.to_owned(),
            seen.topology.map_or("both", topology_name).to_owned(),
            seen.seen,
        ]);
    }
    if !table.rows.is_empty() {
        section.tables.push(table);
        section.text.push("Medians of the runs in this report; nothing here is taken from elsewhere.".to_owned());
    }
    section
}

/// Runs of one receiver at one rate in the sweep.
pub(super) fn at<'b>(book: &'b Book, topology: Topology, receiver: &str, pps: f64) -> Vec<&'b Sample> {
    let mut samples = sweep::samples(book, topology);
    samples.retain(|sample| sample.receiver == receiver && sample.offered_pps == pps && sample.study == "rates");
    samples
}

/// The sweep's rates that are `wanted`, ascending.
pub(super) fn rates(book: &Book, topology: Topology, wanted: impl Fn(f64) -> bool) -> Vec<f64> {
    let mut rates: Vec<f64> =
        sweep::samples(book, topology).iter().map(|sample| sample.offered_pps).filter(|pps| wanted(*pps)).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

pub(super) fn median(samples: &[&Sample], value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    Spread::of(samples.iter().filter_map(|sample| value(sample))).map(|spread| spread.median)
}

fn core_of(book: &Book, topology: Topology, receiver: &str, pps: f64) -> Option<f64> {
    median(&at(book, topology, receiver, pps), |sample| Some(sample.core_use_percent)).filter(|percent| *percent > 0.0)
}

/// The one of `receivers` that uses the least of the core.
fn cheapest<'n>(book: &Book, topology: Topology, receivers: &[&'n str], pps: f64) -> Option<(&'n str, f64)> {
    let uses = receivers.iter().filter_map(|name| Some((*name, core_of(book, topology, name, pps)?)));
    uses.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn finding(book: &Book, topology: Topology, receiver: &str, quantity: &str) -> Option<(f64, bool)> {
    let of = |finding: &&crate::book::Finding| {
        finding.receiver == receiver && finding.topology == topology && finding.quantity == quantity
    };
    book.findings
        .iter()
        .find(of)
        .map(|finding| (finding.value, finding.at_least))
        .filter(|(value, _)| value.is_finite())
}

/// "At most `share` of the core use of the cheapest of `others` at the standard rate."
fn share(book: &Book, topology: Topology, ours: &str, others: &[&str], what: &str, most: f64) -> Option<Seen> {
    let own = core_of(book, topology, ours, STANDARD_PPS)?;
    let (name, other) = cheapest(book, topology, others, STANDARD_PPS)?;
    Some(Seen {
        promise: format!("{ours} at {} packets/s: at most {} × the core use of {what}", si(STANDARD_PPS), plain(most)),
        topology: Some(topology),
        seen: format!("{} × ({} against {} of {name})", plain(own / other), percent_text(own), percent_text(other)),
        is_kept: own <= other * most,
    })
}

fn core_use(book: &Book) -> Vec<Seen> {
    let mut all = Vec::new();
    for (ours, _, interrupt, spinning) in BOUNDED {
        let what = "the best interrupt-driven receiver";
        all.extend(share(book, Topology::Nic, ours, &INTERRUPT_DRIVEN, what, interrupt));
        all.extend(share(book, Topology::Nic, ours, &SPINNING, "any spinning receiver", spinning));
        let runs = at(book, Topology::Nic, ours, STANDARD_PPS);
        let (sent, lost) = runs.iter().fold((0u64, 0u64), |(sent, lost), sample| {
            (sent.saturating_add(sample.sent), lost.saturating_add(sample.lost))
        });
        if !runs.is_empty() {
            all.push(Seen {
                promise: format!("{ours} at {} packets/s: nothing lost", si(STANDARD_PPS)),
                topology: Some(Topology::Nic),
                seen: format!("{lost} of {sent} in {} runs", runs.len()),
                is_kept: lost == 0,
            });
        }
    }
    all
}

fn capacity(book: &Book) -> Vec<Seen> {
    let of = |name: &str| finding(book, Topology::Nic, name, "no_loss_capacity_pps");
    let best = SPINNING.iter().filter_map(|name| Some((*name, of(name)?))).max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let Some(((own, at_least), (name, (other, _)))) = of(OURS).zip(best) else { return Vec::new() };
    vec![Seen {
        promise: format!("{OURS}: no-loss capacity at least that of the best spinning receiver"),
        topology: Some(Topology::Nic),
        seen: format!("{}{} packets/s against {} of {name}", if at_least { "≥ " } else { "" }, si(own), si(other)),
        // Where the generator gave no more, two that carried all it had differ by its rate in that minute.
        is_kept: own >= other || at_least && own >= other * 0.95,
    }]
}

fn latency(book: &Book) -> Vec<Seen> {
    let p99 = |sample: &Sample| sample.arrival.as_ref().map(|delays: &Delays| delays.p99);
    let mut all = Vec::new();
    for (ours, bound_us, ..) in BOUNDED {
        let rates = rates(book, Topology::Nic, |pps| pps <= 1e6);
        let of = |pps: &f64| Some((*pps, median(&at(book, Topology::Nic, ours, *pps), p99)?));
        let worst = rates.iter().filter_map(of).max_by(|a, b| a.1.total_cmp(&b.1));
        all.extend(worst.map(|(pps, worst)| Seen {
            promise: format!("{ours}: 99 of 100 packets at the handler within {} µs of their arrival, at every rate to 1 M packets/s", plain(bound_us)),
            topology: Some(Topology::Nic),
            seen: format!("worst rate {} packets/s: {} µs", si(pps), plain(worst)),
            is_kept: worst <= bound_us,
        }));
    }
    all
}

fn host(book: &Book) -> Vec<Seen> {
    let host = Topology::Host;
    let mut all = Vec::new();
    all.extend(share(book, host, OURS, &["tcpdump"], "tcpdump", 0.4));
    all.extend(core_of(book, host, OURS, 1e6).map(|used| Seen {
        promise: format!("{OURS} at 1 M packets/s: a quarter of the core is left"),
        topology: Some(host),
        seen: format!("{} left", percent_text(100.0 - used)),
        is_kept: used <= 75.0,
    }));
    let beyond: Vec<&Sample> = book
        .samples
        .iter()
        .filter(|sample| sample.study == "beyond" && sample.topology == host && sample.receiver == OURS)
        .collect();
    if let Some(((carried, _), delivered)) =
        finding(book, host, OURS, "no_loss_capacity_pps").zip(median(&beyond, sweep::delivered_pps))
    {
        let offered = median(&beyond, |sample| Some(sample.sent_pps)).unwrap_or(0.0);
        all.push(Seen {
            promise: format!("{OURS}: past its capacity still nine tenths of it are delivered (no livelock)"),
            topology: Some(host),
            seen: format!("{} packets/s of {} sent; capacity {}", si(delivered), si(offered), si(carried)),
            is_kept: delivered >= carried * 0.9,
        });
    }
    all
}

/// Receiver's core per packet received. In topology host the kernel's part is in it, and what the generator itself takes is on its own core.
fn cost_of(book: &Book, topology: Topology, receiver: &str, pps: f64) -> Option<f64> {
    let per_packet = |sample: &Sample| {
        let received_pps = sweep::delivered_pps(sample).filter(|received_pps| *received_pps > 0.0)?;
        Some(sample.core_use_percent / received_pps)
    };
    median(&at(book, topology, receiver, pps), per_packet).filter(|cost| *cost > 0.0)
}

/// "At most 0.6 of what libpcap costs at every rate": as planned without a word, and with the least peak rate told that holds.
fn total_cost(book: &Book) -> Vec<Seen> {
    const MOST: f64 = 0.6;
    const LEAST_PPS: f64 = 20e3;
    let rates = rates(book, Topology::Host, |pps| pps >= LEAST_PPS);
    let told = |pps: f64| TOLD.iter().find(|(_, peak_pps)| pps <= *peak_pps).map_or(OURS, |(name, _)| *name);
    let ways: [(String, &dyn Fn(f64) -> &'static str); 2] =
        [(OURS.to_owned(), &|_| OURS), (format!("{OURS}, told its peak rate,"), &told)];
    let seen = ways.into_iter().filter_map(|(who, name_at)| {
        let ratio = |pps: &f64| {
            let cost = |name: &str| cost_of(book, Topology::Host, name, *pps);
            Some((*pps, cost(name_at(*pps))? / cost("libpcap")?))
        };
        let (pps, worst) = rates.iter().filter_map(ratio).max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Seen {
            promise: format!(
                "{who} costs at most {} × of libpcap, per packet, with the kernel's part, at every rate from {} packets/s",
                plain(MOST),
                si(LEAST_PPS)
            ),
            topology: Some(Topology::Host),
            seen: format!("worst rate {} packets/s: {} × ({})", si(pps), plain(worst), name_at(pps)),
            is_kept: worst <= MOST,
        })
    });
    seen.collect()
}

fn memory(book: &Book) -> Vec<Seen> {
    let nic = Topology::Nic;
    let buffers =
        |name: &str| median(&at(book, nic, name, STANDARD_PPS), |sample| sample.memory_bytes.map(|bytes| bytes as f64));
    let smallest = PeerKind::all()
        .iter()
        .filter_map(|kind| Some((kind.name(), buffers(kind.name())?)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let searched =
        book.findings.iter().filter(|finding| finding.quantity == "least_ring_bytes" && finding.topology == nic);
    let least = searched.min_by(|a, b| a.value.total_cmp(&b.value));
    let Some((own, (name, other))) = least.zip(smallest) else { return Vec::new() };
    vec![Seen {
        promise: format!(
            "Ringtap at {} packets/s without loss: a smaller ring than any other receiver's buffers",
            si(STANDARD_PPS)
        ),
        topology: Some(nic),
        seen: format!("{} of {} against {} of {name}", bytes(own.value), own.receiver, bytes(other)),
        is_kept: own.value < other,
    }]
}

fn load(book: &Book) -> Vec<Seen> {
    let found = finding(book, Topology::Nic, OURS, "greatest_load_percent");
    let seen = found.map(|(percent, _)| Seen {
        promise: format!(
            "{OURS} at {} packets/s carries event processing of 85 % of the core without loss",
            si(STANDARD_PPS)
        ),
        topology: Some(Topology::Nic),
        seen: percent_text(percent),
        is_kept: percent >= 85.0,
    });
    seen.into_iter().collect()
}

fn soak(book: &Book) -> Vec<Seen> {
    let long = book.samples.iter().filter(|sample| sample.study == "soak" && sample.sent >= LONG_RUN);
    let seen = long.map(|sample| Seen {
        promise: "10⁹ packets without loss at 1 M packets/s or more".to_owned(),
        topology: Some(sample.topology),
        seen: format!("{} lost of {} at {} packets/s", sample.lost, si(sample.sent as f64), si(sample.sent_pps)),
        is_kept: sample.lost == 0 && sample.sent_pps >= 0.99e6,
    });
    seen.collect()
}

fn accounts(book: &Book) -> Vec<Seen> {
    let counted: Vec<i64> = book.samples.iter().filter_map(|sample| sample.unaccounted).collect();
    let unaccounted = counted.iter().fold(0u64, |sum, count| sum.saturating_add(count.unsigned_abs()));
    let seen = (!counted.is_empty()).then(|| Seen {
        promise: "Ringtap: no packet is unaccounted for, in any run".to_owned(),
        topology: None,
        seen: format!("{unaccounted} in {} runs", counted.len()),
        is_kept: unaccounted == 0,
    });
    seen.into_iter().collect()
}

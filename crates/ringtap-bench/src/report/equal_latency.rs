//! What a packet costs where nobody is later than libpcap: core use compared at equal latency.
//!
//! Owns the choice of the receiver to compare with. A bound of 1 ms beside a program that hands packets over after 12 or
//! 90 ms compares two different things; here the cheapest of ours that is no later, and loses no more, stands beside it.
//! The latency is from the transmit stamp to the handler, which both have. The cost is what a receiver adds to the idle core:
//! ticks and the hypervisor's interrupts come without a receiver too, and would draw every ratio towards 1 at low rates.

use crate::book::{Book, Delays, Sample, Topology};
use crate::run::NOBODY;

use super::number::{NONE, or_none, percent_text, plain, si};
use super::promises::{Seen, at, median, rates};
use super::sweep;
use super::table::Table;
use super::{Section, topology_name};

/// Ours: with the default peak rate, so that nothing is known of the traffic but the bound.
const OURS: [&str; 7] =
    ["hybrid 250us", "hybrid 1ms", "hybrid 2ms", "hybrid 3ms", "hybrid 10ms", "hybrid 80ms", "hybrid 100ms"];
/// When tcpdump handles a packet can't be seen from outside. It reads the same blocks of the kernel with a longer timeout, so it
/// is no earlier than libpcap's own loop in that run.
const PEERS: [&str; 2] = [LIBPCAP, "tcpdump"];
const LIBPCAP: &str = "libpcap";
/// Below it the cost of receiving is lost in the noise of topology host; above it the generator is at its end.
const RATES: std::ops::RangeInclusive<f64> = 20e3..=1e6;
/// Of the peer's cost per packet.
const MOST: f64 = 0.5;

/// A peer at one rate, and the cheapest of ours that is no later.
struct Pair<'b> {
    pps: f64,
    peer: &'static str,
    peer_p99_us: f64,
    peers: Vec<&'b Sample>,
    /// Name and cost above the idle core's as a part of the peer's; `None` when each of ours that was run is later, or loses more.
    ours: Option<(&'static str, f64)>,
}

/// One table: each rate with both costs, both latencies and the ratio.
pub(super) fn section(book: &Book) -> Section {
    let mut section = Section::new("equal-latency", "Cost at equal latency");
    let mut table = Table::new(
        "The cheapest hybrid receiver whose p99 is no later than the peer's, and which loses no greater share, beside that peer",
        [
            "topology, packets/s",
            "peer",
            "its core use",
            "its p99, µs",
            "ours",
            "core use",
            "p99, µs",
            "cost per packet above the idle core's: ours / peer",
        ],
    );
    for topology in [Topology::Nic, Topology::Host] {
        for pair in pairs(book, topology) {
            let own = pair.ours.map(|(name, _)| at(book, topology, name, pair.pps));
            let used =
                |samples: &[&Sample]| or_none(median(samples, |sample| Some(sample.core_use_percent)), percent_text);
            table.rows.push(vec![
                format!("{}, {}", topology_name(topology), si(pair.pps)),
                pair.peer.to_owned(),
                used(&pair.peers),
                plain(pair.peer_p99_us),
                pair.ours.map_or("none is as early", |(name, _)| name).to_owned(),
                own.as_deref().map_or_else(|| NONE.to_owned(), used),
                or_none(own.as_deref().and_then(p99_us), plain),
                or_none(pair.ours, |(_, ratio)| format!("{} ×", plain(ratio))),
            ]);
        }
    }
    if !table.rows.is_empty() {
        section.tables.push(table);
        section.text.push(
            "p99 from transmit stamp to handler; tcpdump's can't be seen from outside and is taken to be that of libpcap's own loop, \
             whose timeout is shorter than tcpdump's."
                .to_owned(),
        );
        section.text.push(match idle_percent(book) {
            Some(percent) => format!("The idle core's use, without a receiver: {}.", percent_text(percent)),
            None => "The idle core was not measured (--only rates,idle): nothing is taken off.".to_owned(),
        });
    }
    section
}

/// "At most half of the cost of a peer that is no earlier", for each topology and peer: the worst rate.
pub(super) fn promises(book: &Book) -> Vec<Seen> {
    let mut all = Vec::new();
    for topology in [Topology::Nic, Topology::Host] {
        for peer in PEERS {
            let pairs: Vec<Pair<'_>> = pairs(book, topology).into_iter().filter(|pair| pair.peer == peer).collect();
            let share = |pair: &Pair<'_>| pair.ours.map_or(f64::INFINITY, |(_, ratio)| ratio);
            let Some(worst) = pairs.iter().max_by(|a, b| share(a).total_cmp(&share(b))) else { continue };
            let seen = match worst.ours {
                Some((name, ratio)) => format!("worst rate {} packets/s: {} × ({name})", si(worst.pps), plain(ratio)),
                None => format!("at {} packets/s each of ours is later, or loses more", si(worst.pps)),
            };
            all.push(Seen {
                promise: format!(
                    "at a p99 no later than {peer}'s, at most {} × its cost per packet above the idle core's, from {} to {} packets/s",
                    plain(MOST),
                    si(*RATES.start()),
                    si(*RATES.end())
                ),
                topology: Some(topology),
                seen,
                is_kept: share(worst) <= MOST,
            });
        }
    }
    all
}

fn pairs(book: &Book, topology: Topology) -> Vec<Pair<'_>> {
    let mut pairs = Vec::new();
    let idle = idle_percent(book).unwrap_or(0.0);
    for pps in rates(book, topology, |pps| RATES.contains(&pps)) {
        let Some(peer_p99_us) = p99_us(&at(book, topology, LIBPCAP, pps)) else { continue };
        for peer in PEERS {
            let peers = at(book, topology, peer, pps);
            let Some(peer_cost) = cost_of(&peers, idle) else { continue };
            let most_lost = lost_share(&peers).unwrap_or(0.0);
            let candidates = OURS.into_iter().filter_map(|name| {
                let own = at(book, topology, name, pps);
                let fits = p99_us(&own)? <= peer_p99_us && lost_share(&own)? <= most_lost;
                fits.then_some((name, cost_of(&own, idle)? / peer_cost))
            });
            let ours = candidates.min_by(|a, b| a.1.total_cmp(&b.1));
            pairs.push(Pair { pps, peer, peer_p99_us, peers, ours });
        }
    }
    pairs
}

/// What the receiver's core uses while nothing is sent and nobody receives, percent.
fn idle_percent(book: &Book) -> Option<f64> {
    let idle = book.samples.iter().filter(|sample| sample.study == "idle" && sample.receiver == NOBODY);
    median(&idle.collect::<Vec<_>>(), |sample| Some(sample.core_use_percent))
}

/// Percent of the core per packet a second, above the idle core's.
fn cost_of(samples: &[&Sample], idle_percent: f64) -> Option<f64> {
    let per_packet = |sample: &Sample| {
        let received_pps = sweep::delivered_pps(sample).filter(|received_pps| *received_pps > 0.0)?;
        Some((sample.core_use_percent - idle_percent) / received_pps)
    };
    median(samples, per_packet).filter(|cost| *cost > 0.0)
}

fn p99_us(samples: &[&Sample]) -> Option<f64> {
    median(samples, |sample| sample.delivery.as_ref().map(|delays: &Delays| delays.p99))
}

fn lost_share(samples: &[&Sample]) -> Option<f64> {
    median(samples, |sample| (sample.sent > 0).then(|| sample.lost as f64 / sample.sent as f64))
}

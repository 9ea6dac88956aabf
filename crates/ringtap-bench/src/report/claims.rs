//! What receivers say they lost, beside what sequence numbers say.

use std::collections::BTreeMap;

use crate::book::{Book, Sample, Topology};

use super::look::Looks;
use super::number::{NONE, count, plain, si};
use super::plot::Axis;
use super::rows::{Dot, Row, Rows};
use super::scale::Kind;
use super::spread::{Spread, percent};
use super::table::Table;
use super::{Drawing, Figure, Section, sweep, topology_name};

/// All rounds of one receiver at one rate, added.
#[derive(Clone, Copy, Default)]
struct Totals {
    sent: u64,
    lost: u64,
    received: u64,
    claimed_received: Option<u64>,
    claimed_dropped: Option<u64>,
    numbered: bool,
}

fn added(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    more.map(|more| sum.unwrap_or(0).saturating_add(more)).or(sum)
}

impl Totals {
    fn add(&mut self, sample: &Sample) {
        self.sent = self.sent.saturating_add(sample.sent);
        self.lost = self.lost.saturating_add(sample.lost);
        self.received = self.received.saturating_add(sample.received);
        self.claimed_received = added(self.claimed_received, sample.claims.received);
        self.claimed_dropped = added(self.claimed_dropped, sample.claims.dropped);
        self.numbered |= sample.numbered;
    }

    fn row(&self, receiver: &str, topology: Topology, rate: f64) -> Vec<String> {
        let unsaid = match (self.claimed_dropped, self.lost) {
            (_, 0) => "nothing was lost".into(),
            (None, _) => "says nothing of drops".into(),
            (Some(claimed), lost) if claimed >= lost => "says all of it".into(),
            (Some(claimed), lost) => format!("{} lost unsaid", count(lost - claimed)),
        };
        vec![
            receiver.into(),
            topology_name(topology).into(),
            si(rate),
            count(self.sent),
            count(self.received),
            self.claimed_received.map_or_else(|| NONE.into(), count),
            count(self.lost),
            self.claimed_dropped.map_or_else(|| NONE.into(), count),
            unsaid,
            if self.numbered { "sequence numbers" } else { "packets handled" }.into(),
        ]
    }
}

const HEAD: [&str; 10] = [
    "receiver",
    "topology",
    "offered, packets/s",
    "sent",
    "received",
    "says: received",
    "lost",
    "says: dropped",
    "what it leaves unsaid",
    "counted by",
];

/// Worst rate of each receiver, drawn and as a table; all rates folded.
pub fn section(book: &Book, looks: &Looks) -> Section {
    let mut section = Section::new("claims", "What receivers claim, and what was lost");
    section.text.push(
        "Sums over all rounds at one rate. The loss is by sequence numbers where a receiver hands its packets out; its own \
         statistics stand beside. The open table has the rate at which each receiver lost most."
            .into(),
    );
    let mut worst = Table::new("Lost and claimed, each receiver's worst rate", HEAD);
    let mut all = Table::new("Lost and claimed, every rate", HEAD);
    for topology in [Topology::Nic, Topology::Host] {
        let mut rows = Vec::new();
        let samples = sweep::samples(book, topology);
        for receiver in looks.names() {
            let mut rates: BTreeMap<u64, Totals> = BTreeMap::new();
            let said = |sample: &Sample| sample.claims.received.or(sample.claims.dropped).is_some();
            for sample in samples.iter().filter(|sample| sample.receiver == *receiver && said(sample)) {
                if sample.offered_pps.is_finite() && sample.offered_pps >= 0.0 {
                    rates.entry(sample.offered_pps.to_bits()).or_default().add(sample);
                }
            }
            all.rows.extend(rates.iter().map(|(rate, totals)| totals.row(receiver, topology, f64::from_bits(*rate))));
            let Some((rate, totals)) = rates.iter().max_by_key(|(_, totals)| totals.lost) else { continue };
            worst.rows.push(totals.row(receiver, topology, f64::from_bits(*rate)));
            let shares = [Some(totals.lost), totals.claimed_dropped].into_iter().enumerate();
            let dots = shares.filter_map(|(kind, packets)| {
                let value = Spread::of(percent(packets?, totals.sent))?;
                Some(Dot { kind, value, at_least: false })
            });
            rows.push(Row { name: receiver.clone(), look: looks.look(receiver), dots: dots.collect() });
        }
        section.figures.extend(figure(rows, topology));
    }
    if !worst.rows.is_empty() {
        section.tables.push(worst);
        section.folded.push(all);
    }
    section
}

fn figure(rows: Vec<Row>, topology: Topology) -> Option<Figure> {
    let name = topology_name(topology);
    let mut table = Table::new("lost and claimed, % of sent", ["receiver", "lost", "says: dropped"]);
    for row in &rows {
        let share = |kind| {
            row.dots.iter().find(|dot| dot.kind == kind).map_or_else(|| NONE.into(), |dot| plain(dot.value.median))
        };
        table.rows.push(vec![row.name.clone(), share(0), share(1)]);
    }
    let x = Axis::new("% of sent", Kind::LogAndZero, plain);
    let kinds = vec!["lost".into(), "dropped, as it says".into()];
    (!rows.is_empty()).then(|| Figure {
        id: format!("{name}-claims"),
        title: format!("Lost and claimed, {name}"),
        caption: "Each receiver at the rate at which it lost most. Where the two marks part, the receiver's statistics hide a loss, or count another.".into(),
        drawing: Drawing::Rows(Rows { x, kinds, rows }),
        table,
    })
}

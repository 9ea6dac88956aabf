//! Drawings for documents: one SVG each, with its own style, light and dark by the reader's scheme.
//!
//! Owns which receivers stand beside Ringtap in the plot of core use, and the picture of a demo's ledger. They load nothing
//! and run no script, so that they can be shown as images.

use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use crate::book::{Book, Sample, Topology};

use super::look::{Group, Look, Mark};
use super::number::{coordinate, count, plain, si};
use super::plot::{Axis, Join, Line, Plot, Size};
use super::scale::Kind;
use super::spread::lines;
use super::sweep;

const STYLE: &str = include_str!("standalone.css");
/// Narrow, so that letters can still be read where a telephone shows all of it.
const SIZE: Size = Size { width: 770.0, left: 58.0, right: 474.0, least_height: 330.0, label_distance: 18.5 };
const WIDTH: f64 = SIZE.width;
/// Of a core, by other programs, beside which receivers can still be compared.
const UNDISTURBED_PERCENT: f64 = 5.0;

/// Receivers of the plot: name in the catalogue, name for a reader, colour.
const COMPARED: [(&str, &str, &str); 5] = [
    ("hybrid 1ms", "Ringtap, 1 ms", "h0"),
    ("interrupt", "interrupts", "w1"),
    ("udp-socket", "recv()", "w3"),
    ("libpcap", "libpcap", "w0"),
    ("busy", "spinning", "w2"),
];

/// Core use against rate: Ringtap, interrupts, recv(), libpcap, spinning; beside each name the delay of 99 of 100 packets from the
/// sender to the program, at the rate nearest to 148 kpps. `None` without Ringtap's samples in that topology.
pub(crate) fn core_use(book: &Book, topology: Topology) -> Option<String> {
    let order: Vec<String> = COMPARED.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let samples = sweep::samples(book, topology);
    let against_rate =
        |value: fn(&Sample) -> Option<f64>| lines(samples.iter().copied(), &order, |sample| sample.offered_pps, value);
    let measured = against_rate(|sample| Some(sample.core_use_percent));
    let late = against_rate(sweep::delivery_p99);
    let reference = sweep::reference_rate(&samples);
    let named = |name: &str, shown: &str| {
        let points = late.iter().find(|(of, _)| of == name).map(|(_, points)| points)?;
        let at = points.iter().find(|point| Some(point.x) == reference)?;
        Some(match at.y.median {
            us if us < 1e3 => format!("{shown}: p99 {us:.0}\u{a0}µs"),
            us => format!("{shown}: p99 {:.0}\u{a0}ms", us / 1e3),
        })
    };
    measured.iter().find(|(name, _)| *name == order[0])?;
    let drawn = measured.into_iter().filter_map(|(name, points)| {
        let place = COMPARED.iter().position(|(of, ..)| *of == name)?;
        let (_, shown, colour) = COMPARED[place];
        let group = if place == 0 { Group::Hybrid } else { Group::Peer };
        let look = Look { group, colour, mark: Mark::nth(place), dash: "" };
        let label = named(&name, shown).unwrap_or_else(|| shown.to_owned());
        Some(Line { name: label, look, points, hollow: Vec::new() })
    });
    let y = Axis { including: Some((0.0, 100.0)), ..Axis::new("core use, % of one core", Kind::Linear, plain) };
    let plot = Plot {
        x: Axis::new("offered rate, packets/s", Kind::Log, si),
        y,
        join: Join::Straight,
        lines: drawn.collect(),
        rules: Vec::new(),
        size: SIZE,
    };
    let place = match topology {
        Topology::Nic => "kernel's receive work on another core",
        Topology::Host => "kernel's receive work on the same core",
    };
    let title = format!("Core use against offered rate: receiver's core, {place}");
    let description = "Medians over rounds; bars from the least to the greatest round. p99: delay of 99 of 100 packets from the \
                       sender to the program, at the rate nearest to 148 kpps.";
    let svg = plot.svg("core-use", &title, description).into_string();
    let (head, body) = svg.split_once('>')?;
    Some(format!("{}><style>{STYLE}</style>{}{body}", head.replacen("<svg", &opening(), 1), paper().into_string()))
}

/// The ledgers of a demo, and who stood beside Ringtap, from the object that `ringtap demo --json` prints. The comparison is left out
/// where other programs had more than 5 % of the core: a peer, which is no real-time thread, loses by them. `None` where the object
/// lacks what is to be drawn.
pub(crate) fn demo(said: &Value) -> Option<String> {
    const ROW: f64 = 66.0;
    const ACT: f64 = 136.0;
    const ROWS_TOP: f64 = 2.0 * ACT + 52.0;
    let acts =
        [Sum::of(said, "10 s at 148 k packets/s")?, Sum::of(&said["ramp"], "1 k to 1 M packets/s and back in 8 s")?];
    let rows = said["side_by_side"].as_array()?.iter().map(Row::of).collect::<Option<Vec<_>>>()?;
    let rows = if rows.iter().all(|row| row.others_percent <= UNDISTURBED_PERCENT) { rows } else { Vec::new() };
    let beside = rows.first().map(|row| {
        format!("{} packets/s, kernel and receiver on one core: what arrived, what it cost", si(row.sent_pps))
    });
    let height = if rows.is_empty() { 2.0 * ACT + 20.0 } else { ROWS_TOP + ROW * rows.len() as f64 };
    let picture = html! {
        title { "ringtap demo: the ledgers" }
        desc { (acts[0].facts) }
        (paper())
        @for (place, act) in acts.iter().enumerate() { (act.draw(18.0 + ACT * place as f64)) }
        @if let Some(beside) = beside { text.head x="1" y=(ROWS_TOP - 20.0) { (beside) } }
        @for (place, row) in rows.iter().enumerate() { (row.draw(ROWS_TOP + ROW * place as f64)) }
    };
    let view = format!("{} viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><style>{STYLE}</style>", opening());
    Some(format!("{view}{}</svg>", picture.into_string()))
}

/// The ledger of one act.
struct Sum {
    head: &'static str,
    /// Number, its name, and the sign before it.
    terms: [(String, &'static str, &'static str); 4],
    facts: String,
}

impl Sum {
    fn of(act: &Value, head: &'static str) -> Option<Self> {
        let whole = |name: &str| act[name].as_u64().map(count);
        let others = act["others_percent"].as_f64().filter(|percent| *percent > UNDISTURBED_PERCENT);
        Some(Self {
            head,
            terms: [
                (whole("offered")?, "offered", ""),
                (whole("delivered")?, "delivered", "="),
                (whole("lost")?, "dropped, by cause", "+"),
                (signed(act["unaccounted"].as_i64()?), "unaccounted", "+"),
            ],
            facts: format!(
                "99 of 100 handled within {} µs of their arrival; {} % of one core{}",
                plain(act["latency_us"]["p99"].as_f64()?),
                plain(act["receiver_core_use_percent"].as_f64()?),
                others.map_or_else(String::new, |percent| format!(", which others kept busy ({percent:.0} %)")),
            ),
        })
    }

    fn draw(&self, y: f64) -> Markup {
        const PANEL: f64 = 172.0;
        const STEP: f64 = (WIDTH - 2.0 - PANEL) / 3.0;
        html! {
            text.head x="1" y=(y) { (self.head) }
            @for (place, (number, label, sign)) in self.terms.iter().enumerate() {
                @let x = 1.0 + place as f64 * STEP;
                @let middle = coordinate(x + PANEL / 2.0);
                rect.panel x=(coordinate(x)) y=(y + 12.0) width=(PANEL) height="62" rx="6" {}
                text.sum x=(middle) y=(y + 42.0) text-anchor="middle" { (number) }
                text.soft x=(middle) y=(y + 64.0) text-anchor="middle" { (label) }
                @if !sign.is_empty() {
                    text.sum.soft x=(coordinate(x - (STEP - PANEL) / 2.0)) y=(y + 51.0) text-anchor="middle" { (sign) }
                }
            }
            text.soft x="1" y=(y + 96.0) { (self.facts) }
        }
    }
}

/// One receiver of the comparison.
struct Row {
    name: String,
    sent_pps: f64,
    delivered: f64,
    core_percent: f64,
    lost: u64,
    claims_lost: Option<u64>,
    /// Of the core, by other programs; unknown: taken for all of it.
    others_percent: f64,
}

impl Row {
    fn of(said: &Value) -> Option<Self> {
        let (sent, received) = (said["sent"].as_u64()?, said["received"].as_u64()?);
        Some(Self {
            name: said["receiver"].as_str()?.to_owned(),
            sent_pps: said["sent_pps"].as_f64()?,
            delivered: received as f64 / sent.max(1) as f64,
            core_percent: said["core_use_percent"].as_f64()?,
            lost: sent.saturating_sub(received),
            claims_lost: said["says_lost"].as_u64(),
            others_percent: said["others_percent"].as_f64().unwrap_or(100.0),
        })
    }

    fn draw(&self, y: f64) -> Markup {
        const LEFT: f64 = 160.0;
        const LONG: f64 = 300.0;
        let colour = if self.name == "Ringtap" { "h0" } else { "p0" };
        let claims = self.claims_lost.map_or_else(|| "nothing".to_owned(), count);
        let long = |share: f64| coordinate(LONG * share.clamp(0.0, 1.0));
        let beside = LEFT + LONG + 14.0;
        html! {
            g.(colour).strong[self.name == "Ringtap"] {
                text x=(LEFT - 14.0) y=(y + 20.0) text-anchor="end" { (self.name) }
                rect.rail x=(LEFT) y=(y) width=(LONG) height="13" rx="2" {}
                rect.bar x=(LEFT) y=(y) width=(long(self.delivered)) height="13" rx="2" {}
                rect.rail x=(LEFT) y=(y + 18.0) width=(LONG) height="13" rx="2" {}
                rect.bar x=(LEFT) y=(y + 18.0) width=(long(self.core_percent / 100.0)) height="13" rx="2" opacity="0.45" {}
                text x=(beside) y=(y + 12.0) { (format!("{:.2} % arrived", self.delivered * 100.0)) }
                text x=(beside) y=(y + 30.0) { (plain(self.core_percent)) " % of the core" }
            }
            text.soft x=(beside) y=(y + 48.0) { "lost " (count(self.lost)) ", reports " (claims) }
        }
    }
}

fn signed(number: i64) -> String {
    format!("{}{}", if number < 0 { "−" } else { "" }, count(number.unsigned_abs()))
}

fn opening() -> String {
    format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\"")
}

fn paper() -> Markup {
    html! { (PreEscaped("<rect class=\"paper\" width=\"100%\" height=\"100%\"></rect>")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_demo_is_drawn_with_its_sum() {
        let act = json!({
            "offered": 1_480_000, "delivered": 1_480_000, "lost": 0, "unaccounted": -3,
            "receiver_core_use_percent": 4.2, "latency_us": {"p99": 812.0}, "others_percent": 0.4,
        });
        let side_by_side = |others: f64| {
            json!([
                {"receiver": "libpcap", "sent": 1000, "sent_pps": 5e5, "received": 900, "core_use_percent": 96.0, "says_lost": null, "others_percent": 0.1},
                {"receiver": "Ringtap <1>", "sent": 1000, "sent_pps": 5e5, "received": 1000, "core_use_percent": 40.0, "says_lost": 0, "others_percent": others},
            ])
        };
        let mut said = act.clone();
        said["ramp"] = act;
        said["side_by_side"] = side_by_side(0.2);
        let svg = demo(&said).unwrap();
        assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>") && svg.contains("prefers-color-scheme: dark"));
        assert!(svg.contains("1,480,000") && svg.contains("−3") && !svg.contains("kept busy"), "{svg}");
        assert!(svg.contains("Ringtap &lt;1&gt;") && svg.contains("90.00 % arrived"), "{svg}");
        said["side_by_side"] = side_by_side(30.0);
        said["others_percent"] = json!(96.7);
        let svg = demo(&said).unwrap();
        assert!(
            !svg.contains("arrived") && svg.contains("others kept busy (97 %)"),
            "disturbed, so nobody is compared: {svg}"
        );
        assert!(demo(&json!({"offered": 1})).is_none());
    }

    #[test]
    fn the_record_is_drawn() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/record/2026-11-23-bench");
        let book = crate::bench::load(&folder).unwrap();
        for topology in [Topology::Nic, Topology::Host] {
            let svg = core_use(&book, topology).unwrap();
            assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>"), "{svg:.200}");
            assert!(svg.contains("Ringtap, 1 ms: p99 ") && svg.contains("recv()") && !svg.contains("NaN"));
        }
        assert!(core_use(&Book::default(), Topology::Nic).is_none());
    }
}

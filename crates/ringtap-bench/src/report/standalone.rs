//! Drawings for documents: one SVG each, with its own style, light and dark by the reader's scheme.
//!
//! Owns which receivers stand beside Ringtap in the plot of core use, and the picture of a demo's ledger. They load nothing
//! and run no script, so that they can be shown as images.

use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use crate::book::{Book, Topology};

use super::look::{Group, Look, Mark};
use super::number::{count, plain, si};
use super::plot::{Axis, Join, Line, Plot};
use super::scale::Kind;
use super::spread::lines;
use super::sweep;

const STYLE: &str = include_str!("standalone.css");
const WIDTH: f64 = 1010.0;

/// Receivers of the plot: name in the catalogue, name for a reader, colour.
const COMPARED: [(&str, &str, &str); 5] = [
    ("hybrid 1ms", "Ringtap, bound 1 ms", "h0"),
    ("interrupt", "AF_XDP, interrupts", "w1"),
    ("udp-socket", "recv()", "w3"),
    ("libpcap", "libpcap", "w0"),
    ("busy", "AF_XDP, spinning", "w2"),
];

/// Core use against rate: Ringtap, interrupts, recv(), libpcap, spinning. `None` without Ringtap's samples in that topology.
pub(crate) fn core_use(book: &Book, topology: Topology) -> Option<String> {
    let order: Vec<String> = COMPARED.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let measured = lines(
        sweep::samples(book, topology),
        &order,
        |sample| sample.offered_pps,
        |sample| Some(sample.core_use_percent),
    );
    measured.iter().find(|(name, _)| *name == order[0])?;
    let drawn = measured.into_iter().filter_map(|(name, points)| {
        let place = COMPARED.iter().position(|(of, ..)| *of == name)?;
        let (_, shown, colour) = COMPARED[place];
        let group = if place == 0 { Group::Hybrid } else { Group::Peer };
        let look = Look { group, colour, mark: Mark::nth(place), dash: "" };
        Some(Line { name: shown.to_owned(), look, points, hollow: Vec::new() })
    });
    let y = Axis { including: Some((0.0, 100.0)), ..Axis::new("core use, % of one core", Kind::Linear, plain) };
    let plot = Plot {
        x: Axis::new("offered rate, packets/s", Kind::Log, si),
        y,
        join: Join::Straight,
        lines: drawn.collect(),
        rules: Vec::new(),
    };
    let place = match topology {
        Topology::Nic => "kernel's receive work on another core",
        Topology::Host => "kernel's receive work on the same core",
    };
    let title = format!("Core use against offered rate: receiver's core, {place}");
    let description = "Medians over rounds; bars from the least to the greatest round.";
    let svg = plot.svg("core-use", &title, description).into_string();
    let (head, body) = svg.split_once('>')?;
    Some(format!("{}><style>{STYLE}</style>{}{body}", head.replacen("<svg", &opening(), 1), paper().into_string()))
}

/// The ledger of a demo and who stood beside Ringtap, from the object that `ringtap demo --json` prints. `None` where it
/// lacks what is to be drawn.
pub(crate) fn demo(said: &Value) -> Option<String> {
    const ROW: f64 = 44.0;
    const ROWS_TOP: f64 = 196.0;
    let whole = |name: &str| said[name].as_u64();
    let sum = [
        ("offered", whole("offered")?.to_string(), ""),
        ("delivered", whole("delivered")?.to_string(), "="),
        ("dropped, each with its cause", whole("lost")?.to_string(), "+"),
        ("unaccounted", said["unaccounted"].as_i64()?.to_string(), "+"),
    ];
    let rows = said["side_by_side"].as_array()?.iter().map(Row::of).collect::<Option<Vec<_>>>()?;
    let facts = format!(
        "{} packets/s of 64 bytes; {} % of the receiver's core; p99 from arrival to handler {} µs",
        si(said["offered_pps"].as_f64()?),
        plain(said["receiver_core_use_percent"].as_f64()?),
        plain(said["latency_us"]["p99"].as_f64()?),
    );
    let beside = format!(
        "{} packets/s, kernel's receive work and receiver on one core: what arrived, and what it cost",
        si(rows.first()?.sent_pps)
    );
    let height = ROWS_TOP + ROW * rows.len() as f64 + 4.0;
    let picture = html! {
        title { "ringtap demo: the ledger" }
        desc { (facts) }
        (paper())
        text.head x="12" y="24" { "ringtap demo: every packet has its place in the ledger" }
        @for (place, (label, number, sign)) in sum.iter().enumerate() {
            @let x = 12.0 + place as f64 * 250.0;
            rect.panel x=(x) y="38" width="226" height="66" rx="6" {}
            text.sum x=(x + 113.0) y="72" text-anchor="middle" { (grouped(number)) }
            text.soft x=(x + 113.0) y="93" text-anchor="middle" { (label) }
            @if !sign.is_empty() { text.sum.soft x=(x - 12.0) y="79" text-anchor="middle" { (sign) } }
        }
        text.soft x="12" y="127" { (facts) }
        text.head x="12" y="168" { (beside) }
        @for (place, row) in rows.iter().enumerate() { (row.draw(ROWS_TOP + ROW * place as f64)) }
    };
    let view = format!("{} viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><style>{STYLE}</style>", opening());
    Some(format!("{view}{}</svg>", picture.into_string()))
}

/// One receiver of the comparison.
struct Row {
    name: String,
    sent_pps: f64,
    delivered: f64,
    core_percent: f64,
    lost: u64,
    claims_lost: Option<u64>,
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
        })
    }

    fn draw(&self, y: f64) -> Markup {
        const LEFT: f64 = 190.0;
        const LONG: f64 = 360.0;
        let colour = if self.name == "Ringtap" { "h0" } else { "p0" };
        let claims =
            self.claims_lost.map_or_else(|| "reports no losses".to_owned(), |lost| format!("reports {}", count(lost)));
        html! {
            g.(colour).strong[self.name == "Ringtap"] {
                text x=(LEFT - 14.0) y=(y + 17.0) text-anchor="end" { (self.name) }
                rect.rail x=(LEFT) y=(y) width=(LONG) height="11" rx="2" {}
                rect.bar x=(LEFT) y=(y) width=(format!("{:.1}", LONG * self.delivered.clamp(0.0, 1.0))) height="11" rx="2" {}
                rect.rail x=(LEFT) y=(y + 14.0) width=(LONG) height="11" rx="2" {}
                rect.bar x=(LEFT) y=(y + 14.0) width=(format!("{:.1}", LONG * (self.core_percent / 100.0).clamp(0.0, 1.0))) height="11" rx="2" opacity="0.45" {}
                text x=(LEFT + LONG + 14.0) y=(y + 10.5) {
                    (format!("{:.2} % delivered", self.delivered * 100.0)) "; lost " (count(self.lost)) ", " (claims)
                }
                text x=(LEFT + LONG + 14.0) y=(y + 25.0) { (plain(self.core_percent)) " % of the core" }
            }
        }
    }
}

/// `1480000` as `1,480,000`, also behind a minus.
fn grouped(number: &str) -> String {
    number.strip_prefix('-').map_or_else(
        || number.parse().map_or_else(|_| number.to_owned(), count),
        |positive| format!("−{}", positive.parse().map_or_else(|_| positive.to_owned(), count)),
    )
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
        let said = json!({
            "offered": 1_480_000, "delivered": 1_480_000, "lost": 0, "unaccounted": 0, "offered_pps": 148e3,
            "receiver_core_use_percent": 4.2, "latency_us": {"p99": 812.0},
            "side_by_side": [
                {"receiver": "libpcap", "sent": 1000, "sent_pps": 5e5, "received": 900, "core_use_percent": 96.0, "says_lost": null},
                {"receiver": "Ringtap <1>", "sent": 1000, "sent_pps": 5e5, "received": 1000, "core_use_percent": 40.0, "says_lost": 0},
            ],
        });
        let svg = demo(&said).unwrap();
        assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>") && svg.contains("prefers-color-scheme: dark"));
        assert!(svg.contains("Ringtap &lt;1&gt;") && svg.contains("90.00 % delivered"), "{svg}");
        assert!(demo(&json!({"offered": 1})).is_none());
    }

    #[test]
    fn the_record_is_drawn() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/record/2026-11-23-bench");
        let book = crate::bench::load(&folder).unwrap();
        for topology in [Topology::Nic, Topology::Host] {
            let svg = core_use(&book, topology).unwrap();
            assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>"), "{svg:.200}");
            assert!(svg.contains("Ringtap, bound 1 ms") && svg.contains("recv()") && !svg.contains("NaN"));
        }
        assert!(core_use(&Book::default(), Topology::Nic).is_none());
    }
}

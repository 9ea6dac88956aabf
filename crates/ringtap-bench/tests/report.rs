//! The report, from books that are made up: each section there exactly when its data is, nothing unescaped, nothing that a
//! browser can't draw. `cargo test -p ringtap-bench --test report` leaves `example-report.html` and `.md` in cargo's
//! directory for tests (`target/tmp`), to be looked at.

#[path = "report/example.rs"]
mod example;

use std::collections::BTreeSet;

use ringtap_bench::book::{Book, Delays, Finding, Fit, FitPoint, LossBursts, Missing, Parameter, Sample, Topology};
use ringtap_bench::report::{html, markdown};
use serde_json::json;

/// Identifiers of sections and figures in a page, in order.
fn ids(page: &str, element: &str) -> Vec<String> {
    let begin = format!("<{element} id=\"");
    page.split(&begin).skip(1).filter_map(|rest| rest.split('"').next()).map(Into::into).collect()
}

/// What must hold for every page.
#[track_caller]
fn sound(page: &str) {
    for drawing in page.split("<svg").skip(1) {
        let drawing = drawing.split("</svg>").next().unwrap();
        for bad in ["NaN", "inf", "Infinity"] {
            let in_attribute = drawing.split('"').skip(1).step_by(2).any(|value| value.contains(bad));
            assert!(!in_attribute, "{bad} in a drawing: {drawing:.300}");
        }
        assert!(drawing.contains("<title") && drawing.contains("<desc"), "a drawing without title or description");
    }
    let all: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(all.len(), all.iter().collect::<BTreeSet<_>>().len(), "an id twice: {all:?}");
    for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(all.contains(&target), "a link to {target}, which is not there");
    }
    for outside in ["http://", "https://", "<script", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "the page reaches outside: {outside}");
    }
    for element in ["svg", "g", "table", "tr", "td", "th", "details", "figure", "section", "line", "path", "text"] {
        let opened = page.matches(&format!("<{element} ")).count() + page.matches(&format!("<{element}>")).count();
        assert_eq!(
            opened,
            page.matches(&format!("</{element}>")).count(),
            "<{element}> is not closed as often as opened"
        );
    }
    for figure in page.split("<figure ").skip(1) {
        assert!(figure.contains("<details><summary>Table"), "a drawing without the table behind it");
    }
}

fn sample() -> Sample {
    example::book().samples.swap_remove(7)
}

#[test]
fn the_example_has_every_section() {
    let book = example::book();
    let page = html(&book);
    sound(&page);
    let directory = env!("CARGO_TARGET_TMPDIR");
    std::fs::write(format!("{directory}/example-report.html"), &page).unwrap();
    std::fs::write(format!("{directory}/example-report.md"), markdown(&book)).unwrap();
    assert_eq!(
        ids(&page, "section"),
        [
            "summary",
            "promises",
            "equal-latency",
            "nic-rates",
            "nic-studies",
            "nic-storms",
            "nic-napi",
            "host-rates",
            "host-studies",
            "host-storms",
            "host-napi",
            "claims",
            "models",
            "soak",
            "findings",
            "missing",
            "samples"
        ]
    );
    let figures = ids(&page, "figure");
    for name in [
        "nic-core-use",
        "nic-core-use-log",
        "nic-delivered",
        "nic-delivered-linear",
        "nic-loss",
        "nic-core-interrupts",
        "nic-interrupt-wakes",
        "nic-packets-per-poll",
        "nic-delivery-p50",
        "nic-delivery-p99",
        "nic-arrival-p99",
        "nic-poll-period-p99",
        "nic-mode-switches",
        "nic-cycles",
        "nic-steal",
        "nic-delivery-distribution",
        "nic-capacity",
        "nic-bursts",
        "nic-greatest-load",
        "nic-load-loss",
        "nic-memory",
        "nic-ring-loss",
        "nic-sizes",
        "nic-arrivals",
        "nic-storm-loss",
        "host-core-use",
        "host-storm-loss",
        "nic-claims",
        "model-0-nic",
    ] {
        assert!(figures.iter().any(|id| id == name), "{name} is not in {figures:?}");
    }
    assert!(!figures.iter().any(|id| id == "nic-cache-misses"), "no sample has cache misses");
}

#[test]
fn the_same_book_gives_the_same_report() {
    let book = example::book();
    assert_eq!(html(&book), html(&book.clone()));
    assert_eq!(markdown(&book), markdown(&book.clone()));
    // As it comes back from bench.json.
    let read: Book = serde_json::from_str(&serde_json::to_string(&book).unwrap()).unwrap();
    assert_eq!(html(&book), html(&read));
}

#[test]
fn an_empty_book_says_so() {
    let page = html(&Book::default());
    sound(&page);
    assert!(page.contains("No sample was taken"));
    assert_eq!(ids(&page, "section"), [""; 0]);
    assert!(markdown(&Book::default()).contains("No sample was taken"));
}

#[test]
fn sections_come_with_their_data() {
    let only = |study: &str| {
        let mut book = Book { samples: example::book().samples, ..Book::default() };
        book.samples.retain(|sample| sample.study == study && sample.topology == Topology::Host);
        let page = html(&book);
        sound(&page);
        (ids(&page, "section").join(" "), ids(&page, "figure").join(" "))
    };
    let (sections, figures) = only("rates");
    assert_eq!(sections, "summary promises equal-latency host-rates host-studies claims samples");
    assert!(figures.contains("host-bursts host-memory") && !figures.contains("sizes"), "{figures}");
    assert_eq!(only("sizes"), ("promises host-studies samples".into(), "host-sizes".into()));
    assert_eq!(only("arrivals"), ("promises host-studies samples".into(), "host-arrivals".into()));
    assert_eq!(only("load"), ("promises host-studies samples".into(), "host-load-loss".into()));
    assert_eq!(only("ring"), ("promises host-studies samples".into(), "host-ring-loss".into()));
    assert_eq!(only("storms"), ("summary promises host-storms samples".into(), "host-storm-loss".into()));
    assert!(only("napi").0 == "promises host-napi samples" && only("napi").1.contains("host-napi-delivered"));
    assert_eq!(only("soak"), ("".into(), "".into()), "the example's soak is on nic");

    let whole = example::book();
    let findings = Book { findings: whole.findings.clone(), ..Book::default() };
    assert_eq!(ids(&html(&findings), "section"), ["summary", "promises", "nic-studies", "host-studies", "findings"]);
    let fits = Book { fits: whole.fits.clone(), ..Book::default() };
    assert_eq!(ids(&html(&fits), "section"), ["models"]);
    let missing = Book { missing: whole.missing, ..Book::default() };
    assert_eq!(ids(&html(&missing), "section"), ["missing"]);
}

/// Runs at 148 k in topology nic: (receiver, core use, p99 in µs, lost), and the idle core's use where it was measured.
fn equal_latency(runs: &[(&str, f64, f64, u64)], idle_percent: Option<f64>) -> String {
    let runs = runs.iter().map(|&(receiver, core_use_percent, p99, lost)| {
        let mut run = sample();
        (run.study, run.receiver, run.topology, run.offered_pps) =
            ("rates".into(), receiver.into(), Topology::Nic, 148e3);
        (run.sent, run.lost, run.received, run.seconds) = (148_000, lost, 148_000 - lost, 1.0);
        run.core_use_percent = core_use_percent;
        run.delivery = (receiver != "tcpdump").then(|| Delays { p99, ..Delays::default() });
        run
    });
    let idle = idle_percent.map(|core_use_percent| {
        let (study, receiver) = ("idle".to_owned(), "no receiver".to_owned());
        Sample { study, receiver, core_use_percent, ..sample() }
    });
    let text = markdown(&Book { samples: runs.chain(idle).collect(), ..Book::default() });
    text.lines().filter(|line| line.contains("148 k") && line.contains(" × ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn costs_are_compared_with_the_cheapest_that_is_no_later() {
    let all = [
        ("hybrid 1ms", 4.0, 900.0, 0),
        ("hybrid 10ms", 2.0, 9_000.0, 0),
        ("hybrid 100ms", 1.0, 40_000.0, 0),
        ("libpcap", 8.0, 12_000.0, 0),
        ("tcpdump", 10.0, 0.0, 0),
    ];
    let text = equal_latency(&all, None);
    assert!(text.contains("libpcap's, at most 0.5 × its cost"), "{text}");
    assert!(text.contains("0.25 × (hybrid 10ms)"), "the cheapest within 12 ms: {text}");
    assert!(text.contains("0.2 × (hybrid 10ms)"), "tcpdump is no earlier than libpcap: {text}");
    assert!(!text.contains("hybrid 100ms"), "later than libpcap: {text}");

    let text = equal_latency(&all, Some(1.0));
    assert!(text.contains("0.143 × (hybrid 10ms)"), "(2 − 1) / (8 − 1), above the idle core's: {text}");
    assert!(text.contains("0.111 × (hybrid 10ms)"), "(2 − 1) / (10 − 1): {text}");

    let mut lossy = all;
    lossy[1].3 = 100;
    let text = equal_latency(&lossy, None);
    assert!(text.contains("0.5 × (hybrid 1ms)"), "who loses more is no equal: {text}");

    let mut early = all;
    early[3].2 = 500.0;
    let text = equal_latency(&early, None);
    assert!(text.contains("each of ours is later, or loses more"), "{text}");
}

#[test]
fn one_sample_is_enough() {
    for topology in [Topology::Nic, Topology::Host] {
        let book = Book { samples: vec![Sample { topology, ..sample() }], ..Book::default() };
        let page = html(&book);
        sound(&page);
        assert!(ids(&page, "figure").len() > 5);
        assert!(page.contains("no run was repeated"));
    }
}

#[test]
fn text_is_escaped() {
    let evil = "<script>alert('x')</script>\"><b onload=\"y\">&|\n# head";
    let mut book = example::book();
    book.samples.truncate(40);
    for sample in &mut book.samples {
        sample.receiver = format!("{evil}{}", sample.receiver);
        sample.arrivals = evil.into();
        sample.beside = Some(evil.into());
        sample.drops.insert(evil.into(), Some(1));
    }
    let mut storms = book.samples.clone();
    for sample in &mut storms {
        sample.study = "storms".into();
    }
    for sample in &mut book.samples {
        sample.beside = None;
    }
    book.samples.extend(storms);
    for finding in &mut book.findings {
        finding.note = evil.into();
        finding.quantity = evil.into();
        finding.study = evil.into();
    }
    for fit in &mut book.fits {
        fit.model = evil.into();
        fit.formula = evil.into();
        fit.points[0].label = evil.into();
        fit.parameters[0].name = evil.into();
    }
    book.missing.push(Missing { what: evil.into(), why: evil.into() });
    let environment = &mut book.environment;
    for text in [&mut environment.command, &mut environment.version, &mut environment.host, &mut environment.meter] {
        *text = evil.into();
    }
    environment.peers.insert(evil.into(), evil.into());
    environment.plans.insert(evil.into(), vec![evil.into()]);
    environment.doubts.push(evil.into());
    let page = html(&book);
    sound(&page);
    assert!(page.contains("&lt;script&gt;"));
    assert!(!page.contains("<b "), "an element of the book's text");
    // Indented blocks are verbatim in Markdown; elsewhere no element and no heading may come from the book.
    for line in markdown(&book).lines().filter(|line| !line.starts_with("    ")) {
        assert!(!line.contains("<script"), "{line}");
        assert!(!line.starts_with("# head"), "{line}");
    }
}

#[test]
fn wild_figures_are_drawn_or_left_out() {
    let wild = [0.0, -1.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e18];
    let mut book = example::book();
    let whole = book.samples.len();
    for (place, sample) in book.samples.iter_mut().enumerate() {
        let value = wild[place * wild.len() / whole];
        let other = wild[place % wild.len()];
        let delays = Delays {
            count: u64::MAX,
            mean: value,
            p50: other,
            p98: value,
            p99: value,
            p999: other,
            max: value,
            histogram: vec![(value, u64::MAX), (other, u64::MAX), (1.0, 0)],
        };
        sample.offered_pps = if place % 3 == 0 { value } else { sample.offered_pps };
        sample.sent_pps = other;
        sample.core_use_percent = value;
        sample.steal_percent = Some(other);
        sample.sent = if place % 2 == 0 { u64::MAX } else { 0 };
        sample.received = if place % 5 == 0 { u64::MAX } else { 0 };
        sample.lost = u64::MAX;
        sample.loss_bursts = Some(LossBursts {
            count: u64::MAX,
            longest: u64::MAX,
            by_length: vec![(0, 1), (u64::MAX, u64::MAX)],
            places: Vec::new(),
        });
        sample.memory_bytes = Some(u64::MAX);
        sample.claims.dropped = Some(u64::MAX);
        sample.unaccounted = Some(i64::MIN);
        sample.seconds = value;
        sample.load_ns = if sample.study == "load" { other } else { 0.0 };
        (sample.delivery, sample.arrival, sample.poll_period) =
            (Some(delays.clone()), Some(delays.clone()), Some(delays));
        (sample.cycles_per_packet, sample.cache_misses_per_packet) = (Some(value), Some(other));
    }
    for (place, value) in wild.into_iter().enumerate() {
        let parameter = Parameter { name: "p".into(), unit: "".into(), value, low: value, high: value };
        book.findings.push(Finding { value, values: vec![value, 1.0], ..book.findings[place].clone() });
        let point = |measured| FitPoint { label: "".into(), x: value, predicted: value, measured, held_back: true };
        let points = wild.into_iter().map(point).collect();
        book.fits.push(Fit { r_squared: Some(value), parameters: vec![parameter], points, ..book.fits[place].clone() });
    }
    book.environment.started_at = u64::MAX;
    let page = html(&book);
    sound(&page);
    let text = markdown(&book);
    for bad in ["NaN", "inf ", "inf%"] {
        assert!(!page.contains(bad) && !text.contains(bad), "{bad}");
    }
}

#[test]
fn losses_and_claims_stand_side_by_side() {
    let mut lossy = sample();
    lossy.receiver = "tcpdump".into();
    (lossy.sent, lossy.received, lossy.lost) = (1_000_000, 400_000, 600_000);
    (lossy.claims.received, lossy.claims.dropped) = (Some(400_000), Some(1000));
    let text = markdown(&Book { samples: vec![lossy], ..Book::default() });
    let row = text.lines().find(|line| line.contains("lost unsaid")).expect("a row of claims");
    for cell in ["| 1,000,000 |", "| 600,000 |", "| 1,000 |", "| 599,000 lost unsaid |"] {
        assert!(row.contains(cell), "{cell} in {row}");
    }
}

#[test]
fn figures_are_medians_with_their_extremes() {
    let round = |round, core_use_percent| Sample { round, core_use_percent, ..sample() };
    let samples = vec![round(0, 2.0), round(1, 90.0), round(2, 3.0)];
    let text = markdown(&Book { samples, ..Book::default() });
    assert!(text.contains("| 3 (2–90) |"), "{text}");
}

#[test]
fn a_loss_in_one_round_is_not_hidden_by_the_median() {
    let round = |round, lost| Sample { round, sent: 1_000_000, received: 1_000_000 - lost, lost, ..sample() };
    let text = markdown(&Book { samples: vec![round(0, 0), round(1, 0), round(2, 1)], ..Book::default() });
    let summary = text.split("## ").find(|section| section.starts_with("Seven criteria")).unwrap();
    assert!(summary.contains("0 % (0 %–1e-4 %)"), "{summary}");
}

#[test]
fn a_promise_that_was_not_kept_says_so() {
    let of = |receiver: &str, core_use_percent| Sample {
        receiver: receiver.into(),
        core_use_percent,
        offered_pps: 148e3,
        ..sample()
    };
    let book = |ours| Book { samples: vec![of("hybrid 1ms", ours), of("interrupt", 20.0)], ..Book::default() };
    let row = |book: &Book| {
        let text = markdown(book);
        let row = text.lines().find(|line| line.contains("best interrupt-driven")).expect("a row of the promise");
        row.to_owned()
    };
    assert!(row(&book(3.0)).contains("| yes | nic | 0.15 × (3 % against 20 % of interrupt) |"), "{}", row(&book(3.0)));
    assert!(row(&book(5.0)).contains("| no | nic | 0.25 × (5 % against 20 % of interrupt) |"), "{}", row(&book(5.0)));
    let alone = markdown(&Book { samples: vec![of("hybrid 1ms", 3.0)], ..Book::default() });
    assert!(!alone.contains("best interrupt-driven"), "no promise without runs");
    assert!(alone.contains("no packet is unaccounted for"), "{alone}");
}

#[test]
fn held_back_points_make_the_error() {
    let mut fit = example::book().fits.swap_remove(0);
    let point = |predicted, measured, held_back| FitPoint { label: "p".into(), x: 1.0, predicted, measured, held_back };
    fit.points =
        vec![point(200.0, 100.0, false), point(109.0, 100.0, true), point(99.0, 100.0, true), point(1.0, 0.0, true)];
    let text = markdown(&Book { fits: vec![fit], ..Book::default() });
    let row = text.lines().find(|line| line.contains("η = ")).expect("a row of the model");
    assert!(row.ends_with("| 4 | 3 | 5 % | 9 % |"), "{row}");
}

/// A run of the study `staged` at 148 k: of 10 pairs with a gap of 1 ms, so many were found in event time, and so many by arrival.
fn staged(receiver: &str, found: Option<u64>, by_arrival: u64, to_final_us: f64) -> Sample {
    let due = if found.is_some() { 10 } else { 0 };
    let cell = json!({
        "gap_us": 1000, "window_us": 5000, "pairs": 10, "delivered": 10, "due": due, "missed": found.map_or(0, |found| 10 - found),
        "by_event": found, "by_arrival": by_arrival,
    });
    let hop = Delays {
        count: 10,
        p99: to_final_us,
        max: to_final_us,
        histogram: vec![(to_final_us, 10)],
        ..Delays::default()
    };
    let evidence = json!({
        "cells": [cell], "hops": { "last packet to final": hop }, "not_handled": 0, "unexplained": 0,
    });
    Sample {
        study: "staged".into(),
        receiver: receiver.into(),
        workload: "one sensor".into(),
        topology: Topology::Nic,
        offered_pps: 148e3,
        reported: Some(json!({ "evidence": evidence })),
        ..Sample::default()
    }
}

#[test]
fn staged_attacks_are_told_by_who_finds_them() {
    let book = |found, to_final_us| Book {
        samples: vec![
            staged("ringtap-correlate", Some(found), 9, to_final_us),
            staged("suricata-syslog", None, 2, 1e3),
        ],
        ..Book::default()
    };
    let page = html(&book(10, 99e3));
    sound(&page);
    assert!(ids(&page, "section").contains(&"staged".to_owned()));
    assert_eq!(ids(&page, "figure").join(" "), "staged-hops", "a window of 5 ms is not among those drawn");
    let text = markdown(&book(10, 99e3)).replace('\u{a0}', " ");
    for row in [
        "| event time | one sensor | 148 k | none |",
        "| the same alarms by arrival | one sensor | 148 k | 1 (10 %) |",
        "| Suricata and syslog by arrival | one sensor | 148 k | 8 (80 %) |",
        "| yes | nic | 0 of 10 missed in 1 runs |",
    ] {
        assert!(text.contains(row), "{row} in {text}");
    }
    let kept =
        |text: &str| text.lines().filter(|line| line.contains("99 of 100 final")).any(|line| line.contains("| yes |"));
    assert!(kept(&text) && !kept(&markdown(&book(10, 200e3))));
    assert!(markdown(&book(9, 99e3)).contains("| no | nic | 1 of 10 missed in 1 runs |"));
    let mut strange = book(10, 99e3);
    strange.samples[0].reported = Some(json!({ "evidence": { "cells": 7 } }));
    strange.samples[1].offered_pps = f64::NAN;
    sound(&html(&strange));
}

#[test]
fn the_splitter_is_compared_with_mirred_of_the_same_traffic() {
    let of = |receiver: &str, core_use_percent, lost| Sample {
        study: "split".into(),
        receiver: receiver.into(),
        workload: "10 M packets".into(),
        topology: Topology::Host,
        offered_pps: 148e3,
        sent: 10_000_000,
        received: 10_000_000 - lost,
        lost,
        core_use_percent,
        ..Sample::default()
    };
    let text = |own, lost| {
        let samples = vec![of("ringtap-xdp", own, lost), of("ringtap-packet", 30.0, 0), of("tc-mirred", 40.0, 0)];
        markdown(&Book { samples, ..Book::default() })
    };
    let good = text(20.0, 0);
    assert!(good.contains("| yes | host | 0 of 10,000,000 lost; 0.5 × (20 % against 40 %) |"), "{good}");
    assert!(good.contains("| ringtap-packet | 10 M packets | host | 148 k | 30 | 0.75 |"), "{good}");
    assert!(text(21.0, 0).contains("| no | host | 0 of 10,000,000 lost; 0.525 ×"));
    assert!(text(20.0, 1).contains("| no | host | 1 of 10,000,000 lost"));
}

//! Owns: how it looks: the parts of the page, pages of items, the form for the token.
//! Does not: decide what is in them. All texts are escaped by maud; there is no other way into the markup.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use ringtap_output::{Severity, printable};
use ringtap_run::units;

use crate::account::{Latency, Losses, counted, ledger, per_second};
use crate::content::{Branch, Cell, Item, Part, Table};
use crate::figures::Family;
use crate::history::History;
use crate::serve::View;

pub(crate) const STYLE: &str = include_str!("../assets/style.css");
pub(crate) const SCRIPT: &str = include_str!("../assets/live.js");
/// How deep a tree is drawn.
const DEEPEST: usize = 32;

/// A part of the page that is replaced when it changed.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) html: String,
}

/// Those of the first page.
pub(crate) fn sections(view: &dyn View, history: &History, lists: &[Table]) -> Vec<Section> {
    let fixed = [
        ("verdict", verdict(view, history)),
        ("now", now(view, history)),
        ("ledger", ledger_table(history)),
        ("latency", latency(history)),
    ];
    let fixed = fixed.map(|(id, markup)| Section { id, html: markup.into_string() });
    let lists = lists.iter().map(|list| Section { id: list.id, html: table_section(list).into_string() });
    let account = Section { id: "account", html: account(history).into_string() };
    fixed.into_iter().chain(lists).chain([account]).collect()
}

/// The first page.
pub(crate) fn whole(view: &dyn View, sections: &[Section]) -> String {
    let body = html! {
        p #liveness .quiet { "as of this moment" }
        @for section in sections { (PreEscaped(&section.html)) }
    };
    document(view, &title(view), true, &body)
}

fn title(view: &dyn View) -> String {
    format!("ringtap {}", view.program())
}

fn document(view: &dyn View, heading: &str, is_live: bool, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (heading) " – " (printable(&view.object())) }
                link rel="stylesheet" href="/style.css";
                @if is_live {
                    script src="/live.js" defer {}
                    noscript { meta http-equiv="refresh" content="5"; }
                }
            }
            body {
                a .skip href="#main" { "Skip to the content" }
                header {
                    h1 { @if is_live { (heading) } @else { a href="/" { (title(view)) } } }
                    p { (printable(&view.object())) }
                }
                main #main tabindex="-1" { (body) }
                footer { p { "Ringtap " (env!("CARGO_PKG_VERSION")) ". Figures: " a href="/metrics" { "metrics" } "." } }
            }
        }
    };
    whole.into_string()
}

/// A form for the token.
pub(crate) fn login(was_wrong: bool) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "ringtap: token" }
                link rel="stylesheet" href="/style.css";
            }
            body {
                main #main {
                    h1 { "ringtap" }
                    @if was_wrong { p role="alert" .bad { "This is not the token." } }
                    form method="post" action="/login" {
                        label for="token" { "Token (of the file that --web-token names)" }
                        input #token type="password" name="token" autocomplete="off" autofocus required;
                        button type="submit" { "Open" }
                    }
                }
            }
        }
    };
    whole.into_string()
}

/// What is said where there is nothing.
pub(crate) fn missing(view: &dyn View) -> String {
    document(
        view,
        "Nothing here",
        false,
        &html! { h2 { "Nothing here" } p { "It may be gone. " a href="/" { "Back" } } },
    )
}

/// The page of an item.
pub(crate) fn item(view: &dyn View, item: &Item) -> String {
    let body = html! {
        p { a href="/" { "← all" } }
        h2 { (printable(&item.title)) }
        dl .facts { @for (name, value) in &item.facts { dt { (name) } dd { (cell(value)) } } }
        @for part in &item.parts {
            @match part {
                Part::Tree(heading, branches) => section { h3 { (heading) } (tree(branches, 0)) },
                Part::Table(list) => (table_section(list)),
            }
        }
    };
    document(view, &item.title, false, &body)
}

fn tree(branches: &[Branch], depth: usize) -> Markup {
    html! {
        @if depth > DEEPEST { p { "…" } } @else {
            ul .tree {
                @for branch in branches {
                    li { (cell(&branch.what)) @if !branch.below.is_empty() { (tree(&branch.below, depth + 1)) } }
                }
            }
        }
    }
}

fn cell(cell: &Cell) -> Markup {
    let text = printable(&cell.text);
    let class = cell.severity.map(|severity| match severity {
        Severity::Critical | Severity::Major => "bad",
        Severity::Minor | Severity::Warning => "warn",
        Severity::Indeterminate => "quiet",
    });
    html! {
        @if let Some(link) = &cell.link { a href=(link) id={ "to" (link) } class=[class] { (text) } }
        @else { span class=[class] { (text) } }
    }
}

fn table_section(list: &Table) -> Markup {
    html! {
        section id=(list.id) {
            @if !list.rows.is_empty() {
                div .wide {
                    table {
                        caption { (printable(&list.title)) }
                        thead { tr { @for column in list.columns { th scope="col" { (column) } } } }
                        tbody { @for row in &list.rows { tr { @for one in row { td { (cell(one)) } } } } }
                    }
                }
            } @else { h2 { (printable(&list.title)) } }
            @if let Some(note) = &list.note { p .quiet { (printable(note)) } }
        }
    }
}

fn verdict(view: &dyn View, history: &History) -> Markup {
    let faults = history.now().map(|figures| view.faults(figures)).unwrap_or_default();
    html! {
        section #verdict role="status" {
            @if let Some(losses) = Losses::of(history) {
                p class=(if losses.is_none() { "good" } else { "bad" }) { (losses.says()) }
            }
            @for fault in faults { p .bad { (printable(&fault)) } }
        }
    }
}

fn now(view: &dyn View, history: &History) -> Markup {
    let name = view.counter();
    let what = if name == "offered" { "Packets" } else { "Events" };
    let cpu = history.rate("engine_cpu_seconds");
    let rates = history.rates(name);
    html! {
        section #now {
            dl .tiles {
                div { dt { (what) " a second" } dd { (per_second(history.rate(name))) } }
                div { dt { (what) } dd { (counted(history.now().and_then(|figures| figures.sum(name)))) } }
                @if let Some(within) = Latency::of(history).within(0.99) {
                    div { dt { "99 % handled within" } dd { (within) } }
                }
                @if let Some(cpu) = cpu { div { dt { "Engines' CPU" } dd { (format!("{:.1} % of a core", cpu * 100.0)) } } }
            }
            @if rates.len() > 1 { (curve(what, &rates)) }
        }
    }
}

/// The rate of the last two minutes.
fn curve(what: &str, rates: &[(f64, f64)]) -> Markup {
    let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let scale = if most > 0.0 { 36.0 / most } else { 0.0 };
    let points: Vec<String> =
        rates.iter().map(|(ago, rate)| format!("{:.1},{:.1}", 240.0 - ago * 2.0, 38.0 - rate * scale)).collect();
    let says = format!("{what} a second in the last two minutes, at most {}", units::shown_rate(most));
    html! {
        figure {
            svg viewBox="0 0 240 40" role="img" aria-label=(says) preserveAspectRatio="none" {
                polyline points=(points.join(" ")) fill="none" vector-effect="non-scaling-stroke" {}
            }
            figcaption .quiet { (says) }
        }
    }
}

fn ledger_table(history: &History) -> Markup {
    let rows = ledger(history);
    html! {
        section #ledger {
            @if !rows.is_empty() {
                div .wide {
                    table {
                        caption { "Ledger" }
                        thead { tr { th scope="col" { "Packets" } th scope="col" { "In all" } th scope="col" { "A second" } } }
                        tbody {
                            @for row in &rows {
                                tr {
                                    th scope="row" { (printable(&row.says)) }
                                    td class=[(row.is_loss && row.all > Some(0.0)).then_some("bad")] { (row.counted()) }
                                    td { (row.per_second()) }
                                }
                            }
                        }
                    }
                }
                p .quiet { "While packets are on their way, those in the rings are among what no counter explains." }
            }
        }
    }
}

fn latency(history: &History) -> Markup {
    let rows = Latency::of(history).rows();
    html! {
        section #latency {
            @if !rows.is_empty() {
                div .wide {
                    table {
                        caption { "From a packet's arrival to its handling" }
                        thead { tr { th scope="col" { "Within" } th scope="col" { "Since the start" } th scope="col" { "Now" } } }
                        tbody {
                            @for [edge, all, last] in &rows { tr { th scope="row" { (edge) } td { (all) } td { (last) } } }
                        }
                    }
                }
            }
        }
    }
}

/// All that is counted.
fn account(history: &History) -> Markup {
    let families = history.now().map(|figures| figures.families.as_slice()).unwrap_or_default();
    let is_shown = |family: &&Family| family.kind != "histogram" && !family.samples.is_empty();
    html! {
        section #account {
            details #counters {
                summary { "All counters" }
                div .wide {
                    table {
                        thead { tr { th scope="col" { "Counter" } th scope="col" { "Value" } th scope="col" { "Says" } } }
                        tbody {
                            @for family in families.iter().filter(is_shown) {
                                @for sample in &family.samples {
                                    @let labels = sample.labels.iter().map(|(name, value)| format!("{name}={value}"));
                                    @let labels = labels.collect::<Vec<_>>().join(" ");
                                    tr {
                                        th scope="row" { (family.name) @if !labels.is_empty() { " " span .quiet { (printable(&labels)) } } }
                                        td { (number(sample.value)) }
                                        td { (family.help) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { counted(Some(value)) } else { format!("{value:.3}") }
}

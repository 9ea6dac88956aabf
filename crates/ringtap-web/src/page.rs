//! Owns: how it looks: the parts of the page, pages of items, the form for the token.
//! Does not: decide what is in them. All texts are escaped by maud; there is no other way into the markup.

use std::sync::Arc;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use ringtap_output::{Severity, printable};

use crate::account::{Account, LedgerRow, per_second};
use crate::content::{Branch, Cell, Item, Part, Table};
use crate::serve::View;

pub(crate) const STYLE: &str = include_str!("../assets/style.css");
pub(crate) const SCRIPT: &str = include_str!("../assets/live.js");
/// How deep a tree is drawn.
const DEEPEST: usize = 32;

/// A part of the page that is replaced when it changed.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) html: Arc<str>,
}

/// Those of the first page.
pub(crate) fn sections(account: &Account, lists: &[Table]) -> Vec<Section> {
    let first = [("verdict", verdict(account)), ("now", now(account))];
    let lists = lists.iter().map(|list| (list.id, table(list)));
    let all = first.into_iter().chain(lists).chain([("ledger", ledger(account)), ("latency", latency(account))]);
    all.map(|(id, markup)| Section { id, html: markup.into_string().into() }).collect()
}

/// The first page.
pub(crate) fn whole(view: &dyn View, sections: &[Section]) -> String {
    let body = html! {
        p #liveness .quiet { "as of this moment" }
        // Read out when it changes; it has no numbers that always do.
        p #grade .skip role="status" {}
        @for section in sections { section id=(section.id) { (PreEscaped(&section.html)) } }
    };
    document(view, &title(view), &Kind::Live, &body)
}

fn title(view: &dyn View) -> String {
    format!("ringtap {}", view.program())
}

/// What a page brings beside its content.
enum Kind {
    /// Its parts come anew by themselves.
    Live,
    /// It stays as it is.
    Still,
    /// It is asked for again after a while.
    Again,
}

/// A page of a program.
fn document(view: &dyn View, heading: &str, kind: &Kind, body: &Markup) -> String {
    let head = html! {
        @match kind {
            Kind::Live => { script src="/live.js" defer {} noscript { meta http-equiv="refresh" content="5"; } },
            Kind::Again => meta http-equiv="refresh" content="3";,
            Kind::Still => {},
        }
    };
    let body = html! {
        a .skip href="#main" { "Skip to the content" }
        header {
            h1 { @if matches!(kind, Kind::Live) { (heading) } @else { a href="/" { (title(view)) } } }
            p { (printable(&view.object())) }
        }
        main #main tabindex="-1" { (body) }
        footer { p { "Ringtap " (env!("CARGO_PKG_VERSION")) ". All counters: " a href="/metrics" { "metrics" } "." } }
    };
    shell(&format!("{heading} – {}", view.object()), &head, &body)
}

/// What all pages have.
fn shell(title: &str, head: &Markup, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (printable(title)) }
                link rel="stylesheet" href="/style.css";
                (head)
            }
            body { (body) }
        }
    };
    whole.into_string()
}

/// A form for the token.
pub(crate) fn login(was_wrong: bool) -> String {
    let body = html! {
        main #main {
            h1 { "ringtap" }
            @if was_wrong { p role="alert" .bad { "This is not the token." } }
            form method="post" action="/login" {
                label for="token" { "Token (of the file that --web-token names)" }
                input #token type="password" name="token" autocomplete="off" autofocus required;
                button type="submit" { "Open" }
            }
        }
    };
    shell("ringtap: token", &html! {}, &body)
}

/// What is said where there is nothing.
pub(crate) fn missing(view: &dyn View) -> String {
    let body = html! { h2 { "Nothing here" } p { "It may be gone. " a href="/" { "Back" } } };
    document(view, "Nothing here", &Kind::Still, &body)
}

/// What is said while other items are read; it asks again by itself.
pub(crate) fn busy(view: &dyn View) -> String {
    let body = html! {
        h2 { "Busy" }
        p { "What was asked for before is still being read. This page comes by itself." }
    };
    document(view, "Busy", &Kind::Again, &body)
}

/// What is said where an item can't be read.
pub(crate) fn unread(view: &dyn View, error: &ringtap::Error) -> String {
    let body =
        html! { h2 { "This can't be read" } p .bad { (printable(&error.to_string())) } p { a href="/" { "Back" } } };
    document(view, "This can't be read", &Kind::Still, &body)
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
                Part::Table(list) => section id=(list.id) { (table(list)) },
            }
        }
    };
    document(view, &item.title, &Kind::Still, &body)
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

fn table(list: &Table) -> Markup {
    html! {
        @if list.rows.is_empty() { h2 { (printable(&list.title)) } } @else {
            (wide(&list.title, list.columns, &list.rows.iter().map(|row| row.iter().map(cell).collect()).collect::<Vec<_>>()))
        }
        @if let Some(note) = &list.note { p .quiet { (printable(note)) } }
    }
}

/// A table that scrolls by itself where it is too wide, also by the keyboard.
fn wide(title: &str, columns: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div .wide tabindex="0" role="region" aria-label=(printable(title)) {
            table {
                caption { (printable(title)) }
                thead { tr { @for column in columns { th scope="col" { (column) } } } }
                tbody { @for row in rows { tr { @for cell in row { td { (cell) } } } } }
            }
        }
    }
}

fn verdict(account: &Account) -> Markup {
    html! {
        @if let Some((grade, text)) = &account.verdict { p class=(grade.name()) { (text) } }
        @for fault in &account.faults { p .bad { (printable(fault)) } }
    }
}

fn now(account: &Account) -> Markup {
    html! {
        dl .tiles { @for (name, value) in &account.tiles { div { dt { (name) } dd { (printable(value)) } } } }
        @if account.rates.len() > 1 { (curve(account)) }
    }
}

/// The rate of the last two minutes.
fn curve(account: &Account) -> Markup {
    let most = account.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let scale = if most > 0.0 { 36.0 / most } else { 0.0 };
    let point = |(ago, rate): &(f64, f64)| format!("{:.1},{:.1}", 240.0 - ago * 2.0, 38.0 - rate * scale);
    let points: Vec<String> = account.rates.iter().map(point).collect();
    let says = format!("{} a second in the last two minutes, at most {}", account.what, per_second(most));
    html! {
        figure {
            svg viewBox="0 0 240 40" role="img" aria-label=(says) preserveAspectRatio="none" {
                polyline points=(points.join(" ")) fill="none" vector-effect="non-scaling-stroke" {}
            }
            figcaption .quiet { (says) }
        }
    }
}

fn ledger(account: &Account) -> Markup {
    let row = |row: &LedgerRow| {
        let all = html! { span class=[row.is_loss.then_some("bad")] { (row.all) } };
        vec![html! { (row.says) }, all, html! { (row.rate) }]
    };
    let rows: Vec<Vec<Markup>> = account.ledger.iter().map(row).collect();
    html! {
        @if !rows.is_empty() {
            (wide("Ledger", &["Packets", "In all", "A second"], &rows))
            p .quiet { "Packets that are on their way are among what no counter explains." }
        }
    }
}

fn latency(account: &Account) -> Markup {
    let row = |row: &[String; 5]| row.iter().map(|text| html! { (text) }).collect();
    let rows: Vec<Vec<Markup>> = account.latencies.iter().map(row).collect();
    html! {
        @if !rows.is_empty() {
            (wide("How long after arrival", &["What", "Half within", "99 % within", "Longest", "99 % within, lately"], &rows))
        }
    }
}

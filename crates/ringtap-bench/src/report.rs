//! A benchmark to be read: one self-contained page, and its medians as Markdown.
//!
//! Owns the order of sections and the frame of the page. What a section shows is in the files beside, how it is drawn in
//! `plot` and `rows`; the figures themselves are [`Book`]'s. Nothing here measures, nothing depends on the day or
//! machine it is written on: the same book gives the same bytes. A section without data is left out. All text of the book
//! is escaped; the page loads nothing and runs no script.

mod claims;
mod distribution;
mod equal_latency;
mod fits;
mod forward;
mod head;
mod label;
mod look;
mod number;
mod packet_cost;
mod plot;
mod programs;
mod promises;
mod raw;
mod rows;
mod scale;
mod searches;
mod spread;
mod staged;
pub(crate) mod standalone;
mod storms;
mod studies;
mod summary;
mod sweep;
mod table;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::book::{Book, Topology};

use look::Looks;
use plot::Plot;
use rows::Rows;
use table::{Table, escape};

/// What captions refer to; numbered as in ARCHITECTURE.md.
const SOURCES: &str = "[1] A. Biswas, A High Performance Real-time Packet Capturing Architecture for Network Management Systems, M.A.Sc. thesis, \
    Concordia University, 2005. [2] A. Biswas, P. Sinha, Efficient real-time Linux interface for PCI devices: A study on hardening a \
    Network Intrusion Detection System. [3] K. Salah, A. Qahtan, Implementation and Experimental Performance Evaluation of a Hybrid Interrupt-Handling Scheme. \
    [4] S. Gallenmüller, Comparison of Memory Mapping Techniques for High-Speed Packet Processing, master's thesis, Technische Universität München, 2014.";

const STYLE: &str = include_str!("report/style.css");

/// What is drawn.
enum Drawing {
    Plot(Plot),
    Rows(Rows),
}

/// A drawing and the table behind it.
struct Figure {
    /// Unique in the page.
    id: String,
    title: String,
    /// What is to be seen, at which traffic, and the source's figure that it answers.
    caption: String,
    drawing: Drawing,
    table: Table,
}

/// A heading with what belongs under it.
struct Section {
    /// Unique in the page.
    id: String,
    title: String,
    text: Vec<String>,
    /// Tables that are always open.
    tables: Vec<Table>,
    figures: Vec<Figure>,
    /// Tables to be opened.
    folded: Vec<Table>,
}

impl Section {
    fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            text: Vec::new(),
            tables: Vec::new(),
            figures: Vec::new(),
            folded: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.figures.is_empty() && self.folded.is_empty()
    }
}

/// The whole report as one HTML file.
pub fn html(book: &Book) -> String {
    let sections = sections(book);
    let title = head::title(book);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    (head::html(book))
                }
                @if !sections.is_empty() { (contents(&sections)) }
                main { @for section in &sections { (section_html(section)) } }
                footer { p { "Medians over rounds; bars from the least to the greatest round. The raw samples are in " code { "bench.json" } " beside this page." } p { (SOURCES) } }
            }
        }
    }
    .into_string()
}

/// The medians as tables for a record.
pub fn markdown(book: &Book) -> String {
    let mut text = format!("# {}\n\n{}", escape(&head::title(book)), head::markdown(book));
    for section in sections(book).iter().filter(|section| section.id != raw::SECTION) {
        text += &format!("\n## {}\n", escape(&section.title));
        for paragraph in &section.text {
            text += &format!("\n{}\n", escape(paragraph));
        }
        for table in &section.tables {
            text += &format!("\n{}", table.markdown());
        }
        for figure in &section.figures {
            text += &format!(
                "\n### {}\n\n{}\n\n{}",
                escape(&figure.title),
                escape(&figure.caption),
                figure.table.markdown()
            );
        }
        for table in &section.folded {
            text += &format!("\n{}", table.markdown());
        }
    }
    text += &format!("\n{}\n", escape(SOURCES));
    // A record is searched: plain spaces.
    text.replace('\u{a0}', " ")
}

/// Those that have something to show, in reading order.
fn sections(book: &Book) -> Vec<Section> {
    let looks = Looks::of(book);
    let mut sections = vec![summary::section(book, &looks), promises::section(book), equal_latency::section(book)];
    for topology in [Topology::Nic, Topology::Host] {
        sections.push(sweep::section(book, &looks, topology));
        sections.extend(studies::sections(book, &looks, topology));
    }
    sections.extend(programs::sections(book));
    sections.push(forward::section(book));
    sections.push(staged::section(book));
    sections.push(packet_cost::section(book));
    sections.push(claims::section(book, &looks));
    sections.push(fits::section(book, &looks));
    sections.push(studies::soak(book));
    sections.push(raw::findings(book));
    sections.push(raw::missing(book));
    sections.push(raw::samples(book));
    sections.retain(|section| !section.is_empty());
    sections
}

fn contents(sections: &[Section]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ol {
                @for section in sections {
                    li {
                        a href={ "#" (section.id) } { (section.title) }
                        @if !section.figures.is_empty() {
                            ": "
                            @for (place, figure) in section.figures.iter().enumerate() {
                                @if place > 0 { ", " }
                                a.minor href={ "#" (figure.id) } { (figure.title) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn section_html(section: &Section) -> Markup {
    html! {
        section id=(section.id) {
            h2 { (section.title) }
            @for paragraph in &section.text { p { (paragraph) } }
            @for table in &section.tables { (table.html()) }
            @for figure in &section.figures {
                figure id=(figure.id) {
                    h3 { (figure.title) }
                    p.caption { (figure.caption) }
                    div.drawing {
                        @match &figure.drawing {
                            Drawing::Plot(plot) => (plot.svg(&figure.id, &figure.title, &figure.caption)),
                            Drawing::Rows(rows) => (rows.svg(&figure.id, &figure.title, &figure.caption)),
                        }
                    }
                    (figure.table.folded())
                }
            }
            @for table in &section.folded { (table.folded()) }
        }
    }
}

/// As it stands in names and headings.
fn topology_name(topology: Topology) -> &'static str {
    match topology {
        Topology::Nic => "nic",
        Topology::Host => "host",
    }
}

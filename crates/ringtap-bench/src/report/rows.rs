//! A plot with one row per receiver: values side by side on one axis, several marks in a row where there are several
//! kinds of them.
//!
//! Owns the geometry of one SVG, as [`super::plot`] does for two axes.

use maud::{Markup, html};

use super::label::shortened;
use super::look::{Group, Look, Mark};
use super::number::coordinate;
use super::plot::Axis;
use super::scale::Scale;
use super::spread::Spread;

const WIDTH: f64 = 1010.0;
const LEFT: f64 = 236.0;
const RIGHT: f64 = 980.0;
/// Least height of a row, and how far apart its marks of different kinds lie.
const LEAST_ROW: f64 = 22.0;
const KIND_DISTANCE: f64 = 5.0;
const NAME_LENGTH: usize = 34;
/// Width of one entry of the legend, and entries in a line of it.
const LEGEND_ENTRY: f64 = 238.0;
const LEGEND_COLUMNS: usize = 3;

/// One value in a row.
#[derive(Debug, Clone)]
pub struct Dot {
    /// Which of [`Rows::kinds`].
    pub kind: usize,
    /// Median and extremes.
    pub value: Spread,
    /// The true value is at least this.
    pub at_least: bool,
}

/// One receiver.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// What is marked.
    pub dots: Vec<Dot>,
}

/// The drawing's data.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The one axis.
    pub x: Axis,
    /// What the marks mean; a legend is drawn when there are several.
    pub kinds: Vec<String>,
    /// Receivers, from above.
    pub rows: Vec<Row>,
}

impl Rows {
    /// The drawing; `id` is of the figure, unique in the page.
    pub fn svg(&self, id: &str, title: &str, description: &str) -> Markup {
        let legend_lines = if self.kinds.len() > 1 { self.kinds.len().div_ceil(LEGEND_COLUMNS) } else { 0 };
        let top = 10.0 + legend_lines as f64 * 20.0;
        let height = (self.kinds.len() as f64 * KIND_DISTANCE + 6.0).max(LEAST_ROW);
        let bottom = top + self.rows.len() as f64 * height;
        let values = self.rows.iter().flat_map(|row| &row.dots).map(|dot| &dot.value);
        let scale = self.x.scale(values.flat_map(|value| [value.min, value.median, value.max]));
        html! {
            svg viewBox={ "0 0 " (coordinate(WIDTH)) " " (coordinate(bottom + 48.0)) } role="img"
                aria-labelledby={ (id) "-t " (id) "-d" } {
                title id={ (id) "-t" } { (title) }
                desc id={ (id) "-d" } { (description) }
                @if legend_lines > 0 { (self.legend()) }
                (self.axis(&scale, top, bottom))
                @for (place, row) in self.rows.iter().enumerate() { (self.row(row, &scale, top + (place as f64 + 0.5) * height)) }
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            g.legend {
                @for (kind, name) in self.kinds.iter().enumerate() {
                    @let x = LEFT + (kind % LEGEND_COLUMNS) as f64 * LEGEND_ENTRY + 6.0;
                    @let y = 10.0 + (kind / LEGEND_COLUMNS) as f64 * 20.0;
                    path.mark d=(Mark::nth(kind).path()) transform={ "translate(" (coordinate(x)) " " (coordinate(y)) ")" } {}
                    text x=(coordinate(x + 10.0)) y=(coordinate(y + 4.0)) { title { (name) } (shortened(name, 34)) }
                }
            }
        }
    }

    fn axis(&self, scale: &Scale, top: f64, bottom: f64) -> Markup {
        html! {
            g.axes {
                @for tick in scale.ticks() {
                    @let x = coordinate(across(scale, tick.value));
                    line.minor[!tick.labelled] x1=(x) x2=(x) y1=(coordinate(top)) y2=(coordinate(bottom)) {}
                    @if tick.labelled {
                        text x=(x) y=(coordinate(bottom + 17.0)) text-anchor="middle" { ((self.x.write)(tick.value)) }
                    }
                }
                text.name x=(coordinate((LEFT + RIGHT) / 2.0)) y=(coordinate(bottom + 40.0)) text-anchor="middle" { (self.x.name()) }
            }
        }
    }

    fn row(&self, row: &Row, scale: &Scale, y: f64) -> Markup {
        html! {
            g.row.strong[row.look.group == Group::Hybrid].(row.look.colour) {
                text x=(coordinate(LEFT - 10.0)) y=(coordinate(y + 4.0)) text-anchor="end" {
                    title { (row.name) }
                    (shortened(&row.name, NAME_LENGTH))
                }
                line.guide x1=(coordinate(LEFT)) x2=(coordinate(RIGHT)) y1=(coordinate(y)) y2=(coordinate(y)) {}
                @for dot in row.dots.iter().filter(|dot| scale.holds(dot.value.median)) {
                    @let y = y + (dot.kind as f64 - (self.kinds.len() - 1) as f64 / 2.0) * KIND_DISTANCE;
                    @let x = across(scale, dot.value.median);
                    @let (from, to) = (across(scale, dot.value.min), across(scale, dot.value.max));
                    g {
                        title {
                            (row.name)
                            @if self.kinds.len() > 1 { ", " (self.kinds[dot.kind]) }
                            ": " @if dot.at_least { "at least " } (dot.value.text(self.x.write))
                            @if dot.value.rounds > 1 { ", " (dot.value.rounds) " rounds" }
                        }
                        @if to > from { line.whisker x1=(coordinate(from)) x2=(coordinate(to)) y1=(coordinate(y)) y2=(coordinate(y)) {} }
                        path.mark d=(Mark::nth(dot.kind).path()) transform={ "translate(" (coordinate(x)) " " (coordinate(y)) ")" } {}
                        @if dot.at_least { path.arrow d={ "M" (coordinate(x + 6.0)) " " (coordinate(y)) "h12m-4 -3.5l4 3.5l-4 3.5" } {} }
                    }
                }
            }
        }
    }
}

fn across(scale: &Scale, value: f64) -> f64 {
    LEFT + scale.share(value) * (RIGHT - LEFT)
}

//! A plot with two axes: lines through medians with their extremes, or single marks, labelled at their ends.
//!
//! Owns the geometry of one SVG; colours are classes of the style sheet, what is plotted is said by callers.

use maud::{Markup, html};

use super::label;
use super::look::{Group, Look};
use super::number::coordinate;
use super::scale::{Kind, Scale};
use super::spread::{Point, Spread};

const TOP: f64 = 14.0;
const BELOW: f64 = 52.0;
const LABEL_LENGTH: usize = 30;

/// Lengths of a drawing, in units of its view; how large letters are beside them is the style sheet's.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Of the whole, labels included.
    pub width: f64,
    /// Where the plot begins.
    pub left: f64,
    /// Where it ends, and labels begin.
    pub right: f64,
    /// Of the plot, unless labels need more.
    pub least_height: f64,
    /// From one label to the next.
    pub label_distance: f64,
}

impl Size {
    /// Of a report on a screen.
    pub const REPORT: Self =
        Self { width: 1010.0, left: 82.0, right: 760.0, least_height: 360.0, label_distance: 14.5 };
}

/// One axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Spacing.
    pub kind: Kind,
    /// How ticks and titles of marks are written.
    pub write: fn(f64) -> String,
    /// Ends that the axis has at least.
    pub including: Option<(f64, f64)>,
}

impl Axis {
    /// An axis as wide as its data.
    pub fn new(label: impl Into<String>, kind: Kind, write: fn(f64) -> String) -> Self {
        Self { label: label.into(), kind, write, including: None }
    }

    /// Quantity, unit and spacing.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Linear => self.label.clone(),
            Kind::Log | Kind::Log2 => format!("{} (log)", self.label),
            Kind::LogAndZero => format!("{} (log, and 0)", self.label),
        }
    }

    /// Around `values`, and what the axis has at least.
    pub fn scale(&self, values: impl IntoIterator<Item = f64>) -> Scale {
        let scale = Scale::around(self.kind, values);
        self.including.map_or(scale, |(low, high)| scale.including(low, high))
    }
}

/// How the points of a line hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// Straight from one to the next.
    Straight,
    /// Level until the next: a distribution.
    Steps,
    /// Not at all.
    None,
}

/// What was measured of one receiver.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// How it is drawn.
    pub look: Look,
    /// Abscissae ascending.
    pub points: Vec<Point>,
    /// Points drawn hollow: by position.
    pub hollow: Vec<bool>,
}

/// A line that is no measurement, such as "all delivered".
#[derive(Debug, Clone)]
pub struct Rule {
    /// What it stands for.
    pub name: String,
    /// Its corners.
    pub points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Debug, Clone)]
pub struct Plot {
    /// Abscissa.
    pub x: Axis,
    /// Ordinate.
    pub y: Axis,
    /// How points hang together.
    pub join: Join,
    /// Measurements.
    pub lines: Vec<Line>,
    /// What they are to be seen against.
    pub rules: Vec<Rule>,
    /// How large it is drawn.
    pub size: Size,
}

/// The drawing's frame and scales.
struct Frame {
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Frame {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.left + self.x.share(x) * (self.right - self.left), self.bottom - self.y.share(y) * (self.bottom - TOP))
    }

    fn holds(&self, point: &Point) -> bool {
        self.x.holds(point.x) && self.y.holds(point.y.median)
    }
}

impl Plot {
    /// Whether anything can be seen on these axes.
    pub fn is_empty(&self) -> bool {
        let frame = self.frame();
        !self.lines.iter().flat_map(|line| &line.points).any(|point| frame.holds(point))
    }

    fn frame(&self) -> Frame {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let Size { left, right, least_height, label_distance, .. } = self.size;
        let labels = self.lines.len() as f64 * label_distance;
        Frame {
            x: self.x.scale(points().map(|point| point.x)),
            y: self.y.scale(points().flat_map(|point| [point.y.min, point.y.median, point.y.max])),
            left,
            right,
            bottom: TOP + labels.max(least_height),
        }
    }

    /// The drawing; `id` is of the figure, unique in the page.
    pub fn svg(&self, id: &str, title: &str, description: &str) -> Markup {
        let frame = self.frame();
        let height = frame.bottom + BELOW;
        html! {
            svg viewBox={ "0 0 " (coordinate(self.size.width)) " " (coordinate(height)) } role="img"
                aria-labelledby={ (id) "-t " (id) "-d" } {
                title id={ (id) "-t" } { (title) }
                desc id={ (id) "-d" } { (description) }
                (self.axes(&frame))
                @for rule in &self.rules { (draw_rule(rule, &frame)) }
                // Peers first, so that what is to be compared with them lies on top.
                @for line in self.lines.iter().rev() { (self.line(line, &frame)) }
                (self.labels(&frame))
            }
        }
    }

    fn axes(&self, frame: &Frame) -> Markup {
        let middle = (frame.left + frame.right) / 2.0;
        html! {
            g.axes {
                @for tick in frame.x.ticks() {
                    @let x = coordinate(frame.at(tick.value, 0.0).0);
                    line.minor[!tick.labelled] x1=(x) x2=(x) y1=(coordinate(TOP)) y2=(coordinate(frame.bottom)) {}
                    @if tick.labelled {
                        text x=(x) y=(coordinate(frame.bottom + 17.0)) text-anchor="middle" { ((self.x.write)(tick.value)) }
                    }
                }
                @for tick in frame.y.ticks() {
                    @let y = frame.at(0.0, tick.value).1;
                    line.minor[!tick.labelled] x1=(coordinate(frame.left)) x2=(coordinate(frame.right)) y1=(coordinate(y)) y2=(coordinate(y)) {}
                    @if tick.labelled {
                        text x=(coordinate(frame.left - 7.0)) y=(coordinate(y + 4.0)) text-anchor="end" { ((self.y.write)(tick.value)) }
                    }
                }
                text.name x=(coordinate(middle)) y=(coordinate(frame.bottom + 40.0)) text-anchor="middle" { (self.x.name()) }
                text.name transform={ "translate(14 " (coordinate((TOP + frame.bottom) / 2.0)) ") rotate(-90)" }
                    text-anchor="middle" { (self.y.name()) }
            }
        }
    }

    fn line(&self, line: &Line, frame: &Frame) -> Markup {
        let seen: Vec<(usize, &Point)> =
            line.points.iter().enumerate().filter(|(_, point)| frame.holds(point)).collect();
        let path = self.path(&seen, frame);
        html! {
            g.series.strong[line.look.group == Group::Hybrid].(line.look.colour) {
                title { (line.name) }
                @if self.join != Join::None && seen.len() > 1 {
                    path.line d=(path) stroke-dasharray=[(!line.look.dash.is_empty()).then_some(line.look.dash)] {}
                }
                // A distribution is marked where it ends: every edge of its histogram would be too many.
                @let marked = if self.join == Join::Steps { seen.len().saturating_sub(1) } else { 0 };
                @for (place, point) in &seen[marked..] { (self.point(line, *place, point, frame)) }
            }
        }
    }

    fn path(&self, seen: &[(usize, &Point)], frame: &Frame) -> String {
        let mut path = String::new();
        for (place, (_, point)) in seen.iter().enumerate() {
            let (x, y) = frame.at(point.x, point.y.median);
            if place > 0 && self.join == Join::Steps {
                path += &format!("H{}V{}", coordinate(x), coordinate(y));
            } else {
                let step = if place == 0 { 'M' } else { 'L' };
                path += &format!("{step}{} {}", coordinate(x), coordinate(y));
            }
        }
        path
    }

    fn point(&self, line: &Line, place: usize, point: &Point, frame: &Frame) -> Markup {
        let (x, y) = frame.at(point.x, point.y.median);
        let held_back = line.hollow.get(place).copied().unwrap_or(false);
        let Spread { min, max, rounds, .. } = point.y;
        html! {
            g {
                title {
                    (line.name) " at " ((self.x.write)(point.x)) ": " (point.y.text(self.y.write))
                    @if rounds > 1 { ", " (rounds) " rounds" }
                    @if held_back { ", held back" }
                }
                @if max > min {
                    line.whisker x1=(coordinate(x)) x2=(coordinate(x))
                        y1=(coordinate(frame.at(point.x, min).1)) y2=(coordinate(frame.at(point.x, max).1)) {}
                }
                path.mark.hollow[held_back] d=(line.look.mark.path()) transform={ "translate(" (coordinate(x)) " " (coordinate(y)) ")" } {}
            }
        }
    }

    /// A name for each line at its end, moved apart, with a thin leader to where the line ends.
    fn labels(&self, frame: &Frame) -> Markup {
        let ends: Vec<(&Line, f64, f64)> = self
            .lines
            .iter()
            .filter_map(|line| {
                let last = line.points.iter().rev().find(|point| frame.holds(point))?;
                let (x, y) = frame.at(last.x, last.y.median);
                Some((line, x, y))
            })
            .collect();
        // Distributions all end at the bottom, so there the one that reaches farthest is named first.
        let wanted = |end: &(&Line, f64, f64)| if self.join == Join::Steps { end.2 - end.1 / 1000.0 } else { end.2 };
        let wanted: Vec<f64> = ends.iter().map(wanted).collect();
        let placed = label::apart(&wanted, self.size.label_distance, TOP + 4.0, frame.bottom - 2.0);
        html! {
            g.labels {
                @for ((line, x, y), label) in ends.iter().zip(&placed) {
                    g.(line.look.colour) {
                        @if self.join == Join::Straight {
                            polyline.leader points={ (coordinate(*x)) "," (coordinate(*y)) " " (coordinate(frame.right)) "," (coordinate(*y)) " "
                                (coordinate(frame.right + 16.0)) "," (coordinate(*label)) } {}
                        }
                        path.mark d=(line.look.mark.path()) transform={ "translate(" (coordinate(frame.right + 22.0)) " " (coordinate(*label)) ")" } {}
                        text.strong[line.look.group == Group::Hybrid] x=(coordinate(frame.right + 31.0)) y=(coordinate(label + 4.0)) {
                            title { (line.name) }
                            (label::shortened(&line.name, LABEL_LENGTH))
                        }
                    }
                }
            }
        }
    }
}

fn draw_rule(rule: &Rule, frame: &Frame) -> Markup {
    let corners = rule.points.iter().filter(|(x, y)| frame.x.holds(*x) && frame.y.holds(*y));
    let corners: Vec<String> = corners
        .map(|(x, y)| {
            let (x, y) = frame.at(*x, *y);
            format!("{},{}", coordinate(x), coordinate(y))
        })
        .collect();
    html! {
        g.rule { title { (rule.name) } polyline points=(corners.join(" ")) {} }
    }
}

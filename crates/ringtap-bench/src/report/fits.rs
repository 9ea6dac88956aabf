//! Models: parameters, and predictions beside measurements.

use crate::book::{Book, Fit, FitPoint, Topology};

use super::look::Looks;
use super::number::{NONE, or_none, percent_text, plain, si};
use super::plot::{Axis, Join, Line, Plot, Rule, Size};
use super::scale::Kind;
use super::spread::{Point, Spread};
use super::table::Table;
use super::{Drawing, Figure, Section, topology_name};

/// Points farther from the diagonal than this are outside the thin lines: what `ringtap plan` must keep.
const TOLERANCE: f64 = 0.10;

/// Parameters and quality as tables, one plot of prediction against measurement for each model and topology.
pub fn section(book: &Book, looks: &Looks) -> Section {
    let mut section = Section::new("models", "Models");
    let mut quality = Table::new(
        "Models and how well they predict; errors are of the points held back when the model was fitted",
        ["model", "receiver", "topology", "formula", "r²", "points", "held back", "median error", "worst error"],
    );
    let mut parameters = Table::new(
        "Parameters, with 95 % confidence intervals",
        ["parameter", "value", "low", "high", "unit", "model", "receiver", "topology"],
    );
    for fit in &book.fits {
        let held_back = Spread::of(fit.points.iter().filter(|point| point.held_back).filter_map(error).map(f64::abs));
        let topology = topology_name(fit.topology);
        quality.rows.push(vec![
            fit.model.clone(),
            fit.receiver.clone(),
            topology.into(),
            fit.formula.clone(),
            or_none(fit.r_squared.filter(|value| value.is_finite()), |value| format!("{value:.4}")),
            fit.points.len().to_string(),
            fit.points.iter().filter(|point| point.held_back).count().to_string(),
            or_none(held_back, |error| percent_text(error.median)),
            or_none(held_back, |error| percent_text(error.max)),
        ]);
        parameters.rows.extend(fit.parameters.iter().map(|parameter| {
            vec![
                parameter.name.clone(),
                plain(parameter.value),
                plain(parameter.low),
                plain(parameter.high),
                parameter.unit.clone(),
                fit.model.clone(),
                fit.receiver.clone(),
                topology.into(),
            ]
        }));
    }
    section.tables = [quality, parameters].into_iter().filter(|table| !table.rows.is_empty()).collect();
    section.figures = figures(book, looks);
    section
}

/// Of the prediction, in percent of the measurement.
fn error(point: &FitPoint) -> Option<f64> {
    let error = (point.predicted / point.measured - 1.0) * 100.0;
    (point.measured != 0.0 && error.is_finite()).then_some(error)
}

fn figures(book: &Book, looks: &Looks) -> Vec<Figure> {
    let mut kinds: Vec<(&str, Topology)> = Vec::new();
    for fit in &book.fits {
        if !kinds.contains(&(&fit.model, fit.topology)) {
            kinds.push((&fit.model, fit.topology));
        }
    }
    let fits = |(model, topology): (&str, Topology)| {
        let of = |fit: &&Fit| fit.model == model && fit.topology == topology;
        book.fits.iter().filter(of).collect::<Vec<&Fit>>()
    };
    kinds.into_iter().enumerate().filter_map(|(place, kind)| figure(place, kind, &fits(kind), looks)).collect()
}

/// What a model predicts, with its unit.
fn quantity(model: &str) -> (String, fn(f64) -> String) {
    match model {
        "core_use" => ("core use, % of one core".into(), plain),
        "c_io" => ("C_IO, cycles per packet".into(), plain),
        "capacity" => ("no-loss capacity, packets/s".into(), si),
        "cliff" => ("cliff, packets/s".into(), si),
        "ring" => ("least ring, slots".into(), plain),
        "packet_cost" => ("core use, cycles a second".into(), si),
        "work_loop" => ("time, cycles".into(), plain),
        other => (format!("{other}, in the unit of the model"), plain),
    }
}

fn figure(place: usize, (model, topology): (&str, Topology), fits: &[&Fit], looks: &Looks) -> Option<Figure> {
    let (quantity, write) = quantity(model);
    let name = topology_name(topology);
    let mut table = Table::new(
        format!("{quantity}: predicted and measured"),
        ["receiver", "point", "predicted", "measured", "error", "held back"],
    );
    let mut lines = Vec::new();
    for fit in fits {
        let mut line = Line {
            name: fit.receiver.clone(),
            look: looks.look(&fit.receiver),
            points: Vec::new(),
            hollow: Vec::new(),
        };
        let mut points: Vec<&FitPoint> = fit.points.iter().collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        for point in points {
            table.rows.push(vec![
                fit.receiver.clone(),
                point.label.clone(),
                write(point.predicted),
                write(point.measured),
                error(point).map_or_else(|| NONE.into(), percent_text),
                if point.held_back { "yes" } else { "no" }.into(),
            ]);
            if let Some(y) = Spread::of([point.predicted]).filter(|_| point.measured.is_finite()) {
                line.points.push(Point { x: point.measured, y });
                line.hollow.push(point.held_back);
            }
        }
        lines.push(line);
    }
    let positive = |value: &f64| *value > 0.0;
    let values =
        || lines.iter().flat_map(|line| &line.points).flat_map(|point| [point.x, point.y.median]).filter(positive);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let rule =
        |name: &str, factor: f64| Rule { name: name.into(), points: vec![(low, low * factor), (high, high * factor)] };
    let rules = if low < high {
        vec![
            rule("prediction = measurement", 1.0),
            rule("10 % above", 1.0 + TOLERANCE),
            rule("10 % below", 1.0 - TOLERANCE),
        ]
    } else {
        Vec::new()
    };
    let axis = |what: &str| {
        let including = (low < high).then_some((low / 1.15, high * 1.15));
        Axis { including, ..Axis::new(format!("{what} {quantity}"), Kind::Log, write) }
    };
    let plot = Plot { x: axis("measured"), y: axis("predicted"), join: Join::None, lines, rules, size: Size::REPORT };
    (!plot.is_empty()).then(|| Figure {
        id: format!("model-{place}-{name}"),
        title: format!("Prediction and measurement: {model}, {name}"),
        caption: "On the diagonal the model is right; the thin lines are 10 % off. Hollow marks were held back when the model was fitted.".into(),
        drawing: Drawing::Plot(plot),
        table,
    })
}

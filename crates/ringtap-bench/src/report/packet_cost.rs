//! What a packet costs: both estimates beside each other and beside the source's, and the work loop's calibration.

use crate::book::{Book, Fit, Parameter};
use crate::cost_model::packet_cost::{
    BY_REGRESSION, BY_SATURATION, CALIBRATION, KNEE, MODEL, PER_LOOK, PER_WAKE, TASK_SLOPE,
};

use super::number::{NONE, or_none, percent_text, plain};
use super::table::Table;
use super::{Section, topology_name};

/// Estimates that differ by more than this have to be explained, percent.
const AGREEMENT_PERCENT: f64 = 15.0;
/// Cycles a packet of \[4] Table 9.1, on its machine.
const SOURCE: [(&str, f64); 3] = [("netmap", 178.0), ("PF_RING ZC", 110.0), ("DPDK", 105.0)];

fn find<'f>(fit: &'f Fit, name: &str) -> Option<&'f Parameter> {
    fit.parameters.iter().find(|parameter| parameter.name == name && parameter.value.is_finite())
}

/// Value, and in brackets the interval.
fn shown(parameter: Option<&Parameter>) -> String {
    or_none(parameter, |of| format!("{} ({} to {})", plain(of.value), plain(of.low), plain(of.high)))
}

pub fn section(book: &Book) -> Section {
    let mut section = Section::new("packet-cost", "What a packet costs");
    let fits: Vec<&Fit> = book.fits.iter().filter(|fit| fit.model == MODEL).collect();
    if fits.is_empty() {
        return section;
    }
    section.text.push(
        "Cycles of the time stamp counter for each packet, without added work ([4] §8, Table 9.1, Figs. 8.2, 9.5, 9.6). By saturation: work is added \
         until throughput falls, and beyond that C_IO = F/T − C_task. By regression: core use below saturation on packets, wake-ups and work. In \
         topology nic the kernel's part ran on the other core and is in neither; in topology host it is in both. After a sleep the same work \
         costs more (cold caches, the core's clock), which is in C_wake, and where a wake-up finds few packets in C_IO by regression. The \
         source's figures are of receiving and sending by drivers that spin."
            .into(),
    );
    section.tables.push(estimates(&fits));
    section.tables.push(busy(&fits));
    section.tables.extend(book.fits.iter().find(|fit| fit.model == CALIBRATION).map(calibration));
    section
}

fn estimates(fits: &[&Fit]) -> Table {
    let mut table = Table::new(
        "C_IO by both estimates, cycles a packet, with 95 % intervals",
        [
            "of",
            "topology",
            "by saturation",
            "by regression",
            "difference",
            "C_wake, cycles",
            "slope of the work",
            "knee",
        ],
    );
    for fit in fits {
        let (saturation, regression) = (find(fit, BY_SATURATION), find(fit, BY_REGRESSION));
        let difference = saturation.zip(regression).filter(|(saturation, _)| saturation.value > 0.0);
        let difference = difference.map(|(saturation, regression)| (regression.value / saturation.value - 1.0) * 100.0);
        let judged = |percent: f64| {
            let verdict = if percent.abs() <= AGREEMENT_PERCENT { "" } else { ", not within 15 %" };
            format!("{}{verdict}", percent_text(percent))
        };
        let knee = or_none(find(fit, KNEE), |of| format!("{} to {}", plain(of.low), plain(of.high)));
        table.rows.push(vec![
            fit.receiver.clone(),
            topology_name(fit.topology).into(),
            shown(saturation),
            shown(regression),
            or_none(difference, judged),
            shown(find(fit, PER_WAKE)),
            shown(find(fit, TASK_SLOPE)),
            knee,
        ]);
    }
    for (name, cycles) in SOURCE {
        let none = || NONE.to_owned();
        table.rows.push(vec![
            format!("forwarding by {name}, [4] Table 9.1"),
            none(),
            plain(cycles),
            none(),
            none(),
            none(),
            none(),
            none(),
        ]);
    }
    table
}

fn busy(fits: &[&Fit]) -> Table {
    let mut table = Table::new(
        "A thread that spins: cycles of an empty look, and of all empty looks for each packet",
        ["of", "topology", "C_poll, cycles", "at packets/s", "C_busy, cycles a packet"],
    );
    for fit in fits {
        for parameter in &fit.parameters {
            let Some(rate) = parameter.name.strip_prefix("C_busy at ") else { continue };
            table.rows.push(vec![
                fit.receiver.clone(),
                topology_name(fit.topology).into(),
                shown(find(fit, PER_LOOK)),
                rate.trim_end_matches(" pps").to_owned(),
                shown(Some(parameter)),
            ]);
        }
    }
    table
}

fn calibration(fit: &Fit) -> Table {
    let of = |name: &str| or_none(find(fit, name), |parameter| plain(parameter.value));
    let caption = format!(
        "The work loop, calibrated by RDTSCP: cycles = {} + {} · turns, worst deviation {} %",
        of("intercept"),
        of("slope"),
        of("worst deviation"),
    );
    let mut table = Table::new(caption, ["turns", "cycles measured", "by the line", "deviation"]);
    for point in &fit.points {
        let deviation = (point.measured / point.predicted - 1.0) * 100.0;
        table.rows.push(vec![
            plain(point.x),
            plain(point.measured),
            plain(point.predicted),
            if deviation.is_finite() { percent_text(deviation) } else { NONE.into() },
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Topology;

    #[test]
    fn both_estimates_stand_beside_the_sources() {
        let parameter = |name: &str, value: f64| Parameter {
            name: name.to_owned(),
            unit: "cycles".to_owned(),
            value,
            low: value - 1.0,
            high: value + 1.0,
        };
        let fit = Fit {
            model: MODEL.to_owned(),
            receiver: "capture xdp".to_owned(),
            topology: Topology::Nic,
            formula: String::new(),
            parameters: vec![
                parameter(BY_SATURATION, 100.0),
                parameter(BY_REGRESSION, 130.0),
                parameter("C_busy at 20000 pps", 9.0),
            ],
            r_squared: None,
            points: Vec::new(),
        };
        assert!(section(&Book::default()).is_empty());
        let section = section(&Book { fits: vec![fit], ..Book::default() });
        let row = &section.tables[0].rows[0];
        assert!(row[4].contains("30") && row[4].contains("not within 15"), "{row:?}");
        assert!(section.tables[0].rows.iter().any(|row| row[0].contains("DPDK") && row[2] == "105"));
        assert_eq!(section.tables[1].rows[0][3], "20000");
    }
}

//! Owns: what figures say, for page and terminal alike: what was lost, the ledger row by row, how long packets waited.
//! Does not: draw.

use ringtap_run::units;

use crate::figures::{Below, since, within};
use crate::history::History;

/// What of the packets was lost; there is no account of packets without a number of those that came.
#[derive(Debug, Clone, PartialEq)]
pub struct Losses {
    offered: f64,
    by_cause: Vec<(String, f64)>,
}

impl Losses {
    /// As of the newest look.
    pub fn of(history: &History) -> Option<Self> {
        let figures = history.now()?;
        let by_cause = figures.lost().into_iter().filter(|(_, count)| *count > 0.0).collect();
        Some(Self { offered: figures.sum("offered")?, by_cause })
    }

    /// Whether nothing was.
    pub fn is_none(&self) -> bool {
        self.by_cause.is_empty()
    }

    /// It in a sentence.
    pub fn says(&self) -> String {
        let offered = counted(Some(self.offered));
        if self.is_none() {
            return format!("Nothing lost: {offered} packets came.");
        }
        let all = self.by_cause.iter().map(|(_, count)| count).sum();
        let causes: Vec<String> =
            self.by_cause.iter().map(|(cause, count)| format!("{} {cause}", counted(Some(*count)))).collect();
        format!("Lost: {} of {offered} packets ({}).", counted(Some(all)), causes.join(", "))
    }
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRow {
    /// What is counted.
    pub says: String,
    /// In all; `None`: not known.
    pub all: Option<f64>,
    /// A second, since the look before.
    pub rate: Option<f64>,
    /// It counts what is lost.
    pub is_loss: bool,
}

impl LedgerRow {
    /// The number in all.
    pub fn counted(&self) -> String {
        counted(self.all)
    }

    /// The rate.
    pub fn per_second(&self) -> String {
        per_second(self.rate)
    }
}

/// The ledger; nothing where packets are not counted.
pub fn ledger(history: &History) -> Vec<LedgerRow> {
    let Some(figures) = history.now().filter(|figures| figures.family("offered").is_some()) else { return Vec::new() };
    let fixed = [("offered", "came"), ("delivered", "handled"), ("filtered", "nobody asked for")];
    let row = |(name, says): (&str, &str)| LedgerRow {
        says: says.to_owned(),
        all: figures.sum(name),
        rate: history.rate(name),
        is_loss: false,
    };
    let before = history.before().map(|(figures, seconds)| (figures.lost(), seconds));
    let lost = figures.lost().into_iter().map(|(cause, all)| {
        let rate = before.as_ref().and_then(|(old, seconds)| Some(((all - old.get(&cause)?) / seconds).max(0.0)));
        LedgerRow { says: format!("lost: {cause}"), all: Some(all), rate, is_loss: true }
    });
    let unaccounted = LedgerRow {
        says: "no counter explains".to_owned(),
        all: figures.sum("unaccounted"),
        rate: None,
        is_loss: false,
    };
    fixed.into_iter().map(row).chain(lost).chain([unaccounted]).collect()
}

/// From arrival to handling: since the start, and between the last two looks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency {
    all: Vec<Below>,
    last: Option<Vec<Below>>,
}

impl Latency {
    /// As of the newest look.
    pub fn of(history: &History) -> Self {
        const NAME: &str = "to_handling_seconds";
        let all = history.now().map(|figures| figures.buckets(NAME)).unwrap_or_default();
        let last = history.before().map(|(before, _)| since(&all, &before.buckets(NAME)));
        Self { all, last }
    }

    /// The bound that this share kept between the last two looks; `None`: nothing came.
    pub fn within(&self, share: f64) -> Option<String> {
        within(self.last.as_deref()?, share).map(edge)
    }

    /// Each edge, with the shares below it since the start and now.
    pub fn rows(&self) -> Vec<[String; 3]> {
        if self.all.last().is_none_or(|all| all.count <= 0.0) {
            return Vec::new();
        }
        let share = |buckets: Option<&[Below]>, at: usize| match buckets.and_then(|all| all.get(at).zip(all.last())) {
            Some((below, all)) if all.count > 0.0 => format!("{:.3} %", below.count / all.count * 100.0),
            _ => "–".to_owned(),
        };
        let row = |(at, below): (usize, &Below)| {
            [edge(below.edge_s), share(Some(&self.all), at), share(self.last.as_deref(), at)]
        };
        self.all.iter().enumerate().map(row).collect()
    }
}

fn edge(seconds: f64) -> String {
    if seconds.is_infinite() { "any time".to_owned() } else { units::shown_us(seconds * 1e6) }
}

/// A number, or that it is not known.
pub(crate) fn counted(value: Option<f64>) -> String {
    match value {
        None => "unknown".to_owned(),
        Some(value) if value < 0.0 => format!("−{}", units::grouped(-value as u64)),
        Some(value) => units::grouped(value as u64),
    }
}

/// A rate, or that there is none yet.
pub(crate) fn per_second(rate: Option<f64>) -> String {
    rate.map_or_else(|| "–".to_owned(), units::shown_rate)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::figures::Figures;

    fn look(offered: u64, lost: u64, below: u64) -> Figures {
        let text = format!(
            "# TYPE ringtap_x_offered counter\nringtap_x_offered_total {offered}\n\
             # TYPE ringtap_x_dropped counter\nringtap_x_dropped_total{{cause=\"ring_full\"}} {lost}\n\
             # TYPE ringtap_x_to_handling_seconds histogram\nringtap_x_to_handling_seconds_bucket{{le=\"0.001\"}} {below}\n\
             ringtap_x_to_handling_seconds_bucket{{le=\"+Inf\"}} {offered}\n"
        );
        Figures::read(&text, "x")
    }

    #[test]
    fn what_is_lost_is_said_and_what_is_unknown_is_not_0() {
        let (mut history, start) = (History::default(), Instant::now());
        assert_eq!(Losses::of(&history), None);
        history.add(start, look(1000, 0, 1000));
        assert_eq!(Losses::of(&history).unwrap().says(), "Nothing lost: 1,000 packets came.");
        history.add(start + Duration::from_secs(2), look(3000, 12, 2000));
        let losses = Losses::of(&history).unwrap();
        assert!(!losses.is_none());
        assert_eq!(losses.says(), "Lost: 12 of 3,000 packets (12 ring_full).");
        let rows = ledger(&history);
        let row = |says: &str| rows.iter().find(|row| row.says == says).unwrap();
        assert_eq!((row("came").rate, row("lost: ring_full").rate), (Some(1000.0), Some(6.0)));
        assert_eq!(
            (row("handled").counted(), row("no counter explains").counted()),
            ("unknown".into(), "unknown".into())
        );
        let latency = Latency::of(&history);
        assert_eq!(latency.rows()[0], ["1.0 ms", "66.667 %", "50.000 %"].map(str::to_owned));
        assert_eq!((latency.within(0.5).unwrap(), latency.within(0.99).unwrap()), ("1.0 ms".into(), "any time".into()));
    }
}

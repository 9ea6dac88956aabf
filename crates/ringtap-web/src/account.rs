//! Owns: what is said of a program, for page and terminal alike: what was lost, the ledger row by row, rates, latencies.
//! Does not: draw. What can't be read is unknown here too: never 0, and never a promise.

use ringtap::ledger::Ledger;
use ringtap_run::units;
use serde_json::{Value, json};

use crate::history::History;

/// How good what is said is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grade {
    Good,
    Unknown,
    Bad,
}

impl Grade {
    /// The word for it, which is the page's class, too.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "warn",
            Self::Bad => "bad",
        }
    }
}

/// A row of the ledger: what is counted, in all, a second; whether it is a loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LedgerRow {
    pub(crate) says: String,
    pub(crate) all: String,
    pub(crate) rate: String,
    pub(crate) is_loss: bool,
}

/// What is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) verdict: Option<(Grade, String)>,
    pub(crate) faults: Vec<String>,
    /// Name and value of what is told first.
    pub(crate) tiles: Vec<(String, String)>,
    pub(crate) ledger: Vec<LedgerRow>,
    /// Name, half within, 99 % within, longest, 99 % within lately.
    pub(crate) latencies: Vec<[String; 5]>,
    /// What comes, and how many a second: seconds ago, and rate.
    pub(crate) what: &'static str,
    pub(crate) rates: Vec<(f64, f64)>,
}

impl Account {
    pub(crate) fn of(history: &History) -> Self {
        let Some(now) = history.now() else { return Self::default() };
        let before = history.before();
        let rate = |now: u64, before: u64, seconds: f64| per_second(now.saturating_sub(before) as f64 / seconds);
        let came = before.map(|(before, seconds)| rate(now.count, before.count, seconds));
        let mut tiles = vec![
            (format!("{} a second", now.what), came.unwrap_or_else(|| "–".to_owned())),
            (now.what.to_owned(), units::grouped(now.count)),
        ];
        let lately = |name: &str| {
            let (_, all) = now.latencies.iter().find(|(known, _)| *known == name)?;
            let (_, old) = before?.0.latencies.iter().find(|(known, _)| *known == name)?;
            Some(all.since(old)).filter(|lately| lately.count() > 0)
        };
        let within = |quantile: f64, values: &ringtap::histogram::HistogramSnapshot| {
            units::shown_us(values.quantile_ns(quantile) as f64 / 1000.0)
        };
        if let Some((name, values)) = now.latencies.first().and_then(|(name, _)| Some((name, lately(name)?))) {
            tiles.push((format!("99 % {name} within"), within(0.99, &values)));
        }
        if let Some(((before, seconds), cpu)) = before.zip(now.engine_cpu)
            && let Some(old) = before.engine_cpu
        {
            let share = cpu.saturating_sub(old).as_secs_f64() / seconds * 100.0;
            tiles.push(("engines' CPU".to_owned(), format!("{share:.1} % of a core")));
        }
        tiles.extend(now.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let latencies = now.latencies.iter().filter(|(_, values)| values.count() > 0).map(|(name, values)| {
            let longest = units::shown_us(values.max_ns() as f64 / 1000.0);
            let lately = lately(name).map_or_else(|| "–".to_owned(), |values| within(0.99, &values));
            [(*name).to_owned(), within(0.5, values), within(0.99, values), longest, lately]
        });
        let old = before.and_then(|(before, seconds)| Some((before.ledger.as_ref()?, seconds)));
        let overdue = history.overdue().map(|age| format!("This is {} s old: the program is busy.", age.as_secs()));
        Self {
            verdict: now.ledger.as_ref().map(|ledger| verdict(ledger, old.map(|(old, _)| old), &now.lost_behind)),
            faults: overdue.into_iter().chain(now.faults.iter().cloned()).collect(),
            tiles,
            ledger: now.ledger.as_ref().map(|ledger| rows(ledger, old, &now.lost_behind)).unwrap_or_default(),
            latencies: latencies.collect(),
            what: now.what,
            rates: history.rates(),
        }
    }

    /// As an object.
    pub(crate) fn json(&self) -> Value {
        let verdict = self.verdict.as_ref().map(|(grade, text)| json!({"grade": grade.name(), "text": text}));
        let ledger = self
            .ledger
            .iter()
            .map(|row| json!({"says": row.says, "all": row.all, "a_second": row.rate, "loss": row.is_loss}));
        let rates: Vec<u64> = self.rates.iter().map(|(_, rate)| *rate as u64).collect();
        json!({
            "verdict": verdict, "faults": self.faults, "tiles": self.tiles, "ledger": ledger.collect::<Vec<_>>(),
            "latencies": self.latencies, "rates": rates,
        })
    }
}

/// What was lost, or that it is not known; `before` is the ledger as it was a moment ago.
fn verdict(ledger: &Ledger, before: Option<&Ledger>, behind: &[(String, Option<u64>)]) -> (Grade, String) {
    let drops = ledger.drops.iter().map(|(cause, count)| (cause.name(), *count));
    let all: Vec<(&str, Option<u64>)> =
        drops.chain(behind.iter().map(|(cause, count)| (cause.as_str(), *count))).collect();
    let lost = all.iter().filter_map(|(cause, count)| Some((cause, count.filter(|count| *count > 0)?)));
    let (total, causes) = lost.fold((0, Vec::new()), |(total, mut causes), (cause, count)| {
        causes.push(format!("{} {cause}", units::grouped(count)));
        (total + count, causes)
    });
    let came = ledger.offered.is_none().then_some("how many came");
    let unasked = (ledger.filtered.is_none() && !ledger.filtered_before_offered).then_some("how many nobody asked for");
    let unread = all.iter().filter(|(_, count)| count.is_none()).map(|(cause, _)| *cause);
    let not_known: Vec<&str> = came.into_iter().chain(unasked).chain(unread).collect();
    let beside = if not_known.is_empty() { String::new() } else { format!(" Not known: {}.", not_known.join(", ")) };
    if !causes.is_empty() {
        return (Grade::Bad, format!("Lost: {} packets ({}).{beside}", units::grouped(total), causes.join(", ")));
    }
    let Some((came, left)) = ledger.offered.filter(|_| not_known.is_empty()).zip(ledger.unaccounted()) else {
        return (Grade::Unknown, format!("No loss is known.{beside}"));
    };
    let said = units::grouped(left.unsigned_abs());
    // What was on its way a moment ago has arrived by now, or others are: only what stays is in question.
    let stays = before.and_then(Ledger::unaccounted).is_some_and(|old| old != 0 && left >= old);
    let came = units::grouped(came);
    match left {
        0 => (Grade::Good, format!("Nothing lost: {came} packets came.")),
        ..0 => (
            Grade::Unknown,
            format!("No loss is known: {said} packets more were handled than the {came} that are known to have come."),
        ),
        _ if stays => {
            (Grade::Unknown, format!("No loss is known: {came} packets came, {said} of them no counter explains."))
        }
        _ => (Grade::Good, format!("No loss is known: {came} packets came, {said} of them are on their way.")),
    }
}

fn rows(ledger: &Ledger, before: Option<(&Ledger, f64)>, behind: &[(String, Option<u64>)]) -> Vec<LedgerRow> {
    let row = |says: String, now: Option<u64>, old: &dyn Fn(&Ledger) -> Option<u64>, is_loss: bool| {
        let rate = before.and_then(|(before, seconds)| Some(now?.saturating_sub(old(before)?) as f64 / seconds));
        LedgerRow {
            says,
            all: now.map_or_else(|| "unknown".to_owned(), units::grouped),
            rate: rate.map_or_else(|| "–".to_owned(), per_second),
            is_loss: is_loss && now.is_some_and(|count| count > 0),
        }
    };
    let mut rows = vec![
        row("came".to_owned(), ledger.offered, &|old| old.offered, false),
        row("handled".to_owned(), Some(ledger.delivered), &|old| Some(old.delivered), false),
        row("nobody asked for".to_owned(), ledger.filtered, &|old| old.filtered, false),
    ];
    rows.extend(ledger.drops.iter().map(|(cause, count)| {
        row(format!("lost: {}", cause.name()), *count, &|old| old.drops.get(cause).copied().flatten(), true)
    }));
    rows.extend(behind.iter().map(|(cause, count)| row(format!("lost: {cause}"), *count, &|_| None, true)));
    let left = ledger.unaccounted().map_or_else(|| "unknown".to_owned(), signed);
    rows.push(LedgerRow { says: "no counter explains".to_owned(), all: left, rate: String::new(), is_loss: false });
    rows
}

fn signed(count: i64) -> String {
    let sign = if count < 0 { "−" } else { "" };
    format!("{sign}{}", units::grouped(count.unsigned_abs()))
}

/// So many a second.
pub(crate) fn per_second(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}/s") } else { format!("{}/s", units::grouped(rate as u64)) }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ringtap::histogram::Histogram;
    use ringtap::ledger::Cause;

    use super::*;
    use crate::content::Now;

    fn ledger(offered: Option<u64>, delivered: u64, drops: &[(Cause, Option<u64>)]) -> Ledger {
        let mut ledger = Ledger { offered, delivered, filtered: Some(0), ..Ledger::default() };
        drops.iter().for_each(|(cause, count)| ledger.drop(*cause, *count));
        ledger
    }

    #[test]
    fn what_is_not_known_is_no_promise() {
        let says = |ledger: Ledger| verdict(&ledger, None, &[]);
        let none = [(Cause::RingFull, Some(0))];
        assert_eq!(
            says(ledger(Some(1000), 1000, &none)),
            (Grade::Good, "Nothing lost: 1,000 packets came.".to_owned())
        );
        let (grade, text) = says(ledger(None, 990, &none));
        assert_eq!((grade, text.as_str()), (Grade::Unknown, "No loss is known. Not known: how many came."));
        let (grade, text) = says(ledger(Some(990), 990, &[(Cause::Nic, None)]));
        assert_eq!((grade, text), (Grade::Unknown, format!("No loss is known. Not known: {}.", Cause::Nic.name())));
        let (grade, text) = says(Ledger { filtered: None, ..ledger(Some(990), 990, &none) });
        assert_eq!((grade, text.as_str()), (Grade::Unknown, "No loss is known. Not known: how many nobody asked for."));
        let (grade, text) = says(ledger(None, 990, &[(Cause::RingFull, Some(12)), (Cause::Nic, None)]));
        assert_eq!(grade, Grade::Bad);
        assert!(text.starts_with("Lost: 12 packets (12 ring_full). Not known: how many came, "), "{text}");
        let behind = [("a → b: link down".to_owned(), Some(3)), ("dropped by b".to_owned(), None)];
        let (grade, text) = verdict(&ledger(Some(9), 9, &none), None, &behind);
        assert_eq!(grade, Grade::Bad, "what was taken and not sent is lost, too");
        assert_eq!(text, "Lost: 3 packets (3 a → b: link down). Not known: dropped by b.");
    }

    #[test]
    fn what_no_counter_explains_is_in_question_when_it_stays() {
        let left = |count: u64| ledger(Some(1000), 1000 - count, &[]);
        let says = |before: u64, now: u64| verdict(&left(now), Some(&left(before)), &[]);
        assert_eq!(says(0, 10).0, Grade::Good);
        assert_eq!(says(10, 4).0, Grade::Good, "these arrive");
        assert_eq!(says(10, 10).0, Grade::Unknown);
        assert!(says(10, 12).1.ends_with("12 of them no counter explains."));
        let (grade, text) = verdict(&ledger(Some(1000), 1012, &[]), None, &[]);
        assert!(grade == Grade::Unknown && text.contains("12 packets more were handled than the 1,000"), "{text}");
    }

    #[test]
    fn rates_and_latencies_are_of_the_last_look() {
        let (mut history, start, values) = (History::default(), Instant::now(), Histogram::default());
        let mut look = |second: u64, offered: u64, lost: u64, cpu_ms: u64| {
            let now = Now {
                at: Some(start + Duration::from_secs(second)),
                ledger: Some(ledger(Some(offered), offered - lost, &[(Cause::RingFull, Some(lost))])),
                what: "Packets",
                count: offered,
                latencies: vec![("handled", values.snapshot())],
                engine_cpu: Some(Duration::from_millis(cpu_ms)),
                ..Now::default()
            };
            history.add(start + Duration::from_secs(second), now);
            Account::of(&history)
        };
        values.record(900_000);
        assert_eq!(look(0, 1000, 0, 5).tiles[0].1, "–", "one look says no rate");
        values.record(90_000);
        let account = look(2, 3000, 12, 105);
        let tile = |name: &str| account.tiles.iter().find(|(known, _)| known == name).unwrap().1.clone();
        assert_eq!(
            (tile("Packets a second"), tile("engines' CPU")),
            ("1,000/s".to_owned(), "5.0 % of a core".to_owned())
        );
        // Lately there was but the short one.
        let [name, _, all, _, lately] = &account.latencies[0];
        assert!(name == "handled" && all.starts_with('9') && lately.starts_with('9') && all != lately, "{account:?}");
        let lost = account.ledger.iter().find(|row| row.says == "lost: ring_full").unwrap();
        assert_eq!((lost.all.as_str(), lost.rate.as_str(), lost.is_loss), ("12", "6.0/s", true));
    }
}

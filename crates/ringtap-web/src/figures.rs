//! Owns: reading a program's metrics (OpenMetrics 1.0 text) back into numbers, and what the page says of them: ledger, losses, latency.
//! Does not: ask for them. Lines that it does not understand are passed over: the text may be another version's.

use std::collections::BTreeMap;

/// A program's metrics at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// What they are of, in the order of the text; names without `ringtap_` and the program's.
    pub families: Vec<Family>,
}

/// One metric with all its labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// What it says.
    pub help: String,
    /// `counter`, `gauge`, `histogram`.
    pub kind: String,
    /// Its values.
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// What stands behind the family's name: `_total`, `_bucket`, `_count`, `_sum` or nothing.
    pub suffix: String,
    /// Names and values of labels.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: f64,
}

/// What of a latency's values lies below an edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Below {
    /// Seconds; infinite for all.
    pub(crate) edge_s: f64,
    /// How many.
    pub(crate) count: f64,
}

impl Figures {
    /// Reads them; `program` is the word behind `ringtap_`.
    pub fn read(text: &str, program: &str) -> Self {
        let prefix = format!("ringtap_{program}_");
        let mut families: Vec<Family> = Vec::new();
        for line in text.lines() {
            if let Some(words) = line.strip_prefix("# ") {
                let mut words = words.splitn(3, ' ');
                let (Some(what), Some(name)) = (words.next(), words.next()) else { continue };
                let Some(name) = name.strip_prefix(&prefix) else { continue };
                let says = words.next().unwrap_or_default();
                if families.last().is_none_or(|last| last.name != name) {
                    families.push(Family { name: name.to_owned(), ..Family::default() });
                }
                let Some(family) = families.last_mut() else { continue };
                match what {
                    "HELP" => family.help = says.trim_end_matches('.').to_owned(),
                    "TYPE" => family.kind = says.to_owned(),
                    _ => {}
                }
            } else if let (Some(family), Some((name, labels, value))) = (families.last_mut(), sample(line))
                && let Some(suffix) = name.strip_prefix(&prefix).and_then(|name| name.strip_prefix(&family.name))
            {
                family.samples.push(Sample { suffix: suffix.to_owned(), labels, value });
            }
        }
        Self { families }
    }

    /// The metric of this name.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The sum of a metric over all its labels; `None`: it is not known.
    pub fn sum(&self, name: &str) -> Option<f64> {
        let family = self.family(name)?;
        (!family.samples.is_empty()).then(|| family.samples.iter().map(|sample| sample.value).sum())
    }

    /// What was lost, by cause.
    pub(crate) fn lost(&self) -> BTreeMap<String, f64> {
        let mut all = BTreeMap::new();
        for name in ["dropped", "lost_before"] {
            for sample in self.family(name).into_iter().flat_map(|family| &family.samples) {
                if let Some((_, cause)) = sample.labels.iter().find(|(label, _)| label == "cause") {
                    *all.entry(cause.clone()).or_insert(0.0) += sample.value;
                }
            }
        }
        all
    }

    /// The buckets of a histogram, by their edges; the last one has all.
    pub(crate) fn buckets(&self, name: &str) -> Vec<Below> {
        let samples = self.family(name).into_iter().flat_map(|family| &family.samples);
        samples
            .filter(|sample| sample.suffix == "_bucket")
            .filter_map(|sample| {
                let (_, edge) = sample.labels.iter().find(|(label, _)| label == "le")?;
                let edge_s = if edge == "+Inf" { f64::INFINITY } else { edge.parse().ok()? };
                Some(Below { edge_s, count: sample.value })
            })
            .collect()
    }
}

/// What came between two looks at a histogram.
pub(crate) fn since(now: &[Below], before: &[Below]) -> Vec<Below> {
    let old = |edge_s: f64| before.iter().find(|below| below.edge_s == edge_s).map_or(0.0, |below| below.count);
    now.iter().map(|below| Below { count: below.count - old(below.edge_s), ..*below }).collect()
}

/// The first edge below which this share of all values lies; `None`: there are none.
pub(crate) fn within(buckets: &[Below], share: f64) -> Option<f64> {
    let all = buckets.last()?.count;
    (all > 0.0).then(|| buckets.iter().find(|below| below.count >= share * all).map(|below| below.edge_s))?
}

/// Name, labels and value of a line.
fn sample(line: &str) -> Option<(&str, Vec<(String, String)>, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut all = Vec::new();
    if let Some(within) = rest.strip_prefix('{') {
        (all, rest) = labels(within)?;
    }
    // A time and an exemplar may follow.
    let value = rest.split_whitespace().next()?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        value => value.parse().ok()?,
    };
    Some((name, all, value))
}

/// Labels, and what follows them.
fn labels(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let (mut all, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((all, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        loop {
            match chars.next()? {
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (at, '"') => {
                    rest = &quoted[at + 1..];
                    break;
                }
                (_, other) => value.push(other),
            }
        }
        all.push((name.to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP ringtap_capture_offered Packets that came.
# TYPE ringtap_capture_offered counter
ringtap_capture_offered_total{interface=\"a\\\"}\\\\\"} 10
ringtap_capture_offered_total{interface=\"b\"} 5
# HELP ringtap_capture_dropped Lost.
# TYPE ringtap_capture_dropped counter
ringtap_capture_dropped_total{interface=\"a\",cause=\"ring_full\"} 2
ringtap_capture_dropped_total{interface=\"b\",cause=\"ring_full\"} 1
# HELP ringtap_capture_to_handling_seconds From arrival.
# TYPE ringtap_capture_to_handling_seconds histogram
# UNIT ringtap_capture_to_handling_seconds seconds
ringtap_capture_to_handling_seconds_sum 0.5
ringtap_capture_to_handling_seconds_count 100
ringtap_capture_to_handling_seconds_bucket{le=\"0.0001\"} 98
ringtap_capture_to_handling_seconds_bucket{le=\"0.00025\"} 99
ringtap_capture_to_handling_seconds_bucket{le=\"+Inf\"} 100
what is this
ringtap_capture_to_handling_seconds_bucket{le=\"+Inf
# TYPE ringtap_capture_empty gauge
# EOF
";

    #[test]
    fn text_is_read_back() {
        let figures = Figures::read(TEXT, "capture");
        assert_eq!(figures.sum("offered"), Some(15.0));
        assert_eq!((figures.sum("delivered"), figures.sum("empty")), (None, None), "unknown is not 0");
        assert_eq!(figures.lost(), BTreeMap::from([("ring_full".to_owned(), 3.0)]));
        let offered = figures.family("offered").unwrap();
        assert_eq!((offered.help.as_str(), offered.kind.as_str()), ("Packets that came", "counter"));
        assert_eq!(offered.samples[0].labels[0].1, "a\"}\\");
        let buckets = figures.buckets("to_handling_seconds");
        assert_eq!((within(&buckets, 0.98), within(&buckets, 0.99)), (Some(0.0001), Some(0.00025)));
        assert_eq!(within(&buckets, 0.999), Some(f64::INFINITY));
        assert_eq!(within(&since(&buckets, &buckets), 0.99), None, "nothing came between");
        assert_eq!(Figures::read(TEXT, "sensor"), Figures::default());
    }
}

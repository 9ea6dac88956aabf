//! Owns: `threshold.config` in Suricata's format: which alerts of which rules are kept in (`suppress`), how many get out
//! (`threshold`, `event_filter`), and what becomes of rules that alert too often (`rate_filter`).
//! Does not: count; `track/thresholds.rs` does.

use std::collections::HashMap;
use std::sync::Arc;

use super::RuleSet;
use super::lines::{self, Line};
use super::network::Variables;
use super::parse::{positive, threshold, track};
use super::ranges::Ranges;
use super::rule::{RateFilter, Rule, Suppressed, Threshold, Track};

/// A line that has no effect, or not all that it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ineffective {
    /// Line of the file, from 1.
    pub line: u32,
    /// Why.
    pub reason: String,
}

/// The rules that a line is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum About {
    /// Generator and signature.
    Rule(u32, u32),
    /// All of a generator (`sig_id 0`).
    Generator(u32),
    /// All (`gen_id 0, sig_id 0`).
    All,
}

impl About {
    /// From one rule to all: what is said of fewer goes first.
    fn of(rule: &Rule) -> [Self; 3] {
        [Self::Rule(rule.meta.gid, rule.meta.sid), Self::Generator(rule.meta.gid), Self::All]
    }
}

/// What a line asks for.
enum Asks {
    Suppress(Suppressed),
    Threshold(Threshold),
    Rate(RateFilter),
}

/// What all lines ask for.
#[derive(Default)]
struct Tuning {
    suppressed: HashMap<About, Suppressed>,
    thresholds: HashMap<About, (u32, Threshold)>,
    rates: HashMap<About, (u32, RateFilter)>,
}

impl RuleSet {
    /// Applies a `threshold.config` to the rules that were added. A line that can't be used has no effect on any other. What is said
    /// of one rule takes the place of its own threshold; what is said of many goes to those that have none.
    pub fn tune(&mut self, text: &[u8], variables: &Variables) -> Vec<Ineffective> {
        let (mut tuning, mut told) = (Tuning::default(), Vec::new());
        for Line { number, text } in lines::rules(text) {
            let mut tell = |reason| told.push(Ineffective { line: number, reason });
            let (about, asks) = match text.and_then(|text| line(&text, variables)) {
                Ok(read) => read,
                Err(reason) => {
                    tell(reason);
                    continue;
                }
            };
            if let About::Rule(gid, sid) = about
                && !self.seen.contains_key(&(gid, sid))
            {
                tell(format!("no rule in use has gid {gid} and sid {sid}"));
                continue;
            }
            match asks {
                Asks::Suppress(more) => tuning.suppressed.entry(about).or_default().add(&more),
                Asks::Threshold(threshold) => {
                    let before = tuning.thresholds.insert(about, (number, threshold));
                    before.into_iter().for_each(|(line, _)| tell(replaced(line)));
                }
                Asks::Rate(rate) => {
                    let before = tuning.rates.insert(about, (number, rate));
                    before.into_iter().for_each(|(line, _)| tell(replaced(line)));
                }
            }
        }
        self.apply(tuning);
        told
    }

    fn apply(&mut self, tuning: Tuning) {
        let Tuning { suppressed, thresholds, rates } = tuning;
        // One for all the rules it is about: a list of addresses may be long.
        let suppressed: HashMap<About, Arc<Suppressed>> =
            suppressed.into_iter().map(|(about, list)| (about, Arc::new(list))).collect();
        for rule in &mut self.rules {
            let abouts = About::of(rule);
            rule.suppressed = abouts.iter().filter_map(|about| suppressed.get(about).cloned()).collect();
            let own = thresholds.get(&abouts[0]).map(|(_, threshold)| *threshold);
            let common = || abouts[1..].iter().find_map(|about| thresholds.get(about)).map(|(_, threshold)| *threshold);
            rule.threshold = own.or(rule.threshold).or_else(common);
            rule.rate = abouts.iter().find_map(|about| rates.get(about)).map(|(_, rate)| *rate);
        }
    }
}

fn replaced(line: u32) -> String {
    format!("takes the place of line {line}, which is about the same rules")
}

/// A line: `KIND gen_id N, sig_id N[, KEY VALUE]…`.
fn line(text: &str, variables: &Variables) -> Result<(About, Asks), String> {
    let (kind, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !matches!(kind, "suppress" | "threshold" | "event_filter" | "rate_filter") {
        return Err(format!("'{kind}' is none of suppress, threshold, event_filter, rate_filter"));
    }
    let mut pairs = pairs(rest);
    let mut number = |key: &str| -> Result<u32, String> {
        let (found, value) = pairs.next().unwrap_or_default();
        let value = if found == key { value.parse().ok() } else { None };
        value.ok_or_else(|| format!("needs 'gen_id N, sig_id N' behind {kind}"))
    };
    let about = match (number("gen_id")?, number("sig_id")?) {
        (0, 0) => About::All,
        (gid, 0) => About::Generator(gid),
        (0, _) => return Err("with gen_id 0, which is all, goes sig_id 0 only".to_owned()),
        (gid, sid) => About::Rule(gid, sid),
    };
    let pairs: Vec<(&str, &str)> = pairs.collect();
    let asks = match kind {
        "suppress" => Asks::Suppress(suppress(&pairs, variables)?),
        "rate_filter" => Asks::Rate(rate_filter(&pairs)?),
        _ => {
            let words: Vec<String> = pairs.iter().map(|(key, value)| format!("{key} {value}")).collect();
            Asks::Threshold(threshold(&words.join(",")).map_err(|fault| fault.to_string())?)
        }
    };
    Ok((about, asks))
}

/// Keys with their values, at commas outside of brackets.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut open = 0usize;
    let parts = text.split(move |letter| {
        match letter {
            '[' => open += 1,
            ']' => open = open.saturating_sub(1),
            _ => {}
        }
        letter == ',' && open == 0
    });
    parts
        .map(str::trim)
        .map(|pair| pair.split_once(char::is_whitespace).map_or((pair, ""), |(key, value)| (key, value.trim())))
}

fn suppress(pairs: &[(&str, &str)], variables: &Variables) -> Result<Suppressed, String> {
    match pairs {
        [] => Ok(Suppressed::everything()),
        [("track", by), ("ip", addresses)] => {
            let addresses = variables.addresses(addresses)?;
            match *by {
                "by_src" => Ok(Suppressed { source: addresses, ..Suppressed::default() }),
                "by_dst" => Ok(Suppressed { destination: addresses, ..Suppressed::default() }),
                "by_either" => Ok(Suppressed { source: addresses.clone(), destination: addresses }),
                other => Err(format!("'{other}' is none of by_src, by_dst, by_either")),
            }
        }
        _ => Err("suppress has nothing behind sig_id, or 'track by_src|by_dst|by_either, ip ADDRESSES'".to_owned()),
    }
}

fn rate_filter(pairs: &[(&str, &str)]) -> Result<RateFilter, String> {
    let (mut by, mut count, mut seconds, mut timeout, mut action) = (None, None, None, None, None);
    for &(key, value) in pairs {
        let positive = || positive(value).map_err(|fault| format!("{key}: {fault}"));
        match key {
            "track" => by = Some(track(value).map_err(|fault| fault.to_string())?),
            "count" => count = Some(positive()?),
            "seconds" => seconds = Some(positive()?),
            "timeout" => timeout = Some(positive()?),
            "new_action" => action = Some(value),
            other => return Err(format!("'{other}' is not known")),
        }
    }
    match action {
        Some("pass") => {}
        Some("alert" | "drop" | "reject") => {
            return Err("of new_action only 'pass' has an effect, as the sensor watches and does not block".to_owned());
        }
        Some(other) => return Err(format!("new_action: '{other}' is none of alert, drop, pass, reject")),
        None => return Err("needs new_action".to_owned()),
    }
    match (by, count, seconds, timeout) {
        (Some(Track::Flow), ..) => Err("rate_filter counts by_src, by_dst, by_both or by_rule".to_owned()),
        (Some(track), Some(count), Some(seconds), Some(timeout)) => Ok(RateFilter { track, count, seconds, timeout }),
        _ => Err("needs track, count, seconds, new_action and timeout".to_owned()),
    }
}

impl Suppressed {
    /// Wherever it comes from.
    fn everything() -> Self {
        Self { source: Ranges::all(u128::MAX), destination: Ranges::default() }
    }

    fn add(&mut self, more: &Self) {
        self.source = Ranges::union([&self.source, &more.source]);
        self.destination = Ranges::union([&self.destination, &more.destination]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::rule::Limit;
    use crate::rules::{Classes, address_number};

    fn tuned(text: &str) -> (RuleSet, Vec<String>) {
        let mut set = RuleSet::default();
        let rules = "alert ip any any -> any any (sid:1;)\n\
            alert ip any any -> any any (threshold:type limit,track by_src,count 1,seconds 60; sid:2;)\n\
            alert ip any any -> any any (gid:3; sid:1;)";
        set.add("test.rules", rules.as_bytes(), &Variables::default(), &Classes::default());
        assert_eq!(set.rules.len(), 3);
        let told = set.tune(text.as_bytes(), &Variables::default());
        (set, told.into_iter().map(|one| format!("{}: {}", one.line, one.reason)).collect())
    }

    #[test]
    fn what_is_said_of_one_rule_goes_before_what_is_said_of_all() {
        let (set, told) = tuned(
            "# comment\nthreshold gen_id 0, sig_id 0, type limit, track by_dst, count 5, seconds 10\n\
             event_filter gen_id 1, sig_id 0, type both, track by_rule, count 6, seconds 10\n\
             event_filter gen_id 1, sig_id 2, type threshold, track by_both, \\\n   count 7, seconds 10\n",
        );
        assert_eq!(told, [] as [String; 0]);
        let of = |index: usize| set.rules[index].threshold.map(|of| (of.limit, of.track, of.count));
        assert_eq!(of(0), Some((Limit::Once, Track::Rule, 6)));
        assert_eq!(of(1), Some((Limit::Each, Track::Both, 7)), "in place of its own");
        assert_eq!(of(2), Some((Limit::First, Track::Destination, 5)), "of another generator");
        let (set, _) = tuned("threshold gen_id 0, sig_id 0, type limit, track by_dst, count 5, seconds 10");
        assert_eq!(set.rules[1].threshold.map(|of| of.count), Some(1), "its own stays");
    }

    #[test]
    fn addresses_that_are_suppressed() {
        let (set, told) = tuned(
            "suppress gen_id 1, sig_id 1, track by_src, ip [192.0.2.0/24,!192.0.2.7]\n\
             suppress gen_id 1, sig_id 1, track by_dst, ip 2001:db8::1\nsuppress gen_id 3, sig_id 1\n\
             suppress gen_id 0, sig_id 0, track by_either, ip $HOME_NET",
        );
        assert_eq!(told, [] as [String; 0]);
        let kept_in = |index: usize, source: &str, destination: &str| {
            let number = |text: &str| address_number(text.parse().unwrap());
            set.rules[index].suppressed.iter().any(|list| list.has(number(source), number(destination)))
        };
        assert!(kept_in(0, "192.0.2.1", "8.8.8.8") && !kept_in(0, "192.0.2.7", "8.8.8.8"));
        assert!(!kept_in(0, "8.8.8.8", "192.0.2.1") && kept_in(0, "2001:db8::2", "2001:db8::1"));
        assert!(
            kept_in(1, "8.8.8.8", "10.1.1.1") && kept_in(1, "10.1.1.1", "8.8.8.8") && !kept_in(1, "8.8.8.8", "8.8.4.4")
        );
        assert!(kept_in(2, "8.8.8.8", "8.8.4.4"));
    }

    #[test]
    fn lines_without_effect_are_told_with_their_number() {
        let (set, told) = tuned(
            "suppres gen_id 1, sig_id 1\nsuppress sig_id 1\nsuppress gen_id 0, sig_id 5\nsuppress gen_id 1, sig_id 9\n\
             suppress gen_id 1, sig_id 1, track by_src, ip 192.0.2\nsuppress gen_id 1, sig_id 1, track by_src\n\
             rate_filter gen_id 1, sig_id 1, track by_src, count 3, seconds 2, new_action sleep, timeout 9\n\
             event_filter gen_id 1, sig_id 1, type limit, track by_src, count 0, seconds 9\n\
             rate_filter gen_id 1, sig_id 1, track by_src, count 3, seconds 2, new_action pass\n\
             threshold gen_id 1, sig_id 1, type limit, track by_src, count 2, seconds 9\n\
             threshold gen_id 1, sig_id 1, type limit, track by_src, count 3, seconds 9\n",
        );
        let lines: Vec<&str> = told.iter().map(|text| text.split(':').next().unwrap()).collect();
        assert_eq!(lines, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "11"], "{told:#?}");
        assert!(told[3].contains("no rule in use has gid 1 and sid 9") && told[9].contains("line 10"), "{told:#?}");
        let rule = &set.rules[0];
        assert!(rule.suppressed.is_empty() && rule.rate.is_none() && rule.threshold.is_some_and(|of| of.count == 3));
    }
}

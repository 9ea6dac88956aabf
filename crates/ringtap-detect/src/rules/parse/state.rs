//! Owns: options about what is kept between packets: bits, thresholds, tags; and the numbers of the bits' names.
//! Does not: keep any of it (`track` does).

use std::collections::HashMap;

use super::{Builder, Fault, headers};
use crate::rules::lists::Named;
use crate::rules::numbers::compare;
use crate::rules::rule::{
    BitCommand, BitOwner, BitRule, Compare, IntCommand, IntRule, Limit, Rule, Tag, TagMetric, TagOwner, Threshold,
    Track,
};

/// How long bits stay set that no rule gives a time, seconds: as Suricata has it.
const XBITS_S: u32 = 30;
const HOSTBITS_S: u32 = 300;

/// Names of flow, host and IP-pair bits, of integers, and of sets, over all rules.
#[derive(Clone, Debug, Default)]
pub struct BitNames {
    bits: HashMap<(bool, String), u16>,
    ints: HashMap<String, u16>,
    /// Sets of values that rules write, without a file: what is in them stays.
    pub(super) sets: HashMap<String, Named>,
}

/// Bits all rules together may use: what one flow can hold.
pub const MAX_BITS: usize = 4096;

impl BitNames {
    /// Bits of flows and bits of hosts have the same names without being the same.
    fn index(&mut self, of_flow: bool, name: &str) -> Result<u16, String> {
        let next = self.bits.len();
        if let Some(&index) = self.bits.get(&(of_flow, name.to_owned())) {
            return Ok(index);
        }
        if next == MAX_BITS {
            return Err(format!("more than {MAX_BITS} different bits in all rules"));
        }
        self.bits.insert((of_flow, name.to_owned()), next as u16);
        Ok(next as u16)
    }

    fn int(&mut self, name: &str) -> Result<u16, String> {
        let next = self.ints.len();
        if let Some(&number) = self.ints.get(name) {
            return Ok(number);
        }
        if next == MAX_BITS {
            return Err(format!("more than {MAX_BITS} different integers in all rules"));
        }
        self.ints.insert(name.to_owned(), next as u16);
        Ok(next as u16)
    }

    /// How many bits there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bits.len()
    }

    /// Whether no rule uses any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }
}

impl Builder<'_, '_> {
    /// Whether this was such an option, or `flow`, which asks for such state.
    pub(super) fn state(&mut self, name: &str, value: &str) -> Result<bool, Fault> {
        let rule = &mut self.rule;
        match name {
            "flow" => rule.flow = headers::flow(value)?,
            "flowbits" | "hostbits" | "xbits" => bits(name, value, rule, &mut self.context.bits)?,
            "flowint" => {
                let int = flowint(value, &mut self.context.bits)?;
                rule.ints.push(int);
            }
            "threshold" => rule.threshold = Some(threshold(value)?),
            "detection_filter" => rule.threshold = Some(detection_filter(value)?),
            "tag" => rule.tag = Some(tag(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn bits(option: &str, value: &str, rule: &mut Rule, names: &mut BitNames) -> Result<(), Fault> {
    let mut words = value.split(',').map(str::trim);
    let command = match words.next().unwrap_or_default() {
        "set" => BitCommand::Set,
        "unset" => BitCommand::Unset,
        "toggle" => BitCommand::Toggle,
        "isset" => BitCommand::IsSet,
        "isnotset" => BitCommand::IsNotSet,
        "noalert" => {
            rule.silent = true;
            return Ok(());
        }
        other => return Err(Fault::Bad(format!("'{other}' is not known"))),
    };
    let name = words.next().filter(|name| !name.is_empty()).ok_or("needs the name of a bit")?;
    let (mut owner, mut expire) = match option {
        "flowbits" => (BitOwner::Flow, 0),
        "xbits" => (BitOwner::Source, XBITS_S),
        _ => (BitOwner::Source, HOSTBITS_S),
    };
    for word in words {
        match word {
            "src" if option == "hostbits" => owner = BitOwner::Source,
            "dst" if option == "hostbits" => owner = BitOwner::Destination,
            "both" if option == "hostbits" => owner = BitOwner::BothHosts,
            "track ip_src" if option == "xbits" => owner = BitOwner::Source,
            "track ip_dst" if option == "xbits" => owner = BitOwner::Destination,
            "track ip_pair" if option == "xbits" => owner = BitOwner::Pair,
            "noalert" => rule.silent = true,
            other => match other.strip_prefix("expire ").and_then(|seconds| seconds.trim().parse().ok()) {
                Some(seconds) if option == "xbits" => expire = seconds,
                _ => return Err(Fault::Bad(format!("'{other}' is not known"))),
            },
        }
    }
    let reads = matches!(command, BitCommand::IsSet | BitCommand::IsNotSet);
    let parts: Vec<&str> = name.split('|').map(str::trim).collect();
    if parts.len() > 1 && !(reads && owner == BitOwner::Flow) {
        return Err("only isset and isnotset of flowbits take several".into());
    }
    let bits = parts
        .into_iter()
        .map(|name| names.index(owner == BitOwner::Flow, name))
        .collect::<Result<_, _>>()
        .map_err(Fault::Bad)?;
    rule.bits.push(BitRule { owner, command, bits, expire });
    Ok(())
}

/// `NAME,SIGN,NUMBER` or `NAME,isset|isnotset`
fn flowint(value: &str, names: &mut BitNames) -> Result<IntRule, Fault> {
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let (name, sign, operand) = match words[..] {
        [name, sign] => (name, sign, None),
        [name, sign, operand] => (name, sign, Some(operand)),
        _ => return Err("needs a name, an operator and a number".into()),
    };
    if name.is_empty() {
        return Err("needs the name of an integer".into());
    }
    let number = || -> Result<u32, Fault> {
        let text = operand.ok_or("needs a number behind its operator")?;
        // Another integer's name would be its value then.
        text.parse().map_err(|_| Fault::Form(format!("value '{text}'")))
    };
    let command = match sign {
        "isset" if operand.is_none() => IntCommand::IsSet,
        "isnotset" | "notset" if operand.is_none() => IntCommand::IsNotSet,
        "=" => IntCommand::Set(number()?),
        "+" => IntCommand::Add(number()?),
        "-" => IntCommand::Subtract(number()?),
        "==" => IntCommand::Compare(Compare::exactly(number()?.into())),
        "!=" => IntCommand::Compare(Compare { negated: true, ..Compare::exactly(number()?.into()) }),
        "<" | ">" | "<=" | ">=" => IntCommand::Compare(compare(&format!("{sign}{}", number()?), u32::MAX.into())?),
        other => return Err(Fault::Bad(format!("'{other}' is no operator"))),
    };
    Ok(IntRule { number: names.int(name)?, command })
}

/// `key value` pairs apart by commas; the value is empty where there is none.
fn pairs(value: &str) -> impl Iterator<Item = (&str, &str)> {
    value.split(',').map(str::trim).map(|pair| match pair.split_once(char::is_whitespace) {
        Some((key, value)) => (key, value.trim()),
        None => (pair, ""),
    })
}

pub(in crate::rules) fn track(value: &str) -> Result<Track, Fault> {
    Ok(match value {
        "by_src" => Track::Source,
        "by_dst" => Track::Destination,
        "by_both" => Track::Both,
        "by_rule" => Track::Rule,
        "by_flow" => Track::Flow,
        other => return Err(Fault::Bad(format!("'{other}' is not known"))),
    })
}

pub(in crate::rules) fn positive(value: &str) -> Result<u32, Fault> {
    value.parse().ok().filter(|&number| number > 0).ok_or_else(|| Fault::Bad(format!("'{value}' is no number above 0")))
}

pub(in crate::rules) fn threshold(value: &str) -> Result<Threshold, Fault> {
    let (mut kind, mut by, mut count, mut seconds, mut multiplier) = ("", None, None, None, None);
    for (key, value) in pairs(value) {
        match key {
            "type" => kind = value,
            "track" => by = Some(track(value)?),
            "count" => count = Some(positive(value)?),
            "seconds" => seconds = Some(positive(value)?),
            "multiplier" => multiplier = Some(positive(value)?),
            other => return Err(Fault::Bad(format!("'{other}' is not known"))),
        }
    }
    let limit = match kind {
        "limit" => Limit::First,
        "threshold" => Limit::Each,
        "both" => Limit::Once,
        "backoff" => Limit::Backoff { multiplier: multiplier.ok_or("type backoff needs a multiplier")? },
        other => return Err(Fault::Bad(format!("'{other}' is no type"))),
    };
    let backoff = matches!(limit, Limit::Backoff { .. });
    let (Some(track), Some(count), Some(seconds)) = (by, count, seconds.or(backoff.then_some(0))) else {
        return Err("needs track, count and seconds".into());
    };
    if backoff && track != Track::Flow {
        return Err("type backoff goes with track by_flow only".into());
    }
    Ok(Threshold { limit, track, count, seconds })
}

fn detection_filter(value: &str) -> Result<Threshold, Fault> {
    let (mut by, mut count, mut seconds, mut unique_source_port) = (None, None, None, None);
    for (key, value) in pairs(value) {
        match (key, value) {
            ("track", value) => by = Some(track(value)?),
            ("count", value) => count = Some(value.parse().map_err(|_| "needs a number".to_owned())?),
            ("seconds", value) => seconds = Some(positive(value)?),
            ("unique_on", "src_port") => unique_source_port = Some(true),
            ("unique_on", "dst_port") => unique_source_port = Some(false),
            (other, _) => return Err(Fault::Bad(format!("'{other}' is not known"))),
        }
    }
    let (Some(track), Some(count), Some(seconds)) = (by, count, seconds) else {
        return Err("needs track, count and seconds".into());
    };
    Ok(Threshold { limit: Limit::Above { unique_source_port }, track, count, seconds })
}

/// `session[,count,metric]` or `host,count,metric,src|dst`.
fn tag(value: &str) -> Result<Tag, Fault> {
    /// Without a number, as Suricata has it.
    const USUAL: u32 = 256;
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let (kind, count, metric, side) = match words[..] {
        [kind] => (kind, None, "packets", None),
        [kind, count, metric] => (kind, Some(count), metric, None),
        [kind, count, metric, side] => (kind, Some(count), metric, Some(side)),
        _ => return Err("needs session or host, a number, and packets, seconds or bytes".into()),
    };
    let owner = match (kind, side) {
        ("session", None) => TagOwner::Session,
        ("host", Some("src")) => TagOwner::Source,
        ("host", Some("dst")) => TagOwner::Destination,
        ("host", _) => return Err("host needs src or dst at its end".into()),
        _ => return Err(Fault::Bad(format!("'{value}' tags neither a session nor a host"))),
    };
    let metric = match metric {
        "packets" => TagMetric::Packets,
        "seconds" => TagMetric::Seconds,
        "bytes" => TagMetric::Bytes,
        other => return Err(Fault::Bad(format!("'{other}' is not packets, seconds or bytes"))),
    };
    Ok(Tag { owner, count: count.map_or(Ok(USUAL), positive)?, metric })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Classes, RuleSet, Variables};

    #[test]
    fn bits_have_an_end() {
        let expire = |option: &str, value: &str| {
            let (mut set, text) =
                (RuleSet::default(), format!("alert ip any any -> any any ({option}:{value}; sid:1;)"));
            set.add("t", text.as_bytes(), &Variables::default(), &Classes::default());
            set.rules[0].bits[0].expire
        };
        assert_eq!(expire("xbits", "set,a,track ip_src"), 30);
        assert_eq!(expire("xbits", "set,a,track ip_src,expire 7"), 7);
        assert_eq!((expire("hostbits", "set,a,dst"), expire("flowbits", "set,a")), (300, 0));
    }

    #[test]
    fn thresholds() {
        let limit = threshold("type limit, track by_src, count 1, seconds 60").ok();
        assert_eq!(limit, Some(Threshold { limit: Limit::First, track: Track::Source, count: 1, seconds: 60 }));
        for bad in
            ["type limit, track by_src, count 0, seconds 60", "type x, track by_src, count 1, seconds 1", "count 1"]
        {
            assert!(threshold(bad).is_err(), "{bad}");
        }
        assert_eq!(
            tag("session,5,packets").ok(),
            Some(Tag { owner: TagOwner::Session, count: 5, metric: TagMetric::Packets })
        );
        assert_eq!(tag(" session, 20, bytes").ok().map(|tag| tag.metric), Some(TagMetric::Bytes));
        assert_eq!(tag("session").ok().map(|tag| tag.count), Some(256));
        assert_eq!(tag("host,300,seconds,dst").ok().map(|tag| tag.owner), Some(TagOwner::Destination));
        for bad in
            ["", "flow", "host,3,packets", "session,0,packets", "session,3,hours", "session,3,packets,src", "session,3"]
        {
            assert!(tag(bad).is_err(), "{bad}");
        }
        assert!(detection_filter("track by_src, count 3, seconds 60, unique_on src_port").is_ok());
    }
}

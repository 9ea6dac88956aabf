//! Owns: options about headers, flows, bits and thresholds, from their text.
//! Does not: keep any of that state.

use std::collections::HashMap;

use super::numbers::{Names, compare};
use super::parse::Fault;
use super::rule::*;

/// Names of flow, host and IP-pair bits, over all rules.
#[derive(Clone, Debug, Default)]
pub struct BitNames(HashMap<(bool, String), u16>);

/// Bits all rules together may use: what one flow can hold.
pub const MAX_BITS: usize = 4096;

impl BitNames {
    /// Bits of flows and bits of hosts have the same names without being the same.
    fn index(&mut self, of_flow: bool, name: &str) -> Result<u16, String> {
        let next = self.0.len();
        if let Some(&index) = self.0.get(&(of_flow, name.to_owned())) {
            return Ok(index);
        }
        if next == MAX_BITS {
            return Err(format!("more than {MAX_BITS} different bits in all rules"));
        }
        self.0.insert((of_flow, name.to_owned()), next as u16);
        Ok(next as u16)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no rule uses any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(super) fn flow(value: &str) -> Result<FlowTest, Fault> {
    let mut flow = FlowTest::default();
    for word in value.split(',').map(str::trim) {
        let (slot, wanted) = match word {
            "to_server" | "from_client" => (&mut flow.to_server, true),
            "to_client" | "from_server" => (&mut flow.to_server, false),
            "established" => (&mut flow.established, true),
            "not_established" => (&mut flow.established, false),
            "stateless" => continue,
            "only_stream" => (&mut flow.stream, true),
            "no_stream" => (&mut flow.stream, false),
            "only_frag" => (&mut flow.fragment, true),
            "no_frag" => (&mut flow.fragment, false),
            other => return Err(Fault::Bad(format!("'{other}' is not known"))),
        };
        if slot.replace(wanted).is_some_and(|before| before != wanted) {
            return Err(Fault::Bad(format!("'{word}' contradicts what is before it")));
        }
    }
    Ok(flow)
}

pub(super) fn bits(option: &str, value: &str, rule: &mut Rule, names: &mut BitNames) -> Result<(), Fault> {
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
    let (mut owner, mut expire) = (if option == "flowbits" { BitOwner::Flow } else { BitOwner::Source }, 0);
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

/// `key value` pairs apart by commas; the value is empty where there is none.
fn pairs(value: &str) -> impl Iterator<Item = (&str, &str)> {
    value.split(',').map(str::trim).map(|pair| match pair.split_once(char::is_whitespace) {
        Some((key, value)) => (key, value.trim()),
        None => (pair, ""),
    })
}

fn track(value: &str) -> Result<Track, Fault> {
    Ok(match value {
        "by_src" => Track::Source,
        "by_dst" => Track::Destination,
        "by_both" => Track::Both,
        "by_rule" => Track::Rule,
        "by_flow" => Track::Flow,
        other => return Err(Fault::Bad(format!("'{other}' is not known"))),
    })
}

fn positive(value: &str) -> Result<u32, Fault> {
    value.parse().ok().filter(|&number| number > 0).ok_or_else(|| Fault::Bad(format!("'{value}' is no number above 0")))
}

pub(super) fn threshold(value: &str) -> Result<Threshold, Fault> {
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

pub(super) fn detection_filter(value: &str) -> Result<Threshold, Fault> {
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
pub(super) fn tag(value: &str) -> Result<Tag, Fault> {
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

fn letters(text: &str, table: &[(char, u8)]) -> Result<u8, Fault> {
    text.chars().filter(|letter| !letter.is_whitespace()).try_fold(0, |bits, letter| {
        let upper = letter.to_ascii_uppercase();
        match table.iter().find(|(known, _)| *known == upper) {
            Some((_, bit)) => Ok(bits | bit),
            None => Err(Fault::Bad(format!("'{letter}' is no flag"))),
        }
    })
}

fn how(text: &str) -> (FlagMatch, &str) {
    let text = text.trim();
    for (sign, how) in [('+', FlagMatch::All), ('*', FlagMatch::Any), ('!', FlagMatch::Not)] {
        if let Some(rest) = text.strip_prefix(sign) {
            return (how, rest);
        }
        if let Some(rest) = text.strip_suffix(sign) {
            return (how, rest);
        }
    }
    (FlagMatch::Exactly, text)
}

pub(super) fn tcp_flags(value: &str) -> Result<HeaderTest, Fault> {
    const LETTERS: &[(char, u8)] = &[
        ('F', 1),
        ('S', 2),
        ('R', 4),
        ('P', 8),
        ('A', 16),
        ('U', 32),
        ('E', 64),
        ('2', 64),
        ('C', 128),
        ('1', 128),
        ('0', 0),
    ];
    let (flags, ignored) = value.split_once(',').unwrap_or((value, ""));
    let (how, flags) = how(flags);
    if flags.trim().is_empty() {
        return Err("names no flag".into());
    }
    Ok(HeaderTest::TcpFlags { set: letters(flags, LETTERS)?, mask: !letters(ignored, LETTERS)?, how })
}

pub(super) fn fragment_bits(value: &str) -> Result<HeaderTest, Fault> {
    let (how, bits) = how(value);
    let set = letters(bits, &[('R', 4), ('D', 2), ('M', 1)])?;
    Ok(HeaderTest::FragmentBits { set, how })
}

pub(super) fn ip_protocol(value: &str) -> Result<Compare, Fault> {
    let (sign, name) = match value.find(|letter: char| letter.is_ascii_alphanumeric()) {
        Some(at) => value.split_at(at),
        None => return Err("needs a protocol".into()),
    };
    let number = match name.trim().to_ascii_lowercase().as_str() {
        "icmp" => "1",
        "igmp" => "2",
        "ipip" | "ipencap" => "4",
        "tcp" => "6",
        "egp" => "8",
        "igp" => "9",
        "udp" => "17",
        "ipv6" => "41",
        "gre" => "47",
        "esp" => "50",
        "ah" => "51",
        "icmpv6" | "ipv6-icmp" => "58",
        "ospf" => "89",
        "pim" => "103",
        "vrrp" => "112",
        "sctp" => "132",
        _ => return Ok(compare(value, 255)?),
    };
    Ok(compare(&format!("{}{number}", sign.trim()), 255)?)
}

/// IPv4 option kinds (IANA registry "IP Option Numbers").
pub(super) fn ip_option(value: &str) -> Result<Option<u8>, Fault> {
    Ok(Some(match value {
        "any" => return Ok(None),
        "eol" => 0,
        "nop" => 1,
        "rr" => 7,
        "qs" => 25,
        "ts" => 68,
        "sec" => 130,
        "lsrr" => 131,
        "esec" => 133,
        "cipso" => 134,
        "satid" => 136,
        "ssrr" => 137,
        "rtralt" => 148,
        other => return Err(Fault::Bad(format!("'{other}' is no IP option"))),
    }))
}

fn side(text: &str) -> Option<Side> {
    Some(match text {
        "server" | "toserver" => Side::ToServer,
        "client" | "toclient" => Side::ToClient,
        "both" => Side::Both,
        "either" => Side::Either,
        _ => return None,
    })
}

pub(super) fn stream_size(value: &str) -> Result<HeaderTest, Fault> {
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let [side, operator, number] = words[..] else { return Err("needs side, operator and number".into()) };
    // `server` is the stream that the server sends.
    let side = match side {
        "server" => Side::ToClient,
        "client" => Side::ToServer,
        other => self::side(other).ok_or("the side is server, client, both or either")?,
    };
    let operator = if operator == "!=" { "!" } else { operator };
    Ok(HeaderTest::StreamSize(side, compare(&format!("{operator}{number}"), u64::from(u32::MAX))?))
}

/// `flow.pkts:toserver,>N`, or with the side in the option's name.
pub(super) fn flow_count(packets: bool, named: Option<Side>, value: &str) -> Result<HeaderTest, Fault> {
    let (side, value) = match named {
        Some(side) => (side, value),
        None => {
            let (word, value) = value.split_once(',').ok_or("needs a side and a number")?;
            let side = side(word.trim()).filter(|side| *side != Side::Both);
            (side.ok_or("the side is toserver, toclient or either")?, value)
        }
    };
    let compare = compare(value, u64::MAX >> 1)?;
    Ok(if packets { HeaderTest::FlowPackets(side, compare) } else { HeaderTest::FlowBytes(side, compare) })
}

pub(super) fn data_at(value: &str, names: &Names) -> Result<Test, Fault> {
    let (negated, value) = match value.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let mut words = value.split(',').map(str::trim);
    let bytes = names.value(words.next().unwrap_or_default())?;
    let mut relative = false;
    for word in words {
        match word {
            "relative" => relative = true,
            "rawbytes" => {}
            other => return Err(Fault::Bad(format!("'{other}' is not known"))),
        }
    }
    if matches!(bytes, Value::Number(number) if !(0..=65535).contains(&number)) {
        return Err("needs a number from 0 to 65535".into());
    }
    Ok(Test::DataAt { bytes, relative, negated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_bits() {
        let flags = |text| tcp_flags(text).ok();
        assert_eq!(flags("S,12"), Some(HeaderTest::TcpFlags { set: 2, mask: 0x3f, how: FlagMatch::Exactly }));
        assert_eq!(flags("+SA"), Some(HeaderTest::TcpFlags { set: 18, mask: 0xff, how: FlagMatch::All }));
        assert_eq!(flags("A+"), Some(HeaderTest::TcpFlags { set: 16, mask: 0xff, how: FlagMatch::All }));
        assert_eq!(flags("X"), None);
        assert!(matches!(fragment_bits("!DM"), Ok(HeaderTest::FragmentBits { set: 3, how: FlagMatch::Not })));
        assert_eq!(ip_protocol("!TCP").ok(), compare("!6", 255).ok());
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

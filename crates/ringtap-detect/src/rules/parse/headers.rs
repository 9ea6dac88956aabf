//! Owns: options about headers, the flow's direction and state, and the flow's counters, from their text.
//! Does not: keep any of that state.

use super::Fault;
use crate::event::Event;
use crate::rules::numbers::{compare, number};
use crate::rules::rule::{App, Compare, FlagMatch, FlowTest, HeaderTest, Side, Version};

/// The test that an option stands for, if it is one of these.
pub(super) fn test(name: &str, value: &str) -> Result<Option<HeaderTest>, Fault> {
    let cmp = |max: u64| compare(value, max);
    let number16 =
        || number(value).and_then(|number| u16::try_from(number).ok()).ok_or("needs a number from 0 to 65535");
    let number32 = || number(value).and_then(|number| u32::try_from(number).ok()).ok_or("needs a number below 2^32");
    Ok(Some(match name {
        "dsize" => HeaderTest::PayloadSize(cmp(65535)?),
        "flags" | "tcp.flags" => tcp_flags(value)?,
        "ttl" => HeaderTest::Ttl(cmp(255)?),
        "itype" => HeaderTest::IcmpType(cmp(255)?),
        "icode" => HeaderTest::IcmpCode(cmp(255)?),
        "icmp_id" => HeaderTest::IcmpId(number16()?),
        "icmp_seq" => HeaderTest::IcmpSequence(number16()?),
        "ip_proto" => HeaderTest::IpProtocol(ip_protocol(value)?),
        "ipopts" => HeaderTest::IpOption(ip_option(value)?),
        "fragbits" => fragment_bits(value)?,
        "fragoffset" => HeaderTest::FragmentOffset(cmp(8191)?),
        "id" => HeaderTest::IpId(number16()?),
        "tos" => HeaderTest::Tos(cmp(255)?),
        "sameip" => HeaderTest::SameIp,
        "seq" | "tcp.seq" => HeaderTest::Sequence(number32()?),
        "ack" | "tcp.ack" => HeaderTest::Acknowledgment(number32()?),
        "window" | "tcp.window" => HeaderTest::Window(cmp(65535)?),
        "tcp.mss" => HeaderTest::Mss(cmp(65535)?),
        "decode-event" => HeaderTest::Event(event(value)?),
        "stream-event" => HeaderTest::Event(event(&format!("stream.{value}"))?),
        "app-layer-protocol" => application(value)?,
        "ipv4-csum" => HeaderTest::Checksum(None, validity(value)?),
        "tcpv4-csum" => HeaderTest::Checksum(Some(Version::V4), validity(value)?),
        "tcpv6-csum" => HeaderTest::Checksum(Some(Version::V6), validity(value)?),
        "stream_size" => stream_size(value)?,
        "flow.age" => HeaderTest::FlowAge(cmp(u32::MAX.into())?),
        "flow.pkts" | "flow.bytes" => flow_count(name == "flow.pkts", None, value)?,
        "flow.pkts_toserver" => flow_count(true, Some(Side::ToServer), value)?,
        "flow.pkts_toclient" => flow_count(true, Some(Side::ToClient), value)?,
        "flow.bytes_toserver" => flow_count(false, Some(Side::ToServer), value)?,
        "flow.bytes_toclient" => flow_count(false, Some(Side::ToClient), value)?,
        _ => return Ok(None),
    }))
}

/// `[!]PROTOCOL[,final]`: what a flow's application speaks is told once, and is final then.
fn application(value: &str) -> Result<HeaderTest, Fault> {
    let (negated, name) = match value.strip_prefix('!') {
        Some(name) => (true, name),
        None => (false, value),
    };
    let name = name.trim();
    let name = name.strip_suffix("final").and_then(|name| name.trim_end().strip_suffix(',')).unwrap_or(name);
    let app = App::find(name.trim()).ok_or_else(|| Fault::Form(format!("protocol {name}")))?;
    Ok(HeaderTest::Application(app, negated))
}

fn event(name: &str) -> Result<Event, Fault> {
    Event::find(name).ok_or_else(|| Fault::Form(format!("event {name}")))
}

/// `valid` or `invalid`
fn validity(value: &str) -> Result<bool, Fault> {
    match value {
        "valid" => Ok(true),
        "invalid" => Ok(false),
        other => Err(Fault::Bad(format!("'{other}' is neither valid nor invalid"))),
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

fn letters(text: &str, table: &[(char, u8)]) -> Result<u8, Fault> {
    text.chars().filter(|letter| !letter.is_whitespace()).try_fold(0, |bits, letter| {
        let upper = letter.to_ascii_uppercase();
        match table.iter().find(|(letter, _)| *letter == upper) {
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

fn tcp_flags(value: &str) -> Result<HeaderTest, Fault> {
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

fn fragment_bits(value: &str) -> Result<HeaderTest, Fault> {
    let (how, bits) = how(value);
    let set = letters(bits, &[('R', 4), ('D', 2), ('M', 1)])?;
    Ok(HeaderTest::FragmentBits { set, how })
}

fn ip_protocol(value: &str) -> Result<Compare, Fault> {
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
fn ip_option(value: &str) -> Result<Option<u8>, Fault> {
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

fn stream_size(value: &str) -> Result<HeaderTest, Fault> {
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
fn flow_count(packets: bool, named: Option<Side>, value: &str) -> Result<HeaderTest, Fault> {
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
}

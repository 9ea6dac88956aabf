//! Owns: which packets go first when there are more than can be looked at: those that some rules' headers ask for.
//! Does not: know when that is, or look at anything behind the ports.

use ringtap_wire::{Layers, LinkType, protocol};

use crate::rules::network::MAX_PORT;
use crate::rules::rule::{Endpoint, Protocol, Rule};
use crate::rules::{Ranges, address_number};

/// Different headers that can be asked for: each packet is compared with all of them.
pub const MAX_HEADERS: usize = 64;

/// Packets that go first, by protocol, addresses and ports of some rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precedence {
    headers: Vec<Header>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    /// IP protocol numbers; `None` for any.
    protocols: Option<[u8; 2]>,
    source: Endpoint,
    destination: Endpoint,
    both_ways: bool,
}

impl Precedence {
    /// What these rules ask for. Replies to what they ask for don't go first unless a rule says so (`<>`).
    ///
    /// # Errors
    /// A rule that any packet fits, or more different headers than `MAX_HEADERS`.
    pub fn of<'r>(rules: impl Iterator<Item = &'r Rule>) -> Result<Self, String> {
        let mut headers: Vec<Header> = Vec::new();
        for rule in rules {
            let header = Header::of(rule);
            if header.fits_all() {
                let (file, line) = (&rule.meta.file, rule.meta.line);
                return Err(format!("{file}:{line}: any packet fits this rule, so none would go before another"));
            }
            if !headers.contains(&header) {
                headers.push(header);
            }
        }
        if headers.len() > MAX_HEADERS {
            return Err(format!("{} different headers; {MAX_HEADERS} at most are compared", headers.len()));
        }
        Ok(Self { headers })
    }

    /// Whether this packet goes first, by its innermost IP header. Fragments without ports do by their addresses.
    #[must_use]
    pub fn has(&self, data: &[u8], link: LinkType) -> bool {
        let layers = Layers::parse(data, link);
        let Some(span) = layers.inner_ip() else { return false };
        let Some(ip) = span.view(data) else { return false };
        let (source, destination) = (address_number(ip.source()), address_number(ip.destination()));
        let (protocol, ports) = (span.protocol(), layers.ports(data));
        self.headers.iter().any(|header| header.fits(protocol, (source, destination), ports))
    }
}

impl Header {
    fn of(rule: &Rule) -> Self {
        let (mut source, mut destination) = (rule.source.clone(), rule.destination.clone());
        let mut both_ways = rule.both_ways;
        let protocols = match rule.protocol {
            Protocol::Ip(_) | Protocol::Any => None,
            Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream => Some([protocol::TCP; 2]),
            Protocol::Udp => Some([protocol::UDP; 2]),
            Protocol::Icmp(_) => Some([protocol::ICMP, protocol::ICMPV6]),
            Protocol::Sctp => Some([protocol::SCTP; 2]),
            Protocol::App(app) => {
                // One side is on a port of the protocol's, whatever the rule says of ports.
                if !app.ports().is_empty() && destination.ports.is_all(MAX_PORT) && source.ports.is_all(MAX_PORT) {
                    let ports: Vec<Ranges> =
                        app.ports().iter().map(|&port| Ranges::of(port.into(), port.into())).collect();
                    destination.ports = Ranges::union(&ports);
                    both_ways = true;
                }
                match (app.is_over_udp(), app.is_over_tcp()) {
                    (true, true) => Some([protocol::UDP, protocol::TCP]),
                    (true, false) => Some([protocol::UDP; 2]),
                    (false, _) => Some([protocol::TCP; 2]),
                }
            }
        };
        if matches!(rule.protocol, Protocol::Icmp(_)) {
            (source.ports, destination.ports) = (Ranges::all(MAX_PORT), Ranges::all(MAX_PORT));
        }
        Self { protocols, source, destination, both_ways }
    }

    fn fits_all(&self) -> bool {
        let is_all = |end: &Endpoint| end.addresses.is_all(u128::MAX) && end.ports.is_all(MAX_PORT);
        self.protocols.is_none() && is_all(&self.source) && is_all(&self.destination)
    }

    #[inline]
    fn fits(&self, protocol: u8, (source, destination): (u128, u128), ports: Option<(u16, u16)>) -> bool {
        let fits = |end: &Endpoint, address: u128, port: Option<u16>| {
            port.is_none_or(|port| end.ports.contains(port.into())) && end.addresses.contains(address)
        };
        let (from, to) = (ports.map(|ports| ports.0), ports.map(|ports| ports.1));
        self.protocols.is_none_or(|protocols| protocols.contains(&protocol))
            && ((fits(&self.destination, destination, to) && fits(&self.source, source, from))
                || (self.both_ways && fits(&self.destination, source, from) && fits(&self.source, destination, to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Classes, RuleSet, Variables};
    use ringtap_wire::UdpFrame;

    fn precedence(rules: &str) -> Result<Precedence, String> {
        let mut set = RuleSet::default();
        set.add("first.rules", rules.as_bytes(), &Variables::default(), &Classes::default());
        assert!(set.rejected.is_empty(), "{}", set.rejected[0]);
        Precedence::of(set.rules.iter())
    }

    fn datagram(source: &str, destination: &str) -> Vec<u8> {
        let mut memory = [0; 128];
        let frame = UdpFrame {
            source_mac: [2; 6],
            destination_mac: [4; 6],
            vlan: None,
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            hop_limit: 1,
            traffic_class: 0,
            identification: 0,
        };
        let len = frame.write(&mut memory, b"payload").unwrap();
        memory[..len].to_vec()
    }

    #[test]
    fn headers_decide() {
        let first = precedence(
            "alert udp any any -> 192.0.2.0/24 [161,162] (content:\"a\"; sid:1;)\n\
             alert udp any any -> 192.0.2.0/24 [161,162] (content:\"b\"; sid:2;)\n\
             alert dns any any -> any any (dns.query; content:\"c\"; sid:3;)\n\
             alert tcp any any -> any any (sid:4;)\n",
        )
        .unwrap();
        assert_eq!(first.headers.len(), 3, "the same header once");
        let has = |source, destination| first.has(&datagram(source, destination), LinkType::Ethernet);
        assert!(has("198.51.100.1:5", "192.0.2.9:162"));
        assert!(!has("198.51.100.1:5", "192.0.2.9:163") && !has("198.51.100.1:5", "192.0.3.9:162"));
        assert!(!has("192.0.2.9:162", "198.51.100.1:5"), "not the answer");
        assert!(has("[2001:db8::1]:5", "[2001:db8::2]:53") && has("192.0.2.1:53", "192.0.2.2:6"));
        let mut cut = datagram("198.51.100.1:5", "192.0.2.9:163");
        cut[20] = 0x20; // more fragments
        cut[21] = 9; // and not the first one
        assert!(first.has(&cut, LinkType::Ethernet), "by its addresses alone");
        assert!(!first.has(b"no packet", LinkType::Ethernet));
    }

    #[test]
    fn what_would_put_all_first_is_refused() {
        let error = precedence("alert ip any any -> any any (content:\"a\"; sid:1;)").unwrap_err();
        assert!(error.starts_with("first.rules:1: any packet"), "{error}");
        let many: String = (0..=MAX_HEADERS as u32)
            .map(|port| format!("alert udp any any -> any {} (sid:{};)\n", port + 1, port + 1))
            .collect();
        assert!(precedence(&many).unwrap_err().starts_with("65 different headers"));
    }
}

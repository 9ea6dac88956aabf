//! A network from a topology file, and faults by the names that the file gives.
//!
//! Owns a reading of its own: the engine under test must not tell the simulator what a file means. What the simulator can't play (cards,
//! `depends`) is refused, so that an expected root is never wrong.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;

use super::network::{Router, Session, Wire};
use super::{Fault, Network};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    station: Station,
    #[serde(default)]
    node: Vec<Node>,
    #[serde(default)]
    link: Vec<Link>,
    #[serde(default)]
    adjacency: Vec<Adjacency>,
    #[serde(default)]
    depends: Vec<toml::Value>,
}

#[derive(Default, Deserialize)]
struct Station {
    #[serde(default)]
    attached: Vec<String>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    #[serde(default)]
    addresses: Vec<IpAddr>,
    management: Option<String>,
    #[serde(default)]
    power: Vec<String>,
    #[serde(default)]
    card: Vec<toml::Value>,
    #[serde(default)]
    interface: Vec<Interface>,
}

#[derive(Deserialize)]
struct Interface {
    name: String,
    index: Option<usize>,
}

#[derive(Deserialize)]
struct Link {
    ends: [String; 2],
}

#[derive(Deserialize)]
struct Adjacency {
    protocol: String,
    ends: [String; 2],
    link: Option<String>,
}

impl Network {
    /// Reads a topology file.
    ///
    /// # Errors
    /// In words: no topology, or something in it that can't be played.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if !file.depends.is_empty() || file.node.iter().any(|node| !node.card.is_empty()) {
            return Err("cards and `depends` are not played; leave them out".to_owned());
        }
        let mut this = Self::empty();
        let mut names: HashMap<String, usize> = HashMap::new();
        let mut ports: HashMap<(usize, String), usize> = HashMap::new();
        for node in file.node {
            let at = this.routers.len();
            let is_v4 = |address: &IpAddr| if let IpAddr::V4(address) = address { Some(*address) } else { None };
            let Some(address) = node.addresses.iter().find_map(is_v4) else {
                return Err(format!("node {:?} has no IPv4 address to send from", node.name));
            };
            let feeds = node.power.iter().map(|feed| this.feed(feed)).collect::<Vec<_>>();
            feeds.iter().for_each(|&feed| this.feeds[feed].push(at));
            for interface in node.interface {
                let index =
                    interface.index.ok_or_else(|| format!("{}:{} has no ifIndex", node.name, interface.name))?;
                ports.insert((at, interface.name), index);
            }
            names.insert(node.name.clone(), at);
            this.routers.push(router(node.name, address, node.management.as_deref() != Some("out-of-band"), feeds));
        }
        let end = |text: &str| {
            text.match_indices(':').find_map(|(colon, _)| {
                let (node, port) = (*names.get(&text[..colon])?, &text[colon + 1..]);
                let index = ports.get(&(node, port.to_owned())).copied().or_else(|| port.parse().ok())?;
                Some((node, index))
            })
        };
        for link in &file.link {
            let [Some(a), Some(b)] = [0, 1].map(|side| end(&link.ends[side])) else {
                return Err(format!("a link with an end that is not there: {} – {}", link.ends[0], link.ends[1]));
            };
            let wire = this.wires.len();
            this.wires.push(Wire { ends: [a, b], ospf: false });
            this.wire_texts.push([link.ends[0].clone(), link.ends[1].clone()]);
            [a, b].iter().for_each(|&(node, _)| this.routers[node].wires.push(wire));
        }
        for it in &file.adjacency {
            let [Some(&a), Some(&b)] = [0, 1].map(|side| names.get(&it.ends[side])) else {
                return Err(format!("an adjacency with an end that is not there: {} – {}", it.ends[0], it.ends[1]));
            };
            match it.link.as_deref() {
                Some(link) => {
                    let at = end(link).and_then(|end| this.wires.iter().position(|wire| wire.ends.contains(&end)));
                    let at = at.ok_or_else(|| format!("an adjacency over a link that is not there: {link}"))?;
                    if it.protocol != "ospf" {
                        return Err(format!("{} over one link is not played: leave `link` out", it.protocol));
                    }
                    this.wires[at].ospf = true;
                }
                None if it.protocol == "bgp" => this.sessions.push(Session { ends: [a, b], bfd: true }),
                None => return Err("OSPF without its link is not played".to_owned()),
            }
        }
        this.station = file.station.attached.iter().filter_map(|name| names.get(name).copied()).collect();
        Ok(this)
    }

    fn feed(&mut self, name: &str) -> usize {
        if let Some(at) = self.feed_names.iter().position(|known| known == name) {
            return at;
        }
        self.feed_names.push(name.to_owned());
        self.feeds.push(Vec::new());
        self.feeds.len() - 1
    }

    /// The fault with this name: `link:A-B` (the first between the two) or `link:A:1-B:2`, `node:A`, `power:P`, `bgp:A`.
    ///
    /// # Errors
    /// In words: there is none.
    pub fn fault(&self, text: &str) -> Result<Fault, String> {
        let (kind, name) = text.split_once(':').ok_or("a fault is KIND:NAME: link, node, power or bgp")?;
        let node = |name: &str| self.routers.iter().position(|router| router.name == name);
        let missing = || format!("there is no {kind} {name:?} in the topology");
        match kind {
            "node" => node(name).map(Fault::Node).ok_or_else(missing),
            "bgp" => node(name).map(Fault::Bgp).ok_or_else(missing),
            "power" => self.feed_names.iter().position(|feed| feed == name).map(Fault::Power).ok_or_else(missing),
            "link" => {
                let is_it = |at: &usize| {
                    let [(a, _), (b, _)] = self.wires[*at].ends;
                    let names = |a: &str, b: &str| name == format!("{a}-{b}") || name == format!("{b}-{a}");
                    let texts = self.wire_texts.get(*at).map(|[a, b]| names(a, b));
                    names(&self.routers[a].name, &self.routers[b].name) || texts == Some(true)
                };
                (0..self.wires.len()).find(is_it).map(Fault::Link).ok_or_else(missing)
            }
            _ => Err(format!("{kind:?} is no kind of fault: link, node, power or bgp")),
        }
    }
}

fn router(name: String, address: Ipv4Addr, in_band: bool, feeds: Vec<usize>) -> Router {
    Router { name, address, in_band, feeds, wires: Vec::new(), ports_per_card: usize::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "
station = { attached = ['core'] }
node = [
    { name = 'core', addresses = ['10.0.0.1'], interface = [{ name = 'ge-0/0/1', index = 7 }] },
    { name = 'd', addresses = ['2001:db8::1', '10.0.0.2'], power = ['feed'] },
]
link = [{ ends = ['core:ge-0/0/1', 'd:1'] }]
adjacency = [{ protocol = 'ospf', ends = ['core', 'd'], link = 'd:1' }, { protocol = 'bgp', ends = ['core', 'd'] }]
";

    #[test]
    fn faults_have_the_files_names_and_are_told_by_who_is_heard() {
        let network = Network::read(NETWORK).unwrap();
        for (text, names) in [
            ("link:d-core", &["link:core:ge-0/0/1-d:1", "port:core:ge-0/0/1", "port:d:1"][..]),
            ("link:core:ge-0/0/1-d:1", &["link:core:ge-0/0/1-d:1", "port:core:ge-0/0/1", "port:d:1"]),
            ("node:d", &["node:d"]),
            ("power:feed", &["power:feed"]),
            ("bgp:d", &["process:d/bgp"]),
        ] {
            assert_eq!(network.names(network.fault(text).unwrap()), names, "{text}");
        }
        for (text, part) in [("card:d", "kind"), ("node:x", "no node"), ("x", "KIND:NAME"), ("link:core", "no link")] {
            assert!(network.fault(text).unwrap_err().contains(part), "{text}");
        }
        let mut rng = fastrand::Rng::with_seed(1);
        let fault = network.fault("node:d").unwrap();
        let played = network.play(&[(fault, 0)], 0, super::super::Noise::default(), &mut rng);
        let said: Vec<(&str, &str, &str)> =
            played.events.iter().map(|it| (it.resource.as_str(), it.condition, it.object.as_str())).collect();
        let expected = [
            ("10.0.0.1", "linkDown", "7"),
            ("10.0.0.1", "ospfNbrStateChange", "10.0.0.2.0"),
            ("10.0.0.1", "bgpBackwardTransition", "10.0.0.2"),
        ];
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(expected.iter().all(|it| said.contains(it)), "{said:?}");
    }

    #[test]
    fn what_can_not_be_played_is_refused() {
        for text in ["node = [{ name = 'a' }]", "node = [{ name = 'a', card = [{ name = '1' }] }]", "node = 3"] {
            assert!(Network::read(text).is_err(), "{text}");
        }
    }
}

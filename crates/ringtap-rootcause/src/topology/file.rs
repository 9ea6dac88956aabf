//! The topology file: TOML, read whole or refused with each fault's line.
//!
//! ```
//! let topology = ringtap_rootcause::topology::file::read("
//! [station]
//! attached = ['core']                 # where notifications come in; without it all that is sent is thought to arrive
//!
//! [[node]]
//! name = 'core'                       # as syslog has it, or any name
//! addresses = ['192.0.2.1', '2001:db8::1']    # all: by them alarms and neighbours are found
//! card = [{ name = '1', entity = 1001, ports = [1, 2] }]  # entPhysicalIndex and ifIndexes
//! interface = [{ name = 'ge-0/0/1', index = 1 }, { name = 'lo0' }]    # ifName and, if it is known, ifIndex
//!
//! [[node]]
//! name = 'branch'
//! addresses = ['192.0.2.2']
//! management = 'out-of-band'          # or 'in-band', which is what is meant when nothing is said
//! site = 'paris'
//! power = ['feed-a', 'feed-b']        # dead when none is left
//!
//! [[link]]
//! ends = ['core:ge-0/0/1', 'branch:3']    # NODE:IFINDEX, or NODE:NAME of an interface above
//!
//! [[adjacency]]
//! protocol = 'ospf'                   # or 'bgp'
//! ends = ['core', 'branch']
//! link = 'core:1'                     # lives on this link alone; without it, while there is any way
//!
//! [[power]]
//! name = 'feed-a'
//! watched-by = 'core'                 # whose upsAlarm is about it
//!
//! [[depends]]
//! node = 'branch'
//! any = ['core']                      # dead when none of these lives; all = […]: when one of these is dead
//! ").unwrap();
//! assert_eq!(topology.links().len(), 1);
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;
use toml::Spanned;

use super::{Need, Node, Protocol, Topology};

/// Most elements of a kind.
pub const MOST: usize = 1_000_000;
/// Most bytes of a file.
pub const MOST_BYTES: usize = 256 << 20;
/// Most faults told.
const MOST_FAULTS: usize = 20;

/// What is wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong there, and the way out.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    station: StationTable,
    #[serde(default)]
    node: Vec<NodeTable>,
    #[serde(default)]
    link: Vec<LinkTable>,
    #[serde(default)]
    adjacency: Vec<AdjacencyTable>,
    #[serde(default)]
    power: Vec<PowerTable>,
    #[serde(default)]
    depends: Vec<DependsTable>,
}

type Name = Spanned<String>;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StationTable {
    #[serde(default)]
    attached: Vec<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    name: Name,
    #[serde(default)]
    addresses: Vec<Spanned<IpAddr>>,
    #[serde(default)]
    management: Management,
    site: Option<String>,
    #[serde(default)]
    power: Vec<String>,
    #[serde(default)]
    card: Vec<CardTable>,
    #[serde(default)]
    interface: Vec<InterfaceTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceTable {
    name: Name,
    index: Option<Spanned<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Management {
    #[default]
    InBand,
    OutOfBand,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardTable {
    name: Name,
    entity: Option<u32>,
    #[serde(default)]
    ports: Vec<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    ends: [Name; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdjacencyTable {
    protocol: ProtocolName,
    ends: [Name; 2],
    link: Option<Name>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProtocolName {
    Bgp,
    Ospf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PowerTable {
    name: Name,
    watched_by: Option<Name>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DependsTable {
    node: Name,
    any: Option<Vec<Name>>,
    all: Option<Vec<Name>>,
}

/// Reads a topology.
///
/// # Errors
/// All faults that were found, by line, at most 20; nothing of a file with a fault is used.
pub fn read(text: &str) -> Result<Topology, Vec<Fault>> {
    if text.len() > MOST_BYTES {
        return Err(vec![Fault { line: 1, what: format!("longer than {MOST_BYTES} bytes") }]);
    }
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        vec![Fault { line, what: error.message().replace('\n', " ") }]
    })?;
    let most = [file.node.len(), file.link.len(), file.adjacency.len(), file.depends.len()].into_iter().max();
    if most.unwrap_or(0) > MOST {
        return Err(vec![Fault { line: 1, what: format!("more than {MOST} nodes, links or adjacencies") }]);
    }
    let mut reader =
        Reader { topology: Topology::default(), ports: HashMap::new(), links: HashMap::new(), faults: Vec::new() };
    reader.nodes(&file);
    reader.links(&file.link);
    reader.adjacencies(&file.adjacency);
    reader.needs(&file);
    if reader.faults.is_empty() {
        reader.cycles(&file.depends);
    }
    if reader.faults.is_empty() {
        return Ok(reader.topology);
    }
    reader.faults.sort_by_key(|&(at, _)| at);
    reader.faults.truncate(MOST_FAULTS);
    Err(reader.faults.into_iter().map(|(at, what)| Fault { line: line_of(text, at), what }).collect())
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

struct Reader {
    topology: Topology,
    /// The card of a node's port.
    ports: HashMap<(u32, u32), u32>,
    /// The link of a node's port.
    links: HashMap<(u32, u32), u32>,
    faults: Vec<(usize, String)>,
}

impl Reader {
    fn wrong(&mut self, at: usize, what: String) {
        self.faults.push((at, what));
    }

    fn nodes(&mut self, file: &File) {
        let (mut power, mut sites) = (BTreeMap::new(), BTreeMap::new());
        let names = file.node.iter().flat_map(|node| &node.power).map(String::as_str);
        for name in file.power.iter().map(|it| it.name.get_ref().as_str()).chain(names) {
            let next = power.len() as u32;
            power.entry(name.to_owned()).or_insert(next);
        }
        for table in &file.node {
            let (name, at) = (table.name.get_ref(), table.name.span().start);
            if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
                self.wrong(at, "a name has 1 to 255 bytes, none a control character".to_owned());
                continue;
            }
            let next = sites.len() as u32;
            let site = table.site.as_ref().map(|name| *sites.entry(name.clone()).or_insert(next));
            let node = Node {
                name: name.clone(),
                addresses: Vec::new(),
                in_band: matches!(table.management, Management::InBand),
                site,
                power: table.power.iter().map(|name| power[name]).collect(),
                needs: Vec::new(),
                links: Vec::new(),
                adjacencies: Vec::new(),
                cards: Vec::new(),
            };
            if !self.topology.add_node(node) {
                self.wrong(at, format!("there is a node {name:?} already"));
                continue;
            }
            let number = self.topology.nodes.len() as u32 - 1;
            for address in &table.addresses {
                if !self.topology.add_address(number, *address.get_ref()) {
                    let what = format!("{} is another node's address already", address.get_ref());
                    self.wrong(address.span().start, what);
                }
            }
            self.cards(number, &table.card);
            self.interfaces(number, &table.interface);
        }
        self.groups(&power, &sites, file);
    }

    fn cards(&mut self, node: u32, cards: &[CardTable]) {
        for table in cards {
            let card = self.topology.add_card(node, table.name.get_ref().clone(), table.entity);
            for port in &table.ports {
                if self.ports.insert((node, *port.get_ref()), card).is_some() {
                    self.wrong(port.span().start, format!("port {} is on another card already", port.get_ref()));
                }
            }
        }
    }

    fn interfaces(&mut self, node: u32, interfaces: &[InterfaceTable]) {
        for table in interfaces {
            let (name, at) = (table.name.get_ref(), table.name.span().start);
            if let Some(index) = table.index.as_ref().filter(|index| !(1..1 << 31).contains(index.get_ref())) {
                self.wrong(index.span().start, "an ifIndex is 1 to 2147483647".to_owned());
            } else if name.is_empty() || name.parse::<u32>().is_ok() {
                self.wrong(at, "an interface's name is not empty and no number".to_owned());
            } else if !self.topology.add_interface(node, name, table.index.as_ref().map(|index| *index.get_ref())) {
                self.wrong(at, format!("the node has an interface {name:?} or one with its ifIndex already"));
            }
        }
    }

    fn groups(&mut self, power: &BTreeMap<String, u32>, sites: &BTreeMap<String, u32>, file: &File) {
        let mut tables: HashMap<&str, Option<u32>> = HashMap::new();
        for table in &file.power {
            let watcher = table.watched_by.as_ref().and_then(|name| self.node(name));
            if tables.insert(table.name.get_ref(), watcher).is_some() {
                let what = format!("there is a power group {:?} already", table.name.get_ref());
                self.wrong(table.name.span().start, what);
            }
        }
        for name in in_order(power) {
            self.topology.add_power(name.clone(), tables.get(name.as_str()).copied().flatten());
        }
        for name in in_order(sites) {
            self.topology.sites.push(super::Group { name: name.clone(), nodes: Vec::new(), symptom: None });
        }
        for (at, node) in self.topology.nodes.iter().enumerate() {
            for &feed in &node.power {
                self.topology.power[feed as usize].nodes.push(at as u32);
            }
            if let Some(site) = node.site {
                self.topology.sites[site as usize].nodes.push(at as u32);
            }
        }
    }

    fn node(&mut self, name: &Name) -> Option<u32> {
        let found = self.topology.by_name.get(name.get_ref()).copied();
        if found.is_none() {
            self.wrong(name.span().start, format!("there is no node {:?}", name.get_ref()));
        }
        found
    }

    fn end(&mut self, end: &Name) -> Option<(u32, u32)> {
        let (text, at) = (end.get_ref().as_str(), end.span().start);
        // Names of nodes and of interfaces may have colons in them: the first split that makes sense counts.
        let mut known = None;
        for (colon, _) in text.match_indices(':') {
            let (name, port) = (&text[..colon], &text[colon + 1..]);
            let Some(&node) = self.topology.by_name.get(name) else { continue };
            let index = self.topology.interface(node, port).or_else(|| port.parse().ok().filter(|at| *at < 1 << 31));
            if let Some(index) = index {
                return Some((node, index));
            }
            known = known.or(Some((name, port)));
        }
        let what = match (known, text.rsplit_once(':')) {
            (Some((name, port)), _) => format!("{port:?} is no ifIndex and no interface of {name:?}"),
            (None, Some((name, _))) => format!("there is no node {name:?}"),
            (None, None) => format!("{text:?} is no NODE:IFINDEX and no NODE:INTERFACE"),
        };
        self.wrong(at, what);
        None
    }

    fn links(&mut self, tables: &[LinkTable]) {
        for table in tables {
            let [Some(a), Some(b)] = [0, 1].map(|side| self.end(&table.ends[side])) else { continue };
            if a.0 == b.0 {
                self.wrong(table.ends[0].span().start, "a link ends at two nodes".to_owned());
                continue;
            }
            let number = self.topology.links.len() as u32;
            let mut is_free = true;
            for (side, end) in [a, b].into_iter().enumerate() {
                if self.links.insert(end, number).is_some() {
                    is_free = false;
                    let what = format!("another link ends at {:?} already", table.ends[side].get_ref());
                    self.wrong(table.ends[side].span().start, what);
                }
            }
            if is_free {
                let cards = [a, b].map(|end| self.ports.get(&end).copied());
                self.topology.add_link([a, b], cards);
            }
        }
    }

    fn adjacencies(&mut self, tables: &[AdjacencyTable]) {
        for table in tables {
            let [Some(a), Some(b)] = [0, 1].map(|side| self.node(&table.ends[side])) else { continue };
            let at = table.ends[0].span().start;
            if a == b {
                self.wrong(at, "an adjacency has two nodes".to_owned());
                continue;
            }
            let link = table.link.as_ref().and_then(|name| {
                let end = self.end(name)?;
                let link = self.links.get(&end).copied();
                let is_theirs = link.is_some_and(|link| {
                    self.topology.links.get(link as usize).is_some_and(|link| {
                        let ends = link.ends.map(|(node, _)| node);
                        ends == [a, b] || ends == [b, a]
                    })
                });
                if !is_theirs {
                    self.wrong(name.span().start, format!("no link between the two ends at {:?}", name.get_ref()));
                }
                link
            });
            let protocol = match table.protocol {
                ProtocolName::Bgp => Protocol::Bgp,
                ProtocolName::Ospf => Protocol::Ospf,
            };
            self.topology.add_adjacency(protocol, [a, b], link);
        }
    }

    fn needs(&mut self, file: &File) {
        self.topology.attached = file.station.attached.iter().filter_map(|name| self.node(name)).collect();
        for table in &file.depends {
            let Some(node) = self.node(&table.node) else { continue };
            let mut all = |names: &[Name]| names.iter().filter_map(|name| self.node(name)).collect::<Vec<_>>();
            let need = match (&table.any, &table.all) {
                (Some(names), None) if !names.is_empty() => Need::Any(all(names)),
                (None, Some(names)) if !names.is_empty() => Need::All(all(names)),
                _ => {
                    self.wrong(table.node.span().start, "depends says either any = […] or all = […]".to_owned());
                    continue;
                }
            };
            self.topology.nodes[node as usize].needs.push(need);
        }
    }

    /// Nodes that need each other would never die, or never live.
    fn cycles(&mut self, tables: &[DependsTable]) {
        let nodes = &self.topology.nodes;
        // 0: not looked at, 1: on the way, 2: done.
        let mut state = vec![0u8; nodes.len()];
        let mut cycle = None;
        for start in 0..nodes.len() {
            let mut path = vec![(start, 0)];
            while let Some((at, next)) = path.last_mut() {
                let at = *at;
                if *next == 0 {
                    if state[at] == 2 {
                        path.pop();
                        continue;
                    }
                    state[at] = 1;
                }
                let needed = nodes[at].needs.iter().flat_map(|need| match need {
                    Need::Any(of) | Need::All(of) => of,
                });
                match needed.copied().nth(*next) {
                    Some(other) if state[other as usize] == 1 => {
                        let from = path.iter().position(|(at, _)| *at == other as usize).unwrap_or(0);
                        let names: Vec<&str> = path[from..].iter().map(|(at, _)| nodes[*at].name.as_str()).collect();
                        cycle = Some((at, format!("{} need each other in a circle", names.join(", "))));
                        path.clear();
                    }
                    Some(other) => {
                        *next += 1;
                        if state[other as usize] == 0 {
                            path.push((other as usize, 0));
                        }
                    }
                    None => {
                        state[at] = 2;
                        path.pop();
                    }
                }
            }
            if cycle.is_some() {
                break;
            }
        }
        if let Some((at, what)) = cycle {
            let of = |table: &&DependsTable| *table.node.get_ref() == nodes[at].name;
            let at = tables.iter().find(of).map_or(0, |table| table.node.span().start);
            self.wrong(at, what);
        }
    }
}

/// Names by their numbers.
fn in_order(numbers: &BTreeMap<String, u32>) -> Vec<&String> {
    let mut names: Vec<(&u32, &String)> = numbers.iter().map(|(name, number)| (number, name)).collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_told_with_its_line() {
        let text = "[station]\nattached = ['x']\n[[node]]\nname = 'a'\naddresses = ['192.0.2.1']\n[[node]]\nname = 'b'\n\
                    addresses = [\n'192.0.2.1']\n[[link]]\nends = ['a:1', 'c:1']\n[[link]]\nends = ['a:1', 'b:y']\n\
                    [[link]]\nends = ['a', 'a:2']\n[[depends]]\nnode = 'a'\n[[adjacency]]\nprotocol = 'bgp'\n\
                    ends = ['a', 'b']\nlink = 'a:7'\n";
        let faults: Vec<String> = read(text).unwrap_err().iter().map(Fault::to_string).collect();
        let expected = [
            "2: there is no node \"x\"",
            "9: 192.0.2.1 is another node's address already",
            "11: there is no node \"c\"",
            "13: \"y\" is no ifIndex and no interface of \"b\"",
            "15: \"a\" is no NODE:IFINDEX and no NODE:INTERFACE",
            "17: depends says either any = […] or all = […]",
            "21: no link between the two ends at \"a:7\"",
        ];
        assert_eq!(faults, expected);
        let faults = read("[[node]]\nname = 'a'\nbogus = 1\n").unwrap_err();
        assert!(faults[0].line == 3 && faults[0].what.contains("bogus"), "{faults:?}");
        let faults = read("[[node]]\nname = 'a'\naddresses = ['no']\n").unwrap_err();
        assert_eq!(faults[0].line, 3);
    }

    #[test]
    fn circles_of_needs_are_found_and_diamonds_are_none() {
        let nodes: String = ["a", "b", "c", "d"].map(|name| format!("[[node]]\nname = '{name}'\n")).concat();
        let diamond = "[[depends]]\nnode = 'a'\nall = ['b', 'c']\n[[depends]]\nnode = 'b'\nany = ['d']\n\
                       [[depends]]\nnode = 'c'\nany = ['d']\n";
        assert!(read(&format!("{nodes}{diamond}")).is_ok());
        let faults = read(&format!("{nodes}{diamond}[[depends]]\nnode = 'd'\nany = ['a']\n")).unwrap_err();
        assert!(faults[0].what.contains("in a circle") && faults[0].what.contains("a, b, d"), "{faults:?}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\[\\[(node|link|power|depends)\\]\\]|name|ends|any|= ?'[ab]:?1?'|= ?\\[('a:1'|'b', ?)*\\]|\n| ){0,60}") {
            let _ = read(&text);
        }
    }
}

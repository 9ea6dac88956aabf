//! What agents tell of themselves and their neighbours (LLDP-MIB of IEEE 802.1AB-2005, IF-MIB), and the draft it becomes.
//!
//! Owns which neighbour is which node, and which port is which interface. Asking agents is not done here. All of it was written by others:
//! names are cut and cleaned, and what two agents tell of one interface is left out but for the first, and said.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::draft::{Draft, End};

/// Longest name, bytes: what a topology file takes.
const MOST_NAME: usize = 255;

/// LldpChassisIdSubtype macAddress(4), networkAddress(5).
const CHASSIS: Kinds = Kinds { mac: 4, network: 5 };
/// LldpPortIdSubtype macAddress(3), networkAddress(4).
const PORT: Kinds = Kinds { mac: 3, network: 4 };
/// LldpPortIdSubtype interfaceAlias(1), interfaceName(5), local(7).
const PORT_ALIAS: u8 = 1;
const PORT_NAME: u8 = 5;
const PORT_LOCAL: u8 = 7;

/// Subtypes of identifiers that are no text.
struct Kinds {
    mac: u8,
    network: u8,
}

/// An identifier of a chassis or port: its subtype (0: not told) and bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// LldpChassisIdSubtype or LldpPortIdSubtype.
    pub kind: u8,
    /// The identifier.
    pub bytes: Vec<u8>,
}

/// An interface of the agent's own (IF-MIB).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// ifName.
    pub name: String,
    /// ifDescr.
    pub description: String,
    /// ifAlias.
    pub alias: String,
    /// ifPhysAddress.
    pub mac: Vec<u8>,
}

/// A port of the agent's own (lldpLocPortTable).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Port {
    /// lldpLocPortId.
    pub id: Id,
    /// lldpLocPortDesc.
    pub description: String,
}

/// Who is at the other end of a port (lldpRemTable).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// lldpRemChassisId.
    pub chassis: Id,
    /// lldpRemPortId.
    pub port: Id,
    /// lldpRemPortDesc.
    pub description: String,
    /// lldpRemSysName.
    pub name: String,
    /// Those of lldpRemManAddrTable.
    pub addresses: BTreeSet<IpAddr>,
}

/// What one agent told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// sysName.
    pub name: String,
    /// lldpLocChassisId.
    pub chassis: Id,
    /// The address that was asked, and those of IP-MIB.
    pub addresses: BTreeSet<IpAddr>,
    /// By ifIndex.
    pub interfaces: BTreeMap<u32, Interface>,
    /// By lldpLocPortNum.
    pub ports: BTreeMap<u32, Port>,
    /// By lldpRemTimeMark, lldpRemLocalPortNum, lldpRemIndex.
    pub neighbours: BTreeMap<[u32; 3], Neighbour>,
}

/// A name as it may stand in a topology: without control characters and spaces around it, not too long.
#[must_use]
pub fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut text: String = text.chars().filter(|c| !c.is_control()).collect();
    let mut end = text.len().min(MOST_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.trim().to_owned()
}

/// An address by its AddressFamilyNumbers (1: IPv4, 2: IPv6) and bytes.
#[must_use]
pub fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        1 => <[u8; 4]>::try_from(bytes).ok().map(|it| Ipv4Addr::from(it).into()),
        2 => <[u8; 16]>::try_from(bytes).ok().map(|it| Ipv6Addr::from(it).into()),
        _ => None,
    }
}

/// Whether an address is one that a node is known by elsewhere.
fn is_of_use(address: &IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(it) => it.is_link_local() || it.is_broadcast(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    };
    !(address.is_loopback() || address.is_unspecified() || address.is_multicast() || is_link_local)
}

impl Id {
    /// As people write it; empty when it is nothing.
    fn text(&self, kinds: &Kinds) -> String {
        if self.kind == kinds.mac && self.bytes.len() == 6 {
            return self.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
        }
        let network = self.bytes.split_first().filter(|_| self.kind == kinds.network);
        match network.and_then(|(&family, bytes)| address(family, bytes)) {
            Some(address) => address.to_string(),
            None => clean(&self.bytes),
        }
    }
}

impl AgentReport {
    /// The interface of a port number: what its identifier says, else the one whose ifIndex it is, as most agents number them.
    fn of_number(&self, number: u32) -> Option<u32> {
        let by_id = self.ports.get(&number).and_then(|port| self.by_subtype(&port.id, &port.description));
        by_id.or_else(|| self.interfaces.contains_key(&number).then_some(number))
    }

    /// The interface that a neighbour names as this node's port.
    fn of_id(&self, id: &Id, description: &str) -> Option<u32> {
        let mut ports = self.ports.iter().filter(|(_, port)| port.id == *id);
        let only = ports.next().filter(|_| ports.next().is_none());
        only.and_then(|(&number, _)| self.of_number(number)).or_else(|| self.by_subtype(id, description))
    }

    fn by_subtype(&self, id: &Id, description: &str) -> Option<u32> {
        let text = clean(&id.bytes);
        let by_id = match id.kind {
            PORT_ALIAS => self.only(|it| !text.is_empty() && it.alias == text),
            PORT_NAME => self.named(&text),
            PORT_LOCAL => text.parse().ok().filter(|index| self.interfaces.contains_key(index)),
            kind if kind == PORT.mac => self.only(|it| !it.mac.is_empty() && it.mac == id.bytes),
            _ => None,
        };
        by_id.or_else(|| self.named(description))
    }

    fn named(&self, name: &str) -> Option<u32> {
        let is_it = |of: &str| !name.is_empty() && of.eq_ignore_ascii_case(name);
        self.only(|it| is_it(&it.name)).or_else(|| self.only(|it| is_it(&it.description)))
    }

    /// The one interface that is so; `None` when there are several.
    fn only(&self, is_it: impl Fn(&Interface) -> bool) -> Option<u32> {
        let mut found = self.interfaces.iter().filter(|(_, it)| is_it(it)).map(|(&index, _)| index);
        found.next().filter(|_| found.next().is_none())
    }

    /// What an interface is called in the file, where a number is always an ifIndex.
    fn name_of(&self, index: u32) -> String {
        let it = &self.interfaces[&index];
        let name = if it.name.is_empty() { &it.description } else { &it.name };
        if name.is_empty() || name.parse::<u32>().is_ok() { index.to_string() } else { name.clone() }
    }
}

/// Puts all that was told into a draft.
pub fn gather(agents: Vec<AgentReport>, draft: &mut Draft) {
    let agents = one_of_each(agents);
    let names = name_all(&agents, draft);
    let nodes = Nodes::new(&agents);
    for (at, agent) in agents.iter().enumerate() {
        let name = &names[at];
        draft.node(name).addresses.extend(agent.addresses.iter().filter(|it| is_of_use(it)));
        for &index in agent.interfaces.keys() {
            draft.interface(name, &agent.name_of(index), Some(index));
        }
    }
    for (at, agent) in agents.iter().enumerate() {
        for (&[_, port, _], neighbour) in &agent.neighbours {
            let own = match agent.of_number(port) {
                Some(index) => agent.name_of(index),
                None => format!("port {port}"),
            };
            let far = match nodes.find(neighbour) {
                Some(far) => {
                    let index = agents[far].of_id(&neighbour.port, &neighbour.description);
                    let interface = index.map_or_else(|| unknown_port(neighbour), |index| agents[far].name_of(index));
                    Some((names[far].clone(), interface))
                }
                None => stranger(neighbour, &names, draft),
            };
            match far.filter(|(_, interface)| !interface.is_empty()) {
                Some(far) => draft.link((names[at].clone(), own), far),
                None => {
                    draft.notes.push(format!("left out: a neighbour of {}:{own} without a name or port", names[at]))
                }
            }
        }
    }
}

/// A node that was not asked, by what its neighbour knows of it.
fn stranger(neighbour: &Neighbour, names: &[String], draft: &mut Draft) -> Option<End> {
    let chassis = neighbour.chassis.text(&CHASSIS);
    let is_taken = names.contains(&neighbour.name);
    let name = if neighbour.name.is_empty() || is_taken { chassis } else { neighbour.name.clone() };
    if name.is_empty() {
        return None;
    }
    draft.node(&name).addresses.extend(neighbour.addresses.iter().filter(|it| is_of_use(it)));
    Some((name, unknown_port(neighbour)))
}

/// A port by what is told of it alone: names go before numbers that mean something to their node only, which are no ifIndexes.
fn unknown_port(neighbour: &Neighbour) -> String {
    let text = neighbour.port.text(&PORT);
    let is_name = neighbour.port.kind == PORT_NAME || neighbour.description.is_empty();
    let name = if is_name { text } else { neighbour.description.clone() };
    if name.parse::<u32>().is_ok() { format!("port {name}") } else { name }
}

/// Several addresses of one agent may have been asked.
fn one_of_each(agents: Vec<AgentReport>) -> Vec<AgentReport> {
    let mut kept: Vec<AgentReport> = Vec::new();
    let mut known: HashMap<(String, Id), Vec<usize>> = HashMap::new();
    for agent in agents {
        let same = known.entry((agent.name.clone(), agent.chassis.clone())).or_default();
        match same.iter().find(|&&at| kept[at].interfaces == agent.interfaces) {
            Some(&at) => kept[at].addresses.extend(agent.addresses),
            None => {
                same.push(kept.len());
                kept.push(agent);
            }
        }
    }
    kept
}

/// A name for each agent: sysName; where it has none or another has the same, with its first address.
fn name_all(agents: &[AgentReport], draft: &mut Draft) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for agent in agents {
        let address = agent.addresses.iter().find(|it| is_of_use(it)).or(agent.addresses.first());
        let address = address.map(ToString::to_string).unwrap_or_default();
        let mut name = if agent.name.is_empty() { address.clone() } else { agent.name.clone() };
        if !taken.insert(name.to_lowercase()) {
            let other = format!("{name} ({address})");
            draft.notes.push(format!("two agents have the name {name}: the second is called {other}"));
            taken.insert(other.to_lowercase());
            name = other;
        }
        names.push(name);
    }
    names
}

/// Agents by what neighbours know of them; what several have is nobody's.
struct Nodes<'a> {
    by_chassis: HashMap<&'a Id, Option<usize>>,
    by_name: HashMap<&'a str, Option<usize>>,
    by_address: HashMap<IpAddr, Option<usize>>,
}

impl<'a> Nodes<'a> {
    fn new(agents: &'a [AgentReport]) -> Self {
        let mut this = Self { by_chassis: HashMap::new(), by_name: HashMap::new(), by_address: HashMap::new() };
        for (at, agent) in agents.iter().enumerate() {
            if !agent.chassis.bytes.is_empty() {
                this.by_chassis.entry(&agent.chassis).and_modify(|it| *it = None).or_insert(Some(at));
            }
            if !agent.name.is_empty() {
                this.by_name.entry(&agent.name).and_modify(|it| *it = None).or_insert(Some(at));
            }
            for &address in agent.addresses.iter().filter(|it| is_of_use(it)) {
                this.by_address.entry(address).and_modify(|it| *it = None).or_insert(Some(at));
            }
        }
        this
    }

    fn find(&self, neighbour: &Neighbour) -> Option<usize> {
        let by_chassis = self.by_chassis.get(&neighbour.chassis).copied().flatten();
        let by_name = || self.by_name.get(neighbour.name.as_str()).copied().flatten();
        let by_address = || neighbour.addresses.iter().find_map(|it| self.by_address.get(it).copied().flatten());
        by_chassis.or_else(by_name).or_else(by_address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::file;

    fn id(kind: u8, bytes: &[u8]) -> Id {
        Id { kind, bytes: bytes.to_vec() }
    }

    fn interface(name: &str, mac: u8) -> Interface {
        Interface { name: name.to_owned(), mac: vec![2, 0, 0, 0, 0, mac], ..Interface::default() }
    }

    fn agent(name: &str, number: u8) -> AgentReport {
        AgentReport {
            name: name.to_owned(),
            chassis: id(4, &[2, 0, 0, 0, number, 0]),
            addresses: [[192, 0, 2, number].into(), [127, 0, 0, 1].into()].into(),
            interfaces: (1..=2)
                .map(|index| (index, interface(&format!("eth{index}"), number * 16 + index as u8)))
                .collect(),
            ..AgentReport::default()
        }
    }

    fn neighbour(of: &AgentReport, port: Id) -> Neighbour {
        Neighbour { chassis: of.chassis.clone(), port, name: of.name.clone(), ..Neighbour::default() }
    }

    #[test]
    fn ports_are_found_by_every_kind_of_identifier_and_links_told_twice_are_one() {
        let ([mut a, mut b], c) = ([agent("a", 1), agent("b", 2)], agent("c", 3));
        b.interfaces.get_mut(&2).unwrap().alias = "uplink".to_owned();
        b.ports.insert(7, Port { id: id(7, b"xyz"), description: "eth1".to_owned() });
        // b's port 7 is eth1 by its description; a tells it by b's own identifier, b tells a's by its MAC address.
        a.neighbours.insert([0, 1, 1], neighbour(&b, id(7, b"xyz")));
        b.neighbours.insert([0, 7, 1], neighbour(&a, id(3, &[2, 0, 0, 0, 0, 17])));
        a.neighbours.insert([0, 2, 2], neighbour(&c, id(5, b"ETH2")));
        let mut by_alias = neighbour(&b, id(1, b"uplink"));
        (by_alias.chassis, by_alias.name) = (Id::default(), String::new());
        by_alias.addresses.insert([192, 0, 2, 2].into());
        let mut c = c;
        c.neighbours.insert([9, 1, 3], by_alias);
        let mut draft = Draft::default();
        let again = AgentReport { addresses: [[198, 51, 100, 1].into()].into(), ..a.clone() };
        gather(vec![a, b, c, again], &mut draft);
        assert_eq!((draft.notes.len(), draft.without_index()), (0, 0), "{:?}", draft.notes);
        let topology = file::read(&draft.toml()).unwrap_or_else(|faults| panic!("{faults:?} in\n{}", draft.toml()));
        let links: Vec<String> = (0..topology.links().len() as u32).map(|at| topology.link_name(at)).collect();
        assert_eq!(links, ["a:eth1-b:eth1", "a:eth2-c:eth2", "b:eth2-c:eth1"]);
        assert_eq!(topology.find("198.51.100.1"), topology.find("a"), "two addresses of one agent");
        assert_eq!(topology.find("127.0.0.1"), None);
    }

    #[test]
    fn who_was_not_asked_is_known_by_what_neighbours_tell() {
        let mut a = agent("a", 1);
        let far = |name: &str, chassis: Id, port: Id, description: &str| Neighbour {
            chassis,
            port,
            description: description.to_owned(),
            name: name.to_owned(),
            addresses: [[192, 0, 2, 99].into()].into(),
        };
        a.neighbours.insert([0, 1, 1], far("far", id(4, &[1; 6]), id(3, &[2; 6]), "Gi0/1"));
        a.neighbours.insert([0, 2, 1], far("", id(5, &[1, 10, 0, 0, 9]), id(3, &[3; 6]), ""));
        a.neighbours.insert([0, 3, 1], far("", Id::default(), Id::default(), ""));
        let mut draft = Draft::default();
        gather(vec![a, agent("A", 4)], &mut draft);
        assert!(draft.nodes.contains_key("A (192.0.2.4)"), "{:?}", draft.nodes.keys());
        assert_eq!(draft.notes.len(), 2, "{:?}", draft.notes);
        let topology = file::read(&draft.toml()).unwrap_or_else(|faults| panic!("{faults:?} in\n{}", draft.toml()));
        let links: Vec<String> = (0..topology.links().len() as u32).map(|at| topology.link_name(at)).collect();
        assert_eq!(links, ["10.0.0.9:03:03:03:03:03:03-a:eth2", "a:eth1-far:Gi0/1"]);
    }

    proptest::proptest! {
        #[test]
        fn whatever_agents_tell_becomes_a_file_that_is_read(
            told in proptest::collection::vec(("[ab\u{1}\u{e9} \"\\\\:]{0,3}", 0u8..3, "[1e:\u{7f}]{0,2}", 0u32..4, 0u8..9), 0..8),
        ) {
            let agents: Vec<AgentReport> = told
                .iter()
                .map(|(name, chassis, port, number, kind)| {
                    let mut it = agent(&clean(name.as_bytes()), *chassis);
                    it.interfaces.entry(*number + 1).or_default().name = clean(port.as_bytes());
                    let far = Neighbour {
                        chassis: id(4, &[2, 0, 0, 0, *chassis ^ 1, 0]),
                        port: id(*kind, port.as_bytes()),
                        name: clean(port.as_bytes()),
                        ..Neighbour::default()
                    };
                    it.neighbours.insert([0, *number, 1], far);
                    it
                })
                .collect();
            let mut draft = Draft::default();
            gather(agents, &mut draft);
            let text = draft.toml();
            let faults = file::read(&text).err();
            proptest::prop_assert!(faults.is_none(), "{:?} in\n{}", faults, text);
        }
    }
}

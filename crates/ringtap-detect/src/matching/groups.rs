//! Owns: which rules to look at for a packet's ports and addresses: groups by port, and an index of addresses.
//! Does not: match anything else.

use std::collections::{BTreeMap, HashMap};

use super::patterns::{FastPattern, Patterns, Position};
use crate::rules::Ranges;
use crate::rules::rule::Endpoint;

/// A set of ports up to this size makes a group of its own; a larger one is tested rule by rule.
const NARROW_PORTS: u128 = 1100;
/// A set of addresses up to this size goes into the index.
const NARROW_ADDRESSES: u128 = 1 << 27;

/// Rules of one protocol, by port.
pub(crate) struct ByPort {
    /// Index of the group for each destination port; 0: none.
    destination: Box<[u16]>,
    source: Box<[u16]>,
    /// Group 0 holds rules for any ports.
    groups: Vec<Group>,
}

/// Rules to look at together.
#[derive(Default)]
pub(crate) struct Group {
    /// Patterns of rules that look at packets' payloads.
    pub(crate) packet: Option<Patterns>,
    /// Patterns of rules that look at streams.
    pub(crate) stream: Option<Patterns>,
    /// Rules without a pattern.
    pub(crate) plain: ByAddress,
}

/// A rule's place, for building.
pub(crate) struct Member<'r> {
    pub(crate) index: u32,
    pub(crate) source: &'r Endpoint,
    pub(crate) destination: &'r Endpoint,
    pub(crate) both_ways: bool,
    /// Pattern, and whether it is looked for in packets and in streams.
    pub(crate) pattern: Option<(FastPattern, bool, bool)>,
}

impl ByPort {
    /// Sorts rules into groups.
    ///
    /// # Errors
    /// More than 65535 groups, or a matcher that can't be built.
    pub(crate) fn new(rules: &[Member<'_>]) -> Result<Self, String> {
        let narrow = |ports: &Ranges| ports.count() <= NARROW_PORTS;
        // Few ports have rules of their own.
        type ByNumber = BTreeMap<u16, Vec<u32>>;
        let (mut any, mut by_destination, mut by_source) = (Vec::new(), ByNumber::new(), ByNumber::new());
        let fill = |table: &mut ByNumber, ports: &Ranges, rule: u32| {
            for (low, high) in ports.iter() {
                for port in low..=high {
                    table.entry(port as u16).or_default().push(rule);
                }
            }
        };
        for (at, rule) in rules.iter().enumerate() {
            let at = at as u32;
            let (source, destination) = (&rule.source.ports, &rule.destination.ports);
            if narrow(destination) {
                fill(&mut by_destination, destination, at);
                if rule.both_ways {
                    fill(&mut by_source, destination, at);
                }
            } else if narrow(source) {
                fill(&mut by_source, source, at);
                if rule.both_ways {
                    fill(&mut by_destination, source, at);
                }
            } else {
                any.push(at);
            }
        }
        let mut sets = vec![any];
        let mut group_of = HashMap::<Vec<u32>, u16>::new();
        let mut number = |table: ByNumber| -> Result<Box<[u16]>, String> {
            let mut places = vec![0; 65536].into_boxed_slice();
            for (port, mut set) in table {
                set.dedup();
                let place = &mut places[usize::from(port)];
                if let Some(&group) = group_of.get(&set) {
                    *place = group;
                    continue;
                }
                *place = u16::try_from(sets.len()).map_err(|_| "more than 65535 groups of ports".to_owned())?;
                group_of.insert(set.clone(), *place);
                sets.push(set);
            }
            Ok(places)
        };
        let (destination, source) = (number(by_destination)?, number(by_source)?);
        let groups = sets.iter().map(|set| Group::new(set, rules)).collect::<Result<_, _>>()?;
        Ok(Self { destination, source, groups })
    }

    /// The groups for a packet with these ports: at most three.
    #[inline]
    pub(crate) fn groups(&self, source: u16, destination: u16) -> impl Iterator<Item = &Group> {
        let by_destination = self.destination[usize::from(destination)];
        let by_source = self.source[usize::from(source)];
        let second = if by_source == by_destination { 0 } else { by_source };
        let is_one = |&(at, group): &(usize, u16)| at == 0 || group != 0;
        let numbers = [0, by_destination, second].into_iter().enumerate().filter(is_one);
        numbers.map(|(_, group)| &self.groups[usize::from(group)])
    }

    /// Groups, and memory of their matchers in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let memory = |patterns: &Option<Patterns>| patterns.as_ref().map_or(0, Patterns::memory);
        let matchers = self.groups.iter().map(|group| memory(&group.packet) + memory(&group.stream)).sum();
        (self.groups.len(), matchers)
    }
}

impl Group {
    fn new(set: &[u32], rules: &[Member<'_>]) -> Result<Self, String> {
        let (mut packet, mut stream, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for rule in set.iter().map(|&at| &rules[at as usize]) {
            match &rule.pattern {
                Some((pattern, in_packet, in_stream)) => {
                    if *in_packet {
                        packet.push((pattern.bytes.clone(), rule.index, pattern.position));
                    }
                    if *in_stream {
                        stream.push((pattern.bytes.clone(), rule.index, Position::ANY));
                    }
                }
                None => plain.push(rule),
            }
        }
        Ok(Self { packet: Patterns::new(&packet)?, stream: Patterns::new(&stream)?, plain: ByAddress::new(&plain) })
    }
}

/// Rules without a pattern, by whichever of their addresses says more.
#[derive(Default)]
pub(crate) struct ByAddress {
    source: Index,
    destination: Index,
    others: Vec<u32>,
}

impl ByAddress {
    pub(crate) fn new(rules: &[&Member<'_>]) -> Self {
        // Addresses that many rules have in common choose nothing among these, however few they are: thousands of lists of
        // bad senders have the same home network as their destination, and so has every packet.
        let (mut of_source, mut of_destination) = (HashMap::<_, usize>::new(), HashMap::<_, usize>::new());
        for rule in rules {
            *of_source.entry(&rule.source.addresses).or_default() += 1;
            *of_destination.entry(&rule.destination.addresses).or_default() += 1;
        }
        let (mut source, mut destination, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for rule in rules {
            let (from, to) = (&rule.source.addresses, &rule.destination.addresses);
            // What is not narrow is not indexed, so it comes last.
            let cost = |side: &Ranges, shared: usize| (side.count() > NARROW_ADDRESSES, shared, side.count());
            let (by_source, by_destination) = (cost(from, of_source[from]), cost(to, of_destination[to]));
            if rule.both_ways || by_source.min(by_destination).0 {
                others.push(rule.index);
            } else if by_source <= by_destination {
                source.push((from, rule.index));
            } else {
                destination.push((to, rule.index));
            }
        }
        Self { source: Index::new(&source), destination: Index::new(&destination), others }
    }

    /// Calls `found` for each rule whose addresses may fit.
    #[inline]
    pub(crate) fn scan(&self, source: u128, destination: u128, mut found: impl FnMut(u32)) {
        self.others.iter().for_each(|&rule| found(rule));
        self.source.find(source).iter().for_each(|&rule| found(rule));
        self.destination.find(destination).iter().for_each(|&rule| found(rule));
    }
}

/// Lists of rules for ranges of addresses.
#[derive(Default)]
struct Index {
    /// First address of each range, ascending; a range ends where the next begins.
    starts: Vec<u128>,
    /// Where each range's rules end in `rules`.
    ends: Vec<u32>,
    rules: Vec<u32>,
}

impl Index {
    fn new(sets: &[(&Ranges, u32)]) -> Self {
        // (address, rule, whether it begins)
        let mut edges: Vec<(u128, bool, u32)> = Vec::new();
        for (set, rule) in sets {
            for (low, high) in set.iter() {
                edges.push((low, true, *rule));
                if let Some(behind) = high.checked_add(1) {
                    edges.push((behind, false, *rule));
                }
            }
        }
        edges.sort_unstable();
        let mut this = Self::default();
        let mut open = std::collections::BTreeSet::new();
        let mut edges = edges.into_iter().peekable();
        while let Some((at, begins, rule)) = edges.next() {
            if begins {
                open.insert(rule);
            } else {
                open.remove(&rule);
            }
            if edges.peek().is_some_and(|next| next.0 == at) {
                continue;
            }
            this.starts.push(at);
            this.rules.extend(&open);
            this.ends.push(this.rules.len() as u32);
        }
        this.starts.shrink_to_fit();
        this.ends.shrink_to_fit();
        this.rules.shrink_to_fit();
        this
    }

    #[inline]
    fn find(&self, address: u128) -> &[u32] {
        let Some(at) = self.starts.partition_point(|&start| start <= address).checked_sub(1) else { return &[] };
        let from = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.rules[from..self.ends[at] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_find_their_rules() {
        let first = Ranges::union(&[Ranges::of(10, 20), Ranges::of(30, 30)]);
        let (second, third) = (Ranges::of(15, 35), Ranges::of(u128::MAX, u128::MAX));
        let index = Index::new(&[(&first, 1), (&second, 2), (&third, 3)]);
        for address in (0..40).chain([u128::MAX - 1, u128::MAX]) {
            let expected: Vec<u32> = [(&first, 1), (&second, 2), (&third, 3)]
                .iter()
                .filter(|(set, _)| set.contains(address))
                .map(|(_, rule)| *rule)
                .collect();
            assert_eq!(index.find(address), expected, "{address}");
        }
    }

    /// Each of many lists of bad senders, with one home network as the destination of all, as public rule sets have them.
    #[test]
    fn what_all_rules_share_chooses_none() {
        let end = |addresses| Endpoint { addresses, ports: Ranges::of(0, 65535) };
        let home = end(Ranges::of(7, 7));
        let senders: Vec<Endpoint> = (0..1000).map(|at| end(Ranges::of(100 + at * 10, 105 + at * 10))).collect();
        let rules: Vec<Member<'_>> = senders
            .iter()
            .zip(0..)
            .map(|(source, index)| Member { index, source, destination: &home, both_ways: false, pattern: None })
            .collect();
        let index = ByAddress::new(&rules.iter().collect::<Vec<_>>());
        let found = |source, destination| {
            let mut found = Vec::new();
            index.scan(source, destination, |rule| found.push(rule));
            found
        };
        assert_eq!(found(50, 7), [0u32; 0]);
        assert_eq!(found(123, 7), [2]);
    }
}

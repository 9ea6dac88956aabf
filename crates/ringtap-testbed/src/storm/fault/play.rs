//! What happens: faults at their times, what each router notices, what it says, and what of that arrives.

use std::collections::HashSet;

use fastrand::Rng;

use super::Network;

const MS: u64 = 1_000_000;
/// When the first fault is.
const START_NS: u64 = 10_000 * MS;

/// Something that breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A wire.
    Link(usize),
    /// A card of a router, from 1.
    Card(usize, usize),
    /// A router.
    Node(usize),
    /// A feed of power.
    Power(usize),
    /// All BGP sessions of a router, which is well.
    Bgp(usize),
}

/// What disturbs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noise {
    /// Of each hundred notifications so many are lost.
    pub loss_percent: u8,
    /// Alarms that no fault made.
    pub spurious: usize,
}

/// A notification that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, ns.
    pub at_ns: u64,
    /// Who sent it.
    pub resource: String,
    /// In the words of the station's rules: `linkDown`, …
    pub condition: &'static str,
    /// The object.
    pub object: String,
    /// It raises; else it clears. `None`: an event.
    pub raises: Option<bool>,
    /// Made by no fault.
    pub spurious: bool,
}

/// A fault of a storm and how it is to be answered.
#[derive(Debug, Clone)]
pub struct Story {
    /// What broke.
    pub fault: Fault,
    /// When, ns.
    pub at_ns: u64,
    /// Its names: any of them is right. A link's ends are as good as the link.
    pub names: Vec<String>,
    /// Something arrived that without it would not have come.
    pub shows: bool,
}

/// A storm.
#[derive(Debug, Clone)]
pub struct Played {
    /// What arrives, by time.
    pub events: Vec<Event>,
    /// What broke.
    pub stories: Vec<Story>,
}

/// What was said, before it is lost or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Word {
    Port(usize, usize),
    Ospf(usize, usize),
    Bgp(usize, usize),
    Card(usize, usize),
}

impl Word {
    fn speaker(self) -> usize {
        let (Self::Port(at, _) | Self::Ospf(at, _) | Self::Bgp(at, _) | Self::Card(at, _)) = self;
        at
    }
}

/// The network while some faults are there, by union of what is joined.
struct Broken<'n> {
    network: &'n Network,
    dead: Vec<bool>,
    cut: Vec<bool>,
    group: Vec<usize>,
}

impl<'n> Broken<'n> {
    fn new(network: &'n Network, faults: &[Fault]) -> Self {
        let out: HashSet<usize> =
            faults.iter().filter_map(|fault| if let Fault::Power(feed) = fault { Some(*feed) } else { None }).collect();
        let dead: Vec<bool> = (0..network.routers.len())
            .map(|at| {
                let feeds = &network.routers[at].feeds;
                faults.contains(&Fault::Node(at)) || (!feeds.is_empty() && feeds.iter().all(|feed| out.contains(feed)))
            })
            .collect();
        let cut: Vec<bool> = (0..network.wires.len())
            .map(|at| {
                let end = |(router, port): (usize, usize)| {
                    dead[router] || faults.contains(&Fault::Card(router, network.routers[router].card_of(port)))
                };
                faults.contains(&Fault::Link(at)) || network.wires[at].ends.into_iter().any(end)
            })
            .collect();
        let mut this = Self { network, dead, cut, group: (0..network.routers.len()).collect() };
        for (at, wire) in network.wires.iter().enumerate() {
            if !this.cut[at] {
                let [a, b] = wire.ends.map(|(router, _)| this.find(router));
                for (router, _) in wire.ends {
                    this.group[router] = a.min(b);
                }
                this.group[a.max(b)] = a.min(b);
            }
        }
        for router in 0..network.routers.len() {
            this.group[router] = this.find(router);
        }
        this
    }

    fn find(&self, mut router: usize) -> usize {
        while self.group[router] != router {
            router = self.group[router];
        }
        router
    }

    fn is_heard(&self, router: usize) -> bool {
        let reaches = |&at: &usize| !self.dead[at] && self.group[at] == self.group[router];
        let station = &self.network.station;
        let is_reached = station.is_empty() || station.iter().any(reaches);
        !self.dead[router] && (!self.network.routers[router].in_band || is_reached)
    }

    /// All that is said of this state and heard.
    fn words(&self, faults: &[Fault]) -> Vec<Word> {
        let network = self.network;
        let mut words = Vec::new();
        for (_, wire) in network.wires.iter().enumerate().filter(|(at, _)| self.cut[*at]) {
            for side in 0..2 {
                let (router, port) = wire.ends[side];
                words.push(Word::Port(router, port));
                if wire.ospf {
                    words.push(Word::Ospf(router, wire.ends[1 - side].0));
                }
            }
        }
        for session in &network.sessions {
            let [a, b] = session.ends;
            let is_down = self.dead[a]
                || self.dead[b]
                || self.group[a] != self.group[b]
                || faults.iter().any(|fault| *fault == Fault::Bgp(a) || *fault == Fault::Bgp(b));
            if is_down {
                words.extend([Word::Bgp(a, b), Word::Bgp(b, a)]);
            }
        }
        for fault in faults {
            if let Fault::Card(router, card) = *fault
                && network.routers[router].wires.len() > network.routers[router].ports_per_card
            {
                words.push(Word::Card(router, card));
            }
        }
        words.retain(|word| self.is_heard(word.speaker()));
        words.sort_unstable();
        words.dedup();
        words
    }
}

impl Network {
    /// A fault of any kind, none of what carries the station.
    pub fn any_fault(&self, rng: &mut Rng) -> Fault {
        let router = |rng: &mut Rng| rng.usize(2..self.routers.len());
        match rng.u8(..10) {
            0..=3 => Fault::Link(rng.usize(..self.wires.len())),
            4 => {
                let router = router(rng);
                let ports = self.routers[router].wires.len();
                if ports <= self.routers[router].ports_per_card {
                    return Fault::Node(router);
                }
                Fault::Card(router, self.routers[router].card_of(rng.usize(1..=ports)))
            }
            5 | 6 => Fault::Node(router(rng)),
            7 => Fault::Bgp(router(rng)),
            _ => Fault::Power(rng.usize(..self.feeds.len() - 1)),
        }
    }

    /// The names of a fault.
    pub fn names(&self, fault: Fault) -> Vec<String> {
        let name = |at: usize| &self.routers[at].name;
        match fault {
            Fault::Link(at) => {
                let ports = match self.wire_texts.get(at) {
                    Some(texts) => texts.clone().map(|end| format!("port:{end}")),
                    None => self.wires[at].ends.map(|(router, port)| format!("port:{}:{port}", name(router))),
                };
                std::iter::once(format!("link:{}", self.wire_name(at))).chain(ports).collect()
            }
            Fault::Card(at, card) => vec![format!("card:{}/{card}", name(at))],
            Fault::Node(at) => vec![format!("node:{}", name(at))],
            Fault::Power(at) => vec![format!("power:{}", self.feed_names[at])],
            Fault::Bgp(at) => vec![format!("process:{}/bgp", name(at))],
        }
    }

    /// Plays faults, each so many milliseconds after the first, and all mended after `mended_ms` if that is not 0.
    pub fn play(&self, faults: &[(Fault, u64)], mended_ms: u64, noise: Noise, rng: &mut Rng) -> Played {
        let mut faults = faults.to_vec();
        faults.sort_by_key(|&(_, after_ms)| after_ms);
        let mut events = Vec::new();
        let mut said: HashSet<Word> = HashSet::new();
        let mut now: Vec<Fault> = Vec::new();
        for &(fault, after_ms) in &faults {
            now.push(fault);
            for word in Broken::new(self, &now).words(&now) {
                if said.insert(word) {
                    let at_ns = START_NS + after_ms * MS + self.notices(fault, word, rng);
                    events.push(self.event(word, true, at_ns));
                }
            }
        }
        let all = Broken::new(self, &now).words(&now);
        let stories = faults
            .iter()
            .map(|&(fault, after_ms)| {
                let others: Vec<Fault> = now.iter().copied().filter(|other| *other != fault).collect();
                let without: HashSet<Word> = Broken::new(self, &others).words(&others).into_iter().collect();
                let shows = all.iter().any(|word| !without.contains(word));
                Story { fault, at_ns: START_NS + after_ms * MS, names: self.names(fault), shows }
            })
            .collect();
        if mended_ms > 0 {
            // Word of a recovery comes as the trouble did; sessions take their time.
            let last = events.iter().map(|event| event.at_ns).max().unwrap_or(START_NS);
            let mended_ns = last.max(START_NS + mended_ms * MS);
            let mut words: Vec<Word> = said.into_iter().collect();
            words.sort_unstable();
            for word in words {
                let takes = if matches!(word, Word::Bgp(..)) { rng.u64(2_000..20_000) } else { rng.u64(10..2_000) };
                events.push(self.event(word, false, mended_ns + takes * MS));
            }
            let dead = Broken::new(self, &now).dead;
            for router in (0..self.routers.len()).filter(|&at| dead[at]) {
                let mut event = self.event(Word::Port(router, 0), true, mended_ns + rng.u64(500..5_000) * MS);
                (event.condition, event.object, event.raises) = ("coldStart", String::new(), None);
                events.push(event);
            }
        }
        events.retain(|_| rng.u8(..100) >= noise.loss_percent);
        self.disturb(noise.spurious, &mut events, rng);
        events.sort_by(|a, b| (a.at_ns, &a.resource, &a.object).cmp(&(b.at_ns, &b.resource, &b.object)));
        Played { events, stories }
    }

    /// How long until a router notices and its word is here, ns.
    fn notices(&self, fault: Fault, word: Word, rng: &mut Rng) -> u64 {
        let way = rng.u64(1..150);
        let notices = match word {
            Word::Port(..) => rng.u64(5..60),
            Word::Card(..) => rng.u64(50..400),
            // The interface is down with it, so no dead interval has to run out.
            Word::Ospf(..) => rng.u64(30..300),
            // The connections of a process that ends are closed.
            Word::Bgp(..) if matches!(fault, Fault::Bgp(_)) => rng.u64(20..400),
            Word::Bgp(a, b) => {
                let is_it = |ends: [usize; 2]| ends == [a, b] || ends == [b, a];
                // Sessions of networks that were made are listed by router from 2 on, two each.
                let is_made = self.wire_texts.is_empty();
                let near = if is_made { a.max(b).saturating_sub(2) * 2 } else { 0 };
                let most = if is_made { 2 } else { usize::MAX };
                let session =
                    self.sessions[near.min(self.sessions.len())..].iter().take(most).find(|it| is_it(it.ends));
                if session.is_some_and(|it| it.bfd) { rng.u64(150..900) } else { rng.u64(9_000..90_000) }
            }
        };
        (notices + way) * MS
    }

    fn event(&self, word: Word, raises: bool, at_ns: u64) -> Event {
        let address = |at: usize| self.routers[at].address;
        let (condition, object) = match word {
            Word::Port(_, port) => ("linkDown", port.to_string()),
            Word::Ospf(_, peer) => ("ospfNbrStateChange", format!("{}.0", address(peer))),
            Word::Bgp(_, peer) => ("bgpBackwardTransition", address(peer).to_string()),
            Word::Card(_, card) => ("entStateOperDisabled", (1000 + card).to_string()),
        };
        let resource = address(word.speaker()).to_string();
        Event { at_ns, resource, condition, object, raises: Some(raises), spurious: false }
    }

    /// What else is said in a network: users' ports, thresholds, strangers, wrong passwords, flaps that end by themselves.
    fn disturb(&self, count: usize, events: &mut Vec<Event>, rng: &mut Rng) {
        let last = events.iter().map(|event| event.at_ns).max().unwrap_or(START_NS);
        for _ in 0..count {
            let at_ns = rng.u64(START_NS - 3000 * MS..last.min(START_NS + 10_000 * MS) + 1);
            let router = rng.usize(..self.routers.len());
            let one = Event {
                at_ns,
                resource: self.routers[router].address.to_string(),
                condition: "linkDown",
                object: format!("{}", 500 + rng.u16(..40)),
                raises: Some(true),
                spurious: true,
            };
            match rng.u8(..5) {
                0 => events.push(one),
                1 => events.push(Event { condition: "risingAlarm", object: rng.u8(1..9).to_string(), ..one }),
                2 => events.push(Event {
                    condition: "authenticationFailure",
                    object: String::new(),
                    raises: None,
                    ..one
                }),
                3 => events.push(Event {
                    resource: format!("198.51.100.{}", rng.u8(1..)),
                    object: "3".to_owned(),
                    ..one
                }),
                _ => {
                    let ports = self.routers[router].wires.len();
                    let down = Event { object: rng.usize(1..=ports).to_string(), ..one };
                    let key = |event: &Event| (event.resource.clone(), event.object.clone());
                    // Not one that breaks for good as well.
                    if !events.iter().any(|event| event.condition == "linkDown" && key(event) == key(&down)) {
                        let up_ns = at_ns + rng.u64(50..400) * MS;
                        events.push(Event { at_ns: up_ns, raises: Some(false), ..down.clone() });
                        events.push(down);
                    }
                }
            }
        }
    }
}

//! Networks of four shapes, all routers: OSPF on every link, BGP to two route reflectors.

use std::net::Ipv4Addr;

use fastrand::Rng;

/// How a network is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A tree of four below each.
    Tree,
    /// Rings of at most 24, each closed over two of the core's routers, which are a ring themselves.
    Ring,
    /// Access routers with two ways up: two distribution routers to every eight, each with two ways to the core.
    DualHomed,
    /// Leaves each joined to all spines.
    LeafSpine,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tree, Self::Ring, Self::DualHomed, Self::LeafSpine];
}

/// A router.
#[derive(Debug, Clone)]
pub(super) struct Router {
    pub name: String,
    pub address: Ipv4Addr,
    pub in_band: bool,
    /// Its feeds; dead when none is left.
    pub feeds: Vec<usize>,
    /// Its wires, in the order of their ports; port numbers count from 1.
    pub wires: Vec<usize>,
    /// Ports to a card.
    pub ports_per_card: usize,
}

impl Router {
    /// The card of a port, from 1.
    pub fn card_of(&self, port: usize) -> usize {
        (port - 1) / self.ports_per_card + 1
    }
}

/// A wire between two ports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire {
    pub ends: [(usize, usize); 2],
    /// Its ends are neighbours in OSPF.
    pub ospf: bool,
}

/// A BGP session, over whatever way there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Session {
    pub ends: [usize; 2],
    /// Loss is found by BFD, within a second; else the hold timer runs out.
    pub bfd: bool,
}

/// A network.
#[derive(Debug, Clone)]
pub struct Network {
    pub(super) routers: Vec<Router>,
    pub(super) wires: Vec<Wire>,
    pub(super) sessions: Vec<Session>,
    /// Feeds of power, and the routers at each.
    pub(super) feeds: Vec<Vec<usize>>,
    pub(super) feed_names: Vec<String>,
    /// The ends of wires as a file names them; of networks that were not read none.
    pub(super) wire_texts: Vec<[String; 2]>,
    /// Where the station is.
    pub(super) station: Vec<usize>,
}

impl Network {
    /// A network of about so many routers; the same for the same seed. A fifth is told of by a network of its own.
    pub fn new(shape: Shape, nodes: usize, rng: &mut Rng) -> Self {
        let mut this = Self::empty();
        let per_card = [2, 4, 8][rng.usize(..3)];
        for number in 0..nodes.max(8) {
            this.routers.push(Router {
                name: format!("r{number}"),
                address: Ipv4Addr::from(0x0a40_0001 + number as u32),
                in_band: rng.u8(..5) > 0,
                feeds: Vec::new(),
                wires: Vec::new(),
                ports_per_card: per_card,
            });
        }
        match shape {
            Shape::Tree => this.tree(),
            Shape::Ring => this.rings(),
            Shape::DualHomed => this.dual_homed(),
            Shape::LeafSpine => this.leaf_spine(),
        }
        this.station = vec![0, 1];
        for router in 2..this.routers.len() {
            for reflector in [0, 1] {
                this.sessions.push(Session { ends: [router, reflector], bfd: rng.bool() });
            }
        }
        this.power(rng);
        this
    }

    pub(super) fn empty() -> Self {
        Self {
            routers: Vec::new(),
            wires: Vec::new(),
            sessions: Vec::new(),
            feeds: Vec::new(),
            feed_names: Vec::new(),
            wire_texts: Vec::new(),
            station: Vec::new(),
        }
    }

    /// How many routers.
    pub fn routers(&self) -> usize {
        self.routers.len()
    }

    fn join(&mut self, a: usize, b: usize) {
        let wire = self.wires.len();
        let mut end = |router: usize| {
            self.routers[router].wires.push(wire);
            (router, self.routers[router].wires.len())
        };
        let ends = [end(a), end(b)];
        self.wires.push(Wire { ends, ospf: true });
    }

    fn tree(&mut self) {
        self.join(0, 1);
        for router in 2..self.routers.len() {
            self.join((router - 2) / 4, router);
        }
    }

    fn rings(&mut self) {
        let total = self.routers.len();
        let core = (total / 24).clamp(3, 64);
        for router in 0..core {
            self.join(router, (router + 1) % core);
        }
        let mut at = core;
        let mut ring = 0;
        while at < total {
            let until = (at + 24).min(total);
            self.join(ring % core, at);
            for router in at + 1..until {
                self.join(router - 1, router);
            }
            self.join(until - 1, (ring + 1) % core);
            (at, ring) = (until, ring + 1);
        }
    }

    fn dual_homed(&mut self) {
        let total = self.routers.len();
        let core = (total / 100).clamp(2, 16);
        for a in 0..core {
            for b in a + 1..core {
                self.join(a, b);
            }
        }
        let mut at = core;
        while at < total {
            let pair: Vec<usize> = (at..(at + 2).min(total)).collect();
            for (side, &router) in pair.iter().enumerate() {
                self.join((at + side) % core, router);
                self.join((at + side + 1) % core, router);
            }
            let until = (at + 10).min(total);
            for router in at + 2..until {
                for &above in &pair {
                    self.join(above, router);
                }
            }
            at = until;
        }
    }

    fn leaf_spine(&mut self) {
        let total = self.routers.len();
        let spines = (total / 25).clamp(2, 8);
        for leaf in spines..total {
            for spine in 0..spines {
                self.join(spine, leaf);
            }
        }
    }

    /// Feeds for ten routers in a row; a third of the routers hangs on two. What carries the station has power of its own.
    fn power(&mut self, rng: &mut Rng) {
        let total = self.routers.len();
        let count = (total - 2).div_ceil(10) + 1;
        self.feeds = vec![Vec::new(); count];
        self.feed_names = (0..count).map(|feed| format!("p{feed}")).collect();
        for router in 2..total {
            let feed = (router - 2) / 10;
            let mut feeds = vec![feed];
            if rng.u8(..3) == 0 {
                feeds.push(count - 1);
            }
            for &feed in &feeds {
                self.feeds[feed].push(router);
            }
            self.routers[router].feeds = feeds;
        }
    }

    pub(super) fn wire_name(&self, wire: usize) -> String {
        if let Some([a, b]) = self.wire_texts.get(wire) {
            return format!("{a}-{b}");
        }
        let [(a, i), (b, j)] = self.wires[wire].ends;
        format!("{}:{i}-{}:{j}", self.routers[a].name, self.routers[b].name)
    }
}

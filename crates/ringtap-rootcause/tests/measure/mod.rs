//! Storms of the testbed's simulator through the engine, held against what broke.
//!
//! An answer is right when its class names what broke (a link's ports are as good as the link). What stands for itself claims no root: it
//! can be right, and else counts as an announcement (unless no fault made it), not as a wrong root. A fault counts if something was said
//! that without it would not have been.

use std::collections::{BTreeMap, HashMap, HashSet};

use fastrand::Rng;
use ringtap_rootcause::topology::file;
use ringtap_rootcause::{Engine, Incident, Output, Root, Settings, Subject};
use ringtap_testbed::storm::fault::{Network, Noise, Played, Shape};

/// Which storms.
#[derive(Debug, Clone, Copy)]
pub struct Storms {
    pub shape: Shape,
    pub nodes: usize,
    pub count: usize,
    /// Faults a storm: one, in every third storm two.
    pub noise: Noise,
    pub wrong_percent: u8,
    pub seed: u64,
}

/// What came out.
#[derive(Debug, Default, Clone)]
pub struct Score {
    pub storms: usize,
    pub faults: usize,
    pub found: usize,
    pub wrong: usize,
    /// Alarms of faults that were announced for themselves.
    pub unexplained: usize,
    pub opened: usize,
    pub revised: usize,
    pub alarms: usize,
    /// From the fault to its right answer, ms.
    pub times_ms: Vec<u64>,
    /// Elements named by right answers.
    pub named: usize,
    /// Times the bound of work was reached.
    pub exhausted: usize,
}

impl Score {
    pub fn precision(&self) -> f64 {
        self.found as f64 / (self.found + self.wrong).max(1) as f64
    }

    pub fn recall(&self) -> f64 {
        self.found as f64 / self.faults.max(1) as f64
    }

    pub fn announcements(&self) -> f64 {
        (self.opened + self.revised) as f64 / self.faults.max(1) as f64
    }

    pub fn time_ms(&self, percent: usize) -> u64 {
        let mut times = self.times_ms.clone();
        times.sort_unstable();
        times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: Self) {
        self.storms += other.storms;
        self.faults += other.faults;
        self.found += other.found;
        self.wrong += other.wrong;
        self.unexplained += other.unexplained;
        self.opened += other.opened;
        self.revised += other.revised;
        self.alarms += other.alarms;
        self.times_ms.extend(other.times_ms);
        self.named += other.named;
        self.exhausted += other.exhausted;
    }
}

/// Runs them all; `say` is told of each storm that was not answered as it should be.
pub fn run(storms: Storms, say: &mut dyn FnMut(String)) -> Score {
    let mut score = Score::default();
    let mut read = None;
    each(storms, &mut |number, text, played| {
        if read.as_ref().is_none_or(|(of, _)| of != text) {
            let topology = file::read(text).unwrap_or_else(|faults| panic!("{}", faults[0]));
            read = Some((text.to_owned(), topology));
        }
        let (_, topology) = read.as_ref().expect("it was just read");
        let engine = Engine::new(topology.clone(), Settings::default());
        score.add(storm(engine, played, number, say));
    });
    score
}

/// Makes them all, one after the other: its number, the topology file, what arrives.
pub fn each(storms: Storms, take: &mut dyn FnMut(usize, &str, &Played)) {
    let mut rng = Rng::with_seed(storms.seed);
    let mut network = None;
    for number in 0..storms.count {
        // Networks differ from storm to storm; large ones take long to read.
        if storms.nodes <= 500 || number % 10 == 0 {
            network = None;
        }
        let (network, text) = network.get_or_insert_with(|| {
            let network = Network::new(storms.shape, storms.nodes, &mut rng);
            let text = network.topology(storms.wrong_percent, &mut rng);
            (network, text)
        });
        let mut faults = vec![(network.any_fault(&mut rng), 0)];
        if number % 3 == 2 {
            let other = network.any_fault(&mut rng);
            if other != faults[0].0 {
                faults.push((other, rng.u64(0..1500)));
            }
        }
        let noise = Noise { spurious: rng.usize(..=storms.noise.spurious), ..storms.noise };
        let mended_ms = if number % 2 == 0 { 120_000 } else { 0 };
        let played = network.play(&faults, mended_ms, noise, &mut rng);
        take(number, text, &played);
    }
}

fn storm(mut engine: Engine, played: &Played, number: usize, say: &mut dyn FnMut(String)) -> Score {
    let mut ids: HashMap<Subject, u64> = HashMap::new();
    let mut raised: HashSet<u64> = HashSet::new();
    let mut made: HashSet<u64> = HashSet::new();
    let mut seen = Seen::default();
    for event in &played.events {
        while let Some(at) = engine.next_timer().filter(|&at| at <= event.at_ns) {
            engine.advance(at);
            seen.take(&mut engine, at);
        }
        let (resource, condition) = (event.resource.clone(), event.condition.to_owned());
        let subject = Subject { resource, condition, object: event.object.clone() };
        let next = ids.len() as u64 + 1;
        let id = *ids.entry(subject.clone()).or_insert(next);
        if !event.spurious {
            made.insert(id);
        }
        match event.raises {
            Some(false) => {
                if raised.remove(&id) {
                    engine.clear(id, event.at_ns);
                }
            }
            raises => {
                if raised.insert(id) {
                    engine.raise(id, &subject, raises.is_none(), event.at_ns);
                }
            }
        }
        seen.take(&mut engine, event.at_ns);
    }
    let end = played.events.last().map_or(0, |event| event.at_ns) + 1_000_000_000_000;
    while let Some(at) = engine.next_timer().filter(|&at| at <= end) {
        engine.advance(at);
        seen.take(&mut engine, at);
    }
    assert_eq!(engine.counts().held, 0, "nothing is held for ever");
    seen.judge(played, &made, ids.len(), number, say)
}

/// Announcements: the latest word about each incident, and when its root became what it is.
#[derive(Default)]
struct Seen {
    told: BTreeMap<u64, (u64, Incident)>,
    opened: Vec<u64>,
    revised: Vec<u64>,
    merged: HashMap<u64, u64>,
    exhausted: usize,
}

impl Seen {
    fn take(&mut self, engine: &mut Engine, at_ns: u64) {
        for output in engine.take_outputs() {
            match output {
                Output::Opened(it) => {
                    self.opened.push(it.id);
                    self.told.insert(it.id, (at_ns, it));
                }
                Output::Revised(it) => {
                    self.revised.push(it.id);
                    self.told.insert(it.id, (at_ns, it));
                }
                Output::Merged { incident, into } => {
                    self.told.remove(&incident);
                    self.merged.insert(incident, into);
                }
                Output::Joined { incident, alarm } => {
                    if let Some((_, it)) = self.told.get_mut(&incident) {
                        it.members.insert(alarm);
                    }
                }
                Output::Exhausted { .. } => self.exhausted += 1,
                Output::Resolved(_) | Output::Storm { .. } => {}
            }
        }
    }

    fn judge(
        &self,
        p: &Played,
        made: &HashSet<u64>,
        alarms: usize,
        number: usize,
        say: &mut dyn FnMut(String),
    ) -> Score {
        let mut score = Score { storms: 1, alarms, exhausted: self.exhausted, ..Score::default() };
        score.faults = p.stories.iter().filter(|story| story.shows).count();
        let mut found = HashSet::new();
        let mut faults = Vec::new();
        for (at_ns, it) in self.told.values() {
            let names: Vec<&str> = match &it.root {
                Root::Class(elements) => elements.iter().map(|it| it.0.as_str()).collect(),
                Root::Alarm { element, .. } => element.iter().map(|it| it.0.as_str()).collect(),
                Root::Nodes(_) | Root::Left { .. } => Vec::new(),
            };
            let is_right = |name: &String| names.contains(&name.as_str());
            let right =
                (0..p.stories.len()).find(|at| !found.contains(at) && p.stories[*at].names.iter().any(is_right));
            let is_noise = !it.members.iter().any(|id| made.contains(id)) && !matches!(it.root, Root::Class(_));
            match right {
                _ if is_noise => {}
                Some(at) => {
                    found.insert(at);
                    if p.stories[at].shows {
                        score.found += 1;
                        score.named += names.len();
                        let ms = at_ns.saturating_sub(p.stories[at].at_ns) / 1_000_000;
                        score.times_ms.push(ms);
                        if ms > 2500 {
                            faults
                                .push(format!("late {ms} ms {:?}, {} revisions", p.stories[at].names[0], it.revisions));
                        }
                    }
                }
                None if !matches!(it.root, Root::Class(_)) => score.unexplained += 1,
                None => {
                    score.wrong += 1;
                    faults.push(format!("wrong {:?} seen {}/{}", it.root, it.seen, it.expected));
                }
            }
        }
        let of_faults = |id: &&u64| {
            let id = self.merged.get(*id).unwrap_or(*id);
            self.told.get(id).is_none_or(|(_, it)| it.members.iter().any(|id| made.contains(id)))
        };
        score.opened = self.opened.iter().filter(of_faults).count();
        score.revised = self.revised.iter().filter(of_faults).count();
        for at in (0..p.stories.len()).filter(|at| !found.contains(at) && p.stories[*at].shows) {
            faults.push(format!("missed {:?}", p.stories[at].names));
        }
        if !faults.is_empty() {
            let broke: Vec<String> = p.stories.iter().map(|story| format!("{:?}", story.names[0])).collect();
            say(format!("storm {number} of {}: {}", broke.join(" and "), faults.join("; ")));
        }
        score
    }
}

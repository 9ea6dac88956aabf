//! Explaining: the set of causes of least cost for what was observed.
//!
//! Cost is −1000 · ln of likelihood, in whole numbers: each cause costs what it is unlikely, each symptom that should be there and is not
//! costs what its loss is unlikely, each that nothing explains costs more than most causes. Causes are taken one at a time, the one that
//! saves most first; those that a later one made needless go again. Ties: the lower in the containment tree, then the name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::candidates::{Cuts, candidates};
use crate::predict::{Whole, predict};
use crate::problem::{Element, Problem};
use crate::symptom::Symptom;
use crate::topology::Topology;

/// What a symptom costs that nothing explains.
const SPURIOUS: u64 = 9200;
/// Most that the loss of all sessions costs that a cause cuts from each other, and what more of them add. They are missing together when
/// there is a way that the topology does not know.
const ALL_FAR: u64 = 4000;
const MORE_FAR: u64 = 16;
/// What each further process or session costs more: many at once have a cause that the topology does not know, and none of their own.
const MORE_SOFT: u64 = 6000;
/// What one costs of a session between parts that the topology knows no way between: a line is missing there.
const ISLAND: u64 = 1500;
/// What one costs that stayed when its cause was gone: the word of its end is likelier lost than that it has a cause of its own.
const LEFT: u64 = 3300;
/// What it costs that a node says of a symptom that it is well again.
const CLEARED: u64 = 6000;
/// What it costs that the file lacks a way which must be there, as who is behind it was heard: two in a hundred lines are wrong.
const WAY: u64 = 3900;
/// Most causes found at once.
const MOST_CAUSES: usize = 16;
/// Symptoms whose candidates are looked at in one round.
const MOST_ASKED: usize = 256;
/// Candidates that are tried together with the causes found so far, in one round.
const MOST_TRIED: usize = 12;
/// Columns kept, in symptoms.
const CACHE: usize = 4_000_000;

/// What the loss of a symptom costs. Routing protocols may notice only when a timer has run out, so their silence says less.
fn missing(symptom: Symptom) -> u64 {
    match symptom {
        Symptom::Interface { .. } => 3000,
        Symptom::Card { .. } | Symptom::Power { .. } => 2000,
        Symptom::Adjacency { .. } => 1000,
        Symptom::Restart { .. } => 0,
    }
}

/// What was observed.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// To be explained.
    pub there: BTreeSet<u32>,
    /// Those of them that stayed when their cause was gone.
    pub left: BTreeSet<u32>,
    /// Those of them of sessions that the topology has no way for.
    pub islands: BTreeSet<u32>,
    /// There, and to be explained another time.
    pub late: BTreeSet<u32>,
    /// Was there, and the node said that it is well again.
    pub cleared: BTreeSet<u32>,
    /// Nodes that were heard.
    pub spoke: BTreeSet<u32>,
}

impl Seen {
    /// What it costs that nothing explains a symptom.
    fn spurious(&self, symptom: u32) -> u64 {
        match symptom {
            at if self.islands.contains(&at) => ISLAND,
            at if self.left.contains(&at) => LEFT,
            _ => SPURIOUS,
        }
    }

    /// What it costs that a symptom is not there.
    fn lack(&self, topology: &Topology, symptom: u32) -> u64 {
        if self.late.contains(&symptom) {
            0
        } else if self.cleared.contains(&symptom) {
            CLEARED
        } else {
            missing(topology.symptoms[symptom as usize])
        }
    }
}

/// What all costs that is not there, gathered.
#[derive(Default)]
struct Lack {
    near: u64,
    far: u64,
}

impl Lack {
    fn add(&mut self, topology: &Topology, causes: &[Problem], seen: &Seen, symptom: u32) {
        let cost = seen.lack(topology, symptom);
        // What ends all of a node's sessions shows in them, whatever ways there are.
        let is_own = |cause: &Problem| match (*cause, topology.symptoms[symptom as usize]) {
            (Problem::Process(of, kind), Symptom::Adjacency { node, protocol, peer }) => {
                kind == protocol && (of == node || of == peer)
            }
            (Problem::Session(at), _) => topology.adjacencies[at as usize].symptoms.contains(&symptom),
            _ => false,
        };
        if topology.is_far[symptom as usize] && cost < CLEARED && !causes.iter().any(is_own) {
            self.far += cost;
        } else {
            self.near += cost;
        }
    }

    fn cost(&self) -> u64 {
        self.near + self.far.min(ALL_FAR + self.far / MORE_FAR)
    }
}

/// Causes found so far: some that are known, then others.
struct Search {
    fixed: usize,
    causes: Vec<Problem>,
    predicted: Vec<u32>,
    cost: u64,
}

/// A cause and what it explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// All that have its symptoms, the lowest in the containment tree first.
    pub problems: Vec<Problem>,
    /// Their names.
    pub class: Vec<Element>,
    /// Observed symptoms that it explains.
    pub explains: Vec<u32>,
    /// Symptoms it has.
    pub expected: u32,
    /// Those of them that were observed.
    pub seen: u32,
    /// Too little of what shows it first was seen to name it: of what is at the place nothing, of a process or session not half.
    pub doubtful: bool,
    /// By how much the next best explanation of its symptoms costs more.
    pub margin: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Explanation {
    pub causes: Vec<Cause>,
    /// All symptoms of the causes together, in order.
    pub predicted: Vec<u32>,
}

/// The codebook of a topology.
#[derive(Debug)]
pub(crate) struct Codebook {
    whole: Whole,
    cuts: Cuts,
    /// Symptoms of sessions between parts that the topology knows no way between.
    islands: BTreeSet<u32>,
    columns: BTreeMap<Problem, Arc<[u32]>>,
    cached: usize,
    /// What one prediction costs: the elements it looks at.
    size: u64,
    /// Work that may still be done, and that was.
    left: u64,
    done: u64,
}

struct Tried {
    problem: Problem,
    cost: u64,
    predicted: Vec<u32>,
}

impl Codebook {
    pub fn new(topology: &Topology) -> Self {
        let whole = Whole::new(topology);
        let islands = whole.sessions_without_way(topology);
        let size = (topology.nodes.len() + topology.links.len() + topology.adjacencies.len()) as u64 + 1;
        let cuts = Cuts::new(topology);
        Self { whole, cuts, islands, columns: BTreeMap::new(), cached: 0, size, left: 0, done: 0 }
    }

    /// Lets the search do so much from here on: elements of the topology that are looked at. What is found by then counts.
    pub fn allow(&mut self, work: u64) {
        (self.left, self.done) = (work, 0);
    }

    /// Work done since it was allowed, and whether the search ended for it.
    pub fn spent(&self) -> (u64, bool) {
        (self.done, self.is_spent())
    }

    /// What one prediction costs: the elements it looks at.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn is_spent(&self) -> bool {
        self.done >= self.left
    }

    /// Those of these symptoms that the topology has no way for.
    pub fn islands(&self, symptoms: &BTreeSet<u32>) -> BTreeSet<u32> {
        symptoms.intersection(&self.islands).copied().collect()
    }

    /// The symptoms of one cause alone.
    pub fn column(&mut self, topology: &Topology, problem: Problem) -> Arc<[u32]> {
        if let Some(column) = self.columns.get(&problem) {
            return Arc::clone(column);
        }
        self.done += self.size;
        let column: Arc<[u32]> = predict(topology, &self.whole, &[problem], None).symptoms.into();
        if self.cached > CACHE {
            self.columns.clear();
            self.cached = 0;
        }
        self.cached += column.len();
        self.columns.insert(problem, Arc::clone(&column));
        column
    }

    /// The symptoms of causes together.
    pub fn together(&mut self, topology: &Topology, causes: &[Problem]) -> Vec<u32> {
        match causes {
            [] => Vec::new(),
            [one] => self.column(topology, *one).to_vec(),
            _ => {
                self.done += self.size;
                predict(topology, &self.whole, causes, None).symptoms
            }
        }
    }

    /// The symptoms of causes together in the light of who was heard, and what they cost: by the file, or with ways that it lacks.
    fn weigh(&mut self, topology: &Topology, causes: &[Problem], seen: &Seen) -> (Vec<u32>, u64) {
        self.done += self.size;
        let by_file = predict(topology, &self.whole, causes, None);
        let least = cost(topology, causes, &by_file.symptoms, seen);
        if !by_file.is_cut {
            return (by_file.symptoms, least);
        }
        self.done += self.size;
        let by_ear = predict(topology, &self.whole, causes, Some(&seen.spoke));
        let other = cost(topology, causes, &by_ear.symptoms, seen) + by_ear.ways * WAY;
        if other < least { (by_ear.symptoms, other) } else { (by_file.symptoms, least) }
    }

    /// Explains what was observed (all there is), given causes that are known (`fixed`). Those are not in the answer. `before` is what was
    /// thought until now, one of three places that the search starts from: nothing, that, and what explains the interfaces alone, as two
    /// cuts are found by their ends and not by what they part together.
    pub fn explain(&mut self, topology: &Topology, fixed: &[Problem], before: &[Problem], seen: &Seen) -> Explanation {
        let start = |codebook: &mut Self, more: &[Problem]| {
            let causes = [fixed, more].concat();
            let (predicted, cost) = codebook.weigh(topology, &causes, seen);
            Search { fixed: fixed.len(), causes, predicted, cost }
        };
        // Without work left what was thought stays.
        let mut best = start(self, if self.is_spent() { before } else { &[] });
        self.search(topology, seen, &mut best);
        if best.causes.len() > fixed.len() + 1 || best.predicted.len() < seen.there.len() {
            let mut others = Vec::new();
            if !before.is_empty() {
                others.push(start(self, before));
            }
            let is_physical =
                |symptom: &u32| !matches!(topology.symptoms[*symptom as usize], Symptom::Adjacency { .. });
            let there: BTreeSet<u32> = seen.there.iter().copied().filter(is_physical).collect();
            let late = seen.there.difference(&there).copied().collect();
            let physical = Seen { there, late, islands: BTreeSet::new(), ..seen.clone() };
            let mut first = start(self, &[]);
            (first.predicted, first.cost) = self.weigh(topology, &first.causes, &physical);
            self.search(topology, &physical, &mut first);
            (first.predicted, first.cost) = self.weigh(topology, &first.causes, seen);
            others.push(first);
            for mut other in others {
                self.search(topology, seen, &mut other);
                self.prune(topology, seen, &mut other);
                if other.cost < best.cost {
                    best = other;
                }
            }
        }
        let Search { mut causes, predicted, cost, .. } = best;
        let found = causes.split_off(fixed.len());
        let causes =
            (0..found.len()).map(|at| self.cause(topology, fixed, &found, at, &predicted, seen, cost)).collect();
        Explanation { causes, predicted }
    }

    /// Takes the cause that saves most, as long as one saves something.
    fn search(&mut self, topology: &Topology, seen: &Seen, search: &mut Search) {
        while search.causes.len() < search.fixed + MOST_CAUSES && !self.is_spent() {
            let mut tried = self.round(topology, &search.causes, &search.predicted, seen);
            tried.retain(|it| it.cost < search.cost);
            let Some(best) = tried.into_iter().min_by_key(|it| (it.cost, order(topology, it.problem))) else { break };
            search.causes.push(best.problem);
            (search.predicted, search.cost) = (best.predicted, best.cost);
            self.prune(topology, seen, search);
        }
    }

    /// Tries what could explain the symptoms that nothing explains yet.
    fn round(&mut self, topology: &Topology, causes: &[Problem], predicted: &[u32], seen: &Seen) -> Vec<Tried> {
        let is_open = |symptom: &u32| predicted.binary_search(symptom).is_err();
        let mut asked = BTreeSet::new();
        // What a missing line makes unexplainable is worth no cause.
        let is_asked = |symptom: &&u32| is_open(symptom) && !seen.islands.contains(symptom);
        for &symptom in seen.there.iter().filter(is_asked).take(MOST_ASKED) {
            candidates(topology, &self.cuts, symptom, &mut asked);
        }
        // First by what each alone would save: the sum is quick, and wrong only where causes hide or help each other.
        let mut ranked: Vec<(i64, Problem)> = Vec::new();
        for problem in asked.into_iter().filter(|problem| !causes.contains(problem)) {
            if self.is_spent() {
                break;
            }
            let column = self.column(topology, problem);
            let (mut saved, mut lack) = (-(problem.cost() as i64), Lack::default());
            for &symptom in column.iter().filter(|symptom| is_open(symptom)) {
                if seen.there.contains(&symptom) {
                    saved += seen.spurious(symptom) as i64;
                } else {
                    lack.add(topology, &[problem], seen, symptom);
                }
            }
            saved -= lack.cost() as i64;
            ranked.push((-saved, problem));
        }
        ranked.sort_by_key(|&(saved, problem)| (saved, problem.rank(), problem));
        ranked.truncate(MOST_TRIED);
        ranked
            .into_iter()
            .map(|(_, problem)| {
                let with = [causes, &[problem]].concat();
                let (predicted, cost) = self.weigh(topology, &with, seen);
                Tried { problem, cost, predicted }
            })
            .collect()
    }

    /// Takes out what is needed no more.
    fn prune(&mut self, topology: &Topology, seen: &Seen, search: &mut Search) {
        let mut at = search.fixed;
        while at < search.causes.len() && search.causes.len() > search.fixed + 1 && !self.is_spent() {
            let mut without = search.causes.clone();
            without.remove(at);
            let (left, cost) = self.weigh(topology, &without, seen);
            if cost <= search.cost {
                (search.causes, search.predicted, search.cost) = (without, left, cost);
            } else {
                at += 1;
            }
        }
    }

    /// What there is to say of the cause at this place.
    #[expect(clippy::too_many_arguments, reason = "one caller; all of it is what one explanation knows")]
    fn cause(
        &mut self,
        topology: &Topology,
        fixed: &[Problem],
        found: &[Problem],
        at: usize,
        predicted: &[u32],
        seen: &Seen,
        least: u64,
    ) -> Cause {
        let problem = found[at];
        let mut others: Vec<Problem> = fixed.to_vec();
        others.extend(found.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, problem)| problem));
        let (without, _) = self.weigh(topology, &others, seen);
        let column = self.column(topology, problem);
        let is_own = |symptom: &u32| column.binary_search(symptom).is_ok() || without.binary_search(symptom).is_err();
        let own: Vec<u32> = predicted.iter().copied().filter(is_own).collect();
        let explains: Vec<u32> = own.iter().copied().filter(|symptom| seen.there.contains(symptom)).collect();
        // Its rivals: what could explain some of the same, in the same company.
        let mut rivals = BTreeSet::new();
        for &symptom in explains.iter().take(MOST_ASKED) {
            candidates(topology, &self.cuts, symptom, &mut rivals);
        }
        rivals.retain(|rival| !others.contains(rival));
        let mut ranked: Vec<(usize, Problem)> = Vec::new();
        for rival in rivals {
            if self.is_spent() {
                break;
            }
            let column = self.column(topology, rival);
            let shared = own.iter().filter(|symptom| column.binary_search(symptom).is_ok()).count();
            ranked.push((own.len() - shared + column.len().saturating_sub(shared), rival));
        }
        ranked.sort_by_key(|&(far, rival)| (far, rival.rank(), rival));
        ranked.truncate(MOST_TRIED);
        let (mut class, mut margin) = (vec![problem], u64::MAX);
        for (_, rival) in ranked.into_iter().filter(|(_, rival)| *rival != problem) {
            if self.is_spent() {
                // What was not compared may be as good.
                margin = 0;
                break;
            }
            let with = [&others[..], &[rival]].concat();
            let (column, cost) = self.weigh(topology, &with, seen);
            let has_all = || explains.iter().all(|symptom| column.binary_search(symptom).is_ok());
            if is_same(topology, &column, predicted) && has_all() {
                class.push(rival);
            } else {
                margin = margin.min(cost.saturating_sub(least));
            }
        }
        class.sort_by_cached_key(|&problem| order(topology, problem));
        let problems = class;
        let class = problems.iter().flat_map(|problem| problem.elements(topology)).collect();
        let counts = |symptom: &&u32| missing(topology.symptoms[**symptom as usize]) > 0;
        let is_near = |symptom: &&u32| counts(symptom) && !topology.is_far[**symptom as usize];
        let (expected, seen) =
            (own.iter().filter(counts).count() as u32, explains.iter().filter(counts).count() as u32);
        let doubtful = match problem {
            Problem::Session(_) | Problem::Process(..) => seen * 2 < expected,
            _ => seen > 0 && !explains.iter().any(|at| is_near(&at)),
        };
        Cause { problems, class, expected, seen, doubtful, explains, margin }
    }
}

/// Equal but for restarts, which come later if ever.
fn is_same(topology: &Topology, one: &[u32], other: &[u32]) -> bool {
    let counts = |symptom: &&u32| missing(topology.symptoms[**symptom as usize]) > 0;
    one.iter().filter(counts).eq(other.iter().filter(counts))
}

/// The order among equals.
fn order(topology: &Topology, problem: Problem) -> (u8, Vec<Element>) {
    (problem.rank(), problem.elements(topology))
}

fn cost(topology: &Topology, causes: &[Problem], predicted: &[u32], seen: &Seen) -> u64 {
    let mut cost: u64 = causes.iter().map(|cause| cause.cost()).sum();
    let is_soft = |cause: &&Problem| matches!(cause, Problem::Session(_) | Problem::Process(..));
    cost += (causes.iter().filter(is_soft).count() as u64).saturating_sub(1) * MORE_SOFT;
    for &symptom in &seen.there {
        cost += seen.spurious(symptom);
    }
    let mut lack = Lack::default();
    for &symptom in predicted {
        if seen.there.contains(&symptom) {
            cost -= seen.spurious(symptom);
        } else {
            lack.add(topology, causes, seen, symptom);
        }
    }
    cost + lack.cost()
}

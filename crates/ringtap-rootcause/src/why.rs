//! Why a cause makes an alarm: the elements between them, each with its reason, as people follow it.
//!
//! Owns the words. Whether the cause has the symptom at all is the codebook's.

use serde::{Deserialize, Serialize};

use crate::problem::{Element, Problem};
use crate::symptom::Symptom;
use crate::topology::{Need, Topology};

/// Longest chain of nodes that need each other.
const DEEPEST: usize = 16;

/// One element on the way from a cause to an alarm.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step {
    /// The element.
    pub element: Element,
    /// Why what stands before it makes it fail; of the cause itself empty.
    pub because: String,
}

/// The way from a cause to a symptom of it, the cause first. What comes of several causes together has the cause alone.
pub(crate) fn path(topology: &Topology, cause: Problem, symptom: Symptom) -> Vec<Step> {
    match symptom {
        Symptom::Interface { node, index } => {
            let at = |link: &&u32| topology.link(**link).ends.contains(&(node, index));
            match topology.node(node).links.iter().find(at) {
                Some(&link) => to_link(topology, cause, link, node),
                None => vec![step(topology, cause, "")],
            }
        }
        Symptom::Adjacency { node, protocol, peer } => to_session(topology, cause, (node, peer), protocol),
        Symptom::Restart { node } => {
            let mut path = to_dead(topology, cause, node, 0).unwrap_or_else(|| vec![step(topology, cause, "")]);
            path.push(step(topology, Problem::Node(node), "starts again"));
            path.dedup_by(|later, earlier| later.element == earlier.element);
            path
        }
        Symptom::Card { .. } | Symptom::Power { .. } => vec![step(topology, cause, "")],
    }
}

fn step(topology: &Topology, problem: Problem, because: &str) -> Step {
    Step { element: problem.elements(topology).swap_remove(0), because: because.to_owned() }
}

/// To a link that `node` says is down.
fn to_link(topology: &Topology, cause: Problem, link: u32, node: u32) -> Vec<Step> {
    let it = topology.link(link);
    let this = |because: &str| step(topology, Problem::Link(link), because);
    match cause {
        Problem::Card(card) if it.cards.contains(&Some(card)) => {
            vec![step(topology, cause, ""), this("has a port on this card")]
        }
        Problem::Link(_) | Problem::Session(_) | Problem::Process(..) | Problem::Card(_) => {
            vec![step(topology, cause, "")]
        }
        Problem::Node(_) | Problem::Power(_) | Problem::Site(_) => {
            let other = topology.other_end(link, node);
            match to_dead(topology, cause, other, 0) {
                Some(mut path) => {
                    path.push(this("ends at this node"));
                    path
                }
                None => vec![step(topology, cause, "")],
            }
        }
    }
}

/// To a session that one end has lost.
fn to_session(
    topology: &Topology,
    cause: Problem,
    (node, peer): (u32, u32),
    protocol: crate::topology::Protocol,
) -> Vec<Step> {
    let is_it = |at: &&u32| {
        let it = &topology.adjacencies[**at as usize];
        it.protocol == protocol && (it.ends == [node, peer] || it.ends == [peer, node])
    };
    let alone = || vec![step(topology, cause, "")];
    let Some(&at) = topology.node(node).adjacencies.iter().find(is_it) else { return alone() };
    let this = |because: &str| step(topology, Problem::Session(at), because);
    let with = |mut path: Vec<Step>, because: &str| {
        path.push(this(because));
        path
    };
    match cause {
        Problem::Session(_) => return alone(),
        Problem::Process(..) => return with(alone(), "is kept by this process"),
        _ => {}
    }
    if let Some(path) = to_dead(topology, cause, peer, 0) {
        return with(path, "ends at this node");
    }
    match topology.adjacencies[at as usize].link {
        Some(link) if cause == Problem::Link(link) => with(alone(), "lives on this link"),
        Some(link) => match &to_link(topology, cause, link, node)[..] {
            [_] => alone(),
            path => with(path.to_vec(), "lives on this link"),
        },
        None => with(alone(), "has no other way"),
    }
}

/// To a node that this cause makes dead; `None`: it does not.
fn to_dead(topology: &Topology, cause: Problem, node: u32, depth: usize) -> Option<Vec<Step>> {
    let it = topology.node(node);
    let start = || vec![step(topology, cause, "")];
    let with = |mut path: Vec<Step>, because: &str| {
        path.push(step(topology, Problem::Node(node), because));
        path
    };
    match cause {
        Problem::Node(dead) if dead == node => return Some(start()),
        Problem::Power(power) if it.power.contains(&power) => return Some(with(start(), "has no other power")),
        Problem::Site(site) if it.site == Some(site) => return Some(with(start(), "stands there")),
        Problem::Node(_) | Problem::Power(_) | Problem::Site(_) if depth < DEEPEST => {}
        _ => return None,
    }
    let needed = it.needs.iter().flat_map(|need| match need {
        Need::Any(of) | Need::All(of) => of,
    });
    let path = needed.copied().find_map(|other| to_dead(topology, cause, other, depth + 1))?;
    Some(with(path, "needs this node"))
}

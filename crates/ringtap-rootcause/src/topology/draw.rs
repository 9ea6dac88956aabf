//! A topology as text for people and as a graph for Graphviz.
//!
//! Owns both forms. Names come from files that strangers may have written: quotes, backslashes and control characters in them are escaped.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use super::{Need, Topology};

/// Most links between one pair of nodes that a graph shows with their ports; the rest is a number.
const MOST_PORTS: usize = 4;

/// As a tree: from where the station is attached (else from the first node) to what lies behind; links beside the tree, and what is not
/// connected, are told below it.
pub fn tree(topology: &Topology) -> String {
    let mut tree = Tree { topology, seen: vec![false; topology.nodes.len()], used: vec![false; topology.links.len()] };
    let mut out = String::new();
    let starts: Vec<u32> = topology.attached.iter().copied().chain(0..topology.nodes.len() as u32).collect();
    for (at, start) in starts.into_iter().enumerate() {
        if !tree.seen[start as usize] {
            if at >= topology.attached.len() && !topology.attached.is_empty() && at > 0 {
                out.push_str("not connected with the station:\n");
            }
            tree.print(start, &mut out);
        }
    }
    let beside: Vec<u32> = (0..topology.links.len() as u32).filter(|at| !tree.used[*at as usize]).collect();
    if !beside.is_empty() {
        out.push_str("links beside the tree:\n");
        for at in beside {
            let _ = writeln!(out, "  {}", shown(&topology.link_name(at)));
        }
    }
    groups(topology, &mut out);
    out
}

struct Tree<'t> {
    topology: &'t Topology,
    seen: Vec<bool>,
    used: Vec<bool>,
}

impl Tree<'_> {
    /// Breadth first, so that each node stands where its shortest way leads; printed depth first.
    fn print(&mut self, start: u32, out: &mut String) {
        let topology = self.topology;
        let mut below: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        let mut wave = vec![start];
        self.seen[start as usize] = true;
        while !wave.is_empty() {
            let mut next = Vec::new();
            for node in wave {
                for &link in &topology.node(node).links {
                    let other = topology.other_end(link, node);
                    if !std::mem::replace(&mut self.seen[other as usize], true) {
                        self.used[link as usize] = true;
                        below.entry(node).or_default().push((link, other));
                        next.push(other);
                    }
                }
            }
            wave = next;
        }
        let attached = if topology.attached.contains(&start) { " (the station is here)" } else { "" };
        let _ = writeln!(out, "{}{attached}", node_text(topology, start));
        // What is still to be printed, the next one last: its indent, and whether it ends its branch.
        let mut todo: Vec<(u32, u32, String, bool)> = Vec::new();
        let push = |todo: &mut Vec<_>, node: u32, indent: &str| {
            for (at, &(link, other)) in below.get(&node).into_iter().flatten().rev().enumerate() {
                todo.push((link, other, indent.to_owned(), at == 0));
            }
        };
        push(&mut todo, start, "");
        while let Some((link, node, indent, is_last)) = todo.pop() {
            let name = shown(&topology.link_name(link));
            let attached = if topology.attached.contains(&node) { " (the station is here)" } else { "" };
            let turn = if is_last { "└─" } else { "├─" };
            let _ = writeln!(out, "{indent}{turn} {}  [{name}]{attached}", node_text(topology, node));
            push(&mut todo, node, &format!("{indent}{}", if is_last { "   " } else { "│  " }));
        }
    }
}

fn node_text(topology: &Topology, at: u32) -> String {
    let node = topology.node(at);
    let mut out = shown(&node.name);
    for address in node.addresses.iter().take(2) {
        let _ = write!(out, " {address}");
    }
    if node.addresses.len() > 2 {
        let _ = write!(out, " …{} more", node.addresses.len() - 2);
    }
    if !node.in_band {
        out.push_str(" out-of-band");
    }
    out
}

fn groups(topology: &Topology, out: &mut String) {
    for (kind, groups) in [("power", &topology.power), ("site", &topology.sites)] {
        for group in groups {
            let names: Vec<String> = group.nodes.iter().map(|&node| shown(&topology.node(node).name)).collect();
            let _ = writeln!(out, "{kind} {}: {}", shown(&group.name), names.join(" "));
        }
    }
    for node in &topology.nodes {
        for need in &node.needs {
            let (word, of) = match need {
                Need::Any(of) => ("any", of),
                Need::All(of) => ("all", of),
            };
            let names: Vec<String> = of.iter().map(|&node| shown(&topology.node(node).name)).collect();
            let _ = writeln!(out, "{} needs {word} of: {}", shown(&node.name), names.join(" "));
        }
    }
}

/// As a graph in the DOT language of Graphviz: links as lines, needs as dashed arrows, sites as clusters; what is nearer to the station
/// is above.
pub fn dot(topology: &Topology) -> String {
    let mut out = String::from(
        "graph topology {\n  graph [fontname=\"sans-serif\"];\n  node [shape=box, fontname=\"sans-serif\"];\n  \
         edge [fontname=\"sans-serif\", fontsize=9];\n",
    );
    let node = |out: &mut String, indent: &str, at: u32| {
        let it = topology.node(at);
        let label = match it.addresses.first() {
            Some(address) => format!("{}\\n{address}", escaped(&it.name)),
            None => escaped(&it.name),
        };
        let style = if topology.attached.contains(&at) { ", style=bold" } else { "" };
        let _ = writeln!(out, "{indent}n{at} [label=\"{label}\"{style}];");
    };
    for (number, site) in topology.sites.iter().enumerate() {
        let _ = writeln!(out, "  subgraph cluster_{number} {{\n    label=\"{}\";", escaped(&site.name));
        site.nodes.iter().for_each(|&at| node(&mut out, "    ", at));
        out.push_str("  }\n");
    }
    (0..topology.nodes.len() as u32)
        .filter(|at| topology.node(*at).site.is_none())
        .for_each(|at| node(&mut out, "  ", at));
    let mut pairs: BTreeMap<(u32, u32), Vec<String>> = BTreeMap::new();
    let steps = steps(topology);
    for link in &topology.links {
        let [mut from, mut to] = link.ends;
        if steps[to.0 as usize] < steps[from.0 as usize] {
            std::mem::swap(&mut from, &mut to);
        }
        let ((a, i), (b, j)) = (from, to);
        let (i, j) = (topology.interface_name(a, i), topology.interface_name(b, j));
        pairs.entry((a, b)).or_default().push(format!("{} – {}", escaped(&i), escaped(&j)));
    }
    for ((a, b), ports) in pairs {
        let more = ports.len().saturating_sub(MOST_PORTS);
        let mut label = ports[..ports.len() - more].join("\\n");
        if more > 0 {
            let _ = write!(label, "\\nand {more} more");
        }
        let _ = writeln!(out, "  n{a} -- n{b} [label=\"{label}\"];");
    }
    for (at, it) in topology.nodes.iter().enumerate() {
        for Need::Any(of) | Need::All(of) in &it.needs {
            for other in of {
                // Graphviz puts the first one above: what stands on others is below them.
                let _ = writeln!(out, "  n{other} -- n{at} [style=dashed, dir=back];");
            }
        }
    }
    out.push_str("}\n");
    out
}

/// How many links from the station, or from the first node where that is not connected with it.
fn steps(topology: &Topology) -> Vec<u32> {
    let mut steps = vec![u32::MAX; topology.nodes.len()];
    let mut next: VecDeque<u32> = topology.attached.iter().copied().collect();
    next.iter().for_each(|&start| steps[start as usize] = 0);
    let mut others = 0..topology.nodes.len() as u32;
    loop {
        while let Some(node) = next.pop_front() {
            for &link in &topology.node(node).links {
                let other = topology.other_end(link, node);
                if steps[other as usize] == u32::MAX {
                    steps[other as usize] = steps[node as usize] + 1;
                    next.push_back(other);
                }
            }
        }
        let Some(start) = others.find(|&node| steps[node as usize] == u32::MAX) else { return steps };
        steps[start as usize] = 0;
        next.push_back(start);
    }
}

/// Within quotes of DOT.
fn escaped(text: &str) -> String {
    shown(text).replace('\\', "\\\\").replace('"', "\\\"")
}

fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::file;

    const NETWORK: &str = "
station = { attached = ['core'] }
node = [
    { name = 'core', addresses = ['10.0.0.1'], interface = [{ name = 'ge-0/0/1', index = 1 }] },
    { name = 'd\"1', addresses = ['10.0.0.2', '10.0.1.2', '10.0.2.2'], site = 'paris' },
    { name = 'd2', power = ['feed'] },
    { name = 'a', management = 'out-of-band' },
    { name = 'alone' },
]
link = [
    { ends = ['core:ge-0/0/1', 'd\"1:1'] },
    { ends = ['core:2', 'd2:1'] },
    { ends = ['d\"1:2', 'd2:2'] },
    { ends = ['d2:3', 'a:1'] },
]
depends = [{ node = 'a', any = ['alone'] }]
";

    #[test]
    fn a_tree_begins_at_the_station_and_leaves_nothing_out() {
        let text = tree(&file::read(NETWORK).unwrap());
        let expected = "\
core 10.0.0.1 (the station is here)
├─ d\"1 10.0.0.2 10.0.1.2 …1 more  [core:ge-0/0/1-d\"1:1]
└─ d2  [core:2-d2:1]
   └─ a out-of-band  [d2:3-a:1]
not connected with the station:
alone
links beside the tree:
  d\"1:2-d2:2
power feed: d2
site paris: d\"1
a needs any of: alone
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_graph_has_the_station_above_whatever_end_a_link_begins_with() {
        let turned = NETWORK.replace("['core:2', 'd2:1']", "['d2:1', 'core:2']");
        let text = dot(&file::read(&turned).unwrap());
        assert!(text.contains("n0 -- n2 [label=\"2 – 1\"];"), "{text}");
        // Both are as far: as the file has them.
        assert!(text.contains("n1 -- n2 [label=\"2 – 2\"];"), "{text}");
    }

    #[test]
    fn a_graph_escapes_names() {
        let text = dot(&file::read(NETWORK).unwrap());
        for part in [
            "subgraph cluster_0 {\n    label=\"paris\";\n    n1 [label=\"d\\\"1\\n10.0.0.2\"];",
            "n0 [label=\"core\\n10.0.0.1\", style=bold];",
            "n0 -- n1 [label=\"ge-0/0/1 – 1\"];",
            "n4 -- n3 [style=dashed, dir=back];",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }
}

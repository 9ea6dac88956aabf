//! A topology file as other tools are given it: what each can look up, read on its own.

use std::collections::HashMap;
use std::fmt::Write;

use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    node: Vec<Node>,
    link: Vec<Link>,
    #[serde(default)]
    adjacency: Vec<Adjacency>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    addresses: Vec<String>,
    #[serde(default)]
    power: Vec<String>,
    #[serde(default)]
    card: Vec<Card>,
}

#[derive(Deserialize)]
struct Card {
    name: String,
    entity: u32,
    ports: Vec<u32>,
}

#[derive(Deserialize)]
struct Link {
    ends: [String; 2],
}

#[derive(Deserialize)]
struct Adjacency {
    protocol: String,
    ends: [String; 2],
}

/// What there is.
pub struct Map {
    file: File,
    /// Names by address, and links by `NODE:PORT`.
    nodes: HashMap<String, String>,
    links: HashMap<String, String>,
    between: HashMap<[String; 2], String>,
}

impl Map {
    pub fn read(text: &str) -> Self {
        let file: File = toml::from_str(text).expect("the simulator's own file");
        let (mut nodes, mut links, mut between) = (HashMap::new(), HashMap::new(), HashMap::new());
        for node in &file.node {
            nodes.extend(node.addresses.iter().map(|address| (address.clone(), node.name.clone())));
        }
        for link in &file.link {
            let [a, b] = &link.ends;
            let name = format!("link:{a}-{b}");
            let [from, to] = [a, b].map(|end| node_of(end).to_owned());
            links.extend([(a.clone(), name.clone()), (b.clone(), name.clone())]);
            between.extend([([from.clone(), to.clone()], name.clone()), ([to, from], name)]);
        }
        Self { file, nodes, links, between }
    }

    /// What an alarm is about, by all names that fit; empty: nothing here.
    pub fn names(&self, resource: &str, condition: &str, object: &str) -> Vec<String> {
        let Some(node) = self.nodes.get(resource) else { return Vec::new() };
        match condition {
            "linkDown" => {
                let port = format!("{node}:{object}");
                self.links.get(&port).into_iter().cloned().chain([format!("port:{port}")]).collect()
            }
            "ospfNbrStateChange" => {
                let peer = object.strip_suffix(".0").and_then(|address| self.nodes.get(address));
                let link = peer.and_then(|peer| self.between.get(&[node.clone(), peer.clone()]));
                link.into_iter().cloned().collect()
            }
            "bgpBackwardTransition" => {
                let ends = [Some(node), self.nodes.get(object)];
                ends.into_iter().flatten().map(|node| format!("process:{node}/bgp")).collect()
            }
            "entStateOperDisabled" => {
                let of = self.file.node.iter().find(|it| it.name == *node);
                let card = of.into_iter().flat_map(|it| &it.card).find(|card| card.entity.to_string() == object);
                card.map(|card| format!("card:{node}/{}", card.name)).into_iter().collect()
            }
            _ => vec![format!("node:{node}")],
        }
    }

    /// As lines of words for `sec.pl`.
    pub fn lines(&self) -> String {
        let mut out = String::new();
        for node in &self.file.node {
            for address in &node.addresses {
                let _ = writeln!(out, "address {address} {}", node.name);
            }
            for feed in &node.power {
                let _ = writeln!(out, "feed {} {feed}", node.name);
            }
            for card in &node.card {
                let ports: Vec<String> = card.ports.iter().map(u32::to_string).collect();
                let _ = writeln!(out, "card {} {} {} {}", node.name, card.name, card.entity, ports.join(" "));
            }
        }
        for link in &self.file.link {
            let [a, b] = &link.ends;
            let words = [a, b].map(|end| end.replacen(':', " ", 1));
            let _ = writeln!(out, "link {a}-{b} {} {}", words[0], words[1]);
        }
        for it in self.file.adjacency.iter().filter(|it| it.protocol == "bgp") {
            let _ = writeln!(out, "session {} {}", it.ends[0], it.ends[1]);
        }
        out
    }
}

fn node_of(end: &str) -> &str {
    end.split(':').next().unwrap_or(end)
}

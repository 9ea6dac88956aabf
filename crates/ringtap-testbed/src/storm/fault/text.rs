//! The topology file of a network, and files that are wrong in some of their lines.

use std::fmt::Write;

use fastrand::Rng;

use super::Network;

/// Ports from here on are no wire's, however many a spine has.
const WRONG_PORT: usize = 1_000_000;

impl Network {
    /// The topology file; of each hundred lines so many are wrong: a link is missing or leads elsewhere, a session is missing, an address is
    /// another, cards have other ports, power is forgotten.
    pub fn topology(&self, wrong_percent: u8, rng: &mut Rng) -> String {
        let mut wrong = 0;
        let mut is_wrong = |rng: &mut Rng| {
            let it = rng.u8(..100) < wrong_percent;
            wrong += usize::from(it);
            it.then_some(wrong)
        };
        let name = |router: usize| self.routers[router].name.as_str();
        let attached: Vec<String> = self.station.iter().map(|&at| format!("'{}'", name(at))).collect();
        let mut out = format!("station = {{ attached = [{}] }}\nnode = [\n", attached.join(", "));
        for router in &self.routers {
            let fault = is_wrong(rng);
            let address = match fault {
                Some(number) if rng.bool() => format!("192.0.{}.{}", 2 + number / 250, number % 250 + 1),
                _ => router.address.to_string(),
            };
            let management = if router.in_band { "in-band" } else { "out-of-band" };
            let feeds: Vec<String> = router.feeds.iter().map(|feed| format!("'p{feed}'")).collect();
            let power = if fault.is_some() { String::new() } else { format!(", power = [{}]", feeds.join(", ")) };
            let cards: Vec<String> = (router.wires.len() > router.ports_per_card)
                .then(|| router.wires.len().div_ceil(router.ports_per_card))
                .into_iter()
                .flat_map(|cards| 1..=cards)
                .map(|card| {
                    let first = (card - 1) * router.ports_per_card + 1;
                    let last = (card * router.ports_per_card).min(router.wires.len());
                    let ports: Vec<String> = (first..=last).map(|port| port.to_string()).collect();
                    format!("{{ name = '{card}', entity = {}, ports = [{}] }}", 1000 + card, ports.join(", "))
                })
                .collect();
            let _ = writeln!(
                out,
                "  {{ name = '{}', addresses = ['{address}'], management = '{management}'{power}, card = [{}] }},",
                router.name,
                cards.join(", ")
            );
        }
        self.wires_text(&mut out, rng, &mut is_wrong);
        out
    }

    fn wires_text(&self, out: &mut String, rng: &mut Rng, is_wrong: &mut impl FnMut(&mut Rng) -> Option<usize>) {
        let name = |router: usize| self.routers[router].name.as_str();
        let mut adjacencies = String::new();
        out.push_str("]\nlink = [\n");
        for wire in &self.wires {
            let [(a, i), (b, j)] = wire.ends;
            let (b, j) = match is_wrong(rng) {
                Some(number) if rng.bool() => (rng.usize(..self.routers.len()), WRONG_PORT + number),
                Some(_) => continue,
                None => (b, j),
            };
            if a == b {
                continue;
            }
            let _ = writeln!(out, "  {{ ends = ['{}:{i}', '{}:{j}'] }},", name(a), name(b));
            if is_wrong(rng).is_none() {
                let (a, b) = (name(a), name(b));
                let _ = writeln!(adjacencies, "  {{ protocol = 'ospf', ends = ['{a}', '{b}'], link = '{a}:{i}' }},");
            }
        }
        let _ = write!(out, "]\nadjacency = [\n{adjacencies}");
        for session in &self.sessions {
            if is_wrong(rng).is_none() {
                let [a, b] = session.ends.map(name);
                let _ = writeln!(out, "  {{ protocol = 'bgp', ends = ['{a}', '{b}'] }},");
            }
        }
        out.push_str("]\n");
    }
}

//! Ports of DPDK's: which there are, and whether they can sleep.
//!
//! Owns which cards are looked at: those that vfio-pci has, as no program of the kernel's uses them. Virtual devices are there when they
//! are named.

use std::fs;
use std::path::Path;

use ringtap::source::dpdk::{PortFound, Survey, library_version, survey};

use super::{Finding, State};
use crate::dpdk::DpdkOptions;

const SCOPE: &str = "DPDK";

/// One line for the library, and one for each port.
pub(super) fn findings(options: &DpdkOptions) -> Vec<Finding> {
    let cards = match &options.arguments {
        None => cards(Path::new("/sys/bus/pci/drivers/vfio-pci")),
        Some(_) => Vec::new(),
    };
    let is_asked = *options != DpdkOptions::default();
    let library = options.library();
    let told = options.arguments.clone().or_else(|| (!cards.is_empty()).then(|| allowing(&cards)));
    let found = match told {
        Some(told) => survey(library.as_deref(), &told),
        None => library_version(library.as_deref()).map(|library| Survey {
            library,
            ports: Vec::new(),
            said: String::new(),
        }),
    };
    match found {
        Ok(found) => of(&found, &cards),
        Err(error) => {
            let state = if is_asked { State::Limit } else { State::Note };
            vec![Finding::new(SCOPE, "library", state, format!("can't be used: {error}"))]
        }
    }
}

/// `cards`: PCI addresses that DPDK was to find.
fn of(found: &Survey, cards: &[String]) -> Vec<Finding> {
    let said = if found.said.is_empty() { String::new() } else { format!("; DPDK said: {}", found.said) };
    let mut findings = vec![match (&found.ports[..], cards) {
        ([], []) => {
            let value = format!("{}; no card is bound to vfio-pci{said}", found.library);
            Finding::new(SCOPE, "library", State::Note, value)
        }
        _ => Finding::new(SCOPE, "library", State::Good, found.library.clone()),
    }];
    findings.extend(found.ports.iter().map(of_port));
    let missing = cards.iter().filter(|card| found.ports.iter().all(|port| port.name != **card));
    findings.extend(missing.map(|card| {
        let value =
            format!("{card}: no port of DPDK's (another program has the card, or no driver of DPDK's knows it){said}");
        Finding::new(SCOPE, "port", State::Limit, value)
    }));
    findings
}

fn of_port(PortFound { name, driver, queues, sleeps }: &PortFound) -> Finding {
    let queues = if *queues == 1 { "1 queue".to_owned() } else { format!("up to {queues} queues") };
    let (state, what) = match sleeps {
        Ok(true) => (State::Good, "can sleep: it has receive interrupts".to_owned()),
        Ok(false) => {
            (State::Limit, "can't sleep: it has no receive interrupts, and is looked at by the clock".to_owned())
        }
        Err(error) => (State::Limit, format!("can't be used: {error}")),
    };
    Finding::new(SCOPE, "port", state, format!("{name} ({driver}, {queues}) {what}"))
}

/// Network cards that this driver has, by their PCI addresses in order.
fn cards(driver: &Path) -> Vec<String> {
    let Ok(bound) = fs::read_dir(driver) else { return Vec::new() };
    let is_network = |name: &String| {
        fs::read_to_string(driver.join(name).join("class")).is_ok_and(|class| class.trim_start().starts_with("0x02"))
    };
    let names = bound.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut cards: Vec<String> = names.filter(is_network).collect();
    cards.sort();
    cards
}

fn allowing(cards: &[String]) -> String {
    cards.iter().map(|card| format!("-a {card}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use ringtap::Error;

    use super::*;

    fn port(name: &str, sleeps: ringtap::Result<bool>) -> PortFound {
        PortFound { name: name.to_owned(), driver: "net_x".to_owned(), queues: 4, sleeps }
    }

    #[test]
    fn each_port_is_one_line_and_a_card_without_one_is_told() {
        let refused = Err(Error::failed("open through DPDK", "c", "no memory").way_out("give it some"));
        let ports = vec![port("a", Ok(true)), port("b", Ok(false)), port("c", refused)];
        let found = Survey { library: "DPDK 22.11".to_owned(), ports, said: "EAL: busy".to_owned() };
        let findings = of(&found, &["a".to_owned(), "0000:02:00.0".to_owned()]);
        let lines: Vec<(State, &str)> =
            findings.iter().map(|finding| (finding.state, finding.value.as_str())).collect();
        let starts = [
            (State::Good, "DPDK 22.11"),
            (State::Good, "a (net_x, up to 4 queues) can sleep"),
            (State::Limit, "b (net_x, up to 4 queues) can't sleep"),
            (State::Limit, "c (net_x, up to 4 queues) can't be used: open through DPDK c: no memory"),
            (State::Limit, "0000:02:00.0: no port of DPDK's"),
        ];
        assert_eq!(lines.len(), starts.len(), "{lines:?}");
        for ((state, line), (wanted, start)) in lines.iter().zip(starts) {
            assert!(*state == wanted && line.starts_with(start) && !line.contains('\n'), "{line}");
        }
        assert!(lines[4].1.ends_with("DPDK said: EAL: busy"));
        assert!(findings.iter().all(|finding| finding.consequence.is_none()), "one line each");
    }

    #[test]
    fn only_network_cards_are_looked_at() {
        let driver = tempfile::tempdir().unwrap();
        for (name, class) in [("0000:03:00.0", "0x020000"), ("0000:01:00.0", "0x028000"), ("0000:02:00.0", "0x010802")]
        {
            fs::create_dir(driver.path().join(name)).unwrap();
            fs::write(driver.path().join(name).join("class"), format!("{class}\n")).unwrap();
        }
        fs::write(driver.path().join("bind"), "").unwrap();
        assert_eq!(cards(driver.path()), ["0000:01:00.0", "0000:03:00.0"]);
        assert!(cards(Path::new("/no/such")).is_empty());
        assert_eq!(allowing(&cards(driver.path())), "-a 0000:01:00.0 -a 0000:03:00.0");
    }
}

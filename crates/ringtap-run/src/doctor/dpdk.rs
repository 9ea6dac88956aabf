//! Ports of DPDK's: which there are, and whether they can sleep.
//!
//! Owns which ports are looked at: those that the user names. Whether a port can sleep shows only when it is open, and a card is reset by
//! being opened, so one that vfio-pci has is only told of.

use std::fs;
use std::path::Path;

use ringtap::source::dpdk::{PortFound, Survey, library_version, survey};

use super::{Finding, State};
use crate::dpdk::DpdkOptions;

const SCOPE: &str = "DPDK";

/// One line for the library, and one for each port.
pub(super) fn findings(options: &DpdkOptions) -> Vec<Finding> {
    let is_asked = *options != DpdkOptions::default();
    let library = options.library();
    let found = match &options.arguments {
        Some(told) => survey(library.as_deref(), told).map(|found| of(&found)),
        None => library_version(library.as_deref())
            .map(|library| vec![Finding::new(SCOPE, "library", State::Good, library)]),
    };
    let mut findings = found.unwrap_or_else(|error| {
        let state = if is_asked { State::Limit } else { State::Note };
        vec![Finding::new(SCOPE, "library", state, format!("can't be used: {error}"))]
    });
    if options.arguments.is_none() {
        findings.extend(untried(&cards(Path::new("/sys/bus/pci/drivers/vfio-pci"))));
    }
    findings
}

/// Network cards that vfio-pci has: the kernel has no interface for them.
fn untried(cards: &[String]) -> impl Iterator<Item = Finding> {
    cards.iter().map(|card| {
        let value = format!(
            "{card} is bound to vfio-pci; whether it can sleep shows when it is opened, which resets it: doctor --dpdk-args '-a {card}'"
        );
        Finding::new(SCOPE, "port", State::Note, value)
    })
}

/// What was tried.
fn of(found: &Survey) -> Vec<Finding> {
    let mut findings = vec![Finding::new(SCOPE, "library", State::Good, found.library.clone())];
    findings.extend(found.ports.iter().map(of_port));
    if found.ports.is_empty() {
        findings.push(Finding::new(SCOPE, "port", State::Limit, "DPDK has no port by --dpdk-args".to_owned()));
    }
    // Of a port that is there as well: a driver tells of whatever it does without.
    if !found.said.is_empty() {
        let state = if found.ports.is_empty() { State::Limit } else { State::Note };
        findings.push(Finding::new(SCOPE, "said", state, found.said.clone()));
    }
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

#[cfg(test)]
mod tests {
    use ringtap::Error;

    use super::*;

    fn port(name: &str, sleeps: ringtap::Result<bool>) -> PortFound {
        PortFound { name: name.to_owned(), driver: "net_x".to_owned(), queues: 4, sleeps }
    }

    fn lines(findings: &[Finding]) -> Vec<(State, &str)> {
        assert!(findings.iter().all(|finding| finding.consequence.is_none()), "one line each");
        findings.iter().map(|finding| (finding.state, finding.value.as_str())).collect()
    }

    #[test]
    fn each_port_is_one_line_and_what_is_not_there_is_told() {
        let refused = Err(Error::failed("open through DPDK", "c", "no memory").way_out("give it some"));
        let ports = vec![port("a", Ok(true)), port("b", Ok(false)), port("c", refused)];
        let found = Survey { library: "DPDK 22.11".to_owned(), ports, said: "EAL: busy".to_owned() };
        let findings = of(&found);
        let starts = [
            (State::Good, "DPDK 22.11"),
            (State::Good, "a (net_x, up to 4 queues) can sleep"),
            (State::Limit, "b (net_x, up to 4 queues) can't sleep"),
            (State::Limit, "c (net_x, up to 4 queues) can't be used: open through DPDK c: no memory"),
            (State::Note, "EAL: busy"),
        ];
        let lines_of = lines(&findings);
        assert_eq!(lines_of.len(), starts.len(), "{lines_of:?}");
        for ((state, line), (wanted, start)) in lines_of.iter().zip(starts) {
            assert!(*state == wanted && line.starts_with(start) && !line.contains('\n'), "{line}");
        }
        let nothing = of(&Survey { library: "DPDK 22.11".to_owned(), ports: Vec::new(), said: "EAL: none".to_owned() });
        assert_eq!(
            lines(&nothing)[1..],
            [(State::Limit, "DPDK has no port by --dpdk-args"), (State::Limit, "EAL: none")]
        );
    }

    #[test]
    fn a_card_is_told_of_and_not_opened() {
        let findings: Vec<Finding> = untried(&["0000:02:00.0".to_owned()]).collect();
        let lines = lines(&findings);
        assert_eq!((lines.len(), lines[0].0), (1, State::Note));
        assert!(lines[0].1.ends_with("doctor --dpdk-args '-a 0000:02:00.0'"), "{}", lines[0].1);
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
    }
}

//! What a card does with packets before anybody sees them: ring, queues and hash, merging, VLAN tags, interrupts, clock.
//!
//! Owns the verdicts and the commands that change what they are about. Pure functions take what was read; nothing is set.

use std::fs;

use ringtap::interface::Interface;
use ringtap::sched;

use super::{Finding, State};

/// Findings of an interface; what its driver does not tell is left out.
pub(super) fn findings(interface: &Interface) -> Vec<Finding> {
    let name = interface.name.as_str();
    let has = |feature: &str| interface.feature(feature);
    let mut findings = Vec::new();
    findings.extend(interface.receive_ring().map(|ring| receive_ring(name, ring)));
    findings.extend(merging(name, has("rx-gro"), [has("rx-lro"), has("rx-gro-hw")]));
    findings.extend(has("rx-vlan-hw-parse").map(|takes_out| vlan_tags(name, takes_out)));
    if interface.queues > 1 {
        let is_together = interface.keeps_flows_together().map_err(|error| error.to_string());
        findings.push(flows(name, interface.queues, is_together));
    }
    let online = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    findings.extend(interrupts(name, interface.queues, online, &interrupts_of(name)));
    findings.extend(precision_clock(name));
    findings
}

fn receive_ring(name: &str, (in_use, most): (u32, u32)) -> Finding {
    const NAME: &str = "receive ring";
    let value = format!("{in_use} of at most {most} descriptors");
    if in_use >= most {
        return Finding::new(name, NAME, State::Good, value);
    }
    Finding::new(name, NAME, State::Limit, value)
        .because(format!("a burst that comes while the CPU is away may overrun it: ethtool -G {name} rx {most}"))
}

fn merging(name: &str, gro: Option<bool>, by_card: [Option<bool>; 2]) -> Option<Finding> {
    const NAME: &str = "merging";
    if by_card.contains(&Some(true)) {
        return Some(Finding::new(name, NAME, State::Limit, "by the card (LRO or hardware GRO)").because(format!(
            "packets are joined before they can be seen, and what each was is lost: ethtool -K {name} lro off rx-gro-hw off"
        )));
    }
    Some(match gro? {
        true => Finding::new(name, NAME, State::Note, "by the kernel (GRO)").because(format!(
            "a packet socket gets joined packets whole, larger than the MTU; to see each as it came: ethtool -K {name} gro off"
        )),
        false => Finding::new(name, NAME, State::Good, "off: each packet comes as it was sent"),
    })
}

fn vlan_tags(name: &str, takes_out: bool) -> Finding {
    const NAME: &str = "VLAN tags";
    match takes_out {
        true => Finding::new(name, NAME, State::Note, "taken out by the card").because(format!(
            "packet rings put them back, and AF_XDP has this switched off while it captures; for other programs: ethtool -K {name} rxvlan off"
        )),
        false => Finding::new(name, NAME, State::Good, "left in packets"),
    }
}

fn flows(name: &str, queues: u32, is_together: Result<bool, String>) -> Finding {
    const NAME: &str = "RSS";
    match is_together {
        Ok(true) => Finding::new(name, NAME, State::Good, "by addresses, the same in both directions"),
        Ok(false) => Finding::new(name, NAME, State::Note, "the directions of a flow may come on different queues").because(
            format!(
                "the sensor and the splitter change that while they run, where the driver can; for other programs: ethtool -X {name} \
                 hfunc toeplitz hkey 6d:5a:6d:5a:… (as long as ethtool -x shows), and ethtool -N {name} rx-flow-hash tcp4 sd, \
                 also udp4, tcp6, udp6"
            ),
        ),
        Err(error) => Finding::new(name, NAME, State::Note, format!("not told ({error})")).because(format!(
            "packets of one flow may come on any of {queues} queues; on one: ethtool -L {name} combined 1"
        )),
    }
}

/// The CPUs that may serve each of a card's interrupts.
fn interrupts_of(name: &str) -> Vec<Vec<usize>> {
    let Ok(all) = fs::read_dir(format!("/sys/class/net/{name}/device/msi_irqs")) else { return Vec::new() };
    let cpus = |number: String| {
        let read = |file: &str| fs::read_to_string(format!("/proc/irq/{number}/{file}")).ok();
        let text = read("effective_affinity_list").filter(|text| !text.trim().is_empty());
        list(text.or_else(|| read("smp_affinity_list"))?.trim())
    };
    all.filter_map(|entry| cpus(entry.ok()?.file_name().into_string().ok()?)).collect()
}

/// A list of CPUs as the kernel writes it: `0-3,5`.
pub(super) fn list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last.min(first.saturating_add(1 << 16)));
    }
    Some(cpus)
}

/// `online`: CPUs that could serve them.
fn interrupts(name: &str, queues: u32, online: usize, of: &[Vec<usize>]) -> Option<Finding> {
    const NAME: &str = "interrupts";
    let mut cpus: Vec<usize> = of.iter().flatten().copied().collect();
    cpus.sort_unstable();
    cpus.dedup();
    let first = *cpus.first()?;
    let value = format!("{} on CPUs {}", of.len(), sched::listed(&cpus));
    if cpus.len() > 1 || queues < 2 || online < 2 {
        return Some(Finding::new(name, NAME, State::Good, value));
    }
    Some(Finding::new(name, NAME, State::Limit, value).because(format!(
        "CPU {first} serves all {queues} queues: systemctl start irqbalance, or for each number in \
         /sys/class/net/{name}/device/msi_irqs: echo CPU > /proc/irq/NUMBER/smp_affinity_list"
    )))
}

fn precision_clock(name: &str) -> Option<Finding> {
    let clocks = fs::read_dir(format!("/sys/class/net/{name}/device/ptp")).ok()?;
    let clock = clocks.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).min()?;
    Some(Finding::new(name, "PTP clock", State::Note, clock).because(format!(
        "stamps here are the host's, by software; its clock follows the card's with ptp4l -i {name} and phc2sys"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_command() {
        let commands = |finding: &Finding, command: &str| {
            let consequence = finding.consequence.as_deref().unwrap_or_default();
            assert!(consequence.contains(command), "{finding:?}");
            finding.state
        };
        assert_eq!(receive_ring("e", (512, 512)).state, State::Good);
        assert_eq!(commands(&receive_ring("e", (256, 4096)), "ethtool -G e rx 4096"), State::Limit);
        assert!(merging("e", None, [None, Some(false)]).is_none());
        assert_eq!(merging("e", Some(false), [None; 2]).unwrap().state, State::Good);
        assert_eq!(commands(&merging("e", Some(true), [None; 2]).unwrap(), "ethtool -K e gro off"), State::Note);
        for by_card in [[Some(true), None], [Some(false), Some(true)]] {
            let finding = merging("e", Some(true), by_card).unwrap();
            assert_eq!(commands(&finding, "ethtool -K e lro off"), State::Limit);
        }
        assert_eq!(commands(&vlan_tags("e", true), "ethtool -K e rxvlan off"), State::Note);
        assert_eq!(flows("e", 4, Ok(true)).state, State::Good);
        assert_eq!(commands(&flows("e", 4, Ok(false)), "rx-flow-hash tcp4 sd"), State::Note);
        assert_eq!(commands(&flows("e", 4, Err("EOPNOTSUPP".to_owned())), "ethtool -L e combined 1"), State::Note);
    }

    #[test]
    fn interrupts_on_one_cpu_are_a_limit_of_several_queues() {
        assert!(interrupts("e", 4, 2, &[]).is_none());
        assert!(interrupts("e", 4, 1, &[vec![0], vec![0]]).unwrap().state == State::Good, "there is one CPU");
        let all_on =
            |cpus: &[usize], queues| interrupts("e", queues, 2, &[cpus.to_vec(), cpus.to_vec()]).unwrap().state;
        assert_eq!(all_on(&[0], 1), State::Good);
        assert_eq!(all_on(&[0], 4), State::Limit);
        assert_eq!(all_on(&[0, 1], 4), State::Good);
    }

    #[test]
    fn lists_of_cpus_are_the_kernels() {
        assert_eq!(list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list(""), Some(vec![]));
        assert_eq!(list("x"), None);
        assert_eq!(list("0-99999999999").map(|cpus| cpus.len()), Some((1 << 16) + 1));
    }
}

//! What the cost of a wake-up depends on, as it was when a calibration was made: kernel, processor, governors, mitigations.
//!
//! Owns reading these from /proc and /sys, and the words for a change. Nothing here names the host to others.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// Longer values are not quoted.
const QUOTED_BYTES: usize = 60;

/// Names and values; equal ones make a calibration hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions(BTreeMap<String, String>);

impl Conditions {
    /// Those of `cpu` now.
    pub(super) fn of(cpu: usize) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let system = |name: &str| read(&format!("/sys/devices/system/{name}"));
        let hypervisor = if virtual_machine(&cpuinfo) {
            format!("{} {}", read("/sys/class/dmi/id/sys_vendor"), read("/sys/class/dmi/id/product_name"))
        } else {
            "none".to_owned()
        };
        let machine = hash(&format!("{}\n{}", read("/etc/machine-id"), read("/proc/cmdline")));
        Self::from_iter([
            ("processor", field(&cpuinfo, "model name").unwrap_or(std::env::consts::ARCH).to_owned()),
            ("microcode", field(&cpuinfo, "microcode").unwrap_or("unknown").to_owned()),
            ("number of CPUs", online_cpus(&system("cpu/online")).to_string()),
            ("kernel", read("/proc/sys/kernel/osrelease")),
            ("kernel's build", read("/proc/sys/kernel/version")),
            ("machine or boot options", format!("{machine:016x}")),
            ("scaling governor", system(&format!("cpu/cpu{cpu}/cpufreq/scaling_governor"))),
            ("idle governor", system("cpu/cpuidle/current_governor")),
            ("clock source", system("clocksource/clocksource0/current_clocksource")),
            ("SMT", system("cpu/smt/control")),
            ("mitigations", mitigations()),
            ("hypervisor", hypervisor.trim().to_owned()),
        ])
    }

    /// The first thing that is another one `now`, in words.
    pub(super) fn change_to(&self, now: &Self) -> Option<String> {
        let names = self.0.keys().chain(now.0.keys());
        let value = |of: &Self, name: &str| of.0.get(name).cloned().unwrap_or_default();
        names.into_iter().find_map(|name| {
            let (then, now) = (value(self, name), value(now, name));
            let named = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
            let quoted = then.len().max(now.len()) <= QUOTED_BYTES && name != "machine or boot options";
            let from_to = if quoted { format!(" from {} to {}", named(&then), named(&now)) } else { String::new() };
            (then != now).then(|| format!("the {name} changed{from_to}"))
        })
    }

    /// Processor, kernel and CPU, for people.
    pub(super) fn host(&self, cpu: usize) -> String {
        let value = |name: &str| self.0.get(name).map_or("unknown", String::as_str);
        format!("{}, Linux {}, CPU {cpu} of {}", value("processor"), value("kernel"), value("number of CPUs"))
    }
}

impl<'a> FromIterator<(&'a str, String)> for Conditions {
    fn from_iter<T: IntoIterator<Item = (&'a str, String)>>(pairs: T) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// How many CPUs are in a list such as `0-3,5` (cpuset(7), "List format"). Not those that this process may use: a wake-up costs the same
/// under taskset.
fn online_cpus(list: &str) -> usize {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    list.split(',').filter_map(count).sum()
}

/// What the kernel says of each vulnerability: its mitigations are paid at each entry into it.
fn mitigations() -> String {
    let entries = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten().flatten();
    let mut lines: Vec<String> = entries
        .map(|entry| format!("{}: {}", entry.file_name().to_string_lossy(), read(&entry.path().to_string_lossy())))
        .collect();
    lines.sort();
    lines.join("; ")
}

/// Value of a line of /proc/cpuinfo, the first CPU's.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':')).map(str::trim)
}

/// Whether a hypervisor is underneath (the CPUID flag that /proc/cpuinfo shows).
fn virtual_machine(cpuinfo: &str) -> bool {
    field(cpuinfo, "flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// As above, for this host.
pub(super) fn in_virtual_machine() -> bool {
    virtual_machine(&read("/proc/cpuinfo"))
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::sched;

    #[test]
    fn each_change_is_named() {
        let then = Conditions::from_iter([
            ("kernel", "6.12.1".to_owned()),
            ("mitigations", "x".repeat(100)),
            ("scaling governor", "powersave".to_owned()),
        ]);
        assert_eq!(then.change_to(&then), None);
        let changed = |name: &str, value: &str| {
            let mut now = then.clone();
            now.0.insert(name.to_owned(), value.to_owned());
            then.change_to(&now).unwrap()
        };
        assert_eq!(changed("kernel", "6.18"), "the kernel changed from 6.12.1 to 6.18");
        assert_eq!(changed("scaling governor", ""), "the scaling governor changed from powersave to none");
        assert_eq!(changed("mitigations", "y"), "the mitigations changed");
        assert_eq!(
            changed("microcode", "0x2"),
            "the microcode changed from none to 0x2",
            "one that was not known then"
        );
    }

    #[test]
    fn this_host_is_what_it_is_and_names_nothing_private() {
        let here = Conditions::of(0);
        assert_eq!(here.change_to(&Conditions::of(0)), None);
        for name in ["kernel", "kernel's build", "processor", "mitigations", "SMT", "scaling governor", "microcode"] {
            assert!(here.0.contains_key(name), "{name}");
        }
        assert_ne!(here.host(0), here.host(1));
        assert!(here.host(0).contains("Linux "));
        let machine = read("/etc/machine-id");
        assert!(machine.is_empty() || !format!("{here:?}").contains(&machine));
    }

    #[test]
    fn a_host_is_the_same_to_a_program_that_may_use_one_cpu_only() {
        let here = Conditions::of(0);
        let bound = std::thread::spawn(|| {
            let cpu = sched::allowed_cpus()[0];
            sched::set_affinity(sched::thread_id(), cpu).unwrap();
            assert_eq!(sched::allowed_cpus(), [cpu]);
            Conditions::of(0)
        });
        assert_eq!(here.change_to(&bound.join().unwrap()), None);
        assert!(online_cpus(&read("/sys/devices/system/cpu/online")) >= sched::allowed_cpus().len());
        assert_eq!([online_cpus("0"), online_cpus("0-3,5,8-9"), online_cpus("")], [1, 7, 0]);
    }

    #[test]
    fn lines_of_cpuinfo() {
        let text = "model name\t: A CPU\nmicrocode\t: 0x1\nflags\t\t: fpu hypervisor\n";
        assert_eq!((field(text, "model name"), field(text, "microcode")), (Some("A CPU"), Some("0x1")));
        assert!(virtual_machine(text) && !virtual_machine("flags: fpu"));
    }
}

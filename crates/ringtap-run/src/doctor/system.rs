//! What the host as a whole gives: kernel, capabilities, limits, clock, CPUs.
//!
//! Owns the reading of /proc and /sys; pure functions take the texts.

use std::fs;

use ringtap::realtime;
use ringtap::sched;

use super::{Finding, State};
use crate::units::shown_size;

const SCOPE: &str = "system";
/// capability(7): number, name, what it is for, and what happens without it.
const CAPABILITIES: [(u32, &str, State, &str); 5] = [
    (
        13,
        "CAP_NET_RAW",
        State::Broken,
        "no packet can be captured: run as root, or setcap cap_net_raw+ep on the program",
    ),
    (12, "CAP_NET_ADMIN", State::Limit, "no promiscuous mode and no AF_XDP: run as root, or setcap cap_net_admin+ep"),
    (39, "CAP_BPF", State::Limit, "no AF_XDP: run as root, setcap cap_bpf+ep, or use --backend packet"),
    (
        23,
        "CAP_SYS_NICE",
        State::Limit,
        "no real-time priority unless `ulimit -r` allows it: packets may wait under load",
    ),
    (14, "CAP_IPC_LOCK", State::Limit, "memory is locked only up to `ulimit -l`: page faults may delay packets"),
];
const CAP_SYS_ADMIN: u32 = 21;

/// Everything about the host.
pub(super) fn findings() -> Vec<Finding> {
    let mut findings = vec![kernel()];
    findings.extend(capabilities(&read("/proc/self/status")));
    findings.push(memory_limit(&read("/proc/self/limits"), &read("/proc/self/status")));
    findings.push(xdp_sockets(&read("/proc/net/protocols")));
    findings.push(throttling(realtime::throttling_share(), realtime::has_fair_server()));
    findings.push(clock(read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim()));
    findings.extend(cpus());
    findings.push(machine(&read("/proc/cpuinfo"), &read("/proc/stat")));
    findings.push(huge_pages(&read("/proc/meminfo")));
    findings
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let is_realtime = read("/sys/kernel/realtime").trim() == "1" || read("/proc/version").contains("PREEMPT_RT");
    let flavour = if is_realtime { ", PREEMPT_RT" } else { "" };
    let finding = |state| Finding::new(SCOPE, "kernel", state, format!("Linux {release}{flavour}"));
    match version(&release) {
        // A bpf_link for XDP, which detaches when its process ends, is of 5.9; NAPI busy poll by preference of 5.11.
        Some(version) if version < (5, 9) => finding(State::Limit).because(
            "XDP can't be attached so that it goes away with the process: AF_XDP needs 5.9, use --backend packet",
        ),
        Some(version) if version < (5, 11) => {
            finding(State::Limit).because("no NAPI busy poll from our own thread (5.11): more interrupts on AF_XDP")
        }
        _ => finding(State::Good),
    }
}

/// Major and minor number of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Effective capabilities (proc_pid_status(5), CapEff).
fn effective(status: &str) -> Option<u64> {
    status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
}

fn capabilities(status: &str) -> Vec<Finding> {
    let Some(mask) = effective(status) else {
        return vec![Finding::new(SCOPE, "capabilities", State::Note, "unknown: /proc is not readable")];
    };
    let has = |number: u32| mask >> number & 1 == 1;
    let finding = |(number, name, state, consequence): (u32, &'static str, State, &str)| {
        // CAP_SYS_ADMIN includes CAP_BPF (capabilities(7)).
        if has(number) || (name == "CAP_BPF" && has(CAP_SYS_ADMIN)) {
            Finding::new(SCOPE, name, State::Good, "yes")
        } else {
            Finding::new(SCOPE, name, state, "no").because(consequence)
        }
    };
    CAPABILITIES.into_iter().map(finding).collect()
}

fn memory_limit(limits: &str, status: &str) -> Finding {
    const NAME: &str = "locked memory";
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max locked memory")?.split_whitespace().next());
    let has_capability = effective(status).is_some_and(|mask| mask >> 14 & 1 == 1);
    match soft.map(|soft| soft.parse::<u64>().ok()) {
        None => Finding::new(SCOPE, NAME, State::Note, "unknown: /proc is not readable"),
        Some(None) => Finding::new(SCOPE, NAME, State::Good, "unlimited"),
        Some(Some(bytes)) if has_capability => {
            Finding::new(SCOPE, NAME, State::Good, format!("{} for others, no limit for us (CAP_IPC_LOCK)", shown_size(bytes)))
        }
        Some(Some(bytes)) => Finding::new(SCOPE, NAME, State::Limit, format!("{} (RLIMIT_MEMLOCK)", shown_size(bytes)))
            .because("larger rings are refused or stay unlocked: raise it with `ulimit -l` or LimitMEMLOCK=, or give CAP_IPC_LOCK"),
    }
}

/// The protocol is registered when the kernel has CONFIG_XDP_SOCKETS, which is no module.
fn xdp_sockets(protocols: &str) -> Finding {
    const NAME: &str = "XDP sockets";
    if protocols.is_empty() {
        return Finding::new(SCOPE, NAME, State::Note, "unknown: /proc/net/protocols is not readable");
    }
    if protocols.lines().any(|line| line.split_whitespace().next() == Some("XDP")) {
        Finding::new(SCOPE, NAME, State::Good, "yes")
    } else {
        Finding::new(SCOPE, NAME, State::Limit, "no")
            .because("this kernel lacks CONFIG_XDP_SOCKETS: use --backend packet")
    }
}

fn throttling(share: Option<f64>, fair_server: bool) -> Finding {
    const NAME: &str = "RT throttling";
    match share {
        // Since 6.12 the share only bounds what deadline threads may ask for.
        _ if fair_server => Finding::new(
            SCOPE,
            NAME,
            State::Note,
            "none; ordinary programs that wait get 50 ms of each second",
        )
        .because(format!(
            "matters when an engine needs nearly a whole core and others want it too (the kernel's fair server): {}",
            realtime::FAIR_SERVER_WAY_OUT
        )),
        None => Finding::new(SCOPE, NAME, State::Good, "off"),
        Some(share) => {
            Finding::new(SCOPE, NAME, State::Note, format!("real-time threads may use {:.0} % of a CPU", share * 100.0))
                .because(
                    "matters when an engine needs nearly a whole core: it is then stopped for the rest of each second \
                 (sysctl kernel.sched_rt_runtime_us=-1 lifts it)",
                )
        }
    }
}

fn clock(source: &str) -> Finding {
    const NAME: &str = "clock source";
    match source {
        "" => Finding::new(SCOPE, NAME, State::Note, "unknown: /sys is not readable"),
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => Finding::new(SCOPE, NAME, State::Limit, source).because(
            "reading the time is slow: stamps cost more than packets (boot with tsc=reliable if the CPU's is sound)",
        ),
        _ => Finding::new(SCOPE, NAME, State::Good, source),
    }
}

fn cpus() -> Vec<Finding> {
    let allowed = sched::allowed_cpus();
    let isolated = read("/sys/devices/system/cpu/isolated").trim().to_owned();
    let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
    let mut text = format!("{} usable: {}", allowed.len(), list.join(","));
    if !isolated.is_empty() {
        text.push_str(&format!("; isolated: {isolated}"));
    }
    let count = if allowed.len() > 1 {
        Finding::new(SCOPE, "CPUs", State::Good, text)
    } else {
        Finding::new(SCOPE, "CPUs", State::Limit, text)
            .because("engine, writer and everything else share one CPU: packets are safe, others wait for the engine")
    };
    let mut findings = vec![count];
    let slow: Vec<String> = allowed
        .iter()
        .filter(|cpu| read(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")).trim() == "powersave")
        .map(usize::to_string)
        .collect();
    if !slow.is_empty() {
        let text = format!("powersave on CPUs {}", slow.join(","));
        findings.push(
            Finding::new(SCOPE, "frequency", State::Note, text)
                .because("a CPU that woke up runs slowly at first: cpupower frequency-set -g performance"),
        );
    }
    findings
}

fn machine(cpuinfo: &str, stat: &str) -> Finding {
    const NAME: &str = "machine";
    let is_virtual =
        cpuinfo.lines().any(|line| line.starts_with("flags") && line.split_whitespace().any(|f| f == "hypervisor"));
    if !is_virtual {
        return Finding::new(SCOPE, NAME, State::Good, "no hypervisor seen");
    }
    let steal =
        steal_percent(stat).map_or_else(|| "steal unknown".to_owned(), |p| format!("{p:.2} % stolen since boot"));
    Finding::new(SCOPE, NAME, State::Note, format!("virtual machine, {steal}")).because(
        "its host may pause a CPU for milliseconds: rings must hold what comes meanwhile, and latency shows it",
    )
}

/// Share of all CPU time that the hypervisor gave to others (proc_stat(5), first line, eighth column).
fn steal_percent(stat: &str) -> Option<f64> {
    let numbers: Vec<u64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // Guest time is part of user time already.
    let total: u64 = numbers.iter().take(8).sum();
    (total > 0).then_some(*numbers.get(7)? as f64 * 100.0 / total as f64)
}

fn huge_pages(meminfo: &str) -> Finding {
    const NAME: &str = "huge pages";
    let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:")?.trim().parse::<u64>().ok());
    match free {
        Some(0) | None => Finding::new(SCOPE, NAME, State::Note, "none free")
            .because("only --huge-pages needs them: sysctl vm.nr_hugepages=64"),
        Some(free) => Finding::new(SCOPE, NAME, State::Good, format!("{free} free")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert_eq!(version("5.9-rc1"), Some((5, 9)));
        assert_eq!(version("x"), None);
    }

    #[test]
    fn each_missing_capability_is_named_with_its_consequence() {
        let findings = capabilities("Name:\tx\nCapEff:\t0000000000003000\n");
        let states: Vec<_> = findings.iter().map(|f| (f.name, f.state, f.consequence.is_some())).collect();
        assert_eq!(
            states,
            [
                ("CAP_NET_RAW", State::Good, false),
                ("CAP_NET_ADMIN", State::Good, false),
                ("CAP_BPF", State::Limit, true),
                ("CAP_SYS_NICE", State::Limit, true),
                ("CAP_IPC_LOCK", State::Limit, true),
            ]
        );
        assert_eq!(capabilities("CapEff:\t0000000000000000\n")[0].state, State::Broken);
        assert_eq!(capabilities(&format!("CapEff:\t{:016x}\n", 1u64 << CAP_SYS_ADMIN))[2].state, State::Good);
        assert_eq!(capabilities("").len(), 1);
    }

    #[test]
    fn limits_and_protocols() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         8388608              8388608              bytes     \n";
        assert_eq!(memory_limit(limits, "CapEff:\t0").state, State::Limit);
        assert_eq!(memory_limit(limits, "CapEff:\t0000000000004000").state, State::Good);
        assert_eq!(memory_limit(&limits.replace("8388608", "unlimited"), "").value, "unlimited");
        assert_eq!(xdp_sockets("protocol size\nXDP 1024\n").state, State::Good);
        assert_eq!(xdp_sockets("protocol size\nTCP 1024\n").state, State::Limit);
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        assert_eq!(steal_percent("cpu  10 0 10 60 0 0 0 20 5 0\ncpu0 …"), Some(20.0));
        assert_eq!(steal_percent(""), None);
    }
}

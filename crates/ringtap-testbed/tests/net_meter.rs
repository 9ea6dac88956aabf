//! The meters against a load that knows what it used. They need root for /proc/timer_list and SCHED_FIFO.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ringtap::pacer::Policy;
use ringtap::receiver::{Backend, ReceiverConfig};
use ringtap::{clock, sched};
use ringtap_testbed::meter::Headline;
use ringtap_testbed::trial::TrialConfig;
use ringtap_testbed::{
    CoreUse, CoreUseReport, GeneratorConfig, Pattern, Profile, SoakerCalibration, Testbed, TestbedConfig,
};

/// Keeps `cpu` busy 30 % of each 10 ms for as long as `measure` takes; gives its report and the load's true share.
fn under_load(cpu: usize, measure: impl FnOnce(&dyn Fn(Duration)) -> CoreUseReport) -> (CoreUseReport, f64) {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let load = thread::spawn(move || {
        sched::set_affinity(0, cpu).unwrap();
        sched::set_fifo(0, 20)
            .unwrap_or_else(|error| panic!("did not run: load under SCHED_FIFO: it needs root: {error}"));
        let (start, used) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        while !seen.load(Ordering::Relaxed) {
            let period = clock::monotonic_ns();
            while clock::monotonic_ns() - period < 3_000_000 {}
            clock::sleep_until(period + 10_000_000);
        }
        (clock::thread_cpu_ns() - used) as f64 * 100.0 / (clock::monotonic_ns() - start) as f64
    });
    let report = measure(&thread::sleep);
    stop.store(true, Ordering::Relaxed);
    (report, load.join().unwrap())
}

fn cpu() -> usize {
    sched::allowed_cpus()[0]
}

// Others may use the core at the same time, so a meter can only be held against the load from below and against the
// other meter, which sees the same others.

#[test]
fn net_exact_meter_sees_a_known_load() {
    let (report, load) = under_load(cpu(), |wait| {
        let measuring = CoreUse::start(cpu()).unwrap();
        wait(Duration::from_secs(2));
        measuring.finish().unwrap()
    });
    assert!((1_900_000_000..10_000_000_000).contains(&report.interval_ns));
    assert!(matches!(report.headline, Headline::Core(_)), "{report}");
    let others =
        report.others_percent.unwrap_or_else(|| panic!("did not run: who used the core: it needs root and BTF"));
    let whole = report.core_meter_percent.unwrap();
    assert!((whole - others - report.used_percent).abs() < 1e-6 || report.used_percent == 0.0, "{report}");
    assert!(report.used_percent > load - 3.0, "{report}, the load alone took {load:.1} %");
    assert!(report.used_percent < 110.0, "{report}");
    let ticks = report.ticks_percent.unwrap();
    assert!((whole - ticks).abs() < 8.0, "{report}");
    assert!(report.steal_percent.is_some() && report.soaker_percent.is_none());
    let wakes = report.interrupts.as_ref().unwrap();
    assert!(wakes.get("LOC").copied().unwrap_or(0) > 100, "200 timer wake-ups: {wakes:?}");
    assert!(report.interrupts_total().unwrap() >= 100);
    assert!(report.context_switches_of_all_cpus.unwrap() > 100);
    assert!(report.softirqs.is_some());
}

/// CPU time of a program so far, nanoseconds (the first figure of its schedstat).
fn cpu_ns(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// A program that spins; it ends with the test, also when that fails.
struct Spinner(u32);

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").arg(self.0.to_string()).status();
    }
}

/// A program that is nobody's child spins on the core: it is told apart from our own threads, and from a child of ours. What else
/// runs there is known to nobody, so figures are held against what the program itself got.
#[test]
fn net_other_programs_on_the_core_are_left_out_and_told() {
    let spin = format!("taskset -c {} sh -c 'while :; do :; done'", cpu());
    let measure = |pid| {
        thread::sleep(Duration::from_millis(200));
        let measuring = CoreUse::start(cpu()).unwrap();
        let used_ns = cpu_ns(pid);
        thread::sleep(Duration::from_secs(1));
        let used_ns = cpu_ns(pid) - used_ns;
        let report = measuring.finish().unwrap();
        let others = report.others_percent.unwrap_or_else(|| panic!("did not run: who used the core: it needs BTF"));
        let whole = report.core_meter_percent.unwrap();
        (used_ns as f64 * 100.0 / report.interval_ns as f64, others, whole, report)
    };
    let mut child = std::process::Command::new("sh").args(["-c", &format!("exec {spin}")]).spawn().unwrap();
    let spinner = Spinner(child.id());
    let (its, others, whole, report) = measure(spinner.0);
    drop(spinner);
    child.wait().unwrap();
    assert!(its > 2.0 && others < whole - its + 3.0, "{report}, {its:.1} % were our child's");

    // Whose parent has ended is a child of init.
    let orphan = std::process::Command::new("sh").args(["-c", &format!("{spin} >/dev/null 2>&1 & echo $!")]).output();
    let orphan = Spinner(String::from_utf8_lossy(&orphan.unwrap().stdout).trim().parse().unwrap());
    let (its, others, whole, report) = measure(orphan.0);
    drop(orphan);
    assert!(its > 2.0 && others > its - 3.0, "{report}, {its:.1} % were the stranger's");
    assert!(report.used_percent < whole - its + 3.0, "{report}, {its:.1} % were the stranger's");
    assert!(report.warning().unwrap().contains("other programs used"), "{report}");
}

#[test]
fn net_soaker_sees_a_known_load() {
    let calibration = SoakerCalibration::measure(cpu()).unwrap();
    let (report, load) = under_load(cpu(), |wait| {
        let measuring = CoreUse::start_with_soaker(cpu(), calibration).unwrap();
        wait(Duration::from_secs(2));
        measuring.finish().unwrap()
    });
    assert_eq!(report.headline, Headline::Soaker);
    assert_eq!((report.core_meter_percent, report.ticks_percent), (None, None));
    assert!(report.used_percent > load - 8.0, "{report}, the load alone took {load:.1} %");
    assert!(report.used_percent <= 101.0, "{report}");
    assert!(report.soaker_time_percent.unwrap() > load - 5.0, "{report}, the load alone took {load:.1} %");
}

#[test]
fn net_no_such_core() {
    let error = CoreUse::start(100_000).unwrap_err().to_string();
    assert!(error.contains("CPU 100000"), "{error}");
}

/// A receiver that never sleeps has its core for itself: who measures goes before it, or would measure what is left of the run, and what comes after it.
#[test]
fn net_a_run_past_a_spinning_receiver_is_measured_whole() {
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut receiver = ReceiverConfig::new("", Policy::Busy);
    receiver.backend = Backend::Xdp;
    let profile = Profile::lasting(Pattern::Constant { pps: 20_000.0 }, Duration::from_millis(300));
    let traffic = GeneratorConfig::for_testbed(&testbed, 64, profile);
    let report = testbed.trial(TrialConfig { receiver, traffic, most_packets: 7000, soaker: None }).unwrap();
    assert_eq!(report.ledger.unaccounted(), Some(0), "{}", report.ledger);
    let (measured_ns, sent_ns) = (report.core.interval_ns, report.generator.duration_ns);
    let share = measured_ns as f64 / sent_ns as f64;
    assert!((0.8..1.3).contains(&share), "measured for {measured_ns} ns, sent for {sent_ns} ns");
    // Field 41 of proc(5)'s stat is the policy, the 39th behind the name.
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let policy = stat.rsplit(')').next().unwrap().split_whitespace().nth(38);
    assert_eq!(policy, Some("0"), "the measuring thread is an ordinary one again (SCHED_OTHER)");
}

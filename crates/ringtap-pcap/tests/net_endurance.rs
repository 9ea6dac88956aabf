//! Odd sequences of calls, and what must not grow however long it goes on. The short forms run with the other tests; the long
//! ones are ignored there: `make leak-pcap`.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed};
use support::clients::bench;
use support::{compile, our_folder, output, run, shared};

/// A second pair of interfaces, cap0 and peer0, on which nothing is but what a program sends itself.
fn with_pair(testbed: &Testbed, work: impl FnOnce() -> Output + Send) -> Output {
    let done = testbed.receiver().run(|| {
        output(Command::new("ip").args("link add cap0 type veth peer name peer0".split(' ')));
        for end in ["cap0", "peer0"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").ok();
            output(Command::new("ip").args(["link", "set", end, "up"]));
        }
        output(Command::new("ip").args(["link", "set", "lo", "up"]));
        work()
    });
    done.unwrap()
}

fn assert_good(what: &str, done: &Output) -> String {
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{what}: {}: {said}{}", done.status, String::from_utf8_lossy(&done.stderr));
    print!("{said}");
    said
}

fn file() -> PathBuf {
    shared("decode").join("RADIUS.pcap")
}

/// Runs tests/c/odd.c for each seed until the time is up, `wrapper` before it.
fn odd(name: &str, seeds: std::ops::Range<u64>, calls: u32, limit: Duration, flags: &[&str], wrapper: &[&str]) -> u64 {
    let testbed = bench(name);
    let (folder, library, started) = (tempfile::tempdir().unwrap(), our_folder(), Instant::now());
    let program = compile("odd", folder.path(), flags);
    let mut rounds = 0;
    with_pair(&testbed, || {
        let mut last = None;
        for seed in seeds {
            if started.elapsed() > limit {
                break;
            }
            let (first, rest) = wrapper.split_first().unwrap_or((&"env", &[]));
            let mut command = Command::new(first);
            command.args(rest).arg(&program).args([&seed.to_string(), &calls.to_string(), "cap0", "peer0"]).arg(file());
            let done = run(command.env("LD_LIBRARY_PATH", library.path()));
            assert_good(&format!("odd {seed} {calls}"), &done);
            rounds += 1;
            last = Some(done);
        }
        last.expect("at least one seed")
    });
    println!("odd calls: {rounds} sequences of {calls} in {:.0} s", started.elapsed().as_secs_f64());
    rounds
}

/// With the address sanitizer around the C library's functions; the sequences differ from run to run of the long form only.
#[test]
fn net_odd_sequences_of_calls_do_no_harm() {
    odd("net_odd_sequences_of_calls_do_no_harm", 0..8, 1500, Duration::MAX, &["-fsanitize=address"], &[]);
}

#[test]
#[ignore = "ten minutes: make leak-pcap"]
fn net_odd_sequences_of_calls_for_ten_minutes() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() << 20;
    let limit = Duration::from_secs(minutes(10) * 60);
    odd("net_odd_sequences_of_calls_for_ten_minutes", seed..u64::MAX, 3000, limit, &["-fsanitize=address"], &[]);
}

/// Errors of memory, and what is lost: valgrind knows neither our rings' memory nor what the kernel writes there, but all else.
const VALGRIND: [&str; 6] = [
    "valgrind",
    "--quiet",
    "--error-exitcode=99",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite",
    "--show-leak-kinds=definite",
];

#[test]
fn net_valgrind_finds_nothing_in_odd_calls() {
    odd("net_valgrind_finds_nothing_in_odd_calls", 100..102, 600, Duration::MAX, &[], &VALGRIND);
}

/// Traffic from the testbed's sender while `work` runs on the receiver.
fn with_traffic(name: &str, pps: f64, seconds: f64, work: impl FnOnce(&Testbed) -> Output + Send) -> Output {
    let testbed = bench(name);
    testbed.enable_receiver_napi().unwrap();
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let profile = Profile::lasting(Pattern::Constant { pps }, Duration::from_secs_f64(seconds));
            testbed.generate(GeneratorConfig::for_testbed(&testbed, 64, profile)).unwrap().join().unwrap()
        });
        let done = work(&testbed);
        sender.join().unwrap();
        done
    })
}

fn endure(program: &Path, library: &Path, wrapper: &[&str], arguments: [&str; 3]) -> Output {
    let (first, rest) = wrapper.split_first().unwrap_or((&"env", &[]));
    let mut command = Command::new(first);
    run(command.args(rest).arg(program).args(arguments).env("LD_LIBRARY_PATH", library))
}

#[test]
fn net_valgrind_finds_nothing_in_a_capture() {
    let (folder, library) = (tempfile::tempdir().unwrap(), our_folder());
    let program = compile("endure", folder.path(), &[]);
    // Not on AF_XDP: valgrind does not know the system call that attaches its program.
    for backend in ["packet", "socket"] {
        let done = with_traffic("net_valgrind_finds_nothing_in_a_capture", 2000.0, 20.0, |testbed| {
            let device = format!("ringtap:{}?backend={backend}", testbed.receiver().interface());
            let work = || endure(&program, library.path(), &VALGRIND, ["capture", "5", &device]);
            testbed.receiver().run(work).unwrap()
        });
        assert_good(backend, &done);
    }
}

/// Cycles of opening and closing, of each kind, with as many as fit.
fn cycles(name: &str, counts: [u64; 4]) {
    let testbed = bench(name);
    let (folder, library) = (tempfile::tempdir().unwrap(), our_folder());
    let program = compile("endure", folder.path(), &[]);
    let path = file();
    let kinds = [
        ("dead", "-"),
        ("offline", path.to_str().unwrap()),
        ("create", "cap0"),
        ("live", "ringtap:cap0?backend=packet&ring=64"),
    ];
    with_pair(&testbed, || {
        let mut last = None;
        for ((mode, what), count) in kinds.into_iter().zip(counts) {
            let done = endure(&program, library.path(), &[], [mode, &count.to_string(), what]);
            assert_good(mode, &done);
            last = Some(done);
        }
        last.expect("four kinds")
    });
}

#[test]
fn net_cycles_leave_neither_memory_nor_descriptors() {
    cycles("net_cycles_leave_neither_memory_nor_descriptors", [20_000, 5000, 2000, 60]);
}

#[test]
#[ignore = "many minutes: make leak-pcap"]
fn net_a_million_cycles() {
    let millions = std::env::var("CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let live = std::env::var("LIVE_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(millions);
    cycles("net_a_million_cycles", [millions, millions, millions, live]);
}

#[test]
#[ignore = "an hour: make leak-pcap"]
fn net_a_long_capture_leaks_nothing() {
    let seconds = minutes(60) * 60;
    let (folder, library) = (tempfile::tempdir().unwrap(), our_folder());
    let program = compile("endure", folder.path(), &[]);
    let done = with_traffic("net_a_long_capture_leaks_nothing", 20e3, seconds as f64 + 1.0, |testbed| {
        let device = format!("ringtap:{}?backend=auto", testbed.receiver().interface());
        let work = || endure(&program, library.path(), &[], ["capture", &seconds.to_string(), &device]);
        testbed.receiver().run(work).unwrap()
    });
    assert_good("capture", &done);
}

/// MINUTES of the environment, else `unasked`.
fn minutes(unasked: u64) -> u64 {
    std::env::var("MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(unasked)
}

//! Odd sequences of calls, and what must not grow however long it goes on. The short forms run with the other tests; the long
//! ones are ignored there: `make test-long` has them shortened, `make leak-pcap` whole.

mod support;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use ringtap_samples::files::{self, Format, Order};
use ringtap_samples::sample;
use ringtap_testbed::{GeneratorConfig, Pattern, Profile, Testbed};
use support::clients::bench;
use support::{compile, our_folder, output, run};

/// Pairs of interfaces, cap0 and peer0 and so on, on which nothing is but what a program sends itself.
fn with_pairs<T: Send>(testbed: &Testbed, pairs: usize, work: impl FnOnce() -> T + Send) -> T {
    let done = testbed.receiver().run(|| {
        for pair in 0..pairs {
            let [captured, peer] = ["cap", "peer"].map(|end| format!("{end}{pair}"));
            output(Command::new("ip").args(["link", "add", &captured, "type", "veth", "peer", "name", &peer]));
            for end in [captured, peer] {
                std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").ok();
                output(Command::new("ip").args(["link", "set", &end, "up"]));
            }
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

/// A capture file in this folder.
fn file(folder: &Path) -> PathBuf {
    let path = folder.join("radius.pcap");
    std::fs::write(&path, files::file(&sample("radius"), Format::Pcap(Order::Little))).unwrap();
    path
}

/// Runs tests/c/odd.c for each seed until the time is up, `wrapper` before it.
fn odd(name: &str, seeds: std::ops::Range<u64>, calls: u32, limit: Duration, flags: &[&str], wrapper: &[&str]) -> u64 {
    let testbed = bench(name);
    let (folder, library, started) = (tempfile::tempdir().unwrap(), our_folder(), Instant::now());
    let (program, captured) = (compile("odd", folder.path(), flags), file(folder.path()));
    let mut rounds = 0;
    with_pairs(&testbed, 1, || {
        let mut last = None;
        for seed in seeds {
            if started.elapsed() > limit {
                break;
            }
            let (first, rest) = wrapper.split_first().unwrap_or((&"env", &[]));
            let mut command = Command::new(first);
            command
                .args(rest)
                .arg(&program)
                .args([&seed.to_string(), &calls.to_string(), "cap0", "peer0"])
                .arg(&captured);
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
#[ignore = "a minute: make test-long"]
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
#[ignore = "a minute: make test-long"]
fn net_valgrind_finds_nothing_in_a_capture() {
    let (folder, library) = (tempfile::tempdir().unwrap(), our_folder());
    let program = compile("endure", folder.path(), &[]);
    // Not on AF_XDP: valgrind does not know the system call that attaches its program.
    for backend in ["packet", "socket"] {
        let done = with_traffic("net_valgrind_finds_nothing_in_a_capture", 2000.0, 20.0, |testbed| {
            let device = format!("ringtap:{}?backend={backend}", testbed.receiver().interface());
            let work = || endure(&program, library.path(), &VALGRIND, ["take", "5", &device]);
            testbed.receiver().run(work).unwrap()
        });
        assert_good(backend, &done);
    }
}

/// Cycles of opening and closing: how many without a device, how many captures on a packet ring and on AF_XDP, and how many
/// processes share the former, which for most of a cycle wait for the kernel.
fn cycles(name: &str, without: u64, packet: u64, xdp: u64, jobs: u64) {
    let testbed = bench(name);
    let (folder, library) = (tempfile::tempdir().unwrap(), our_folder());
    let program = compile("endure", folder.path(), &[]);
    let path = file(folder.path());
    let kinds = [
        ("dead", "-", without, 1),
        ("offline", path.to_str().unwrap(), without, 1),
        ("create", "cap0", without, 1),
        ("live", "ringtap:cap0?backend=packet&ring=64", packet, jobs),
        ("live", "ringtap:cap0?backend=xdp&ring=64", xdp, 1),
    ];
    with_pairs(&testbed, 1, || {
        for (mode, what, count, jobs) in kinds {
            let each = (count / jobs).to_string();
            let one = || endure(&program, library.path(), &[], [mode, &each, what]);
            let done: Vec<Output> = thread::scope(|scope| {
                let running: Vec<_> = (0..jobs).map(|_| scope.spawn(one)).collect();
                running.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            done.iter().for_each(|done| _ = assert_good(what, done));
        }
    });
}

#[test]
fn net_cycles_leave_neither_memory_nor_descriptors() {
    cycles("net_cycles_leave_neither_memory_nor_descriptors", 20_000, 60, 20, 1);
}

#[test]
#[ignore = "many minutes: make leak-pcap"]
fn net_a_million_cycles() {
    let number = |variable: &str, unasked: u64| {
        std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(unasked)
    };
    let cycles_wanted = number("CYCLES", 1_000_000);
    let live = number("LIVE_CYCLES", cycles_wanted);
    cycles("net_a_million_cycles", cycles_wanted, live, number("XDP_CYCLES", live / 1000), number("JOBS", 16));
}

/// Captures on AF_XDP and on a packet ring at once, each on a pair of its own: memory and descriptors stay as they are, and what
/// was sent is accounted for.
fn long_capture(name: &str, seconds: u64) {
    let testbed = bench(name);
    let (folder, library) = (tempfile::tempdir().unwrap(), our_folder());
    let program = compile("endure", folder.path(), &[]);
    let backends = ["xdp", "packet"];
    // Starting to capture may take a second, and what was sent last takes a moment.
    let longer = seconds + 5;
    let start = |mode: &str, seconds: u64, what: &str, printed: &Path| {
        let mut command = Command::new(&program);
        command.args([mode, &seconds.to_string(), what]).env("LD_LIBRARY_PATH", library.path());
        command.stdout(File::create(printed).unwrap()).spawn().unwrap()
    };
    with_pairs(&testbed, backends.len(), || {
        let mut running = Vec::new();
        for (pair, backend) in backends.into_iter().enumerate() {
            let [taken, sent] = ["taken", "sent"].map(|what| folder.path().join(format!("{what}{pair}")));
            println!("{backend}: {}", taken.display());
            running.push((start("capture", longer, &format!("ringtap:cap{pair}?backend={backend}"), &taken), taken));
            thread::sleep(Duration::from_secs(2));
            running.push((start("send", seconds, &format!("peer{pair}"), &sent), sent));
        }
        let ended: Vec<_> = running.into_iter().map(|(mut child, path)| (child.wait().unwrap(), path)).collect();
        for (pair, of_pair) in ended.chunks(2).enumerate() {
            let [taken, sent] = [0, 1].map(|index| std::fs::read_to_string(&of_pair[index].1).unwrap());
            let backend = backends[pair];
            println!("{backend}:\n{taken}{sent}");
            assert!(of_pair.iter().all(|(status, _)| status.success()), "{backend}: {taken}{sent}");
            let count = |text: &str, before: &str| -> u64 {
                let words = text.lines().last().and_then(|line| line.split_once(before)).unwrap().1;
                words.split([' ', ':', ',']).next().unwrap().parse().unwrap()
            };
            // What a backlog that was full refused was sent again, and is a drop of the interface all the same.
            let (told, sent_well) = (count(&taken, " of "), count(&sent, "sent "));
            let tries = sent_well..=sent_well + count(&sent, "refused ");
            assert!(tries.contains(&told), "{backend}: {taken}{sent}");
            assert_eq!(count(&taken, "captured "), sent_well, "{backend}: {taken}{sent}");
        }
    });
}

#[test]
fn net_a_capture_leaks_nothing() {
    long_capture("net_a_capture_leaks_nothing", 8);
}

#[test]
#[ignore = "an hour: make leak-pcap"]
fn net_a_long_capture_leaks_nothing() {
    long_capture("net_a_long_capture_leaks_nothing", minutes(60) * 60);
}

/// MINUTES of the environment, else `unasked`.
fn minutes(unasked: u64) -> u64 {
    std::env::var("MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(unasked)
}

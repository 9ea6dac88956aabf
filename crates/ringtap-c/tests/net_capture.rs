//! The C library at work on a veth pair: tests/c/behaviour.c and both examples, by each back end.

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use support::{Bench, Work, bench, compile, here, library, output};

const BACKENDS: [&str; 2] = ["xdp", "packet"];

struct Tools {
    folder: tempfile::TempDir,
    behaviour: PathBuf,
    count: PathBuf,
}

fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let folder = library();
        let [behaviour, count] = ["tests/c/behaviour.c", "examples/count.c"].map(|name| compile(name, folder.path()));
        Tools { folder, behaviour, count }
    })
}

/// Starts one case on a fresh pair of interfaces.
fn start(bench: &Bench, case: &str, backend: &str) -> Work {
    // The generator's frames come by redirect, which needs a NAPI at this end; attaching XDP makes it, and has done so too late.
    bench.testbed.enable_receiver_napi().unwrap();
    let mut command = Command::new(&tools().behaviour);
    command.args([case, bench.testbed.receiver().interface(), backend]);
    bench.start(command.env("LD_LIBRARY_PATH", tools().folder.path()))
}

/// Runs a case on each back end while `meanwhile` is done.
fn case(name: &str, meanwhile: impl Fn(&Bench, &mut Work)) {
    for backend in BACKENDS {
        let bench = bench(name);
        let mut work = start(&bench, name, backend);
        meanwhile(&bench, &mut work);
        let (said, code) = work.end();
        assert_eq!(code, Some(0), "{name} by {backend}: {said}");
    }
}

#[test]
fn net_each_numbered_packet_comes_once_and_in_order() {
    case("numbered", |bench, work| {
        work.await_words("ready");
        bench.send(20_000, 30_000.0);
    });
}

#[test]
fn net_longer_packets_are_cut_and_counted() {
    case("cut", |bench, work| {
        work.await_words("ready");
        bench.send(20_000, 30_000.0);
    });
}

#[test]
fn net_what_came_before_the_end_is_given_and_nothing_after_it() {
    case("late", |bench, work| {
        work.await_words("waiting");
        bench.send(500, 10_000.0);
        work.go_on();
        work.await_words("stopped");
        bench.send(100, 10_000.0);
        work.go_on();
    });
}

#[test]
fn net_time_outs_are_kept() {
    case("timeouts", |_, _| {});
}

#[test]
fn net_a_wait_is_broken_off_by_threads_and_signals() {
    case("breaking", |_, _| {});
}

#[test]
fn net_one_thread_reads_at_a_time() {
    case("busy", |_, _| {});
}

#[test]
fn net_a_removed_interface_ends_the_capture() {
    case("gone", |_, _| {});
}

#[test]
fn net_misuse_is_refused_in_words() {
    case("refusals", |_, _| {});
}

#[test]
fn net_a_missing_privilege_has_a_code_of_its_own() {
    case("unprivileged", |_, _| {});
}

#[test]
fn net_closing_leaves_no_descriptor() {
    case("cycles", |_, _| {});
}

#[test]
fn net_closing_puts_the_host_back() {
    for backend in BACKENDS {
        let bench = bench("restored");
        bench.testbed.enable_receiver_napi().unwrap();
        let before = bench.settings();
        let mut work = start(&bench, "restored", backend);
        work.await_words("open");
        let meanwhile = bench.settings();
        let told = if backend == "xdp" { "prog/xdp" } else { "promiscuity 1" };
        assert!(meanwhile[0].contains(told), "{backend}: {meanwhile:?}");
        work.go_on();
        work.await_words("closed");
        // It is still there: the process's end is not what puts things back.
        assert_eq!(bench.settings(), before, "{backend}");
        work.go_on();
        assert_eq!(work.end().1, Some(0));
    }
}

#[test]
fn net_exit_without_closing_puts_the_host_back() {
    for backend in BACKENDS {
        let bench = bench("left");
        bench.testbed.enable_receiver_napi().unwrap();
        let before = bench.settings();
        let mut work = start(&bench, "left", backend);
        work.await_words("open");
        work.go_on();
        assert_eq!(work.end().1, Some(0));
        assert_eq!(bench.settings(), before, "{backend}");
    }
}

#[test]
fn net_a_ledger_that_is_read_meanwhile_refuses_nobody() {
    case("accounts", |_, _| {});
}

/// Runs an example until it has seen what was sent, and looks at what it says.
fn counts(name: &str, backend: &str, command: &mut Command) {
    const SENT: u64 = 10_000;
    let bench = bench(name);
    bench.testbed.enable_receiver_napi().unwrap();
    command.args([bench.testbed.receiver().interface(), "60", backend]);
    let mut work = bench.start(command.env("LD_LIBRARY_PATH", tools().folder.path()));
    work.await_words(&format!("counting by {backend}"));
    bench.send(SENT, 20_000.0);
    // It may have been stopped before it looked: what is in the ring is counted all the same.
    std::thread::sleep(Duration::from_millis(50));
    work.interrupt();
    let (said, code) = work.end();
    assert_eq!(code, Some(0), "{said}");
    let number = |word: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(word));
        line.and_then(|rest| rest.trim().parse::<u64>().ok()).unwrap_or_else(|| panic!("{word}: {said}"))
    };
    assert!(said.contains(&format!("{SENT} packets, {} bytes\n", SENT * 64)), "{said}");
    assert_eq!((number("delivered "), number("unaccounted ")), (SENT, 0), "{said}");
    assert_eq!(number("offered "), SENT + number("filtered "), "{said}");
}

#[test]
fn net_the_example_in_c_counts_all() {
    for backend in BACKENDS {
        counts("count.c", backend, &mut Command::new(&tools().count));
    }
}

#[test]
fn net_the_example_in_python_counts_all() {
    const PYTHON: &str = "/usr/bin/python3";
    let cffi = support::run(Command::new(PYTHON).args(["-c", "import cffi"]));
    assert!(cffi.status.success(), "did not run: count.py: python3-cffi is not there");
    for backend in BACKENDS {
        let mut command = Command::new(PYTHON);
        command.arg(here().join("examples/count.py"));
        command.env("RINGTAP_HEADER", here().join("include/ringtap.h"));
        counts("count.py", backend, command.env("RINGTAP_LIBRARY", tools().folder.path().join("libringtap.so.0")));
    }
}

#[test]
fn wrong_usage_is_told_from_failure() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&tools().count);
        support::run(command.args(arguments).env("LD_LIBRARY_PATH", tools().folder.path()))
    };
    for wrong in [&["no0", "soon"][..], &[], &["no0", "1", "system"]] {
        assert_eq!(run(wrong).status.code(), Some(2));
    }
    let failed = run(&["no0"]);
    let text = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{text}");
    assert!(text.contains("no0: there is no such interface") && text.lines().count() == 1, "{text}");
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let header = std::fs::read_to_string(here().join("include/ringtap.h")).unwrap();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let declared = header.lines().filter(|line| !line.starts_with([' ', '/', '#']));
    let mut declared: Vec<&str> =
        declared.filter_map(|line| line.split_once('(')?.0.rsplit(|letter| !is_name(letter)).next()).collect();
    declared.sort_unstable();
    let library = support::built("libringtap_c.so");
    let listed = output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let mut exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    assert!(declared.len() > 10, "{declared:?}");
    assert_eq!(exported, declared);
    let dynamic = output(Command::new("readelf").arg("-dW").arg(library));
    assert!(dynamic.contains("Library soname: [libringtap.so.0]"), "{dynamic}");
}

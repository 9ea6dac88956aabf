//! However a process ends, the interface works as before and the next start succeeds; what is somebody else's stays.

mod net_support;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net_support::forked::child_for;
use net_support::{Bench, Keep, Way, bench, config, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap::burst::Packet;
use ringtap::engine::Handler;
use ringtap::napi::NapiPause;
use ringtap::pacer::{Hybrid, Policy};
use ringtap::realtime::RealTime;
use ringtap::receiver::{Backend, Receiver, ReceiverConfig};
use ringtap::steer::Attach;
use ringtap::transmit::Outbox;
use ringtap_testbed::RunningProgram;

const INTERFACE: &str = "RINGTAP_TEST_INTERFACE";
const ENDING: &str = "RINGTAP_TEST_ENDING";

fn child_config(interface: &str) -> ReceiverConfig {
    let mut config = ReceiverConfig::new(interface, Policy::Timer { period_ns: 1_000_000 });
    // A setting to be put back.
    config.napi_pause = NapiPause::anywhere(50_000);
    config.backend = Backend::Xdp;
    config.attach = Some(Attach::Native);
    config.take = true;
    config.realtime = RealTime { priority: 0, lock_memory: false, shallow_idle: false };
    config
}

/// Not a test by itself: the process that holds a receiver while the other tests end it.
#[test]
fn net_child_that_holds_a_receiver() {
    let (Ok(interface), Ok(ending)) = (std::env::var(INTERFACE), std::env::var(ENDING)) else { return };
    let told = Arc::new(AtomicBool::new(false));
    if ending == "handled" {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&told)).unwrap();
        }
    }
    let receiver = Receiver::open(child_config(&interface)).unwrap();
    let running = receiver.start(vec![Keep::default()]).unwrap();
    println!("holding {}", std::process::id());
    match ending.as_str() {
        "handled" => {
            assert!(eventually(Duration::from_secs(20), || told.load(Ordering::Relaxed)));
            running.stop_handle().pull();
            running.finish().unwrap();
        }
        "panic" => panic!("as meant"),
        // Bounded, should the parent fail to end us.
        _ => std::thread::sleep(Duration::from_secs(20)),
    }
}

/// Starts the child inside the receiving host and waits until it holds the interface.
fn child(bench: &Bench, ending: &str) -> (RunningProgram, Pid) {
    let mut command = bench.receiver().command(std::env::current_exe().unwrap().to_str().unwrap());
    command.args(["--exact", "net_child_that_holds_a_receiver", "--nocapture"]);
    command.env(INTERFACE, bench.receiver().interface()).env(ENDING, ending);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = bench.receiver().start(command).unwrap();
    let mut lines = BufReader::new(program.child().stdout.take().unwrap()).lines().map_while(Result::ok);
    let pid = lines
        .find_map(|line| line.split_once("holding ")?.1.trim().parse().ok())
        .expect("the child holds the interface");
    // Its further words, should it have some, must not block it.
    std::thread::spawn(move || lines.for_each(drop));
    (program, Pid::from_raw(pid))
}

type Settings = (String, String);

fn settings(bench: &Bench) -> Settings {
    (bench.sys("napi_defer_hard_irqs"), bench.sys("gro_flush_timeout"))
}

fn odd_settings(bench: &Bench) -> Settings {
    for (name, value) in [("napi_defer_hard_irqs", "1"), ("gro_flush_timeout", "12345")] {
        let path = format!("/sys/class/net/{}/{name}", bench.receiver().interface());
        bench.receiver().run(|| std::fs::write(path, value)).unwrap().unwrap();
    }
    settings(bench)
}

fn starts_again(bench: &Bench, policy: Policy) {
    let keep = Keep::default();
    let mut config = child_config(bench.receiver().interface());
    config.policy = policy;
    let running = bench.start(config, |_| keep.clone());
    bench.send_numbered(1e3, 10, |_| {});
    assert!(eventually(Duration::from_secs(2), || keep.len() == 10), "{}", keep.len());
    let outcome = bench.finish(running);
    assert_eq!(outcome.ledger.unaccounted(), Some(0));
}

fn clean(bench: &Bench) {
    assert_eq!(bench.xdp_program(), None);
    assert!(bench.host_traffic_works());
}

#[test]
fn net_a_signal_that_is_handled_leaves_nothing() {
    let bench = bench("net_a_signal_that_is_handled_leaves_nothing");
    let before = odd_settings(&bench);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (mut program, pid) = child(&bench, "handled");
        assert!(bench.xdp_program().is_some());
        assert_eq!(settings(&bench), ("2".to_owned(), "50000".to_owned()));
        kill(pid, signal).unwrap();
        assert!(program.child().wait().unwrap().success());
        clean(&bench);
        assert_eq!(settings(&bench), before);
        starts_again(&bench, Policy::Interrupt);
    }
}

#[test]
fn net_a_panic_leaves_nothing() {
    let bench = bench("net_a_panic_leaves_nothing");
    let before = odd_settings(&bench);
    let (mut program, _) = child(&bench, "panic");
    assert_eq!(program.child().wait().unwrap().code(), Some(101));
    clean(&bench);
    assert_eq!(settings(&bench), before);
    starts_again(&bench, Policy::Timer { period_ns: 1_000_000 });
    assert_eq!(settings(&bench), before);
}

#[test]
fn net_what_a_killed_process_leaves_is_repaired_by_the_next_start() {
    let bench = bench("net_what_a_killed_process_leaves_is_repaired_by_the_next_start");
    let before = odd_settings(&bench);
    for (signal, next) in [
        (Signal::SIGKILL, Policy::Timer { period_ns: 1_000_000 }),
        (Signal::SIGTERM, Policy::Interrupt),
        (Signal::SIGKILL, Policy::Interrupt),
    ] {
        let (mut program, pid) = child(&bench, "killed");
        kill(pid, signal).unwrap();
        assert!(!program.child().wait().unwrap().success());
        clean(&bench);
        assert_ne!(settings(&bench), before, "what only the next start can put back");
        starts_again(&bench, next);
        clean(&bench);
        assert_eq!(settings(&bench), before);
    }
    // A packet socket repairs too, and somebody else's later change is left alone.
    let (mut program, pid) = child(&bench, "killed");
    kill(pid, Signal::SIGKILL).unwrap();
    program.child().wait().unwrap();
    let path = format!("/sys/class/net/{}/gro_flush_timeout", bench.receiver().interface());
    bench.receiver().run(|| std::fs::write(path, "777")).unwrap().unwrap();
    bench.finish(bench.start(config(&bench, Way::Packet), |_| Keep::default()));
    assert_eq!(settings(&bench), (before.0, "777".to_owned()));
}

#[test]
fn net_a_second_receiver_is_told_who_is_there() {
    let bench = bench("net_a_second_receiver_is_told_who_is_there");
    let (program, pid) = child(&bench, "killed");
    let error = bench.open(child_config(bench.receiver().interface())).err().expect("refused").to_string();
    assert!(error.contains("ringtap_steer") && error.contains(&format!("pid {pid}")), "{error}");
    assert!(error.contains(bench.receiver().interface()) && error.contains("--backend packet"), "{error}");
    // Beside it, a packet socket opens; it sees what the first one leaves, that is nothing.
    bench.finish(bench.start(config(&bench, Way::Packet), |_| Keep::default()));
    drop(program);
    clean(&bench);
    starts_again(&bench, Policy::Interrupt);
}

/// An XDP program that passes everything. Attached by netlink it is held by no process: the kernel keeps it until somebody takes it off.
fn pass_program(folder: &Path, name: &str) -> PathBuf {
    let (source, object) = (folder.join("pass.c"), folder.join("pass.o"));
    std::fs::write(&source, format!("__attribute__((section(\"xdp\"), used)) int {name}(void *c) {{ return 2; }}\n"))
        .unwrap();
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let built =
        Command::new(clang).args(["-target", "bpf", "-O2", "-g", "-c"]).arg(&source).arg("-o").arg(&object).status();
    assert!(built.is_ok_and(|status| status.success()), "did not run: an XDP program of the test: clang");
    object
}

#[test]
fn net_a_program_of_ours_that_nobody_holds_is_waited_for() {
    let bench = bench("net_a_program_of_ours_that_nobody_holds_is_waited_for");
    let interface = bench.receiver().interface().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let object = pass_program(folder.path(), "ringtap_steer");
    bench.ip(&format!("link set dev {interface} xdpdrv obj {} sec xdp", object.display()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            bench.ip(&format!("link set dev {interface} xdpdrv off"));
        });
        starts_again(&bench, Policy::Interrupt);
    });
    // One that stays is named.
    bench.ip(&format!("link set dev {interface} xdpdrv obj {} sec xdp", object.display()));
    let error = bench.open(child_config(&interface)).err().expect("refused").to_string();
    assert!(error.contains("ringtap_steer") && error.contains("no process holds it"), "{error}");
}

#[test]
fn net_a_foreign_program_is_named_and_left_alone() {
    let bench = bench("net_a_foreign_program_is_named_and_left_alone");
    let interface = bench.receiver().interface().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let object = pass_program(folder.path(), "somebody_elses");
    for mode in ["xdpdrv", "xdpgeneric"] {
        bench.ip(&format!("link set dev {interface} {mode} obj {} sec xdp", object.display()));
        let foreign = bench.xdp_program().expect("attached");
        for attach in [None, Some(Attach::Native), Some(Attach::Generic)] {
            let mut config = child_config(&interface);
            config.attach = attach;
            let error = bench.open(config).err().expect("refused").to_string();
            assert!(error.contains("somebody_elses") && error.contains(&format!("id {foreign}")), "{error}");
            assert!(
                error.contains("no process holds it") && error.contains(&format!("ip link set dev {interface}")),
                "{error}"
            );
        }
        assert_eq!(bench.xdp_program(), Some(foreign), "still there");
        // The command that the message gives for taking it off does so.
        bench.ip(&format!("link set dev {interface} {mode} off"));
        starts_again(&bench, Policy::Interrupt);
    }
}

/// A handler that panics on its first packet.
struct Panics;

impl Handler for Panics {
    fn packet(&mut self, _packet: &Packet<'_>, _outbox: &mut Outbox<'_>) {
        panic!("as meant")
    }
}

#[test]
fn net_a_handler_that_panics_ends_the_receiver_and_frees_the_interface() {
    let bench = bench("net_a_handler_that_panics_ends_the_receiver_and_frees_the_interface");
    for way in net_support::WAYS {
        let running = bench.start(config(&bench, way), |_| Panics);
        bench.send_numbered(1e3, 3, |_| {});
        assert!(eventually(Duration::from_secs(2), || running.is_finished()), "{way:?}");
        let error = bench.receiver().run(|| running.finish().err()).unwrap().expect("said so").to_string();
        assert!(error.contains("panicked"), "{error}");
        clean(&bench);
        bench.finish(bench.start(config(&bench, way), |_| Keep::default()));
    }
}

#[test]
fn net_dropped_receivers_end_their_threads() {
    let bench = bench("net_dropped_receivers_end_their_threads");
    let threads = || {
        let all = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = all.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        names.filter(|name| name.starts_with("ringtap-")).count()
    };
    for way in net_support::WAYS {
        let receiver = bench.open(config(&bench, way)).unwrap();
        drop(receiver);
        clean(&bench);
        let running = bench.start(config(&bench, way), |_| Keep::default());
        // A thread gives itself its name when it begins.
        assert!(eventually(Duration::from_secs(2), || threads() == 2), "engine and watcher: {}", threads());
        bench.receiver().run(|| drop(running)).unwrap();
        assert_eq!(threads(), 0);
        clean(&bench);
    }
}

#[test]
fn net_napi_is_paced_where_xdp_runs_and_when_asked_for() {
    let bench = bench("net_napi_is_paced_where_xdp_runs_and_when_asked_for");
    bench.testbed.enable_receiver_napi().unwrap();
    let before = settings(&bench);
    for (way, pace_ns, expected) in [
        (Way::Native, 20_000, Some(("2", "20000"))),
        (Way::Native, 0, None),
        (Way::Generic, 20_000, Some(("2", "20000"))),
        (Way::Packet, 20_000, None),
    ] {
        let mut config = config(&bench, way);
        config.napi_pause = NapiPause::anywhere(pace_ns);
        let running = bench.start(config, |_| Keep::default());
        let expected = expected.map_or_else(|| before.clone(), |(defer, flush)| (defer.to_owned(), flush.to_owned()));
        assert_eq!(settings(&bench), expected, "{way:?}");
        // The other end of a veth may leave tags beside packets, where a packet socket still has them.
        let warnings = running.warnings();
        let expected = if way == Way::Packet { 0 } else { 1 };
        assert!(
            warnings.len() == expected && warnings.iter().all(|it| it.contains("VLAN tags")),
            "{way:?}: {warnings:?}"
        );
        bench.finish(running);
        assert_eq!(settings(&bench), before);
    }
}

#[test]
fn net_napi_on_the_engines_cpu_pauses_longer() {
    let bench = bench("net_napi_on_the_engines_cpu_pauses_longer");
    bench.testbed.enable_receiver_napi().unwrap();
    let before = settings(&bench);
    let (engine, other) = (bench.testbed.config().receiver_core, bench.testbed.config().generator_core);
    for (napi_on, expected) in [(None, "20000"), (Some(other), "20000"), (Some(engine), "40000")] {
        if let Some(core) = napi_on {
            bench.testbed.pin_napi(core).unwrap();
        }
        let mut config = config(&bench, Way::Native);
        config.napi_pause =
            NapiPause { apart_ns: 20_000, shared_ns: 40_000, instead_of_timer_ns: 0, while_thick: false };
        let running = bench.start(config, |_| Keep::default());
        assert_eq!(settings(&bench).1, expected, "NAPI on {napi_on:?}, engine on {engine}");
        bench.finish(running);
        assert_eq!(settings(&bench), before);
    }
    bench.testbed.unpin_napi().unwrap();
}

#[test]
fn net_a_long_pause_on_the_engines_cpu_replaces_its_timer() {
    let bench = bench("net_a_long_pause_on_the_engines_cpu_replaces_its_timer");
    bench.testbed.enable_receiver_napi().unwrap();
    let before = settings(&bench);
    let (engine, other) = (bench.testbed.config().receiver_core, bench.testbed.config().generator_core);
    for (napi_on, way, pause, has_timer) in [
        (other, Way::Native, "20000", true),
        (engine, Way::Native, "400000", false),
        // Its NAPI is not paced, so its timer stays.
        (engine, Way::Packet, before.1.as_str(), true),
    ] {
        bench.testbed.pin_napi(napi_on).unwrap();
        let mut config = config(&bench, way);
        config.policy = Policy::Hybrid(Hybrid::new(1000.0, 300_000));
        config.napi_pause =
            NapiPause { apart_ns: 20_000, shared_ns: 40_000, instead_of_timer_ns: 400_000, while_thick: false };
        let keep = Keep::default();
        let running = bench.start(config, |_| keep.clone());
        assert_eq!(settings(&bench).1, pause, "NAPI on {napi_on}, engine on {engine}, {way:?}");
        bench.send_numbered(10e3, 2000, |_| {});
        assert!(eventually(Duration::from_secs(2), || keep.len() == 2000), "{} came", keep.len());
        let counters = running.counters();
        assert_eq!(counters.timer_wakes > 0, has_timer, "NAPI on {napi_on}, {way:?}: {counters:?}");
        assert!(has_timer || counters.interrupt_wakes > 0, "{counters:?}");
        bench.finish(running);
        assert_eq!(settings(&bench), before);
    }
    bench.testbed.unpin_napi().unwrap();
}

/// A child that was forked meanwhile holds the program until it runs its own.
#[test]
fn net_what_is_about_to_go_stands_in_nobody_s_way() {
    let bench = bench("net_what_is_about_to_go_stands_in_nobody_s_way");
    for next in [Way::Native, Way::Packet] {
        let taker = bench.open(config(&bench, Way::Native)).unwrap();
        let child = child_for(Duration::from_millis(150));
        drop(taker);
        let opened = bench.open(config(&bench, next)).unwrap();
        assert!(!opened.warnings().iter().any(|it| it.contains("not seen here")), "{next:?}: {:?}", opened.warnings());
        child.join().unwrap();
    }
}

#[test]
fn net_host_keeps_talking_while_and_after_a_receiver_takes_a_part() {
    let bench = bench("net_host_keeps_talking_while_and_after_a_receiver_takes_a_part");
    let (here, there) = (bench.receiver().link().ipv4, bench.testbed.sender().link().ipv4);
    let mut config = config(&bench, Way::Native);
    config.rules = vec!["udp dst port 162".parse().unwrap()];
    let keep = Keep::default();
    let running = bench.start(config, |_| keep.clone());
    let trap = bench.receiver().run(|| UdpSocket::bind((here, 162)).unwrap()).unwrap();
    trap.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let sender = bench.testbed.sender().run(|| UdpSocket::bind((there, 0)).unwrap()).unwrap();
    sender.send_to(b"trap", (here, 162)).unwrap();
    assert!(eventually(Duration::from_secs(2), || keep.len() == 1));
    assert!(trap.recv(&mut [0; 8]).is_err(), "taken from the host");
    assert!(bench.host_traffic_works());
    bench.finish(running);
    sender.send_to(b"trap", (here, 162)).unwrap();
    trap.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    assert_eq!(trap.recv(&mut [0; 8]).unwrap(), 4, "the host's again");
}

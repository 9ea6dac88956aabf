//! How a capture ends: signals, kill -9, the interface gone or down, the disk full, an output nobody reads; and that
//! nothing that was captured is lost by it.

mod capture_support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;

use capture_support::{Capture, assert_clean, folder, ip, packets_in, send_numbered, testbed, tool};
use nix::sys::signal::Signal;
use ringtap_testbed::{Generator, GeneratorConfig, Pattern, Profile, Testbed, TestbedConfig};

/// Traffic that goes on until it is dropped.
fn endless(testbed: &Testbed) -> Generator {
    let profile = Profile::lasting(Pattern::Constant { pps: 20e3 }, Duration::from_secs(30));
    testbed.generate(GeneratorConfig::for_testbed(testbed, 64, profile)).unwrap()
}

#[test]
fn net_capture_ended_by_a_signal_mid_run_leaves_a_whole_file() {
    const TEST: &str = "net_capture_ended_by_a_signal_mid_run_leaves_a_whole_file";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    for (backend, signal) in [("xdp", Signal::SIGINT), ("packet", Signal::SIGTERM), ("socket", Signal::SIGHUP)] {
        let (_folder, file) = folder();
        let mut capture = Capture::start(&testbed, &["--backend", backend, "-w", file.to_str().unwrap()]);
        let traffic = endless(&testbed);
        while traffic.progress().unwrap().stamped < 4000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        capture.signal(signal);
        let ended = capture.end();
        drop(traffic);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let ledger = &summary["ledger"];
        assert_eq!((&summary["ending"], &ledger["unaccounted"]), (&"signal".into(), &0.into()), "{summary}");
        assert_eq!(ledger["lost"], 0, "what came after the end is no loss: {summary}");
        let packets = packets_in(TEST, &file);
        assert!(packets > 1000 && ledger["delivered"] == packets, "{packets}: {summary}");
        assert_clean(&testbed);
    }
}

/// logrotate(8): the file is moved away, SIGHUP comes, and a new one begins in its place. Where nothing was moved, SIGHUP is the
/// terminal's, and ends the capture as above.
#[test]
fn net_capture_begins_a_new_file_on_sighup_when_the_old_one_was_moved() {
    const TEST: &str = "net_capture_begins_a_new_file_on_sighup_when_the_old_one_was_moved";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let (_folder, file) = folder();
    let moved = file.with_extension("1");
    let mut capture = Capture::start(&testbed, &["--backend", "packet", "-w", file.to_str().unwrap()]);
    send_numbered(&testbed, 50e3, 1000);
    std::thread::sleep(Duration::from_millis(200));
    std::fs::rename(&file, &moved).unwrap();
    capture.signal(Signal::SIGHUP);
    capture.wait_for("a new one is begun");
    send_numbered(&testbed, 50e3, 500);
    let ended = capture.interrupt();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    let ledger = &ended.summary()["ledger"];
    assert_eq!((&ledger["delivered"], &ledger["unaccounted"]), (&1500.into(), &0.into()), "{ledger}");
    let (before, after) = (packets_in(TEST, &moved), packets_in(TEST, &file));
    assert_eq!(before + after, 1500, "each packet is in one of them");
    assert!(before >= 1000, "{before}");
}

#[test]
fn net_capture_tells_the_ledger_on_sigusr1_and_goes_on() {
    const TEST: &str = "net_capture_tells_the_ledger_on_sigusr1_and_goes_on";
    let testbed = testbed(TEST, TestbedConfig::default());
    let mut capture = Capture::start(&testbed, &["--backend", "xdp"]);
    send_numbered(&testbed, 50e3, 1000);
    capture.signal(Signal::SIGUSR1);
    capture.wait_for("offered 1000 = delivered 1000 + filtered 0 + unaccounted 0");
    assert_eq!(capture.interrupt().summary()["packets"], 1000);
}

#[test]
fn net_capture_killed_leaves_the_interface_as_it_was_and_a_second_one_starts() {
    const TEST: &str = "net_capture_killed_leaves_the_interface_as_it_was_and_a_second_one_starts";
    let testbed = testbed(TEST, TestbedConfig::default());
    for backend in ["xdp", "packet"] {
        let (_folder, file) = folder();
        let path = file.to_str().unwrap();
        let mut killed = Capture::start(&testbed, &["--backend", backend, "-w", path]);
        testbed.enable_receiver_napi().unwrap();
        send_numbered(&testbed, 50e3, 1000);
        // The writer has what came within a tenth of a second.
        std::thread::sleep(Duration::from_millis(150));
        killed.signal(Signal::SIGKILL);
        killed.end();
        assert_eq!(packets_in(TEST, &file), 1000, "{backend}: what was written is readable");
        // Detaching from a bpf_link is deferred work.
        std::thread::sleep(Duration::from_millis(100));
        assert_clean(&testbed);
        let again = Capture::start(&testbed, &["--backend", backend, "-w", path]);
        send_numbered(&testbed, 50e3, 1000);
        let summary = again.interrupt().summary();
        assert_eq!((&summary["packets"], &summary["ledger"]["unaccounted"]), (&1000.into(), &0.into()), "{summary}");
        assert_eq!(packets_in(TEST, &file), 1000);
    }
}

#[test]
fn net_capture_outlives_its_interface_going_down_and_ends_when_it_is_gone() {
    const TEST: &str = "net_capture_outlives_its_interface_going_down_and_ends_when_it_is_gone";
    for backend in ["xdp", "packet"] {
        let testbed = testbed(TEST, TestbedConfig::default());
        let host = testbed.receiver();
        let name = host.interface();
        let (_folder, file) = folder();
        let capture = Capture::start(&testbed, &["--backend", backend, "-w", file.to_str().unwrap()]);
        testbed.enable_receiver_napi().unwrap();
        send_numbered(&testbed, 50e3, 500);
        ip(host, &format!("link set {name} down"));
        capture.wait_for("is down");
        ip(host, &format!("link set {name} up"));
        capture.wait_for("is up again");
        std::thread::sleep(Duration::from_millis(200));
        send_numbered(&testbed, 50e3, 500);
        ip(host, &format!("link del {name}"));
        let ended = capture.end();
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        let last = ended.stderr.lines().last().unwrap();
        assert!(last.starts_with("ringtap: capture from") && last.contains(name) && last.contains("removed"), "{last}");
        let summary = ended.summary();
        assert_eq!(summary["ending"], "interface_gone");
        let packets = packets_in(TEST, &file);
        assert!(packets >= 1000 && summary["ledger"]["delivered"] == packets, "{backend}: {packets}: {summary}");
    }
}

#[test]
fn net_capture_on_a_full_disk_keeps_what_fits_and_says_so() {
    const TEST: &str = "net_capture_on_a_full_disk_keeps_what_fits_and_says_so";
    let testbed = testbed(TEST, TestbedConfig::default());
    let host = testbed.receiver();
    let folder = tempfile::tempdir().unwrap();
    // Mounted in the host's own mount namespace: it goes away with the testbed, and is read from inside.
    let at = folder.path().to_str().unwrap();
    let mount = || Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "none", at]).status().unwrap();
    assert!(host.run(mount).unwrap().success());
    let file = folder.path().join("out.pcapng");
    let capture = Capture::start(&testbed, &["--backend", "xdp", "-w", file.to_str().unwrap()]);
    send_numbered(&testbed, 50e3, 5000);
    let ended = capture.end();
    ended.assert_refused(1, &["out.pcapng", "ENOSPC", "free some space"]);
    let summary = ended.summary();
    let ledger = &summary["ledger"];
    assert_eq!((&summary["ending"], &ledger["unaccounted"]), (&"output_failed".into(), &0.into()), "{summary}");
    let packets = host.run(|| packets_in(TEST, &file)).unwrap();
    assert!(packets > 500 && ledger["delivered"] == packets, "{packets}: {summary}");
    assert!(ledger["drops"]["output_failed"].as_u64().unwrap() > 0, "{summary}");
    assert_clean(&testbed);
}

#[test]
fn net_capture_with_a_slow_output_counts_what_did_not_fit() {
    const TEST: &str = "net_capture_with_a_slow_output_counts_what_did_not_fit";
    let testbed = testbed(TEST, TestbedConfig::default());
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.pcapng");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Someone opened the pipe and reads nothing for now.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let capture = Capture::start(&testbed, &["--backend", "xdp", "--spool", "64KiB", "-w", pipe.to_str().unwrap()]);
    send_numbered(&testbed, 50e3, 10_000);
    let drain = std::thread::spawn(move || {
        let mut reader = reader;
        let mut total = 0;
        let mut buffer = vec![0; 1 << 16];
        // The statistics block at the end is shorter than any packet is long in sum: what was read tells nothing more.
        while total < 200_000 {
            match std::io::Read::read(&mut reader, &mut buffer) {
                Ok(count) if count > 0 => total += count,
                _ => break,
            }
        }
    });
    let summary = capture.interrupt().summary();
    let ledger = &summary["ledger"];
    assert_eq!((&ledger["offered"], &ledger["unaccounted"]), (&10_000.into(), &0.into()), "{summary}");
    assert!(ledger["drops"]["slow_output"].as_u64().unwrap() > 5000, "{summary}");
    assert_eq!(ledger["delivered"], summary["record"]["packets"], "{summary}");
    // The rest of the pipe went with the capture; the reader would wait for more for ever.
    drop(drain);
}

#[test]
fn net_capture_goes_on_as_another_user_who_owns_the_files() {
    const TEST: &str = "net_capture_goes_on_as_another_user_who_owns_the_files";
    let nobody = tool(TEST, "id", &["-u", "nobody"]).trim().parse::<u32>().unwrap();
    let testbed = testbed(TEST, TestbedConfig::default());
    for backend in ["xdp", "packet"] {
        let (folder, file) = folder();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let path = file.to_str().unwrap();
        let arguments =
            ["--backend", backend, "--user", "nobody", "-w", path, "--rotate-size", "20KiB", "--rotate-keep", "4"];
        let capture = Capture::start(&testbed, &arguments);
        testbed.enable_receiver_napi().unwrap();
        send_numbered(&testbed, 50e3, 2000);
        let ended = capture.interrupt();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let ledger = &summary["ledger"];
        assert_eq!((&ledger["delivered"], &ledger["unaccounted"]), (&2000.into(), &0.into()), "{summary}");
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(files.len(), 4, "old files could be deleted and new ones made");
        assert!(files.iter().all(|file| file.metadata().unwrap().uid() == nobody), "{files:?}");
        assert_clean(&testbed);
    }
}

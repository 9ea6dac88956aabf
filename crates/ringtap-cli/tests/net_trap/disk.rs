//! A full disk: nothing is acknowledged, what waits is stored when there is room again, and what can't wait is in the ledger.

use std::fs::File;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_testbed::{RunningProgram, Testbed, TestbedConfig};
use ringtap_trap::encode::{Item, Trap};
use ringtap_trap::store::Store;
use serde_json::Value;

use crate::support::{PATIENCE, RINGTAP};

const TO: &str = "127.0.0.1:10162";

/// A host whose mounts are its own, with a small disk at `at`, and a station that writes to it.
fn start(test: &str, testbed: &Testbed, at: &Path) -> RunningProgram {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {test}: it needs root");
    let host = testbed.receiver();
    let mounted = host.run(|| mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some("size=4m")));
    mounted.unwrap().unwrap_or_else(|errno| panic!("did not run: {test}: mount tmpfs: {errno}"));
    let mut command = host.command(RINGTAP);
    command
        .args(["trap", "--json", "--stats", "50ms", "--listen", TO, "--spool", "512KiB", "--store"])
        .arg(at.join("store"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut station = host.start(command).unwrap();
    let until = Instant::now() + PATIENCE;
    let pid = station.child().id();
    while !host.run(|| udp_is_bound(pid)).unwrap() {
        assert!(Instant::now() < until, "the station does not come up");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Until nothing more fits.
    host.run(|| {
        let mut filler = File::create(at.join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    })
    .unwrap();
    station
}

fn udp_is_bound(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default())
        .any(|name| name.trim() == "ringtap-station")
}

/// Sends informs of about `bytes` bytes; gives how many were answered within `wait` after the last.
fn inform(testbed: &Testbed, numbers: std::ops::Range<i32>, bytes: usize, wait: Duration) -> usize {
    let send = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        for number in numbers {
            let padding = Item::Text(vec![b'x'; bytes]);
            let trap = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&[1, 3, 6, 1, 4, 1, 32473, 1, 2, 0], padding);
            socket.send_to(&trap.inform(b"public", number), TO).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut answered = 0;
        let until = Instant::now() + wait;
        let mut buffer = vec![0; 65_536];
        while Instant::now() < until {
            answered += usize::from(socket.recv_from(&mut buffer).is_ok());
        }
        answered
    };
    testbed.receiver().run(send).unwrap()
}

/// Ends the station; whether it succeeded, and all that it said on standard output and standard error.
fn end(mut station: RunningProgram) -> (bool, Vec<Value>, String) {
    let child = station.child();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    (status.success(), stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stderr)
}

#[test]
fn net_trap_waits_for_a_full_disk_and_acknowledges_nothing_meanwhile() {
    const TEST: &str = "net_trap_waits_for_a_full_disk_and_acknowledges_nothing_meanwhile";
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("did not run: {TEST}: {error}"));
    let folder = tempfile::tempdir().unwrap();
    let station = start(TEST, &testbed, folder.path());
    assert_eq!(inform(&testbed, 0..20, 20_000, Duration::from_millis(1500)), 0, "acknowledged on a full disk");
    testbed.receiver().run(|| std::fs::remove_file(folder.path().join("filler")).unwrap()).unwrap();
    // The answers to the first went to a socket that is gone; these are answered after them.
    assert_eq!(inform(&testbed, 20..30, 100, Duration::from_secs(3)), 10);
    let (succeeded, said, errors) = end(station);
    assert!(succeeded && errors.contains("full"), "{errors}");
    assert!(said.iter().any(|object| object["error"].as_str().is_some_and(|error| error.contains("full"))));
    let object = said.last().unwrap();
    assert_eq!(
        (&object["stored"], &object["unaccounted"], &object["error"]),
        (&30.into(), &0.into(), &Value::Null),
        "{object}"
    );
    let stored =
        testbed.receiver().run(|| Store::open(&folder.path().join("store")).unwrap().notification_count().unwrap());
    assert_eq!(stored.unwrap(), 30);
}

#[test]
fn net_trap_says_exactly_what_a_disk_that_stays_full_has_cost() {
    const TEST: &str = "net_trap_says_exactly_what_a_disk_that_stays_full_has_cost";
    /// More than the station's job and spool hold.
    const COUNT: i32 = 900;
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("did not run: {TEST}: {error}"));
    let folder = tempfile::tempdir().unwrap();
    let station = start(TEST, &testbed, folder.path());
    assert_eq!(inform(&testbed, 0..COUNT, 60_000, Duration::from_millis(500)), 0, "acknowledged on a full disk");
    let (succeeded, said, errors) = end(station);
    assert!(!succeeded && errors.contains("full"), "{errors}");
    let object = said.last().unwrap_or_else(|| panic!("it said nothing: {errors}"));
    let drops = &object["ledger"]["drops"];
    let [waited, failed] = ["slow_output", "output_failed"].map(|cause| drops[cause].as_u64().unwrap_or(0));
    assert_eq!((&object["unaccounted"], &object["ledger"]["offered"]), (&0.into(), &COUNT.into()), "{object}");
    assert!(waited > 0 && failed > 0, "{object}");
    // SQLite wants room to open what it was interrupted in.
    testbed.receiver().run(|| std::fs::remove_file(folder.path().join("filler")).unwrap()).unwrap();
    let stored =
        testbed.receiver().run(|| Store::open(&folder.path().join("store")).unwrap().notification_count().unwrap());
    assert_eq!(stored.unwrap() + waited + failed, COUNT as u64, "{object}");
}

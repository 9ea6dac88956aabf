//! A full disk and a slow one: nothing is acknowledged meanwhile, what waits is stored later, and what can't wait is in the ledger.

use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sys::socket::{setsockopt, sockopt};
use ringtap_snmp::encode::{Item, Trap};
use ringtap_station::store::Store;
use ringtap_testbed::{RunningProgram, Testbed, TestbedConfig};
use serde_json::Value;

use crate::support::{Ended, PATIENCE, end, end_anyhow, start_on};

const TO: &str = "127.0.0.1:10162";

/// A host whose mounts are its own, with a small disk at `at`, and a station that writes to it.
fn start(test: &str, testbed: &Testbed, at: &Path) -> RunningProgram {
    let station = start_with(test, testbed, at, &[]);
    fill(testbed, at);
    station
}

/// Until nothing more fits.
fn fill(testbed: &Testbed, at: &Path) {
    let fill = || {
        let mut filler = File::create(at.join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    };
    testbed.receiver().run(fill).unwrap();
}

/// The same with room on the disk.
fn start_with(test: &str, testbed: &Testbed, at: &Path, more: &[&str]) -> RunningProgram {
    assert!(nix::unistd::geteuid().is_root(), "did not run: {test}: it needs root");
    let host = testbed.receiver();
    let mounted = host.run(|| mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some("size=4m")));
    mounted.unwrap().unwrap_or_else(|errno| panic!("did not run: {test}: mount tmpfs: {errno}"));
    let arguments = [&["--stats", "50ms", "--listen", TO, "--spool", "512KiB"], more].concat();
    start_on(host, &at.join("store"), &arguments)
}

/// Sends informs of about `bytes` bytes; gives how many were answered within `wait` after the last.
fn inform(testbed: &Testbed, numbers: std::ops::Range<i32>, bytes: usize, wait: Duration) -> usize {
    let send = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // Answers are as large as informs, and those to one job come at once.
        setsockopt(&socket, sockopt::RcvBufForce, &(4 << 20)).unwrap();
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
    let Ended { succeeded, said, errors } = end_anyhow(station);
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
fn net_trap_goes_on_by_itself_on_a_full_disk_when_what_it_keeps_may_go() {
    const TEST: &str = "net_trap_goes_on_by_itself_on_a_full_disk_when_what_it_keeps_may_go";
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("did not run: {TEST}: {error}"));
    let folder = tempfile::tempdir().unwrap();
    let station = start_with(TEST, &testbed, folder.path(), &["--keep", "4s"]);
    assert_eq!(inform(&testbed, 0..10, 20_000, Duration::from_millis(800)), 10);
    fill(&testbed, folder.path());
    // More than the file system has left; the first ones are old soon, and give their room.
    let answered = inform(&testbed, 10..30, 20_000, Duration::from_secs(8));
    // The disk is still full, which may be said; once it is not, a clean-up takes that back.
    testbed.receiver().run(|| std::fs::remove_file(folder.path().join("filler")).unwrap()).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let object = end(station);
    assert_eq!(
        (answered, &object["stored"], &object["unaccounted"], &object["error"]),
        (20, &30.into(), &0.into(), &Value::Null),
        "{object}"
    );
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
    let Ended { succeeded, said, errors } = end_anyhow(station);
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

/// A file system whose writes stand still while it is frozen (FIFREEZE of the kernel): a disk at its slowest.
struct SlowDisk<'a> {
    testbed: &'a Testbed,
    at: &'a Path,
}

impl SlowDisk<'_> {
    fn sh(&self, script: &str) -> bool {
        let script = format!("at={}; {script}", self.at.display());
        self.testbed.receiver().run(|| Command::new("sh").args(["-ec", &script]).status().unwrap().success()).unwrap()
    }

    fn freeze(&self) {
        assert!(self.sh("fsfreeze -f $at"), "freeze");
    }

    fn thaw(&self) {
        assert!(self.sh("fsfreeze -u $at"), "thaw");
    }
}

impl Drop for SlowDisk<'_> {
    fn drop(&mut self) {
        // A test that failed must not leave a station behind that can't even be killed.
        self.sh("fsfreeze -u $at 2> /dev/null || true");
    }
}

#[test]
fn net_trap_says_exactly_what_a_slow_disk_has_cost() {
    const TEST: &str = "net_trap_says_exactly_what_a_slow_disk_has_cost";
    /// More than the station's job and spool hold.
    const COUNT: i32 = 900;
    assert!(nix::unistd::geteuid().is_root(), "did not run: {TEST}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("did not run: {TEST}: {error}"));
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("disk");
    let disk = SlowDisk { testbed: &testbed, at: &at };
    let made = disk.sh("mkdir $at; truncate -s 512M $at.image; mkfs.ext4 -q $at.image; mount -o loop $at.image $at");
    assert!(made, "did not run: {TEST}: no file system in a loop device (mkfs.ext4, mount -o loop, fsfreeze)");
    let station = start_on(testbed.receiver(), &at.join("store"), &["--listen", TO, "--spool", "512KiB"]);
    let mut sent = 0;
    for _ in 0..2 {
        disk.freeze();
        let answered = inform(&testbed, sent..sent + COUNT, 60_000, Duration::from_millis(200));
        disk.thaw();
        assert_eq!(answered, 0, "acknowledged by a disk that stands still");
        sent += COUNT;
        // Jobs go in order: once a later one is answered, all that waited is on the disk.
        let until = Instant::now() + PATIENCE;
        while inform(&testbed, sent..sent + 1, 100, Duration::from_secs(1)) == 0 {
            assert!(Instant::now() < until, "a disk that goes on is not written to");
            sent += 1;
        }
        sent += 1;
    }
    let object = end(station);
    let lost = object["ledger"]["drops"]["slow_output"].as_u64().unwrap();
    assert_eq!((&object["unaccounted"], &object["not_stored_yet"]), (&0.into(), &0.into()), "{object}");
    assert_eq!(&object["ledger"]["offered"], &sent, "{object}");
    assert_eq!(object["ledger"]["drops"]["output_failed"].as_u64().unwrap_or(0), 0, "{object}");
    assert!(lost > 0, "the spool must have been full: {object}");
    let count = || Store::open(&at.join("store")).unwrap().notification_count().unwrap();
    let stored = testbed.receiver().run(count).unwrap();
    assert_eq!((object["stored"].as_u64(), stored + lost), (Some(stored), sent as u64), "{object}");
}

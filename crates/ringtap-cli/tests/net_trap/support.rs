//! A station under test, as a process of its own; net-snmp's programs; what the station said.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_trap::store::Store;
use serde_json::Value;

/// The binary under test.
pub const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// Longest a program may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Port numbers that no other test of this process uses.
pub fn port() -> u16 {
    // Bound and let go: the kernel gives another one to the next who asks.
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program's output; a missing one is told as such.
pub fn run(test: &str, program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        // net-snmp would write its own state into the home directory.
        .env("SNMP_PERSISTENT_DIR", std::env::temp_dir().join(format!("ringtap-net-snmp-{}", std::process::id())))
        .env("SNMPCONFPATH", "/nonexistent")
        .output()
        .unwrap_or_else(|error| panic!("did not run: {test}: {program}: {error}"))
}

/// A running station.
pub struct Station {
    child: Option<Child>,
    pub store: PathBuf,
}

impl Station {
    /// Starts it on `listen`, and returns when it receives.
    pub fn start(store: &Path, arguments: &[&str]) -> Self {
        let child = Command::new(RINGTAP)
            .args(["trap", "--json", "--spool", "8MiB", "--store"])
            .arg(store)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let this = Self { child: Some(child), store: store.to_owned() };
        this.wait_until_ready();
        this
    }

    fn wait_until_ready(&self) {
        let pid = self.pid();
        let until = Instant::now() + PATIENCE;
        // The threads are there when all is set up.
        while Instant::now() < until {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let names: Vec<String> =
                threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default()).collect();
            if names.iter().any(|name| name.trim() == "ringtap-station") {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the station does not come up");
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Ends it as the kernel would: without a chance to do anything.
    pub fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends it by SIGINT; its last object.
    pub fn end(mut self) -> Value {
        let mut child = self.child.take().unwrap();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        let lines: Vec<String> =
            BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap()).collect();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}: {errors}");
        let last = lines.last().unwrap_or_else(|| panic!("it said nothing; {errors}"));
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
    }

    /// Notifications in the store, seen from beside, once there are `count`.
    pub fn wait_for(&self, count: u64) -> Store {
        let until = Instant::now() + PATIENCE;
        loop {
            let store = Store::open_beside(&self.store).unwrap();
            let stored = store.notification_count().unwrap();
            if stored >= count {
                return store;
            }
            assert!(Instant::now() < until, "{stored} of {count} notifications are stored");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A configuration file with mode 0600.
pub fn config(folder: &Path, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("ringtap.toml");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

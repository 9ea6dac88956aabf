//! A station under test, as a process of its own; net-snmp's programs; what the station said.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_snmp::encode::{Item, Trap};
use ringtap_station::store::Store;
use ringtap_testbed::{Host, RunningProgram};
use serde_json::Value;

/// The binary under test.
pub const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// Longest a program may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Port numbers that no other test of this process uses.
pub fn port() -> u16 {
    // Bound and let go: the kernel gives another one to the next who asks.
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The interface of [`link_down`].
pub const IF_INDEX: [u32; 11] = [1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 3];

/// linkDown of interface 3.
pub fn link_down() -> Trap {
    Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1).with(&IF_INDEX, Item::Integer(3))
}

/// Sends a trap of v2c.
pub fn send(trap: &Trap, to: &str) {
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&trap.v2c(b"public", 1), to).unwrap();
}

const MIB: &str = r#"
EXAMPLE-MIB DEFINITIONS ::= BEGIN
IMPORTS MODULE-IDENTITY, OBJECT-TYPE, NOTIFICATION-TYPE, enterprises FROM SNMPv2-SMI;
exampleMIB MODULE-IDENTITY LAST-UPDATED "202601010000Z" ORGANIZATION "x" CONTACT-INFO "x" DESCRIPTION "x"
    ::= { enterprises 99999 }
exampleColour OBJECT-TYPE SYNTAX INTEGER { red(1), green(2) } MAX-ACCESS read-only STATUS current DESCRIPTION "x"
    ::= { exampleMIB 1 }
exampleOther NOTIFICATION-TYPE STATUS current DESCRIPTION "x" ::= { exampleMIB 0 2 }
exampleEvent NOTIFICATION-TYPE OBJECTS { exampleColour } STATUS current DESCRIPTION "x" ::= { exampleMIB 0 1 }
END
"#;

/// A directory with a MIB file, below `folder`: exampleEvent is 1.3.6.1.4.1.99999.0.1, exampleOther the next one.
pub fn mibs(folder: &Path) -> String {
    let mibs = folder.join("mibs");
    std::fs::create_dir(&mibs).unwrap();
    std::fs::write(mibs.join("EXAMPLE-MIB.txt"), MIB).unwrap();
    mibs.to_str().unwrap().to_owned()
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

/// Returns when the station receives: its threads are there when all is set up.
fn wait_until_ready(pid: u32) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
        if names.any(|name| name.trim() == "ringtap-station") {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the station does not come up");
}

/// A station on a host of the testbed, once it receives.
pub fn start_on(host: &Host, store: &Path, arguments: &[&str]) -> RunningProgram {
    let mut command = host.command(RINGTAP);
    command.args(["trap", "--json", "--store"]).arg(store).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut station = host.start(command).unwrap();
    wait_until_ready(station.child().id());
    station
}

/// Runs a shell's lines on a host of the testbed to their end.
pub fn sh(host: &Host, script: &str) {
    let mut command = host.command("sh");
    command.args(["-ec", script]);
    let ended = host.start(command).unwrap().child().wait().unwrap();
    assert!(ended.success(), "{script}: {ended}");
}

/// Returns when a station of [`start_on`] has said `text` on its standard error.
pub fn wait_until_it_says(station: &mut RunningProgram, text: &str) {
    let errors = station.child().stderr.as_mut().unwrap();
    let (until, mut said, mut bytes) = (Instant::now() + PATIENCE, String::new(), [0; 4096]);
    while !said.contains(text) {
        let left = PollTimeout::try_from(until.saturating_duration_since(Instant::now())).unwrap();
        let came = poll(&mut [PollFd::new(errors.as_fd(), PollFlags::POLLIN)], left).unwrap();
        let length = if came == 0 { 0 } else { errors.read(&mut bytes).unwrap() };
        assert!(length > 0, "it never says {text:?}: {said}");
        said += &String::from_utf8_lossy(&bytes[..length]);
    }
}

/// Returns when what goes out by an interface of the host's is not dropped any more: link state is heard of a moment after it changed.
pub fn wait_until_up(host: &Host, interface: &str) {
    let is_up = format!("ip link show dev {interface} | grep -q 'state UP'");
    sh(host, &format!("for i in $(seq 1500); do {is_up} && exit 0; sleep 0.02; done; exit 1"));
}

/// Notifications in `store`, seen from beside, once there are `count`.
pub fn wait_until_stored(store: &Path, count: u64) -> Store {
    let until = Instant::now() + PATIENCE;
    loop {
        let beside = Store::open_beside(store).unwrap();
        let stored = beside.notification_count().unwrap();
        if stored >= count {
            return beside;
        }
        assert!(Instant::now() < until, "{stored} of {count} notifications are stored");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How a station ended.
pub struct Ended {
    pub succeeded: bool,
    /// Its objects, the last one its account.
    pub said: Vec<Value>,
    pub errors: String,
}

/// Ends a station of [`start_on`] by SIGINT, however that goes.
pub fn end_anyhow(mut station: RunningProgram) -> Ended {
    let child = station.child();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let (mut stdout, mut errors) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    let succeeded = child.wait().unwrap().success();
    let said =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect();
    Ended { succeeded, said, errors }
}

/// Ends a station of [`start_on`] well; its last object.
pub fn end(station: RunningProgram) -> Value {
    let mut ended = end_anyhow(station);
    assert!(ended.succeeded, "{}", ended.errors);
    ended.said.pop().unwrap_or_else(|| panic!("it said nothing: {}", ended.errors))
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
        wait_until_ready(child.id());
        Self { child: Some(child), store: store.to_owned() }
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

    /// Ends it by SIGINT, well; its last object.
    pub fn end(self) -> Value {
        let mut ended = self.end_anyhow();
        assert!(ended.succeeded, "{}", ended.errors);
        ended.said.pop().unwrap_or_else(|| panic!("it said nothing; {}", ended.errors))
    }

    /// Ends it by SIGINT.
    pub fn end_anyhow(mut self) -> Ended {
        let mut child = self.child.take().unwrap();
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        let lines: Vec<String> =
            BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap()).collect();
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        let succeeded = child.wait().unwrap().success();
        let said = lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")));
        Ended { succeeded, said: said.collect(), errors }
    }

    /// As [`wait_until_stored`].
    pub fn wait_for(&self, count: u64) -> Store {
        wait_until_stored(&self.store, count)
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

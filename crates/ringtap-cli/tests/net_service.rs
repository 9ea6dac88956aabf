//! What each program says to a service manager (sd_notify(3)): ready, alive at the watchdog's interval, ending.

mod capture_support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use capture_support::{RINGTAP, testbed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_testbed::{Host, RunningProgram, TestbedConfig};

const PATIENCE: Duration = Duration::from_secs(60);
/// What the watchdog grants.
const LIMIT: Duration = Duration::from_millis(600);
/// What is waited for, as often: three intervals.
const SIGNS: u32 = 3;

/// The manager's end: a socket that anybody may send to, as systemd's is.
struct Manager {
    folder: tempfile::TempDir,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        open(folder.path(), 0o777);
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        open(&path, 0o777);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { folder, socket }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The next thing that is said.
    fn said(&self) -> String {
        let mut bytes = [0; 256];
        let length = self.socket.recv(&mut bytes).expect("the program says something");
        String::from_utf8(bytes[..length].to_vec()).unwrap().trim_end().to_owned()
    }

    fn command(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).env("NOTIFY_SOCKET", self.path("notify"));
        command.env("WATCHDOG_USEC", LIMIT.as_micros().to_string()).env_remove("WATCHDOG_PID");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Holds a program that was started at `began` to the protocol, and ends it.
    fn hold(&self, program: u32, began: Instant, ends: impl FnOnce()) {
        assert_eq!(self.said(), "READY=1");
        for sign in 1..=SIGNS {
            assert_eq!(self.said(), "WATCHDOG=1", "sign of life {sign}");
            assert!(began.elapsed() >= LIMIT / 2 * sign, "sooner than half of what is granted, again and again");
        }
        kill(Pid::from_raw(program as i32), Signal::SIGTERM).unwrap();
        let last = std::iter::repeat_with(|| self.said()).find(|said| said != "WATCHDOG=1");
        assert_eq!(last.as_deref(), Some("STOPPING=1"));
        ends();
        self.socket.set_nonblocking(true).unwrap();
        assert!(self.socket.recv(&mut [0; 256]).is_err(), "nothing is said after the end");
    }

    /// The same of a program here.
    fn hold_here(&self, arguments: &[&str]) {
        let began = Instant::now();
        let mut child = self.command(Command::new(RINGTAP), arguments).spawn().unwrap();
        self.hold(child.id(), began, || assert!(child.wait().unwrap().success()));
    }

    /// The same of a program on a host of the testbed.
    fn hold_on(&self, host: &Host, arguments: &[&str]) {
        let began = Instant::now();
        let mut program: RunningProgram = host.start(self.command(host.command(RINGTAP), arguments)).unwrap();
        self.hold(program.child().id(), began, || assert!(program.child().wait().unwrap().success()));
    }
}

#[test]
fn net_service_capture_says_that_it_is_ready_alive_and_ending() {
    let testbed = testbed("net_service_capture_says_that_it_is_ready_alive_and_ending", TestbedConfig::default());
    let host = testbed.receiver();
    // Also as another user, without privileges.
    let wait = ["--wait", "interrupt", "--backend", "packet", "--user", "nobody"];
    Manager::new().hold_on(host, &[&["capture", "-i", host.interface()][..], &wait].concat());
}

/// Its own correlator is no service of its own: ready is said once.
#[test]
fn net_service_sensor_says_that_it_is_ready_alive_and_ending() {
    let testbed = testbed("net_service_sensor_says_that_it_is_ready_alive_and_ending", TestbedConfig::default());
    let host = testbed.receiver();
    let manager = Manager::new();
    let rules = manager.file("my.rules", "alert udp any any -> any any (content:\"EVIL\"; sid:77;)\n");
    let eve = manager.path("eve.json");
    let correlations = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/correlation");
    let input = ["-i", host.interface(), "--backend", "packet", "--flows", "4096", "-S", &rules];
    let output = ["--eve", eve.to_str().unwrap(), "--correlate", correlations];
    manager.hold_on(host, &[&["sensor"][..], &input, &output].concat());
}

#[test]
fn service_station_says_that_it_is_ready_alive_and_ending() {
    let manager = Manager::new();
    let store = manager.path("store");
    manager.hold_here(&["trap", "--listen", "127.0.0.1:0", "--store", store.to_str().unwrap()]);
}

#[test]
fn service_correlator_says_that_it_is_ready_alive_and_ending() {
    let manager = Manager::new();
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/correlation");
    let [socket, store] = ["eve.sock", "store"].map(|name| manager.path(name).to_str().unwrap().to_owned());
    manager.hold_here(&["correlate", "--rules", rules, "--listen", &socket, "--store", &store]);
}

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

    /// Holds a program that was started at `began` to the protocol, and ends it. `reads`: its start asks for more time while it reads.
    fn hold(&self, program: u32, began: Instant, reads: bool, ends: impl FnOnce()) {
        let mut first = self.said();
        assert_eq!(first == "EXTEND_TIMEOUT_USEC=120000000", reads, "{first}");
        while first.starts_with("EXTEND_TIMEOUT_USEC=") {
            first = self.said();
        }
        assert_eq!(first, "READY=1");
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
        self.socket.set_nonblocking(false).unwrap();
    }

    /// The same of a program here.
    fn hold_here(&self, arguments: &[&str], reads: bool) {
        let began = Instant::now();
        let mut child = self.command(Command::new(RINGTAP), arguments).spawn().unwrap();
        self.hold(child.id(), began, reads, || assert!(child.wait().unwrap().success()));
    }

    /// The same of a program on a host of the testbed.
    fn hold_on(&self, host: &Host, arguments: &[&str], reads: bool) {
        let began = Instant::now();
        let mut program: RunningProgram = host.start(self.command(host.command(RINGTAP), arguments)).unwrap();
        self.hold(program.child().id(), began, reads, || assert!(program.child().wait().unwrap().success()));
    }
}

#[test]
fn net_service_capture_says_that_it_is_ready_alive_and_ending() {
    let testbed = testbed("net_service_capture_says_that_it_is_ready_alive_and_ending", TestbedConfig::default());
    let host = testbed.receiver();
    // Also as another user, without privileges.
    let wait = ["--wait", "interrupt", "--backend", "packet", "--user", "nobody"];
    Manager::new().hold_on(host, &[&["capture", "-i", host.interface()][..], &wait].concat(), false);
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
    manager.hold_on(host, &[&["sensor"][..], &input, &output].concat(), true);
}

#[test]
fn service_station_says_that_it_is_ready_alive_and_ending() {
    let manager = Manager::new();
    let store = manager.path("store");
    manager.hold_here(&["trap", "--listen", "127.0.0.1:0", "--store", store.to_str().unwrap()], false);
}

#[test]
fn service_correlator_says_that_it_is_ready_alive_and_ending() {
    let manager = Manager::new();
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/correlation");
    let [socket, store] = ["eve.sock", "store"].map(|name| manager.path(name).to_str().unwrap().to_owned());
    let arguments = ["correlate", "--rules", rules, "--listen", &socket, "--store", &store];
    manager.hold_here(&arguments, false);
    // The log of before is read first.
    let alert = r#"{"timestamp":"2026-01-01T00:00:00.000000+0000","event_type":"alert","src_ip":"192.0.2.1","src_port":1,
        "dest_ip":"192.0.2.2","dest_port":2,"proto":"TCP","alert":{"gid":1,"signature_id":1,"rev":1,"signature":"x","severity":1}}"#;
    let events = manager.file("eve.json", &format!("{}\n", alert.replace('\n', "")));
    let read = ["correlate", "--rules", rules, "--read", &events, "--store", &store];
    assert!(Command::new(RINGTAP).args(read).output().unwrap().status.success());
    manager.hold_here(&arguments, true);
}

//! What `ringtap sensor` tells of a run is the same whether packets come from an interface or from a file.

mod capture_support;
mod sensor_support;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capture_support::frames::{ipv4, udp};
use capture_support::{Capture, RINGTAP, send_frames, testbed};
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use ringtap_testbed::{Testbed, TestbedConfig};
use serde_json::Value;

const ATTACKS: usize = 40;
/// How long rules are held back, and events not read.
const HOLD: Duration = Duration::from_millis(500);

/// A sensor under observation.
struct Watched {
    sensor: Capture,
    began: Instant,
    /// Takes its events, once its engines have ended and some time has passed.
    reader: JoinHandle<()>,
}

/// A sensor whose rules come late, whose events nobody takes while engines run, and which may not change its groups, so that the
/// sandbox has something to say.
fn watched(testbed: &Testbed, folder: &Path, arguments: &[&str]) -> Watched {
    const RULES: &str = r#"alert udp any any -> any 9999 (content:"EVIL-000-"; sid:1;)
alert udp any any -> any 9999 (content:"EVIL"; pcre:"/EVIL-0[0-9]4-/"; sid:2;)
alert udp any any -> any any (dsize:>1; sid:3;)
"#;
    let [rules, eve] = ["rules", "eve"].map(|name| folder.join(format!("{}.{name}", arguments[0])));
    for pipe in [&rules, &eve] {
        nix::unistd::mkfifo(pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    }
    let began = Instant::now();
    let mut command: Command = testbed.receiver().command("setpriv");
    command.args(["--bounding-set", "-setgid", "--inh-caps", "-setgid", RINGTAP, "sensor", "--json", "--profile"]);
    command.args(["--no-checksums", "--flows", "4096", "--events", "alert", "-S"]).arg(&rules);
    command.arg("--eve").arg(&eve).args(arguments);
    let sensor = Capture::of(testbed.receiver(), command);
    // Opened when the sensor reads it.
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&rules).unwrap();
    std::thread::sleep(HOLD);
    pipe.write_all(RULES.as_bytes()).unwrap();
    let id = sensor.id();
    let reader = std::thread::spawn(move || {
        let mut events = std::fs::File::open(eve).unwrap();
        // Less than the sensor has to say.
        fcntl(&events, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
        poll(&mut [PollFd::new(events.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        while threads(id).any(|name| name.starts_with("ringtap-engine") || name.starts_with("ringtap-rx")) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(HOLD);
        let mut text = String::new();
        events.read_to_string(&mut text).unwrap();
    });
    Watched { sensor, began, reader }
}

impl Watched {
    /// Waits for the end: how many engines there were, and of each rule its number, checks, matches and steps.
    fn end(self) -> (usize, Vec<[u64; 4]>) {
        let ended = self.sensor.end();
        let lasted = self.began.elapsed().as_secs_f64();
        self.reader.join().unwrap();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let summary = ended.summary();
        let of_sandbox = |text: &str| text.contains("supplementary groups stay");
        assert!(ended.stderr.lines().any(of_sandbox), "{}", ended.stderr);
        let warnings = summary["warnings"].as_array().unwrap();
        assert_eq!(warnings.iter().filter(|warning| of_sandbox(warning.as_str().unwrap())).count(), 1, "{summary}");
        // From the engines' start to their end: without the time that rules took, nor what outputs take after it.
        let elapsed = summary["elapsed_s"].as_f64().unwrap();
        assert!(elapsed > 0.0 && elapsed + 1.5 * HOLD.as_secs_f64() <= lasted, "{lasted}: {summary}");
        let cost = |cost: &Value| ["sid", "checks", "matches", "steps"].map(|name| cost[name].as_u64().unwrap());
        let mut costs: Vec<[u64; 4]> = summary["profile"].as_array().unwrap().iter().map(cost).collect();
        costs.sort_unstable();
        let engines = summary["engines"].as_array().unwrap();
        assert!(engines.iter().all(|engine| engine["decoder"]["pkts"].as_u64().unwrap() > 0), "{summary}");
        (engines.len(), costs)
    }
}

/// Names of a process's threads.
fn threads(id: u32) -> impl Iterator<Item = String> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
}

/// What a run tells of the sandbox, of its time and of its rules: on two queues of an interface, and over a file of the same packets.
#[test]
fn net_sensor_tells_of_a_file_what_it_tells_of_an_interface() {
    const TEST: &str = "net_sensor_tells_of_a_file_what_it_tells_of_an_interface";
    let testbed = testbed(TEST, TestbedConfig::default());
    testbed.enable_receiver_napi().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let attack = |number: usize| {
        let payload = format!("....EVIL-{:03}-....", number * 4);
        // The pair of addresses decides which engine has a packet.
        ipv4(17, [198, 51, 100, number as u8], [203, 0, 113, 9], 0, &udp(5000, 9999, payload.as_bytes()))
    };
    let attacks: Vec<Vec<u8>> = (0..ATTACKS).map(attack).collect();
    let capture = folder.path().join("in.pcap");
    sensor_support::pcap(&capture, &attacks);
    let interface = testbed.receiver().interface();
    let mut live = watched(&testbed, folder.path(), &["-i", interface, "--backend", "packet", "--queues", "2"]);
    live.sensor.wait_for("watching");
    send_frames(&testbed, &attacks);
    std::thread::sleep(Duration::from_millis(300));
    live.sensor.signal(Signal::SIGINT);
    let live = live.end();
    let replay = watched(&testbed, folder.path(), &["--replay", capture.to_str().unwrap()]).end();
    assert_eq!((live.0, replay.0), (2, 1));
    assert_eq!(live.1, replay.1, "all engines together");
    let matches: Vec<[u64; 2]> = live.1.iter().map(|&[sid, _, matches, _]| [sid, matches]).collect();
    // Of the numbers sent, which are multiples of four below 160: 4, 24, 44, 64 and 84 for the expression.
    assert_eq!(matches, [[1, 1], [2, 5], [3, ATTACKS as u64]]);
}

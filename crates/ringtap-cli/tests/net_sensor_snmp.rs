//! The sensor's SNMP notifications, taken by net-snmp's snmptrapd over loopback: v2c and v3, traps and informs.

mod capture_support;
mod sensor_support;

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use capture_support::frames::{ipv4, udp};
use sensor_support::{RINGTAP, pcap};
use serde_json::Value;

const ALARMS: usize = 7;
const ENGINE: &str = "0x8000000004746573746572";
const USER: &str = r#"name = "sensor", auth = "SHA-256", auth-password = "authentic1""#;

/// net-snmp's receiver, ended with the test.
struct Station(Child);

impl Drop for Station {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Station {
    fn start(test: &str, folder: &Path, port: u16) -> Self {
        let config = folder.join("snmptrapd.conf");
        let user = "SHA-256 authentic1 AES secretive1";
        let text = format!(
            "authCommunity log public\ncreateUser -e {ENGINE} sensor {user}\ncreateUser sensor {user}\nauthUser log sensor priv\n"
        );
        std::fs::write(&config, text).unwrap();
        let log = folder.join("log");
        let child = Command::new("snmptrapd")
            .args(["-f", "-On", "-C", "-c"])
            .arg(&config)
            .arg("-Lf")
            .arg(&log)
            .arg(format!("udp:127.0.0.1:{port}"))
            // It would write its own state into /var/lib/snmp.
            .env("SNMP_PERSISTENT_DIR", folder.join("state"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("did not run: {test}: snmptrapd: {error}"));
        let this = Self(child);
        let until = Instant::now() + Duration::from_secs(20);
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("NET-SNMP version")) {
            assert!(Instant::now() < until, "snmptrapd does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        this
    }

    /// Notifications in its log, once there are `count`.
    fn wait_for(folder: &Path, count: usize) -> String {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let text = std::fs::read_to_string(folder.join("log")).unwrap();
            if text.matches("1.3.6.1.4.1.32473.2.0.1").count() >= count {
                return text;
            }
            assert!(Instant::now() < until, "not {count} notifications: {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn port() -> u16 {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Replays the attacks with this `[snmp]` table; the summary.
fn run(folder: &Path, snmp: &str) -> Value {
    let (capture, rules, config) = (folder.join("in.pcap"), folder.join("my.rules"), folder.join("ringtap.toml"));
    let attack = ipv4(17, [198, 51, 100, 7], [203, 0, 113, 9], 0, &udp(5000, 9999, b"..EVIL.."));
    pcap(&capture, &vec![attack; ALARMS]);
    let mut text = String::new();
    writeln!(text, r#"alert udp any any -> any any (msg:"evil \"words\""; content:"EVIL"; sid:4242; rev:3;)"#).unwrap();
    std::fs::write(&rules, text).unwrap();
    private(&config, &format!("[snmp]\n{snmp}"));
    let output = Command::new(RINGTAP)
        .args(["sensor", "--json", "--no-checksums", "--replay"])
        .arg(&capture)
        .arg("-S")
        .arg(&rules)
        .arg("--config")
        .arg(&config)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!errors.contains("authentic1") && !errors.contains("secretive1"), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

#[test]
fn net_sensor_notifies_by_every_version_and_kind() {
    const TEST: &str = "net_sensor_notifies_by_every_version_and_kind";
    let folder = tempfile::tempdir().unwrap();
    let port = port();
    let _station = Station::start(TEST, folder.path(), port);
    let to = format!("to = \"127.0.0.1:{port}\"\n");
    let user = format!("user = {{ {USER}, privacy = \"AES\", privacy-password = \"secretive1\" }}\n");
    let tables = [
        "community = \"public\"\n".to_owned(),
        "community = \"public\"\ninform = true\n".to_owned(),
        format!("engine-id = \"{ENGINE}\"\n{user}"),
        format!("inform = true\n{user}"),
    ];
    for (number, table) in tables.iter().enumerate() {
        let summary = run(folder.path(), &format!("{to}{table}"));
        let outputs = &summary["outputs"];
        assert_eq!((&outputs["written"], &outputs["failed"]), (&ALARMS.into(), &0.into()), "{table}: {summary}");
        let log = Station::wait_for(folder.path(), (number + 1) * ALARMS);
        assert_eq!(log.matches("= Gauge32: 4242").count(), (number + 1) * ALARMS, "{table}: {log}");
        assert_eq!(summary["records"]["unaccounted"], 0, "{summary}");
    }
    let log = Station::wait_for(folder.path(), 4 * ALARMS);
    assert!(log.contains("\"198.51.100.7\"") && log.contains("= Gauge32: 9999"), "{log}");
}

#[test]
fn net_sensor_counts_notifications_that_nobody_takes() {
    const TEST: &str = "net_sensor_counts_notifications_that_nobody_takes";
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens there.
    let to = format!("to = \"127.0.0.1:{}\"\ninform = true\n", port());
    for table in ["community = \"public\"\n".to_owned(), format!("user = {{ {USER} }}\n")] {
        let summary = run(folder.path(), &format!("{to}{table}"));
        let outputs = &summary["outputs"];
        assert_eq!((&outputs["written"], &outputs["failed"]), (&0.into(), &ALARMS.into()), "{table}: {summary}");
    }
    // A wrong password: the station is there, and takes nothing.
    let port = port();
    let _station = Station::start(TEST, folder.path(), port);
    let user = USER.replace("authentic1", "another one");
    let privacy = "privacy = \"AES\", privacy-password = \"secretive1\"";
    let table = format!("to = \"127.0.0.1:{port}\"\ninform = true\nuser = {{ {user}, {privacy} }}\n");
    assert_eq!(run(folder.path(), &table)["outputs"]["failed"], ALARMS);
}

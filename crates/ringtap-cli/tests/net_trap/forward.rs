//! Notifications sent on to net-snmp's snmptrapd: each version as it came, chosen, translated, with the sender's address.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringtap_snmp::encode::Trap;

use crate::support::{PATIENCE, RINGTAP, Station, config, link_down, port, run, send};

const ENGINE: &str = "0x8000000004746573746572";

/// net-snmp's receiver, ended with the test.
struct Manager {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Manager {
    fn start(test: &str, folder: &Path, name: &str) -> Self {
        let (config, log, port) = (folder.join(format!("{name}.conf")), folder.join(format!("{name}.log")), port());
        let user = "alice SHA authentic1 AES secretive1";
        let text = format!(
            "authCommunity log public\ncreateUser -e {ENGINE} {user}\nauthUser log alice priv\n\
             format1 v1 from %b agent %A oid %N %w %q vars %v\\n\nformat2 v2 from %b vars %v\\n\n"
        );
        std::fs::write(&config, text).unwrap();
        let child = Command::new("snmptrapd")
            .args(["-f", "-On", "-C", "-n", "-c"])
            .arg(&config)
            .arg("-Lf")
            .arg(&log)
            .arg(format!("udp:127.0.0.1:{port}"))
            .env("SNMP_PERSISTENT_DIR", folder.join(format!("{name}.state")))
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("did not run: {test}: snmptrapd: {error}"));
        let this = Self { child, log, port };
        let until = Instant::now() + PATIENCE;
        while !this.text().contains("NET-SNMP version") {
            assert!(Instant::now() < until, "snmptrapd does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        this
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its lines about notifications, once there are `count`.
    fn heard(&self, count: usize) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self.text();
            let lines: Vec<String> = text.lines().filter(|line| line.contains(" from ")).map(str::to_owned).collect();
            if lines.len() >= count {
                return lines;
            }
            assert!(Instant::now() < until, "not {count} notifications: {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// An authenticated and encrypted trap by net-snmp.
fn snmptrap_v3(test: &str, to: &str) {
    let security = "-v3 -l authPriv -u alice -a SHA -A authentic1 -x AES -X secretive1 -e";
    let arguments: Vec<&str> = security.split(' ').chain([ENGINE, to, "1", "1.3.6.1.6.3.1.1.5.4"]).collect();
    let output = run(test, "snmptrap", &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn send_v1(agent: [u8; 4], to: &str) {
    let bytes = link_down().as_v1(b"public", Ipv4Addr::from(agent));
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&bytes, to).unwrap();
}

#[test]
fn net_trap_forwards_each_version_as_it_came_to_a_real_manager() {
    const TEST: &str = "net_trap_forwards_each_version_as_it_came_to_a_real_manager";
    let folder = tempfile::tempdir().unwrap();
    let (all, some) = (Manager::start(TEST, folder.path(), "all"), Manager::start(TEST, folder.path(), "some"));
    let user = "[[trap.user]]\nname = \"alice\"\nauth = \"SHA\"\nauth-password = \"authentic1\"\nprivacy = \"AES\"\n\
                privacy-password = \"secretive1\"\n";
    let text = format!(
        "[trap]\nv1-v2c = true\n{user}[[trap.forward]]\nto = \"127.0.0.1:{}\"\nversions = [\"v1\"]\nas-v2c = true\n\
         notifications = [\"1.3.6.1.6.3.1.1.5\"]\n",
        some.port
    );
    let config = config(folder.path(), &text);
    let address = format!("127.0.0.1:{}", port());
    let to = format!("127.0.0.1:{}", all.port);
    let arguments = ["--listen", &address, "--config", &config, "--forward-to", &to];
    let station = Station::start(&folder.path().join("store"), &arguments);
    send_v1([192, 0, 2, 7], &address);
    send(&link_down(), &address);
    snmptrap_v3(TEST, &address);
    // Not of those that are chosen.
    let other = Trap::new(&[1, 3, 6, 1, 4, 1, 99999, 0, 1], 1).as_v1(b"public", Ipv4Addr::new(192, 0, 2, 8));
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&other, &address).unwrap();
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"junk", &address).unwrap();
    drop(station.wait_for(4));
    let heard = all.heard(4);
    let of = |what: &str| heard.iter().filter(|line| line.contains(what)).count();
    assert_eq!((of("v1 from "), of("v2 from ")), (2, 2), "{heard:?}");
    assert!(of("agent 192.0.2.7") == 1 && of(".1.3.6.1.6.3.1.1.5.4") == 1, "{heard:?}");
    let translated = some.heard(1).remove(0);
    for part in [
        "v2 from ",
        ".1.3.6.1.6.3.1.1.4.1.0 = OID: .1.3.6.1.6.3.1.1.5.3",
        ".1.3.6.1.2.1.2.2.1.1.3 = INTEGER: 3",
        ".1.3.6.1.6.3.18.1.3.0 = IpAddress: 192.0.2.7",
        ".1.3.6.1.6.3.18.1.4.0 = STRING: \"public\"",
    ] {
        assert!(translated.contains(part), "{part} in {translated}");
    }
    let object = station.end();
    let sent = |port: u16| {
        let forwards = object["forwards"].as_array().unwrap();
        let it = forwards.iter().find(|it| it["to"] == format!("127.0.0.1:{port}")).unwrap();
        (it["sent"].as_u64().unwrap(), it["failed"].as_u64().unwrap())
    };
    assert_eq!(
        (sent(all.port), sent(some.port), object["forward_lost"].clone()),
        ((4, 0), (1, 0), 0.into()),
        "{object}"
    );
    assert_eq!(some.heard(1).len(), 1, "nothing else");
}

#[test]
fn net_trap_forwards_with_the_senders_address_as_the_source() {
    const TEST: &str = "net_trap_forwards_with_the_senders_address_as_the_source";
    assert!(nix::unistd::geteuid().is_root(), "did not run: {TEST}: it needs root");
    let folder = tempfile::tempdir().unwrap();
    let manager = Manager::start(TEST, folder.path(), "manager");
    let text = format!("[[trap.forward]]\nto = \"127.0.0.1:{}\"\nkeep-source = true\n", manager.port);
    let config = config(folder.path(), &text);
    let address = format!("127.0.0.1:{}", port());
    // Its privileges are gone by then.
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &config]);
    let device = UdpSocket::bind("127.0.0.77:0").unwrap();
    device.send_to(&link_down().v2c(b"public", 1), &address).unwrap();
    let heard = manager.heard(1).remove(0);
    let from = format!("[127.0.0.77]:{}->", device.local_addr().unwrap().port());
    assert!(heard.contains(&from), "{from} in {heard}");
    assert_eq!(station.end()["forwards"][0]["sent"], 1);
}

#[test]
fn net_trap_takes_all_in_though_a_manager_is_gone_and_forwards_nothing_to_itself() {
    const TEST: &str = "net_trap_takes_all_in_though_a_manager_is_gone_and_forwards_nothing_to_itself";
    const COUNT: u64 = 500;
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", port());
    let (gone, nowhere) = (format!("127.0.0.1:{}", port()), "[2001:db8::9]:162");
    let arguments = ["--listen", &address, "--forward-to", &gone, "--forward-to", nowhere];
    let store = folder.path().join("store");
    let station = Station::start(&store, &arguments);
    (0..COUNT).for_each(|_| send(&link_down(), &address));
    drop(station.wait_for(COUNT));
    let object = station.end();
    assert_eq!((&object["stored"], &object["unaccounted"]), (&COUNT.into(), &0.into()), "{object}");
    for each in object["forwards"].as_array().unwrap() {
        let of = |name: &str| each[name].as_u64().unwrap();
        assert_eq!(of("sent") + of("failed"), COUNT, "{object}");
    }
    let output = run(
        TEST,
        RINGTAP,
        &["trap", "--listen", &address, "--store", store.to_str().unwrap(), "--forward-to", &address],
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("that is this station"), "{said}");
}

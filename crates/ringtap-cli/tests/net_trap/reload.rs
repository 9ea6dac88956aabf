//! SIGHUP: users, communities, senders and rules are read again beside what comes in.

use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ringtap_snmp::encode::{Item, Trap};

use crate::support::{IF_INDEX, PATIENCE, Station, config, link_down, port, run};

const EXAMPLE: [u32; 9] = [1, 3, 6, 1, 4, 1, 99999, 0, 1];

fn user(name: &str) -> String {
    format!("[[trap.user]]\nname = \"{name}\"\nauth = \"SHA\"\nauth-password = \"password of {name}\"\n")
}

fn rule(condition: &str) -> String {
    format!(
        "[[trap.rule]]\nnotification = \"1.3.6.1.4.1.99999.0.1\"\ncondition = \"{condition}\"\neffect = \"raise\"\nseverity = \"minor\"\n"
    )
}

fn hang_up(station: &Station) {
    kill(Pid::from_raw(station.pid() as i32), Signal::SIGHUP).unwrap();
}

/// An authenticated trap by net-snmp.
fn snmptrap(test: &str, name: &str, to: &str) {
    let password = format!("password of {name}");
    let engine = format!("0x8000000001{}", name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>());
    let arguments = ["-v3", "-l", "authNoPriv", "-u", name, "-a", "SHA", "-A", &password, "-e", &engine];
    let output = run(test, "snmptrap", &[&arguments[..], &[to, "1", "1.3.6.1.6.3.1.1.5.3"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The conditions of all alarms.
fn conditions(station: &Station) -> Vec<String> {
    let store = ringtap_station::store::Store::open_beside(&station.store).unwrap();
    store.alarms().unwrap().into_iter().map(|alarm| alarm.key.condition).collect()
}

/// Sends the example's trap until there is an alarm with this condition.
fn send_until(station: &Station, to: &str, condition: &str) {
    let until = Instant::now() + PATIENCE;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    while !conditions(station).iter().any(|there| there == condition) {
        assert!(Instant::now() < until, "{condition} never comes");
        socket.send_to(&Trap::new(&EXAMPLE, 1).v2c(b"new", 1), to).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn net_trap_reads_users_communities_and_rules_again_and_keeps_the_old_ones_when_they_are_broken() {
    const TEST: &str = "net_trap_reads_users_communities_and_rules_again_and_keeps_the_old_ones_when_they_are_broken";
    let folder = tempfile::tempdir().unwrap();
    let communities = |name: &str| format!("[trap]\ncommunities = [\"{name}\"]\n");
    let file = config(folder.path(), &(communities("old") + &user("alice") + &rule("first")));
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &file]);
    snmptrap(TEST, "alice", &address);
    drop(station.wait_for(1));
    config(folder.path(), &(communities("new") + &user("bob") + &rule("second")));
    hang_up(&station);
    send_until(&station, &address, "second");
    let before = station.wait_for(1).notification_count().unwrap();
    snmptrap(TEST, "alice", &address);
    snmptrap(TEST, "bob", &address);
    drop(station.wait_for(before + 1));
    // Broken in three ways; none of them takes effect, and each is told.
    for text in ["[trap]\nbogus = 1\n", "[[trap.user]]\nname = \"eve\"\nauth = \"SHA\"\nauth-password = \"short\"\n"] {
        config(folder.path(), text);
        hang_up(&station);
        std::thread::sleep(Duration::from_millis(300));
    }
    let path = Path::new(&file);
    std::fs::remove_file(path).unwrap();
    hang_up(&station);
    std::thread::sleep(Duration::from_millis(300));
    snmptrap(TEST, "bob", &address);
    drop(station.wait_for(before + 2));
    // What is read at the start alone is told, too.
    config(
        folder.path(),
        &(communities("new") + "max-alarms = 5\n[trap.webhook]\nurl = \"http://127.0.0.1:9/\"\n" + &rule("third")),
    );
    hang_up(&station);
    send_until(&station, &address, "third");
    let ended = station.end_anyhow();
    assert!(ended.succeeded, "{}", ended.errors);
    let object = ended.said.last().unwrap();
    assert_eq!((&object["unaccounted"], &object["refused"]["unknown_user"]), (&0.into(), &1.into()), "{object}");
    let kept = ended.errors.lines().filter(|line| line.ends_with("; the configuration there was stays in use"));
    assert_eq!(kept.count(), 3, "{}", ended.errors);
    assert!(ended.errors.contains("what changed in max-alarms, [trap.webhook] wait for a restart"), "{}", ended.errors);
    assert!(!ended.errors.contains("short"), "no secret is told: {}", ended.errors);
}

#[test]
fn net_trap_loses_nothing_while_it_reads_its_configuration_again() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[trap]\ncommunities = [\"public\"]\n".to_owned() + &user("alice");
    let file = config(folder.path(), &text);
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &file]);
    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let (stop, address) = (Arc::clone(&stop), address.clone());
        std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut sent = 0u32;
            while !stop.load(Ordering::Relaxed) {
                let mut name = IF_INDEX;
                name[10] = sent % 100 + 1;
                let trap = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3 + (sent / 100) % 2], 1);
                let trap = trap.with(&name, Item::Integer(i64::from(sent)));
                socket.send_to(&trap.v2c(b"public", sent as i32), &address).unwrap();
                sent += 1;
                std::thread::sleep(Duration::from_micros(200));
            }
            u64::from(sent)
        })
    };
    for round in 0..20 {
        config(folder.path(), if round % 3 == 2 { "[trap]\nbogus = 1\n" } else { &text });
        hang_up(&station);
        std::thread::sleep(Duration::from_millis(60));
    }
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().unwrap();
    assert!(sent > 1000, "{sent}");
    drop(station.wait_for(sent));
    let object = station.end();
    assert_eq!((&object["stored"], &object["unaccounted"]), (&sent.into(), &0.into()), "{object}");
    assert_eq!(object["refused"], serde_json::json!({}), "{object}");
}

#[test]
fn net_trap_reads_its_configuration_again_within_its_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let file = config(folder.path(), &rule("first"));
    let address = format!("127.0.0.1:{}", port());
    let station = Station::start(&folder.path().join("store"), &["--listen", &address, "--config", &file]);
    crate::support::send(&link_down(), &address);
    drop(station.wait_for(1));
    // As editors do it: another file takes its name.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::rename(config(&other, &rule("renamed")), &file).unwrap();
    hang_up(&station);
    send_until(&station, &address, "renamed");
    assert_eq!(station.end()["unaccounted"], 0);
}

//! A station without a file descriptor left, and one whose store is broken while it runs: it goes on with all else, and says the way out.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use ringtap_station::store::Store;

use crate::support::{Ended, PATIENCE, Station, link_down, port, send};

/// Every connection is held: those that were silent longest give their places to others.
#[test]
fn net_trap_without_a_descriptor_left_takes_datagrams_and_in_time_connections() {
    const HELD: usize = 40;
    let folder = tempfile::tempdir().unwrap();
    let [snmp, tcp] = [0, 1].map(|_| format!("127.0.0.1:{}", port()));
    let station = Station::start(&folder.path().join("store"), &["--listen", &snmp, "--syslog-tcp", &tcp]);
    // A store has two files more while it is written to, and its own are open by then.
    send(&link_down(), &snmp);
    station.wait_for(1);
    let open = std::fs::read_dir(format!("/proc/{}/fd", station.pid())).unwrap().count();
    let limit = format!("--nofile={}", open + 8);
    let limited = Command::new("prlimit").args(["--pid", &station.pid().to_string(), &limit]).status().unwrap();
    assert!(limited.success());
    let mut held: Vec<TcpStream> = (0..HELD).map(|_| TcpStream::connect(&tcp).unwrap()).collect();
    for _ in 0..20 {
        send(&link_down(), &snmp);
    }
    station.wait_for(21);
    // The last one in the kernel's queue says something, and is heard though all others stay.
    held.last_mut().unwrap().write_all(b"<13>Oct 11 22:14:15 host app: heard at last\n").unwrap();
    station.wait_for(22);
    let Ended { succeeded, said, errors } = station.end_anyhow();
    assert!(succeeded, "{errors}");
    assert_eq!(errors.matches("ulimit -n").count(), 1, "said once: {errors}");
    let object = said.last().unwrap();
    let connections = &object["connections"];
    assert!(connections["not_accepted"].as_u64().unwrap() > 0, "{object}");
    assert!(connections["closed"].as_u64().unwrap() > 0, "{object}");
    assert_eq!((&object["stored"], &object["unaccounted"]), (&22.into(), &0.into()), "{object}");
}

/// SQLite never takes a broken database again: what comes waits in the spool, is lost by name at the end, and the words say what to do.
#[test]
fn net_trap_says_what_to_do_about_a_store_that_broke_while_it_ran() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let snmp = format!("127.0.0.1:{}", port());
    let station = Station::start(&store, &["--listen", &snmp]);
    for _ in 0..10 {
        send(&link_down(), &snmp);
    }
    station.wait_for(10);
    // A table whose pages are not there, which SQLite finds out as soon as it looks.
    let beside = rusqlite::Connection::open(store.join("ringtap-trap.db")).unwrap();
    let broken = "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 1000000 WHERE name = 'alarm';
        PRAGMA schema_version = 1000000;";
    beside.execute_batch(broken).unwrap();
    drop(beside);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in 0..50 {
        socket.send_to(&link_down().inform(b"public", number), &snmp).unwrap();
    }
    socket.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    assert!(socket.recv(&mut [0; 2048]).is_err(), "acknowledged by a store that is broken");
    let since = Instant::now();
    let Ended { succeeded, said, errors } = station.end_anyhow();
    assert!(!succeeded && since.elapsed() < PATIENCE, "{errors}");
    assert!(errors.contains("stop the station, move the directory away and start it again"), "{errors}");
    let object = said.last().unwrap();
    assert_eq!(object["unaccounted"], 0, "{object}");
    assert_eq!((&object["stored"], &object["ledger"]["drops"]["output_failed"]), (&10.into(), &50.into()), "{object}");
    // And so it goes on.
    std::fs::rename(&store, folder.path().join("broken")).unwrap();
    let station = Station::start(&store, &["--listen", &snmp]);
    send(&link_down(), &snmp);
    station.wait_for(1);
    assert_eq!(station.end()["stored"], 1);
    assert_eq!(Store::open(&store).unwrap().notification_count().unwrap(), 1);
}

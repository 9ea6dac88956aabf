//! Agents are asked: Net-SNMP's snmpd, by v2c and by v3 with encryption, with rows of LLDP-MIB, in a namespace of their own.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ringtap_rootcause::topology::file;
use ringtap_station::discover::{Fault, Names, Patience, discover};
use ringtap_testbed::{Host, RunningProgram, Testbed, TestbedConfig};

/// Who is asked as whom.
const NAMES: &str = "[discover]\ncommunities = [\"another\", \"hush\"]\n[[discover.user]]\nname = \"reader\"\nauth = \"SHA-256\"\n\
                     auth-password = \"authentic1\"\nprivacy = \"AES\"\nprivacy-password = \"secretive1\"\n";
const PATIENCE: Duration = Duration::from_secs(30);

/// An agent whose interface 1 (lo) leads to `other`'s.
fn agent(host: &Host, folder: &Path, (name, other): (&str, &str), port: u16, access: &str) -> RunningProgram {
    let kept = folder.join(name);
    std::fs::create_dir(&kept).unwrap();
    let rows = [
        format!("agentaddress udp:127.0.0.1:{port}"),
        format!("sysName {name}.example.net"),
        format!("persistentDir {}", kept.display()),
        access.to_owned(),
        "override .1.0.8802.1.1.2.1.3.1.0 integer 7".to_owned(),
        format!("override .1.0.8802.1.1.2.1.3.2.0 octet_str \"chassis {name}\""),
        "override .1.0.8802.1.1.2.1.4.1.1.4.0.1.1 integer 7".to_owned(),
        format!("override .1.0.8802.1.1.2.1.4.1.1.5.0.1.1 octet_str \"chassis {other}\""),
        "override .1.0.8802.1.1.2.1.4.1.1.6.0.1.1 integer 5".to_owned(),
        "override .1.0.8802.1.1.2.1.4.1.1.7.0.1.1 octet_str \"lo\"".to_owned(),
        "override .1.0.8802.1.1.2.1.4.1.1.9.0.1.1 octet_str \"far\"".to_owned(),
        "override .1.0.8802.1.1.2.1.4.2.1.3.0.1.1.1.4.192.0.2.9 integer 2".to_owned(),
    ];
    let configuration = folder.join(format!("{name}.conf"));
    std::fs::write(&configuration, rows.join("\n") + "\n").unwrap();
    let mut command = host.command("snmpd");
    command.args(["-f", "-Ln", "-C", "-c"]).arg(&configuration).args(["-I", "-smux"]);
    command.env("SNMP_PERSISTENT_DIR", &kept).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    host.start(command).unwrap_or_else(|error| panic!("{error}: install Debian's snmpd, or run scripts/setup test"))
}

#[test]
fn net_agents_tell_their_links_by_v2c_and_v3() {
    const TEST: &str = "net_agents_tell_their_links_by_v2c_and_v3";
    assert!(nix::unistd::geteuid().is_root(), "did not run: {TEST}: it needs root");
    let testbed = Testbed::new(TestbedConfig::default()).unwrap_or_else(|error| panic!("{error}"));
    let host = testbed.receiver();
    let folder = tempfile::tempdir().unwrap();
    assert!(host.command("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let user = "createUser reader SHA-256 authentic1 AES secretive1\nrouser reader priv";
    let _programs = [
        agent(host, folder.path(), ("a", "b"), 10_161, "rocommunity hush"),
        agent(host, folder.path(), ("b", "a"), 10_162, user),
        agent(host, folder.path(), ("c", "nobody"), 10_163, "rocommunity third"),
    ];
    let file = folder.path().join("ringtap.toml");
    std::fs::write(&file, NAMES).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let names = Names::read(&file).unwrap();
    // c knows neither; nothing listens at the last one.
    let agents: Vec<SocketAddr> = (10_161..=10_164).map(|port| ([127, 0, 0, 1], port).into()).collect();
    let patience = Patience { timeout: Duration::from_millis(500), retries: 1, at_once: 4 };
    let until = Instant::now() + PATIENCE;
    let (draft, mut faults) = loop {
        let faults = Mutex::new(Vec::new());
        let ask = || {
            discover(&agents, &names, patience, &|agent, told| {
                faults.lock().unwrap().extend(told.as_ref().err().map(|fault| (agent.port(), fault.clone())));
            })
        };
        let (draft, told) = host.run(ask).unwrap().unwrap();
        if told == 2 {
            break (draft, faults.into_inner().unwrap());
        }
        assert!(Instant::now() < until, "{told} agents answer: {faults:?}");
        std::thread::sleep(Duration::from_millis(200));
    };
    faults.sort_by_key(|(port, _)| *port);
    // An agent that does not know a community says nothing.
    assert!(
        matches!(&faults[..], [(10_163, Fault::Silent | Fault::Refused(_)), (10_164, Fault::Closed)]),
        "{faults:?}"
    );
    assert!(draft.notes.is_empty(), "{:?}", draft.notes);
    let topology = file::read(&draft.toml()).unwrap_or_else(|faults| panic!("{faults:?} in\n{}", draft.toml()));
    let links: Vec<String> = (0..topology.links().len() as u32).map(|at| topology.link_name(at)).collect();
    assert_eq!(links, ["a.example.net:lo-b.example.net:lo"]);
    let a = topology.find("A.example.net").unwrap_or_else(|| panic!("{}", draft.toml()));
    assert_eq!(topology.interface(a, host.interface()).map(|index| index > 1), Some(true), "{}", draft.toml());
}

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::alarm::{Origin, SecurityLevel, Shown};

fn read(text: &str, mode: u32) -> Result<Config> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    Config::read(file.path())
}

#[test]
fn faults_are_named_with_their_line_and_without_secrets() {
    let text = "[trap]\ncommunities = [\"hushhush\"]\nbogus = \"hushhush2\"\n";
    let error = read(text, 0o600).unwrap_err().to_string();
    assert!(error.contains(":3") && error.contains("bogus") && !error.contains("hushhush"), "{error}");
    let error = read("[trap]\n", 0o644).unwrap_err().to_string();
    assert!(error.contains("0644") && error.contains("chmod 600"), "{error}");
    for (text, cause) in [
        ("[trap.webhook]\nurl = \"ftp://x/t0ken\"\n", "only http:// and https://"),
        ("[trap.alertmanager]\nurl = \"x/t0ken\"\n", "only http:// and https://"),
        ("[trap.alertmanager]\nurl = \"http://x\"\nlabels = { \"a-b\" = \"c\" }\n", "no name of a label"),
        ("[trap.alertmanager]\nurl = \"http://x\"\nresend = \"1ms\"\n", "too often"),
        ("[trap.alertmanager]\nurl = \"http://x\"\nresend = \"1\"\n", ":3"),
    ] {
        let error = read(text, 0o600).unwrap_err().to_string();
        assert!(error.contains(cause) && !error.contains("t0ken"), "{error}");
    }
    let config = read("[trap]\ncommunities = [\"hushhush\"]\n[iprep]\nanything = 1\n", 0o600).unwrap();
    assert!(!format!("{config:?}").contains("hushhush"));
}

#[test]
fn who_has_users_takes_v1_and_v2c_only_when_told() {
    let user = "[[trap.user]]\nname = \"bob\"\n";
    for (text, takes) in [
        ("".to_owned(), true),
        (user.to_owned(), false),
        (format!("[trap]\nv1-v2c = true\n{user}"), true),
        (format!("[trap]\ncommunities = [\"public\"]\n{user}"), true),
        (format!("[trap]\ncommunities = [\"public\"]\nv1-v2c = false\n{user}"), false),
    ] {
        assert_eq!(read(&text, 0o600).unwrap().takes_v1_v2c(), takes, "{text}");
    }
    assert!(read("[trap]\naddress-rate = 0\n", 0o600).is_err());
}

#[test]
fn networks_are_addresses_with_a_length_or_single_ones() {
    let text = "[trap]\nsources = [\"192.0.2.0/24\", \"::ffff:10.0.0.9\"]\nknown = [\"10.0.0.1\", \"2001:db8::1\"]\n";
    let Senders { sources, known, .. } = read(text, 0o600).unwrap().senders();
    let texts = |nets: Vec<ipnet::IpNet>| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(sources), ["192.0.2.0/24", "10.0.0.9/32"]);
    assert_eq!(texts(known), ["10.0.0.1/32", "2001:db8::1/128"]);
    for (net, cause) in [
        ("10.0.0.1/8", "give 10.0.0.0/8 or 10.0.0.1"),
        ("10.0.0.0/33", "ADDRESS/BITS"),
        ("router.example", "ADDRESS/BITS"),
    ] {
        let error = read(&format!("[trap]\nmibs = []\nknown = [\"{net}\"]\n"), 0o600).unwrap_err().to_string();
        assert!(error.contains(":3") && error.contains(net) && error.contains(cause), "{error}");
    }
}

#[test]
fn what_knows_a_sender_is_known() {
    let user = "[[trap.user]]\nname = \"bob\"\n";
    for (text, knows) in [
        (String::new(), false),
        (user.to_owned(), false),
        (format!("{user}auth = \"SHA\"\nauth-password = \"long enough\"\n"), true),
        ("[trap]\nknown = [\"10.0.0.1\"]\n".to_owned(), true),
        ("[trap]\nsources = [\"10.0.0.1\"]\n".to_owned(), true),
        ("[trap]\ncommunities = [\"public\"]\n".to_owned(), true),
        ("[trap]\ncommunities = [\"public\"]\nv1-v2c = false\n".to_owned(), false),
        ("[trap.tls]\ncertificate = \"c\"\nkey = \"k\"\n".to_owned(), false),
        ("[trap.tls]\ncertificate = \"c\"\nkey = \"k\"\nclients = \"a\"\n".to_owned(), true),
    ] {
        assert_eq!(read(&text, 0o600).unwrap().knows_anyone(), knows, "{text}");
    }
}

#[test]
fn what_was_taken_before_a_restart_is_not_taken_again_after_it() {
    use crate::cause::Cause;
    use crate::spool::{Head, Service};
    use crate::store::Job;
    use ringtap_snmp::encode::Trap;
    use ringtap_snmp::message::tag;
    use ringtap_snmp::refusal::Refusal;
    use ringtap_snmp::usm::{AuthProtocol, Sealer};
    const S: u64 = 1_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let config =
        read("[[trap.user]]\nname = \"bob\"\nauth = \"SHA\"\nauth-password = \"long enough\"\n", 0o600).unwrap();
    let user = User::new("bob", Some((AuthProtocol::Sha1, "long enough")), None).unwrap();
    let trap = Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3], 1);
    let sealed = |engine: &[u8], time, salt: u64| {
        let scoped = trap.scoped(tag::V2_TRAP, engine, b"", salt as i32);
        Sealer::new(&user, engine, 4).seal(1, time, &scoped, salt).unwrap()
    };
    // An engine that was last heard long ago, and one of the last moments.
    let (long_ago, just_now) = (sealed(b"\x80long ago", 500, 1), sealed(b"\x80just now", 900, 2));
    let run = |datagrams: &[(&[u8], u64)]| {
        let mut store = Store::open(folder.path()).unwrap();
        let mut judge = config.judge(&store, &Names::default()).unwrap();
        for &(datagram, at_ns) in datagrams {
            let mut job = Job::default();
            let (source, service) = ("192.0.2.1:162".parse().unwrap(), Service::Snmp);
            let head = Head { at_ns, source, to: None, service, socket: 0 };
            judge.datagram(head, datagram, None, clock::monotonic_ns(), &mut job);
            judge.complete(&mut job);
            store.write(&job).unwrap();
        }
        let causes =
            [Refusal::Replayed, Refusal::TimeWindow].map(|cause| judge.counts().causes.read(Cause::Snmp(cause)));
        (store.notification_count().unwrap(), causes)
    };
    assert_eq!(run(&[(&long_ago, S), (&just_now, 3600 * S)]), (2, [0, 0]));
    // Behind more rows than one page has.
    let more: Vec<Vec<u8>> = (0..3000).map(|number| sealed(b"\x80third", 7, 10 + number)).collect();
    let rows: Vec<(&[u8], u64)> = more.iter().map(|datagram| (&datagram[..], 3601 * S)).collect();
    assert_eq!(run(&rows).0, 3002);
    let before = sealed(b"\x80just now", 899, 3);
    let replays: [(&[u8], u64); 4] =
        [&long_ago, &just_now, &before, &more[7]].map(|datagram| (&datagram[..], 3602 * S));
    assert_eq!(run(&replays), (3002, [3, 1]), "all that share a page with the last moments are known");
    let new = [sealed(b"\x80long ago", 501, 4), sealed(b"\x80just now", 900, 5)];
    assert_eq!(run(&[(&new[0], 3603 * S), (&new[1], 3603 * S)]), (3004, [0, 0]));
}

/// Judges datagrams by this configuration, with what the store has; the states of all alarms after them.
fn judged(folder: &Path, text: &str, datagrams: &[(&str, Vec<u8>)]) -> Vec<bool> {
    use crate::spool::{Head, Service};
    use crate::store::Job;
    let mut store = Store::open(folder).unwrap();
    let mut judge = read(text, 0o600).unwrap().judge(&store, &Names::default()).unwrap();
    for (source, datagram) in datagrams {
        let source = format!("{source}:162").parse().unwrap();
        let head = Head { at_ns: 1, source, to: None, service: Service::Snmp, socket: 0 };
        let mut job = Job::default();
        judge.datagram(head, datagram, None, clock::monotonic_ns(), &mut job);
        judge.complete(&mut job);
        store.write(&job).unwrap();
    }
    store.alarms().unwrap().iter().map(|alarm| alarm.cleared).collect()
}

fn link_trap(last: u32) -> ringtap_snmp::encode::Trap {
    use ringtap_snmp::encode::{Item, Trap};
    Trap::new(&[1, 3, 6, 1, 6, 3, 1, 1, 5, last], 1).with(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1, 3], Item::Integer(3))
}

fn link(last: u32, community: &[u8]) -> Vec<u8> {
    link_trap(last).v2c(community, 1)
}

#[test]
fn alarms_of_before_layout_4_are_cleared_by_whoever_could_raise_them() {
    for known in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(judged(folder.path(), "", &[("192.0.2.1", link(3, b"x"))]), [false]);
        let database = rusqlite::Connection::open(folder.path().join("ringtap-trap.db")).unwrap();
        let to_3 = "ALTER TABLE alarm DROP COLUMN origin; ALTER TABLE alarm DROP COLUMN security;
            ALTER TABLE alarm DROP COLUMN known; ALTER TABLE alarm DROP COLUMN expired;
            ALTER TABLE alarm DROP COLUMN acknowledged_by; ALTER TABLE alarm DROP COLUMN acknowledged_ns;
            ALTER TABLE alarm DROP COLUMN maintenance; DROP TABLE history; DROP TABLE maintenance; DROP TABLE request;
            CREATE TABLE request (id INTEGER PRIMARY KEY, alarm INTEGER NOT NULL, operator TEXT NOT NULL);
            DROP TABLE engine; PRAGMA user_version = 3;";
        database.execute_batch(to_3).unwrap();
        drop(database);
        drop(Store::open(folder.path()).unwrap());
        // 1: what the version before this one made of them.
        let database = rusqlite::Connection::open(folder.path().join("ringtap-trap.db")).unwrap();
        database.execute("UPDATE alarm SET known = max(known, ?)", [known]).unwrap();
        drop(database);
        assert_eq!(judged(folder.path(), "", &[("192.0.2.1", link(4, b"x"))]), [true], "{known}");
    }
}

#[test]
fn an_alarm_is_cleared_under_the_configuration_of_today() {
    let bob = "[[trap.user]]\nname = \"bob\"\nauth = \"SHA\"\nauth-password = \"long enough\"\n";
    let clients = "[trap.tls]\ncertificate = \"c\"\nkey = \"k\"\nclients = \"a\"\n";
    let listed = "[trap]\nknown = [\"192.0.2.0/24\"]\n";
    let community = "[trap]\ncommunities = [\"hush\"]\n";
    for (then, now, clears) in [
        ("", "", true),
        (listed, "", true),
        (listed, clients, true),
        ("[trap]\nsources = [\"192.0.0.0/8\"]\n", "", true),
        (community, "", true),
        (community, clients, true),
        (community, community, true),
        // The sender of before is a known one now, and another is not.
        ("", listed, false),
        (listed, listed, false),
        (&format!("{listed}communities = [\"hush\"]\n"), listed, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(judged(folder.path(), then, &[("192.0.2.1", link(3, b"hush"))]), [false]);
        // Another address says it for the same node.
        let (snmp_traps, node) = ([1, 3, 6, 1, 6, 3, 1, 1, 5], [192, 0, 2, 1].into());
        let other = link_trap(4).v1(b"hush", &snmp_traps, node, 3, 0);
        assert_eq!(judged(folder.path(), now, &[("192.0.3.1", other)]), [clears], "{then:?} {now:?}");
        assert_eq!(judged(folder.path(), now, &[("192.0.2.1", link(4, b"hush"))]), [true], "{then:?} {now:?}");
    }
    let config = read(&format!("[trap]\nv1-v2c = true\n{bob}"), 0o600).unwrap();
    let source = Some([192, 0, 2, 1].into());
    let raised = Origin { source, security: SecurityLevel::AuthPriv, shown: Shown::Nothing, is_known: true };
    let seen = |config: &Config, origin| {
        let Origin { security, is_known, .. } = config.terms(&Names::default()).unwrap().see(origin);
        (security, is_known)
    };
    assert_eq!(seen(&config, raised), (SecurityLevel::AuthNoPriv, true), "no user encrypts any more");
    assert_eq!(seen(&Config::default(), raised), (SecurityLevel::NoAuthNoPriv, false));
    let certified = Origin { security: SecurityLevel::NoAuthNoPriv, shown: Shown::Certificate, ..raised };
    for (text, is_known) in [(clients, true), ("", false)] {
        let config = read(text, 0o600).unwrap();
        assert_eq!(seen(&config, certified).1, is_known);
    }
}

#[test]
fn users_and_rules_are_checked() {
    let user = |rest: &str| read(&format!("[[trap.user]]\nname = \"bob\"\n{rest}"), 0o600).unwrap().users();
    assert_eq!(user("auth = \"SHA\"\nauth-password = \"long enough\"").unwrap().len(), 1);
    for (rest, expected) in [
        ("auth = \"SHA\"", "go together"),
        ("auth = \"ROT13\"\nauth-password = \"long enough\"", "auth is one of"),
        ("auth = \"SHA\"\nauth-password = \"short\"", "at least 8"),
        ("privacy = \"AES\"\nprivacy-password = \"long enough\"", "needs authentication"),
        ("engines = [\"xyz\"]", "hexadecimal"),
    ] {
        let error = user(rest).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("bob"), "{error}");
    }
    let rule =
        "[[trap.rule]]\nnotification = \"nameless\"\ncondition = \"x\"\neffect = \"raise\"\nseverity = \"minor\"\n";
    let error = read(rule, 0o600).unwrap().rules(&Names::default()).unwrap_err().to_string();
    assert!(error.contains("nameless") && error.contains("--mibs"), "{error}");
    let rule = rule.replace("nameless", "1.3.6.1.4.1.5");
    assert!(read(&rule, 0o600).unwrap().rules(&Names::default()).is_ok());
}

#[test]
fn tokens_are_private_and_never_told() {
    let folder = tempfile::tempdir().unwrap();
    let (token, ca) = (folder.path().join("token"), folder.path().join("ca.pem"));
    let text = format!("[trap.webhook]\nurl = \"http://h/\"\ntoken-file = {token:?}\nca = {ca:?}\n");
    let config = read(&text, 0o600).unwrap();
    std::fs::write(&token, "s3cret\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = config.receivers().err().unwrap().to_string();
    assert!(error.contains("chmod 600") && !error.contains("s3cret"), "{error}");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let receivers = config.receivers().unwrap();
    assert_eq!(receivers.names(), ["webhook"]);
    assert!(!format!("{:?}", receivers.webhook).contains("s3cret"));
    std::fs::write(&token, "s3cret word\n").unwrap();
    let error = config.receivers().err().unwrap().to_string();
    assert!(error.contains("more than one word") && !error.contains("s3cret"), "{error}");
}

#[test]
fn what_is_read_at_the_start_alone_is_known_when_it_changes() {
    let old = read("[trap]\nsyslog-severity = 3\n", 0o600).unwrap();
    let new =
        read("[trap]\nsyslog-severity = 4\nmax-alarms = 5\n[trap.alertmanager]\nurl = \"http://h\"\n", 0o600).unwrap();
    assert_eq!(old.waits_for_restart(&new), ["max-alarms", "[trap.alertmanager]"]);
    let in_use = new.started_as(&old);
    assert!(in_use.trap.max_alarms.is_none() && in_use.trap.syslog_severity == Some(4));
}

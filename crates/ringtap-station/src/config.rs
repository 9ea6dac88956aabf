//! The `[trap]` table of ringtap.toml, and the judge made from it.
//!
//! Owns its reading and the check that nobody else can read the secrets in it.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use ringtap::clock;
use ringtap::{Error, Result};
use ringtap_run::one_file;
use ringtap_run::secrets::{random, read_private};
use ringtap_snmp::config::{InvalidUser, Secret, UserTable, from_hex};
use ringtap_snmp::decode::SnmpDecoder;
use ringtap_snmp::names::Names;
use ringtap_snmp::usm::{LocalEngine, User, Usm};
use rustls::ServerConfig;
use serde::Deserialize;

use crate::admission::{Admission, Net, Senders};
use crate::alarm::{Classification, EventType, Origin, SecurityLevel, Severity, Shown};
use crate::judge::{Judge, JudgeConfig};
use crate::resume::resume;
use crate::rules::{Effect, Rule, Rules};
use crate::store::Store;
use crate::table::{AlarmTable, FlapPolicy};
use crate::tls;

/// Syslog warning and worse become alarms.
const DEFAULT_SYSLOG_SEVERITY: u8 = 4;
/// Most alarms in the table: some 500 bytes each, 1.2 KB at most.
const DEFAULT_MAX_ALARMS: usize = 1_000_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    trap: Trap,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Trap {
    #[serde(default)]
    communities: Vec<Secret>,
    v1_v2c: Option<bool>,
    #[serde(default)]
    sources: Vec<Net>,
    #[serde(default)]
    known: Vec<Net>,
    address_rate: Option<NonZeroU64>,
    network_rate: Option<NonZeroU64>,
    #[serde(default)]
    mibs: Vec<PathBuf>,
    syslog_severity: Option<u8>,
    max_alarms: Option<usize>,
    #[serde(default)]
    user: Vec<UserTable>,
    #[serde(default)]
    rule: Vec<RuleTable>,
    webhook: Option<Webhook>,
    topology: Option<PathBuf>,
    tls: Option<Tls>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleTable {
    notification: String,
    condition: String,
    effect: EffectName,
    severity: Severity,
    event_type: Option<EventType>,
    probable_cause: Option<String>,
    #[serde(default)]
    object: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EffectName {
    Raise,
    Clear,
    Event,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Webhook {
    url: String,
}

/// The certificate that connections of syslog get, and whose certificates they must show.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    clients: Option<PathBuf>,
}

/// The configuration.
#[derive(Debug, Default)]
pub struct Config {
    trap: Trap,
    path: PathBuf,
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// It can't be read, others may read it, or something in it is not understood (with its place).
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_private("configuration", path)?;
        let file: File = one_file::parse(&name, &text, "`ringtap trap --help` shows what is in it")?;
        if let Some(webhook) = &file.trap.webhook {
            ringtap_output::Webhook::check(&webhook.url)?;
        }
        Ok(Self { trap: file.trap, path: path.to_owned() })
    }

    /// Directories of MIB files.
    pub fn mibs(&self) -> &[PathBuf] {
        &self.trap.mibs
    }

    /// The topology file.
    pub fn topology(&self) -> Option<&Path> {
        self.trap.topology.as_deref()
    }

    /// How connections of syslog within TLS begin.
    ///
    /// # Errors
    /// No certificate is named, or what is named can't be read.
    pub(crate) fn tls(&self) -> Result<Arc<ServerConfig>> {
        let Some(Tls { certificate, key, clients }) = &self.trap.tls else {
            return Err(Error::usage("take syslog by TLS with", "no certificate", "the configuration names none")
                .way_out("name one in [trap.tls]: see `ringtap trap --help`"));
        };
        tls::server(certificate, key, clients.as_deref())
    }

    /// Where announced alarms are posted: `http://HOST[:PORT]/PATH`.
    pub fn webhook(&self) -> Option<&str> {
        self.trap.webhook.as_ref().map(|webhook| webhook.url.as_str())
    }

    /// The judge, going on from what the store holds.
    ///
    /// # Errors
    /// A user, rule or name that makes no sense; a store that can't be read.
    pub fn judge(&self, store: &Store, names: &Names) -> Result<Judge> {
        let users = self.users()?;
        let best = users.iter().map(User::level).max().unwrap_or_default();
        let mut usm = Usm::new(local_engine(store)?, users, random()?);
        resume(&mut usm, store, clock::monotonic_ns())?;
        let communities: Vec<Vec<u8>> =
            self.trap.communities.iter().map(|secret| secret.0.clone().into_bytes()).collect();
        let limit = self.trap.max_alarms.unwrap_or(DEFAULT_MAX_ALARMS);
        let mut alarms = store.alarms()?;
        let senders = self.senders();
        alarms.iter_mut().for_each(|alarm| alarm.origin = self.today(alarm.origin, &senders, best));
        let decoder = SnmpDecoder::new(communities, usm);
        Ok(Judge::new(JudgeConfig {
            admission: Admission::new(self.senders()),
            decoder: if self.takes_v1_v2c() { decoder } else { decoder.v3_only() },
            rules: self.rules(names)?,
            alarms: AlarmTable::new(alarms, FlapPolicy::default(), limit),
            last_id: store.last_id()?,
            syslog_severity: self.trap.syslog_severity.unwrap_or(DEFAULT_SYSLOG_SEVERITY),
        }))
    }

    /// Who raised an alarm, as this configuration with its `senders` sees it: what nobody can show any more (`best` is the most that users
    /// can) must not be asked of who clears it.
    fn today(&self, origin: Origin, senders: &Senders, best: SecurityLevel) -> Origin {
        let security = origin.security.min(best);
        let is_shown = match origin.shown {
            Shown::Nothing => false,
            Shown::Community => self.asks_for_community(),
            Shown::Certificate => self.asks_for_certificate(),
        };
        let is_listed = origin.source.is_some_and(|source| senders.know(source));
        let is_known = security > SecurityLevel::NoAuthNoPriv || is_shown || is_listed;
        Origin { security, is_known, ..origin }
    }

    /// Whether v1 and v2c are taken and must come with a community.
    fn asks_for_community(&self) -> bool {
        self.takes_v1_v2c() && !self.trap.communities.is_empty()
    }

    /// Whether syslog within TLS must come with a certificate.
    fn asks_for_certificate(&self) -> bool {
        self.trap.tls.as_ref().is_some_and(|tls| tls.clients.is_some())
    }

    /// Whether any sender can be known from strangers.
    pub(crate) fn knows_anyone(&self) -> bool {
        let trap = &self.trap;
        !(trap.sources.is_empty() && trap.known.is_empty())
            || self.asks_for_community()
            || self.asks_for_certificate()
            || trap.user.iter().any(UserTable::is_authenticated)
    }

    /// Whether notifications of v1 and v2c are taken. Where there are users of v3, only if it is said: they prove nothing.
    pub fn takes_v1_v2c(&self) -> bool {
        let trap = &self.trap;
        trap.v1_v2c.unwrap_or(trap.user.is_empty() || !trap.communities.is_empty())
    }

    /// Which senders are taken.
    pub fn senders(&self) -> Senders {
        let trap = &self.trap;
        Senders {
            sources: trap.sources.iter().map(|net| net.0).collect(),
            known: trap.known.iter().map(|net| net.0).collect(),
            address_rate: trap.address_rate.map(NonZeroU64::get),
            network_rate: trap.network_rate.map(NonZeroU64::get),
        }
    }

    fn wrong(&self, object: &str, cause: &str) -> Error {
        Error::usage("use", format!("{object} of {}", self.path.display()), cause)
    }

    /// The users of v3.
    ///
    /// # Errors
    /// One that makes no sense.
    pub fn users(&self) -> Result<Vec<User>> {
        let wrong = |error: InvalidUser| self.wrong(&format!("user {:?}", error.name), error.cause);
        self.trap.user.iter().map(|table| table.user().map_err(wrong)).collect()
    }

    /// The first user, for whom a storm of traps is sent.
    ///
    /// # Errors
    /// One that makes no sense; there is no user.
    pub fn first_user(&self) -> Result<User> {
        self.users()?.into_iter().next().ok_or_else(|| {
            Error::usage("read the configuration", self.path.display().to_string(), "there is no user in it")
                .way_out("add a [[trap.user]]: see `ringtap trap --help`")
        })
    }

    fn rules(&self, names: &Names) -> Result<Rules> {
        let mut rules = Rules::standard();
        for table in &self.trap.rule {
            let resolve = |name: &str| {
                names.resolve(name).ok_or_else(|| {
                    self.wrong(&format!("rule for {:?}", table.notification), &format!("{name:?} is not known"))
                        .way_out("write it in numbers, or name its MIB's directory with --mibs")
                })
            };
            let rule = Rule {
                condition: table.condition.clone(),
                severity: table.severity,
                classification: Classification {
                    event_type: table.event_type,
                    probable_cause: table.probable_cause.clone(),
                },
                effect: match table.effect {
                    EffectName::Raise => Effect::Raise,
                    EffectName::Clear => Effect::Clear,
                    EffectName::Event => Effect::Event,
                },
                object: table.object.iter().map(|name| resolve(name)).collect::<Result<_>>()?,
            };
            rules.insert(resolve(&table.notification)?, rule);
        }
        Ok(rules)
    }
}

/// This station's engine ID, kept in the store, and one more boot (RFC 3414 §2.2).
fn local_engine(store: &Store) -> Result<LocalEngine> {
    let kept = store.meta("engine_id")?.as_deref().and_then(from_hex);
    let id = match kept {
        Some(id) => id,
        None => {
            // RFC 3411 §5: no enterprise of our own, so 0; format 5: administratively assigned octets.
            let id = [&[0x80, 0, 0, 0, 5][..], &random()?.to_be_bytes()].concat();
            store.set_meta("engine_id", &HEXLOWER.encode(&id))?;
            id
        }
    };
    let boots = store.meta("engine_boots")?.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let boots = boots.saturating_add(1).min(0x7fff_ffff);
    store.set_meta("engine_boots", &boots.to_string())?;
    Ok(LocalEngine { id, boots, started_ns: clock::monotonic_ns() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
        let error = read("[trap.webhook]\nurl = \"https://x\"\n", 0o600).unwrap_err().to_string();
        assert!(error.contains("only http://"), "{error}");
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
        let text =
            "[trap]\nsources = [\"192.0.2.0/24\", \"::ffff:10.0.0.9\"]\nknown = [\"10.0.0.1\", \"2001:db8::1\"]\n";
        let Senders { sources, known, .. } = read(text, 0o600).unwrap().senders();
        let texts = |nets: Vec<ipnet::IpNet>| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(sources), ["192.0.2.0/24", "10.0.0.9/32"]);
        assert_eq!(texts(known), ["10.0.0.1/32", "2001:db8::1/128"]);
        for (net, cause) in [
            ("10.0.0.1/8", "write 10.0.0.0/8 or 10.0.0.1"),
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
                ALTER TABLE alarm DROP COLUMN known; DROP TABLE engine; PRAGMA user_version = 3;";
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
        let seen = |config: &Config, best| {
            let Origin { security, is_known, .. } = config.today(raised, &config.senders(), best);
            (security, is_known)
        };
        let best = config.users().unwrap()[0].level();
        assert_eq!(seen(&config, best), (SecurityLevel::AuthNoPriv, true), "no user encrypts any more");
        assert_eq!(seen(&Config::default(), SecurityLevel::NoAuthNoPriv), (SecurityLevel::NoAuthNoPriv, false));
        let certified = Origin { security: SecurityLevel::NoAuthNoPriv, shown: Shown::Certificate, ..raised };
        for (text, is_known) in [(clients, true), ("", false)] {
            let config = read(text, 0o600).unwrap();
            assert_eq!(config.today(certified, &config.senders(), SecurityLevel::NoAuthNoPriv).is_known, is_known);
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
}

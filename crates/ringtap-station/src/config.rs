//! The `[trap]` table of ringtap.toml, and the judge made from it.
//!
//! Owns its reading and the check that nobody else can read the secrets in it.

mod forward;
mod receivers;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use ringtap::clock;
use ringtap::{Error, Result};
use ringtap_run::one_file::{self, Keys};
use ringtap_run::secrets::{random, read_private};
use ringtap_snmp::config::{InvalidUser, Secret, UserTable, from_hex};
use ringtap_snmp::decode::SnmpDecoder;
use ringtap_snmp::names::Names;
use ringtap_snmp::usm::{LocalEngine, User, Usm};
use rustls::ServerConfig;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::admission::{Admission, Net, Senders};
use crate::alarm::{Classification, EventType, Severity};
use crate::expiry::{After, Expiry};
use crate::judge::{Judge, JudgeConfig};
use crate::resume::resume;
use crate::rules::{Effect, Rule, Rules};
use crate::store::Store;
use crate::table::{AlarmTable, FlapPolicy};
use crate::terms::Terms;
use crate::{mibs, tls, topology};
use forward::ForwardTable;
pub(crate) use receivers::{AlertmanagerParts, Receivers};
use receivers::{AlertmanagerTable, WebhookTable};

/// Syslog warning and worse become alarms.
const DEFAULT_SYSLOG_SEVERITY: u8 = 4;
/// Most alarms in the table: some 500 bytes each, 1.2 KB at most.
const DEFAULT_MAX_ALARMS: usize = 1_000_000;

const WAY_OUT: &str = "`ringtap trap --help` shows what is in it";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct File {
    trap: Trap,
}

/// The station: whom it takes notifications from, what it makes of them, and who is told by HTTP
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Trap {
    /// Communities of v1 and v2c that are taken; none: all are
    #[serde(default)]
    communities: Vec<Secret>,
    /// Whether v1 and v2c are taken; left out: unless there are users of v3 and no communities
    v1_v2c: Option<bool>,
    /// Networks or addresses that are taken; none: all are
    #[serde(default)]
    sources: Vec<Net>,
    /// Senders that are known, and go before strangers in a storm; none: those of sources
    #[serde(default)]
    known: Vec<Net>,
    /// Notifications a second taken from one address; left out: any number
    address_rate: Option<NonZeroU64>,
    /// Notifications a second taken from one network (/24 of IPv4, /64 of IPv6); left out: any number
    network_rate: Option<NonZeroU64>,
    /// Folders of MIB files, beside those of --mibs
    #[serde(default)]
    mibs: Vec<PathBuf>,
    /// Syslog of this severity or worse becomes an alarm, 0 (emergency) to 7 (debug)
    #[schemars(extend("default" = DEFAULT_SYSLOG_SEVERITY))]
    syslog_severity: Option<u8>,
    /// Most alarms that are held in memory, some 500 bytes each
    #[schemars(extend("default" = DEFAULT_MAX_ALARMS))]
    max_alarms: Option<usize>,
    /// Alarms that nobody tells of for this time are cleared: a time such as "24h", or "never"
    #[schemars(extend("default" = "never"))]
    expire_after: Option<After>,
    /// Users of SNMPv3. As soon as there is one, v1 and v2c are refused, unless v1-v2c or communities say otherwise
    #[serde(default)]
    user: Vec<UserTable>,
    /// What notifications mean, beside what is known of the standard ones
    #[serde(default)]
    rule: Vec<RuleTable>,
    webhook: Option<WebhookTable>,
    alertmanager: Option<AlertmanagerTable>,
    /// Managers that notifications are sent on to, beside those of --forward-to
    #[serde(default)]
    forward: Vec<ForwardTable>,
    /// The topology file; --topology goes before it
    topology: Option<PathBuf>,
    tls: Option<Tls>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleTable {
    /// Its object identifier in numbers, or its name, with MIBs
    notification: String,
    /// What the alarm is called
    condition: String,
    /// What it does with the alarm
    effect: EffectName,
    /// How bad it is
    #[schemars(with = "String", extend("enum" = ["indeterminate", "warning", "minor", "major", "critical"]))]
    severity: Severity,
    /// Event type of X.733
    event_type: Option<EventType>,
    /// Probable cause of X.733, such as lossOfSignal
    probable_cause: Option<String>,
    /// As expire-after of [trap], for this condition; goes before it
    expire_after: Option<After>,
    /// Variables whose values tell the object within the node
    #[serde(default)]
    object: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum EffectName {
    Raise,
    Clear,
    Event,
}

/// For --syslog-tls, PEM, read at the start
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Tls {
    /// The certificate that connections get, with its chain
    certificate: PathBuf,
    /// Its key, readable by its owner only
    key: PathBuf,
    /// Authorities that have signed senders' certificates; left out: none is asked for
    clients: Option<PathBuf>,
}

/// The configuration.
#[derive(Debug, Default)]
pub struct Config {
    trap: Trap,
    path: PathBuf,
}

/// The keys of `[trap]`.
#[must_use]
pub fn keys() -> Keys {
    Keys::of::<File>()
}

/// What is wrong in the `[trap]` of a file, as a station that starts or is told to read it again would find it: users, rules, the
/// files that it names. Ports and the store are not touched.
#[must_use]
pub fn check(path: &Path) -> Vec<Error> {
    one_file::check::<File>(path, WAY_OUT, || {
        let config = Config::read(path)?;
        let names = match config.mibs() {
            [] => Names::default(),
            directories => mibs::load(directories, None)?,
        };
        config.terms(&names)?;
        config.managers(&names)?;
        config.receivers()?;
        config.trap.tls.as_ref().map(|_| config.tls()).transpose()?;
        config.topology().map(topology::read).transpose()?;
        Ok(())
    })
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// It can't be read, others may read it, or something in it is not understood (with its place).
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_private("configuration", path)?;
        let file: File = one_file::parse(&name, &text, WAY_OUT)?;
        let this = Self { trap: file.trap, path: path.to_owned() };
        this.check_receivers()?;
        Ok(this)
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

    /// The judge, going on from what the store holds.
    ///
    /// # Errors
    /// A user, rule or name that makes no sense; a store that can't be read.
    pub fn judge(&self, store: &Store, names: &Names) -> Result<Judge> {
        let terms = self.terms(names)?;
        let mut alarms = store.alarms()?;
        alarms.iter_mut().for_each(|alarm| alarm.origin = terms.see(alarm.origin));
        let mut usm = Usm::new(local_engine(store)?, terms.users, random()?);
        resume(&mut usm, store, clock::monotonic_ns())?;
        let mut decoder = SnmpDecoder::new(terms.communities, usm);
        decoder.take_v1_v2c(terms.takes_v1_v2c);
        let limit = self.trap.max_alarms.unwrap_or(DEFAULT_MAX_ALARMS);
        Ok(Judge::new(JudgeConfig {
            admission: Admission::new(terms.senders),
            decoder,
            rules: terms.rules,
            alarms: AlarmTable::new(alarms, FlapPolicy::default(), limit),
            last_id: store.last_id()?,
            syslog_severity: terms.syslog_severity,
            expiry: terms.expiry,
        }))
    }

    /// What a station judges by.
    ///
    /// # Errors
    /// A user, rule or name that makes no sense.
    pub fn terms(&self, names: &Names) -> Result<Terms> {
        Ok(Terms {
            senders: self.senders(),
            communities: self.trap.communities.iter().map(|secret| secret.0.clone().into_bytes()).collect(),
            takes_v1_v2c: self.takes_v1_v2c(),
            asks_for_certificate: self.asks_for_certificate(),
            users: self.users()?,
            rules: self.rules(names)?,
            syslog_severity: self.trap.syslog_severity.unwrap_or(DEFAULT_SYSLOG_SEVERITY),
            expiry: self.expiry(),
        })
    }

    /// It, with what is read only at the start as `started` has it.
    pub(crate) fn started_as(mut self, started: &Self) -> Self {
        let was = &started.trap;
        self.trap.mibs.clone_from(&was.mibs);
        self.trap.max_alarms = was.max_alarms;
        self.trap.topology.clone_from(&was.topology);
        self.trap.tls.clone_from(&was.tls);
        self.trap.webhook.clone_from(&was.webhook);
        self.trap.alertmanager.clone_from(&was.alertmanager);
        self.trap.forward.clone_from(&was.forward);
        self
    }

    /// What is another in `new`, and is read only when a station starts.
    pub(crate) fn waits_for_restart(&self, new: &Self) -> Vec<&'static str> {
        let (old, new) = (&self.trap, &new.trap);
        [
            ("mibs", old.mibs != new.mibs),
            ("max-alarms", old.max_alarms != new.max_alarms),
            ("topology", old.topology != new.topology),
            ("[trap.tls]", old.tls != new.tls),
            ("[trap.webhook]", old.webhook != new.webhook),
            ("[trap.alertmanager]", old.alertmanager != new.alertmanager),
            ("[[trap.forward]]", old.forward != new.forward),
        ]
        .into_iter()
        .filter_map(|(name, is_another)| is_another.then_some(name))
        .collect()
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

    fn expiry(&self) -> Expiry {
        let of_rules = self.trap.rule.iter();
        Expiry::new(
            self.trap.expire_after,
            of_rules.filter_map(|rule| Some((rule.condition.clone(), rule.expire_after?))),
        )
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
mod tests;

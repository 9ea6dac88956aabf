//! The `[trap]` table of ringtap.toml, and the judge made from it.
//!
//! Owns its reading and the check that nobody else can read the secrets in it.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use ringtap::clock;
use ringtap::{Error, Result};
use ringtap_run::secrets::{random, read_private};
use ringtap_snmp::config::{InvalidUser, Secret, UserTable, from_hex};
use ringtap_snmp::decode::SnmpDecoder;
use ringtap_snmp::names::Names;
use ringtap_snmp::usm::{LocalEngine, User, Usm};
use serde::Deserialize;

use crate::alarm::{Classification, EventType, Severity};
use crate::judge::{Judge, JudgeConfig};
use crate::rules::{Effect, Rule, Rules};
use crate::store::Store;
use crate::table::{AlarmTable, FlapPolicy};

/// Syslog warning and worse become alarms.
const DEFAULT_SYSLOG_SEVERITY: u8 = 4;
/// Most alarms in the table: some 300 bytes each.
const DEFAULT_MAX_ALARMS: usize = 1_000_000;

#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    trap: Trap,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Trap {
    #[serde(default)]
    communities: Vec<Secret>,
    #[serde(default)]
    mibs: Vec<PathBuf>,
    syslog_severity: Option<u8>,
    max_alarms: Option<usize>,
    #[serde(default)]
    user: Vec<UserTable>,
    #[serde(default)]
    rule: Vec<RuleTable>,
    webhook: Option<Webhook>,
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
        let text = read_private(path)?;
        let file: File = toml::from_str(&text).map_err(|error| {
            // The message alone: the lines around the place may hold a secret.
            let at = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            Error::usage("read the configuration", format!("{name}:{at}"), error.message())
        })?;
        if let Some(webhook) = &file.trap.webhook
            && !webhook.url.starts_with("http://")
        {
            return Err(Error::usage("use", format!("{:?} as webhook", webhook.url), "only http:// is spoken")
                .way_out("post to a relay on this host that speaks TLS"));
        }
        Ok(Self { trap: file.trap, path: path.to_owned() })
    }

    /// Directories of MIB files.
    pub fn mibs(&self) -> &[PathBuf] {
        &self.trap.mibs
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
        let usm = Usm::new(local_engine(store)?, self.users()?, random()?);
        let communities = self.trap.communities.iter().map(|secret| secret.0.clone().into_bytes()).collect();
        let limit = self.trap.max_alarms.unwrap_or(DEFAULT_MAX_ALARMS);
        Ok(Judge::new(JudgeConfig {
            decoder: SnmpDecoder::new(communities, usm),
            rules: self.rules(names)?,
            alarms: AlarmTable::new(store.alarms()?, FlapPolicy::default(), limit),
            last_id: store.last_id()?,
            syslog_severity: self.trap.syslog_severity.unwrap_or(DEFAULT_SYSLOG_SEVERITY),
        }))
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
        let config = read("[trap]\ncommunities = [\"hushhush\"]\n[sensor]\nanything = 1\n", 0o600).unwrap();
        assert!(!format!("{config:?}").contains("hushhush"));
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

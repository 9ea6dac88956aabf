//! Owns: the `[correlate]` table of ringtap.toml: a webhook, and the registered sensors with their key files.
//! Does not: show a secret; the file may hold those of others. Nor judge the table's other keys, which are options of
//! `ringtap correlate`: the command does, and here are only their names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringtap::{Error, Result};
use ringtap_datagram::{Key, SensorId};
use ringtap_detect::{Classes, RuleSet, Variables};
use ringtap_run::one_file::{self, Keys};
use ringtap_run::secrets::read_private;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::input::keyring::{Sensor, Texts};

const WAY_OUT: &str = "`ringtap correlate --help` shows what is in it";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct File {
    correlate: Correlate,
}

/// The correlator: who is told of incidents, and whose alarms are believed
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(dead_code, reason = "options are judged by the command")]
struct Correlate {
    webhook: Option<Webhook>,
    /// Sensors that are registered. Files that it names lie beside the configuration where they have no folder of their own
    #[serde(default)]
    sensor: Vec<Registration>,
    #[schemars(skip)]
    disorder: Option<IgnoredAny>,
    #[schemars(skip)]
    duration: Option<IgnoredAny>,
    #[schemars(skip)]
    explain: Option<IgnoredAny>,
    #[schemars(skip)]
    format: Option<IgnoredAny>,
    #[schemars(skip)]
    gap_wait: Option<IgnoredAny>,
    #[schemars(skip)]
    json: Option<IgnoredAny>,
    #[schemars(skip)]
    kafka: Option<IgnoredAny>,
    #[schemars(skip)]
    kafka_topic: Option<IgnoredAny>,
    #[schemars(skip)]
    keep: Option<IgnoredAny>,
    #[schemars(skip)]
    keep_size: Option<IgnoredAny>,
    #[schemars(skip)]
    listen: Option<IgnoredAny>,
    #[schemars(skip)]
    log_size: Option<IgnoredAny>,
    #[schemars(skip)]
    memory: Option<IgnoredAny>,
    #[schemars(skip)]
    metrics: Option<IgnoredAny>,
    #[schemars(skip)]
    web: Option<IgnoredAny>,
    #[schemars(skip)]
    web_token: Option<IgnoredAny>,
    #[schemars(skip)]
    no_sandbox: Option<IgnoredAny>,
    #[schemars(skip)]
    output: Option<IgnoredAny>,
    #[schemars(skip)]
    output_kafka: Option<IgnoredAny>,
    #[schemars(skip)]
    output_kafka_spool: Option<IgnoredAny>,
    #[schemars(skip)]
    output_kafka_spool_size: Option<IgnoredAny>,
    #[schemars(skip)]
    output_kafka_topic: Option<IgnoredAny>,
    #[schemars(skip)]
    output_keep: Option<IgnoredAny>,
    #[schemars(skip)]
    output_rotate: Option<IgnoredAny>,
    #[schemars(skip)]
    output_socket: Option<IgnoredAny>,
    #[schemars(skip)]
    output_syslog: Option<IgnoredAny>,
    #[schemars(skip)]
    read: Option<IgnoredAny>,
    #[schemars(skip)]
    rules: Option<IgnoredAny>,
    #[schemars(skip)]
    sensors: Option<IgnoredAny>,
    #[schemars(skip)]
    silence: Option<IgnoredAny>,
    #[schemars(skip)]
    stats: Option<IgnoredAny>,
    #[schemars(skip)]
    store: Option<IgnoredAny>,
    #[schemars(skip)]
    user: Option<IgnoredAny>,
}

/// Incidents are posted there
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Webhook {
    /// http:// or https://; it may hold a token, so it is not shown
    #[schemars(extend("writeOnly" = true))]
    url: String,
}

/// A sensor
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Registration {
    /// Its name
    id: String,
    /// Files with NUMBER:HEXDIGITS, readable by their owner only; several while keys change
    key_files: Vec<PathBuf>,
    /// Its rules, whose messages and classes its alarms get
    #[serde(default)]
    rules: Vec<PathBuf>,
    /// Its file of classes
    classification: Option<PathBuf>,
}

/// What a configuration says.
#[derive(Debug, Default)]
pub struct Config {
    /// Where announcements are posted.
    pub webhook: Option<String>,
    /// Registered sensors.
    pub sensors: Vec<Sensor>,
    /// Files that it names, which are read again with it.
    pub files: Vec<PathBuf>,
}

/// The keys of `[correlate]` that are no options.
#[must_use]
pub fn keys() -> Keys {
    Keys::of::<File>()
}

/// What is wrong in the `[correlate]` of a file, and in the files that it names.
#[must_use]
pub fn check(path: &Path) -> Vec<Error> {
    one_file::check::<File>(path, WAY_OUT, || read(path).map(drop))
}

/// Reads a configuration and the files that it names; these lie beside it where they are named without a folder of their
/// own.
///
/// # Errors
/// A file can't be read, others may read it, or something in it is not understood (with its line).
pub fn read(path: &Path) -> Result<Config> {
    let name = path.display().to_string();
    let file = parse(&read_private("configuration", path)?, &name)?;
    let webhook = file.correlate.webhook.map(Webhook::url).transpose()?;
    let (mut sensors, mut files): (Vec<Sensor>, Vec<PathBuf>) = (Vec::new(), Vec::new());
    for registration in &file.correlate.sensor {
        let Registration { key_files, rules, classification, .. } = registration;
        files.extend(key_files.iter().chain(rules).chain(classification).map(|file| beside(path, file)));
        let sensor = sensor(path, registration)?;
        if sensors.iter().any(|other| other.id == sensor.id) {
            return Err(Error::usage("register", format!("sensor {}", sensor.id), format!("{name} has it twice"))
                .way_out("give each sensor an id of its own"));
        }
        sensors.push(sensor);
    }
    Ok(Config { webhook, sensors, files })
}

/// The webhook alone, of a configuration that others may read if it has none. What it registers is not looked at.
///
/// # Errors
/// The file can't be read, others may read it, or something in it is not understood (with its line).
pub(crate) fn webhook(path: &Path) -> Result<Option<String>> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error::os("read the configuration", &name, &error))?;
    let Some(webhook) = parse(&text, &name)?.correlate.webhook else { return Ok(None) };
    read_private("configuration", path)?;
    webhook.url().map(Some)
}

fn parse(text: &str, name: &str) -> Result<File> {
    one_file::parse(name, text, WAY_OUT)
}

impl Webhook {
    fn url(self) -> Result<String> {
        ringtap_output::http::check(&self.url)?;
        Ok(self.url)
    }
}

fn sensor(config: &Path, registration: &Registration) -> Result<Sensor> {
    let wrong = |cause: &dyn std::fmt::Display| {
        let shown = ringtap_output::printable(&registration.id);
        Error::usage("register", format!("sensor {shown} of {}", config.display()), cause)
    };
    let id: SensorId = registration.id.parse().map_err(|error| wrong(&error))?;
    if registration.key_files.is_empty() {
        return Err(wrong(&"it has no key").way_out("name a file with NUMBER:HEXDIGITS by key-files"));
    }
    let key = |path: &PathBuf| {
        let path = beside(config, path);
        let text = read_private("key", &path)?;
        let wrong = |error| Error::usage("use the key in", path.display().to_string(), error);
        text.parse::<Key>().map_err(wrong)
    };
    let keys = registration.key_files.iter().map(key).collect::<Result<Vec<Key>>>()?;
    let rules: Vec<PathBuf> = registration.rules.iter().map(|path| beside(config, path)).collect();
    let classification = registration.classification.as_ref().map(|path| beside(config, path));
    let texts = texts(&rules, classification.as_deref())?;
    Ok(Sensor { id, keys, texts: Arc::new(texts) })
}

/// A file that a configuration names.
fn beside(config: &Path, file: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(file)
}

/// What the rules of these files are called, and their classes.
fn texts(rules: &[PathBuf], classification: Option<&Path>) -> Result<Texts> {
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Error::os("read the rules of a sensor in", path.display().to_string(), &error))
    };
    let mut classes = Classes::default();
    if let Some(path) = classification {
        classes.add(&String::from_utf8_lossy(&read(path)?));
    }
    let mut set = RuleSet::default();
    for path in rules {
        set.add(&path.display().to_string(), &read(path)?, &Variables::default(), &classes);
    }
    let text = |rule: &ringtap_detect::Rule| {
        let meta = &rule.meta;
        let category = classes.find(&meta.class).map_or(meta.class.as_str(), |class| class.description.as_str());
        ((meta.gid, meta.sid), (meta.message.as_str().into(), category.into()))
    };
    Ok(set.rules.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_table_beside_others() {
        let folder = tempfile::tempdir().unwrap();
        let webhook_of = |text: &str| {
            let path = write(folder.path(), "ringtap.toml", text, 0o600);
            read(&path).map(|config| config.webhook).map_err(|error| error.to_string())
        };
        let url = "[trap]\ncommunities = [\"x\"]\n[correlate.webhook]\nurl = \"http://127.0.0.1:1/a\"\n";
        assert_eq!(webhook_of(url).unwrap().as_deref(), Some("http://127.0.0.1:1/a"));
        assert_eq!(webhook_of("[trap]\n").unwrap(), None);
        for wrong in
            ["[correlate]\nwebhook = \"http://h/tOken\"\n", &url.replace("http://127.0.0.1:1/a", "ftp://h/tOken")]
        {
            let error = webhook_of(wrong).unwrap_err();
            assert!(!error.contains("tOken"), "{error}");
        }
        assert!(webhook_of("[correlate]\nwebs = 1\n").unwrap_err().contains(":2"));
        let sensors =
            "[variables]\nHOME_NET = \"any\"\n[bounds]\nflows = 7\n[overlap]\nbsd = []\n[snmp]\nto = \"x\"\n[alarms]\n";
        assert!(webhook_of(&format!("{sensors}{url}")).unwrap().is_some());
        let error = webhook_of(&format!("{url}[bound]\nflows = 7\n")).unwrap_err();
        assert!(error.contains(":5") && error.contains("`bound`") && error.contains("`bounds`"), "{error}");
        let https = webhook_of(&url.replace("http:", "https:")).unwrap();
        assert_eq!(https.as_deref(), Some("https://127.0.0.1:1/a"));
    }

    #[test]
    fn registered_sensors() {
        let folder = tempfile::tempdir().unwrap();
        const SECRET: &str = "00112233445566778899aabbccddeeff";
        write(folder.path(), "a.key", &format!("1:{SECRET}\n"), 0o600);
        write(folder.path(), "open.key", &format!("1:{SECRET}\n"), 0o644);
        write(folder.path(), "bad.key", &format!("1:{SECRET}x\n"), 0o600);
        let rules =
            "alert tcp any any -> $HOME_NET 22 (msg:\"SSH scan\"; classtype:attempted-recon; sid:7; rev:2;)\nno rule\n";
        write(folder.path(), "a.rules", rules, 0o644);
        let classes = "config classification: attempted-recon,Attempted Information Leak,2\n";
        write(folder.path(), "classification.config", classes, 0o644);
        let sensors_of = |sensors: &str| {
            let path = write(folder.path(), "ringtap.toml", sensors, 0o600);
            read(&path).map(|config| config.sensors).map_err(|error| error.to_string())
        };
        let good = "[[correlate.sensor]]\nid = \"north.1\"\nkey-files = [\"a.key\"]\nrules = [\"a.rules\"]\nclassification = \"classification.config\"\n";
        let sensors = sensors_of(good).unwrap();
        assert_eq!((sensors.len(), sensors[0].id.as_str(), sensors[0].keys[0].id()), (1, "north.1", 1));
        let (signature, category) = &sensors[0].texts[&(1, 7)];
        assert_eq!((&**signature, &**category), ("SSH scan", "Attempted Information Leak"));
        for (wrong, part) in [
            (good.replace("north.1", "North 1"), "a sensor's name is"),
            (good.replace("a.key", "open.key"), "chmod 600"),
            (good.replace("a.key", "none.key"), "none.key"),
            (good.replace("a.key", "bad.key"), "hexadecimal"),
            (good.replace("\"a.key\"", ""), "it has no key"),
            (format!("{good}{good}"), "has it twice"),
            (good.replace("rules", "rulez"), ":4"),
        ] {
            let error = sensors_of(&wrong).unwrap_err();
            assert!(error.contains(part) && !error.contains(SECRET), "{error}");
        }
    }
}

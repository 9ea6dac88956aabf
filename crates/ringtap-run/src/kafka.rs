//! Owns: the `[kafka]` table of ringtap.toml, which all programs share: how brokers are talked to.
//! Does not: say which brokers and topics; options do.

use std::path::{Path, PathBuf};

use ringtap::{Error, Result};
use ringtap_kafka::{Mechanism, Sasl, Security};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::one_file::{self, Keys};
use crate::secrets::read_private;

const WAY_OUT: &str = "docs/kafka.md tells what [kafka] may have";

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct File {
    kafka: Table,
}

/// How the sensor, the station and the correlator talk to brokers. Files that it names lie beside the configuration where they have no
/// folder of their own
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Table {
    /// Who signed the brokers' certificates (PEM); left out: without TLS
    tls_ca: Option<PathBuf>,
    /// A certificate of ours (PEM), with tls-key
    tls_certificate: Option<PathBuf>,
    /// Its key, readable by its owner only
    tls_key: Option<PathBuf>,
    /// How we prove who we are: SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN (within TLS alone); with user and password-file
    sasl: Option<String>,
    /// Who we are
    user: Option<String>,
    /// A file with the password, readable by its owner only
    password_file: Option<PathBuf>,
}

/// The keys of `[kafka]`.
#[must_use]
pub fn keys() -> Keys {
    Keys::of::<File>()
}

/// What is wrong in the `[kafka]` of a file, and in the files that it names.
#[must_use]
pub fn check(path: &Path) -> Vec<Error> {
    one_file::check::<File>(path, WAY_OUT, || security(Some(path)).map(drop))
}

/// How to talk to brokers, as the configuration says; without one or without the table, in the clear. Files that it names lie beside it
/// where they are named without a folder of their own.
///
/// # Errors
/// A file can't be read, others may read a key or password, or what is said makes no sense.
pub fn security(config: Option<&Path>) -> Result<Security> {
    let Some(config) = config else { return Ok(Security::default()) };
    let name = config.display().to_string();
    let text = std::fs::read_to_string(config).map_err(|error| Error::os("read the configuration", &name, &error))?;
    let Table { tls_ca, tls_certificate, tls_key, sasl, user, password_file } =
        one_file::parse::<File>(&name, &text, WAY_OUT)?.kafka;
    let wrong = |cause: String| {
        Error::usage("use", format!("[kafka] of {name}"), cause).way_out("docs/kafka.md tells what it may have")
    };
    let beside = |file: PathBuf| config.parent().unwrap_or(Path::new("")).join(file);
    let read = |path: PathBuf| {
        let path = beside(path);
        std::fs::read(&path).map_err(|error| Error::os("read the certificate", path.display().to_string(), &error))
    };
    let own = match (tls_certificate, tls_key) {
        (None, None) => None,
        (Some(certificate), Some(key)) if tls_ca.is_some() => {
            Some((read(certificate)?, read_private("key", &beside(key))?.into_bytes()))
        }
        _ => return Err(wrong("tls-certificate and tls-key go together, and with tls-ca".to_owned())),
    };
    let sasl = match (sasl, user, password_file) {
        (None, None, None) => None,
        (Some(mechanism), Some(user), Some(file)) => {
            let mechanism: Mechanism = mechanism.parse().map_err(|cause| wrong(format!("sasl: {cause}")))?;
            if mechanism == Mechanism::Plain && tls_ca.is_none() {
                return Err(wrong("PLAIN shows the password to the network: use TLS (tls-ca), or SCRAM".to_owned()));
            }
            let password = read_private("password", &beside(file))?.trim_end_matches(['\r', '\n']).to_owned();
            Some(Sasl { mechanism, user, password })
        }
        _ => return Err(wrong("sasl, user and password-file go together".to_owned())),
    };
    let authorities = tls_ca.map(read).transpose()?;
    let own = own.as_ref().map(|(chain, key)| (chain.as_slice(), key.as_slice()));
    Security::new(authorities.as_deref(), own, sasl).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_makes_no_sense_is_said_and_no_password_shown() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        write("password", "p3ncil\n", 0o600);
        write("open", "p3ncil\n", 0o644);
        write("ca.pem", "no certificate", 0o644);
        let of = |text: &str| security(Some(&write("ringtap.toml", text, 0o644)));
        assert!(security(None).is_ok() && of("[alarms]\nsensor-id = \"a\"\n").is_ok());
        let good = "[kafka]\nsasl = \"SCRAM-SHA-512\"\nuser = \"u\"\npassword-file = \"password\"\n";
        let security = of(good).unwrap();
        assert!(!format!("{security:?}").contains("p3ncil"), "{security:?}");
        for (text, part) in [
            (good.replace("SCRAM-SHA-512", "PLAIN"), "shows the password"),
            (good.replace("SCRAM-SHA-512", "GSSAPI"), "SCRAM-SHA-256"),
            (good.replace("\"password\"", "\"open\""), "chmod 600"),
            (good.replace("user = \"u\"\n", ""), "go together"),
            (format!("{good}tls-ca = \"ca.pem\"\n"), "no certificate"),
            (format!("{good}tls-key = \"ca.pem\"\n"), "go together"),
            (format!("{good}topic = \"x\"\n"), ":5"),
        ] {
            let error = of(&text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("p3ncil"), "{error}");
        }
    }
}

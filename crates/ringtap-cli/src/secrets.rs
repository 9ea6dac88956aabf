//! What configurations of several subcommands hold that nobody else may read: passwords, SNMPv3 users, files with them.
//!
//! Owns the reading of these parts, and that they are never shown.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ringtap::{Error, Result};
use ringtap_trap::usm::{AuthProtocol, PrivProtocol, User};
use serde::Deserialize;

/// A word that is never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// An SNMPv3 user.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct UserTable {
    pub(crate) name: String,
    auth: Option<String>,
    auth_password: Option<Secret>,
    privacy: Option<String>,
    privacy_password: Option<Secret>,
    #[serde(default)]
    pub(crate) engines: Vec<String>,
}

impl UserTable {
    /// The user; `wrong` makes an error of an object and a cause.
    ///
    /// # Errors
    /// Protocols that are not known, passwords that are missing or too short.
    pub(crate) fn user(&self, wrong: impl Fn(&str, &str) -> Error) -> Result<User> {
        let object = format!("user {:?}", self.name);
        let wrong = |cause: &str| wrong(&object, cause);
        let auth = match (&self.auth, &self.auth_password) {
            (None, None) => None,
            (Some(protocol), Some(password)) => Some((
                AuthProtocol::from_name(protocol)
                    .ok_or_else(|| wrong("auth is one of MD5, SHA, SHA-224, SHA-256, SHA-384, SHA-512"))?,
                password.0.as_str(),
            )),
            _ => return Err(wrong("auth and auth-password go together")),
        };
        let privacy = match (&self.privacy, &self.privacy_password) {
            (None, None) => None,
            (Some(protocol), Some(password)) => Some((
                PrivProtocol::from_name(protocol)
                    .ok_or_else(|| wrong("privacy is one of DES, AES, AES-192, AES-256, AES-192-C, AES-256-C"))?,
                password.0.as_str(),
            )),
            _ => return Err(wrong("privacy and privacy-password go together")),
        };
        let engines: Option<Vec<Vec<u8>>> = self.engines.iter().map(|text| from_hex(text)).collect();
        let engines = engines.ok_or_else(|| wrong("an engine ID is written in hexadecimal digits"))?;
        Ok(User::new(&self.name, auth, privacy).map_err(wrong)?.only_from(engines))
    }
}

/// Reads a configuration that may hold secrets.
///
/// # Errors
/// It can't be read, or others may read it too.
pub(crate) fn read_private(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| Error::os("read the configuration", &name, &error);
    let mode = path.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Error::failed("read the configuration", &name, format!("its mode is {:04o}", mode & 0o7777))
            .way_out(format!("it may hold secrets: chmod 600 {name}")));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Hexadecimal digits, with or without 0x.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

/// A number that nobody can foresee.
///
/// # Errors
/// The kernel's source of them can't be read.
pub(crate) fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| Error::os("read", "/dev/urandom", &error))?;
    Ok(u64::from_ne_bytes(bytes))
}

//! SNMPv3 users as configuration files name them, with secrets that are never shown.
//!
//! Owns the form of `[[user]]` tables. Does not read files.

use std::fmt;

use data_encoding::HEXLOWER_PERMISSIVE;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::usm::{AuthProtocol, PrivProtocol, User};

/// A word that is never shown.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("writeOnly" = true))]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// A user of SNMPv3
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UserTable {
    /// Its name
    pub name: String,
    /// How its messages prove who sent them: MD5, SHA, SHA-224, SHA-256, SHA-384 or SHA-512
    auth: Option<String>,
    /// At least 8 characters
    auth_password: Option<Secret>,
    /// How its messages are encrypted: DES, AES, AES-192, AES-256, AES-192-C or AES-256-C (-C: Cisco's)
    privacy: Option<String>,
    /// At least 8 characters
    privacy_password: Option<Secret>,
    #[serde(default)]
    /// Engine IDs it is valid for, in hexadecimal digits; none: any
    pub engines: Vec<String>,
}

impl UserTable {
    /// Whether its messages prove who sent them.
    pub fn is_authenticated(&self) -> bool {
        self.auth.is_some()
    }

    /// The user.
    ///
    /// # Errors
    /// Protocols that are not known, passwords that are missing or too short.
    pub fn user(&self) -> Result<User, InvalidUser> {
        let invalid = |cause: &'static str| InvalidUser { name: self.name.clone(), cause };
        let auth = match (&self.auth, &self.auth_password) {
            (None, None) => None,
            (Some(protocol), Some(password)) => Some((
                AuthProtocol::from_name(protocol)
                    .ok_or_else(|| invalid("auth is one of MD5, SHA, SHA-224, SHA-256, SHA-384, SHA-512"))?,
                password.0.as_str(),
            )),
            _ => return Err(invalid("auth and auth-password go together")),
        };
        let privacy = match (&self.privacy, &self.privacy_password) {
            (None, None) => None,
            (Some(protocol), Some(password)) => Some((
                PrivProtocol::from_name(protocol)
                    .ok_or_else(|| invalid("privacy is one of DES, AES, AES-192, AES-256, AES-192-C, AES-256-C"))?,
                password.0.as_str(),
            )),
            _ => return Err(invalid("privacy and privacy-password go together")),
        };
        let engines: Option<Vec<Vec<u8>>> = self.engines.iter().map(|text| from_hex(text)).collect();
        let engines = engines.ok_or_else(|| invalid("an engine ID is written in hexadecimal digits"))?;
        Ok(User::new(&self.name, auth, privacy).map_err(invalid)?.only_from(engines))
    }
}

/// A user that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidUser {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub cause: &'static str,
}

impl fmt::Display for InvalidUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {:?}: {}", self.name, self.cause)
    }
}

impl std::error::Error for InvalidUser {}

/// Hexadecimal digits, with or without 0x.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.strip_prefix("0x").unwrap_or(text).as_bytes()).ok()
}

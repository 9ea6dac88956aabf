//! `[[trap.forward]]`: who gets notifications as they come.

use std::net::SocketAddr;

use ringtap::Result;
use ringtap_snmp::message::Version;
use ringtap_snmp::names::Names;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Config;
use crate::admission::Net;
use crate::forward::{self, Manager};

/// A manager
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ForwardTable {
    /// Its ADDRESS:PORT; without a port 162
    to: Address,
    /// Versions of SNMP that it gets; none: all
    #[serde(default)]
    versions: Vec<VersionName>,
    /// Networks or addresses whose notifications it gets; none: all
    #[serde(default)]
    sources: Vec<Net>,
    /// Notifications that it gets, with what is beneath; none: all
    #[serde(default)]
    notifications: Vec<String>,
    /// Send traps of v1 as v2c, with snmpTrapAddress.0 (RFC 3584)
    #[serde(default)]
    as_v2c: bool,
    /// Send with the sender's address as the source: needs root at the start
    #[serde(default)]
    keep_source: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
struct Address(SocketAddr);

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        forward::address(&text).map(Self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum VersionName {
    V1,
    V2c,
    V3,
}

impl Config {
    /// Who gets notifications.
    ///
    /// # Errors
    /// A name that is not known.
    pub(crate) fn managers(&self, names: &Names) -> Result<Vec<Manager>> {
        let resolve = |name: &String| {
            names.resolve(name).ok_or_else(|| {
                self.wrong("a [[trap.forward]]", &format!("{name:?} is not known"))
                    .way_out("write it in numbers, or name its MIB's directory with --mibs")
            })
        };
        let manager = |table: &ForwardTable| -> Result<Manager> {
            Ok(Manager {
                to: table.to.0,
                versions: (table.versions.iter())
                    .map(|version| match version {
                        VersionName::V1 => Version::V1,
                        VersionName::V2c => Version::V2c,
                        VersionName::V3 => Version::V3,
                    })
                    .collect(),
                sources: table.sources.iter().map(|net| net.0).collect(),
                notifications: table.notifications.iter().map(resolve).collect::<Result<_>>()?,
                as_v2c: table.as_v2c,
                keeps_source: table.keep_source,
            })
        };
        self.trap.forward.iter().map(manager).collect()
    }
}

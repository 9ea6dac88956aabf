//! Owns: the sensor's variables and bounds, from the command line and a TOML file; the command line wins.
//! Does not: read rules.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use ringtap::{Error, Result};
use ringtap_detect::rules::Variables;
use ringtap_detect::{Limits, Policies, Policy};
use serde::Deserialize;

use super::Args;
use super::snmp::Table;
use crate::secrets::read_private;

/// Where alarm datagrams go.
#[derive(Debug, Clone, Copy)]
pub struct AlarmTarget {
    pub(super) mac: [u8; 6],
    pub(super) address: SocketAddr,
}

/// Reads NAME=VALUE.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("needs NAME=VALUE")?;
    let name = name.trim_start_matches('$');
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name { Ok((name.to_owned(), value.to_owned())) } else { Err(format!("'{name}' is no name of a variable")) }
}

/// Reads MAC@ADDRESS:PORT.
pub(super) fn alarm_target(text: &str) -> Result<AlarmTarget, String> {
    let (mac, address) = text.split_once('@').ok_or("needs MAC@ADDRESS:PORT")?;
    let bytes: Option<Vec<u8>> = mac.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let mac = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| format!("'{mac}' is no MAC address"))?;
    let address = address.parse().map_err(|_| format!("'{address}' is no ADDRESS:PORT"))?;
    Ok(AlarmTarget { mac, address })
}

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    variables: BTreeMap<String, String>,
    bounds: Bounds,
    overlap: BTreeMap<String, Vec<String>>,
    snmp: Option<Table>,
}

/// Bounds in the file; what is left out stays at its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Bounds {
    budget: Option<u32>,
    flows: Option<usize>,
    early_bytes: Option<usize>,
    window: Option<usize>,
    windows: Option<usize>,
    fragmented: Option<usize>,
    fragment_bytes: Option<usize>,
    thresholds: Option<usize>,
    host_bits: Option<usize>,
    tags: Option<usize>,
}

/// Variables and bounds.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) variables: Variables,
    pub(super) limits: Limits,
    /// Where notifications go, and the name of the file that says so.
    pub(super) snmp: Option<(Table, String)>,
}

impl Config {
    /// Of these options.
    ///
    /// # Errors
    /// The file can't be read or makes no sense.
    pub(super) fn of(args: &Args) -> Result<Self> {
        let file = args.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let mut variables = Variables::default();
        let given = args.variables.iter().map(|(name, value)| (name, value));
        for (name, value) in file.variables.iter().chain(given) {
            variables.set(name, value);
        }
        let policies = policies(args, &file.overlap, &variables)?;
        let (usual, bounds) = (Limits::default(), file.bounds);
        let limits = Limits {
            budget: args.budget.map_or(bounds.budget.unwrap_or(usual.budget), |budget| budget.clamp(1, 1 << 31) as u32),
            flows: args.flows.map_or(bounds.flows.unwrap_or(usual.flows), |flows| flows as usize),
            early_bytes: bounds.early_bytes.unwrap_or(usual.early_bytes),
            window: bounds.window.unwrap_or(usual.window).clamp(1, 65536),
            windows: bounds.windows.unwrap_or(usual.windows),
            fragmented: bounds.fragmented.unwrap_or(usual.fragmented),
            fragment_bytes: bounds.fragment_bytes.unwrap_or(usual.fragment_bytes),
            thresholds: bounds.thresholds.unwrap_or(usual.thresholds),
            host_bits: bounds.host_bits.unwrap_or(usual.host_bits),
            tags: bounds.tags.unwrap_or(usual.tags),
            checksums: !args.no_checksums,
            timed: args.profile,
            policies,
            ..usual
        };
        let snmp = file.snmp.zip(args.config.as_deref().map(|path| path.display().to_string()));
        Ok(Self { variables, limits, snmp })
    }
}

/// The overlap policies of the file's networks; of all other hosts that of the command line.
fn policies(args: &Args, networks: &BTreeMap<String, Vec<String>>, variables: &Variables) -> Result<Policies> {
    let mut policies = Policies::from(args.overlap.unwrap_or_default());
    for (name, addresses) in networks {
        let object = args.config.as_deref().unwrap_or(Path::new("")).display().to_string();
        let wrong = |cause: String| Error::failed("read configuration", format!("{object}: [overlap] {name}"), cause);
        let policy: Policy = name.parse().map_err(wrong)?;
        for text in addresses {
            policies.add(text, variables, policy).map_err(wrong)?;
        }
    }
    Ok(policies)
}

fn read(path: &Path) -> Result<File> {
    let object = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error::os("read configuration", &object, &error))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        // The message alone: the lines around the place may hold a secret.
        let at = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Error::failed("read configuration", format!("{object}:{at}"), error.message())
            .way_out("see [variables], [bounds], [overlap] and [snmp] in ringtap sensor --help")
    })?;
    if file.snmp.is_some() {
        read_private(path)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(variable("$HOME_NET=[1.2.3.4]").unwrap().0, "HOME_NET");
        assert!(variable("HOME_NET").is_err() && variable("A B=1").is_err());
        assert_eq!(alarm_target("02:00:00:00:00:01@192.0.2.1:9").unwrap().mac, [2, 0, 0, 0, 0, 1]);
        assert!(alarm_target("02:00:00:00:00@192.0.2.1:9").is_err());
    }

    #[test]
    fn the_file() {
        let file: File = toml::from_str("[variables]\nHOME_NET = \"any\"\n[bounds]\nflows = 10\n").unwrap();
        assert_eq!((file.variables["HOME_NET"].as_str(), file.bounds.flows), ("any", Some(10)));
        assert!(toml::from_str::<File>("[bounds]\nflow = 10\n").is_err());
    }
}
